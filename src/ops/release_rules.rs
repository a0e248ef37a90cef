//! Behaviour of operators in earlier releases: a column of the operator table.
//!
//! A row states that operators of some kinds, in some releases and on some operands, raise or
//! compute something else than before or after. Each row was found by running small calls in the
//! releases (`tools/pytorch/release_probe.py`), and a test compares the rows, the recorded calls
//! and the interpreter (`tools/opt/tests/suite/releases.rs`). Releases before 1.3 run as 1.3.

use crate::symbol::Symbol;
use crate::tensor::DType;
use crate::types::release::Release;
use rustc_hash::FxHashMap;
use std::sync::LazyLock;

/// The operands that a row applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operands {
    /// Tensors of integers or bools, without a floating-point number.
    Integral,
    /// Tensors of bools, without a floating-point number.
    Bools,
    /// Tensors of integers.
    Integers,
    /// Tensors of integers or bools with a floating-point number.
    IntegralWithFloat,
    /// No tensors, and no floating-point number.
    IntegralNumbers,
    /// Tensors of different element types.
    Mixed,
    /// The same, ignoring the first one, which is a condition.
    MixedChoices,
    /// The first tensor is floating point.
    Floating,
    /// The first tensor is of neither bools nor `uint8`.
    NotBools,
    /// The second tensor is a mask of `uint8`.
    ByteMask,
    /// Any types: the row depends on values.
    Values,
}

/// The behaviour of an operator in the releases of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Does {
    /// It raises; the interpreter refuses the call by this row alone.
    Raises,
    /// It raises unless a dtype is given; the kernel checks that.
    RaisesUntyped,
    /// The kernel computes the difference.
    Computes(&'static str),
    /// The same, with the element type of the first tensor.
    Keeps(&'static str),
    /// The same, with the default element type.
    MakesFloats,
}

impl Does {
    /// A description that continues `it …`.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Does::Raises => "raises",
            Does::RaisesUntyped => "raises without a dtype",
            Does::Computes(what) | Does::Keeps(what) => what,
            Does::MakesFloats => "makes floats",
        }
    }
}

/// A row.
#[derive(Clone, Copy, Debug)]
pub struct ReleaseRow {
    /// Names of the kinds, separated by blanks.
    pub kinds: &'static str,
    /// The operands that it applies to.
    pub operands: Operands,
    /// The first release.
    pub from: Release,
    /// The first release after them; none if the newest release is one of them.
    pub until: Option<Release>,
    /// The behaviour.
    pub does: Does,
}

/// Element types of the tensors and numbers among the operands of a call.
#[derive(Clone, Debug, Default)]
pub(crate) struct OperandTypes {
    /// The types of tensors, including elements of lists, in order.
    pub tensors: Vec<DType>,
    /// Whether a number is floating point; none if that is unknown.
    pub float_number: Option<bool>,
}

/// The oldest release with rules of its own.
const FIRST: Release = Release(1, 3);

/// Functions whose results are floating point.
const FLOAT_FUNCTIONS: &str = "aten::exp aten::log aten::sqrt aten::rsqrt aten::sin aten::cos aten::tan aten::tanh \
    aten::sigmoid aten::erf aten::erfc aten::lgamma aten::digamma aten::log2 aten::log10 aten::log1p aten::atan \
    aten::asin aten::acos aten::sinh aten::cosh aten::expm1 aten::reciprocal";

/// The rows.
pub const RELEASE_ROWS: &[ReleaseRow] = &[
    before("aten::div aten::div_", Operands::Integral, (1, 6), Does::Computes("gives integers, rounded toward zero")),
    row("aten::div", Operands::Integral, (1, 6), Some((1, 7)), Does::Raises),
    before("aten::div", Operands::Bools, (1, 7), Does::Raises),
    row("aten::div_", Operands::Integral, (1, 6), None, Does::Raises),
    before("aten::floor_divide aten::floor_divide_", Operands::Values, (1, 13), Does::Computes("rounds toward zero")),
    before(FLOAT_FUNCTIONS, Operands::Integral, (1, 8), Does::Raises),
    before("aten::full", Operands::IntegralNumbers, (1, 6), Does::MakesFloats),
    row("aten::full", Operands::IntegralNumbers, (1, 6), Some((1, 7)), Does::RaisesUntyped),
    // Called from a graph: 1.3.1 makes integers when Python calls it.
    before("aten::arange", Operands::IntegralNumbers, (1, 4), Does::MakesFloats),
    before("aten::max aten::min", Operands::Values, (1, 5), Does::Computes("of two tensors loses NaN of the first")),
    before("aten::max aten::min", Operands::Values, (1, 6), Does::Computes("gives the last of equal elements")),
    before("aten::max aten::min", Operands::Mixed, (1, 7), Does::Raises),
    before("aten::argmax aten::argmin", Operands::Values, (1, 7), Does::Computes("gives the last of equal elements")),
    before("aten::clamp", Operands::Values, (1, 8), Does::Computes("gives the lower bound where bounds cross")),
    before("aten::clamp", Operands::Values, (1, 12), Does::Computes("ignores bounds that are NaN")),
    before(
        "aten::clamp aten::clamp_min aten::clamp_max",
        Operands::IntegralWithFloat,
        (1, 12),
        Does::Keeps("keeps the element type and truncates the bounds"),
    ),
    before("aten::pow", Operands::IntegralWithFloat, (1, 6), Does::Keeps("keeps the element type, or raises")),
    before("aten::pow", Operands::Mixed, (1, 6), Does::Raises),
    before("aten::round aten::floor aten::ceil aten::trunc", Operands::Integral, (1, 13), Does::Raises),
    before(
        "aten::remainder aten::fmod",
        Operands::IntegralWithFloat,
        (1, 8),
        Does::Keeps("keeps the element type and truncates the divisor"),
    ),
    before("aten::remainder", Operands::Mixed, (1, 5), Does::Raises),
    before("aten::remainder", Operands::Values, (1, 6), Does::Computes("gives 0 where it gives -0 later")),
    before("aten::fmod", Operands::Mixed, (1, 8), Does::Raises),
    before("aten::where", Operands::MixedChoices, (1, 12), Does::Raises),
    before("aten::atan2", Operands::Integral, (1, 7), Does::Raises),
    before("aten::atan2", Operands::Mixed, (1, 7), Does::Raises),
    before("aten::logical_xor", Operands::Integers, (1, 4), Does::Raises),
    row("aten::__lshift__", Operands::Floating, (1, 12), None, Does::Raises),
    before("aten::relu", Operands::Values, (1, 9), Does::Computes("gives 0 for -0")),
    before("aten::addcdiv", Operands::Integral, (1, 6), Does::Computes("divides integers")),
    row("aten::addcdiv", Operands::Integral, (1, 6), None, Does::Raises),
    before("aten::cat aten::stack", Operands::Mixed, (1, 6), Does::Raises),
    // Deprecated with 1.2; whether 2.0 or 2.1 refused them first was not tested.
    row("aten::masked_fill aten::masked_select", Operands::ByteMask, (2, 1), None, Does::Raises),
    before("aten::median", Operands::Values, (1, 8), Does::Computes("orders NaN after all numbers")),
    before("aten::logsumexp", Operands::Integral, (1, 11), Does::Raises),
    before("aten::mse_loss", Operands::Mixed, (1, 4), Does::Raises),
    before("aten::all aten::any", Operands::NotBools, (1, 8), Does::Raises),
    // FBGEMM rounds in another way from 2.14 on.
    before(DYNAMIC_PRODUCTS, Operands::Values, (2, 14), Does::Computes("adds the zero point before it rounds")),
];

/// Products that quantise their first operand.
const DYNAMIC_PRODUCTS: &str = "quantized::linear_dynamic quantized::linear_relu_dynamic _quantized::linear_dynamic \
    aten::quantized_lstm aten::quantized_gru quantized::quantized_lstm_cell_dynamic \
    quantized::quantized_gru_cell_dynamic quantized::quantized_rnn_tanh_cell_dynamic \
    quantized::quantized_rnn_relu_cell_dynamic";

const fn row(
    kinds: &'static str,
    operands: Operands,
    from: (u32, u32),
    until: Option<(u32, u32)>,
    does: Does,
) -> ReleaseRow {
    let until = match until {
        Some((major, minor)) => Some(Release(major, minor)),
        None => None,
    };
    ReleaseRow { kinds, operands, from: Release(from.0, from.1), until, does }
}

const fn before(kinds: &'static str, operands: Operands, until: (u32, u32), does: Does) -> ReleaseRow {
    row(kinds, operands, (FIRST.0, FIRST.1), Some(until), does)
}

impl ReleaseRow {
    /// Whether it applies in a release.
    pub(crate) fn covers(&self, release: Release) -> bool {
        let release = release.max(FIRST);
        self.from <= release && self.until.is_none_or(|until| release < until)
    }

    /// The releases at which behaviour changes.
    pub fn boundaries(&self) -> impl Iterator<Item = Release> {
        Some(self.from).filter(|&from| from > FIRST).into_iter().chain(self.until)
    }
}

impl Operands {
    /// Whether operands have such types; unknown types may match.
    pub(crate) fn hold(self, types: &OperandTypes) -> bool {
        let OperandTypes { tensors, float_number } = types;
        let integral = |dtype: &DType| dtype.is_integral();
        let all = |f: &dyn Fn(&DType) -> bool| !tensors.is_empty() && tensors.iter().all(f);
        let mixed = |tensors: &[DType]| tensors.windows(2).any(|pair| pair[0] != pair[1]);
        match self {
            Operands::Integral => all(&integral) && *float_number != Some(true),
            Operands::Bools => all(&|dtype| *dtype == DType::Bool) && *float_number != Some(true),
            Operands::Integers => all(&|dtype| integral(dtype) && *dtype != DType::Bool),
            Operands::IntegralWithFloat => all(&integral) && *float_number != Some(false),
            Operands::IntegralNumbers => tensors.is_empty() && *float_number != Some(true),
            Operands::Mixed => mixed(tensors),
            Operands::MixedChoices => mixed(tensors.get(1..).unwrap_or_default()),
            Operands::Floating => tensors.first().is_some_and(|dtype| dtype.is_float()),
            Operands::NotBools => tensors.first().is_some_and(|dtype| !matches!(dtype, DType::Bool | DType::Byte)),
            Operands::ByteMask => tensors.get(1) == Some(&DType::Byte),
            Operands::Values => true,
        }
    }
}

/// The rows of a kind.
pub(crate) fn release_rows(kind: Symbol) -> &'static [&'static ReleaseRow] {
    static ALL: LazyLock<FxHashMap<Symbol, Vec<&'static ReleaseRow>>> = LazyLock::new(|| {
        let mut all: FxHashMap<Symbol, Vec<&'static ReleaseRow>> = FxHashMap::default();
        for row in RELEASE_ROWS {
            for kind in row.kinds.split_whitespace() {
                all.entry(Symbol::new(kind)).or_default().push(row);
            }
        }
        all
    });
    ALL.get(&kind).map_or(&[], Vec::as_slice)
}

/// The behaviour of a release that determines the element type of a result on operands of these
/// types.
pub(crate) fn element_type_rule(kind: Symbol, types: &OperandTypes, release: Release) -> Option<Does> {
    let decides = |row: &&&ReleaseRow| !matches!(row.does, Does::Computes(_));
    let mut rows = release_rows(kind).iter().filter(decides);
    rows.find(|row| row.covers(release) && row.operands.hold(types)).map(|row| row.does)
}

/// The rows by which releases of a range differ on operands of these types.
pub(crate) fn differences<'a>(
    kind: Symbol,
    types: &'a OperandTypes,
    oldest: Release,
    newest: Release,
) -> impl Iterator<Item = &'static ReleaseRow> + 'a {
    let between = move |row: &&&ReleaseRow| row.boundaries().any(|first| oldest < first && first <= newest);
    let by_type = |row: &&&ReleaseRow| row.operands != Operands::Values && row.operands.hold(types);
    release_rows(kind).iter().filter(between).filter(by_type).copied()
}
