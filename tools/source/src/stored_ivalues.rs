//! Values of an archive as values of the interpreter.

use crate::archive_code::ArchiveCode;
use crate::declared_names::Declarations;
use crate::load_hooks::HookBudget;
use crate::packed_weights;
use crate::printed_syntax::ExprKind;
use crate::source_error::{Result, SourceError, fail};
use jitopt_archive::{Archive, PerSlice, Quantizer, StoredTensor, StoredValue};
use jitopt_core::interpreter::{EnumMember, IValue, Object, files};
use jitopt_core::symbol::Symbol;
use jitopt_core::tensor::{self, C128, DType, Device, Tensor};
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

/// Makes values. What shares memory, or is one object, in the archive does so here.
pub(crate) struct Values<'a> {
    archive: &'a Archive,
    names: &'a Declarations,
    /// Whose load hooks make objects, and what is left for them.
    hooks: Option<(&'a ArchiveCode, HookBudget)>,
    storages: HashMap<(usize, DType), Tensor>,
    objects: HashMap<u32, IValue>,
}

impl<'a> Values<'a> {
    /// For constants, among which are no objects with load hooks.
    pub(crate) fn of_constants(archive: &'a Archive, names: &'a Declarations) -> Values<'a> {
        Values { archive, names, hooks: None, storages: HashMap::new(), objects: HashMap::new() }
    }

    /// For a module.
    pub(crate) fn of_module(archive: &'a Archive, code: &'a ArchiveCode) -> Values<'a> {
        Values { hooks: Some((code, HookBudget::default())), ..Values::of_constants(archive, &code.names) }
    }

    /// The value; the depth is bounded by that of the pickle.
    pub(crate) fn value(&mut self, stored: &StoredValue) -> Result<IValue> {
        Ok(match stored {
            StoredValue::None => IValue::None,
            StoredValue::Bool(value) => IValue::Bool(*value),
            StoredValue::Int(value) => IValue::Int(*value),
            StoredValue::Float(value) => IValue::Float(*value),
            StoredValue::Complex(real, imaginary) => IValue::Complex(C128::new(*real, *imaginary)),
            StoredValue::Text(text) => IValue::Str(text.as_str().into()),
            StoredValue::Device(name) => IValue::Device(Device::new(name)),
            StoredValue::Tensor(tensor) => IValue::Tensor(self.tensor(tensor)?),
            StoredValue::Tuple(items) => IValue::tuple(self.values(items)?),
            StoredValue::List(items) => IValue::list(self.values(items)?),
            StoredValue::Dict(entries) => {
                let entry = |(key, value): &(StoredValue, StoredValue)| Ok((self.value(key)?, self.value(value)?));
                IValue::dict(entries.iter().map(entry).collect::<Result<Vec<_>>>()?)
            }
            StoredValue::Object { class, number, .. } => self.object(class, *number, stored)?,
            StoredValue::Made { class, from } => self.made(class, from)?,
            StoredValue::Other => return fail("a storage or a class is no value"),
        })
    }

    fn values(&mut self, items: &[StoredValue]) -> Result<Vec<IValue>> {
        items.iter().map(|item| self.value(item)).collect()
    }

    fn object(&mut self, class: &str, number: u32, stored: &StoredValue) -> Result<IValue> {
        if let Some(known) = self.objects.get(&number) {
            return Ok(known.clone());
        }
        if let Some(made) = self.made_of_state(class, stored)? {
            self.objects.insert(number, made.clone());
            return Ok(made);
        }
        let mut attributes = indexmap::IndexMap::new();
        for (name, value) in stored.attributes() {
            attributes.insert(name.to_owned(), self.value(value)?);
        }
        let object = Object { class: Symbol::new(class), attributes: RefCell::new(attributes) };
        let object = IValue::Object(Rc::new(object));
        self.objects.insert(number, object.clone());
        Ok(object)
    }

    /// An object that a load hook, or a class of PyTorch, makes of its state; nothing for others.
    fn made_of_state(&mut self, class: &str, stored: &StoredValue) -> Result<Option<IValue>> {
        let StoredValue::Object { state, .. } = stored else { return Ok(None) };
        if packed_weights::is_packed(class) {
            let state = self.value(state)?;
            return packed_weights::packed(class, &state).map(Some);
        }
        if self.names.method(class, "__setstate__").is_none() {
            return Ok(None);
        }
        let state = self.value(state)?;
        match &self.hooks {
            Some((code, budget)) => code.restored(class, state, budget).map(Some),
            None => fail(format!("a constant of class `{class}`, which has a load hook")),
        }
    }

    /// An enum by its value, or a named tuple.
    fn made(&mut self, class: &str, from: &StoredValue) -> Result<IValue> {
        let value = self.value(from)?;
        let Some(declared) = self.names.class(class).filter(|class| class.def.base == "Enum") else {
            return Ok(value);
        };
        let value = match &value {
            IValue::Tuple(items) if items.len() == 1 => items[0].clone(),
            _ => value,
        };
        let is_this = |kind: &ExprKind| match (kind, &value) {
            (ExprKind::Int(a), IValue::Int(b)) => a == b,
            (ExprKind::Float(a), IValue::Float(b)) => a.to_bits() == b.to_bits(),
            (ExprKind::Text(a), IValue::Str(b)) => a.as_slice() == b.as_bytes(),
            _ => false,
        };
        let field = declared.def.fields.iter().find(|field| field.value.as_ref().is_some_and(|v| is_this(&v.kind)));
        let Some(field) = field else { return fail(format!("the enum `{class}` has no such value")) };
        let member = EnumMember { class: Symbol::new(class), name: field.name.clone(), value: Some(value) };
        Ok(IValue::Enum(Rc::new(member)))
    }

    fn tensor(&mut self, stored: &StoredTensor) -> Result<Tensor> {
        let name = stored.dtype.name();
        let Some(dtype) = DType::from_python(name) else { return fail(format!("elements of type {name} are not run")) };
        if stored.signs.change() {
            return self.with_own_elements(stored, dtype);
        }
        let whole = match self.storages.get(&(stored.storage, dtype)) {
            Some(known) => known.clone(),
            None => self.whole_storage(stored, dtype)?,
        };
        let numbers = |numbers: &[u64]| numbers.iter().map(|number| *number as i64).collect::<Vec<i64>>();
        let view = whole.as_strided(&numbers(&stored.sizes), &numbers(&stored.strides), stored.offset as i64);
        let view = view.map_err(|error| SourceError::new(format!("a tensor is no view of its storage: {error:?}")))?;
        match &stored.quantizer {
            None => Ok(view),
            Some(Quantizer::PerTensor { scale, zero_point }) => {
                Ok(view.quantized(dtype, tensor::Quantizer::Tensor { scale: *scale, zero: *zero_point }))
            }
            Some(Quantizer::PerChannel { axis, scales, zero_points, floats }) => {
                let (scales, zeros) = (self.per_slice(scales)?, self.per_slice(zero_points)?);
                let channels = tensor::Quantizer::Channels { scales, zeros, axis: *axis, floats: *floats };
                Ok(view.quantized(dtype, channels))
            }
        }
    }

    /// Scales or zero points, which are not quantised.
    fn per_slice(&mut self, numbers: &PerSlice) -> Result<Vec<f64>> {
        match numbers {
            PerSlice::Listed(numbers) => Ok(numbers.clone()),
            PerSlice::Tensor(tensor) => Ok(self.tensor(tensor)?.read::<f64>()),
        }
    }

    /// A tensor whose elements differ from those of its storage in signs.
    fn with_own_elements(&self, stored: &StoredTensor, dtype: DType) -> Result<Tensor> {
        let bytes = self.archive.content(stored).map_err(|refusal| SourceError::new(refusal.to_string()))?;
        let sizes: Vec<i64> = stored.sizes.iter().map(|size| *size as i64).collect();
        files::tensor_of_bytes(dtype, &bytes, &sizes).map_err(|error| SourceError::new(error.to_string()))
    }

    /// All elements of a storage.
    fn whole_storage(&mut self, stored: &StoredTensor, dtype: DType) -> Result<Tensor> {
        let elements = self.archive.storage_bytes(stored.storage) / stored.dtype.bytes().max(1);
        let refused = |error: files::FormatError| SourceError::new(error.to_string());
        let not_read = |refusal: jitopt_archive::Refusal| SourceError::new(refusal.to_string());
        let place = self.archive.storage_in_place(stored.storage).map_err(not_read)?;
        let in_place = place.and_then(|(bytes, range)| files::tensor_in_place(dtype.memory(), bytes, range));
        let whole = match in_place.filter(|whole| whole.numel() as u64 == elements) {
            Some(whole) => whole,
            None => {
                let mut pieces = files::Pieces::new(dtype.memory(), elements).map_err(refused)?;
                let read = self.archive.storage_in_pieces(stored.storage, &mut |bytes| pieces.take(bytes));
                read.map_err(not_read)?;
                pieces.tensor().map_err(refused)?
            }
        };
        self.storages.insert((stored.storage, dtype), whole.clone());
        Ok(whole)
    }
}
