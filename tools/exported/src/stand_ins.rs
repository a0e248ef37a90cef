//! Operators that exist for exported programs only, written as what TorchScript has for them:
//! assertions as branches that raise, functional forms as writes to copies, implementations as the
//! operator that they implement.

use crate::Result;
use crate::export_arguments::Argument;
use crate::graph_writer::Writer;
use crate::operator_calls::{Call, Frame, Output};
use jitopt_core::ir::Value;
use jitopt_core::symbol::{Symbol, prim};
use jitopt_core::types::Type;

/// Writes a call of such an operator; false if `kind` is none. Operands are those of its schema.
pub(crate) fn write<'j>(
    writer: &mut Writer<'_>,
    frame: &mut Frame<'j>,
    kind: Symbol,
    operands: &[Value],
    call: &Call<'j>,
) -> Result<bool> {
    match (kind.as_str(), operands) {
        // Ranges of sizes are facts for the exporter; what must hold is asserted as well.
        ("aten::sym_constrain_range" | "aten::sym_constrain_range_for_size", _) => {}
        ("aten::_assert_async", [condition, rest @ ..]) => {
            let condition = bool_of(writer, *condition);
            let message = rest.first().copied();
            require(writer, condition, message, "Expected Tensor with single nonzero value, but got zero");
        }
        ("aten::_assert_tensor_metadata", [tensor, _, _, dtype, ..]) => same_dtype(writer, *tensor, *dtype),
        ("aten::_native_batch_norm_legit_functional", operands) if operands.len() == 8 => {
            batch_norm(writer, frame, operands, call)?;
        }
        ("aten::mkldnn_rnn_layer", operands) if operands.len() == 16 && is_lstm(call) => {
            lstm(writer, frame, operands, call)?;
        }
        ("aten::_scaled_dot_product_flash_attention", [query, key, value, dropout, causal, _, scale]) => {
            let mask = writer.none();
            attention(writer, frame, [*query, *key, *value, mask, *dropout, *causal, *scale], call)?;
        }
        ("aten::_scaled_dot_product_flash_attention_for_cpu", [query, key, value, dropout, causal, mask, scale]) => {
            attention(writer, frame, [*query, *key, *value, *mask, *dropout, *causal, *scale], call)?;
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// `_assert_scalar(condition, message)`, whose condition is mostly a bool already.
pub(crate) fn assertion<'j>(writer: &mut Writer<'_>, frame: &mut Frame<'j>, call: &Call<'j>) -> Result<()> {
    let mut operands = Vec::new();
    for (_, argument) in &call.inputs {
        operands.push(frame.operand(writer, argument)?);
    }
    if let Some(condition) = operands.first() {
        let condition = bool_of(writer, *condition);
        require(writer, condition, operands.get(1).copied(), "Assertion failed");
    }
    Ok(())
}

/// A condition as a bool: assertions take numbers and tensors.
fn bool_of(writer: &mut Writer<'_>, condition: Value) -> Value {
    let is_bool = writer.graph.ty(condition) == Type::bool();
    if is_bool { condition } else { writer.call_named("aten::Bool", &[condition], Type::bool()) }
}

/// An assertion as TorchScript compiles it:
///
/// ```text
///  = prim::If(%condition)
///   block0():
///     -> ()
///   block1():
///      = prim::RaiseException(%message, %none)
///     -> ()
/// ```
fn require(writer: &mut Writer<'_>, condition: Value, message: Option<Value>, otherwise: &str) {
    let node = writer.node(prim::IF, &[condition]);
    writer.graph.add_block(node);
    let fails = writer.graph.add_block(node);
    writer.enter(fails);
    let message = message.unwrap_or_else(|| writer.text(otherwise));
    let none = writer.none();
    writer.node(Symbol::new("prim::RaiseException"), &[message, none]);
    writer.leave();
}

/// Of the metadata of a tensor only the element type may differ from what its type says: a cast is
/// left out where it changes nothing.
fn same_dtype(writer: &mut Writer<'_>, tensor: Value, dtype: Value) {
    if writer.graph.ty(dtype) != Type::int() {
        return;
    }
    let found = writer.call_named("prim::dtype", &[tensor], Type::int());
    let equal = writer.call_named("aten::eq", &[found, dtype], Type::bool());
    require(writer, equal, None, "Tensor dtype mismatch!");
}

/// Batch normalisation that returns new running statistics writes to copies of them.
fn batch_norm<'j>(writer: &mut Writer<'_>, frame: &mut Frame<'j>, operands: &[Value], call: &Call<'j>) -> Result<()> {
    let none = writer.none();
    let mut operands = operands.to_vec();
    for running in &mut operands[3..5] {
        let ty = writer.graph.ty(*running);
        *running = writer.call_named("aten::clone", &[*running, none], ty);
    }
    let (results, copies) = call.outputs.split_at(call.outputs.len().min(3));
    frame.outputs(writer, Symbol::new("aten::_native_batch_norm_legit"), &operands, results)?;
    for (output, copy) in copies.iter().zip(&operands[3..5]) {
        if let Output::Tensor(name) = output {
            frame.define_named(writer, name, *copy);
        }
    }
    Ok(())
}

/// Mode 2 is that of an LSTM.
fn is_lstm(call: &Call<'_>) -> bool {
    call.inputs.iter().any(|(name, argument)| *name == "mode" && matches!(argument, Argument::Int(2)))
}

/// One layer of an LSTM in one direction; backwards as forwards on the reversed sequence. The
/// workspace for gradients, the last result, is left out.
fn lstm<'j>(writer: &mut Writer<'_>, frame: &mut Frame<'j>, operands: &[Value], call: &Call<'j>) -> Result<()> {
    let is_reverse =
        call.inputs.iter().any(|(name, argument)| *name == "reverse" && matches!(argument, Argument::Bool(true)));
    let (yes, no, one, dropout) = (writer.bool(true), writer.bool(false), writer.int(1), writer.float(0.0));
    let time = writer.int(0);
    let dims = writer.list(Type::int(), &[time]);
    let flipped = |writer: &mut Writer<'_>, value: Value| {
        let ty = writer.graph.ty(value);
        if is_reverse { writer.call_named("aten::flip", &[value, dims], ty) } else { value }
    };
    let input = flipped(writer, operands[0]);
    let params = writer.list(Type::tensor(), &operands[1..5]);
    let state = writer.list(Type::tensor(), &operands[5..7]);
    let node = writer.node(Symbol::new("aten::lstm"), &[input, state, params, yes, one, dropout, no, no, no]);
    for (i, output) in call.outputs.iter().take(3).enumerate() {
        let ty = frame.output_type(output)?;
        let mut value = writer.graph.add_output(node, ty);
        if i == 0 {
            value = flipped(writer, value);
        }
        if let Output::Tensor(name) = output {
            frame.define_named(writer, name, value);
        }
    }
    Ok(())
}

/// The result of attention; what its implementations return for gradients is left out.
fn attention<'j>(
    writer: &mut Writer<'_>,
    frame: &mut Frame<'j>,
    [query, key, value, mask, dropout, causal, scale]: [Value; 7],
    call: &Call<'j>,
) -> Result<()> {
    let no = writer.bool(false);
    let operands = [query, key, value, mask, dropout, causal, scale, no];
    let results = &call.outputs[..call.outputs.len().min(1)];
    frame.outputs(writer, Symbol::new("aten::scaled_dot_product_attention"), &operands, results)
}
