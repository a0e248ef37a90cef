//! Pseudo-random numbers (SplitMix64): reproducible on all machines.

/// A generator; its state is the seed.
pub struct Chance(pub u64);

impl Chance {
    /// The generator of case `index` of a campaign: any case can be generated without the earlier
    /// ones.
    pub fn of_case(seed: u64, index: u64) -> Chance {
        let mut chance = Chance(seed ^ index.wrapping_mul(0xd605_bbb5_8c8a_bbc9));
        chance.draw();
        chance
    }

    /// The next number.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`; 0 if there is none.
    pub fn below(&mut self, bound: usize) -> usize {
        if bound == 0 { 0 } else { (self.draw() % bound as u64) as usize }
    }

    /// True with probability 1/`n`.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// An element of a non-empty list.
    pub fn pick<'a, T: ?Sized>(&mut self, all: &[&'a T]) -> &'a T {
        all[self.below(all.len())]
    }
}
