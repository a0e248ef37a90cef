//! Measures matrix products of floats on one thread, and those of PyTorch and of OpenBLAS, which
//! NumPy has.
//!
//! The shapes are squares and those of common models. All compute the same product alternately; the
//! best of some rounds counts, which a busy machine disturbs least. The operations of a product are
//! twice its multiplications.

use crate::peer::Peer;
use anyhow::Result;
use jitopt_core::tensor::gemm::{Matrix, Packed, PanelMemory, Product, Right};
use std::path::Path;
use std::time::Instant;

/// Some products: name, batches, rows, depth, columns, whether the columns of the right factor are
/// contiguous, as those of a layer's weights are.
type Shape = (&'static str, usize, usize, usize, usize, bool);

const SHAPES: [Shape; 23] = [
    ("512", 1, 512, 512, 512, false),
    ("1024", 1, 1024, 1024, 1024, false),
    ("2048", 1, 2048, 2048, 2048, false),
    ("bert query", 1, 64, 256, 256, true),
    ("bert up", 1, 64, 256, 1024, true),
    ("bert down", 1, 64, 1024, 256, true),
    ("bert scores", 4, 64, 64, 64, true),
    ("bert context", 4, 64, 64, 64, false),
    ("vit query", 1, 197, 384, 384, true),
    ("vit up", 1, 197, 384, 1536, true),
    ("vit down", 1, 197, 1536, 384, true),
    ("vit scores", 6, 197, 64, 197, true),
    ("vit context", 6, 197, 197, 64, false),
    ("gpt2 query", 1, 64, 256, 768, false),
    ("gpt2 head", 1, 64, 256, 1000, true),
    ("lstm 512", 1, 4, 512, 2048, true),
    ("lstm 128", 1, 4, 128, 512, true),
    ("one row", 1, 1, 256, 1000, true),
    ("resnet 64", 1, 64, 576, 3136, false),
    ("resnet 128", 1, 128, 1152, 784, false),
    ("resnet 256", 1, 256, 2304, 196, false),
    ("resnet 512", 1, 512, 4608, 49, false),
    ("mobilenet 1x1", 1, 240, 40, 196, false),
];

/// The operations of a measurement: a few milliseconds.
const OPERATIONS: usize = 300_000_000;

/// NumPy and PyTorch: a line names the library, the shape and the number of repetitions.
const DRIVER: &str = "
import sys, time, numpy, torch
torch.set_num_threads(1)
print(torch.__version__, flush=True)
known = {}
for line in sys.stdin:
    library, b, m, k, n, turned, times = line.split()
    b, m, k, n, turned, times = (int(x) for x in (b, m, k, n, turned, times))
    key = (library, b, m, k, n, turned)
    if key not in known:
        known.clear()
        left = numpy.ones((b, m, k), numpy.float32)
        right = numpy.ones((b, n, k) if turned else (b, k, n), numpy.float32)
        right = right.transpose(0, 2, 1) if turned else right
        out = numpy.empty((b, m, n), numpy.float32)
        all = [left, right, out] if b > 1 else [left[0], right[0], out[0]]
        known[key] = all if library == 'numpy' else [torch.from_numpy(x) for x in all]
    left, right, out = known[key]
    product = numpy.matmul if library == 'numpy' else torch.matmul
    with torch.inference_mode():
        product(left, right, out=out)
        start = time.perf_counter()
        for _ in range(times):
            product(left, right, out=out)
        print(time.perf_counter() - start, flush=True)
";

/// The operands of some products of a shape.
struct Operands {
    shape: Shape,
    left: Vec<f32>,
    right: Vec<f32>,
    packed: Vec<Packed<f32>>,
    result: Vec<f32>,
}

impl Operands {
    fn new(shape: Shape) -> Operands {
        let (_, batches, m, k, n, _) = shape;
        let right = vec![1.0; batches * k * n];
        let packed =
            (0..batches).map(|i| Packed::of(&right[i * k * n..][..k * n], right_of(shape), PanelMemory::Own)).collect();
        Operands { shape, left: vec![1.0; batches * m * k], packed, right, result: vec![0.0; batches * m * n] }
    }

    /// Calls with the operands of each batch.
    fn each(&mut self, mut work: impl FnMut(&[f32], &[f32], &Packed<f32>, &mut [f32])) {
        let (_, _, m, k, n, _) = self.shape;
        for (i, result) in self.result.chunks_exact_mut(m * n).enumerate() {
            work(&self.left[i * m * k..][..m * k], &self.right[i * k * n..][..k * n], &self.packed[i], result);
        }
    }
}

/// The right factor of a batch.
fn right_of((_, _, _, k, n, turned): Shape) -> Matrix {
    if turned { Matrix::in_rows(n, k).transposed() } else { Matrix::in_rows(k, n) }
}

/// A way to compute the products of a shape.
type Way = (&'static str, fn(&mut Operands));

fn plain(all: &mut Operands) {
    let (left, right) = (Matrix::in_rows(all.shape.2, all.shape.3), right_of(all.shape));
    all.each(|a, b, _, c| Product::new(1.0, (a, left), Right::Matrix(b, right), 0.0, c).compute());
}

fn packed(all: &mut Operands) {
    let left = Matrix::in_rows(all.shape.2, all.shape.3);
    all.each(|a, _, b, c| Product::new(1.0, (a, left), Right::Packed(b), 0.0, c).compute());
}

const WAYS: [Way; 2] = [("jitopt", plain), ("packed once", packed)];

/// Measures all shapes whose names contain a text, and prints a table of 10^9 operations a second.
pub fn measure(python: Option<&Path>, shape: &str, rounds: usize) -> Result<String> {
    let mut peer = python.and_then(|python| Peer::start(python, DRIVER, &[]));
    let mut names: Vec<&str> = WAYS.iter().map(|way| way.0).collect();
    if peer.is_some() {
        names.extend(["OpenBLAS", "PyTorch"]);
    }
    let mut text = format!("| product | {} |\n|---|{}\n", names.join(" | "), "---:|".repeat(names.len()));
    for shape in SHAPES.into_iter().filter(|known| known.0.contains(shape)) {
        let (name, batches, m, k, n, _) = shape;
        let operations = 2 * batches * m * k * n;
        let times = (OPERATIONS / operations).max(1);
        let best = best_of(shape, times, rounds, peer.as_mut())?;
        let rate = |seconds: &f64| format!("{:.1}", (operations * times) as f64 / seconds / 1e9);
        let rates: Vec<String> = best.iter().map(rate).collect();
        let batches = if batches == 1 { String::new() } else { format!("{batches} times ") };
        text += &format!("| {name}, {batches}{m}x{k}x{n} | {} |\n", rates.join(" | "));
    }
    let version = peer.map_or_else(String::new, |peer| format!("; PyTorch {}", peer.version));
    Ok(format!("{text}\n10^9 operations a second, best of {rounds} alternating rounds, one thread{version}.\n"))
}

/// The least seconds that each way took.
fn best_of(shape: Shape, times: usize, rounds: usize, mut peer: Option<&mut Peer>) -> Result<Vec<f64>> {
    let mut all = Operands::new(shape);
    let mut best: Vec<f64> = Vec::new();
    for _ in 0..rounds {
        let mut seconds: Vec<f64> = WAYS.iter().map(|way| timed(|| way.1(&mut all), times)).collect();
        if let Some(peer) = peer.as_deref_mut() {
            let (_, b, m, k, n, turned) = shape;
            for library in ["numpy", "torch"] {
                seconds.push(peer.time(&format!("{library} {b} {m} {k} {n} {} {times}", u8::from(turned)))?);
            }
        }
        best = seconds.iter().enumerate().map(|(i, &s)| best.get(i).map_or(s, |&known| s.min(known))).collect();
    }
    Ok(best)
}

/// The seconds that some repetitions take, after one.
fn timed(mut work: impl FnMut(), times: usize) -> f64 {
    work();
    let start = Instant::now();
    (0..times).for_each(|_| work());
    start.elapsed().as_secs_f64()
}
