//! Forks on other threads: what they share, and what ends a run.

use super::{CpuBackend, Settings};
use crate::interpreter::{Environment, IValue, Machine, Stop};
use crate::ir::Graph;
use crate::tensor::{DType, Precision, Tensor};
use crate::text::{ParseOptions, parse};

fn read(text: &str) -> Graph {
    parse(text.as_bytes(), ParseOptions::default()).unwrap_or_else(|why| panic!("{why:?}")).graph
}

fn threads() -> CpuBackend {
    CpuBackend::new(Settings { threads: Some(3), always_threads: Some(3), ..Settings::default() })
}

fn run(graph: &Graph, inputs: &[IValue], backend: Option<&CpuBackend>) -> (Result<Vec<IValue>, Stop>, Environment) {
    let env = Environment::default();
    let machine = Machine::new(graph, &env);
    let mut machine = match backend {
        Some(backend) => machine.backed_by(backend),
        None => machine,
    };
    let ran = machine.run(inputs.to_vec());
    drop(machine);
    (ran, env)
}

/// The exceptions of forks, in their order, and the one that ended the run.
fn raised(text: &str, n: i64, backend: Option<&CpuBackend>) -> (Vec<String>, Option<String>) {
    let (ran, env) = run(&read(text), &[IValue::Int(n)], backend);
    let held = env.held.borrow().iter().map(|exception| exception.message.clone()).collect();
    (held, ran.err().map(|stop| stop.to_string()))
}

/// `%f` raises where `n` is 0, `%g` always, after a fork of its own that raises.
const RAISING: &str = "graph(%n : int):
  %f : Future[int] = prim::fork_0(%n)
  %g : Future[int] = prim::fork_1(%n)
  %h : Future[int] = prim::fork_3(%n)
  %b : int = aten::wait(%f)
  %a : int = aten::wait(%g)
  return (%a)
with prim::fork_0 = graph(%n : int):
  %one : int = prim::Constant[value=1]()
  %m : int = aten::floordiv(%one, %n)
  return (%m)
with prim::fork_1 = graph(%n : int):
  %z : int = prim::Constant[value=0]()
  %f : Future[int] = prim::fork_2(%n)
  %m : int = aten::remainder(%n, %z)
  return (%m)
with prim::fork_2 = graph(%n : int):
  %text : str = prim::Constant[value=\"inside\"]()
  %class : str = prim::Constant[value=\"builtins.ValueError\"]()
   = prim::RaiseException(%text, %class)
  %m : int = aten::neg(%n)
  return (%m)
with prim::fork_3 = graph(%n : int):
  %one : int = prim::Constant[value=1]()
  %m : int = aten::floordiv(%one, %n)
  return (%m)
";

#[test]
fn exceptions_come_in_the_order_of_forks_and_waits() {
    let backend = threads();
    for n in [0, 1, 0, 2] {
        let (held, ended) = raised(RAISING, n, Some(&backend));
        assert_eq!((held.clone(), ended), raised(RAISING, n, None));
        assert_eq!(held.iter().position(|message| message == "inside"), Some(usize::from(n == 0)), "{held:?}");
    }
    assert_eq!(backend.counts().forked, 4 * 4);
}

#[test]
fn operands_are_shared_and_copied_when_they_are_written() {
    let text = "graph(%x : Tensor):
  %one : int = prim::Constant[value=1]()
  %f : Future[Tensor] = prim::fork_0(%x)
  %g : Future[Tensor] = prim::fork_1(%x)
  %w : Tensor = aten::add_(%x, %one, %one)
  %a : Tensor = aten::wait(%f)
  %b : Tensor = aten::wait(%g)
  return (%a, %b)
with prim::fork_0 = graph(%x : Tensor):
  %n : Tensor = aten::neg(%x)
  return (%n)
with prim::fork_1 = graph(%x : Tensor):
  %zero : int = prim::Constant[value=0]()
  %v : Tensor = aten::select(%x, %zero, %zero)
  return (%v)
";
    let (graph, backend) = (read(text), threads());
    let x = Tensor::of(&[1.0, 2.0], DType::Float, &[2], Precision::Typed);
    let (ran, _) = run(&graph, &[IValue::Tensor(x.clone())], Some(&backend));
    let results = ran.expect("it runs");
    let tensors: Vec<&Tensor> = results.iter().filter_map(IValue::tensor).collect();
    assert_eq!(tensors[0].read::<f64>(), [-1.0, -2.0], "as it was when it was forked");
    assert_eq!((tensors[1].read::<f64>(), x.read::<f64>()), (vec![2.0], vec![2.0, 3.0]), "a view of what is written");
    assert!(tensors[1].shares_storage(&x) && !tensors[0].shares_storage(&x));
    assert_eq!(backend.counts().forked, 2);
}

#[test]
fn bodies_that_are_seen_run_where_they_stand() {
    let body = |line: &str| {
        format!(
            "graph(%x : Tensor):\n  %f : Future[Tensor] = prim::fork_0(%x)\n  %y : Tensor = aten::wait(%f)\n  return (%y)\nwith prim::fork_0 = graph(%x : Tensor):\n  %none : NoneType = prim::Constant()\n  %one : int = prim::Constant[value=1]()\n{line}  return (%y)\n"
        )
    };
    let seen = [
        "  %y : Tensor = aten::add_(%x, %one, %one)\n",
        "  %y : Tensor = aten::rand_like(%x, %none, %none, %none, %none, %none)\n",
        "   = prim::Print(%one)\n  %y : Tensor = aten::neg(%x)\n",
        "  %v : Tensor = aten::view_as(%x, %x)\n  %w : Tensor = aten::neg_(%v)\n  %y : Tensor = aten::neg(%x)\n",
    ];
    let x = IValue::Tensor(Tensor::of(&[1.0, 2.0], DType::Float, &[2], Precision::Typed));
    for line in seen {
        let backend = threads();
        run(&read(&body(line)), std::slice::from_ref(&x), Some(&backend)).0.expect("it runs");
        assert_eq!(backend.counts().forked, 0, "{line}");
    }
    let backend = threads();
    let own = "  %n : Tensor = aten::neg(%x)\n  %y : Tensor = aten::add_(%n, %one, %one)\n";
    run(&read(&body(own)), &[x], Some(&backend)).0.expect("it runs");
    assert_eq!(backend.counts().forked, 1);
}

#[test]
fn a_run_works_after_another_one_failed() {
    let text = "graph(%n : int, %x : Tensor):
  %f : Future[Tensor] = prim::fork_0(%x)
  %one : int = prim::Constant[value=1]()
  %m : int = aten::floordiv(%one, %n)
  %y : Tensor = aten::wait(%f)
  return (%y)
with prim::fork_0 = graph(%x : Tensor):
  %y : Tensor = aten::exp(%x)
  return (%y)
";
    let (graph, backend, env) = (read(text), threads(), Environment::default());
    let x = |value: f64| IValue::Tensor(Tensor::of(&[value], DType::Double, &[1], Precision::Typed));
    let mut machine = Machine::new(&graph, &env).backed_by(&backend);
    for turn in 0..20 {
        let n = i64::from(turn % 3 != 0);
        match machine.run(vec![IValue::Int(n), x(f64::from(turn))]) {
            Ok(results) => assert_eq!(results[0].tensor().expect("a tensor").read::<f64>(), [f64::from(turn).exp()]),
            Err(stop) => assert!(n == 0 && stop.to_string().contains("zero"), "{stop}"),
        }
    }
    assert_eq!(backend.counts().forked, 20);
}
