//! Sketches of generated values: all properties but the numbers, which depend on a seed and a style
//! alone.

use super::description::Described;
use super::environment::Environment;
use super::ivalue::{EnumMember, IValue};
use super::literal_values;
use super::random::Philox;
use crate::tensor::layout::{self, Dims};
use crate::tensor::{C128, DType, Device, Precision, Tensor};
use crate::types::{Dim, Simple, Strides, TensorType, Type, TypeKind};
use std::collections::BTreeMap;
use std::rc::Rc;

/// The distribution of numbers and shapes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Style {
    /// Normally distributed numbers, few elements.
    #[default]
    Ordinary,
    /// Zeros of both signs, infinities, NaN, denormals, the largest and the smallest numbers, and
    /// many equal ones.
    Adversarial,
    /// Sizes of 1 and missing dimensions.
    Broadcasting,
    /// Sizes of 0 and 1.
    Tiny,
    /// Tensors of one type and shape share memory.
    Aliased,
}

impl Style {
    /// All styles, with their names.
    pub const ALL: &[(&str, Style)] = &[
        ("ordinary", Style::Ordinary),
        ("adversarial", Style::Adversarial),
        ("broadcasting", Style::Broadcasting),
        ("tiny", Style::Tiny),
        ("aliased", Style::Aliased),
    ];

    /// The style with a name.
    pub fn named(name: &str) -> Option<Style> {
        Style::ALL.iter().find(|(known, _)| *known == name).map(|&(_, style)| style)
    }
}

/// A tensor without its elements.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TensorSketch {
    /// Element type.
    pub dtype: DType,
    /// Whether another element type may be tried.
    pub free_dtype: bool,
    /// Sizes, and whether another may be tried.
    pub dims: Vec<(i64, bool)>,
    /// Whether another number of dimensions may be tried.
    pub free_rank: bool,
    /// The strides, if the type declares them.
    pub strides: Option<Dims>,
    /// The device that programs see.
    pub device: Option<String>,
    /// The `requires_grad` that programs see.
    pub requires_grad: bool,
    /// The range of integers: at least the first, less than the second.
    pub range: (i64, i64),
}

/// A value without its numbers.
#[derive(Clone, Debug)]
pub(crate) enum Sketch {
    /// A tensor.
    Tensor(TensorSketch),
    /// An integer, which may be changed.
    Int(i64),
    /// A list that may be of another length.
    List(Vec<Sketch>),
    /// Parts.
    Tuple(Vec<Sketch>),
    /// Items.
    Dict(Vec<(IValue, Sketch)>),
    /// The value, or `None` while the flag is set.
    Optional(Box<Sketch>, bool),
    /// A floating point number, which the style decides.
    Float,
    /// A number from 0 to 1.
    Probability,
    /// Any other value, unchanged.
    Fixed(IValue),
}

/// The initial size of dimensions: equal for all, so that most operators accept them.
pub(crate) const FIRST_SIZE: i64 = 3;

impl TensorSketch {
    /// A tensor with a given rank and everything else free.
    pub(crate) fn free(rank: usize) -> TensorSketch {
        TensorSketch {
            dtype: DType::Float,
            free_dtype: true,
            dims: vec![(FIRST_SIZE, true); rank],
            free_rank: true,
            strides: None,
            device: None,
            requires_grad: false,
            range: (0, FIRST_SIZE),
        }
    }

    /// A tensor with the declared properties of a type.
    pub(crate) fn of_type(ty: &TensorType, rank: usize) -> TensorSketch {
        let mut sketch = TensorSketch::free(rank);
        if let Some(dtype) = ty.dtype.filter(|dtype| dtype.arithmetic().is_some()) {
            (sketch.dtype, sketch.free_dtype) = (dtype, false);
        }
        if let Some(sizes) = &ty.sizes {
            let size = |dim: &Dim| match dim {
                Dim::Known(n) => ((*n).max(0), false),
                Dim::Symbolic(_) => (FIRST_SIZE, false),
                Dim::Unknown => (FIRST_SIZE, true),
            };
            (sketch.dims, sketch.free_rank) = (sizes.iter().map(size).collect(), false);
        }
        if let Strides::Known(strides) = &ty.strides {
            sketch.strides = Some(strides[..].into());
        }
        sketch.requires_grad = ty.requires_grad == Some(true);
        sketch.device = ty.device.map(|device| device.as_str().to_owned());
        sketch
    }

    /// Sizes.
    pub(crate) fn shape(&self) -> Dims {
        self.dims.iter().map(|&(n, _)| n).collect()
    }

    /// Sets a shape that must not be changed.
    pub(crate) fn fix(&mut self, shape: &[i64]) {
        self.dims = shape.iter().map(|&n| (n, false)).collect();
        (self.free_rank, self.strides) = (false, None);
    }

    fn realise(&self, style: Style, draws: &mut Philox, precision: Precision) -> Tensor {
        // A declared size larger than the limit is left empty.
        let shape = Some(self.shape()).filter(|shape| layout::checked(shape).is_ok()).unwrap_or([0].as_slice().into());
        let n = layout::numel(&shape);
        let made = elements(self, n, style, draws);
        let tensor = match made {
            Elements::Ints(ints) => Tensor::of(&ints, self.dtype, &shape, precision),
            Elements::Reals(floats) => Tensor::of(&floats, self.dtype, &shape, precision),
            Elements::Complex(complex) => Tensor::of(&complex, self.dtype, &shape, precision),
        };
        let tensor = self.strides.as_ref().and_then(|strides| strided(&tensor, strides, precision)).unwrap_or(tensor);
        tensor.set_requires_grad(self.requires_grad);
        self.device.as_deref().map_or(tensor.clone(), |device| tensor.on(Device::new(device)))
    }
}

/// The same elements with other strides; `None` if the strides are not those of a dense tensor.
fn strided(tensor: &Tensor, strides: &[i64], precision: Precision) -> Option<Tensor> {
    let fits = strides.len() == tensor.rank() && layout::is_dense(tensor.shape(), strides);
    let flat = Tensor::zeros(tensor.dtype(), &[tensor.numel() as i64], precision);
    let view = fits.then(|| flat.as_strided(tensor.shape(), strides, 0).ok()).flatten()?;
    view.copy_from(tensor).ok()?;
    Some(view)
}

enum Elements {
    Ints(Vec<i64>),
    Reals(Vec<f64>),
    Complex(Vec<C128>),
}

fn elements(sketch: &TensorSketch, n: usize, style: Style, draws: &mut Philox) -> Elements {
    let dtype = sketch.dtype;
    if dtype == DType::Bool {
        return Elements::Ints((0..n).map(|_| i64::from(draws.one_in(2))).collect());
    }
    if dtype.is_integral() {
        let (low, high) = sketch.range;
        return Elements::Ints((0..n).map(|_| draws.int(low, high)).collect());
    }
    if style != Style::Adversarial && !dtype.is_complex() {
        return Elements::Reals(draws.normals(n));
    }
    let mut real = || real(dtype, style, draws);
    match dtype.is_complex() {
        true => Elements::Complex((0..n).map(|_| C128::new(real(), real())).collect()),
        false => Elements::Reals((0..n).map(|_| real()).collect()),
    }
}

/// A floating point number of a style. Half of the adversarial ones are special values.
pub(crate) fn real(dtype: DType, style: Style, draws: &mut Philox) -> f64 {
    if style != Style::Adversarial || draws.one_in(2) {
        return draws.normal();
    }
    let (largest, smallest) = match dtype.to_real() {
        DType::Half => (65504.0, 2f64.powi(-24)),
        DType::BFloat16 => (2f64.powi(127) * (2.0 - 2f64.powi(-7)), 2f64.powi(-133)),
        DType::Float => (f64::from(f32::MAX), 2f64.powi(-149)),
        _ => (f64::MAX, 5e-324),
    };
    let special =
        [0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, largest, -largest, smallest, -smallest, 1.0, 1.0, -1.0];
    special[draws.below(special.len())]
}

/// A number from 0 to 1. Half of the adversarial ones are 0 or 1.
fn probability(style: Style, draws: &mut Philox) -> f64 {
    match style == Style::Adversarial && draws.one_in(2) {
        true => [0.0, 1.0][draws.below(2)],
        false => draws.uniform(),
    }
}

impl Sketch {
    /// A sketch of a type, given the rank that its uses suggest.
    pub(crate) fn of_type(ty: Type, name: &str, rank: usize) -> Sketch {
        let inner = |ty: Type| Sketch::of_type(ty, name, rank);
        match ty.kind() {
            TypeKind::Tensor(ty) if ty.undefined == Some(true) => Sketch::Fixed(IValue::Undefined),
            TypeKind::Tensor(ty) => Sketch::Tensor(TensorSketch::of_type(ty, rank)),
            TypeKind::Optional(ty) => Sketch::Optional(Box::new(inner(*ty)), false),
            TypeKind::List(ty) => Sketch::List(vec![inner(*ty); 2]),
            TypeKind::Dict(key, value) => {
                let keys = ["a", "b"].iter().enumerate().map(|(i, text)| match key.kind() {
                    TypeKind::Simple(Simple::Int) => IValue::Int(i as i64),
                    TypeKind::Simple(Simple::Float) => IValue::Float(i as f64),
                    TypeKind::Simple(Simple::Bool) => IValue::Bool(i == 1),
                    _ => IValue::from(*text),
                });
                Sketch::Dict(keys.map(|key| (key, inner(*value))).collect())
            }
            TypeKind::Tuple(parts) => Sketch::Tuple(parts.iter().map(|&ty| inner(ty)).collect()),
            TypeKind::NamedTuple(fields) => Sketch::Tuple(fields.iter().map(|field| inner(field.ty)).collect()),
            TypeKind::Union(members) => members.first().map_or(Sketch::Fixed(IValue::None), |&ty| inner(ty)),
            TypeKind::Future(ty) => inner(*ty),
            TypeKind::Class(class) | TypeKind::Interface(class) => Sketch::Fixed(literal_values::object(*class, name)),
            TypeKind::Enum(class) => {
                Sketch::Fixed(IValue::Enum(Rc::new(EnumMember { class: *class, name: String::new(), value: None })))
            }
            TypeKind::Simple(simple) => of_simple(*simple),
            _ => Sketch::Fixed(IValue::None),
        }
    }

    /// A sketch of a description, whose tensors have no elements.
    pub(crate) fn of_description(described: &Described) -> Sketch {
        match described {
            Described::Tensor(note) => {
                let mut sketch = TensorSketch::free(0);
                sketch.fix(&note.shape);
                (sketch.dtype, sketch.free_dtype) = (note.dtype, false);
                (sketch.strides, sketch.device) = (note.strides.clone(), note.device.clone());
                sketch.requires_grad = note.requires_grad == Some(true);
                Sketch::Tensor(sketch)
            }
            Described::List(list) => Sketch::List(list.iter().map(Sketch::of_description).collect()),
            Described::Tuple(list) => Sketch::Tuple(list.iter().map(Sketch::of_description).collect()),
            Described::Dict(items) => {
                let item = |(k, v): &(Described, Described)| (plain(k), Sketch::of_description(v));
                Sketch::Dict(items.iter().map(item).collect())
            }
            other => Sketch::Fixed(plain(other)),
        }
    }

    /// Calls `f` with every leaf.
    pub(crate) fn each(&mut self, f: &mut dyn FnMut(&mut Sketch)) {
        match self {
            Sketch::List(parts) | Sketch::Tuple(parts) => parts.iter_mut().for_each(|part| part.each(f)),
            Sketch::Dict(items) => items.iter_mut().for_each(|(_, value)| value.each(f)),
            Sketch::Optional(inner, absent) if !*absent => inner.each(f),
            other => f(other),
        }
    }

    /// The value, with memory of its own.
    pub(crate) fn realise(&self, maker: &mut Maker<'_>) -> IValue {
        match self {
            Sketch::Tensor(sketch) => maker.tensor(sketch),
            Sketch::Int(n) => IValue::Int(*n),
            Sketch::Float => IValue::Float(real(DType::Double, maker.style, &mut maker.draws)),
            Sketch::Probability => IValue::Float(probability(maker.style, &mut maker.draws)),
            Sketch::List(parts) => IValue::list(parts.iter().map(|part| part.realise(maker)).collect::<Vec<_>>()),
            Sketch::Tuple(parts) => IValue::tuple(parts.iter().map(|part| part.realise(maker)).collect::<Vec<_>>()),
            Sketch::Dict(items) => {
                IValue::dict(items.iter().map(|(k, v)| (k.clone(), v.realise(maker))).collect::<Vec<_>>())
            }
            Sketch::Optional(_, true) => IValue::None,
            Sketch::Optional(inner, false) => inner.realise(maker),
            Sketch::Fixed(value) => maker.copy(value),
        }
    }
}

fn of_simple(simple: Simple) -> Sketch {
    match simple {
        Simple::Int | Simple::SymInt | Simple::Number | Simple::Scalar => Sketch::Int(1),
        Simple::Float | Simple::SymFloat => Sketch::Float,
        Simple::Bool | Simple::SymBool => Sketch::Fixed(IValue::Bool(true)),
        Simple::Complex => Sketch::Fixed(IValue::Complex(C128::new(1.0, -0.5))),
        Simple::Str => Sketch::Fixed(IValue::from("a")),
        Simple::Device | Simple::DeviceObj => Sketch::Fixed(IValue::Device(Device::cpu())),
        Simple::ScalarType => Sketch::Fixed(IValue::from(DType::Float)),
        Simple::Layout | Simple::MemoryFormat => Sketch::Fixed(IValue::Int(0)),
        Simple::Any => Sketch::Tensor(TensorSketch::free(2)),
        _ => Sketch::Fixed(IValue::None),
    }
}

/// A value without tensors.
fn plain(described: &Described) -> IValue {
    let none = BTreeMap::new();
    super::description::Source::new(&none, Precision::Typed).value(described, "").unwrap_or(IValue::None)
}

/// Makes the values of one run.
pub(crate) struct Maker<'a> {
    style: Style,
    env: &'a Environment,
    draws: Philox,
    /// Given memory, by address, and its copy.
    copies: BTreeMap<usize, Tensor>,
    /// Values made so far, for those that share them.
    made: Vec<(TensorSketch, Tensor)>,
    /// The number of draws so far.
    drawn: u64,
}

impl<'a> Maker<'a> {
    /// A maker with a seed. Values that are made in the same order get the same numbers.
    pub(crate) fn new(seed: u64, style: Style, env: &'a Environment) -> Maker<'a> {
        let draws = Philox::new(seed, u64::MAX, 0);
        Maker { style, env, draws, copies: BTreeMap::new(), made: Vec::new(), drawn: 0 }
    }

    /// The number of draws for tensors so far.
    pub(crate) fn drawn(&self) -> u64 {
        self.drawn
    }

    /// Starts a new stream for the next value, so that values before it have no influence.
    pub(crate) fn stream(&mut self, seed: u64, place: u64) {
        self.draws = Philox::new(seed, place, 1);
    }

    fn tensor(&mut self, sketch: &TensorSketch) -> IValue {
        let shared = self.made.iter().find(|(made, _)| made == sketch).map(|(_, tensor)| tensor.clone());
        if let Some(tensor) = shared.filter(|_| self.style == Style::Aliased) {
            return IValue::Tensor(tensor);
        }
        let tensor = sketch.realise(self.style, &mut self.draws, self.env.precision);
        self.drawn += tensor.numel() as u64;
        self.made.push((sketch.clone(), tensor.clone()));
        IValue::Tensor(tensor)
    }

    /// A copy that shares no memory with the original. Sharing within the original is kept within
    /// the copy.
    pub(crate) fn copy(&mut self, value: &IValue) -> IValue {
        match value {
            IValue::Tensor(tensor) => IValue::Tensor(self.copied(tensor)),
            IValue::List(list) => IValue::list(list.borrow().iter().map(|v| self.copy(v)).collect::<Vec<_>>()),
            IValue::Tuple(list) => IValue::tuple(list.iter().map(|v| self.copy(v)).collect::<Vec<_>>()),
            IValue::Dict(dict) => {
                IValue::dict(dict.borrow().iter().map(|(k, v)| (k.0.clone(), self.copy(v))).collect::<Vec<_>>())
            }
            IValue::Object(object) => {
                let attributes = object.attributes.borrow().clone();
                IValue::Object(Rc::new(super::ivalue::Object { class: object.class, attributes: attributes.into() }))
            }
            other => other.clone(),
        }
    }

    fn copied(&mut self, tensor: &Tensor) -> Tensor {
        let memory = self.copies.entry(tensor.storage().address()).or_insert_with(|| {
            let buffer = tensor.storage().read().clone();
            let n = buffer.len() as i64;
            Tensor::new(buffer, tensor.dtype(), &[n])
        });
        let view = memory.as_strided(tensor.shape(), tensor.strides(), tensor.offset() as i64);
        let view = view.unwrap_or_else(|_| tensor.copied()).on(tensor.device());
        view.set_requires_grad(tensor.requires_grad());
        view
    }
}
