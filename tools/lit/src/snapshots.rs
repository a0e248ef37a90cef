//! Snapshots: blocks of a test file that contain the output of a command:
//!
//! ```text
//! # SNAPSHOT:
//! # | graph(%x : Tensor):
//! # |   return (%x)
//! # END
//! ```

use std::ops::Range;

/// One snapshot block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    /// The lines between `SNAPSHOT:` and `END`, counted from 0.
    pub(crate) lines: Range<usize>,
    /// The text before `SNAPSHOT:`.
    leader: String,
    /// The content of the block.
    pub(crate) text: String,
}

/// Marks the last line of a text that does not end in a newline.
const NO_NEWLINE: &str = "\\ no newline at the end";

/// Finds the blocks, or returns the line of an error.
pub(crate) fn blocks(file: &str) -> Result<Vec<Block>, (usize, String)> {
    let mut blocks = Vec::new();
    let mut lines = file.lines().enumerate();
    while let Some((start, line)) = lines.next() {
        let Some(leader) = opening(line) else { continue };
        let mut text = String::new();
        let end = loop {
            let Some((index, line)) = lines.next() else {
                return Err((start + 1, "this SNAPSHOT has no END".to_owned()));
            };
            let content = line.trim_start().strip_prefix(leader.trim()).unwrap_or(line).trim_start();
            if content.trim_end() == "END" {
                break index;
            }
            push(&mut text, content).map_err(|message| (index + 1, message.to_owned()))?;
        };
        blocks.push(Block { lines: start + 1..end, leader: leader.to_owned(), text });
    }
    Ok(blocks)
}

/// The leader of a line that opens a block.
fn opening(line: &str) -> Option<&str> {
    let leader = line.strip_suffix("SNAPSHOT:").or_else(|| line.trim_end().strip_suffix("SNAPSHOT:"))?;
    let comment = !leader.trim().is_empty() && leader.trim().chars().all(|c| matches!(c, '#' | '/' | ';'));
    comment.then_some(leader)
}

/// Adds a line of a block, without its leader, to the text.
fn push(text: &mut String, content: &str) -> Result<(), &'static str> {
    if content.trim_end() == NO_NEWLINE {
        text.truncate(text.trim_end_matches('\n').len());
        return Ok(());
    }
    let line = content
        .strip_prefix('|')
        .ok_or("a line of a snapshot must start with `# | `, and the block end with `# END`")?;
    text.push_str(line.strip_prefix(' ').unwrap_or(line));
    text.push('\n');
    Ok(())
}

/// The file with new contents of its first blocks; missing blocks are appended.
pub(crate) fn rewrite(file: &str, blocks: &[Block], texts: &[String]) -> String {
    let mut out = String::with_capacity(file.len());
    let mut lines = file.split_inclusive('\n').enumerate().peekable();
    for (block, text) in blocks.iter().zip(texts) {
        while let Some((_, line)) = lines.next_if(|(index, _)| *index < block.lines.start) {
            out.push_str(line);
        }
        while lines.next_if(|(index, _)| *index < block.lines.end).is_some() {}
        out.push_str(&render(&block.leader, text));
    }
    out.extend(lines.map(|(_, line)| line));
    for text in texts.iter().skip(blocks.len()) {
        if !out.is_empty() && !out.ends_with('\n') {
            out.push('\n');
        }
        out.push_str(&format!("# SNAPSHOT:\n{}# END\n", render("# ", text)));
    }
    out
}

fn render(leader: &str, text: &str) -> String {
    let line = |line: &str| match line {
        "" => format!("{leader}|\n"),
        _ => format!("{leader}| {line}\n"),
    };
    let mut out: String = text.split_terminator('\n').map(line).collect();
    if !text.is_empty() && !text.ends_with('\n') {
        out.push_str(&format!("{leader}{NO_NEWLINE}\n"));
    }
    out
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::{blocks, rewrite};

    #[test]
    fn blocks_are_read() {
        let file = "# RUN: x\n# SNAPSHOT:\n# | a\n# |\n# |  b\n# END\nrest\n";
        let found = blocks(file).unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].text, "a\n\n b\n");
        assert_eq!(found[0].lines, 2..5);
    }

    #[test]
    fn written_snapshots_are_read_back() {
        for text in ["", "a\n", "a", "\n", "a\n\n  b\n", " # END\n| x\n"] {
            let file = "# RUN: x\n  // SNAPSHOT:\n  // END\nrest";
            let new = rewrite(file, &blocks(file).unwrap(), &[text.to_owned()]);
            let found = blocks(&new).unwrap();
            assert_eq!(found[0].text, text, "{new}");
            assert_eq!(rewrite(&new, &found, &[text.to_owned()]), new);
            assert!(new.ends_with("// END\nrest"), "{new}");
        }
    }

    #[test]
    fn missing_blocks_are_added() {
        let new = rewrite("# RUN: x", &[], &["a\n".to_owned(), "b\n".to_owned()]);
        assert_eq!(new, "# RUN: x\n# SNAPSHOT:\n# | a\n# END\n# SNAPSHOT:\n# | b\n# END\n");
    }

    #[test]
    fn broken_blocks_are_errors() {
        assert_eq!(blocks("# SNAPSHOT:\n# | a\n").unwrap_err().0, 1);
        assert_eq!(blocks("# SNAPSHOT:\ngraph\n# END").unwrap_err().0, 2);
    }
}
