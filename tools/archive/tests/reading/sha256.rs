//! SHA-256 (FIPS 180-4), for the recorded digests.

/// The first 32 bits of the fractional parts of the roots of the first primes: square roots for
/// the start, cube roots for the rounds.
fn fraction(prime: u32, cube: bool) -> u32 {
    // Newton's iteration on integers: the root of prime * 2^(32 k) is exact to its last bit.
    let power = if cube { 3 } else { 2 };
    let wanted = u128::from(prime) << (32 * power);
    let (mut low, mut high) = (0u128, 1u128 << 37);
    while high - low > 1 {
        let middle = (low + high) / 2;
        if middle.checked_pow(power).is_some_and(|value| value <= wanted) { low = middle } else { high = middle }
    }
    low as u32
}

fn primes(count: usize) -> Vec<u32> {
    (2..).filter(|n| (2..*n).take_while(|d| d * d <= *n).all(|d| *n % d != 0)).take(count).collect()
}

/// The digest in hexadecimal digits.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    let rounds: Vec<u32> = primes(64).into_iter().map(|prime| fraction(prime, true)).collect();
    let mut state: Vec<u32> = primes(8).into_iter().map(|prime| fraction(prime, false)).collect();
    let mut padded = bytes.to_vec();
    padded.push(0x80);
    while padded.len() % 64 != 56 {
        padded.push(0);
    }
    padded.extend((bytes.len() as u64 * 8).to_be_bytes());
    for block in padded.chunks_exact(64) {
        compress(&mut state, block, &rounds);
    }
    state.iter().map(|word| format!("{word:08x}")).collect()
}

fn compress(state: &mut [u32], block: &[u8], rounds: &[u32]) {
    let mut words: Vec<u32> =
        block.chunks_exact(4).map(|b| u32::from_be_bytes(b.try_into().expect("four bytes"))).collect();
    for at in 16..64 {
        let (a, b) = (words[at - 15], words[at - 2]);
        let small = a.rotate_right(7) ^ a.rotate_right(18) ^ (a >> 3);
        let large = b.rotate_right(17) ^ b.rotate_right(19) ^ (b >> 10);
        words.push(words[at - 16].wrapping_add(small).wrapping_add(words[at - 7]).wrapping_add(large));
    }
    let mut v: Vec<u32> = state.to_vec();
    for (word, round) in words.iter().zip(rounds) {
        let s1 = v[4].rotate_right(6) ^ v[4].rotate_right(11) ^ v[4].rotate_right(25);
        let choice = (v[4] & v[5]) ^ (!v[4] & v[6]);
        let t1 = v[7].wrapping_add(s1).wrapping_add(choice).wrapping_add(*round).wrapping_add(*word);
        let s0 = v[0].rotate_right(2) ^ v[0].rotate_right(13) ^ v[0].rotate_right(22);
        let majority = (v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]);
        v.rotate_right(1);
        v[4] = v[4].wrapping_add(t1);
        v[0] = t1.wrapping_add(s0.wrapping_add(majority));
    }
    state.iter_mut().zip(v).for_each(|(old, new)| *old = old.wrapping_add(new));
}

#[test]
fn the_example_of_the_standard() {
    assert_eq!(sha256(b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}
