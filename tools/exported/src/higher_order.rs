//! Operators on graphs: branches, loops, and regions.

use crate::export_arguments::Argument;
use crate::graph_writer::Writer;
use crate::operator_calls::{Call, Frame, Output};
use crate::{Result, refuse, shown};
use jitopt_archive::Json;
use jitopt_core::ir::{Node, Value};
use jitopt_core::symbol::prim;
use jitopt_core::types::Type;

/// Writes a call of a higher-order operator, by its name.
pub(crate) fn write<'j>(writer: &mut Writer<'_>, frame: &mut Frame<'j>, name: &str, call: &Call<'j>) -> Result<()> {
    let name = name.split('.').next().unwrap_or(name);
    match name {
        "cond" => branch(writer, frame, call),
        "while_loop" => while_loop(writer, frame, call),
        "map_impl" | "map" => map(writer, frame, call),
        "scan" => scan(writer, frame, call),
        "wrap_with_set_grad_enabled" => region(writer, frame, call, 1),
        "wrap_with_autocast" => autocast(writer, frame, call),
        _ => refuse(format!(
            "the higher-order operator {} has no form in IR; expected cond, while_loop, map_impl, scan, \
             wrap_with_set_grad_enabled or wrap_with_autocast",
            shown(name)
        )),
    }
}

/// A graph that is an argument.
fn graph_of<'j>(call: &Call<'j>, at: usize) -> Result<&'j Json> {
    match call.inputs.get(at) {
        Some((_, Argument::Graph(graph))) => Ok(graph),
        _ => refuse(format!("argument {at} is no graph")),
    }
}

/// The values of a list that is an argument; none if there is no such argument.
fn values_of<'j>(writer: &mut Writer<'_>, frame: &Frame<'j>, call: &Call<'j>, at: usize) -> Result<Vec<Value>> {
    match call.inputs.get(at) {
        Some((_, Argument::List(_, parts))) => parts.iter().map(|part| frame.operand(writer, part)).collect(),
        Some((_, Argument::Graph(_))) => refuse(format!("argument {at} is a graph")),
        Some((_, single)) => Ok(vec![frame.operand(writer, single)?]),
        None => Ok(Vec::new()),
    }
}

/// Writes a graph for these inputs into the current block; its results.
fn inlined(writer: &mut Writer<'_>, graph: &Json, inputs: &[Value]) -> Result<Vec<Value>> {
    let mut frame = Frame::of(graph);
    let params = graph.get("inputs").items();
    if params.len() != inputs.len() {
        return refuse(format!("a graph takes {} inputs and is given {}", params.len(), inputs.len()));
    }
    for (param, value) in params.iter().zip(inputs) {
        if let Argument::Value(name) = Argument::read(param, "an input of a graph")? {
            frame.define(name, *value);
        }
    }
    frame.write_nodes(writer, graph)?;
    let mut results = Vec::new();
    for output in graph.get("outputs").items() {
        match Argument::read(output, "a result of a graph")? {
            Argument::List(_, parts) => {
                for part in &parts {
                    results.push(frame.operand(writer, part)?);
                }
            }
            single => results.push(frame.operand(writer, &single)?),
        }
    }
    Ok(results)
}

/// A condition is a tensor or a number.
fn condition(writer: &mut Writer<'_>, value: Value) -> Value {
    if writer.graph.ty(value) == Type::bool() {
        return value;
    }
    writer.call_named("aten::Bool", &[value], Type::bool())
}

/// The names of the results of a node, lists taken apart.
fn result_names<'j>(call: &Call<'j>) -> Vec<Option<&'j str>> {
    let mut names = Vec::new();
    for output in &call.outputs {
        match output {
            Output::Tensor(name) | Output::Number(name, _) => names.push(Some(*name)),
            Output::Tensors(list) => names.extend(list.iter().copied()),
            Output::Nothing => names.push(None),
        }
    }
    names
}

/// Adds outputs to a node with blocks, of the types that the program gives them.
fn outputs<'j>(
    writer: &mut Writer<'_>,
    frame: &mut Frame<'j>,
    node: Node,
    call: &Call<'j>,
    types: &[Type],
) -> Result<()> {
    let names = result_names(call);
    if names.len() > types.len() {
        return refuse(format!("it has {} results, its graphs {}", names.len(), types.len()));
    }
    for (i, ty) in types.iter().enumerate() {
        let name = names.get(i).copied().flatten();
        let known = name.filter(|name| frame.metadata.is_tensor(name));
        let ty = known.map_or(Ok(*ty), |name| frame.metadata.tensor(name))?;
        let value = writer.graph.add_output(node, ty);
        if let Some(name) = name {
            frame.define_named(writer, name, value);
        }
    }
    Ok(())
}

/// `cond(predicate, yes, no, operands)` as `prim::If`.
fn branch<'j>(writer: &mut Writer<'_>, frame: &mut Frame<'j>, call: &Call<'j>) -> Result<()> {
    let Some((_, predicate)) = call.inputs.first() else { return refuse("it has no arguments") };
    let predicate = frame.operand(writer, predicate)?;
    let predicate = condition(writer, predicate);
    let operands = values_of(writer, frame, call, 3)?;
    let node = writer.node(prim::IF, &[predicate]);
    let mut types: Vec<Type> = Vec::new();
    for at in [1, 2] {
        let graph = graph_of(call, at)?;
        let block = writer.graph.add_block(node);
        writer.enter(block);
        let results = inlined(writer, graph, &operands);
        writer.leave();
        let results = results?;
        if at == 2 && results.len() != types.len() {
            return refuse(format!("its branches have {} and {} results", types.len(), results.len()));
        }
        types = results.iter().map(|result| writer.graph.ty(*result)).collect();
        results.iter().for_each(|result| writer.graph.add_result(block, *result));
    }
    outputs(writer, frame, node, call, &types)
}

/// `while_loop(condition, body, carried, others)` as `prim::Loop`:
///
/// ```text
/// %go = aten::Bool(…condition of %i, %x…)
/// %i_end, %x_end = prim::Loop(%9223372036854775807, %go, %i, %x)
///   block0(%n : int, %i.1, %x.1):
///     …body, condition of what it returns…
///     -> (%go.1, %i.2, %x.2)
/// ```
fn while_loop<'j>(writer: &mut Writer<'_>, frame: &mut Frame<'j>, call: &Call<'j>) -> Result<()> {
    let (test, body) = (graph_of(call, 0)?, graph_of(call, 1)?);
    let (carried, others) = (values_of(writer, frame, call, 2)?, values_of(writer, frame, call, 3)?);
    let tested = |writer: &mut Writer<'_>, values: &[Value]| match inlined(writer, test, values)?.as_slice() {
        [single] => Ok(condition(writer, *single)),
        results => refuse(format!("its condition has {} results", results.len())),
    };
    let inputs = |carried: &[Value]| [carried, &others].concat();
    let go = tested(writer, &inputs(&carried))?;
    let most = writer.int(i64::MAX);
    let node = writer.node(prim::LOOP, &[&[most, go], carried.as_slice()].concat());
    let block = writer.graph.add_block(node);
    writer.enter(block);
    writer.graph.add_param(block, Type::int());
    let types: Vec<Type> = carried.iter().map(|value| loop_type(writer.graph.ty(*value))).collect();
    let params: Vec<Value> = types.iter().map(|ty| writer.graph.add_param(block, *ty)).collect();
    let written = inlined(writer, body, &inputs(&params)).and_then(|next| {
        if next.len() != params.len() {
            return refuse(format!("its body returns {} values and carries {}", next.len(), params.len()));
        }
        let go = tested(writer, &inputs(&next))?;
        writer.graph.add_result(block, go);
        next.iter().for_each(|value| writer.graph.add_result(block, *value));
        Ok(())
    });
    writer.leave();
    written?;
    outputs(writer, frame, node, call, &types)
}

/// The type that an iteration receives: a tensor whose strides the body may change.
fn loop_type(ty: Type) -> Type {
    if ty.is_tensor() { Type::tensor() } else { ty }
}

/// `map_impl(body, lists, others)`: a scan that carries nothing.
fn map<'j>(writer: &mut Writer<'_>, frame: &mut Frame<'j>, call: &Call<'j>) -> Result<()> {
    let (rows, others) = mapped(writer, frame, call)?;
    over_rows(writer, frame, call, [Vec::new(), rows, others])
}

/// `scan(body, carried, lists, others)`; up to 2.6 the dimension and the direction are arguments
/// before the others.
fn scan<'j>(writer: &mut Writer<'_>, frame: &mut Frame<'j>, call: &Call<'j>) -> Result<()> {
    let last = match (call.inputs.get(3), call.inputs.get(4)) {
        (Some((_, Argument::Int(0))), None | Some((_, Argument::Bool(false)))) => 5,
        (Some((_, Argument::Int(_))), _) => {
            return refuse("it scans in reverse, or another dimension than the first");
        }
        _ => 3,
    };
    let [carried, rows, others] = [1, 2, last].map(|at| values_of(writer, frame, call, at));
    over_rows(writer, frame, call, [carried?, rows?, others?])
}

/// Runs a body for each row of tensors; carries values on, and stacks the other results.
///
/// ```text
/// %rows : Tensor[] = prim::ListConstruct()
/// %sum_end : Tensor = prim::Loop(%length, %true, %sum)
///   block0(%n : int, %sum.1 : Tensor):
///     %row = aten::select(%xs, %0, %n)
///     …body…
///     %rows.1 = aten::append(%rows, %result)
///     -> (%true, %sum.2)
/// %result = aten::stack(%rows, %0)
/// ```
fn over_rows<'j>(
    writer: &mut Writer<'_>,
    frame: &mut Frame<'j>,
    call: &Call<'j>,
    [carried, rows, others]: [Vec<Value>; 3],
) -> Result<()> {
    let body = graph_of(call, 0)?;
    let Some(first) = rows.first() else { return refuse("it goes over no tensor") };
    let Some(count) = body.get("outputs").items().len().checked_sub(carried.len()) else {
        return refuse("its body returns fewer values than it carries");
    };
    let zero = writer.int(0);
    let length = writer.call_named("aten::size", &[*first, zero], Type::int());
    let lists: Vec<Value> = (0..count).map(|_| writer.list(Type::tensor(), &[])).collect();
    let yes = writer.bool(true);
    let node = writer.node(prim::LOOP, &[&[length, yes], carried.as_slice()].concat());
    let block = writer.graph.add_block(node);
    writer.enter(block);
    let index = writer.graph.add_param(block, Type::int());
    let types: Vec<Type> = carried.iter().map(|value| loop_type(writer.graph.ty(*value))).collect();
    let mut inputs: Vec<Value> = types.iter().map(|ty| writer.graph.add_param(block, *ty)).collect();
    for row in &rows {
        inputs.push(writer.call_named("aten::select", &[*row, zero, index], Type::tensor()));
    }
    inputs.extend(others);
    let results = inlined(writer, body, &inputs);
    writer.graph.add_result(block, yes);
    for (i, result) in results.as_deref().unwrap_or_default().iter().enumerate() {
        match i.checked_sub(carried.len()).and_then(|i| lists.get(i)) {
            None => writer.graph.add_result(block, *result),
            Some(list) => drop(writer.call_named("aten::append", &[*list, *result], Type::list(Type::tensor()))),
        }
    }
    writer.leave();
    if results?.len() != carried.len() + lists.len() {
        return refuse("its body returns lists");
    }
    let names = result_names(call);
    let ends: Vec<Value> = types.iter().map(|ty| writer.graph.add_output(node, *ty)).collect();
    for (i, name) in names.into_iter().enumerate() {
        let value = match ends.get(i) {
            Some(end) => *end,
            None => {
                let Some(list) = lists.get(i - ends.len()) else { return refuse("it has more results than its body") };
                let ty = name.map_or(Ok(Type::tensor()), |name| frame.metadata.tensor(name))?;
                writer.call_named("aten::stack", &[*list, zero], ty)
            }
        };
        if let Some(name) = name {
            frame.define_named(writer, name, value);
        }
    }
    Ok(())
}

/// The tensors that a map goes through, and the other inputs of its body. 2.2 writes the number of
/// the former, then all of them.
fn mapped<'j>(writer: &mut Writer<'_>, frame: &Frame<'j>, call: &Call<'j>) -> Result<(Vec<Value>, Vec<Value>)> {
    let Some((_, Argument::Int(count))) = call.inputs.get(1) else {
        return Ok((values_of(writer, frame, call, 1)?, values_of(writer, frame, call, 2)?));
    };
    let mut all = Vec::new();
    for at in 2..call.inputs.len() {
        all.extend(values_of(writer, frame, call, at)?);
    }
    match usize::try_from(*count).ok().filter(|count| *count <= all.len()) {
        Some(count) => {
            let others = all.split_off(count);
            Ok((all, others))
        }
        None => refuse(format!("it maps over {count} of {} tensors", all.len())),
    }
}

/// A region that has no effect on results, `wrap_with_set_grad_enabled(enabled, body, …)`: its
/// body, which is the argument `at`.
fn region<'j>(writer: &mut Writer<'_>, frame: &mut Frame<'j>, call: &Call<'j>, at: usize) -> Result<()> {
    let body = graph_of(call, at)?;
    let mut inputs = Vec::new();
    for at in at + 1..call.inputs.len() {
        inputs.extend(values_of(writer, frame, call, at)?);
    }
    let results = inlined(writer, body, &inputs)?;
    for (name, result) in result_names(call).into_iter().zip(results) {
        if let Some(name) = name {
            frame.define(name, result);
        }
    }
    Ok(())
}

/// `wrap_with_autocast(device, dtype, enabled, cache, body, …)`: a region in which operators of a
/// device compute in another element type. It has no effect where it is switched off, or where
/// no tensor is on the device; then it is its body.
fn autocast<'j>(writer: &mut Writer<'_>, frame: &mut Frame<'j>, call: &Call<'j>) -> Result<()> {
    let Some((_, Argument::Text(device))) = call.inputs.first() else { return refuse("argument 0 is no device") };
    let is_on = !matches!(call.inputs.get(2), Some((_, Argument::Bool(false))));
    if is_on && computes_on(graph_of(call, 4)?, device, 0) {
        return refuse(format!(
            "operators on {} compute in another element type in a region of autocast, which has no form in IR",
            shown(device)
        ));
    }
    region(writer, frame, call, 4)
}

/// Graphs within the graph of a region.
const DEEPEST: usize = 64;

/// Whether a graph, or one within it, has a tensor on a device. Where that is not noted, it has.
fn computes_on(graph: &Json, device: &str, depth: usize) -> bool {
    let is_there = |meta: &Json| meta.get("device").get("type").text().is_none_or(|noted| noted == device);
    let arguments = graph.get("nodes").items().iter().flat_map(|node| node.get("inputs").items());
    let mut inner =
        arguments.map(|input| input.get("arg").get("as_graph").get("graph")).filter(|graph| !graph.is_null());
    depth > DEEPEST
        || graph.get("tensor_values").fields().iter().any(|(_, meta)| is_there(meta))
        || inner.any(|graph| computes_on(graph, device, depth + 1))
}
