//! The verifier: scoping, arity and types of a graph, all errors in one run.
//!
//! [`verify`] traverses a graph and its sections once, in printed order, and reports its findings;
//! [`render`] draws the report into the text of the graph:
//!
//! ```text
//!   %5 : Tensor = aten::add(%x, %9, %1)
//!                               ^~ error: %9 is used before it is defined
//!                                  note: `aten::mul` defines it further down
//! ```
//!
//! An **error** makes the graph meaningless, so that no pass may run on it: values that are
//! undefined or out of scope, blocks and sections whose arity does not match, broken links. Text
//! that PyTorch's own reader and lint accept gets at most a **warning**: operands that no overload
//! takes, results of another type than the schema's, a name defined twice. Unknown operators are
//! not reported at all, unless they look like a misspelling.
//!
//! The running time is linear in nodes and operands, and nothing recurses: blocks and sections may
//! nest to any depth. Overloads are looked up once for each combination of kind and types. In debug
//! builds the links of the graph are checked as well.

mod arity;
mod carriers;
mod constants;
mod finding;
mod links;
mod misspelling;
mod rendering;
mod scoping;
mod typing;

#[cfg(test)]
mod verify_test;

pub use crate::text::Severity;
pub use finding::Spot;
pub(crate) use finding::{Carrier, Sink, carried};
pub use finding::{Finding, Place, Report};
pub use rendering::Position;
pub use rendering::{positions, render};

use crate::ir::Graph;
use scoping::Walk;
use typing::TypeTable;

/// Checks structure and types of a graph and its sections.
pub fn verify(graph: &Graph) -> Report {
    check(graph, Some(TypeTable::default()))
}

/// As [`verify`] without types and schemas: the properties that must hold after every pass.
pub fn verify_structure_only(graph: &Graph) -> Report {
    check(graph, None)
}

/// Checks the graphs in the order in which they are printed: sections of a section follow it
/// directly.
fn check(graph: &Graph, mut types: Option<TypeTable>) -> Report {
    let mut report = Report::default();
    let mut pending: Vec<(&Graph, Option<Carrier>)> = vec![(graph, None)];
    while let Some((graph, carrier)) = pending.pop() {
        let section = report.open_section(carrier);
        if cfg!(debug_assertions) {
            links::check(&mut report.sink(graph, section));
        }
        let carriers = Walk::new(graph, section, &mut report, types.as_mut()).run();
        pending.extend(carried(graph, section, carriers).into_iter().rev());
    }
    report
}
