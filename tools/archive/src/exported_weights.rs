//! Weights of exported programs: raw records that a table names (2.9 and later), or archives of
//! `torch.save` within the archive (2.2 to 2.8).

use crate::pickle_value::Value;
use crate::records::Records;
use crate::refusal::{Refusal, Result, refuse, shown};
use crate::stored_tensors::{Dtype, NamedTensor, Role, Signs, StoredTensor};
use crate::stored_values::{self, StoredValue};
use crate::strict_json::Json;
use crate::unpickler::unpickle;

/// The tensors of `data/FOLDER/MODEL_FOLDER_config.json`.
pub(crate) fn of_table(records: &mut Records, folder: &str, model: &str, other: Role) -> Result<Vec<NamedTensor>> {
    let name = format!("data/{folder}/{model}_{folder}_config.json");
    if !records.has(&name) {
        return Ok(Vec::new());
    }
    let table = Json::parse(&records.content(&name)?).map_err(|refusal| refusal.in_record(&name))?;
    let mut tensors = Vec::new();
    for (target, row) in table.get("config").fields() {
        let tensor = of_row(records, folder, row).map_err(|mut refusal| {
            refusal.reason = format!("weight {}: {}", shown(target), refusal.reason);
            refusal.in_record(&name)
        })?;
        let role = if row.get("is_param").is_true() { Role::Parameter } else { other };
        tensors.push(NamedTensor { name: target.clone(), role, tensor });
    }
    Ok(tensors)
}

fn of_row(records: &mut Records, folder: &str, row: &Json) -> Result<StoredTensor> {
    if row.get("use_pickle").is_true() {
        return refuse("it is a pickle");
    }
    let Some(path) = row.get("path_name").text() else { return refuse("it has no path") };
    if path.is_empty() || path.contains(['/', '\\']) || path.starts_with('.') {
        return refuse(format!("its path {} is no name of a record", shown(path)));
    }
    let meta = row.get("tensor_meta");
    let Some(dtype) = meta.get("dtype").int() else { return refuse("it has no element type") };
    let mut tensor = StoredTensor {
        dtype: dtype_of(dtype)?,
        sizes: numbers(meta.get("sizes"), "size")?,
        strides: numbers(meta.get("strides"), "stride")?,
        offset: number(meta.get("storage_offset"), "storage offset")?,
        storage: 0,
        requires_grad: meta.get("requires_grad").is_true(),
        quantizer: None,
        signs: Signs::default(),
    };
    let record = format!("data/{folder}/{path}");
    let Some(bytes) = records.size(&record) else { return refuse(format!("there is no record {}", shown(&record))) };
    tensor.check(bytes)?;
    tensor.storage = records.storage(&record)?;
    Ok(tensor)
}

/// The numbers of `ScalarType` in the schema of exported programs.
pub(crate) fn dtype_of(number: i64) -> Result<Dtype> {
    match number {
        1..=12 => Dtype::of_number(number - 1),
        13 => Dtype::of_name("bfloat16"),
        28 => Dtype::of_name("uint16"),
        29 => Dtype::of_name("float8_e4m3fn"),
        30 => Dtype::of_name("float8_e5m2"),
        31 => Dtype::of_name("float8_e4m3fnuz"),
        32 => Dtype::of_name("float8_e5m2fnuz"),
        33 => Dtype::of_name("float8_e8m0fnu"),
        34 => Dtype::of_name("uint32"),
        35 => Dtype::of_name("uint64"),
        _ => refuse(format!("there is no element type {number}")),
    }
}

/// `{"as_int": 3}`, or `3` up to 2.2.
pub(crate) fn number(value: &Json, what: &str) -> Result<u64> {
    let number = value.int().or_else(|| value.get("as_int").int());
    let Some(number) = number else { return refuse(format!("a {what} is not an integer")) };
    u64::try_from(number).map_err(|_| Refusal::new(format!("negative {what} {number}")))
}

pub(crate) fn numbers(values: &Json, what: &str) -> Result<Vec<u64>> {
    values.items().iter().map(|value| number(value, what)).collect()
}

/// The tensors of an archive of `torch.save` that is a record, a dict by qualified name. Records
/// of text, for example an empty one, have none.
pub(crate) fn of_saved_dict(records: &mut Records, name: &str, other: Role) -> Result<Vec<NamedTensor>> {
    let content = records.content(name)?;
    if content.is_empty() {
        return Ok(Vec::new());
    }
    let within = |refusal: Refusal| Refusal { record: Some(name.to_owned()), ..refusal };
    let (container, folder) = records.nested(content).map_err(within)?;
    let pickle = records.content_of(container, &format!("{folder}/data.pkl")).map_err(within)?;
    let pickle = unpickle(&pickle).map_err(within)?;
    let Value::Dict(entries) = pickle.root() else {
        return Err(Refusal::new(format!("its pickle is {}, not a dict", pickle.root().kind())).in_record(name));
    };
    let mut tensors = Vec::new();
    for (key, value) in entries {
        let (Some(target), Value::Tensor(described)) = (pickle.text(*key), pickle.get(*value)) else { continue };
        let tensor = records.tensor_of(container, &format!("{folder}/data"), described).map_err(within)?;
        let role = if described.parameter { Role::Parameter } else { other };
        tensors.push(NamedTensor { name: target.to_owned(), role, tensor });
    }
    Ok(tensors)
}

/// The value of an archive of `torch.save` that is a record: recorded inputs.
pub(crate) fn of_saved_value(records: &mut Records, name: &str) -> Result<StoredValue> {
    let within = |refusal: Refusal| Refusal { record: Some(name.to_owned()), ..refusal };
    let content = records.content(name)?;
    let (container, folder) = records.nested(content).map_err(within)?;
    let pickle = records.content_of(container, &format!("{folder}/data.pkl")).map_err(within)?;
    let pickle = unpickle(&pickle).map_err(within)?;
    stored_values::tree_of(&pickle, (container, format!("{folder}/data")), records).map_err(within)
}
