//! Measures convolutions of floats on one thread, and those of PyTorch.
//!
//! The shapes are those of common models, batch 1. Ours has its weights packed, as a constant
//! weight is, and pads the image in each call; PyTorch's is `torch.nn.functional.conv2d`. Both add
//! a bias and apply `relu`. Rounds of both alternate, and the best one of each counts.

use crate::peer::Peer;
use anyhow::Result;
use jitopt_core::tensor::gemm::{
    Axis, Filters, Function, Image, PanelMemory, SLACK, Sizes, Sliding, Step, Window, pad,
};
use std::path::Path;
use std::time::Instant;

/// Name, channels of image and result, groups, the size of the image, the window, stride, padding.
type Shape = (&'static str, [usize; 2], usize, usize, usize, usize, usize);

const SHAPES: [Shape; 16] = [
    ("resnet first", [3, 64], 1, 224, 7, 2, 3),
    ("resnet 64", [64, 64], 1, 56, 3, 1, 1),
    ("resnet 128 stride 2", [64, 128], 1, 56, 3, 2, 1),
    ("resnet 128", [128, 128], 1, 28, 3, 1, 1),
    ("resnet 256", [256, 256], 1, 14, 3, 1, 1),
    ("resnet 512", [512, 512], 1, 7, 3, 1, 1),
    ("resnet 1x1 64 to 256", [64, 256], 1, 56, 1, 1, 0),
    ("resnet 1x1 256 to 128", [256, 128], 1, 56, 1, 1, 0),
    ("resnet 1x1 1024 to 256", [1024, 256], 1, 14, 1, 1, 0),
    ("resnet 1x1 64 to 128 stride 2", [64, 128], 1, 56, 1, 2, 0),
    ("mobilenet 1x1 16 to 72", [16, 72], 1, 56, 1, 1, 0),
    ("mobilenet 1x1 96 to 40", [96, 40], 1, 14, 1, 1, 0),
    ("mobilenet by channel 16", [16, 16], 16, 112, 3, 2, 1),
    ("mobilenet by channel 240", [240, 240], 240, 14, 5, 1, 2),
    ("convnext by channel 96", [96, 96], 96, 56, 7, 1, 3),
    ("convnext by channel 384", [384, 384], 384, 14, 7, 1, 3),
];

/// The operations of a measurement: a millisecond or two, which a busy machine may leave alone.
const OPERATIONS: usize = 60_000_000;

/// A line has the numbers of a shape and the number of repetitions.
const DRIVER: &str = "
import sys, time, torch
torch.set_num_threads(1)
print(torch.__version__, flush=True)
known = None
for line in sys.stdin:
    key = line.rsplit(None, 1)[0]
    inputs, outputs, groups, size, window, stride, padding, times = (int(x) for x in line.split())
    if known is None or known[0] != key:
        weight = torch.ones(outputs, inputs // groups, window, window)
        known = key, torch.ones(1, inputs, size, size), weight, torch.ones(outputs)
    _, image, weight, bias = known
    def run():
        return torch.relu_(torch.nn.functional.conv2d(image, weight, bias, stride, padding, 1, groups))
    with torch.inference_mode():
        run()
        start = time.perf_counter()
        for _ in range(times):
            run()
        print(time.perf_counter() - start, flush=True)
";

/// A convolution and its operands.
struct Operands {
    sizes: Sizes,
    image: Vec<f32>,
    padded: Vec<f32>,
    filters: Filters<f32>,
    bias: Vec<f32>,
    result: Vec<f32>,
}

impl Operands {
    fn new(&(_, [inputs, outputs], groups, size, kernel, stride, before): &Shape) -> Operands {
        let output = (size + 2 * before - kernel) / stride + 1;
        let axis = Axis { input: size, output, kernel, stride, dilation: 1, before };
        let window = Window { axes: [Axis::SINGLE, axis, axis] };
        let sizes = Sizes { window, groups, inputs: inputs / groups, outputs: outputs / groups };
        Operands {
            sizes,
            image: vec![1.0; inputs * size * size],
            padded: vec![0.0; inputs * window.padded() + SLACK],
            filters: Filters::of(&vec![1.0; outputs * sizes.depth()], &[], sizes, PanelMemory::Own),
            bias: vec![1.0; outputs],
            result: vec![0.0; sizes.result()],
        }
    }

    /// The number of multiplications and additions.
    fn operations(&self) -> usize {
        2 * self.result.len() * self.sizes.depth()
    }

    fn run(&mut self) {
        let Operands { sizes, image, padded, filters, bias, result } = self;
        let [_, height, width] = sizes.window.axes;
        let own = Image {
            elements: &image[..],
            channel: sizes.window.elements(),
            distances: [height.input * width.input, width.input, 1],
        };
        let each = sizes.window.padded();
        let image = match sizes.is_by_channel() || sizes.window.reads_in_place(own.distances) {
            true => own,
            false => {
                pad(&sizes.window, &own, 0..sizes.groups * sizes.inputs, padded);
                Image { elements: &padded[..], channel: each, ..own }
            }
        };
        let steps = [Step::Rows(&bias[..]), Step::Map(Function::Relu)];
        Sliding::compute_all(*sizes, image, filters, &steps, result);
    }
}

/// Measures all shapes whose names contain a text, and prints a table of milliseconds.
pub fn measure(python: Option<&Path>, shape: &str, rounds: usize) -> Result<String> {
    let mut peer = python.and_then(|python| Peer::start(python, DRIVER, &[]));
    let more = if peer.is_some() {
        " PyTorch, ms | PyTorch over ours |\n|---|---:|---:|---:|---:|"
    } else {
        "\n|---|---:|---:|"
    };
    let mut text = format!("| convolution | jitopt, ms | 10^9 operations/s |{more}\n");
    for shape in SHAPES.iter().filter(|known| known.0.contains(shape)) {
        let mut all = Operands::new(shape);
        let operations = all.operations();
        let times = (OPERATIONS / operations).clamp(1, 1000);
        let (mut ours, mut theirs) = (f64::INFINITY, f64::INFINITY);
        for _ in 0..rounds {
            all.run();
            let start = Instant::now();
            (0..times).for_each(|_| all.run());
            ours = ours.min(start.elapsed().as_secs_f64());
            if let Some(peer) = peer.as_mut() {
                let (_, [inputs, outputs], groups, size, window, stride, padding) = shape;
                let line = format!("{inputs} {outputs} {groups} {size} {window} {stride} {padding} {times}");
                theirs = theirs.min(peer.time(&line)?);
            }
        }
        let each = |seconds: f64| seconds / times as f64 * 1e3;
        text += &format!("| {} | {:.3} | {:.1} |", shape.0, each(ours), operations as f64 / each(ours) / 1e6);
        if peer.is_some() {
            text += &format!(" {:.3} | {:.2} |", each(theirs), theirs / ours);
        }
        text.push('\n');
    }
    let version = peer.map_or_else(String::new, |peer| format!("; PyTorch {}", peer.version));
    Ok(format!("{text}\nBest of {rounds} rounds, alternating, one thread{version}.\n"))
}
