//! Shrinks an input while it still fails: removes lines first, then bytes.

/// The smallest input found that still fails.
pub fn shrink(input: &[u8], mut fails: impl FnMut(&[u8]) -> bool) -> Vec<u8> {
    let mut best = input.to_vec();
    for by_lines in [true, false, true] {
        let pieces = |text: &[u8]| match by_lines {
            true => crate::byte_damage::lines(text),
            false => (0..text.len()).map(|i| i..i + 1).collect(),
        };
        best = without_pieces(best, pieces, &mut fails);
    }
    best
}

/// Removes runs of pieces, long ones first.
fn without_pieces(
    mut best: Vec<u8>,
    pieces: impl Fn(&[u8]) -> Vec<std::ops::Range<usize>>,
    fails: &mut impl FnMut(&[u8]) -> bool,
) -> Vec<u8> {
    let mut run = pieces(&best).len().next_power_of_two() / 2;
    while run > 0 {
        let mut first = 0;
        loop {
            let all = pieces(&best);
            let Some(start) = all.get(first).map(|piece| piece.start) else { break };
            let end = all[(first + run).min(all.len()) - 1].end;
            let smaller = [&best[..start], &best[end..]].concat();
            if fails(&smaller) {
                best = smaller;
            } else {
                first += run;
            }
        }
        run /= 2;
    }
    best
}
