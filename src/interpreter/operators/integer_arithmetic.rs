//! Arithmetic of 64-bit integers as PyTorch has it: it wraps, and shifts of any width are defined.

/// Integer powers wrap; a negative exponent gives 0 except for the bases 1 and -1.
pub(super) fn int_power(base: i64, exponent: i64) -> i64 {
    match (base, exponent) {
        (_, 0..) => power(base, exponent as u64),
        (1, _) => 1,
        (-1, _) => {
            if exponent % 2 == 0 {
                1
            } else {
                -1
            }
        }
        _ => 0,
    }
}

fn power(mut base: i64, mut exponent: u64) -> i64 {
    let mut result = 1i64;
    while exponent > 0 {
        if exponent & 1 == 1 {
            result = result.wrapping_mul(base);
        }
        base = base.wrapping_mul(base);
        exponent >>= 1;
    }
    result
}

/// Shifts by 64 and more give 0 bits, and so do negative shifts.
pub(super) fn shifted(a: i64, by: i64, left: bool) -> i64 {
    match (by, left) {
        (0..64, true) => a.wrapping_shl(by as u32),
        (0..64, false) => a >> by,
        (_, true) => 0,
        (_, false) => a >> 63,
    }
}
