//! Programs as LLVM IR: one function, one instruction for each node.
//!
//! A conditional is a branch, two blocks and a phi; a fresh tensor is an alloca, a view a
//! getelementptr, an in-place write a store. Tensors are floats, integers are `i32`. Results are
//! numbered as `opt` numbers them, which avoids a symbol table.

use std::fmt;
use std::io::{self, Write};

use super::dialect::{Expr, Kind, N, Step, Val, Writer, X, Y};

/// The functions that pure operators call.
const DECLARATIONS: &str = "
declare float @op_tanh(float) #0
declare float @llvm.exp.f32(float)
declare float @llvm.fma.f32(float, float, float)
attributes #0 = { nounwind readnone willreturn }
";

/// Writes LLVM IR.
pub struct Llvm<'w> {
    out: &'w mut dyn Write,
    pointer: &'static str,
    numbers: Vec<u32>,
    next: u32,
    conditionals: u32,
    /// The result, and the value of the first block, of the conditional being written.
    open: (Val, Val),
}

impl<'w> Llvm<'w> {
    /// A writer into `out` with `pointer` as the type of a pointer to float.
    pub fn new(out: &'w mut dyn Write, pointer: &'static str) -> Self {
        Llvm { out, pointer, numbers: Vec::new(), next: 0, conditionals: 0, open: (X, X) }
    }

    /// The name of a value.
    fn name(&self, value: Val) -> Name {
        match value {
            X => Name::Parameter('x'),
            Y => Name::Parameter('y'),
            N => Name::Parameter('n'),
            Val(id) => Name::Number(self.numbers[id as usize]),
        }
    }

    /// Writes an instruction with a result, which gets the next number.
    fn define(&mut self, out: Val, instruction: fmt::Arguments<'_>) -> io::Result<()> {
        let index = out.0 as usize;
        if self.numbers.len() <= index {
            self.numbers.resize(index + 1, u32::MAX);
        }
        self.numbers[index] = self.next;
        self.next += 1;
        writeln!(self.out, "  {} = {instruction}", self.name(out))
    }

    /// A pure operation.
    fn pure(&mut self, out: Val, expr: &Expr) -> io::Result<()> {
        let [a, b, c] = expr.args.map(|v| self.name(v));
        match expr.kind {
            Kind::Mul => self.define(out, format_args!("fmul float {a}, {b}")),
            Kind::Div => self.define(out, format_args!("fdiv float {a}, {b}")),
            Kind::Tanh => self.define(out, format_args!("call float @op_tanh(float {a})")),
            Kind::Exp => self.define(out, format_args!("call float @llvm.exp.f32(float {a})")),
            Kind::Add => self.define(out, format_args!("call float @llvm.fma.f32(float {b}, float {c}, float {a})")),
        }
    }

    /// An operation on a buffer.
    fn memory(&mut self, step: &Step) -> io::Result<()> {
        let pointer = self.pointer;
        match *step {
            Step::Fresh { out, .. } => self.define(out, format_args!("alloca float")),
            Step::View { out, of } => {
                let of = self.name(of);
                self.define(out, format_args!("getelementptr float, {pointer} {of}, i32 %n"))
            }
            Step::Write { to, value, .. } => {
                writeln!(self.out, "  store float {}, {pointer} {}", self.name(value), self.name(to))
            }
            Step::Read { out, from } => {
                let from = self.name(from);
                self.define(out, format_args!("load float, {pointer} {from}"))
            }
            _ => Ok(()),
        }
    }
}

impl Writer for Llvm<'_> {
    fn begin(&mut self) -> io::Result<()> {
        writeln!(self.out, "{DECLARATIONS}\ndefine float @f(float %x, float %y, i32 %n) {{\nentry:")
    }

    fn step(&mut self, step: &Step) -> io::Result<()> {
        match *step {
            Step::Constant { out, value } => self.define(out, format_args!("fadd float {value}.0, 0.0")),
            Step::Pure { out, ref expr } => self.pure(out, expr),
            Step::AddInt { out, a, b } => {
                let (a, b) = (self.name(a), self.name(b));
                self.define(out, format_args!("add i32 {a}, {b}"))
            }
            Step::Greater { out, a, b } => {
                let (a, b) = (self.name(a), self.name(b));
                self.define(out, format_args!("icmp sgt i32 {a}, {b}"))
            }
            Step::If { out, cond } => {
                self.conditionals += 1;
                self.open.0 = out;
                let (k, cond) = (self.conditionals, self.name(cond));
                writeln!(self.out, "  br i1 {cond}, label %then{k}, label %else{k}\nthen{k}:")
            }
            Step::Else { yielded } => {
                self.open.1 = yielded;
                let k = self.conditionals;
                writeln!(self.out, "  br label %end{k}\nelse{k}:")
            }
            Step::EndIf { yielded } => {
                let (k, (out, first)) = (self.conditionals, self.open);
                writeln!(self.out, "  br label %end{k}\nend{k}:")?;
                let (a, b) = (self.name(first), self.name(yielded));
                self.define(out, format_args!("phi float [ {a}, %then{k} ], [ {b}, %else{k} ]"))
            }
            Step::Fresh { .. } | Step::View { .. } | Step::Write { .. } | Step::Read { .. } => self.memory(step),
        }
    }

    fn end(&mut self, result: Val) -> io::Result<()> {
        writeln!(self.out, "  ret float {}\n}}", self.name(result))
    }
}

/// The name of a value.
#[derive(Clone, Copy)]
enum Name {
    /// One of the function's parameters.
    Parameter(char),
    /// The result of an instruction.
    Number(u32),
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Name::Parameter(letter) => write!(f, "%{letter}"),
            Name::Number(number) => write!(f, "%{number}"),
        }
    }
}
