//! Replaces in-place operators on fresh memory by operators that create new values.
//!
//! ```text
//! %a : Tensor = aten::mul(%x, %y)                     %a : Tensor = aten::mul(%x, %y)
//! %b : Tensor = aten::relu_(%a)              =>       %b : Tensor = aten::relu(%a)
//! %l : Tensor[] = prim::ListConstruct(%a)             %l : Tensor[] = prim::ListConstruct(%b, %x)
//! %m : Tensor[] = aten::append(%l, %x)
//! ```
//!
//! A node that allocates memory gives it one name. Until that name is first read, the memory has no
//! other name, and its contents were not observed: the first reader may as well create a new value,
//! which all later readers read. So no alias analysis is needed; its facts hold anywhere in the
//! graph, and here only the beginning counts. A list construct whose first reader appends to it,
//! inserts or sets an element at a constant index, moves to that reader, with the resulting
//! operands. The result of a branch is fresh memory when both sides allocate it and only return it.
//!
//! An in-place operator keeps the element type of its target: `aten::lt_` on floats makes floats
//! and `aten::lt` makes bools, and adding doubles to floats makes doubles. PyTorch's pass does not
//! check that. Here types must prove that nothing changes: there is one tensor only, or its type
//! holds the values of all; `{trusting}` assumes it where types do not decide, as PyTorch does, and
//! still leaves comparisons alone. `{cast}` converts the new tensor to the element type of the old
//! one instead (`aten::type_as`), which is what the in-place operator does with its result: that is
//! sound for all types, and later passes remove the conversion where types come to be known. A
//! write to a constant is permanent, so that the next run sees it: it is left alone too.
//!
//! One traversal in execution order, lists first, as PyTorch; `{fixpoint}` repeats it until nothing
//! changes. A traversal is linear in nodes and operands: redirecting later readers to the new value
//! exchanges two outputs, however many readers there are.

use jitopt_core::entity::EntitySet;
use jitopt_core::ir::{Attribute, Block, Graph, Node, Value};
use jitopt_core::ops::rules::{AliasRule, Elements};
use jitopt_core::ops::{self, schema::Schema};
use jitopt_core::pass::{PassContext, PassError, PassInfo, PassOption};
use jitopt_core::symbol::{Symbol, prim};
use jitopt_core::tensor::promotion::join;
use jitopt_core::types::{DType, Type};
use jitopt_core::{graph_dump, graph_update};

/// The registry entry.
pub const PASS: PassInfo = PassInfo {
    name: "remove-mutation",
    aliases: &["remove-tensor-mutation"],
    summary: "replace in-place operators on fresh memory by operators that create new values",
    example: "%b : Tensor = aten::relu_(%a)  =>  %b : Tensor = aten::relu(%a)",
    options: &[
        PassOption { name: "fixpoint", default: "false", summary: "repeat until nothing changes" },
        PassOption {
            name: "cast",
            default: "false",
            summary: "where element types are not known or differ, convert the result to that of the target",
        },
        PassOption {
            name: "trusting",
            default: "false",
            summary: "also where element types are not known, as PyTorch does",
        },
    ],
    required: false,
    reads_shapes: true,
    run,
    file: file!(),
};

fn run(graph: &mut Graph, cx: &mut PassContext<'_>) -> Result<(), PassError> {
    graph_dump!("Before removing mutation", graph);
    let (fixpoint, trusting, casts) = (cx.flag("fixpoint")?, cx.flag("trusting")?, cx.flag("cast")?);
    loop {
        let before = graph.epoch();
        walk(graph, &mut |graph, node, seen| fold_into_list(graph, cx, node, seen));
        walk(graph, &mut |graph, node, seen| put_out_of_place(graph, cx, node, seen, (trusting, casts)));
        if !fixpoint || graph.epoch() == before {
            break;
        }
    }
    graph_dump!("After removing mutation", graph);
    Ok(())
}

/// The values that were read so far.
type Seen = EntitySet<Value>;

/// Visits the nodes in the order in which they run. A node may erase itself, and nodes before it
/// may move.
fn walk(graph: &mut Graph, visit: &mut dyn FnMut(&mut Graph, Node, &mut Seen)) {
    let mut seen = Seen::new();
    let mut open: Vec<(Block, Option<Node>)> = vec![(graph.root(), graph.first(graph.root()))];
    while let Some((block, cursor)) = open.last_mut() {
        let Some(node) = *cursor else {
            graph.results(*block).for_each(|value| _ = seen.insert(value));
            open.pop();
            continue;
        };
        *cursor = graph.next(node);
        visit(graph, node, &mut seen);
        graph.inputs(node).for_each(|value| _ = seen.insert(value));
        open.extend(graph.node_blocks(node).rev().map(|block| (block, graph.first(block))));
    }
}

// ---- what is new

/// Whether `value` is fresh memory of which `node`, in the defining block, is the first reader.
fn is_unseen(graph: &Graph, value: Value, node: Node, seen: &Seen) -> bool {
    let here = graph.definer(value).is_some_and(|definer| graph.block_of(definer) == graph.block_of(node));
    here && !seen.contains(value) && (is_new(graph, value) || is_new_in_both(graph, value) || is_cast(graph, value))
}

/// The reason why the memory of `value` may have been observed before.
fn why_seen(graph: &Graph, value: Value, node: Node, seen: &Seen) -> String {
    let name = graph.name(value);
    let Some(definer) = graph.definer(value).filter(|&definer| graph.kind(definer) != prim::PARAM) else {
        return format!("%{name} is a param: its memory may be shared");
    };
    let kind = graph.kind(definer).as_str();
    if graph.kind(definer) == prim::CONSTANT {
        format!("%{name} is a constant: a write to it is visible when the graph runs again")
    } else if seen.contains(value) {
        format!("%{name} was read before")
    } else if graph.block_of(definer) != graph.block_of(node) {
        format!("%{name} is defined in another block")
    } else if out_of_place(graph, definer).is_some() {
        format!("%{name} is memory that {kind} writes to in place, which stays unchanged")
    } else {
        format!("%{name} may share memory: {kind} defines it")
    }
}

/// Whether the definer of `value` allocates memory for it that has no other name.
pub(crate) fn is_new(graph: &Graph, value: Value) -> bool {
    let Some(node) = graph.definer(value) else { return false };
    let kind = graph.kind(node);
    let operator = ops::operator(graph.era, kind);
    let runs_nothing = graph.num_blocks(node) == 0 && graph.subgraph(node).is_none() && !operator.has_side_effects();
    // A write to a constant persists when the graph runs again.
    let lasts = kind == prim::CONSTANT || kind == prim::PARAM;
    runs_nothing && !lasts && kind != prim::UNINITIALIZED && {
        let types: Vec<Type> = graph.inputs(node).map(|operand| graph.ty(operand)).collect();
        let schema = operator.resolve(&types).schema();
        match operator.alias_rule(schema) {
            AliasRule::Fresh | AliasRule::FreshContainer | AliasRule::BatchNorm { .. } => true,
            AliasRule::Schema => schema
                .and_then(|schema| schema.returns.get(graph.output_index(value)))
                .is_some_and(|returned| !returned.is_annotated()),
            _ => false,
        }
    }
}

/// Whether `value` is new memory that nothing but a conversion reads, or the result of that.
fn is_cast(graph: &Graph, value: Value) -> bool {
    let cast = graph.definer(value).filter(|&node| graph.kind(node).as_str() == "aten::type_as");
    let from = cast.map(|cast| (cast, graph.input(cast, 0)));
    from.is_some_and(|(cast, from)| {
        let definer = graph.definer(from);
        let here = definer.is_some_and(|definer| graph.block_of(definer) == graph.block_of(cast));
        here && graph.single_use(from).is_some() && is_new(graph, from)
    })
}

/// Whether `value` is the result of a branch both sides of which allocate memory and only return
/// it.
fn is_new_in_both(graph: &Graph, value: Value) -> bool {
    let Some(branch) = graph.definer(value).filter(|&node| graph.kind(node) == prim::IF) else { return false };
    let only_returned = |block: Block| {
        graph.results(block).nth(graph.output_index(value)).is_some_and(|result| {
            let inside = graph.definer(result).is_some_and(|definer| graph.block_of(definer) == Some(block));
            let once = graph.single_use(result).is_some();
            inside && once && is_new(graph, result)
        })
    };
    graph.num_blocks(branch) == 2 && graph.node_blocks(branch).all(only_returned)
}

// ---- tensors

/// Replaces an in-place operator by one that computes a new tensor.
fn put_out_of_place(
    graph: &mut Graph,
    cx: &mut PassContext<'_>,
    node: Node,
    seen: &Seen,
    (trusting, casts): (bool, bool),
) {
    let Some(form) = out_of_place(graph, node) else { return };
    let target = graph.input(node, 0);
    if !is_unseen(graph, target, node, seen) {
        return cx.missed(graph, "writes-removed", node, || why_seen(graph, target, node, seen));
    }
    let differs = keeps_elements(graph, node, form.kind(), trusting).err();
    if let Some(why) = differs.filter(|_| !casts) {
        return cx.missed(graph, "writes-removed", node, || why.to_owned());
    }
    cx.rewrite(graph, "writes-removed", node, |graph| {
        graph_update!("Computing %{} out of place", graph.name(target));
        let output = graph.output(node, 0);
        graph.replace_all_uses(output, target);
        graph.exchange_outputs(output, target);
        for i in 0..graph.num_inputs(node) {
            if graph.input(node, i) == target {
                graph.set_input(node, i, output);
            }
        }
        form.apply(graph, node);
        if differs.is_some() {
            cast_back(graph, node, target, output);
        }
    });
}

/// Converts the result of a node, which all later readers read, to the element type of the old
/// tensor.
fn cast_back(graph: &mut Graph, node: Node, result: Value, old: Value) {
    let cast = graph.create_op(Symbol::new("aten::type_as"), &[old, old], graph.ty(result));
    graph.insert_after(node, cast);
    graph.copy_location(node, cast);
    let wide = graph.output(cast, 0);
    graph.exchange_outputs(result, wide);
    graph.set_input(cast, 0, wide);
    graph.set_type(wide, Type::tensor());
}

/// The out-of-place form of an in-place operator.
pub(crate) enum Form {
    /// The operator of this kind, with the same operands.
    Same(Symbol),
    /// `aten::full_like` or `aten::zeros_like`, with as many operands as its schema has.
    Like(&'static Schema),
}

impl Form {
    pub(crate) fn kind(&self) -> Symbol {
        match self {
            Form::Same(kind) => *kind,
            Form::Like(schema) => schema.kind,
        }
    }

    /// Converts the node. Options of a new tensor are None: as those of the old.
    pub(crate) fn apply(self, graph: &mut Graph, node: Node) {
        graph.set_kind(node, self.kind());
        if let Form::Like(schema) = self
            && graph.num_inputs(node) < schema.formals.len()
        {
            let none = graph.create_op(prim::CONSTANT, &[], Type::none());
            graph.insert_before(node, none);
            let none = graph.output(none, 0);
            for _ in graph.num_inputs(node)..schema.formals.len() {
                graph.add_input(node, none);
            }
        }
    }
}

/// The out-of-place form of an operator that writes to operand 0, returns it, and writes to nothing
/// else.
pub(crate) fn out_of_place(graph: &Graph, node: Node) -> Option<Form> {
    let kind = graph.kind(node);
    let name = kind.as_str().strip_suffix('_').filter(|name| name.starts_with("aten::") && !name.ends_with('_'))?;
    let types: Vec<Type> = graph.inputs(node).map(|operand| graph.ty(operand)).collect();
    let schema = ops::resolve(graph.era, kind, &types).schema()?;
    let plain = schema.writes().eq([0]) && schema.returns.len() == 1 && graph.num_outputs(node) == 1;
    if !plain || !types.first()?.is_tensor() || !schema.returns[0].ty.is_tensor() {
        return None;
    }
    let like = |name: &str, options: usize| {
        let schemas = ops::operator(graph.era, Symbol::new(name)).schemas;
        schemas.iter().find(|schema| schema.formals.len() >= options && !schema.is_writing()).map(Form::Like)
    };
    match (name, schema.overload) {
        ("aten::zero", _) => like("aten::zeros_like", 1),
        ("aten::fill", "Scalar") => like("aten::full_like", 2),
        // As in PyTorch: `aten::normal` is an operator with other operands.
        ("aten::normal", _) => ops::resolve(graph.era, Symbol::new("aten::normal_functional"), &types)
            .schema()
            .map(|same| Form::Same(same.kind)),
        _ => {
            let same = ops::resolve(graph.era, Symbol::new(name), &types).schema()?;
            // The first has two names, `self` and `input`.
            let formals = |schema: &Schema| schema.formals.iter().skip(1).map(|formal| formal.name).collect::<Vec<_>>();
            (!same.is_writing() && formals(same) == formals(schema)).then_some(Form::Same(same.kind))
        }
    }
}

/// Whether the new tensor has the element type of the old one, or why not.
pub(crate) fn keeps_elements(graph: &Graph, node: Node, kind: Symbol, trusting: bool) -> Result<(), &'static str> {
    let dtype = |value: Value| -> Option<DType> { graph.ty(value).as_tensor()?.dtype };
    let target = graph.input(node, 0);
    // No in-place operand may gain dimensions, which would give it more weight in type promotion.
    let same = |value: Value| {
        value == target || dtype(value).zip(dtype(target)).is_some_and(|(own, target)| join(own, target) == target)
    };
    let mut others = graph.inputs(node).filter(|&value| graph.ty(value).is_tensor());
    let elements = ops::operator(graph.era, kind).rule.elements;
    match elements {
        Elements::First => Ok(()),
        Elements::Bool if dtype(target) == Some(DType::Bool) => Ok(()),
        Elements::Bool => Err("out of place it returns bools"),
        Elements::Promoted if trusting || others.all(same) => Ok(()),
        Elements::Promoted => Err("out of place its element type may differ: types do not decide"),
    }
}

// ---- lists

/// Merges the first change of a list into its construct, which moves there.
fn fold_into_list(graph: &mut Graph, cx: &mut PassContext<'_>, node: Node, seen: &mut Seen) {
    let Some((list, change)) = change(graph, node) else { return };
    let construct = graph.definer(list).filter(|&definer| graph.kind(definer) == prim::LIST_CONSTRUCT);
    let Some(construct) = construct.filter(|_| is_unseen(graph, list, node, seen)) else { return };
    let length = graph.num_inputs(construct) as i64;
    let (element, place) = match change {
        Change::Insert(place, element) => {
            (element, if place < 0 { (place + length).max(0) } else { place.min(length) })
        }
        Change::Set(place, element) => (element, if place < 0 { place + length } else { place }),
    };
    let setting = matches!(change, Change::Set(..));
    if setting && !(0..length).contains(&place) {
        return cx.missed(graph, "list-writes-removed", node, || "the list has no such element".to_owned());
    }
    let done = cx.rewrite(graph, "list-writes-removed", node, |graph| {
        graph_update!("Constructing %{} with its element {place}", graph.name(list));
        graph.move_before(construct, node);
        let place = place as usize;
        if setting {
            graph.set_input(construct, place, element)
        } else {
            graph.insert_input(construct, place, element)
        }
        if let Some(output) = graph.single_output(node) {
            graph.replace_all_uses(output, list);
        }
        graph.erase(node);
    });
    if done.is_some() {
        seen.insert(element);
    }
}

/// A change of a list.
enum Change {
    /// An element is inserted at this index, or at the end of a shorter list; later ones are
    /// shifted.
    Insert(i64, Value),
    /// An element is replaced.
    Set(i64, Value),
}

/// The list that a node changes, and how, when the index is constant.
fn change(graph: &Graph, node: Node) -> Option<(Value, Change)> {
    let operands: Vec<Value> = graph.inputs(node).take(4).collect();
    let list = *operands.first()?;
    let constant = |value: Value| match graph.constant(value)?? {
        Attribute::Int(n) => Some(*n),
        _ => None,
    };
    let change = match (graph.kind(node).as_str(), &operands[1..]) {
        ("aten::append", &[element]) => Change::Insert(i64::MAX, element),
        ("aten::insert", &[place, element]) => Change::Insert(constant(place)?, element),
        ("aten::_set_item", &[place, element]) => Change::Set(constant(place)?, element),
        _ => return None,
    };
    (graph.num_outputs(node) <= 1).then_some((list, change))
}
