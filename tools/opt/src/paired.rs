//! Statistics of measurements that were made in pairs: what disturbs one of a pair disturbs the other too, and leaves their ratio alone.

/// The middle of some numbers, and between which two of them the true middle lies in 95 of 100 cases.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Middle {
    pub(crate) median: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

impl Middle {
    /// Of at least one number. Nothing is assumed of how the numbers are spread: each is as likely above the true middle as below it,
    /// so that ranks of the binomial distribution bound it. Of fewer than six numbers the ends are given, which bound it less surely.
    pub(crate) fn of(mut numbers: Vec<f64>) -> Middle {
        numbers.sort_by(f64::total_cmp);
        let n = numbers.len();
        let median = f64::midpoint(numbers[(n - 1) / 2], numbers[n / 2]);
        let rank = rank(n);
        Middle { median, low: numbers[rank], high: numbers[n - 1 - rank] }
    }
}

/// How many of `n` sorted numbers may be left away at each end: the chance that the middle is among them stays at 2.5 of 100.
fn rank(n: usize) -> usize {
    let (mut term, mut sum, mut k) = (0.5f64.powi(n as i32), 0.0, 0);
    while sum + term <= 0.025 && k < n / 2 {
        sum += term;
        k += 1;
        term *= (n - k + 1) as f64 / k as f64;
    }
    k.saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The ranks of the sign test's tables, of two sides at 0.05: critical values 0 of 6, 1 of 9, 2 of 12, 5 of 20, 9 of 30.
    #[test]
    fn ranks_are_those_of_the_sign_test() {
        for (n, critical) in [(6, 0), (9, 1), (12, 2), (20, 5), (30, 9)] {
            assert_eq!(rank(n), critical, "{n}");
        }
        assert_eq!([1, 2, 5].map(rank), [0, 0, 0]);
    }

    #[test]
    fn the_middle_of_an_even_number_lies_between_two() {
        let middle = Middle::of(vec![4.0, 1.0, 2.0, 3.0]);
        assert_eq!(middle, Middle { median: 2.5, low: 1.0, high: 4.0 });
    }
}
