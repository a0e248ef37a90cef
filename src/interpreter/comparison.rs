//! Comparison of values within tolerances.

use super::ivalue::{IValue, Object};
use super::literal_values::PATH;
use crate::tensor::{C128, Kind, Scalar, Tensor};
use std::fmt;
use std::rc::Rc;

/// The tolerance of a comparison.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tolerance {
    /// Relative tolerance per element.
    pub rtol: f64,
    /// Absolute tolerance.
    pub atol: f64,
    /// Absolute tolerance as a fraction of the largest element of the tensor.
    pub of_largest: f64,
    /// Whether element types must be equal.
    pub dtypes: bool,
}

impl Tolerance {
    /// The tolerance of `torch.allclose`: `atol + rtol * |expected|`.
    pub fn of(rtol: f64, atol: f64) -> Tolerance {
        Tolerance { rtol, atol, of_largest: 0.0, dtypes: true }
    }

    /// A fraction of the largest element, regardless of element types: used for reference runs.
    pub fn of_largest(part: f64) -> Tolerance {
        Tolerance { rtol: 0.0, atol: 0.0, of_largest: part, dtypes: false }
    }
}

/// The difference between the elements of two tensors.
#[derive(Clone, Debug, PartialEq)]
pub struct Distance {
    /// The number of elements outside the tolerance.
    pub wrong: usize,
    /// The number of elements.
    pub of: usize,
    /// The index of the worst of them.
    pub at: Vec<i64>,
    /// The expected element there.
    pub expected: C128,
    /// The found element there.
    pub found: C128,
    /// The largest difference.
    pub most: f64,
}

/// One difference between two values.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// The path: `out.0`
    pub path: String,
    /// The difference, except for elements.
    pub what: String,
    /// The differences between elements.
    pub distance: Option<Distance>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.path)?;
        let Some(distance) = &self.distance else { return f.write_str(&self.what) };
        let Distance { wrong, of, at, expected, found, most } = distance;
        let (found, expected) = (number(*found), number(*expected));
        write!(f, "{wrong} of {of} elements differ, by up to {most:.3e}; at {at:?} it is {found}, not {expected}")
    }
}

fn number(z: C128) -> String {
    if z.im == 0.0 { z.re.to_string() } else { z.to_string() }
}

/// All differences of the second value from the first.
pub fn differences(expected: &IValue, found: &IValue, tolerance: Tolerance, path: &str) -> Vec<Difference> {
    let mut all = All::default();
    compare(expected, found, tolerance, path, &mut all);
    all.differences
}

/// The differences so far, and the objects visited: they may refer to each other in cycles.
#[derive(Default)]
struct All {
    differences: Vec<Difference>,
    seen: Vec<*const Object>,
}

fn compare(expected: &IValue, found: &IValue, tolerance: Tolerance, path: &str, all: &mut All) {
    let what = match (expected, found) {
        (IValue::Tensor(a), IValue::Tensor(b)) => return all.differences.extend(of_tensors(a, b, tolerance, path)),
        (IValue::List(a), IValue::List(b)) => return elements(&a.borrow(), &b.borrow(), tolerance, path, all),
        (IValue::Tuple(a), IValue::Tuple(b)) => return elements(a, b, tolerance, path, all),
        // A list in a graph may be a tuple in Python: `chunk`, `split`, `unbind`.
        (IValue::List(a), IValue::Tuple(b)) => return elements(&a.borrow(), b, tolerance, path, all),
        (IValue::Tuple(a), IValue::List(b)) => return elements(a, &b.borrow(), tolerance, path, all),
        (IValue::Dict(a), IValue::Dict(b)) => return items(&a.borrow(), &b.borrow(), tolerance, path, all),
        (IValue::None | IValue::Undefined, IValue::None | IValue::Undefined) => return,
        (IValue::Str(a), IValue::Str(b)) if a == b => return,
        (IValue::Device(a), IValue::Device(b)) if a == b => return,
        (IValue::Enum(a), IValue::Enum(b)) if (a.class, &a.name) == (b.class, &b.name) => return,
        (IValue::Function(a), IValue::Function(b)) if a == b => return,
        (IValue::Uninitialized, IValue::Uninitialized) => return,
        (IValue::Future(a), IValue::Future(b)) => match (a.result(), b.result()) {
            (Ok(a), Ok(b)) => return compare(a, b, tolerance, path, all),
            (Err(a), Err(b)) if a.reason == b.reason => return,
            (_, Err(b)) => format!("it raises {}", b.reason),
            (Err(a), _) => format!("it does not raise {}", a.reason),
        },
        (IValue::Object(a), IValue::Object(b)) if a.class == b.class => return attributes(a, b, tolerance, path, all),
        _ => match (expected.scalar(), found.scalar()) {
            (Some(a), Some(b)) if a.kind() == b.kind() && near(a, b, tolerance) => return,
            _ => format!("it is {}, not {}", shown(found), shown(expected)),
        },
    };
    all.differences.push(Difference { path: path.to_owned(), what, distance: None });
}

/// A short description of a value.
fn shown(value: &IValue) -> String {
    match value {
        IValue::Tensor(tensor) => format!("a tensor {}", typed(tensor)),
        IValue::List(_) | IValue::Tuple(_) | IValue::Dict(_) => format!("a {}", value.kind_name()),
        IValue::None | IValue::Undefined => "None".to_owned(),
        other => format!("the {} {}", other.kind_name(), super::shown_values::to_repr(other)),
    }
}

fn typed(tensor: &Tensor) -> String {
    format!("{}{:?}", tensor.dtype().python_name(), tensor.shape())
}

fn near(a: Scalar, b: Scalar, tolerance: Tolerance) -> bool {
    match a.kind() {
        Kind::Float | Kind::Complex => {
            let (a, b): (C128, C128) = (a.wide(), b.wide());
            is_near(a, b, tolerance.atol + (tolerance.rtol + tolerance.of_largest) * a.norm())
        }
        _ => a == b,
    }
}

fn elements(a: &[IValue], b: &[IValue], tolerance: Tolerance, path: &str, all: &mut All) {
    if a.len() != b.len() {
        let what = format!("there are {} elements, not {}", b.len(), a.len());
        return all.differences.push(Difference { path: path.to_owned(), what, distance: None });
    }
    for (i, (a, b)) in a.iter().zip(b).enumerate() {
        compare(a, b, tolerance, &format!("{path}.{i}"), all);
    }
}

fn items(
    a: &indexmap::IndexMap<super::ivalue::Key, IValue>,
    b: &indexmap::IndexMap<super::ivalue::Key, IValue>,
    tolerance: Tolerance,
    path: &str,
    all: &mut All,
) {
    let keys =
        |dict: &indexmap::IndexMap<super::ivalue::Key, IValue>| IValue::list(dict.keys().map(|key| key.0.clone()));
    compare(&keys(a), &keys(b), tolerance, &format!("{path}.keys"), all);
    for (i, (a, b)) in a.values().zip(b.values()).enumerate() {
        compare(a, b, tolerance, &format!("{path}.v{i}"), all);
    }
}

/// Attributes that were set. Objects among them are also present if they were only read.
fn attributes(a: &Rc<Object>, b: &Rc<Object>, tolerance: Tolerance, path: &str, all: &mut All) {
    if all.seen.contains(&Rc::as_ptr(a)) {
        return;
    }
    all.seen.push(Rc::as_ptr(a));
    let (a, b) = (a.attributes.borrow(), b.attributes.borrow());
    let was_set = |(name, value): &(&String, &IValue)| *name != PATH && !matches!(value, IValue::Object(_));
    for (name, value) in a.iter().filter(|item| was_set(item) || b.contains_key(item.0)) {
        match b.get(name) {
            Some(found) => compare(value, found, tolerance, &format!("{path}.{name}"), all),
            None => {
                let what = format!("attribute `{name}` is not set, to {}", shown(value));
                all.differences.push(Difference { path: path.to_owned(), what, distance: None });
            }
        }
    }
    for (name, value) in b.iter().filter(|item| was_set(item) && !a.contains_key(item.0)) {
        let what = format!("attribute `{name}` is set, to {}", shown(value));
        all.differences.push(Difference { path: path.to_owned(), what, distance: None });
    }
}

/// The difference between two tensors, if any. Strides are not part of a value.
pub(crate) fn of_tensors(expected: &Tensor, found: &Tensor, tolerance: Tolerance, path: &str) -> Option<Difference> {
    let dtypes = tolerance.dtypes && expected.dtype() != found.dtype();
    if dtypes || expected.shape() != found.shape() {
        let what = format!("it is {}, not {}", typed(found), typed(expected));
        return Some(Difference { path: path.to_owned(), what, distance: None });
    }
    if expected.quantizer() != found.quantizer() {
        let shown =
            |tensor: &Tensor| tensor.quantizer().map_or("nothing".to_owned(), |quantizer| quantizer.to_string());
        let what = format!("it is quantised by {}, not {}", shown(found), shown(expected));
        return Some(Difference { path: path.to_owned(), what, distance: None });
    }
    let exact = |tensor: &Tensor| matches!(tensor.dtype().memory().arithmetic(), Some(Kind::Bool | Kind::Int));
    let distance = match exact(expected) && exact(found) {
        true => integer_distance(expected, found),
        false => distance(&expected.read(), &found.read(), tolerance, expected.shape()),
    }?;
    Some(Difference { path: path.to_owned(), what: "elements differ".to_owned(), distance: Some(distance) })
}

/// Integers are equal or different, without a tolerance.
fn integer_distance(expected: &Tensor, found: &Tensor) -> Option<Distance> {
    let (a, b): (Vec<i64>, Vec<i64>) = (expected.read(), found.read());
    let mut wrong = (0..a.len()).filter(|&i| a[i] != b[i]);
    let first = wrong.next()?;
    let of_int = |n: i64| C128::new(n as f64, 0.0);
    Some(Distance {
        wrong: 1 + wrong.count(),
        of: a.len(),
        at: place(first, expected.shape()),
        expected: of_int(a[first]),
        found: of_int(b[first]),
        most: a.iter().zip(&b).map(|(a, b)| a.abs_diff(*b)).max().unwrap_or(0) as f64,
    })
}

fn distance(expected: &[C128], found: &[C128], tolerance: Tolerance, shape: &[i64]) -> Option<Distance> {
    let finite = expected.iter().map(|z| z.norm()).filter(|norm| norm.is_finite());
    let everywhere = tolerance.atol + tolerance.of_largest * finite.fold(0.0, f64::max);
    let (mut wrong, mut worst, mut most) = (0, 0, -1.0);
    for (i, (&a, &b)) in expected.iter().zip(found).enumerate() {
        if is_near(a, b, everywhere + tolerance.rtol * a.norm()) {
            continue;
        }
        wrong += 1;
        let apart = (a - b).norm();
        let apart = if apart.is_nan() { f64::INFINITY } else { apart };
        if apart > most {
            (worst, most) = (i, apart);
        }
    }
    let (of, at) = (expected.len(), place(worst, shape));
    (wrong > 0).then(|| Distance { wrong, of, at, expected: expected[worst], found: found[worst], most })
}

/// NaN matches NaN, and an infinity only itself.
fn is_near(a: C128, b: C128, allowed: f64) -> bool {
    let part = |a: f64, b: f64| a == b || (a.is_nan() && b.is_nan());
    let finite = |z: C128| z.re.is_finite() && z.im.is_finite();
    (part(a.re, b.re) && part(a.im, b.im)) || (finite(a) && finite(b) && (a - b).norm() <= allowed)
}

/// The indices of an element, given its position in logical order.
pub fn place(mut position: usize, shape: &[i64]) -> Vec<i64> {
    let mut indices: Vec<i64> = shape
        .iter()
        .rev()
        .map(|&n| {
            let n = n.max(1) as usize;
            let index = position % n;
            position /= n;
            index as i64
        })
        .collect();
    indices.reverse();
    indices
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::{DType, Precision};

    fn tensor(elements: &[f64]) -> IValue {
        Tensor::of(elements, DType::Double, &[elements.len() as i64], Precision::Typed).into()
    }

    #[test]
    fn near_and_far() {
        let (nan, inf) = (f64::NAN, f64::INFINITY);
        let tolerance = Tolerance::of(1e-3, 1e-6);
        let differ = |a: &IValue, b: &IValue| {
            differences(a, b, tolerance, "out").iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
        };
        assert_eq!(differ(&tensor(&[nan, inf, -inf, -0.0, 1.0]), &tensor(&[nan, inf, -inf, 0.0, 1.0009])), "");
        assert_eq!(
            differ(&tensor(&[1.0, 2.0, nan, inf]), &tensor(&[1.0, 2.5, 0.0, 9.0])),
            "out: 3 of 4 elements differ, by up to inf; at [2] it is 0, not NaN"
        );
        assert_eq!(differ(&IValue::Int(1), &IValue::Float(1.0)), "out: it is the float 1., not the int 1");
        let (a, b) = (IValue::tuple([IValue::None, tensor(&[1.0])]), IValue::tuple([IValue::Undefined, tensor(&[])]));
        assert_eq!(differ(&a, &b), "out.1: it is float64[0], not float64[1]");
        let shadow = Tolerance::of_largest(1e-2);
        assert!(differences(&tensor(&[100.0, 1.0]), &tensor(&[100.0, 1.9]), shadow, "").is_empty());
    }
}
