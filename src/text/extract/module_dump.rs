//! The dump of a module, `print(module._c.dump_to_str(True, False, False))`: it names the method
//! that a graph belongs to.
//!
//! ```text
//! module __torch__.M {
//!   methods {
//!     method forward {
//!       graph(%self : __torch__.M, %x : Tensor):
//! ```

use super::plain;

/// The open braces with their headings.
#[derive(Default)]
pub(super) struct ModuleDump {
    open: Vec<Open>,
}

enum Open {
    Module(String),
    Method(String),
    Other,
}

impl ModuleDump {
    /// Processes a line that belongs to no graph.
    pub(crate) fn line(&mut self, line: &[u8]) {
        let line = line.trim_ascii();
        if line == b"}" {
            self.open.pop();
            return;
        }
        let Some(head) = line.strip_suffix(b" {") else { return };
        let opened = match (named(head, b"module "), named(head, b"method ")) {
            (Some(module), _) => Open::Module(module),
            (_, Some(method)) => Open::Method(method),
            _ => Open::Other,
        };
        // Braces of other texts are ignored.
        if !self.open.is_empty() || matches!(opened, Open::Module(_)) {
            self.open.push(opened);
        }
    }

    /// The method whose braces are open, such as `__torch__.M.forward`.
    pub(crate) fn method(&self) -> Option<String> {
        let Some(Open::Method(method)) = self.open.last() else { return None };
        let module = self.open.iter().rev().find_map(|open| match open {
            Open::Module(name) => Some(name),
            _ => None,
        });
        Some(format!("{}.{method}", module?))
    }
}

/// The name after a keyword at the end of a line, after any log prefix.
fn named(head: &[u8], keyword: &[u8]) -> Option<String> {
    let at = memchr::memmem::rfind(head, keyword)?;
    let name = &head[at + keyword.len()..];
    let begins = at == 0 || head[at - 1].is_ascii_whitespace();
    (begins && !name.is_empty() && !name.contains(&b' ')).then(|| plain(name))
}
