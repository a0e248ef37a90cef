//! The weights of a program as contents of its graph.

use crate::{MODULE, Result, refuse, shown};
use jitopt_archive::{Archive, NamedTensor, StoredTensor, StoredValue};
use jitopt_core::interpreter::IValue;
use jitopt_core::interpreter::files::{tensor_in_place, tensor_of_bytes};
use jitopt_core::tensor::{DType, Tensor};
use std::collections::{BTreeMap, HashMap};

/// Parameters, buffers and constants under the names that bindings use, `self.fc.weight`. Tensors
/// that share memory in the archive share it here. Weights of types that nothing computes with are
/// left out.
///
/// # Errors
/// A record is damaged.
pub fn weights(archive: &Archive) -> Result<BTreeMap<String, IValue>> {
    let mut storages = HashMap::new();
    let mut contents = BTreeMap::new();
    for NamedTensor { name, tensor, .. } in archive.tensors.iter().filter(|one| computed(&one.tensor).is_some()) {
        let bound = read(archive, tensor, &mut storages).map_err(|refusal| {
            let reason = format!("weight {}: {}", shown(name), refusal.reason);
            jitopt_archive::Refusal { reason, ..refusal }
        })?;
        bound.set_requires_grad(tensor.requires_grad);
        contents.insert(format!("{MODULE}.{name}"), IValue::Tensor(bound));
    }
    Ok(contents)
}

/// The inputs that the program records, one for each param: containers are taken apart. Nothing
/// where none are recorded, or where an input is no value here.
///
/// # Errors
/// A record is damaged.
pub fn samples(archive: &mut Archive) -> Result<Option<Vec<IValue>>> {
    let Some(recorded) = archive.sample_inputs()? else { return Ok(None) };
    let (mut storages, mut leaves) = (HashMap::new(), Vec::new());
    let are_values = collect_leaves(archive, &recorded, &mut storages, &mut leaves)?;
    Ok(are_values.then_some(leaves))
}

/// Adds the leaves of a value, and returns whether all of them are values. The depth is bounded by
/// that of the pickle.
fn collect_leaves(
    archive: &Archive,
    value: &StoredValue,
    storages: &mut HashMap<(usize, DType), Tensor>,
    leaves: &mut Vec<IValue>,
) -> Result<bool> {
    let mut all = |values: &mut dyn Iterator<Item = &StoredValue>| {
        for value in values {
            if !collect_leaves(archive, value, storages, leaves)? {
                return Ok(false);
            }
        }
        Ok(true)
    };
    let leaf = match value {
        StoredValue::Tuple(items) | StoredValue::List(items) => return all(&mut items.iter()),
        StoredValue::Dict(entries) => return all(&mut entries.iter().map(|(_, value)| value)),
        StoredValue::None => IValue::None,
        StoredValue::Bool(value) => IValue::Bool(*value),
        StoredValue::Int(value) => IValue::Int(*value),
        StoredValue::Float(value) => IValue::Float(*value),
        StoredValue::Text(text) => IValue::Str(text.as_str().into()),
        StoredValue::Tensor(tensor) => IValue::Tensor(read(archive, tensor, storages)?),
        _ => return Ok(false),
    };
    leaves.push(leaf);
    Ok(true)
}

/// The type of the elements, if it has arithmetic.
fn computed(stored: &StoredTensor) -> Option<DType> {
    DType::from_python(stored.dtype.name()).filter(|dtype| dtype.arithmetic().is_some())
}

/// A view of its storage, which is read once.
fn read(archive: &Archive, stored: &StoredTensor, storages: &mut HashMap<(usize, DType), Tensor>) -> Result<Tensor> {
    let Some(dtype) = computed(stored) else {
        return refuse(format!("nothing computes with elements of type {}", stored.dtype.name()));
    };
    let (sizes, strides) = (numbers(&stored.sizes)?, numbers(&stored.strides)?);
    let width = stored.dtype.bytes();
    let elements = archive.storage_bytes(stored.storage) / width;
    // A small part of a large storage is copied: it is not worth the memory of the rest.
    if stored.signs.change() || elements > stored.elements().saturating_mul(4).max(1 << 16) {
        return tensor(dtype, &archive.content(stored)?, &sizes);
    }
    let key = (stored.storage, dtype);
    let storage = match storages.get(&key) {
        Some(known) => known.clone(),
        None => {
            let line = line(archive, stored, dtype, elements)?;
            storages.insert(key, line.clone());
            line
        }
    };
    let first = storage.offset() as i64;
    let Ok(offset) = i64::try_from(stored.offset) else { return refuse("its offset does not fit") };
    storage.as_strided(&sizes, &strides, first + offset).or_else(|error| refuse(error.0))
}

/// All elements of a storage: where they are, if the file is mapped into memory.
fn line(archive: &Archive, stored: &StoredTensor, dtype: DType, elements: u64) -> Result<Tensor> {
    let place = archive.storage_in_place(stored.storage)?;
    let found = place.and_then(|(bytes, range)| tensor_in_place(dtype, bytes, range));
    if let Some(line) = found.filter(|line| line.numel() as u64 == elements) {
        return Ok(line);
    }
    let line = StoredTensor { sizes: vec![elements], strides: vec![1], offset: 0, ..stored.clone() };
    Ok(tensor(dtype, &archive.content(&line)?, &numbers(&[elements])?)?.in_lines())
}

fn tensor(dtype: DType, bytes: &[u8], sizes: &[i64]) -> Result<Tensor> {
    tensor_of_bytes(dtype, bytes, sizes).or_else(|error| refuse(error.0))
}

fn numbers(numbers: &[u64]) -> Result<Vec<i64>> {
    let converted: Option<Vec<i64>> = numbers.iter().map(|number| i64::try_from(*number).ok()).collect();
    converted.map_or_else(|| refuse("a size or stride does not fit"), Ok)
}
