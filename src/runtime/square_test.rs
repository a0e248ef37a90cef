//! Squares of points, which go through shared memory: their results and requests, and what checks
//! report where a barrier, a mask or the padding of a square is removed from the text.

use super::disk_cache::DiskCache;
use super::emulated_launch::{Emulated, Image, Observed, Operands, source};
use super::loading::Loaded;
use super::toolchain;
use super::wide_launch::functions_of;
use crate::codegen::geometry::{Geometry, View, settle};
use crate::codegen::kernel::Kernel;
use crate::codegen::target::CUDA;
use crate::codegen::text_lines::SourceText;
use crate::codegen::whole_graph::kernels;
use crate::tensor::Dims;
use crate::text::{ParseOptions, parse};
use std::sync::Arc;

/// Neither size is a multiple of the side of a square.
const SHAPE: [i64; 2] = [45, 70];

/// The kernel of a group of two operands, and two results in the layouts of these.
fn kernel() -> Kernel {
    let text = "graph(%a : Float(*, *), %b : Float(*, *)):
  %r : Tensor, %q : Tensor = prim::FusionGroup_0(%a, %b)
  return (%r, %q)
with prim::FusionGroup_0 = graph(%x : Float(*, *), %t : Float(*, *)):
  %one : int = prim::Constant[value=1]()
  %r : Tensor = aten::add(%x, %t, %one)
  %q : Tensor = aten::neg(%t)
  return (%r, %q)
";
    let graph = parse(text.as_bytes(), ParseOptions::default()).expect("a graph").graph;
    kernels(&graph, None, &CUDA).planned.remove(0).kernel
}

/// Its space, where the second operand has these strides.
fn geometry(kernel: &Kernel, shape: [i64; 2], strides: [i64; 2]) -> Geometry {
    let view = |strides: [i64; 2]| {
        Some(View { shape: Dims::from_slice(&shape), strides: Dims::from_slice(&strides), offset: 0 })
    };
    settle(kernel, &[view([shape[1], 1]), view(strides)]).expect("a space")
}

/// The text of the function for squares, changed; the results of a launch in each of three orders
/// of threads, and what it reports.
fn run(change: &dyn Fn(&str) -> String) -> ([Vec<f32>; 2], Vec<Observed>) {
    let kernel = kernel();
    let geometry = geometry(&kernel, SHAPE, [1, SHAPE[0]]);
    let plan = (CUDA.choose)(&kernel, &geometry.traversal);
    let nests = CUDA.nests(&kernel, &geometry.traversal, &plan).expect("nests");
    let functions = CUDA.functions("k", &nests).into_iter().map(|(name, text)| {
        let text = if name == "k_squares" { SourceText::of_changed(&change(text.text())) } else { text };
        (name, text)
    });
    let (names, texts): (Vec<String>, Vec<SourceText>) = functions.unzip();
    let cache = DiskCache::new(None);
    let compiler = toolchain::find((None, None), true, &cache, None).expect("there is a compiler");
    let folder = cache.private_folder().expect("there is a folder");
    let text = (CUDA.unit)(&texts);
    let path = compiler.compile((source(&text, &names, true).text(), true), &folder.0, None);
    let library =
        Arc::new(path.and_then(|path| Loaded::open(&path)).unwrap_or_else(|why| panic!("{why}\n{}", text.text())));
    let image = Image::Compiled(library);
    let emulated = Emulated {
        functions: functions_of("k", &nests, |name: &str| image.entry(name)).expect("entries"),
        split: None,
        totals: Vec::new(),
        grid: plan.grid.expect("a grid"),
        has_barriers: false,
        image,
        text: text.into(),
        is_checked: true,
    };
    let count = (SHAPE[0] * SHAPE[1]) as usize;
    let [x, t] = [37, 53].map(|by| (0..count).map(|i| (i * by % 211) as f32 - 99.5).collect::<Vec<f32>>());
    let mut results = [vec![f32::NAN; count], vec![f32::NAN; count]];
    let mut seen = Vec::new();
    for seed in 0..3 {
        let [r, q] = results.each_mut().map(|result| (result.as_mut_ptr().expose_provenance(), count));
        let data = [(x.as_ptr().expose_provenance(), count), (t.as_ptr().expose_provenance(), count), r, q];
        let operands = Operands { data: &data, starts: &[0; 4], floats: &[], integers: &[] };
        seen.push(emulated.launch(&kernel, &geometry, &operands, seed).expect("a launch"));
    }
    (results, seen)
}

/// The findings of a launch of a changed text.
fn found(change: &dyn Fn(&str) -> String) -> Vec<String> {
    run(change).1.into_iter().flat_map(|seen| seen.findings).collect()
}

/// The text without the n-th of some pieces, if it has so many.
fn without(text: &str, piece: &str, n: usize, instead: &str) -> Option<String> {
    let (at, _) = text.match_indices(piece).nth(n)?;
    Some(format!("{}{instead}{}", &text[..at], &text[at + piece.len()..]))
}

#[test]
fn results_are_right_and_requests_are_the_fewest() {
    let ([r, q], seen) = run(&str::to_owned);
    let [rows, columns] = SHAPE.map(|n| n as usize);
    for (i, j) in (0..rows).flat_map(|i| (0..columns).map(move |j| (i, j))) {
        let [x, t] = [(i * columns + j, 37), (j * rows + i, 53)].map(|(at, by)| (at * by % 211) as f32 - 99.5);
        assert_eq!((r[i * columns + j], q[j * rows + i]), (x + t, -t), "{i} {j}");
    }
    for seen in &seen {
        assert_eq!(seen.findings, Vec::<String>::new());
        // Lines of 45 and of 70 elements begin anywhere in a sector.
        let (requests, sectors, fewest) = seen.profile.total(false);
        assert!(sectors <= fewest + requests, "{sectors} sectors, {fewest} would do for {requests} requests");
        let (_, wavefronts, fewest) = seen.profile.total(true);
        assert!(fewest > 0 && wavefronts == fewest, "{wavefronts} wavefronts, {fewest} would do");
    }
}

#[test]
fn removed_barriers_and_masks_are_reported() {
    for n in 0..2 {
        let found = found(&|text| without(text, "JO_BARRIER();", n, "").expect("two barriers"));
        let is_race = |why: &String| why.contains("race, without a barrier in between") && why.contains("(%");
        assert!(found.iter().any(is_race), "{n}: {found:?}");
    }
    for n in 0..3 {
        let mask = "if (down < end_down && across < end_across) {";
        let found = found(&|text| without(text, mask, n, "{").expect("three masks"));
        assert!(found.iter().any(|why| why.contains("outside of the memory of an operand")), "{n}: {found:?}");
    }
}

#[test]
fn squares_without_padding_have_bank_conflicts() {
    let (_, seen) = run(&|text| text.replace("line * 33", "line * 32"));
    let (_, wavefronts, fewest) = seen[0].profile.total(true);
    assert!(wavefronts > 8 * fewest, "{wavefronts} wavefronts, {fewest} would do");
}

#[test]
fn launches_take_squares_where_they_are_worth_it() {
    use super::device_launch::DeviceLaunch;
    use super::square_launch::by_squares;
    let kernel = kernel();
    let taken = |shape: [i64; 2], strides: [i64; 2]| {
        let geometry = geometry(&kernel, shape, strides);
        let operands = Operands { data: &[(0, 0); 4], starts: &[0; 4], floats: &[], integers: &[] };
        let mut launch: DeviceLaunch = operands.launch(&geometry).expect("a launch");
        let points = launch.rows;
        (by_squares(&kernel, &geometry.traversal, &mut launch), launch.rows, points)
    };
    assert_eq!(taken([45, 70], [1, 45]), (true, 2 * 3, 45 * 70));
    // A slice: elements are as far apart along both dimensions, or farther along the other one.
    assert_eq!(taken([45, 70], [140, 2]), (false, 45 * 70, 45 * 70));
    // Too few along one of the dimensions.
    assert_eq!(taken([8, 70], [1, 8]), (false, 8 * 70, 8 * 70));
    assert_eq!(taken([45, 15], [1, 45]), (false, 45 * 15, 45 * 15));
    assert!(!taken([0, 70], [1, 45]).0);
}
