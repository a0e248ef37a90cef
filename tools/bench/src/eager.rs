//! Measures the interpreter against PyTorch's eager mode, one thread each, on whole small models.
//!
//! Both compute the same graph on tensors of the same shapes. PyTorch runs as one process that
//! waits for commands, so that the two run alternately. The interpreter is a reference
//! implementation: correctness comes first, but it must be fast enough to validate whole networks.

use crate::peer::Peer;
use anyhow::{Result, anyhow};
use jitopt_core::interpreter::{Environment, IValue, Machine};
use jitopt_core::tensor::{DType, Precision, Tensor};
use jitopt_core::text::{ParseOptions, parse};
use std::path::Path;
use std::time::Instant;

/// A model: its graph, the shapes of its inputs, and the same in Python.
struct Model {
    name: &'static str,
    graph: &'static str,
    shapes: &'static [&'static [i64]],
    python: &'static str,
}

const MODELS: &[Model] = &[
    Model {
        name: "LSTM cell, batch 64, hidden 512",
        graph:
            "graph(%x : Tensor, %h : Tensor, %c : Tensor, %w_x : Tensor, %w_h : Tensor, %b_x : Tensor, %b_h : Tensor):
  %4 : int = prim::Constant[value=4]()
  %1 : int = prim::Constant[value=1]()
  %tx : Tensor = aten::t(%w_x)
  %mx : Tensor = aten::mm(%x, %tx)
  %th : Tensor = aten::t(%w_h)
  %mh : Tensor = aten::mm(%h, %th)
  %s1 : Tensor = aten::add(%mx, %mh, %1)
  %s2 : Tensor = aten::add(%s1, %b_x, %1)
  %gates : Tensor = aten::add(%s2, %b_h, %1)
  %all : Tensor[] = aten::chunk(%gates, %4, %1)
  %i0 : Tensor, %f0 : Tensor, %g0 : Tensor, %o0 : Tensor = prim::ListUnpack(%all)
  %i : Tensor = aten::sigmoid(%i0)
  %f : Tensor = aten::sigmoid(%f0)
  %g : Tensor = aten::tanh(%g0)
  %o : Tensor = aten::sigmoid(%o0)
  %fc : Tensor = aten::mul(%f, %c)
  %ig : Tensor = aten::mul(%i, %g)
  %cy : Tensor = aten::add(%fc, %ig, %1)
  %tc : Tensor = aten::tanh(%cy)
  %hy : Tensor = aten::mul(%o, %tc)
  return (%hy, %cy)
",
        shapes: &[&[64, 512], &[64, 512], &[64, 512], &[2048, 512], &[2048, 512], &[2048], &[2048]],
        python: "
def model(x, h, c, w_x, w_h, b_x, b_h):
    gates = x.mm(w_x.t()) + h.mm(w_h.t()) + b_x + b_h
    i, f, g, o = gates.chunk(4, 1)
    cy = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * cy.tanh(), cy
",
    },
    Model {
        name: "CNN, 8 images of 3x64x64",
        graph: "graph(%x : Tensor, %w1 : Tensor, %b1 : Tensor, %w2 : Tensor, %b2 : Tensor, %w3 : Tensor, %b3 : Tensor):
  %0 : int = prim::Constant[value=0]()
  %1 : int = prim::Constant[value=1]()
  %2 : int = prim::Constant[value=2]()
  %no : bool = prim::Constant[value=0]()
  %end : int = prim::Constant[value=-1]()
  %ones : int[] = prim::ListConstruct(%1, %1)
  %twos : int[] = prim::ListConstruct(%2, %2)
  %zeros : int[] = prim::ListConstruct(%0, %0)
  %c1 : Tensor = aten::conv2d(%x, %w1, %b1, %ones, %ones, %ones, %1)
  %r1 : Tensor = aten::relu(%c1)
  %p1 : Tensor = aten::max_pool2d(%r1, %twos, %twos, %zeros, %ones, %no)
  %c2 : Tensor = aten::conv2d(%p1, %w2, %b2, %ones, %ones, %ones, %1)
  %r2 : Tensor = aten::relu(%c2)
  %p2 : Tensor = aten::max_pool2d(%r2, %twos, %twos, %zeros, %ones, %no)
  %flat : Tensor = aten::flatten(%p2, %1, %end)
  %t : Tensor = aten::t(%w3)
  %y : Tensor = aten::addmm(%b3, %flat, %t, %1, %1)
  return (%y)
",
        shapes: &[&[8, 3, 64, 64], &[32, 3, 3, 3], &[32], &[64, 32, 3, 3], &[64], &[10, 16384], &[10]],
        python: "
import torch.nn.functional as F
def model(x, w1, b1, w2, b2, w3, b3):
    x = F.max_pool2d(F.relu(F.conv2d(x, w1, b1, padding=1)), 2)
    x = F.max_pool2d(F.relu(F.conv2d(x, w2, b2, padding=1)), 2)
    return F.linear(x.flatten(1), w3, b3)
",
    },
];

/// The Python driver: one model, timed once per input line.
const DRIVER: &str = "
import sys, time, torch
torch.set_num_threads(1)
torch.manual_seed(0)
exec(sys.argv[1])
inputs = [torch.randn(shape) for shape in eval(sys.argv[2])]
with torch.no_grad():
    model(*inputs)
    print(torch.__version__, flush=True)
    for _ in sys.stdin:
        start = time.perf_counter()
        model(*inputs)
        print(time.perf_counter() - start, flush=True)
";

/// Measures all models and prints a table.
pub fn measure(python: &Path, runs: usize) -> Result<String> {
    let mut text =
        String::from("| model | interpreter, ms | PyTorch eager, ms | ratio |\n| --- | ---: | ---: | ---: |\n");
    let mut version = None;
    for model in MODELS {
        let parsed = parse(model.graph.as_bytes(), ParseOptions::default())
            .map_err(|_| anyhow!("cannot parse the graph of {}", model.name))?;
        let env = Environment::default();
        let inputs: Vec<IValue> = model.shapes.iter().enumerate().map(|(i, shape)| random(i as u64, shape)).collect();
        let mut machine = Machine::new(&parsed.graph, &env);
        let mut peer = Peer::start(python, DRIVER, &[model.python, &format!("{:?}", model.shapes)]);
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        machine.run(inputs.clone()).map_err(|stop| anyhow!("{}: {stop}", model.name))?;
        for _ in 0..runs {
            let start = Instant::now();
            machine.run(inputs.clone()).map_err(|stop| anyhow!("{}: {stop}", model.name))?;
            ours.push(start.elapsed().as_secs_f64());
            theirs.extend(peer.as_mut().map(|peer| peer.time("")).transpose()?);
        }
        let ours = middle(ours).unwrap_or_default();
        let (other, ratio) = match middle(theirs) {
            Some(theirs) => (format!("{:.2}", theirs * 1e3), format!("{:.2}", ours / theirs)),
            None => (String::new(), String::new()),
        };
        text += &format!("| {} | {:.2} | {other} | {ratio} |\n", model.name, ours * 1e3);
        version = version.or(peer.map(|peer| peer.version.clone()));
    }
    Ok(match version {
        Some(version) => format!("{text}\nMedians of {runs} interleaved runs, one thread; PyTorch {version}.\n"),
        None => format!("{text}\nMedians of {runs} runs, one thread; `{}` has no PyTorch.\n", python.display()),
    })
}

fn middle(mut times: Vec<f64>) -> Option<f64> {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied()
}

fn random(seed: u64, shape: &[i64]) -> IValue {
    let mut draws = jitopt_core::interpreter::random::Philox::new(seed, 0, 0);
    let n: i64 = shape.iter().product();
    let elements: Vec<f64> = (0..n).map(|_| draws.normal() * 0.05).collect();
    IValue::Tensor(Tensor::of(&elements, DType::Float, shape, Precision::Typed))
}
