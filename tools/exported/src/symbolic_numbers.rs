//! Numbers that a program computes with: sizes, what Python's functions make of them, and elements
//! of tensors that it reads.

use crate::export_arguments::Argument;
use crate::graph_writer::Writer;
use crate::operator_calls::{Call, Frame, Output};
use crate::{Result, refuse};
use jitopt_core::ir::Value;
use jitopt_core::symbol::{Symbol, prim};
use jitopt_core::types::{Simple, Type};

/// Functions with the operator of TorchScript for numbers that does the same.
const FUNCTIONS: [(&str, &str); 32] = [
    ("_operator.add", "aten::add"),
    ("_operator.sub", "aten::sub"),
    ("_operator.mul", "aten::mul"),
    ("_operator.floordiv", "aten::floordiv"),
    ("_operator.truediv", "aten::div"),
    ("_operator.mod", "aten::remainder"),
    ("_operator.pow", "aten::pow"),
    ("_operator.neg", "aten::neg"),
    ("_operator.ge", "aten::ge"),
    ("_operator.gt", "aten::gt"),
    ("_operator.le", "aten::le"),
    ("_operator.lt", "aten::lt"),
    ("_operator.eq", "aten::eq"),
    ("_operator.ne", "aten::ne"),
    ("_operator.and_", "aten::__and__"),
    ("_operator.or_", "aten::__or__"),
    ("_operator.xor", "aten::__xor__"),
    ("_operator.not_", "aten::__not__"),
    ("_operator.lshift", "aten::__lshift__"),
    ("_operator.rshift", "aten::__rshift__"),
    ("math.ceil", "aten::ceil"),
    ("math.floor", "aten::floor"),
    ("math.trunc", "aten::Int"),
    ("math.sqrt", "aten::sqrt"),
    ("torch.sym_sqrt", "aten::sqrt"),
    ("torch._sym_sqrt", "aten::sqrt"),
    ("torch.sym_int", "aten::Int"),
    ("torch.sym_float", "aten::Float"),
    ("torch.sym_max", "prim::max"),
    ("torch.sym_min", "prim::min"),
    ("torch.sym_not", "aten::__not__"),
    ("torch.sym_sum", "aten::sum"),
];

/// Facts about a tensor, with the number of arguments that the operator of TorchScript takes.
const FACTS: [(&str, &str, usize); 5] = [
    ("torch.ops.aten.sym_size.int", "aten::size", 2),
    ("torch.ops.aten.sym_stride.int", "aten::stride", 2),
    ("torch.ops.aten.sym_numel.default", "aten::numel", 1),
    ("torch.ops.aten.sym_storage_offset.default", "aten::storage_offset", 1),
    ("torch.ops.aten.sym_is_contiguous.default", "aten::is_contiguous", 1),
];

/// Writes a node that computes a number; false if it does not.
pub(crate) fn write<'j>(writer: &mut Writer<'_>, frame: &mut Frame<'j>, call: &Call<'j>) -> Result<bool> {
    if let Some((_, kind, count)) = FACTS.iter().find(|(target, ..)| *target == call.target) {
        let arguments = call.inputs.iter().take(*count);
        let operands: Result<Vec<Value>> = arguments.map(|(_, part)| frame.operand(writer, part)).collect();
        frame.results(writer, Symbol::new(kind), &operands?, call)?;
        return Ok(true);
    }
    match call.target {
        "torch.ops.aten.item.default" | "torch.ops.aten._local_scalar_dense.default" => element(writer, frame, call),
        "torch.sym_ite" => choice(writer, frame, call),
        "_operator.pos" => same(writer, frame, call),
        "_operator.pow" if is_whole_power(writer, frame, call) => power(writer, frame, call),
        target => {
            let Some((_, kind)) = FUNCTIONS.iter().find(|(name, _)| *name == target) else { return Ok(false) };
            let operands: Result<Vec<Value>> =
                call.inputs.iter().map(|(_, part)| frame.operand(writer, part)).collect();
            frame.results(writer, Symbol::new(kind), &operands?, call)
        }
    }?;
    Ok(true)
}

fn arguments<'a, 'j, const N: usize>(call: &'a Call<'j>) -> Result<[&'a Argument<'j>; N]> {
    let all: Vec<&Argument<'j>> = call.inputs.iter().map(|(_, argument)| argument).collect();
    let found = all.len();
    all.try_into().or_else(|_| refuse(format!("it has {found} arguments, expected {N}")))
}

/// `aten::item` returns any number; the type of the result says which conversion is meant.
fn element<'j>(writer: &mut Writer<'_>, frame: &mut Frame<'j>, call: &Call<'j>) -> Result<()> {
    let [tensor] = arguments(call)?;
    let tensor = frame.operand(writer, tensor)?;
    let kind = match call.outputs.first() {
        Some(Output::Number(_, Simple::Int)) => "aten::Int",
        Some(Output::Number(_, Simple::Bool)) => "aten::Bool",
        Some(Output::Number(..)) => "aten::Float",
        _ => "aten::item",
    };
    frame.results(writer, Symbol::new(kind), &[tensor], call)
}

/// The number itself.
fn same<'j>(writer: &mut Writer<'_>, frame: &mut Frame<'j>, call: &Call<'j>) -> Result<()> {
    let [number] = arguments(call)?;
    let value = frame.operand(writer, number)?;
    if let Some(Output::Number(name, _)) = call.outputs.first() {
        frame.define(name, value);
    }
    Ok(())
}

/// A power of an int by a small constant: `aten::pow` of two ints is a float in TorchScript.
fn is_whole_power<'j>(writer: &mut Writer<'_>, frame: &Frame<'j>, call: &Call<'j>) -> bool {
    let base = call.inputs.first().and_then(|(_, base)| frame.operand(writer, base).ok());
    let exponent = call.inputs.get(1).map(|(_, exponent)| exponent);
    base.is_some_and(|base| writer.graph.ty(base) == Type::int())
        && matches!(exponent, Some(Argument::Int(1..=16)))
        && matches!(call.outputs.first(), Some(Output::Number(_, Simple::Int)))
}

fn power<'j>(writer: &mut Writer<'_>, frame: &mut Frame<'j>, call: &Call<'j>) -> Result<()> {
    let [base, exponent] = arguments(call)?;
    let (Argument::Int(exponent), Some(Output::Number(name, _))) = (exponent, call.outputs.first()) else {
        return refuse("it is no power of ints");
    };
    let base = frame.operand(writer, base)?;
    let mut product = base;
    for _ in 1..*exponent {
        product = writer.call_named("aten::mul", &[product, base], Type::int());
    }
    if product == base {
        frame.define(name, base);
    } else {
        frame.define_named(writer, name, product);
    }
    Ok(())
}

/// `torch.sym_ite(c, a, b)` as `prim::If`.
fn choice<'j>(writer: &mut Writer<'_>, frame: &mut Frame<'j>, call: &Call<'j>) -> Result<()> {
    let [condition, yes, no] = arguments(call)?;
    let condition = frame.operand(writer, condition)?;
    let (yes, no) = (frame.operand(writer, yes)?, frame.operand(writer, no)?);
    let node = writer.node(prim::IF, &[condition]);
    for value in [yes, no] {
        let block = writer.graph.add_block(node);
        writer.graph.add_result(block, value);
    }
    let Some(output @ Output::Number(name, _)) = call.outputs.first() else {
        return refuse("its result is a tensor");
    };
    let ty = frame.output_type(output)?;
    let value = writer.graph.add_output(node, ty);
    frame.define_named(writer, name, value);
    Ok(())
}
