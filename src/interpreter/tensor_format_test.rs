//! Tensors as PyTorch printed them: `testdata/interpreter/printed_tensors.jsonl` has the output of
//! scripted functions with one `print` in 1.3.1, 1.13.1 (equal to 2.2.2's) and 2.15.0 (equal to
//! 2.9.1's).

use super::tensor_format::text;
use crate::tensor::{DType, Precision, Tensor};
use crate::types::release::Release;
use serde_json::Value;

const RECORDED: &str = include_str!("../../testdata/interpreter/printed_tensors.jsonl");

fn number(value: &Value) -> f64 {
    match value.as_str() {
        Some("inf") => f64::INFINITY,
        Some("-inf") => f64::NEG_INFINITY,
        Some(_) => f64::NAN,
        None => value.as_f64().expect("a number"),
    }
}

fn tensor(case: &Value) -> Tensor {
    let list = |key: &str| case[key].as_array().expect("a list");
    let dtype = DType::from_python(case["dtype"].as_str().expect("a name")).expect("an element type");
    let shape: Vec<i64> = list("shape").iter().map(|size| size.as_i64().expect("a size")).collect();
    match dtype.is_float() {
        true => {
            let data: Vec<f64> = list("data").iter().map(number).collect();
            Tensor::of(&data, dtype, &shape, Precision::Typed)
        }
        false => {
            let data: Vec<i64> = list("data").iter().map(|n| n.as_i64().expect("an integer")).collect();
            Tensor::of(&data, dtype, &shape, Precision::Typed)
        }
    }
}

#[test]
fn texts_are_those_of_pytorch() {
    let mut compared = 0;
    for line in RECORDED.lines() {
        let case: Value = serde_json::from_str(line).expect("JSON");
        for (name, release) in [("1.3", Release(1, 3)), ("1.13", Release(1, 13)), ("2.15", Release(2, 15))] {
            if let Some(expected) = case[name].as_str() {
                assert_eq!(text(&tensor(&case), release) + "\n", expected, "{name}: {line}");
                compared += 1;
            }
        }
    }
    assert!(compared > 500, "{compared}");
}
