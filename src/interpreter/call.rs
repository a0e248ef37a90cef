//! The interface of a kernel: operands by their names in the schema, so that one kernel serves all
//! overloads and versions.

use super::environment::{Environment, Release};
use super::ivalue::IValue;
use super::random::Philox;
use super::stop::Stop;
use crate::ir::{Graph, Node};
use crate::ops::schema::{Formal, Schema};
use crate::symbol::Symbol;
use crate::tensor::{DType, Device, Precision, Scalar, Tensor};
use crate::text::number::parse_float;
use smallvec::SmallVec;

/// The results of a kernel: a value for each output of the node.
pub type Outs = SmallVec<[IValue; 2]>;
/// The results, or the reason for the stop.
pub type Answer = Result<Outs, Stop>;
/// Computes the outputs of a node from its operands.
pub type Kernel = fn(&Call<'_>) -> Answer;
/// A kind and its kernel.
pub type Row = (&'static str, Kernel);

/// One output.
pub(crate) fn one(value: impl Into<IValue>) -> Answer {
    Ok(smallvec::smallvec![value.into()])
}

/// Several outputs.
pub(crate) fn several(values: impl IntoIterator<Item = impl Into<IValue>>) -> Answer {
    Ok(values.into_iter().map(Into::into).collect())
}

/// One execution of one node.
#[derive(Clone, Copy)]
pub struct Call<'a> {
    /// The graph.
    pub graph: &'a Graph,
    /// The node.
    pub node: Node,
    /// The overload; none for kinds without schema.
    pub schema: Option<&'static Schema>,
    /// The operands.
    pub args: &'a [IValue],
    /// The settings and side effects of the run.
    pub env: &'a Environment,
}

impl<'a> Call<'a> {
    /// The kind of the node.
    pub fn kind(&self) -> Symbol {
        self.graph.kind(self.node)
    }

    /// The name of the overload.
    pub(crate) fn overload(&self) -> &'static str {
        self.schema.map_or("", |schema| schema.overload)
    }

    /// The precision of stored floating point numbers.
    pub(crate) fn precision(&self) -> Precision {
        self.env.precision
    }

    /// The release whose semantics apply.
    pub fn release(&self) -> Release {
        self.env.release.unwrap_or(self.graph.release())
    }

    /// The random numbers of this execution.
    pub(crate) fn draws(&self) -> Philox {
        if !self.env.draw_by_origin {
            return self.env.draws(self.graph.draw_root(self.node), &self.env.iterations());
        }
        let fold = |hash: usize, byte: &u8| (hash ^ usize::from(*byte)).wrapping_mul(0x100_0193);
        let from = self.graph.origin_location(self.node).unwrap_or_default();
        self.env.draws(from.iter().chain(self.kind().as_str().as_bytes()).fold(0x811c_9dc5, fold), &[])
    }

    // ---- operands

    /// An operand by position, for kinds whose schemas differ in names.
    pub(crate) fn arg(&self, i: usize) -> Result<&'a IValue, Stop> {
        self.args
            .get(i)
            .ok_or_else(|| Stop::unsupported(format!("`{}` with {} operands", self.kind(), self.args.len())))
    }

    /// An operand; if the node has fewer, the default of the schema.
    pub fn get(&self, name: &str) -> Option<IValue> {
        let i = self.schema?.formal(name)?;
        match self.args.get(i) {
            Some(value) => Some(value.clone()),
            None => self.schema.and_then(|schema| schema.formals[i].default).map(default_value),
        }
    }

    /// An operand of the node itself, without a clone.
    pub(crate) fn look(&self, name: &str) -> Option<&'a IValue> {
        self.args.get(self.schema?.formal(name)?)
    }

    /// The operands that receive the results of an overload such as `max.dim_max` or `add.out`: the
    /// last ones, as many as it has results.
    pub(crate) fn outs(&self) -> Option<&'a [IValue]> {
        let schema = self.schema.filter(|schema| !schema.returns.is_empty())?;
        let from = schema.formals.len().checked_sub(schema.returns.len()).filter(|&from| from >= schema.positional)?;
        let is_out = |formal: &Formal| formal.is_written() && formal.ty.is_tensor();
        let are_outs = schema.formals[from..].iter().chain(&schema.returns).all(is_out);
        self.args.get(from..schema.formals.len()).filter(|_| are_outs)
    }

    fn wrong(&self, name: &str, wanted: &str) -> Stop {
        let found = self.get(name).map_or("nothing", |value| value.kind_name());
        Stop::unsupported(format!("`{}` gets {found} for `{name}`, not {wanted}", self.kind()))
    }

    /// A tensor. A number counts as a zero-dimensional tensor, as in graphs with erased number
    /// types.
    pub(crate) fn tensor(&self, name: &str) -> Result<Tensor, Stop> {
        match self.look(name) {
            Some(IValue::Tensor(tensor)) => Ok(tensor.clone()),
            Some(IValue::Undefined) => Err(Stop::raised(format!(
                "Expected a proper Tensor but got None (or an undefined Tensor in C++) for argument '{name}'"
            ))),
            Some(value) if value.scalar().is_some() => {
                let scalar = value.scalar().expect("just seen");
                let dtype = crate::tensor::promotion::of_scalar(scalar, self.env.default_dtype());
                Ok(Tensor::scalar(scalar, dtype, self.precision()))
            }
            _ => Err(self.wrong(name, "a tensor")),
        }
    }

    /// A tensor or `None`; an undefined one counts as `None`.
    pub(crate) fn opt_tensor(&self, name: &str) -> Result<Option<Tensor>, Stop> {
        match self.look(name) {
            None | Some(IValue::None | IValue::Undefined) => Ok(None),
            Some(_) => self.tensor(name).map(Some),
        }
    }

    /// A list of tensors; undefined ones and `None` are refused.
    pub(crate) fn tensors(&self, name: &str) -> Result<Vec<Tensor>, Stop> {
        let elements = self.elements(name)?;
        elements
            .iter()
            .map(|value| value.tensor().cloned().ok_or_else(|| self.wrong(name, "a list of tensors")))
            .collect()
    }

    /// A list of tensors and `None`.
    pub(crate) fn opt_tensors(&self, name: &str) -> Result<Vec<Option<Tensor>>, Stop> {
        Ok(self.elements(name)?.iter().map(|value| value.tensor().cloned()).collect())
    }

    /// The elements of a list or a tuple.
    pub(crate) fn elements(&self, name: &str) -> Result<Vec<IValue>, Stop> {
        match self.get(name) {
            Some(IValue::List(list)) => Ok(list.borrow().clone()),
            Some(IValue::Tuple(elements)) => Ok(elements.to_vec()),
            _ => Err(self.wrong(name, "a list")),
        }
    }

    /// A number, or the element of a one-element tensor.
    pub(crate) fn scalar(&self, name: &str) -> Result<Scalar, Stop> {
        self.opt_scalar(name)?.ok_or_else(|| self.wrong(name, "a number"))
    }

    /// A number or `None`.
    pub(crate) fn opt_scalar(&self, name: &str) -> Result<Option<Scalar>, Stop> {
        match self.get(name) {
            None | Some(IValue::None) => Ok(None),
            Some(IValue::Tensor(tensor)) if tensor.numel() == 1 => Ok(Some(tensor.item())),
            Some(value) => value.scalar().map(Some).ok_or_else(|| self.wrong(name, "a number")),
        }
    }

    /// An integer.
    pub(crate) fn int(&self, name: &str) -> Result<i64, Stop> {
        self.opt_int(name)?.ok_or_else(|| self.wrong(name, "an int"))
    }

    /// An integer or `None`.
    pub(crate) fn opt_int(&self, name: &str) -> Result<Option<i64>, Stop> {
        Ok(self.opt_scalar(name)?.map(Scalar::int))
    }

    /// A floating point number.
    pub(crate) fn float(&self, name: &str) -> Result<f64, Stop> {
        Ok(self.scalar(name)?.real())
    }

    /// A floating point number or `None`.
    pub(crate) fn opt_float(&self, name: &str) -> Result<Option<f64>, Stop> {
        Ok(self.opt_scalar(name)?.map(Scalar::real))
    }

    /// A bool; false if the schema has no such formal.
    pub(crate) fn bool(&self, name: &str) -> Result<bool, Stop> {
        Ok(self.opt_scalar(name)?.is_some_and(Scalar::truth))
    }

    /// A string.
    pub(crate) fn str(&self, name: &str) -> Result<String, Stop> {
        match self.get(name) {
            Some(IValue::Str(text)) => Ok(text.to_string()),
            _ => Err(self.wrong(name, "a str")),
        }
    }

    /// A string or `None`.
    pub(crate) fn opt_str(&self, name: &str) -> Result<Option<String>, Stop> {
        match self.get(name) {
            Some(IValue::Str(text)) => Ok(Some(text.to_string())),
            _ => Ok(None),
        }
    }

    /// A list of integers; one integer counts as a list of length 1.
    pub(crate) fn ints(&self, name: &str) -> Result<Vec<i64>, Stop> {
        self.opt_ints(name)?.ok_or_else(|| self.wrong(name, "a list of ints"))
    }

    /// A list of integers or `None`.
    pub(crate) fn opt_ints(&self, name: &str) -> Result<Option<Vec<i64>>, Stop> {
        let int = |value: &IValue| match value {
            IValue::Tensor(tensor) if tensor.numel() == 1 => Ok(tensor.item().int()),
            value => value.scalar().map(Scalar::int).ok_or_else(|| self.wrong(name, "a list of ints")),
        };
        match self.get(name) {
            None | Some(IValue::None) => Ok(None),
            Some(IValue::List(list)) => list.borrow().iter().map(int).collect::<Result<_, _>>().map(Some),
            Some(IValue::Tuple(list)) => list.iter().map(int).collect::<Result<_, _>>().map(Some),
            Some(value) => {
                let n = int(&value)?;
                let size = self.schema.and_then(|s| s.formals[s.formal(name)?].size).unwrap_or(1);
                Ok(Some(vec![n; size as usize]))
            }
        }
    }

    /// A list of integers, one per spatial dimension: a list of length 1 applies to all.
    pub(crate) fn spatial(&self, name: &str, n: usize) -> Result<Vec<i64>, Stop> {
        let list = self.ints(name)?;
        Ok(if list.len() == 1 { vec![list[0]; n] } else { list })
    }

    /// A list of floating point numbers or `None`.
    pub(crate) fn opt_floats(&self, name: &str) -> Result<Option<Vec<f64>>, Stop> {
        match self.get(name) {
            None | Some(IValue::None) => Ok(None),
            Some(_) => {
                let real = |value: &IValue| {
                    value.scalar().map(Scalar::real).ok_or_else(|| self.wrong(name, "a list of floats"))
                };
                self.elements(name)?.iter().map(real).collect::<Result<_, _>>().map(Some)
            }
        }
    }

    /// An element type or `None`.
    pub(crate) fn opt_dtype(&self, name: &str) -> Result<Option<DType>, Stop> {
        let Some(code) = self.opt_int(name)? else { return Ok(None) };
        match DType::from_code(code).filter(|dtype| dtype.arithmetic().is_some()) {
            Some(dtype) => Ok(Some(dtype)),
            None => Err(Stop::unsupported(format!("tensors of dtype {code} do not exist here"))),
        }
    }

    /// A device or `None`.
    pub(crate) fn opt_device(&self, name: &str) -> Option<Device> {
        match self.get(name) {
            Some(IValue::Device(device)) => Some(device),
            Some(IValue::Str(text)) => Some(Device::new(&text)),
            _ => None,
        }
    }

    // ---- results

    /// A tensor with these elements in logical order.
    pub(crate) fn made<W: crate::tensor::buffer::Wide>(&self, elements: &[W], dtype: DType, shape: &[i64]) -> Tensor {
        Tensor::of(elements, dtype, shape, self.precision())
    }

    /// The same call with other operands.
    pub(crate) fn with<'b>(&'b self, args: &'b [IValue]) -> Call<'b> {
        Call { args, ..*self }
    }
}

/// The value of a default in a schema. Names of enum members become their numbers.
fn default_value(text: &'static str) -> IValue {
    match text {
        "None" => IValue::None,
        "True" => IValue::Bool(true),
        "False" => IValue::Bool(false),
        "Mean" => IValue::Int(1),
        "Sum" => IValue::Int(2),
        "contiguous_format" => IValue::Int(0),
        "long" => IValue::Int(4),
        _ if text.starts_with('[') => {
            let parts = text.trim_matches(['[', ']']).split(',').map(str::trim).filter(|part| !part.is_empty());
            IValue::list(parts.map(default_number))
        }
        _ if text.starts_with(['\'', '"']) => IValue::from(text.trim_matches(['\'', '"'])),
        _ => default_number(text),
    }
}

fn default_number(text: &str) -> IValue {
    match text.parse::<i64>() {
        Ok(n) => IValue::Int(n),
        Err(_) => match text {
            "True" => IValue::Bool(true),
            "False" => IValue::Bool(false),
            _ => parse_float(text.as_bytes()).map_or(IValue::None, IValue::Float),
        },
    }
}
