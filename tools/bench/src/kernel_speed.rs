//! How fast kernels of the processor are, beside a copy of as many bytes in the same process.
//!
//! Each group is compiled and launched into memory that was written before, so that what is measured is the kernel alone. The copy is a kernel
//! too, one that reads a float and writes one; it takes turns with the group, and its time for the group's bytes is the roof.

use anyhow::{Result, anyhow};
use jitopt_core::interpreter::IValue;
use jitopt_core::ir::Graph;
use jitopt_core::runtime::backend::Prepared;
use jitopt_core::runtime::backend::Request;
use jitopt_core::runtime::{CpuBackend, Settings};
use jitopt_core::tensor::Tensor;
use jitopt_core::text::{ParseOptions, parse};
use std::time::Instant;

/// A group, and the shapes of its operands.
struct Case {
    name: &'static str,
    section: &'static str,
    shapes: &'static [&'static [i64]],
    /// Dimensions in memory, outermost first, where that is not their order.
    layout: &'static [usize],
    /// Time over copy time that is aimed at.
    goal: f64,
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
const COPY: &str = "graph(%x : Tensor):\n  %r : Tensor = aten::neg(%x)\n  return (%r)\n";

const CASES: &[Case] = &[
    case("add+relu NCHW 8x256x56x56", ADD_RELU, &[&[8, 256, 56, 56], &[8, 256, 56, 56]], 0.8),
    Case {
        layout: &[0, 2, 3, 1],
        ..case("add+relu NHWC 8x256x56x56", ADD_RELU, &[&[8, 256, 56, 56], &[8, 256, 56, 56]], 0.8)
    },
    case("add+relu 64x1024", ADD_RELU, &[&[64, 1024], &[64, 1024]], 0.85),
    case("bias+gelu(tanh) 512x4096", BIAS_GELU, &[&[512, 4096], &[4096]], 1.6),
    case("swish 4M", SWISH, &[&[1 << 22]], 1.2),
    case("swish 64K", SWISH, &[&[1 << 16]], 3.0),
    case("lstm B64 H512", LSTM, &[&[64, 512], &[64, 2048], &[64, 2048], &[2048], &[2048]], 2.8),
    case("lstm B64 H1024", LSTM, &[&[64, 1024], &[64, 4096], &[64, 4096], &[4096], &[4096]], 1.4),
    case("lstm B512 H1024", LSTM, &[&[512, 1024], &[512, 4096], &[512, 4096], &[4096], &[4096]], 1.25),
];

const fn case(name: &'static str, section: &'static str, shapes: &'static [&'static [i64]], goal: f64) -> Case {
    Case { name, section, shapes, layout: &[], goal }
}

/// A tensor of small numbers, its dimensions in memory in an order.
fn tensor(shape: &[i64], layout: &[usize]) -> IValue {
    let straight: Vec<usize> = (0..shape.len()).collect();
    let layout = if layout.is_empty() { &straight[..] } else { layout };
    let memory: Vec<i64> = layout.iter().map(|&dim| shape[dim]).collect();
    let n: i64 = shape.iter().product();
    let numbers: Vec<f32> = (0..n).map(|i| ((i * 7919) % 2003) as f32 / 500.0 - 2.0).collect();
    let mut places = vec![0; shape.len()];
    layout.iter().enumerate().for_each(|(at, &dim)| places[dim] = at);
    IValue::Tensor(Tensor::from_elements(numbers, &memory).permute(&places))
}

fn section(text: &str) -> Result<Graph> {
    Ok(parse(text.as_bytes(), ParseOptions::default()).map_err(|_| anyhow!("a group is not read:\n{text}"))?.graph)
}

/// Seconds of a launch: so many in a row that the clock does not matter.
fn timed(prepared: &mut Prepared, times: usize) -> Result<f64> {
    let begin = Instant::now();
    for _ in 0..times {
        prepared.launch().map_err(|why| anyhow!(why))?;
    }
    Ok(begin.elapsed().as_secs_f64() / times as f64)
}

fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// Measures all groups whose names hold a text, and gives a table.
pub fn measure(wanted: &str, threads: usize, rounds: usize) -> Result<String> {
    let settings = Settings { cc: std::env::var("CC").ok(), threads: Some(threads), ..Settings::default() };
    let backend = CpuBackend::new(settings);
    let copy = section(COPY)?;
    let mut text = String::from(
        "| group | bytes | us | GB/s | copy, GB/s | time over copy | min–max | goal | compiled in, ms |\n| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n",
    );
    for case in CASES.iter().filter(|case| case.name.contains(wanted)) {
        let graph = section(case.section)?;
        let operands: Vec<IValue> = case.shapes.iter().map(|shape| tensor(shape, case.layout)).collect();
        backend.compiler().map_err(|why| anyhow!(why))?;
        let begin = Instant::now();
        let prepare = |graph: &Graph, operands: &[IValue]| {
            backend
                .prepared(Request { section: graph, name: "a group", operands, release: (2, 15) })
                .map_err(|why| anyhow!("{}: {why}", case.name))
        };
        let mut group = prepare(&graph, &operands)?;
        let compiling = begin.elapsed().as_secs_f64() * 1e3;
        let bytes = group.bytes();
        let mut roof = prepare(&copy, &[tensor(&[bytes as i64 / 8], &[])])?;
        let times = (20_000_000 / bytes.max(1)).clamp(1, 2000);
        let (mut ours, mut copies, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        // The first round only touches memory.
        for round in 0..=rounds {
            let (a, b) = (timed(&mut group, times)?, timed(&mut roof, times)?);
            if round > 0 {
                ours.push(a);
                copies.push(b);
                ratios.push(a / b);
            }
        }
        let rate = |time: f64| bytes as f64 / time / 1e9;
        let ratio = median(&mut ratios);
        let (ours, copies) = (median(&mut ours), median(&mut copies));
        text += &format!(
            "| {} | {bytes} | {:.1} | {:.1} | {:.1} | {ratio:.2} | {:.2}–{:.2} | {} | {compiling:.0} |\n",
            case.name,
            ours * 1e6,
            rate(ours),
            rate(copies),
            ratios[0],
            ratios[ratios.len() - 1],
            case.goal
        );
    }
    Ok(format!("{text}\nMedians of {rounds} interleaved rounds, {threads} thread(s).\n"))
}
