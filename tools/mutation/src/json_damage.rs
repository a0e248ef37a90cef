//! Mutates the parts of JSON, the format of argument descriptions and profiles.

use crate::byte_damage;
use crate::chance::Chance;
use serde_json::{Value, json};

/// Mutates one value; invalid JSON is mutated as bytes.
pub fn damage(text: &mut Vec<u8>, other: &[u8], chance: &mut Chance) {
    match serde_json::from_slice::<Value>(text) {
        Ok(mut value) if !chance.one_in(4) => {
            let steps = chance.below(8);
            descend(&mut value, steps, chance);
            *text = value.to_string().into_bytes();
        }
        _ => byte_damage::damage(text, other, chance),
    }
}

fn descend(value: &mut Value, steps: usize, chance: &mut Chance) {
    match value {
        Value::Array(all) if steps > 0 && !all.is_empty() => {
            let i = chance.below(all.len());
            descend(&mut all[i], steps - 1, chance);
        }
        Value::Object(all) if steps > 0 && !all.is_empty() => {
            let i = chance.below(all.len());
            if let Some(inner) = all.values_mut().nth(i) {
                descend(inner, steps - 1, chance);
            }
        }
        _ => change(value, chance),
    }
}

fn change(value: &mut Value, chance: &mut Chance) {
    match value {
        Value::Array(all) if !all.is_empty() && chance.one_in(2) => {
            let i = chance.below(all.len());
            if chance.one_in(2) { drop(all.remove(i)) } else { all.push(all[i].clone()) }
        }
        Value::Object(all) if !all.is_empty() && chance.one_in(2) => {
            let key = all.keys().nth(chance.below(all.len())).cloned().unwrap_or_default();
            let inner = all.remove(&key);
            if let Some(inner) = inner.filter(|_| chance.one_in(2)) {
                all.insert(format!("{key}x"), inner);
            }
        }
        _ => *value = another(chance),
    }
}

fn another(chance: &mut Chance) -> Value {
    let all = [
        json!(null),
        json!(true),
        json!(0),
        json!(-1),
        json!(3),
        json!(1_000_000_000_000_i64),
        json!(i64::MAX),
        json!(i64::MIN),
        json!(u64::MAX),
        json!(1e308),
        json!(0.5),
        json!(""),
        json!("float32"),
        json!("bfloat16"),
        json!("complex64"),
        json!("quint8"),
        json!("cuda:0"),
        json!("Tensor"),
        json!("Float(99999999999)"),
        json!("%x"),
        json!([]),
        json!({}),
        json!([1, 2]),
        json!([i64::MAX, i64::MAX]),
        json!([[[]]]),
        json!({"type": "tensor", "dtype": "float32", "shape": [1_000_000_000_000_i64]}),
    ];
    all[chance.below(all.len())].clone()
}
