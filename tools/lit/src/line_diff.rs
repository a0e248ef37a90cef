//! Line-by-line differences of two texts.

/// Maximum number of lines that are aligned; longer differences are shown as one block.
const ALIGNED: usize = 2_000;

/// A line-by-line difference with `-` for `old` and `+` for `new`; empty when they are equal.
pub(crate) fn line_diff(old: &str, new: &str) -> String {
    if old == new {
        return String::new();
    }
    let (old, new): (Vec<&str>, Vec<&str>) = (old.split('\n').collect(), new.split('\n').collect());
    let head = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let most = old.len().min(new.len()) - head;
    let tail = old.iter().rev().zip(new.iter().rev()).take(most).take_while(|(a, b)| a == b).count();
    let mut out = String::new();
    let from = head.saturating_sub(3);
    for line in &old[from..head] {
        push(&mut out, ' ', line);
    }
    middle(&old[head..old.len() - tail], &new[head..new.len() - tail], &mut out);
    for line in old[old.len() - tail..].iter().take(3) {
        push(&mut out, ' ', line);
    }
    out
}

fn push(out: &mut String, sign: char, line: &str) {
    out.push(sign);
    out.push_str(line);
    out.push('\n');
}

/// Appends the difference of the lines that are not common to both ends.
fn middle(old: &[&str], new: &[&str], out: &mut String) {
    let aligned = old.len() <= ALIGNED && new.len() <= ALIGNED;
    let common = if aligned { lengths(old, new) } else { Vec::new() };
    let width = new.len() + 1;
    let (mut i, mut j) = (0, 0);
    while i < old.len() || j < new.len() {
        let both = i < old.len() && j < new.len();
        if aligned && both && old[i] == new[j] {
            push(out, ' ', old[i]);
            (i, j) = (i + 1, j + 1);
        } else if i < old.len() && (!both || !aligned || common[(i + 1) * width + j] >= common[i * width + j + 1]) {
            push(out, '-', old[i]);
            i += 1;
        } else {
            push(out, '+', new[j]);
            j += 1;
        }
    }
}

/// For each pair of suffixes, the length of their longest common subsequence.
fn lengths(old: &[&str], new: &[&str]) -> Vec<u32> {
    let width = new.len() + 1;
    let mut table = vec![0; (old.len() + 1) * width];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            table[i * width + j] = match old[i] == new[j] {
                true => table[(i + 1) * width + j + 1] + 1,
                false => table[(i + 1) * width + j].max(table[i * width + j + 1]),
            };
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::line_diff;

    #[test]
    fn common_lines_are_kept_together() {
        assert_eq!(line_diff("a\nb\nc\n", "a\nx\nc\n"), " a\n-b\n+x\n c\n \n");
        assert_eq!(line_diff("a\nb\nc\nd", "b\nc\ne\nd"), "-a\n b\n c\n+e\n d\n");
        assert_eq!(line_diff("a", "a"), "");
    }
}
