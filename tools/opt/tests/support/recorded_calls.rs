//! Calls that releases of PyTorch ran, as `tools/pytorch/merge_release_probes.py` writes them to
//! `testdata/releases`.

use jitopt_core::interpreter::IValue;
use jitopt_core::tensor::{DType, Precision, Tensor};
use jitopt_core::types::release::Release;
use serde_json::Value as Json;

/// A file of recorded calls.
pub fn read(name: &str) -> Json {
    let path = format!("{}/../../testdata/releases/{name}", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_slice(&std::fs::read(path).expect("recorded calls")).expect("JSON")
}

/// A release, as recorded calls name it.
pub fn release(text: &Json) -> Release {
    text.as_str().expect("a release").parse().expect("a release")
}

fn dtype(name: &str) -> DType {
    DType::ALL.iter().copied().find(|dtype| dtype.python_name() == name).expect("an element type")
}

/// Elements in order, and the sizes.
pub fn elements(json: &Json, flat: &mut Vec<Json>) -> Vec<i64> {
    let Some(items) = json.as_array() else {
        flat.push(json.clone());
        return Vec::new();
    };
    let mut inner = Vec::new();
    items.iter().for_each(|item| inner = elements(item, flat));
    inner.insert(0, items.len() as i64);
    inner
}

/// A number; infinities and NaN are texts.
pub fn number(json: &Json) -> f64 {
    match json {
        Json::Bool(x) => f64::from(u8::from(*x)),
        Json::String(text) => text.parse().expect("inf or nan"),
        other => other.as_f64().expect("a number"),
    }
}

/// A tensor, `["int64", [1, 2]]`.
pub fn tensor(json: &Json) -> Option<Tensor> {
    let name = json.get(0)?.as_str()?;
    let mut flat = Vec::new();
    let shape = elements(&json[1], &mut flat);
    let dtype = dtype(name);
    Some(match dtype.is_float() {
        true => Tensor::of(&flat.iter().map(number).collect::<Vec<f64>>(), dtype, &shape, Precision::Typed),
        false => {
            let integer = |x: &Json| x.as_i64().unwrap_or_else(|| number(x) as i64);
            Tensor::of(&flat.iter().map(integer).collect::<Vec<i64>>(), dtype, &shape, Precision::Typed)
        }
    })
}

/// An operand with its type, and the value when it is a param.
pub fn operand(json: &Json) -> (String, IValue) {
    if let Some(tensor) = tensor(json) {
        return ("Tensor".into(), tensor.into());
    }
    if let Some(items) = json.get("list").and_then(Json::as_array) {
        let (types, values): (Vec<String>, Vec<IValue>) = items.iter().map(operand).unzip();
        return (format!("{}[]", types[0]), IValue::list(values));
    }
    match json {
        Json::Bool(x) => ("bool".into(), IValue::from(*x)),
        Json::Number(n) if n.is_i64() => ("int".into(), IValue::from(n.as_i64().expect("an integer"))),
        other => ("float".into(), IValue::from(number(other))),
    }
}

/// The same elements in memory of their own.
pub fn copied(value: &IValue) -> IValue {
    match value {
        IValue::Tensor(tensor) => tensor.copied().into(),
        IValue::List(list) => IValue::list(list.borrow().iter().map(copied).collect::<Vec<_>>()),
        other => other.clone(),
    }
}

/// The result of a call in a release: that of the last pair that is not newer.
pub fn in_release(call: &Json, wanted: Release) -> Json {
    let pairs = call["results"].as_array().expect("pairs");
    let found = pairs.iter().rev().find(|pair| release(&pair[0]) <= wanted);
    found.map_or(Json::from("no operator"), |pair| pair[1].clone())
}

/// The releases that ran the calls.
pub fn releases(recorded: &Json) -> Vec<Release> {
    recorded["releases"].as_array().expect("releases").iter().map(release).collect()
}
