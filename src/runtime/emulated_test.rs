//! Emulated blocks of threads: their results, and what checks report of errors that are injected
//! into the text of a kernel.

use super::disk_cache::DiskCache;
use super::emulated_launch::{Emulated, Image, Observed, Operands, source};
use super::loading::Loaded;
use super::toolchain;
use super::wide_launch::{functions_of, split_functions_of};
use super::{CpuBackend, Engine, Settings};
use crate::codegen::geometry::{Geometry, View, settle};
use crate::codegen::kernel::Kernel;
use crate::codegen::target::{CUDA, Nests};
use crate::codegen::text_lines::SourceText;
use crate::codegen::whole_graph::{Planned, kernels};
use crate::interpreter::{Environment, IValue, Machine};
use crate::ir::Graph;
use crate::tensor::{DType, Dims, Precision, Tensor};
use crate::text::{ParseOptions, parse};
use std::sync::Arc;

/// Rows, and the elements of each: neither is a multiple of the threads of a block.
const SHAPE: [i64; 2] = [5, 1000];
/// Rows whose elements cannot be taken several at once, so that launches take the function of the
/// plan.
const ODD: [i64; 2] = [5, 1001];
/// The seeds of the orders in which threads are scheduled.
const SEEDS: std::ops::Range<u32> = 0..3;

/// A group of one operand, `%x`, and one result, `%y`.
fn graph(section: &str) -> Graph {
    let text = format!(
        "graph(%a : Float(*, *)):
  %r : Tensor = prim::FusionGroup_0(%a)
  return (%r)
with prim::FusionGroup_0 = graph(%x : Float(*, *)):
  %none : None = prim::Constant()
  %one : int = prim::Constant[value=1]()
  %no : bool = prim::Constant[value=0]()
  %half : float = prim::Constant[value=0.5]()
  %yes : bool = prim::Constant[value=1]()
  %outer : int[] = prim::Constant[value=[0]]()
  %dims : int[] = prim::Constant[value=[1]]()
  {section}
  return (%y)
"
    );
    parse(text.as_bytes(), ParseOptions::default()).unwrap_or_else(|why| panic!("{text}\n{why:?}")).graph
}

/// Its kernel.
fn planned(section: &str) -> Planned {
    kernels(&graph(section), None, &CUDA).planned.remove(0)
}

/// Its functions.
fn nests(planned: &Planned) -> Nests {
    CUDA.nests(&planned.kernel, &planned.traversal, &planned.plan).expect("nests")
}

/// A group, the shape of its operand, and what the function is named that a launch takes, which is
/// changed: that of the plan, unless there is a suffix.
#[derive(Clone, Copy, Debug)]
struct Case(&'static str, [i64; 2], &'static str);

impl Case {
    /// Of the function of the plan.
    fn own(section: &'static str) -> Case {
        Case(section, ODD, "")
    }

    /// The text of that function.
    fn text(self) -> String {
        let all = CUDA.functions("k", &nests(&planned(self.0)));
        let found = all.into_iter().find(|(name, _)| *name == format!("k{}", self.2));
        found.unwrap_or_else(|| panic!("{self:?} has no such function")).1.into_text()
    }
}

/// The emulated kernel of functions, checked.
fn emulated(planned: &Planned, functions: &[(String, SourceText)]) -> Emulated {
    let cache = DiskCache::new(None);
    let compiler = toolchain::find((None, None), true, &cache, None).expect("there is a compiler");
    let folder = cache.private_folder().expect("there is a folder");
    let (names, texts): (Vec<String>, Vec<SourceText>) = functions.iter().cloned().unzip();
    let text = (CUDA.unit)(&texts);
    let path = compiler.compile((source(&text, &names, true).text(), true), &folder.0, None);
    let library =
        Arc::new(path.and_then(|path| Loaded::open(&path)).unwrap_or_else(|why| panic!("{why}\n{}", text.text())));
    let image = Image::Compiled(library);
    let (nests, find) = (nests(planned), |name: &str| image.entry(name));
    Emulated {
        functions: functions_of("k", &nests, find).expect("entries"),
        split: split_functions_of("k", &nests, find).expect("entries"),
        totals: Vec::new(),
        grid: planned.plan.grid.expect("a grid"),
        has_barriers: nests.own.has_barriers(),
        image,
        text: text.into(),
        is_checked: true,
    }
}

fn geometry(kernel: &Kernel, shape: [i64; 2]) -> Geometry {
    let view = View { shape: Dims::from_slice(&shape), strides: Dims::from_slice(&[shape[1], 1]), offset: 0 };
    settle(kernel, &[Some(view)]).expect("a space")
}

/// The result of a kernel whose text was changed, and what its launches report, under each seed.
fn run(case: Case, change: &dyn Fn(&str) -> String) -> (Vec<f32>, Vec<String>) {
    let (result, seen) = observed(case, change);
    (result, seen.into_iter().flat_map(|seen| seen.findings).collect())
}

/// Whether a function is of parts of rows, or of what merges them: a launch takes both.
fn is_split(suffix: &str) -> bool {
    suffix.contains("_parts") || suffix.ends_with("_merge")
}

/// A function that does nothing: no launch takes it, and it need not be compiled.
fn without_body(text: &str) -> String {
    let head = text.split_once("\n{").map_or(text, |(head, _)| head);
    format!("{head}\n{{\n}}\n")
}

fn observed(case: Case, change: &dyn Fn(&str) -> String) -> (Vec<f32>, Vec<Observed>) {
    let Case(section, shape, suffix) = case;
    let planned = planned(section);
    let mut functions = CUDA.functions("k", &nests(&planned));
    for (name, text) in &mut functions {
        let own = &name["k".len()..];
        match own {
            _ if own == suffix => *text = SourceText::of_changed(&change(text.text())),
            _ if is_split(own) && is_split(suffix) => {}
            _ => *text = without_body(text.text()).into(),
        }
    }
    let emulated = emulated(&planned, &functions);
    let geometry = geometry(&planned.kernel, shape);
    // All are negative: what is combined by mistake, zeros, would be the largest.
    let input: Vec<f32> = (0..shape[0] * shape[1]).map(|i| (i * 37 % 211) as f32 / 70.0 - 4.5).collect();
    let mut result = vec![f32::NAN; geometry.made[0].0.iter().product::<i64>() as usize];
    let mut found = Vec::new();
    for seed in SEEDS {
        let data = [
            (input.as_ptr().expose_provenance(), input.len()),
            (result.as_mut_ptr().expose_provenance(), result.len()),
        ];
        let operands = Operands { data: &data, starts: &[0, 0], floats: &[], integers: &[] };
        found.push(emulated.launch(&planned.kernel, &geometry, &operands, seed).expect("a launch"));
    }
    (result, found)
}

/// The results of a graph.
fn results(graph: &Graph, input: &Tensor, backend: Option<&CpuBackend>) -> Vec<f64> {
    let env = Environment::default();
    let machine = Machine::new(graph, &env);
    let mut machine = if let Some(backend) = backend { machine.backed_by(backend) } else { machine };
    machine.run(vec![IValue::Tensor(input.clone())]).expect("it runs")[0].tensor().expect("a tensor").read::<f64>()
}

#[test]
fn results_are_those_of_the_interpreter() {
    const SECTIONS: [&str; 8] = [
        SUM,
        SOFTMAX,
        RELU,
        "%y : Tensor = aten::var(%x, %dims, %no, %no)",
        "%y : Tensor = aten::var(%x, %outer, %no, %no)",
        "%y : Tensor = aten::argmax(%x, %one, %no)",
        "%y : Tensor = aten::amax(%x, %outer, %no)",
        "%m : Tensor = aten::mean(%x, %dims, %yes, %none)\n  %y : Tensor = aten::sub(%x, %m, %one)",
    ];
    for (section, special) in SECTIONS.into_iter().flat_map(|section| [(section, false), (section, true)]) {
        let mut numbers: Vec<f64> = (0..SHAPE[0] * SHAPE[1]).map(|i| (i * 37 % 211) as f64 / 70.0 - 1.5).collect();
        if special {
            // The last element of a row and of a column, one among others, and one of each kind.
            (numbers[999], numbers[4999], numbers[1500]) = (f64::INFINITY, f64::INFINITY, f64::NEG_INFINITY);
            numbers[2500] = f64::NAN;
        }
        let input = Tensor::of(&numbers, DType::Float, &SHAPE, Precision::Typed);
        let graph = graph(section);
        for engine in [Engine::Emulated, Engine::Checked] {
            let backend = CpuBackend::new(Settings { engine, scalar: true, guarded: true, ..Settings::default() });
            let (found, wanted) = (results(&graph, &input, Some(&backend)), results(&graph, &input, None));
            assert_eq!((backend.counts().launched, backend.findings()), (1, Vec::new()), "{:?}", backend.remarks());
            for (i, (found, wanted)) in found.iter().zip(&wanted).enumerate() {
                let is_near = (found - wanted).abs() <= 1e-5 * wanted.abs() + 1e-6;
                let is_same = found == wanted || found.is_nan() && wanted.is_nan();
                assert!(is_near || is_same, "{section}, element {i}: {found}, not {wanted}");
            }
        }
    }
}

const SUM: &str = "%y : Tensor = aten::sum(%x, %dims, %no, %none)";
const SOFTMAX: &str = "%y : Tensor = aten::softmax(%x, %one, %none)";
const VARIANCE: &str = "%y : Tensor = aten::var(%x, %dims, %no, %no)";
const PLACE: &str = "%i : Tensor = aten::argmax(%x, %one, %no)\n  %y : Tensor = aten::mul(%i, %half)";
const SCAN: &str = "%y : Tensor = aten::cumsum(%x, %one, %none)";
const COLUMNS: &str = "%y : Tensor = aten::sum(%x, %outer, %no, %none)";
const RELU: &str = "%y : Tensor = aten::relu(%x)";

#[test]
fn kernels_as_they_are_have_nothing_wrong() {
    for section in [SUM, SOFTMAX, RELU, "%y : Tensor = aten::var(%x, %dims, %no, %no)"] {
        let (result, found) = run(Case::own(section), &str::to_owned);
        assert!(result.iter().all(|x| x.is_finite()), "{section}");
        assert_eq!(found, Vec::<String>::new(), "{section}");
    }
}

/// Functions additional to those of plans: of contiguous elements that are kept, by a warp or a
/// block, that are too many for that, and of points; of parts of rows, by a thread or a block each,
/// and of what merges them.
const OTHERS: [Case; 14] = [
    Case(SOFTMAX, [11, 200], "_wide0"),
    Case(SOFTMAX, [11, 900], "_wide1"),
    Case(VARIANCE, [11, 900], "_wide1"),
    Case(SOFTMAX, [3, 2200], "_wide2"),
    Case(VARIANCE, [3, 2200], "_wide2"),
    Case(SOFTMAX, [3, 5000], "_wide3"),
    Case(SOFTMAX, [3, 20_000], "_wide4"),
    Case(RELU, SHAPE, "_wide0"),
    Case(COLUMNS, [70, 6], "_parts"),
    Case(COLUMNS, [70, 6], "_merge"),
    Case(VARIANCE, [2, 20_001], "_parts"),
    Case(VARIANCE, [2, 70_000], "_wide_parts"),
    Case(SCAN, [1, 40_001], "_parts"),
    Case(SCAN, [1, 40_001], "_parts1"),
];

#[test]
fn additional_functions_are_taken_and_right() {
    for case in OTHERS {
        let (result, found) = run(case, &str::to_owned);
        assert_eq!(found, Vec::<String>::new(), "{case:?}");
        let (wanted, _) = run(case, &|text| text.replacen("{\n", "{\n    return;\n", 1));
        assert!(result.iter().all(|x| x.is_finite()) && result.iter().ne(&wanted), "{case:?} is not taken");
    }
}

#[test]
fn barriers_and_accesses_of_other_functions_are_checked() {
    for case in OTHERS {
        let barriers = case.text().matches("JO_BARRIER();").count();
        let reported = (0..barriers).filter(|&n| !run(case, &|text| without_barrier(text, n)).1.is_empty());
        // The last barrier of a phase is needed where another row follows, as arrays are the same.
        assert!(reported.count() + 1 >= barriers.min(4), "{case:?}");
        for access in ["JO_FETCH", "JO_DELIVER"] {
            let text = case.text();
            let Some(at) = text.find(&format!("= {access}(")).or_else(|| text.find(&format!(" {access}("))) else {
                continue;
            };
            let comma = at + text[at..].match_indices(", ").nth(1).expect("a position").0;
            let moved = |text: &str| format!("{}1 + {}", &text[..comma + 2], &text[comma + 2..]);
            let (_, found) = run(case, &moved);
            assert!(found.iter().any(|why| why.contains("that its size does not divide")), "{case:?}: {found:?}");
        }
    }
}

/// The text without its n-th barrier.
fn without_barrier(text: &str, n: usize) -> String {
    let mut pieces: Vec<&str> = text.split("JO_BARRIER();").collect();
    let after = pieces.remove(n + 1);
    let joined = format!("{}{after}", pieces[n]);
    pieces[n] = &joined;
    pieces.join("JO_BARRIER();")
}

#[test]
fn each_removed_barrier_is_reported_with_its_ir_line() {
    // A softmax has two merges, each of which writes what is read before the barrier of the other.
    let all: [(&'static str, &str, &[usize]); 5] = [
        (SUM, "aten::sum", &[0, 1]),
        (SOFTMAX, "aten::softmax", &[0, 1]),
        (VARIANCE, "aten::var", &[0, 1]),
        (PLACE, "aten::argmax", &[0, 1]),
        (SCAN, "aten::cumsum", &[0, 1]),
    ];
    for (section, kind, needed) in all {
        for &n in needed {
            let (_, found) = run(Case::own(section), &|text| without_barrier(text, n));
            let is_told = |why: &String| why.contains("race, without a barrier in between") && why.contains(kind);
            assert!(found.iter().any(is_told), "barrier {n} of {section}: {found:?}");
        }
    }
}

#[test]
fn each_removed_mask_is_reported() {
    const MASKS: [&str; 7] = [
        "if (JO_THREAD == 0) {",
        "if (JO_LANE == 0) {",
        "if (JO_LANE >= distance) {",
        "if (JO_LANE == 31) {",
        "if (JO_WARP > 0) {",
        "if ((i64)element < launch.count) {",
        "if (element < launch.count) {",
    ];
    let mut removed = [0; MASKS.len()];
    let own = [SUM, SOFTMAX, VARIANCE, PLACE, SCAN].map(Case::own);
    for case in own.into_iter().chain(OTHERS) {
        let (text, (wanted, _)) = (case.text(), run(case, &str::to_owned));
        assert!(wanted.iter().all(|x| !x.is_nan()), "a launch of {case:?} takes another function");
        for (mask, removed) in MASKS.iter().zip(&mut removed) {
            for (n, (at, _)) in text.match_indices(mask).enumerate() {
                let (result, found) = run(case, &|text| format!("{}{{{}", &text[..at], &text[at + mask.len()..]));
                // A thread may combine what is in its registers only, which nothing checks.
                assert!(!found.is_empty() || result != wanted, "{n}, `{mask}` of {case:?}");
                *removed += 1;
            }
        }
    }
    assert!(removed.iter().all(|&n| n > 0), "{removed:?}");
}

#[test]
fn accesses_apart_take_more_transactions() {
    let totals = |section: &'static str, from: &str, to: &str, is_shared: bool| {
        let change = |text: &str| {
            assert!(text.contains(from), "`{from}` is not in\n{text}");
            text.replace(from, to)
        };
        let (_, seen) = observed(Case::own(section), &change);
        let total = seen[0].profile.total(is_shared);
        assert!(total.0 > 0, "nothing was counted in {section}");
        (total.1, total.2)
    };
    let (sectors, fewest) = totals(RELU, "JO_GET(in0, r0)", "JO_GET(in0, r0)", false);
    assert_eq!(sectors, fewest);
    // Each thread reads from a sector of its own.
    let (apart, same) = totals(RELU, "JO_GET(in0, r0)", "JO_GET(in0, r0 * 8 % 4096)", false);
    assert!(apart > same * 4, "{apart} sectors in place of {same}");
    let place = "JO_PUT(all_p_y, JO_WARP, p_y)";
    let (wavefronts, fewest) = totals(SCAN, place, place, true);
    assert_eq!(wavefronts, fewest);
}

#[test]
fn addresses_that_sizes_do_not_divide_are_reported() {
    let odd = "JO_GET((const float *)((const char *)in0 + 2), r0)";
    let (_, found) = run(Case::own(RELU), &|text| text.replace("JO_GET(in0, r0)", odd));
    assert!(found.iter().any(|why| why.contains("that its size does not divide") && why.contains("%x")), "{found:?}");
}

#[test]
fn injected_errors_are_reported() {
    let below = "JO_LANE_BELOW(double, a_y, half)";
    let injected: [(&'static str, &str, &str, &str); 7] = [
        (SUM, "element < launch.count", "element <= launch.count", "outside of the memory of an operand"),
        (RELU, "row < launch.rows", "row <= launch.rows", "outside of the memory of an operand"),
        (SUM, "if (JO_THREAD == 0) {", "{", "race, without a barrier in between"),
        (SUM, "if (JO_LANE == 0) {", "{", "race, without a barrier in between"),
        (SUM, below, "(JO_LANE == 9 ? 0 : JO_LANE_BELOW(double, a_y, half))", "and thread 9 is elsewhere"),
        (
            SUM,
            below,
            "(JO_LANE == 9 ? 0 : JO_LANE_BELOW(double, a_y, half)); if (JO_LANE == 9) return",
            "thread 9 of block",
        ),
        (SUM, "JO_PUT(all_a_y, JO_WARP, a_y);", "if (JO_WARP) JO_PUT(all_a_y, JO_WARP, a_y);", "nothing has written"),
    ];
    for (section, from, to, expected) in injected {
        let change = |text: &str| {
            assert!(text.contains(from), "`{from}` is not in\n{text}");
            text.replacen(from, to, 1)
        };
        let (_, found) = run(Case::own(section), &change);
        assert!(found.iter().any(|why| why.contains(expected)), "`{to}`: {found:?}");
    }
}

#[test]
fn threads_that_do_not_reach_a_barrier_are_reported() {
    let change = |text: &str| text.replacen("JO_BARRIER();", "if (JO_THREAD < 7) JO_BARRIER();", 1);
    let (_, found) = run(Case::own(SUM), &change);
    assert!(found.iter().any(|why| why.contains("wait at different barriers")), "{found:?}");
}
