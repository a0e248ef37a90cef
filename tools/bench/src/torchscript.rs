//! Programs as TorchScript textual IR, in the layout that PyTorch prints.

use std::fmt;
use std::io::{self, Write};

use super::dialect::{Expr, Kind, N, Step, Val, Writer, X, Y};

/// One value in this many has a name that is not a bare number.
const NAMED_EVERY: u32 = 16;

/// Writes TorchScript textual IR.
pub struct TorchScript<'w> {
    out: &'w mut dyn Write,
    indent: usize,
}

impl<'w> TorchScript<'w> {
    /// A writer into `out`.
    pub fn new(out: &'w mut dyn Write) -> Self {
        TorchScript { out, indent: 2 }
    }

    /// One node: its result, the result's type, the text before the parenthesis, the operands.
    fn node(&mut self, out: Val, ty: &str, head: &str, operands: &[Val]) -> io::Result<()> {
        write!(self.out, "{:w$}{} : {ty} = {head}(", "", Name(out), w = self.indent)?;
        for (i, &operand) in operands.iter().enumerate() {
            let comma = if i == 0 { "" } else { ", " };
            write!(self.out, "{comma}{}", Name(operand))?;
        }
        self.out.write_all(b")\n")
    }

    /// The first line of a block; `indent` is that of its nodes.
    fn open_block(&mut self, index: u32) -> io::Result<()> {
        writeln!(self.out, "{:w$}block{index}():", "", w = self.indent - 2)
    }

    /// The last line of a block.
    fn close_block(&mut self, yielded: Val) -> io::Result<()> {
        writeln!(self.out, "{:w$}-> ({})", "", Name(yielded), w = self.indent)
    }
}

impl Writer for TorchScript<'_> {
    fn begin(&mut self) -> io::Result<()> {
        let (x, y, n) = (Name(X), Name(Y), Name(N));
        writeln!(self.out, "graph({x} : Tensor,\n      {y} : Tensor,\n      {n} : int):")
    }

    fn step(&mut self, step: &Step) -> io::Result<()> {
        match *step {
            Step::Constant { out, value } => self.node(out, "int", &format!("prim::Constant[value={value}]"), &[]),
            Step::Pure { out, ref expr } => self.node(out, "Tensor", head(expr), expr.operands()),
            Step::AddInt { out, a, b } => self.node(out, "int", "aten::add", &[a, b]),
            Step::Greater { out, a, b } => self.node(out, "bool", "aten::gt", &[a, b]),
            Step::If { out, cond } => {
                self.node(out, "Tensor", "prim::If", &[cond])?;
                self.indent += 4;
                self.open_block(0)
            }
            Step::Else { yielded } => {
                self.close_block(yielded)?;
                self.open_block(1)
            }
            Step::EndIf { yielded } => {
                self.close_block(yielded)?;
                self.indent -= 4;
                Ok(())
            }
            Step::Fresh { out, from } => self.node(out, "Tensor", "aten::relu", &[from]),
            Step::View { out, of } => self.node(out, "Tensor", "aten::t", &[of]),
            Step::Write { out, to, value } => self.node(out, "Tensor", "aten::mul_", &[to, value]),
            Step::Read { out, from } => self.node(out, "Tensor", "aten::tanh", &[from]),
        }
    }

    fn end(&mut self, result: Val) -> io::Result<()> {
        writeln!(self.out, "  return ({})", Name(result))
    }
}

/// The operator's name in PyTorch.
fn head(expr: &Expr) -> &'static str {
    match expr.kind {
        Kind::Mul => "aten::mul",
        Kind::Div => "aten::div",
        Kind::Tanh => "aten::tanh",
        Kind::Exp => "aten::exp",
        Kind::Add => "aten::add",
    }
}

/// The name of a value: parameters have names, most other values have numbers.
struct Name(Val);

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            X => f.write_str("%x.1"),
            Y => f.write_str("%y.1"),
            N => f.write_str("%n.1"),
            Val(id) if id % NAMED_EVERY == 0 => write!(f, "%h.{id}"),
            Val(id) => write!(f, "%{id}"),
        }
    }
}
