//! Random numbers that depend on the place of the draw, not on earlier draws.

/// Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC
/// 2011): an enciphered counter.
#[derive(Clone, Debug)]
pub struct Philox {
    key: [u32; 2],
    counter: [u32; 4],
    ready: [u32; 4],
    used: usize,
}

impl Philox {
    /// The stream for a seed, a place and the number of earlier draws at that place.
    pub fn new(seed: u64, place: u64, n: u64) -> Philox {
        let counter = [0, n as u32, place as u32, (place >> 32) as u32 ^ (n >> 32) as u32];
        Philox { key: [seed as u32, (seed >> 32) as u32], counter, ready: [0; 4], used: 4 }
    }

    /// 32 random bits.
    pub(crate) fn bits(&mut self) -> u32 {
        if self.used == 4 {
            self.ready = encipher(self.counter, self.key);
            self.counter[0] = self.counter[0].wrapping_add(1);
            self.used = 0;
        }
        self.used += 1;
        self.ready[self.used - 1]
    }

    /// 64 random bits.
    pub(crate) fn wide_bits(&mut self) -> u64 {
        u64::from(self.bits()) << 32 | u64::from(self.bits())
    }

    /// Uniform in [0, 1), with 24 bits: the precision of `f32`.
    pub fn uniform(&mut self) -> f64 {
        f64::from(self.bits() >> 8) / f64::from(1u32 << 24)
    }

    /// Standard normal, by the Box-Muller method.
    pub fn normal(&mut self) -> f64 {
        let (u, v) = (1.0 - self.uniform(), self.uniform());
        (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
    }

    /// Uniform in `low..high`.
    pub fn int(&mut self, low: i64, high: i64) -> i64 {
        let span = high.wrapping_sub(low).max(1) as u64;
        low.wrapping_add((self.wide_bits() % span) as i64)
    }

    /// Uniform in `0..n`, for choices.
    pub fn below(&mut self, n: usize) -> usize {
        ((u64::from(self.bits()) * n as u64) >> 32) as usize
    }

    /// True with probability `1/n`.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}

fn encipher(mut counter: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    for _ in 0..10 {
        let (a, b) = (u64::from(counter[0]) * 0xD251_1F53, u64::from(counter[2]) * 0xCD9E_8D57);
        counter = [(b >> 32) as u32 ^ counter[1] ^ key[0], b as u32, (a >> 32) as u32 ^ counter[3] ^ key[1], a as u32];
        key = [key[0].wrapping_add(0x9E37_79B9), key[1].wrapping_add(0xBB67_AE85)];
    }
    counter
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Known answers from the authors' Random123, `kat_vectors`.
    #[test]
    fn known_answers() {
        assert_eq!(encipher([0; 4], [0; 2]), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
        assert_eq!(encipher([u32::MAX; 4], [u32::MAX; 2]), [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]);
    }
}
