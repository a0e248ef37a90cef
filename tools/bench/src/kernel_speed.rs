//! Measures the speed of CPU kernels against a copy of as many bytes in the same process.
//!
//! Each group is compiled and launched into memory that was written before, so that the measurement
//! covers the kernel alone. The copy is a kernel too, which reads a float and writes one; it
//! alternates with the group, and its time for the group's bytes is the roofline. There are two
//! copies: one with non-temporal stores where kernels would use them, and a plain one, as in the
//! goals, for which processors read each cache line that they write. If Python has PyTorch, the
//! same computation runs there on the same tensors in the same rounds, eager and compiled, and in
//! other programs where `--others` names them; see `tools/pytorch/bench_kernels.py`.
//!
//! Rows and goals were fixed before anything was measured here.

use crate::peer::{Peer, SCRIPTS, Way};
use crate::roofline::Roofline;
use anyhow::{Result, anyhow};
use jitopt_core::interpreter::IValue;
use jitopt_core::ir::Graph;
use jitopt_core::runtime::Prepared;
use jitopt_core::runtime::backend::Request;
use jitopt_core::runtime::{CpuBackend, Settings};
use jitopt_core::tensor::{DType, Precision, Tensor};
use jitopt_core::text::{ParseOptions, parse};
use std::path::Path;
use std::time::{Duration, Instant};

/// The program that times a group in Python.
const DRIVER: &str = "import sys; sys.path.insert(0, sys.argv.pop(1)); import bench_kernels; bench_kernels.main()";

/// A group, the same in Python, and the operands of both.
struct Case {
    name: &'static str,
    section: &'static str,
    python: &'static str,
    shapes: &'static [&'static [i64]],
    /// Element types; float if empty.
    dtypes: &'static [DType],
    /// The order of dimensions in memory, outermost first, if it is not the logical order.
    layout: &'static [usize],
    /// The target ratio of the time to that of a plain copy; 0 if there is none.
    goal: f64,
    /// A kernel for the gradients of the operands, and which operands it takes, in order. The
    /// gradient of the result is the last operand of the case, which the group does not take.
    gradient: Option<(&'static str, &'static [usize])>,
}

const ADD_RELU: &str = "graph(%a : Tensor, %b : Tensor):\n  %one : int = prim::Constant[value=1]()\n  %s : Tensor = aten::add(%a, %b, %one)\n  %r : Tensor = aten::relu(%s)\n  return (%r)\n";
const BIAS_GELU: &str = "graph(%x : Tensor, %b : Tensor):\n  %one : int = prim::Constant[value=1]()\n  %s : Tensor = aten::add(%x, %b, %one)\n  %how : str = prim::Constant[value=\"tanh\"]()\n  %r : Tensor = aten::gelu(%s, %how)\n  return (%r)\n";
const SWISH: &str =
    "graph(%x : Tensor):\n  %s : Tensor = aten::sigmoid(%x)\n  %r : Tensor = aten::mul(%x, %s)\n  return (%r)\n";
/// Two products and two biases for four gates, and the cell before.
const LSTM: &str = "graph(%cx : Tensor, %p : Tensor, %q : Tensor, %a : Tensor, %b : Tensor):
  %one : int = prim::Constant[value=1]()
  %pi : Tensor, %pf : Tensor, %pg : Tensor, %po : Tensor = prim::ConstantChunk[chunks=4, dim=1](%p)
  %qi : Tensor, %qf : Tensor, %qg : Tensor, %qo : Tensor = prim::ConstantChunk[chunks=4, dim=1](%q)
  %ai : Tensor, %af : Tensor, %ag : Tensor, %ao : Tensor = prim::ConstantChunk[chunks=4, dim=0](%a)
  %bi : Tensor, %bf : Tensor, %bg : Tensor, %bo : Tensor = prim::ConstantChunk[chunks=4, dim=0](%b)
  %i1 : Tensor = aten::add(%pi, %qi, %one)
  %i2 : Tensor = aten::add(%i1, %ai, %one)
  %i3 : Tensor = aten::add(%i2, %bi, %one)
  %f1 : Tensor = aten::add(%pf, %qf, %one)
  %f2 : Tensor = aten::add(%f1, %af, %one)
  %f3 : Tensor = aten::add(%f2, %bf, %one)
  %g1 : Tensor = aten::add(%pg, %qg, %one)
  %g2 : Tensor = aten::add(%g1, %ag, %one)
  %g3 : Tensor = aten::add(%g2, %bg, %one)
  %o1 : Tensor = aten::add(%po, %qo, %one)
  %o2 : Tensor = aten::add(%o1, %ao, %one)
  %o3 : Tensor = aten::add(%o2, %bo, %one)
  %i : Tensor = aten::sigmoid(%i3)
  %f : Tensor = aten::sigmoid(%f3)
  %g : Tensor = aten::tanh(%g3)
  %o : Tensor = aten::sigmoid(%o3)
  %keep : Tensor = aten::mul(%f, %cx)
  %new : Tensor = aten::mul(%i, %g)
  %cy : Tensor = aten::add(%keep, %new, %one)
  %t : Tensor = aten::tanh(%cy)
  %hy : Tensor = aten::mul(%o, %t)
  return (%hy, %cy)
";
const SOFTMAX_LAST: &str = "graph(%x : Tensor):\n  %d : int = prim::Constant[value=-1]()\n  %no : None = prim::Constant()\n  %r : Tensor = aten::softmax(%x, %d, %no)\n  return (%r)\n";
const SOFTMAX_1: &str = "graph(%x : Tensor):\n  %d : int = prim::Constant[value=1]()\n  %no : None = prim::Constant()\n  %r : Tensor = aten::softmax(%x, %d, %no)\n  return (%r)\n";
const CUMSUM_LAST: &str = "graph(%x : Tensor):\n  %d : int = prim::Constant[value=-1]()\n  %no : None = prim::Constant()\n  %r : Tensor = aten::cumsum(%x, %d, %no)\n  return (%r)\n";
const CUMSUM_0: &str = "graph(%x : Tensor):\n  %d : int = prim::Constant[value=0]()\n  %no : None = prim::Constant()\n  %r : Tensor = aten::cumsum(%x, %d, %no)\n  return (%r)\n";
const LAYER_NORM: &str = "graph(%x : Tensor, %w : Tensor, %b : Tensor):
  %s : int[] = prim::Constant[value=[1024]]()
  %e : float = prim::Constant[value=1e-05]()
  %no : bool = prim::Constant[value=0]()
  %r : Tensor = aten::layer_norm(%x, %s, %w, %b, %e, %no)
  return (%r)
";
/// Statistics of channels, as in a batch norm.
const STATISTICS: &str = "graph(%x : Tensor):
  %d : int[] = prim::Constant[value=[0, 2, 3]]()
  %no : bool = prim::Constant[value=0]()
  %none : None = prim::Constant()
  %m : Tensor = aten::mean(%x, %d, %no, %none)
  %v : Tensor = aten::var(%x, %d, %no, %no)
  return (%m, %v)
";
/// A batch norm in training mode, without its running statistics.
const BATCH_NORM: &str = "graph(%x : Tensor, %w : Tensor, %b : Tensor):
  %d : int[] = prim::Constant[value=[0, 2, 3]]()
  %no : bool = prim::Constant[value=0]()
  %yes : bool = prim::Constant[value=1]()
  %none : None = prim::Constant()
  %one : int = prim::Constant[value=1]()
  %e : float = prim::Constant[value=1e-05]()
  %m : Tensor = aten::mean(%x, %d, %yes, %none)
  %v : Tensor = aten::var(%x, %d, %no, %yes)
  %c : Tensor = aten::sub(%x, %m, %one)
  %s : Tensor = aten::add(%v, %e, %one)
  %r : Tensor = aten::rsqrt(%s)
  %n : Tensor = aten::mul(%c, %r)
  %k : Tensor = aten::mul(%n, %w)
  %y : Tensor = aten::add(%k, %b, %one)
  return (%y)
";
const SUM_ROWS: &str = "graph(%x : Tensor):
  %d : int[] = prim::Constant[value=[0]]()
  %no : bool = prim::Constant[value=0]()
  %none : None = prim::Constant()
  %r : Tensor = aten::sum(%x, %d, %no, %none)
  return (%r)
";
/// The gradients of an LSTM cell's four gates before their activations, and of its biases.
const LSTM_BACKWARD: &str =
    "graph(%gh : Tensor, %gc : Tensor, %i : Tensor, %f : Tensor, %g : Tensor, %o : Tensor, %cx : Tensor, %t : Tensor):
  %one : int = prim::Constant[value=1]()
  %d : int[] = prim::Constant[value=[0]]()
  %no : bool = prim::Constant[value=0]()
  %none : None = prim::Constant()
  %go : Tensor = aten::mul(%gh, %t)
  %a1 : Tensor = aten::mul(%gh, %o)
  %t2 : Tensor = aten::mul(%t, %t)
  %t3 : Tensor = aten::rsub(%t2, %one, %one)
  %a2 : Tensor = aten::mul(%a1, %t3)
  %a : Tensor = aten::add(%a2, %gc, %one)
  %gi : Tensor = aten::mul(%a, %g)
  %gg : Tensor = aten::mul(%a, %i)
  %gf : Tensor = aten::mul(%a, %cx)
  %gcx : Tensor = aten::mul(%a, %f)
  %i1 : Tensor = aten::rsub(%i, %one, %one)
  %i2 : Tensor = aten::mul(%i1, %i)
  %di : Tensor = aten::mul(%gi, %i2)
  %f1 : Tensor = aten::rsub(%f, %one, %one)
  %f2 : Tensor = aten::mul(%f1, %f)
  %df : Tensor = aten::mul(%gf, %f2)
  %g1 : Tensor = aten::mul(%g, %g)
  %g2 : Tensor = aten::rsub(%g1, %one, %one)
  %dg : Tensor = aten::mul(%gg, %g2)
  %o1 : Tensor = aten::rsub(%o, %one, %one)
  %o2 : Tensor = aten::mul(%o1, %o)
  %do : Tensor = aten::mul(%go, %o2)
  %bi : Tensor = aten::sum(%di, %d, %no, %none)
  %bf : Tensor = aten::sum(%df, %d, %no, %none)
  %bg : Tensor = aten::sum(%dg, %d, %no, %none)
  %bo : Tensor = aten::sum(%do, %d, %no, %none)
  return (%gcx, %di, %df, %dg, %do, %bi, %bf, %bg, %bo)
";
const SWISH_BACKWARD: &str = "graph(%x : Tensor, %g : Tensor):
  %one : int = prim::Constant[value=1]()
  %s : Tensor = aten::sigmoid(%x)
  %t : Tensor = aten::rsub(%s, %one, %one)
  %u : Tensor = aten::mul(%x, %t)
  %v : Tensor = aten::add(%u, %one, %one)
  %w : Tensor = aten::mul(%s, %v)
  %r : Tensor = aten::mul(%g, %w)
  return (%r)
";
const MIXED: &str = "graph(%x : Tensor, %h : Tensor, %m : Tensor):
  %p : Tensor = aten::mul(%x, %h)
  %r : Tensor = aten::where(%m, %p, %x)
  return (%r)
";
/// The intersection over union of boxes.
const IOU: &str = "graph(%ax0 : Tensor, %ay0 : Tensor, %ax1 : Tensor, %ay1 : Tensor, %bx0 : Tensor, %by0 : Tensor, %bx1 : Tensor, %by1 : Tensor):
  %one : int = prim::Constant[value=1]()
  %zero : int = prim::Constant[value=0]()
  %none : None = prim::Constant()
  %x1 : Tensor = aten::min(%ax1, %bx1)
  %x0 : Tensor = aten::max(%ax0, %bx0)
  %xs : Tensor = aten::sub(%x1, %x0, %one)
  %w : Tensor = aten::clamp(%xs, %zero, %none)
  %y1 : Tensor = aten::min(%ay1, %by1)
  %y0 : Tensor = aten::max(%ay0, %by0)
  %ys : Tensor = aten::sub(%y1, %y0, %one)
  %h : Tensor = aten::clamp(%ys, %zero, %none)
  %both : Tensor = aten::mul(%w, %h)
  %aw : Tensor = aten::sub(%ax1, %ax0, %one)
  %ah : Tensor = aten::sub(%ay1, %ay0, %one)
  %a : Tensor = aten::mul(%aw, %ah)
  %bw : Tensor = aten::sub(%bx1, %bx0, %one)
  %bh : Tensor = aten::sub(%by1, %by0, %one)
  %b : Tensor = aten::mul(%bw, %bh)
  %ab : Tensor = aten::add(%a, %b, %one)
  %all : Tensor = aten::sub(%ab, %both, %one)
  %r : Tensor = aten::div(%both, %all)
  return (%r)
";
/// The values that `@training` keeps for its gradient.
const SWISH_KEPT: &str =
    "graph(%x : Tensor):\n  %s : Tensor = aten::sigmoid(%x)\n  %r : Tensor = aten::mul(%x, %s)\n  return (%r, %s)\n";
/// The gradient computed from these: from `s`, `g` and `x`.
const SWISH_GRADIENT: &str = "graph(%s : Tensor, %g : Tensor, %x : Tensor):
  %one : int = prim::Constant[value=1]()
  %a : Tensor = aten::mul(%g, %s)
  %b : Tensor = aten::mul(%g, %x)
  %n : Tensor = aten::neg(%s)
  %o : Tensor = aten::add(%n, %one, %one)
  %p : Tensor = aten::mul(%o, %s)
  %q : Tensor = aten::mul(%p, %b)
  %r : Tensor = aten::add(%a, %q, %one)
  return (%r)
";
const COPY: &str = "graph(%x : Tensor):\n  %r : Tensor = aten::neg(%x)\n  return (%r)\n";

/// The same group as IR and as Python.
type Text = (&'static str, &'static str);

const TWICE: Text = (
    "graph(%x : Tensor):\n  %one : int = prim::Constant[value=1]()\n  %two : int = prim::Constant[value=2]()\n  %s : Tensor = aten::mul(%x, %two)\n  %r : Tensor = aten::add(%s, %one, %one)\n  return (%r)\n",
    "def model(x): return 2 * x + 1",
);
const ADD_RELUS: Text = (ADD_RELU, "def model(a, b): return torch.relu(a + b)");
const GELU: Text = (BIAS_GELU, "def model(x, b): return torch.nn.functional.gelu(x + b, approximate='tanh')");
const SWISHES: Text = (SWISH, "def model(x): return x * x.sigmoid()");
const SWISHES_BACKWARD: Text =
    (SWISH_BACKWARD, "def model(x, g):\n  s = x.sigmoid()\n  return g * (s * (x * (1 - s) + 1))");
const MIXES: Text = (MIXED, "def model(x, h, m): return torch.where(m, x * h, x)");
const CELL: Text = (
    LSTM,
    "def model(c, p, q, a, b):\n  i, f, g, o = (p + q + a + b).chunk(4, 1)\n  cy = f.sigmoid() * c + i.sigmoid() * g.tanh()\n  return o.sigmoid() * cy.tanh(), cy",
);
const CELL_BACKWARD: Text = (
    LSTM_BACKWARD,
    "def model(gh, gc, i, f, g, o, cx, t):\n  a = gh * o * (1 - t * t) + gc\n  di, df, dg, do = a * g * ((1 - i) * i), a * cx * ((1 - f) * f), a * i * (1 - g * g), gh * t * ((1 - o) * o)\n  return a * f, di, df, dg, do, di.sum(0), df.sum(0), dg.sum(0), do.sum(0)",
);
const LAST: Text = (SOFTMAX_LAST, "def model(x): return x.softmax(-1)");
const FIRST: Text = (SOFTMAX_1, "def model(x): return x.softmax(1)");
const RUNNING: Text = (CUMSUM_LAST, "def model(x): return x.cumsum(-1)");
const RUNNING_DOWN: Text = (CUMSUM_0, "def model(x): return x.cumsum(0)");
const NORM: Text = (LAYER_NORM, "def model(x, w, b): return torch.nn.functional.layer_norm(x, (1024,), w, b)");
const CHANNELS: Text = (STATISTICS, "def model(x): return x.mean((0, 2, 3)), x.var((0, 2, 3), unbiased=False)");
const LEARNING: Text = (
    BATCH_NORM,
    "def model(x, w, b):\n  m, v = x.mean((0, 2, 3), keepdim=True), x.var((0, 2, 3), unbiased=False, keepdim=True)\n  return (x - m) * (v + 1e-5).rsqrt() * w + b",
);
const DOWN: Text = (SUM_ROWS, "def model(x): return x.sum(0)");
const BOXES: Text = (
    IOU,
    "def model(ax0, ay0, ax1, ay1, bx0, by0, bx1, by1):\n  w = (torch.min(ax1, bx1) - torch.max(ax0, bx0)).clamp(min=0)\n  h = (torch.min(ay1, by1) - torch.max(ay0, by0)).clamp(min=0)\n  both = w * h\n  return both / ((ax1 - ax0) * (ay1 - ay0) + (bx1 - bx0) * (by1 - by0) - both)",
);

const IMAGES: &[i64] = &[8, 256, 56, 56];
const FEATURES: &[i64] = &[16, 256, 28, 28];
const CHANNEL: &[i64] = &[256, 1, 1];
const NHWC: &[usize] = &[0, 2, 3, 1];
const ROWS: &[i64] = &[4096, 1024];
const LSTM_64: &[i64] = &[64, 1024];
const LSTM_512: &[i64] = &[512, 1024];
const A: &[i64] = &[1000, 1];
const B: &[i64] = &[1000];

const CASES: &[Case] = &[
    case("2x+1 4M", TWICE, &[&[1 << 22]], 0.0),
    case("add+relu NCHW 8x256x56x56", ADD_RELUS, &[IMAGES, IMAGES], 0.8),
    Case { layout: NHWC, ..case("add+relu NHWC 8x256x56x56", ADD_RELUS, &[IMAGES, IMAGES], 0.8) },
    case("add+relu 64x1024", ADD_RELUS, &[&[64, 1024], &[64, 1024]], 0.85),
    case("bias+gelu(tanh) 512x4096", GELU, &[&[512, 4096], &[4096]], 1.6),
    case("bias+gelu(tanh) 64x1024", GELU, &[&[64, 1024], &[1024]], 4.0),
    case("swish 4M", SWISHES, &[&[1 << 22]], 1.2),
    case("swish 64K", SWISHES, &[&[1 << 16]], 3.0),
    case("swish backward 4M", SWISHES_BACKWARD, &[&[1 << 22], &[1 << 22]], 1.2),
    Case {
        dtypes: &[DType::Float, DType::Half, DType::Bool],
        ..case("f32*f16 + where(bool) 4M", MIXES, &[&[1 << 22], &[1 << 22], &[1 << 22]], 1.3)
    },
    case("lstm B64 H512", CELL, &[&[64, 512], &[64, 2048], &[64, 2048], &[2048], &[2048]], 2.8),
    case("lstm B64 H1024", CELL, &[&[64, 1024], &[64, 4096], &[64, 4096], &[4096], &[4096]], 1.4),
    case("lstm B512 H1024", CELL, &[&[512, 1024], &[512, 4096], &[512, 4096], &[4096], &[4096]], 1.25),
    case("lstm backward + bias sums B64 H1024", CELL_BACKWARD, &[LSTM_64; 8], 1.1),
    case("lstm backward + bias sums B512 H1024", CELL_BACKWARD, &[LSTM_512; 8], 1.05),
    case("layer_norm 4096x1024", NORM, &[ROWS, &[1024], &[1024]], 1.15),
    case("layer_norm 64x1024", NORM, &[&[64, 1024], &[1024], &[1024]], 2.3),
    case("softmax(-1) 4096x1024", LAST, &[ROWS], 1.5),
    case("softmax(1) 64x64x1024", FIRST, &[&[64, 64, 1024]], 1.5),
    case("bn stats NCHW 16x256x28x28", CHANNELS, &[FEATURES], 0.95),
    Case { layout: NHWC, ..case("bn stats NHWC 16x256x28x28", CHANNELS, &[FEATURES], 0.95) },
    case("batch_norm NCHW 16x256x28x28", LEARNING, &[FEATURES, CHANNEL, CHANNEL], 1.8),
    Case { layout: NHWC, ..case("batch_norm NHWC 16x256x28x28", LEARNING, &[FEATURES, CHANNEL, CHANNEL], 1.8) },
    case("sum(0) 4096x1024", DOWN, &[ROWS], 0.0),
    case("cumsum 4M", RUNNING, &[&[1 << 22]], 1.0),
    case("cumsum(-1) 4096x1024", RUNNING, &[ROWS], 1.0),
    case("cumsum(0) 4096x1024", RUNNING_DOWN, &[ROWS], 1.0),
    case("iou 1000x1000", BOXES, &[A, A, A, A, B, B, B, B], 1.6),
    Case {
        gradient: Some((SWISH_GRADIENT, &[0, 1, 0])),
        ..case("swish and gradient 4M", (SWISH_KEPT, SWISHES.1), &[&[1 << 22], &[1 << 22]], 0.0)
    },
    Case {
        // The result of `@training` for boxes of these shapes, with its order of parameters.
        gradient: Some((include_str!("../graphs/iou_backward_kernel.ir"), &[2, 6, 8, 7, 5, 4, 3, 1, 0])),
        ..case("iou and gradient 1000x1000", BOXES, &[A, A, A, A, B, B, B, B, &[1000, 1000]], 0.0)
    },
    // So few elements that call overhead dominates.
    case("add+relu 8", ADD_RELUS, &[&[8], &[8]], 0.0),
    case("lstm B1 H8", CELL, &[&[1, 8], &[1, 32], &[1, 32], &[32], &[32]], 0.0),
    case("iou 2x2", BOXES, &[&[2, 1], &[2, 1], &[2, 1], &[2, 1], &[2], &[2], &[2], &[2]], 0.0),
];

const fn case(name: &'static str, text: Text, shapes: &'static [&'static [i64]], goal: f64) -> Case {
    Case { name, section: text.0, python: text.1, shapes, dtypes: &[], layout: &[], goal, gradient: None }
}

impl Case {
    fn dtype(&self, operand: usize) -> DType {
        self.dtypes.get(operand).copied().unwrap_or(DType::Float)
    }

    fn operands(&self) -> Vec<IValue> {
        let operand = |(i, shape): (usize, &&[i64])| tensor(shape, self.dtype(i), self.layout);
        self.shapes.iter().enumerate().map(operand).collect()
    }

    /// The same in PyTorch, or in another program.
    fn peer(&self, python: &Path, threads: usize, other: Option<Way>) -> Option<Peer> {
        let names: Vec<&str> = (0..self.shapes.len()).map(|i| torch_name(self.dtype(i))).collect();
        let (shapes, names) = (format!("{:?}", self.shapes), format!("{names:?}"));
        let (layout, threads) = (format!("{:?}", self.layout), threads.to_string());
        let gradient = if self.gradient.is_some() { "gradient" } else { "" };
        let way = other.map_or("pytorch", Way::name);
        let arguments = [SCRIPTS, self.python, &shapes, &names, &layout, &threads, way, gradient];
        Peer::start(python, DRIVER, &arguments)
    }
}

fn torch_name(dtype: DType) -> &'static str {
    match dtype {
        DType::Half => "float16",
        DType::Bool => "bool",
        _ => "float32",
    }
}

/// A tensor of small numbers, with the given order of dimensions in memory.
fn tensor(shape: &[i64], dtype: DType, layout: &[usize]) -> IValue {
    let straight: Vec<usize> = (0..shape.len()).collect();
    let layout = if layout.len() == shape.len() { layout } else { &straight[..] };
    let memory: Vec<i64> = layout.iter().map(|&dim| shape[dim]).collect();
    let n: i64 = shape.iter().product();
    let number = |i: i64| ((i * 7919) % 2003) as f64 / 500.0 - 2.0;
    let number = |i| if dtype == DType::Bool { f64::from(u8::from(number(i) > 0.0)) } else { number(i) };
    let numbers: Vec<f64> = (0..n).map(number).collect();
    let mut places = vec![0; shape.len()];
    layout.iter().enumerate().for_each(|(at, &dim)| places[dim] = at);
    IValue::Tensor(Tensor::of(&numbers, dtype, &memory, Precision::Typed).in_lines().permute(&places))
}

fn section(text: &str) -> Result<Graph> {
    Ok(parse(text.as_bytes(), ParseOptions::default()).map_err(|_| anyhow!("cannot parse a group:\n{text}"))?.graph)
}

/// Warm-up time before each measurement, as in `bench_kernels.py`: each contender finds the caches
/// as it left them and its own threads awake, while the threads of the others, which spin for a
/// while after their work, are asleep.
const WARMING: Duration = Duration::from_millis(20);

/// Seconds of consecutive launches, enough of them that the clock's resolution does not matter.
fn timed(prepared: &mut [Prepared], times: usize) -> Result<f64> {
    let mut launch = || prepared.iter_mut().try_for_each(|one| one.launch().map(drop).map_err(|why| anyhow!(why)));
    let begin = Instant::now();
    while begin.elapsed() < WARMING {
        launch()?;
    }
    let begin = Instant::now();
    for _ in 0..times {
        launch()?;
    }
    Ok(begin.elapsed().as_secs_f64() / times as f64)
}

fn sum(kernels: &[Prepared], figure: impl Fn(&Prepared) -> usize) -> usize {
    kernels.iter().map(figure).sum()
}

/// The times of alternating contenders.
#[derive(Default)]
struct Times {
    group: Vec<f64>,
    copy: Vec<f64>,
    plain: Vec<f64>,
    eager: Vec<f64>,
    compiled: Vec<f64>,
    /// Those of each of the others; none where one cannot run the group.
    others: Vec<Vec<f64>>,
}

/// What a group is compared with.
pub struct Others<'a> {
    /// A Python with PyTorch.
    pub python: Option<&'a Path>,
    /// Other programs that it has.
    pub ways: &'a [Way],
}

/// The processes that run a group elsewhere.
struct Peers {
    pytorch: Option<Peer>,
    others: Vec<Option<Peer>>,
}

impl Peers {
    fn start(case: &Case, among: &Others<'_>, threads: usize) -> Peers {
        let start = |way: Option<Way>| among.python.and_then(|python| case.peer(python, threads, way));
        Peers { pytorch: start(None), others: among.ways.iter().map(|&way| start(Some(way))).collect() }
    }
}

/// The median of the ratios of rounds, with its 95 % confidence interval, by ranks (Conover,
/// Practical Nonparametric Statistics, 3.2).
fn ratio(above: &[f64], below: &[f64]) -> Option<[f64; 3]> {
    let mut all: Vec<f64> = above.iter().zip(below).map(|(a, b)| a / b).collect();
    all.sort_by(f64::total_cmp);
    let n = all.len() as f64;
    let reach = 1.96 * n.sqrt() / 2.0;
    let at = |rank: f64| all.get((rank.max(0.0) as usize).min(all.len().wrapping_sub(1))).copied();
    Some([at(n / 2.0)?, at((n / 2.0 - reach).floor())?, at((n / 2.0 + reach).ceil())?])
}

fn shown(ratio: Option<[f64; 3]>) -> String {
    ratio.map_or(String::new(), |[median, low, high]| format!("{median:.2} ({low:.2}–{high:.2})"))
}

fn median(times: &[f64]) -> f64 {
    let mut times = times.to_vec();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// A chain of multiplications and additions for each of sixteen sums: the peak arithmetic rate of
/// the processor.
fn chains() -> String {
    let (mut text, mut sums) =
        (String::from("graph(%x : Tensor):\n  %one : int = prim::Constant[value=1]()\n"), Vec::new());
    for chain in 0..16 {
        let mut value = "%x".to_owned();
        for step in 0..4 {
            let name = format!("%v{chain}_{step}");
            text += &format!("  %c{chain}_{step} : float = prim::Constant[value=0.{}]()\n", 11 + chain * 4 + step);
            text += &format!("  {name}m : Tensor = aten::mul({value}, %c{chain}_{step})\n");
            text += &format!("  {name} : Tensor = aten::add({name}m, %x, %one)\n");
            value = name;
        }
        sums.push(value);
    }
    let mut total = sums[0].clone();
    for (i, sum) in sums.iter().enumerate().skip(1) {
        text += &format!("  %t{i} : Tensor = aten::add({total}, {sum}, %one)\n");
        total = format!("%t{i}");
    }
    text + &format!("  return ({total})\n")
}

/// A table, and the positions of its rows below the rooflines.
pub struct Measured {
    /// Markdown.
    pub table: String,
    /// The plot.
    pub roofline: Roofline,
}

/// The backends of a measurement: one with the given settings, and one without streaming stores.
struct Backends {
    chosen: CpuBackend,
    plain: CpuBackend,
}

/// The measurements of a case.
struct CaseTimes {
    bytes: usize,
    operations: usize,
    /// Milliseconds that building its kernels took.
    building: f64,
    times: Times,
}

fn prepare(backend: &CpuBackend, name: &str, graph: &Graph, operands: &[IValue]) -> Result<Prepared> {
    backend
        .prepared(Request { section: graph, name: "a group", operands, release: (2, 15) })
        .map_err(|why| anyhow!("{name}: {why}"))
}

/// Measures all groups whose names contain a text.
pub fn measure(among: &Others<'_>, wanted: &str, settings: Settings, rounds: usize) -> Result<Measured> {
    let threads = settings.threads.unwrap_or(1);
    let plain = CpuBackend::new(Settings { stream: Some(false), ..settings.clone() });
    let backends = Backends { chosen: CpuBackend::new(settings), plain };
    let names: String = among.ways.iter().map(|way| format!(" {} over it |", way.name())).collect();
    let mut text = format!(
        "| group | bytes | us | GB/s | copy, GB/s | time over copy (95 %) | over a plain copy (95 %) | goal | PyTorch eager over it | compiled over it |{names} built in, ms |\n| --- | {}\n",
        "---: |".repeat(10 + among.ways.len())
    );
    let mut version = None;
    let mut roofline = Roofline::default();
    for case in CASES.iter().filter(|case| case.name.contains(wanted)) {
        backends.chosen.compiler().map_err(|why| anyhow!(why))?;
        let mut peers = Peers::start(case, among, threads);
        let measured = measure_case(case, &backends, &mut peers, among.ways, rounds)?;
        version = version.or(peers.pytorch.map(|peer| peer.version.clone()));
        let (bytes, times) = (measured.bytes, &measured.times);
        roofline.add(case.name, measured.operations, bytes, median(&times.group), bytes as f64 / median(&times.copy));
        text += &measured.row(case);
    }
    roofline.most = peak_rate(&backends.chosen)? * threads as f64;
    let torch = version.map_or(String::new(), |version| format!("; PyTorch {version}"));
    let table = format!("{text}\nMedians of {rounds} interleaved rounds, {threads} thread(s){torch}.\n");
    Ok(Measured { table, roofline })
}

/// Runs a case, copies of as many bytes, PyTorch and others alternately.
fn measure_case(case: &Case, backends: &Backends, peers: &mut Peers, ways: &[Way], rounds: usize) -> Result<CaseTimes> {
    let (graph, copy) = (section(case.section)?, section(COPY)?);
    let operands = case.operands();
    let begin = Instant::now();
    let own = operands.len() - usize::from(case.gradient.is_some());
    let mut group = vec![prepare(&backends.chosen, case.name, &graph, &operands[..own])?];
    if let Some((text, order)) = case.gradient {
        let operands: Vec<IValue> = order.iter().map(|&i| operands[i].clone()).collect();
        group.push(prepare(&backends.chosen, case.name, &section(text)?, &operands)?);
    }
    let building = begin.elapsed().as_secs_f64() * 1e3;
    let (bytes, operations) = (sum(&group, Prepared::bytes), sum(&group, Prepared::operations));
    let copied = [tensor(&[bytes as i64 / 8], DType::Float, &[])];
    let mut roof = [prepare(&backends.chosen, case.name, &copy, &copied)?];
    let mut plain = [prepare(&backends.plain, case.name, &copy, &copied)?];
    let repeat = (20_000_000 / bytes.max(1)).clamp(1, 2000);
    let mut times = Times { others: vec![Vec::new(); ways.len()], ..Times::default() };
    // The first round only compiles and touches memory.
    for round in 0..=rounds {
        let (a, b, c) = (timed(&mut group, repeat)?, timed(&mut roof, repeat)?, timed(&mut plain, repeat)?);
        let theirs = |peer: &mut Option<Peer>, how: &str| {
            peer.as_mut().map(|peer| peer.time(&format!("{how} {repeat}"))).transpose()
        };
        let (eager, compiled) = (theirs(&mut peers.pytorch, "eager")?, theirs(&mut peers.pytorch, "compiled")?);
        let others: Vec<Option<f64>> =
            peers.others.iter_mut().zip(ways).map(|(peer, way)| theirs(peer, way.name())).collect::<Result<_>>()?;
        if round > 0 {
            times.group.push(a);
            times.copy.push(b);
            times.plain.push(c);
            times.eager.extend(eager);
            times.compiled.extend(compiled);
            times.others.iter_mut().zip(others).for_each(|(all, time)| all.extend(time));
        }
    }
    Ok(CaseTimes { bytes, operations, building, times })
}

impl CaseTimes {
    /// The row of the table.
    fn row(&self, case: &Case) -> String {
        let CaseTimes { bytes, building, times, .. } = self;
        let rate = |time: f64| *bytes as f64 / time / 1e9;
        let (ours, copies) = (median(&times.group), median(&times.copy));
        let other = |all: &Vec<f64>| format!(" {} |", shown(ratio(all, &times.group)));
        let others: String = times.others.iter().map(other).collect();
        format!(
            "| {} | {bytes} | {:.2} | {:.1} | {:.1} | {} | {} | {} | {} | {} |{others} {building:.0} |\n",
            case.name,
            ours * 1e6,
            rate(ours),
            rate(copies),
            shown(ratio(&times.group, &times.copy)),
            shown(ratio(&times.group, &times.plain)),
            if case.goal > 0.0 { case.goal.to_string() } else { String::new() },
            shown(ratio(&times.eager, &times.group)),
            shown(ratio(&times.compiled, &times.group)),
        )
    }
}

/// Operations per second of a thread, for chains of operations without memory accesses.
fn peak_rate(backend: &CpuBackend) -> Result<f64> {
    let operands = [tensor(&[4096], DType::Float, &[])];
    let mut computing = [prepare(backend, "chains", &section(&chains())?, &operands)?];
    let times: Vec<f64> = (0..9).map(|_| timed(&mut computing, 200)).collect::<Result<_>>()?;
    Ok(computing[0].operations() as f64 / times.iter().copied().fold(f64::INFINITY, f64::min))
}
