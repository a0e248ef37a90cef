//! Programs as MLIR: one function of the arith, math, scf and memref dialects, one operation for
//! each node.
//!
//! A conditional is an `scf.if` with a result, a fresh tensor a `memref.alloc`, a view a
//! `memref.cast`, an in-place write a `memref.store`. Tensors are `f32`, integers are `i32`.

use std::io::{self, Write};

use super::dialect::{Expr, Kind, Step, Val, Writer};

/// The type of a fresh buffer.
const BUFFER: &str = "memref<4xf32>";
/// The type of a view of one.
const VIEW: &str = "memref<?xf32>";

/// Writes MLIR. Values keep their numbers; `%0`, `%1` and `%2` are the parameters.
pub struct Mlir<'w> {
    out: &'w mut dyn Write,
    indent: usize,
}

impl<'w> Mlir<'w> {
    /// A writer into `out`.
    pub fn new(out: &'w mut dyn Write) -> Self {
        Mlir { out, indent: 2 }
    }

    /// A line at the current indentation.
    fn line(&mut self, text: std::fmt::Arguments<'_>) -> io::Result<()> {
        writeln!(self.out, "{:w$}{text}", "", w = self.indent)
    }

    /// A pure operation.
    fn pure(&mut self, out: Val, expr: &Expr) -> io::Result<()> {
        let (r, [a, b, c]) = (out.0, expr.args.map(|v| v.0));
        match expr.kind {
            Kind::Mul => self.line(format_args!("%{r} = arith.mulf %{a}, %{b} : f32")),
            Kind::Div => self.line(format_args!("%{r} = arith.divf %{a}, %{b} : f32")),
            Kind::Tanh => self.line(format_args!("%{r} = math.tanh %{a} : f32")),
            Kind::Exp => self.line(format_args!("%{r} = math.exp %{a} : f32")),
            Kind::Add => self.line(format_args!("%{r} = math.fma %{b}, %{c}, %{a} : f32")),
        }
    }

    /// A part of a conditional.
    fn conditional(&mut self, step: &Step) -> io::Result<()> {
        match *step {
            Step::If { out, cond } => {
                self.line(format_args!("%{} = scf.if %{} -> (f32) {{", out.0, cond.0))?;
                self.indent += 2;
                Ok(())
            }
            Step::Else { yielded } => {
                self.line(format_args!("scf.yield %{} : f32", yielded.0))?;
                writeln!(self.out, "{:w$}}} else {{", "", w = self.indent - 2)
            }
            Step::EndIf { yielded } => {
                self.line(format_args!("scf.yield %{} : f32", yielded.0))?;
                self.indent -= 2;
                self.line(format_args!("}}"))
            }
            _ => Ok(()),
        }
    }
}

impl Writer for Mlir<'_> {
    fn begin(&mut self) -> io::Result<()> {
        writeln!(self.out, "func.func @f(%0: f32, %1: f32, %2: i32, %i: index) -> f32 {{")
    }

    fn step(&mut self, step: &Step) -> io::Result<()> {
        match *step {
            Step::Constant { out, value } => self.line(format_args!("%{} = arith.constant {value}.0 : f32", out.0)),
            Step::Pure { out, ref expr } => self.pure(out, expr),
            Step::AddInt { out, a, b } => self.line(format_args!("%{} = arith.addi %{}, %{} : i32", out.0, a.0, b.0)),
            Step::Greater { out, a, b } => {
                self.line(format_args!("%{} = arith.cmpi sgt, %{}, %{} : i32", out.0, a.0, b.0))
            }
            Step::If { .. } | Step::Else { .. } | Step::EndIf { .. } => self.conditional(step),
            Step::Fresh { out, .. } => self.line(format_args!("%{} = memref.alloc() : {BUFFER}", out.0)),
            Step::View { out, of } => {
                self.line(format_args!("%{} = memref.cast %{} : {BUFFER} to {VIEW}", out.0, of.0))
            }
            Step::Write { to, value, .. } => {
                self.line(format_args!("memref.store %{}, %{}[%i] : {VIEW}", value.0, to.0))
            }
            Step::Read { out, from } => self.line(format_args!("%{} = memref.load %{}[%i] : {BUFFER}", out.0, from.0)),
        }
    }

    fn end(&mut self, result: Val) -> io::Result<()> {
        writeln!(self.out, "  return %{} : f32\n}}", result.0)
    }
}
