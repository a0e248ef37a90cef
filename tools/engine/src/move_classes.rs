//! Classifies the differences between two files of one model, and finds where they begin.

use crate::moved_weights::WeightDifferences;
use jitopt_core::interpreter::{IValue, Stop};
use jitopt_core::tensor::Tensor;
use jitopt_judge::aligning::{Alignment, Parting};

/// Kinds of differences between two files of one model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MoveClass {
    /// Bits differ, by no more than rounding explains.
    Rounding,
    /// One of them accepts sizes or other inputs that the other refuses or ignores.
    Shape,
    /// Weights differ.
    Weights,
    /// One of them trains: dropout, batch norm.
    Mode,
    /// A number or an option of an operator differs: eps, an approximation, a scale.
    Constant,
    /// A result has another element type.
    Dtype,
    /// The same program means something else in the other release.
    Release,
    /// One of them computes something else.
    Operator,
}

impl MoveClass {
    /// In a word.
    pub fn name(self) -> &'static str {
        match self {
            MoveClass::Rounding => "rounding",
            MoveClass::Shape => "shape",
            MoveClass::Weights => "weights",
            MoveClass::Mode => "mode",
            MoveClass::Constant => "constant",
            MoveClass::Dtype => "dtype",
            MoveClass::Release => "release",
            MoveClass::Operator => "operator",
        }
    }

    /// In a sentence.
    pub fn meaning(self) -> &'static str {
        match self {
            MoveClass::Rounding => "only rounding differs",
            MoveClass::Shape => "one of them was made for certain inputs",
            MoveClass::Weights => "weights differ",
            MoveClass::Mode => "one of them is in training mode",
            MoveClass::Constant => "a number or an option of an operator differs",
            MoveClass::Dtype => "a result has another element type",
            MoveClass::Release => "the releases compute an operator differently",
            MoveClass::Operator => "one of them computes something else",
        }
    }
}

/// The results of a run, or why there are none.
pub(crate) type Ran = Result<Vec<IValue>, Stop>;

/// The known facts about a difference.
pub(crate) struct Evidence<'a> {
    /// The runs of the first and of the second file.
    pub(crate) results: (&'a Ran, &'a Ran),
    pub(crate) alignment: &'a Alignment,
    /// Whether results are the same once the second file has the weights of the first; nothing if
    /// the weights are the same.
    pub(crate) same_with_our_weights: Option<bool>,
    /// How the weights differ.
    pub(crate) weights: &'a WeightDifferences,
    /// Whether the same program was run as two releases run it.
    pub(crate) releases_differ: bool,
    /// Whether sizes are known that only one of them accepts.
    pub(crate) fixes_sizes: bool,
    /// Inputs that one of them was exported without, in words.
    pub(crate) unread: &'a [String],
}

/// The class of a difference, and why.
pub(crate) fn class(evidence: &Evidence<'_>) -> (MoveClass, Vec<String>) {
    let rules = [of_stored_types, of_weights, of_types, of_mode, of_release, of_sizes, of_unread, of_constants];
    if let Some(found) = rules.iter().find_map(|rule| rule(evidence)) {
        return found;
    }
    let computes = |parting: &Option<Parting>, which: &str| {
        parting.as_ref().map(|parting| format!("the {which} file computes `{}`", parting.kind))
    };
    let alignment = evidence.alignment;
    let why = computes(&alignment.first, "first").into_iter().chain(computes(&alignment.second, "second"));
    let weights = evidence.same_with_our_weights.map(|_| "weights differ, too".to_owned());
    (MoveClass::Operator, why.chain(weights).collect())
}

/// Operators that compute the same, with operands of the same names.
const FORMS: [&[&str]; 5] = [
    &["aten::_convolution", "aten::convolution", "aten::conv1d", "aten::conv2d", "aten::conv3d"],
    &["aten::softmax", "aten::_softmax"],
    &["aten::log_softmax", "aten::_log_softmax"],
    &["aten::layer_norm", "aten::native_layer_norm"],
    &["aten::batch_norm", "aten::native_batch_norm", "aten::_native_batch_norm_legit_no_training"],
];

type Found = Option<(MoveClass, Vec<String>)>;

/// Weights of another element type, where it shows: one of the files refuses the inputs of the
/// other, or its results have another type, too.
fn of_stored_types(evidence: &Evidence<'_>) -> Found {
    let why = evidence.weights.dtypes.as_ref()?;
    let is_refused = evidence.results.0.is_err() || evidence.results.1.is_err();
    (is_refused || of_types(evidence).is_some()).then(|| (MoveClass::Dtype, vec![why.clone()]))
}

fn of_weights(evidence: &Evidence<'_>) -> Found {
    if evidence.same_with_our_weights != Some(true) {
        return None;
    }
    let (class, what) = match (&evidence.weights.training, evidence.weights.in_attributes_only) {
        (Some(flag), true) => return Some((MoveClass::Mode, vec![format!("the attribute `{flag}` differs")])),
        (None, true) => (MoveClass::Constant, "attributes"),
        (_, false) => (MoveClass::Weights, "weights"),
    };
    Some((class, vec![format!("with the {what} of the first file the results are the same")]))
}

/// Element types of results, where there are as many.
fn of_types(evidence: &Evidence<'_>) -> Found {
    let (Ok(ours), Ok(theirs)) = evidence.results else { return None };
    let (ours, theirs) = (tensors(ours), tensors(theirs));
    let pair = ours.iter().zip(&theirs).find(|(a, b)| a.dtype() != b.dtype() && ours.len() == theirs.len());
    let (a, b) = pair?;
    let why = format!("{} in the first file, {} in the second", a.dtype().python_name(), b.dtype().python_name());
    Some((MoveClass::Dtype, vec![why]))
}

fn tensors(values: &[IValue]) -> Vec<Tensor> {
    let mut all = Vec::new();
    values.iter().for_each(|value| value.each_tensor(&mut |tensor| all.push(tensor.clone())));
    all
}

fn of_mode(evidence: &Evidence<'_>) -> Found {
    let alignment = evidence.alignment;
    let [first, second] = [&alignment.first, &alignment.second];
    let [first, second] = [first, second].map(|parting| parting.as_ref().filter(|parting| parting.trains));
    let (which, parting) = match (first, second) {
        (Some(parting), None) => ("first", parting),
        (None, Some(parting)) => ("second", parting),
        (Some(_), Some(_)) | (None, None) => return None,
    };
    Some((MoveClass::Mode, vec![format!("in the {which} file `{}` trains", parting.kind)]))
}

fn of_release(evidence: &Evidence<'_>) -> Found {
    let parting = evidence.alignment.second.as_ref().or(evidence.alignment.first.as_ref());
    let why = parting.map(|parting| format!("`{}`", parting.kind));
    evidence.releases_differ.then(|| (MoveClass::Release, why.into_iter().collect()))
}

/// A program that was made for fixed sizes raises, or reshapes to other ones.
fn of_sizes(evidence: &Evidence<'_>) -> Found {
    let raises = [evidence.results.0, evidence.results.1].into_iter().filter_map(|result| result.as_ref().err()).next();
    let reshapes =
        |parting: &Option<Parting>| parting.as_ref().is_some_and(|parting| SIZED.contains(&parting.kind.as_str()));
    let alignment = evidence.alignment;
    let is_sized = reshapes(&alignment.first) || reshapes(&alignment.second);
    let other_shapes = match evidence.results {
        (Ok(a), Ok(b)) => tensors(a).iter().map(Tensor::shape).ne(tensors(b).iter().map(Tensor::shape)),
        _ => false,
    };
    let raised = raises.and_then(Stop::exception);
    let is_sized = is_sized || raised.as_ref().is_some_and(|raised| raised.message.contains(OF_OTHER_SIZE));
    let is_it = raises.is_some() && (evidence.fixes_sizes || is_sized) || is_sized && other_shapes;
    let why = raised.map(|raised| format!("it raises {}: {}", raised.class, raised.message));
    is_it.then(|| (MoveClass::Shape, why.into_iter().collect()))
}

/// A program that was exported with one tensor for several inputs reads one of them only.
fn of_unread(evidence: &Evidence<'_>) -> Found {
    (!evidence.unread.is_empty()).then(|| (MoveClass::Shape, evidence.unread.to_vec()))
}

/// What a reshape to constant sizes raises: the first file may have raised before it computed what
/// the second did not.
const OF_OTHER_SIZE: &str = "is invalid for input of size";

/// Operators that are given sizes.
const SIZED: [&str; 8] = [
    "aten::view",
    "aten::reshape",
    "aten::_unsafe_view",
    "aten::expand",
    "aten::zeros",
    "aten::ones",
    "aten::full",
    "aten::arange",
];

/// Both compute the same operator of the same tensors, with other numbers. An exported program may
/// have the operator that another one is made of: `aten::_convolution` and `aten::conv2d`.
fn of_constants(evidence: &Evidence<'_>) -> Found {
    let (Some(a), Some(b)) = (&evidence.alignment.first, &evidence.alignment.second) else { return None };
    if a.kind != b.kind && !FORMS.iter().any(|forms| [a, b].iter().all(|one| forms.contains(&one.kind.as_str()))) {
        return None;
    }
    let differ: Vec<String> = (a.numbers.iter())
        .filter_map(|(name, ours)| {
            let (_, theirs) = b.numbers.iter().find(|(other, theirs)| other == name && theirs != ours)?;
            Some(format!("`{name}` of `{}` is {ours} in the first file, {theirs} in the second", a.kind))
        })
        .collect();
    (!differ.is_empty()).then_some((MoveClass::Constant, differ))
}
