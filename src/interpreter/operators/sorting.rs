//! Sorting, top-k, medians, unique.

use super::elements::{by_kind, like, placed, reduced as reduced_shape};
use super::picking::{Number, order};
use super::pointwise::not_implemented;
use super::scans::with_dim_at;
use crate::interpreter::call::{Answer, Call, Row, one, several};
use crate::interpreter::environment::Release;
use crate::interpreter::ivalue::IValue;
use crate::interpreter::stop::Stop;
use crate::tensor::blocks::Rows;
use crate::tensor::buffer::Wide;
use crate::tensor::layout::{Dims, wrap};
use crate::tensor::{DType, Tensor};

/// The kernel table.
pub(crate) const ROWS: &[Row] = &[
    ("aten::_unique", unique),
    ("aten::_unique2", unique),
    ("aten::argsort", argsort),
    ("aten::isin", isin),
    ("aten::kthvalue", kthvalue),
    ("aten::median", median),
    ("aten::mode", mode),
    ("aten::msort", msort),
    ("aten::nanmedian", nanmedian),
    ("aten::nanquantile", quantile),
    ("aten::quantile", quantile),
    ("aten::sort", sort),
    ("aten::topk", topk),
    ("aten::unique_consecutive", unique),
    ("aten::unique_dim", unique_dim),
    ("aten::unique_dim_consecutive", unique_dim),
];

/// The indices of a row in sorted order, stable. NaN is the largest.
fn ranked<W: Number>(row: &[W], descending: bool) -> Vec<usize> {
    let mut places: Vec<usize> = (0..row.len()).collect();
    places.sort_by(|&a, &b| if descending { order(row[b], row[a]) } else { order(row[a], row[b]) });
    places
}

fn refuse_complex(x: &Tensor) -> Result<(), Stop> {
    if x.dtype().is_complex() {
        return Err(Stop::raised("Sort currently does not support complex dtypes on CPU"));
    }
    Ok(())
}

/// For each row of a dimension, the elements at the indices that `f` returns, and these indices.
fn chosen(
    call: &Call<'_>,
    x: &Tensor,
    dim: usize,
    f: &dyn Fn(&[usize]) -> Vec<usize>,
    descending: bool,
) -> [Tensor; 2] {
    by_kind!(x.dtype(), W => {
        let rows = Rows::<W>::along(x, &[dim]);
        let (mut values, mut indices, mut len) = (Vec::new(), Vec::new(), f(&(0..rows.len).collect::<Vec<_>>()).len());
        for row in rows.iter() {
            let places = f(&ranked(row, descending));
            len = places.len();
            values.extend(places.iter().map(|&i| row[i]));
            indices.extend(places.iter().map(|&i| i as i64));
        }
        [
            with_dim_at(call, x, dim, (&values, len), x.dtype()),
            with_dim_at(call, x, dim, (&indices, len), DType::Long),
        ]
    })
}

fn sorted(call: &Call<'_>) -> Result<[Tensor; 2], Stop> {
    let x = call.tensor("self")?;
    refuse_complex(&x)?;
    let dim = wrap(call.int("dim")?, x.rank())?;
    Ok(chosen(call, &x, dim, &|places| places.to_vec(), call.bool("descending")?))
}

/// Sorted values and their indices.
fn sort(call: &Call<'_>) -> Answer {
    several(sorted(call)?)
}

fn argsort(call: &Call<'_>) -> Answer {
    let [_, indices] = sorted(call)?;
    one(indices)
}

fn msort(call: &Call<'_>) -> Answer {
    let x = call.tensor("self")?;
    refuse_complex(&x)?;
    let [values, _] = chosen(call, &x, 0, &|places| places.to_vec(), false);
    one(values)
}

fn topk(call: &Call<'_>) -> Answer {
    let (x, k) = (call.tensor("self")?, call.int("k")?);
    refuse_complex(&x)?;
    let dim = wrap(call.int("dim")?, x.rank())?;
    if k < 0 || k > x.size(dim) {
        return Err(Stop::raised("selected index k out of range"));
    }
    if k == 0 && x.rank() == 0 {
        return Err(Stop::unsupported("`aten::topk` with k = 0 of a zero-dimensional tensor"));
    }
    several(chosen(call, &x, dim, &|places| places[..k as usize].to_vec(), call.bool("largest")?))
}

// ---- one element of each row

/// One element of each row of a dimension and its index; `f` gets the row and its indices in order.
fn one_of_each<W: Number>(
    call: &Call<'_>,
    x: &Tensor,
    dim: usize,
    f: &dyn Fn(&[W], &[usize]) -> usize,
) -> Result<[Tensor; 2], Stop> {
    let keep = call.bool("keepdim")?;
    let rows = Rows::<W>::along(x, &[dim]);
    if rows.len == 0 {
        let name = call.kind().as_str().trim_start_matches("aten::");
        return Err(Stop::raised_as(
            "IndexError",
            format!("{name}(): Expected reduction dim {dim} to have non-zero size."),
        ));
    }
    let places: Vec<usize> = rows.iter().map(|row| f(row, &ranked(row, false))).collect();
    let values: Vec<W> = rows.iter().zip(&places).map(|(row, &i)| row[i]).collect();
    let indices: Vec<i64> = places.iter().map(|&i| i as i64).collect();
    let shape = reduced_shape(x, &[dim], keep);
    Ok([like(call, &values, x.dtype(), &shape, x), like(call, &indices, DType::Long, &shape, x)])
}

fn kthvalue(call: &Call<'_>) -> Answer {
    let (x, k) = (call.tensor("self")?, call.int("k")?);
    refuse_complex(&x)?;
    let dim = wrap(call.int("dim")?, x.rank())?;
    if k < 1 || k > x.size(dim) {
        return Err(Stop::raised("kthvalue(): selected number k out of range for dimension"));
    }
    by_kind!(x.dtype(), W => several(one_of_each::<W>(call, &x, dim, &|_, places| places[k as usize - 1])?))
}

/// The index of the median, the lower of the two in the middle. NaN is the median if present, since
/// 1.8; before, NaN is ordered after all numbers.
fn middle<W: Number>(call: &Call<'_>, row: &[W], places: &[usize], skip: bool) -> usize {
    if !skip && call.release() < Release(1, 8) {
        return places[(row.len() - 1) / 2];
    }
    let numbers = places.iter().filter(|&&i| !row[i].is_nan()).count();
    match (skip, numbers < row.len()) {
        (false, true) => (0..row.len()).find(|&i| row[i].is_nan()).unwrap_or(0),
        (true, true) => places[numbers.saturating_sub(1) / 2],
        _ => places[(row.len() - 1) / 2],
    }
}

fn medians(call: &Call<'_>, skip: bool) -> Answer {
    let x = call.tensor("self")?;
    if x.dtype() == DType::Bool || x.dtype().is_complex() {
        return Err(not_implemented("median_cpu", x.dtype()));
    }
    by_kind!(x.dtype(), W => {
        if let Some(dim) = call.opt_int("dim")? {
            let dim = wrap(dim, x.rank())?;
            return several(one_of_each::<W>(call, &x, dim, &|row, places| middle(call, row, places, skip))?);
        }
        let row = x.read::<W>();
        if row.is_empty() {
            let nothing = if x.dtype().is_float() { W::load(f64::NAN) } else { W::load(i64::MIN) };
            return one(like(call, &[nothing], x.dtype(), &[], &x));
        }
        let at = middle(call, &row, &ranked(&row, false), skip);
        one(like(call, &[row[at]], x.dtype(), &[], &x))
    })
}

fn median(call: &Call<'_>) -> Answer {
    medians(call, false)
}

fn nanmedian(call: &Call<'_>) -> Answer {
    medians(call, true)
}

fn mode(call: &Call<'_>) -> Answer {
    let x = call.tensor("self")?;
    refuse_complex(&x)?;
    let dim = wrap(call.int("dim")?, x.rank())?;
    by_kind!(x.dtype(), W => several(one_of_each::<W>(call, &x, dim, &most_frequent)?))
}

/// The smallest of the most frequent elements, at its last index.
fn most_frequent<W: Number>(row: &[W], places: &[usize]) -> usize {
    let (mut best, mut most, mut run) = (places[0], 0, 0);
    for (k, &place) in places.iter().enumerate() {
        run = if k > 0 && row[places[k - 1]] == row[place] { run + 1 } else { 1 };
        if run > most || (run == most && row[best] == row[place]) {
            (best, most) = (place, run);
        }
    }
    best
}

// ---- quantiles

fn quantile(call: &Call<'_>) -> Answer {
    let (x, how) = (call.tensor("self")?, call.opt_str("interpolation")?.unwrap_or_else(|| "linear".to_owned()));
    let skip = call.kind().as_str() == "aten::nanquantile";
    if !matches!(x.dtype(), DType::Float | DType::Double) {
        return Err(Stop::raised("quantile() input tensor must be either float or double dtype"));
    }
    if x.numel() == 0 {
        return Err(Stop::raised("quantile() input tensor must be non-empty"));
    }
    let q = match call.look("q") {
        // A number is rounded to the element type.
        Some(IValue::Float(q)) => call.made(&[*q], x.dtype(), &[]),
        _ => call.tensor("q")?,
    };
    let wanted = q.read::<f64>();
    if q.rank() > 1 || wanted.iter().any(|q| !(0.0..=1.0).contains(q)) {
        return Err(Stop::raised("quantile() q values must be in the range [0, 1]"));
    }
    let dims = match call.opt_int("dim")? {
        Some(dim) => vec![wrap(dim, x.rank())?],
        None => (0..x.rank()).collect(),
    };
    let rows = Rows::<f64>::along(&x, &dims);
    let ordered: Vec<Vec<f64>> =
        rows.iter().map(|row| ranked(row, false).into_iter().map(|i| row[i]).collect()).collect();
    let mut elements = Vec::new();
    for &q in &wanted {
        for row in &ordered {
            elements.push(quantile_of(row, q, &how, skip)?);
        }
    }
    let mut shape = reduced_shape(&x, &dims, call.bool("keepdim")?);
    if q.rank() == 1 {
        shape.insert(0, wanted.len() as i64);
    }
    one(like(call, &elements, x.dtype(), &shape, &x))
}

/// A quantile of a sorted row. Its rank is not rounded to the element type.
fn quantile_of(row: &[f64], q: f64, how: &str, skip: bool) -> Result<f64, Stop> {
    let numbers = row.iter().filter(|x| !x.is_nan()).count();
    if numbers == 0 || (!skip && numbers < row.len()) {
        return Ok(f64::NAN);
    }
    let at = q * (numbers - 1) as f64;
    let (low, high) = (row[at.floor() as usize], row[at.ceil() as usize]);
    Ok(match how {
        "lower" => low,
        "higher" => high,
        "nearest" => row[at.round_ties_even() as usize],
        "midpoint" => low + (high - low) * 0.5,
        "linear" => low + (high - low) * at.fract(),
        _ => {
            return Err(Stop::raised(format!(
                "quantile() interpolation must be one of linear, lower, higher, midpoint or nearest, but got {how}"
            )));
        }
    })
}

// ---- unique elements

/// Groups of equal items: the index of the first item of each, the group of each item, and their
/// sizes.
struct Groups {
    first: Vec<usize>,
    group: Vec<i64>,
    counts: Vec<i64>,
}

/// Groups equal adjacent items, sorted first unless disabled.
fn grouped(
    n: usize,
    sort: Option<&dyn Fn(usize, usize) -> std::cmp::Ordering>,
    same: &dyn Fn(usize, usize) -> bool,
) -> Groups {
    let mut places: Vec<usize> = (0..n).collect();
    if let Some(order) = sort {
        places.sort_by(|&a, &b| order(a, b));
    }
    let mut groups = Groups { first: Vec::new(), group: vec![0; n], counts: Vec::new() };
    for (k, &place) in places.iter().enumerate() {
        if k == 0 || !same(places[k - 1], place) {
            groups.first.push(place);
            groups.counts.push(0);
        }
        let at = groups.counts.len() - 1;
        groups.group[place] = at as i64;
        groups.counts[at] += 1;
    }
    groups
}

/// The additional outputs: the group of each element and the sizes of groups. Outputs not requested
/// are empty, except for slices of a dimension (`always`), of which PyTorch returns both.
fn sides(call: &Call<'_>, x: &Tensor, groups: &Groups, shape: &[i64], always: bool) -> Result<Vec<IValue>, Stop> {
    let plain = call.kind().as_str() == "aten::_unique";
    let empty = || like::<i64>(call, &[], DType::Long, &[0], x);
    let mut outs = vec![match always || call.bool("return_inverse")? {
        true => like(call, &groups.group, DType::Long, shape, x),
        false => empty(),
    }];
    if !plain {
        let counts = &groups.counts;
        outs.push(match always || call.bool("return_counts")? {
            true => like(call, counts, DType::Long, &[counts.len() as i64], x),
            false => empty(),
        });
    }
    Ok(outs.into_iter().map(IValue::from).collect())
}

fn unique(call: &Call<'_>) -> Answer {
    if call.opt_int("dim")?.is_some() {
        return unique_dim(call);
    }
    let x = call.tensor("self")?;
    let consecutive = call.kind().as_str() == "aten::unique_consecutive";
    by_kind!(x.dtype(), W => {
        let elements = x.read::<W>();
        let by_value = |a: usize, b: usize| order(elements[a], elements[b]);
        let same = |a: usize, b: usize| elements[a] == elements[b];
        let groups = grouped(elements.len(), if consecutive { None } else { Some(&by_value) }, &same);
        let values: Vec<W> = groups.first.iter().map(|&i| elements[i]).collect();
        let values = like(call, &values, x.dtype(), &[values.len() as i64], &x);
        let mut outs = sides(call, &x, &groups, x.shape(), false)?;
        outs.insert(0, values.into());
        several(outs)
    })
}

/// Unique slices of a dimension, compared element by element.
fn unique_dim(call: &Call<'_>) -> Answer {
    let x = call.tensor("self")?;
    let dim = wrap(call.int("dim")?, x.rank())?;
    if x.rank() == 0 {
        return Err(Stop::raised("There are 0 dimensions in the tensor, so a dimension cannot be unique"));
    }
    let consecutive = call.kind().as_str().ends_with("consecutive");
    let others: Vec<usize> = (0..x.rank()).filter(|&i| i != dim).collect();
    by_kind!(x.dtype(), W => {
        let slices = Rows::<W>::along(&x, &others);
        let slice = |i: usize| &slices.elements[i * slices.len..(i + 1) * slices.len];
        let by_value = |a: usize, b: usize| {
            let differ = slice(a).iter().zip(slice(b)).map(|(&a, &b)| order(a, b)).find(|o| o.is_ne());
            differ.unwrap_or(std::cmp::Ordering::Equal)
        };
        let same = |a: usize, b: usize| slice(a) == slice(b);
        let n = x.size(dim);
        let groups = grouped(n as usize, if consecutive { None } else { Some(&by_value) }, &same);
        let values: Vec<W> = groups.first.iter().flat_map(|&i| slice(i)).copied().collect();
        let mut shape: Dims = others.iter().map(|&i| x.size(i)).collect();
        shape.insert(0, groups.first.len() as i64);
        let mut outs = sides(call, &x, &groups, &[n], true)?;
        outs.insert(0, first_moved_to(call, &x, &values, &shape, dim).into());
        several(outs)
    })
}

/// A tensor from elements that have one of its dimensions outermost.
fn first_moved_to<W: Wide>(call: &Call<'_>, x: &Tensor, values: &[W], shape: &[i64], dim: usize) -> Tensor {
    let mut back: Vec<usize> = (1..shape.len()).collect();
    back.insert(dim, 0);
    placed(call.made(values, x.dtype(), shape).permute(&back).contiguous(), x)
}

fn isin(call: &Call<'_>) -> Answer {
    let names = if call.look("elements").is_some() { "elements" } else { "element" };
    let x = call.tensor(names)?;
    let set = if call.look("test_elements").is_some() { "test_elements" } else { "test_element" };
    let (set, invert) = (call.tensor(set)?, call.bool("invert")?);
    let dtype = crate::tensor::promotion::result_type(&x, &set);
    by_kind!(dtype, W => {
        let members = set.read::<W>();
        let found: Vec<i64> = x.read::<W>().iter().map(|x| i64::from(members.contains(x) != invert)).collect();
        one(like(call, &found, DType::Bool, x.shape(), &x))
    })
}
