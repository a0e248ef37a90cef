//! Statistics of paired measurements: a disturbance affects both of a pair and leaves their ratio
//! unchanged.

use serde_json::{Value, json};

/// The median of a sample, with a 95 % confidence interval of the true median.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Middle {
    pub(crate) median: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

impl Middle {
    /// Of at least one number. No distribution is assumed: each number is as likely above the true
    /// median as below it, so ranks of the binomial distribution bound it. For fewer than six
    /// numbers the extremes are given, at less than 95 % confidence.
    pub(crate) fn of(mut numbers: Vec<f64>) -> Middle {
        numbers.sort_by(f64::total_cmp);
        let n = numbers.len();
        let median = f64::midpoint(numbers[(n - 1) / 2], numbers[n / 2]);
        let rank = rank(n);
        Middle { median, low: numbers[rank], high: numbers[n - 1 - rank] }
    }

    pub(crate) fn json(self) -> Value {
        json!({"median": self.median, "low": self.low, "high": self.high})
    }
}

/// The number of order statistics of `n` that may be dropped at each end, so that the median is
/// beyond them with a probability of at most 2.5 %.
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

    /// The critical values of the two-sided sign test at 0.05: 0 for n = 6, 1 for 9, 2 for 12, 5
    /// for 20, 9 for 30.
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
