//! The steps of generated programs, and the interface of the three text writers.

use std::io::{self, Write};

use super::llvm::Llvm;
use super::mlir::Mlir;
use super::torchscript::TorchScript;

/// A value of the generated program; its number is dense in order of appearance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Val(pub u32);

/// The first tensor parameter of every program.
pub const X: Val = Val(0);
/// The second tensor parameter of every program.
pub const Y: Val = Val(1);
/// The integer parameter of every program.
pub const N: Val = Val(2);
/// The first number available to a generator.
pub const FIRST_FREE: u32 = 3;

/// A pure elementwise operator that all three dialects have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Product of two values.
    Mul,
    /// Quotient of two values.
    Div,
    /// Hyperbolic tangent; the peers use some unary function without effects instead.
    Tanh,
    /// Exponential function.
    Exp,
    /// `a + c * b`, as `aten::add` spells it.
    Add,
}

impl Kind {
    /// The number of operands.
    pub fn arity(self) -> usize {
        match self {
            Kind::Tanh | Kind::Exp => 1,
            Kind::Mul | Kind::Div => 2,
            Kind::Add => 3,
        }
    }
}

/// One pure operation without its result; equal expressions make two nodes duplicates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Expr {
    /// The operator.
    pub kind: Kind,
    /// Its operands; those beyond [`Kind::arity`] are unused.
    pub args: [Val; 3],
}

impl Expr {
    /// The used operands.
    pub fn operands(&self) -> &[Val] {
        &self.args[..self.kind.arity()]
    }
}

/// One step of a program. Every step but [`Step::Else`] and [`Step::EndIf`] is one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A constant.
    Constant { out: Val, value: u32 },
    /// A pure operation.
    Pure { out: Val, expr: Expr },
    /// A sum of two integers.
    AddInt { out: Val, a: Val, b: Val },
    /// A comparison of two integers.
    Greater { out: Val, a: Val, b: Val },
    /// A conditional that yields one value opens its first block.
    If { out: Val, cond: Val },
    /// Its first block ends and its second one opens.
    Else { yielded: Val },
    /// Its second block ends.
    EndIf { yielded: Val },
    /// A new buffer: a tensor that nothing aliases yet.
    Fresh { out: Val, from: Val },
    /// A view of a buffer.
    View { out: Val, of: Val },
    /// An in-place write to a buffer.
    Write { out: Val, to: Val, value: Val },
    /// A read of a buffer.
    Read { out: Val, from: Val },
}

impl Step {
    /// Whether the step is a node of its own.
    pub fn is_node(&self) -> bool {
        !matches!(self, Step::Else { .. } | Step::EndIf { .. })
    }
}

/// Writes a program's steps as text.
pub trait Writer {
    /// Everything before the first step.
    fn begin(&mut self) -> io::Result<()>;
    /// One step.
    fn step(&mut self, step: &Step) -> io::Result<()>;
    /// Everything after the last step.
    fn end(&mut self, result: Val) -> io::Result<()>;
}

/// A textual language that the generator writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Dialect {
    /// TorchScript textual IR.
    Torchscript,
    /// LLVM IR with typed pointers, up to version 16.
    LlvmTyped,
    /// LLVM IR with opaque pointers, from version 15.
    LlvmOpaque,
    /// MLIR: func, arith, math, scf and memref.
    Mlir,
}

impl Dialect {
    /// The name on the command line, also the extension of generated files.
    pub fn name(self) -> &'static str {
        match self {
            Dialect::Torchscript => "torchscript",
            Dialect::LlvmTyped => "llvm-typed",
            Dialect::LlvmOpaque => "llvm-opaque",
            Dialect::Mlir => "mlir",
        }
    }

    /// A writer of this language into `out`.
    pub fn writer<'w>(self, out: &'w mut dyn Write) -> Box<dyn Writer + 'w> {
        match self {
            Dialect::Torchscript => Box::new(TorchScript::new(out)),
            Dialect::LlvmTyped => Box::new(Llvm::new(out, "float*")),
            Dialect::LlvmOpaque => Box::new(Llvm::new(out, "ptr")),
            Dialect::Mlir => Box::new(Mlir::new(out)),
        }
    }

    /// A minimal program of three lines, to measure the time from start to exit.
    pub fn three_lines(self) -> &'static str {
        match self {
            Dialect::Torchscript => "graph(%x : Tensor):\n  %1 : Tensor = aten::tanh(%x)\n  return (%1)\n",
            Dialect::LlvmTyped | Dialect::LlvmOpaque => {
                "define float @f(float %x) { %1 = fmul float %x, %x\n  ret float %1\n}\n"
            }
            Dialect::Mlir => "func.func @f(%x: f32) -> f32 { %1 = arith.mulf %x, %x : f32\n  return %1 : f32\n}\n",
        }
    }
}
