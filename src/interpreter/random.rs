//! Random numbers that depend on the place of the draw, not on earlier draws.

use std::cell::RefCell;
use std::collections::BTreeMap;

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

    /// `n` numbers as [`Philox::normal`] draws them one after the other. The first numbers of
    /// recent streams are kept: a search for inputs draws the same ones in each of hundreds of
    /// runs.
    pub(crate) fn normals(&mut self, n: usize) -> Vec<f64> {
        if self.used != 4 || self.counter[0] != 0 || n > MOST_KEPT {
            return (0..n).map(|_| self.normal()).collect();
        }
        let numbers = KEPT.with_borrow_mut(|kept| kept.first(self, n));
        self.skip(2 * n);
        numbers
    }

    /// Skips `n` words of a new stream.
    fn skip(&mut self, n: usize) {
        self.counter[0] = (n / 4) as u32;
        self.used = 4;
        (0..n % 4).for_each(|_| {
            self.bits();
        });
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

/// The maximal number of kept numbers of a stream.
const MOST_KEPT: usize = 1 << 20;
/// The maximal number of kept numbers, by each thread: 32 MiB.
const MOST_KEPT_IN_ALL: usize = 1 << 22;

thread_local! {
    static KEPT: RefCell<Kept> = const { RefCell::new(Kept { streams: BTreeMap::new(), numbers: 0 }) };
}

/// Key and counter of a new stream.
type Stream = ([u32; 2], [u32; 4]);

/// The first normal numbers of streams, each with the state after them.
struct Kept {
    streams: BTreeMap<Stream, (Vec<f64>, Philox)>,
    /// How many there are in all streams.
    numbers: usize,
}

impl Kept {
    /// The first `n` numbers of a new stream.
    fn first(&mut self, stream: &Philox, n: usize) -> Vec<f64> {
        if self.numbers + n > MOST_KEPT_IN_ALL {
            self.streams.clear();
            self.numbers = 0;
        }
        let (numbers, end) =
            self.streams.entry((stream.key, stream.counter)).or_insert_with(|| (Vec::new(), stream.clone()));
        let more = n.saturating_sub(numbers.len());
        numbers.extend((0..more).map(|_| end.normal()));
        self.numbers += more;
        numbers[..n].to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Kept numbers are those of single draws, and the stream continues after them.
    #[test]
    fn kept_numbers_are_those_of_single_draws() {
        for n in [0, 1, 2, 3, 7, 2, MOST_KEPT + 1] {
            let (mut single, mut kept) = (Philox::new(3, 1, 1), Philox::new(3, 1, 1));
            let numbers: Vec<f64> = (0..n).map(|_| single.normal()).collect();
            assert_eq!(kept.normals(n), numbers);
            assert_eq!((kept.bits(), kept.normals(3)), (single.bits(), (0..3).map(|_| single.normal()).collect()));
        }
        let most = MOST_KEPT_IN_ALL / MOST_KEPT;
        for place in 0..2 * most as u64 {
            let (mut single, mut kept) = (Philox::new(3, place, 1), Philox::new(3, place, 1));
            assert_eq!(kept.normals(MOST_KEPT)[0], single.normal());
            KEPT.with_borrow(|kept| assert!(kept.numbers <= MOST_KEPT_IN_ALL && kept.streams.len() <= most));
        }
    }

    /// Known answers from the authors' Random123, `kat_vectors`.
    #[test]
    fn known_answers() {
        assert_eq!(encipher([0; 4], [0; 2]), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
        assert_eq!(encipher([u32::MAX; 4], [u32::MAX; 2]), [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]);
    }
}
