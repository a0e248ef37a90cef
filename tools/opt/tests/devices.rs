//! `--backend=cuda` without a GPU: the calls of CUDA are answered by `tools/cuda/fake_driver.c`,
//! which the system's C compiler compiles, as it does the kernels.
//!
//! The fake does its work late, counts what is called and what is left, and fails at chosen calls.
//! The tool runs as a program, since a process opens a driver once.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// A pointwise group, softmax of its rows, and sums over rows and columns.
const GRAPH: &str = "graph(%x : Float(*, *), %y : Float(*, *)):
  %a : Tensor = prim::FusionGroup_0(%x, %y)
  %b : Tensor = prim::FusionGroup_1(%a)
  %c : Tensor = prim::FusionGroup_2(%b)
  return (%b, %c)
with prim::FusionGroup_0 = graph(%x : Float(*, *), %y : Float(*, *)):
  %s : Tensor = aten::sigmoid(%x)
  %m : Tensor = aten::mul(%s, %y)
  return (%m)
with prim::FusionGroup_1 = graph(%x : Float(*, *)):
  %none : None = prim::Constant()
  %dim : int = prim::Constant[value=1]()
  %m : Tensor = aten::softmax(%x, %dim, %none)
  return (%m)
with prim::FusionGroup_2 = graph(%x : Float(*, *)):
  %none : None = prim::Constant()
  %no : bool = prim::Constant[value=0]()
  %outer : int[] = prim::Constant[value=[0]]()
  %t : Tensor = aten::tanh(%x)
  %m : Tensor = aten::sum(%t, %outer, %no, %none)
  return (%m)
";

/// A group that runs a thousand times.
const LOOP: &str = "graph(%x : Float(*, *)):
  %n : int = prim::Constant[value=1000]()
  %yes : bool = prim::Constant[value=1]()
  %r : Tensor = prim::Loop(%n, %yes, %x)
    block0(%i : int, %c : Tensor):
      %d : Tensor = prim::FusionGroup_0(%c)
      -> (%yes, %d)
  return (%r)
with prim::FusionGroup_0 = graph(%x : Float(*, *)):
  %s : Tensor = aten::sigmoid(%x)
  %m : Tensor = aten::mul(%s, %x)
  return (%m)
";

/// A recurrent layer: two products, and a group of both with sums over rows and over columns, which
/// clears memory and has a second launch: five pieces of work in each of two hundred iterations.
const STEPS: &str = "graph(%x : Float(*, *), %h : Float(*, *), %w : Float(*, *), %u : Float(*, *)):
  %n : int = prim::Constant[value=200]()
  %yes : bool = prim::Constant[value=1]()
  %r : Tensor, %t : Tensor = prim::Loop(%n, %yes, %h, %h)
    block0(%i : int, %c : Tensor, %d : Tensor):
      %a : Tensor = library::Product_0(%x, %w)
      %b : Tensor = library::Product_1(%c, %u)
      %e : Tensor, %f : Tensor, %g : Tensor = prim::FusionGroup_2(%a, %b)
      -> (%yes, %e, %f)
  return (%r, %t)
with library::Product_0 = graph(%x : Float(*, *), %w : Float(*, *)):
  %m : Tensor = aten::mm(%x, %w)
  return (%m)
with library::Product_1 = graph(%x : Float(*, *), %w : Float(*, *)):
  %m : Tensor = aten::mm(%x, %w)
  return (%m)
with prim::FusionGroup_2 = graph(%a : Float(*, *), %b : Float(*, *)):
  %one : int = prim::Constant[value=1]()
  %none : None = prim::Constant()
  %no : bool = prim::Constant[value=0]()
  %outer : int[] = prim::Constant[value=[0]]()
  %inner : int[] = prim::Constant[value=[1]]()
  %s : Tensor = aten::add(%a, %b, %one)
  %t : Tensor = aten::tanh(%s)
  %m : Tensor = aten::sum(%t, %outer, %no, %none)
  %k : Tensor = aten::sum(%t, %inner, %no, %none)
  return (%t, %m, %k)
";

/// A loop whose last ten iterations have another group.
const BRANCH: &str = "graph(%x : Float(*, *)):
  %n : int = prim::Constant[value=400]()
  %last : int = prim::Constant[value=390]()
  %yes : bool = prim::Constant[value=1]()
  %r : Tensor = prim::Loop(%n, %yes, %x)
    block0(%i : int, %c : Tensor):
      %b : bool = aten::lt(%i, %last)
      %d : Tensor = prim::If(%b)
        block0():
          %e : Tensor = prim::FusionGroup_0(%c)
          -> (%e)
        block1():
          %f : Tensor = prim::FusionGroup_1(%c)
          -> (%f)
      -> (%yes, %d)
  return (%r)
with prim::FusionGroup_0 = graph(%x : Float(*, *)):
  %s : Tensor = aten::sigmoid(%x)
  %m : Tensor = aten::mul(%s, %x)
  return (%m)
with prim::FusionGroup_1 = graph(%x : Float(*, *)):
  %one : int = prim::Constant[value=1]()
  %s : Tensor = aten::tanh(%x)
  %m : Tensor = aten::add(%s, %x, %one)
  return (%m)
";

/// A group with a result that has no elements where another has some.
const HALVES: &str = "graph(%x : Half(*, *)):
  %t : Tensor, %s : Tensor = prim::FusionGroup_0(%x)
  return (%t, %s)
with prim::FusionGroup_0 = graph(%x : Half(*, *)):
  %none : None = prim::Constant()
  %no : bool = prim::Constant[value=0]()
  %outer : int[] = prim::Constant[value=[0]]()
  %t : Tensor = aten::tanh(%x)
  %s : Tensor = aten::sum(%t, %outer, %no, %none)
  return (%t, %s)
";

/// A write to an input.
const IN_PLACE: &str = "graph(%x : Float(*, *), %y : Float(*, *)):
  %one : int = prim::Constant[value=1]()
  %s : Tensor = aten::sigmoid(%x)
  %m : Tensor = aten::mul(%s, %y)
  %a : Tensor = aten::add_(%x, %m, %one)
  return (%a)
";

/// A layer, a product of batches whose left factor is a transposed view, and a sum with another
/// product, between groups; a product without rows, and one without terms, whose elements are 0.
const PRODUCTS: &str = "graph(%x : Float(*, *), %w : Float(*, *), %b : Float(*), %q : Float(*, *, *), %k : Float(*, *, *), %s : Double(*, *), %z : Float(*, *)):
  %one : int = prim::Constant[value=1]()
  %two : int = prim::Constant[value=2]()
  %last : int = prim::Constant[value=-1]()
  %half : float = prim::Constant[value=0.5]()
  %l : Tensor = aten::linear(%x, %w, %b)
  %r : Tensor = aten::tanh(%l)
  %e : Tensor = aten::sigmoid(%r)
  %p : Tensor = aten::transpose(%q, %one, %two)
  %m : Tensor = aten::matmul(%p, %k)
  %t : Tensor = aten::t(%s)
  %a : Tensor = aten::addmm(%s, %t, %s, %half, %two)
  %n : Tensor = aten::mm(%z, %x)
  %d : Tensor = aten::t(%z)
  %o : Tensor = aten::mm(%d, %z)
  return (%e, %m, %a, %n, %o)
";

/// A C compiler that keeps what it has made: most runs compile the same text.
const KEEPING: &str = "kept=$(dirname \"$0\")/unit-$(cksum < unit.c | tr ' ' '-').so
[ ! -f \"$kept\" ] || exec cp \"$kept\" unit.so
cc \"$@\" && cp unit.so \"$kept.$$\" && mv \"$kept.$$\" \"$kept\"
";

/// Folders of this test program.
fn folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("devices-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("there is a folder");
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository");
        let emulation = format!("-DEMULATION=\"{}\"", root.join("src/runtime/emulation.c").display());
        let libraries = [("libcuda.so", "-DDRIVER"), ("libnvrtc.so", "-DNVRTC"), ("libcublas.so", "-DCUBLAS")];
        for (name, flag) in libraries.into_iter().chain([("other.so", "-DDRIVER")]) {
            let mut cc = Command::new("cc");
            cc.args(["-std=gnu11", "-O1", "-Wall", "-Werror", "-shared", "-fPIC", flag]);
            cc.arg(&emulation);
            cc.arg(format!("-Wl,-soname,{name}")).arg("-o").arg(folder.join(name));
            let built = cc.arg(root.join("tools/cuda/fake_driver.c")).status().expect("there is a C compiler");
            assert!(built.success(), "{name} is not built");
        }
        std::fs::write(folder.join("graph.ir"), GRAPH).expect("it is written");
        std::fs::write(folder.join("halves.ir"), HALVES).expect("it is written");
        std::fs::write(folder.join("cc.sh"), KEEPING).expect("it is written");
        std::fs::write(folder.join("loop.ir"), LOOP).expect("it is written");
        std::fs::write(folder.join("steps.ir"), STEPS).expect("it is written");
        std::fs::write(folder.join("branch.ir"), BRANCH).expect("it is written");
        std::fs::write(folder.join("in_place.ir"), IN_PLACE).expect("it is written");
        for dtype in ["Float", "Half", "BFloat16"] {
            let text = PRODUCTS.replace("Float", dtype);
            std::fs::write(folder.join(format!("products-{dtype}.ir")), text).expect("it is written");
        }
        folder
    })
}

/// The outcome of a run of the tool.
struct Ran {
    code: i32,
    out: String,
    err: String,
    /// `called cuMemAlloc_v2`, `left modules`: how many.
    report: BTreeMap<String, u64>,
}

impl Ran {
    fn count(&self, what: &str) -> u64 {
        self.report.get(what).copied().unwrap_or(0)
    }

    fn left(&self) -> Vec<(&String, &u64)> {
        self.report.iter().filter(|(what, n)| what.starts_with("left") && **n > 0).collect()
    }
}

/// Runs the tool with the fake driver; `arguments` are words without spaces.
fn jitopt(arguments: &str, variables: &[(&str, &str)]) -> Ran {
    static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    let n = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let report = folder().join(format!("report-{n}"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_jitopt"));
    command.args(arguments.split_whitespace()).current_dir(folder());
    command.env("JITOPT_CUDA_DRIVER", folder().join("libcuda.so"));
    command.env("JITOPT_NVRTC", folder().join("libnvrtc.so"));
    command.env("JITOPT_CUBLAS", folder().join("libcublas.so"));
    command.env("FAKE_CUDA_CC", format!("sh '{}'", folder().join("cc.sh").display()));
    command.env("FAKE_CUDA_REPORT", &report).envs(variables.iter().copied());
    let ran = command.output().expect("it runs");
    let told = std::fs::read_to_string(&report).unwrap_or_default();
    let counts = told.lines().filter_map(|line| {
        let (what, n) = line.rsplit_once(' ')?;
        Some((what.to_owned(), n.parse().ok()?))
    });
    Ran {
        code: ran.status.code().unwrap_or(-1),
        out: String::from_utf8_lossy(&ran.stdout).into_owned(),
        err: String::from_utf8_lossy(&ran.stderr).into_owned(),
        report: counts.collect(),
    }
}

const RUN: &str = "run graph.ir --seed 3 --shape %x=5,1000 --shape %y=5,1000 --backend=cuda --no-cache --stats";

#[test]
fn results_are_those_of_the_interpreter() {
    for seed in ["0", "1", "2"] {
        let ran = jitopt("validate graph.ir --backend=cuda --no-cache", &[("FAKE_CUDA_SEED", seed)]);
        assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
        assert!(ran.count("called cuLaunchKernel") > 0, "{}", ran.err);
        assert_eq!(ran.left(), [], "{}", ran.err);
    }
}

#[test]
fn empty_results_are_fetched() {
    let run = "validate halves.ir --shape %x=0,7 --backend=cuda --no-cache";
    let ran = jitopt(run, &[]);
    assert_eq!((ran.code, ran.left()), (0, vec![]), "{}{}", ran.out, ran.err);
    assert!(ran.count("called cuLaunchKernel") > 0, "{}", ran.err);
}

#[test]
fn tensors_stay_on_the_device_between_groups() {
    let ran = jitopt(RUN, &[]);
    assert_eq!((ran.code, ran.left()), (0, vec![]), "{}{}", ran.out, ran.err);
    let counted = |what: &str| ran.err.lines().find(|line| line.ends_with(what)).map(|line| line.trim().to_owned());
    assert_eq!(counted(" kernels-launched").as_deref(), Some("3 kernels-launched"), "{}", ran.err);
    // The two inputs, and the two results.
    assert_eq!(counted("copies-to-device").as_deref(), Some("2 copies-to-device"), "{}", ran.err);
    assert_eq!(counted("copies-from-device").as_deref(), Some("2 copies-from-device"), "{}", ran.err);
}

#[test]
fn shapes_of_one_graph_compile_once() {
    let mut compiled = 0;
    let cache = folder().join("kept");
    let cache = cache.to_str().expect("a name");
    for n in 0..20 {
        let sizes = format!("{},{}", 2 + n % 5, 300 + 17 * n);
        let run = format!("run graph.ir --seed 1 --shape %x={sizes} --shape %y={sizes} --backend=cuda");
        let ran = jitopt(&run, &[("JITOPT_CACHE", cache)]);
        assert_eq!((ran.code, ran.left()), (0, vec![]), "{}", ran.err);
        compiled += ran.count("called nvrtcCompileProgram");
    }
    assert_eq!(compiled, 1);
}

/// `PRODUCTS` as calls of cuBLAS.
const MULTIPLY: &str = "--seed 3 --shape %x=7,5 --shape %w=6,5 --shape %b=6 --shape %q=3,4,2 --shape %k=3,4,5 \
    --shape %s=4,4 --shape %z=0,7 --backend=cuda --no-cache --passes=convert-to-library-calls,fuse";

#[test]
fn products_are_those_of_the_interpreter() {
    for (seed, dtype) in [("0", "Float"), ("1", "Half"), ("2", "BFloat16")] {
        let validate = format!("validate products-{dtype}.ir {MULTIPLY}");
        let ran = jitopt(&validate, &[("FAKE_CUDA_SEED", seed)]);
        assert_eq!(ran.code, 0, "{dtype}: {}{}", ran.out, ran.err);
        assert!(ran.count("called cublasGemmStridedBatchedEx") >= 4, "{:?}", ran.report);
        assert_eq!(ran.left(), [], "{}", ran.err);
    }
    let ran = jitopt(&format!("run products-Float.ir --stats {MULTIPLY}"), &[]);
    assert!(ran.err.contains(" 4 library-products") && ran.err.contains(" 0 groups-fallen-back"), "{}", ran.err);
    // A graph of products alone needs no kernels.
    let ran = jitopt(&format!("run products-Float.ir {MULTIPLY}").replace(",fuse", ""), &[]);
    assert!(ran.code == 0 && !ran.err.contains("no kernel was launched"), "{}", ran.err);
    // Without cuBLAS the interpreter multiplies.
    let ran = jitopt(&format!("run products-Float.ir --stats {MULTIPLY}"), &[("JITOPT_CUBLAS", "/nowhere")]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(
        ran.err.contains("cuBLAS: JITOPT_CUBLAS names /nowhere") && ran.err.contains(" 0 library-products"),
        "{}",
        ran.err
    );
}

#[test]
fn each_call_may_fail() {
    each_call_of_a_run_may_fail(RUN, 60);
    each_call_of_a_run_may_fail(&format!("run products-Float.ir --stats {MULTIPLY}"), 75);
}

/// Runs with a failing call each: the first one of each function, one in between and the last one.
fn failing_runs(run: &str) -> Vec<(String, Ran)> {
    let whole = jitopt(run, &[]);
    let calls = whole.report.iter().filter_map(|(what, &n)| Some((what.strip_prefix("called ")?, n)));
    let calls = calls.flat_map(|(name, n)| [(name, 1), (name, n.div_ceil(2)), (name, n)]);
    let failed = calls.map(|(name, n)| {
        let fail = format!("{name}:{n}");
        let ran = jitopt(run, &[("FAKE_CUDA_FAIL", &fail)]);
        assert!([0, 1].contains(&ran.code), "{fail}: {}{}", ran.code, ran.err);
        assert_eq!(ran.left(), [], "{fail}: {}", ran.err);
        (fail, ran)
    });
    failed.collect()
}

fn each_call_of_a_run_may_fail(run: &str, least: usize) {
    let all = failing_runs(run);
    assert!(all.len() > least, "{}", all.len());
    for (fail, ran) in all {
        // It ends with a message, or the interpreter runs a group with a warning, or a second try
        // succeeds, or it is about what was given back at the end.
        let falls_back = !ran.err.contains(" 0 groups-fallen-back");
        let messages: &[&str] = match ran.code {
            1 => &["error: --backend=cuda: "],
            _ => &[" runs unfused: ", "the interpreter computes the product "],
        };
        let has_message = messages.iter().any(|message| ran.err.contains(message));
        assert_eq!(ran.code == 1 || falls_back, has_message, "{fail}: {}", ran.err);
    }
}

/// Softmax and sums, and the same by another pipeline.
fn bench(file: &str, runs: u32) -> String {
    let sizes = "--shape %x=5,1000 --shape %y=5,1000";
    format!("bench {file} --passes=dce --against=dce --seed 3 {sizes} --backend=cuda --no-cache --runs {runs}")
}

#[test]
fn a_bench_has_the_times_of_the_device() {
    let ran = jitopt(&bench("graph.ir", 3), &[]);
    assert_eq!((ran.code, ran.left()), (0, vec![]), "{}{}", ran.out, ran.err);
    assert!(ran.out.contains("on a fake GPU, number 0, by its own clock; a copy within its memory: "), "{}", ran.out);
    // 5 x 1000 floats are read twice and written once, then read and written, then read, and 1000
    // are written: 124 kB. The clock counts threads, so times are equal in each run.
    let rows: Vec<&str> = ran.out.lines().filter(|line| line.contains(" | 3 | 124.000 | ")).collect();
    assert_eq!(rows.len(), 2, "{}", ran.out);
    for row in rows {
        let time = row.split('|').nth(2).expect("a time").trim();
        let (median, range) = time.split_once(" (").expect("a range");
        assert!(median != "0.0000" && range == format!("{median}–{median})"), "{row}");
    }
}

#[test]
fn inputs_of_a_bench_stay_on_the_device() {
    let copies = |file: &str, runs: u32| {
        let ran = jitopt(&bench(file, runs), &[]);
        assert_eq!((ran.code, ran.left()), (0, vec![]), "{}{}", ran.out, ran.err);
        let told = ran.out.contains("passes: copied before each run, as it may write to them: %x, %y\n");
        (ran.count("called cuMemcpyHtoDAsync_v2"), told)
    };
    assert_eq!(copies("graph.ir", 5), copies("graph.ir", 2));
    assert!(!copies("graph.ir", 2).1);
    // Two inputs of two graphs, in three more rounds. Without kernels no run has the clock.
    let ((few, told), (many, _)) = (copies("in_place.ir", 2), copies("in_place.ir", 5));
    assert!(told && many == few + 3 * 4, "{few} {many}");
}

#[test]
fn each_call_of_a_bench_may_fail() {
    let all = failing_runs(&bench("graph.ir", 2));
    assert!(all.len() > 65, "{}", all.len());
    for (fail, ran) in all {
        // A measured graph has all kernels, or a warning names the reason.
        let has_all = ran.out.matches(" | 3 | 124.000 | ").count() == 2;
        match ran.code {
            1 => assert!(ran.err.contains("error: --backend=cuda: "), "{fail}: {}", ran.err),
            _ => assert!(has_all || ran.err.contains("warning: "), "{fail}: {}{}", ran.out, ran.err),
        }
    }
}

#[test]
fn missing_parts_are_reported() {
    /// Variables, a flag, and what the message says.
    type Case = (&'static [(&'static str, &'static str)], &'static str, &'static str);
    let cases: [Case; 9] = [
        (&[("JITOPT_CUDA_DRIVER", "./other.so")], "", "(./other.so) has a SONAME that does not begin with libcuda"),
        (&[("JITOPT_CUDA_DRIVER", "/nowhere")], "", "the CUDA driver: JITOPT_CUDA_DRIVER names /nowhere"),
        (&[("JITOPT_NVRTC", "/nowhere")], "", "NVRTC: JITOPT_NVRTC names /nowhere"),
        (&[("FAKE_CUDA_VERSION", "11030")], "", "is too old: it is for CUDA 11.3; install a driver"),
        (&[("FAKE_CUDA_DEVICES", "0")], "", "does not start: no device (CUDA_ERROR_NO_DEVICE)"),
        (&[], " --device 1", "--device=1: there is no such GPU, they are 0 to 0"),
        (&[("FAKE_CUDA_MEMORY", "10000")], "", "out of memory (CUDA_ERROR_OUT_OF_MEMORY)"),
        (&[("FAKE_CUDA_FAULT", "2")], "", "illegal address (CUDA_ERROR_ILLEGAL_ADDRESS)"),
        (&[("FAKE_CUDA_CC", "kill -9 $$;")], "", "NVRTC_ERROR_INTERNAL_ERROR"),
    ];
    for (variables, flag, message) in cases {
        let ran = jitopt(&format!("{RUN}{flag}"), variables);
        assert!(ran.err.contains(message), "{variables:?}{flag}: {}", ran.err);
        // A kernel that cannot be compiled or has no memory runs on the processor.
        let goes_on = ["OUT_OF_MEMORY", "INTERNAL"].iter().any(|part| message.contains(part));
        assert_eq!(ran.code, i32::from(!goes_on), "{variables:?}: {}", ran.err);
        assert_eq!(ran.left(), [], "{variables:?}: {}", ran.err);
        assert_eq!(goes_on, ran.err.contains("3 groups-fallen-back"), "{variables:?}: {}", ran.err);
    }
}

#[test]
fn a_thousand_launches_leave_nothing() {
    let run = "run loop.ir --seed 3 --shape %x=3,40 --backend=cuda --cuda-graphs=never --no-cache";
    let ran = jitopt(run, &[]);
    assert_eq!((ran.code, ran.left()), (0, vec![]), "{}", ran.err);
    assert_eq!(ran.count("called cuLaunchKernel"), 1000);
    // Memory is used again.
    assert!(ran.count("called cuMemAlloc_v2") < 10, "{:?}", ran.report);
    // A launch is one call of the driver, as the context is that of the thread already.
    assert!(ran.count("called cuCtxSetCurrent") < 5, "{:?}", ran.report);
    for fault in [("FAKE_CUDA_FAULT", "700"), ("FAKE_CUDA_FAIL", "cuLaunchKernel:500:1")] {
        let ran = jitopt(run, &[fault]);
        assert_eq!(ran.left(), [], "{fault:?}: {}", ran.err);
        assert_eq!(ran.code, i32::from(fault.0 == "FAKE_CUDA_FAULT"), "{fault:?}: {}", ran.err);
    }
}

/// A counter that `--stats` prints.
fn counted(ran: &Ran, what: &str) -> u64 {
    let line = ran.err.lines().find(|line| line.split_whitespace().nth(1) == Some(what));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).expect(&ran.err)
}

const REPEATED: &str = "run loop.ir --seed 3 --shape %x=3,40 --backend=cuda --no-cache --stats";
const RECURRENT: &str = "run steps.ir --seed 3 --shape %x=3,5 --shape %w=5,7 --shape %h=3,7 --shape %u=7,7 \
    --backend=cuda --no-cache --stats";

/// Results that do not depend on how launches are queued.
fn results_by_the_interpreter(run: &str) -> String {
    let plain = run.replace(" --backend=cuda --no-cache --stats", "");
    let name = format!("{}.safetensors", plain.split_whitespace().nth(1).expect("a file"));
    let ran = jitopt(&format!("{plain} --outputs {name}"), &[]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    format!("{run} --rtol 1e-5 --atol 1e-6 --expect {name}")
}

#[test]
fn launches_that_repeat_are_one_graph() {
    // The first 120 launches of 1000 read the input, the second and third are queued one by one,
    // the fourth is captured; four more follow, and 40 launches.
    let run = results_by_the_interpreter(REPEATED);
    for seed in ["0", "1", "2"] {
        let ran = jitopt(&run, &[("FAKE_CUDA_SEED", seed)]);
        assert_eq!((ran.code, ran.left()), (0, vec![]), "{}", ran.err);
        let all = ["kernels-launched", "graphs-captured", "graph-launches", "launches-by-graphs"];
        assert_eq!(all.map(|what| counted(&ran, what)), [1000, 1, 5, 600], "{}", ran.err);
        assert_eq!(ran.count("called cuGraphLaunch"), 5);
        assert_eq!(ran.count("called cuLaunchKernel"), 1000 - 600 + 120);
    }
    // Products and memory that is cleared are parts of graphs, too: 8 sequences of 24 iterations.
    let run = results_by_the_interpreter(RECURRENT);
    for (policy, captured, launched) in [("auto", 1, 5), ("always", 3, 9), ("never", 0, 0)] {
        let ran = jitopt(&format!("{run} --cuda-graphs={policy}"), &[]);
        assert_eq!((ran.code, ran.left()), (0, vec![]), "{policy}: {}", ran.err);
        let all = ["library-products", "graphs-captured", "graph-launches"];
        assert_eq!(all.map(|what| counted(&ran, what)), [400, captured, launched], "{policy}: {}", ran.err);
        assert!(ran.count("called cuMemsetD8Async") > 0, "{:?}", ran.report);
    }
    // What is held back is queued when something comes that is not expected.
    let run = results_by_the_interpreter(&REPEATED.replace("loop.ir", "branch.ir"));
    let ran = jitopt(&run, &[]);
    assert_eq!((ran.code, ran.left()), (0, vec![]), "{}", ran.err);
    assert_eq!((counted(&ran, "graph-launches"), ran.count("called cuLaunchKernel")), (0, 400), "{}", ran.err);
    // A sequence that ends where memory is copied repeats from run to run.
    let measured = jitopt(&format!("{} --cuda-graphs=auto", bench("graph.ir", 5)), &[]);
    assert_eq!((measured.code, measured.left()), (0, vec![]), "{}", measured.err);
    assert!(measured.count("called cuGraphLaunch") >= 4, "{:?}", measured.report);
    let wrong = jitopt("run loop.ir --cuda-graphs=never", &[]);
    assert!(wrong.code != 0 && wrong.err.contains("--cuda-graphs: a GPU launches them"), "{}", wrong.err);
}

#[test]
fn graphs_may_fail() {
    let calls = [
        ("cuStreamBeginCapture_v2", 2),
        ("cuStreamEndCapture", 2),
        ("cuGraphInstantiateWithFlags", 2),
        ("cuGraphLaunch", 5),
        ("cuGraphDestroy", 1),
        ("cuGraphExecDestroy", 1),
    ];
    let run = results_by_the_interpreter(REPEATED);
    for (name, most) in calls {
        for n in 1..=most {
            let ran = jitopt(&run, &[("FAKE_CUDA_FAIL", &format!("{name}:{n}:1"))]);
            assert_eq!((ran.code, ran.left()), (0, vec![]), "{name}:{n}: {}", ran.err);
            let is_reported = ran.err.contains("launches that repeat are not one graph: GPU 0 fails as ");
            // A graph is captured once; failures of calls that release memory at the end are not
            // reported.
            assert_eq!(
                is_reported,
                ran.count(&format!("called {name}")) >= n && !name.ends_with("Destroy"),
                "{name}:{n}: {}",
                ran.err
            );
        }
    }
    // The launch that fails is the first that is captured, and one that was held back at the end.
    for (n, code) in [(361, 0), (481, 1)] {
        let ran = jitopt(&run, &[("FAKE_CUDA_FAIL", &format!("cuLaunchKernel:{n}:1"))]);
        assert_eq!((ran.code, ran.left()), (code, vec![]), "{n}: {}", ran.err);
    }
    // A kernel that faults in a graph is noticed later.
    let ran = jitopt(&run, &[("FAKE_CUDA_FAULT", "700")]);
    assert_eq!((ran.code, ran.left()), (1, vec![]), "{}", ran.err);
    assert!(ran.err.contains("illegal address"), "{}", ran.err);
    // Each call of a run whose products are captured.
    each_call_of_a_run_may_fail(&format!("{RECURRENT} --cuda-graphs=always"), 80);
}

/// The kernel whose PTX is recorded, and a plan that has no other functions.
const RECORDED: &str = "graph(%x : Half(*, *)):
  %y : Tensor = prim::FusionGroup_0(%x)
  return (%y)
with prim::FusionGroup_0 = graph(%x : Half(*, *)):
  %half : float = prim::Constant[value=0.5]()
  %s : Tensor = aten::sigmoid(%x)
  %y : Tensor = aten::mul(%s, %half)
  return (%y)
";
const RECORDED_PLAN: &str = "group %y\n  grid thread 256\n";

#[test]
fn ptx_is_interpreted() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let ptx = std::fs::read_to_string(root.join("testdata/runtime/ptx/points.nvrtc.ptx")).expect("it is recorded");
    // A launch takes the first kernel of a unit.
    let ptx = ptx.replace(".entry k(", ".entry jo_kernel_0(");
    let outside = ptx.replacen("ld.global.u16 ", "st.global.u16 [%rd1], %rs1;\n ld.global.u16 ", 1);
    for (name, text) in [
        ("points.ir", RECORDED),
        ("points.plan", RECORDED_PLAN),
        ("points.ptx", &ptx),
        ("wrong.ptx", &ptx.replace("fma.rn.f32", "fma.rn.ftz.f32")),
        ("outside.ptx", &outside),
    ] {
        std::fs::write(folder().join(name), text).expect("it is written");
    }
    let run = |backend: &str, more: &str, variables: &[(&str, &str)]| {
        let run = format!("run points.ir --seed 3 --shape %x=5,300 --no-cache --backend={backend} {more}");
        jitopt(&run, variables)
    };
    let emulated = run("cuda-emulated", "--plan=points.plan --outputs points.safetensors", &[]);
    assert_eq!(emulated.code, 0, "{}", emulated.err);
    let checked = "--plan=points.plan --expect points.safetensors --rtol 0 --atol 0 --stats";
    for seed in ["", " --schedule-seed 5"] {
        let ran = run("cuda-ptx", &format!("{checked}{seed}"), &[("FAKE_CUDA_PTX", "points.ptx")]);
        assert_eq!((ran.code, ran.left()), (0, vec![]), "{}{}", ran.out, ran.err);
        assert!(ran.err.contains("1 kernels-launched") && ran.err.contains("0 groups-fallen-back"), "{}", ran.err);
    }
    // What is not understood, or fails, runs on the interpreter; what is wrong is an error.
    let unfused = [
        (("FAKE_CUDA_PTX", "wrong.ptx"), "the instruction `fma.rn.ftz.f32` is not known"),
        (("FAKE_CUDA_PTX", "/nowhere"), "NVRTC_ERROR_COMPILATION"),
        (("FAKE_CUDA_PTX", "points.ir"), "PTX line 1: `graph` is not known outside of entries"),
    ];
    for (variable, message) in unfused {
        let ran = run("cuda-ptx", "--plan=points.plan --stats", &[variable]);
        assert_eq!((ran.code, ran.left()), (0, vec![]), "{}", ran.err);
        assert!(ran.err.contains("1 groups-fallen-back") && ran.err.contains(message), "{message}: {}", ran.err);
    }
    for function in ["nvrtcCreateProgram", "nvrtcCompileProgram", "nvrtcGetPTXSize", "nvrtcGetPTX"] {
        let fails = format!("{function}:1");
        let variables = [("FAKE_CUDA_PTX", "points.ptx"), ("FAKE_CUDA_FAIL", &fails)];
        let ran = run("cuda-ptx", "--plan=points.plan", &variables);
        assert_eq!((ran.code, ran.left()), (0, vec![]), "{function}: {}", ran.err);
        assert!(ran.err.contains("runs unfused: NVRTC for compute_75"), "{function}: {}", ran.err);
    }
    let ran = run("cuda-ptx", "--plan=points.plan", &[("FAKE_CUDA_PTX", "outside.ptx")]);
    assert_eq!(ran.code, 70, "{}", ran.err);
    assert!(ran.err.contains("is outside of every operand") && ran.err.contains("PTX line"), "{}", ran.err);
    let printed = jitopt("points.ir --emit=ptx", &[("FAKE_CUDA_PTX", "points.ptx")]);
    assert_eq!((printed.code, printed.out), (0, ptx), "{}", printed.err);
    let refused = jitopt("points.ir --emit=ptx", &[("JITOPT_NVRTC", "/nowhere")]);
    assert_eq!(refused.code, 1, "{}", refused.err);
    assert!(refused.err.contains("--emit=ptx: NVRTC: JITOPT_NVRTC names /nowhere"), "{}", refused.err);
}
