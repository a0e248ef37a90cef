//! What NVRTC and clang made of kernels, recorded: the PTX, interpreted, gives the bits of the
//! emulation of the same kernels, and other bits where an instruction is changed.
//!
//! The texts are in `testdata/runtime/ptx/`. They need not be those of today's text for GPUs, but
//! have to compute the same. Where they do not any more, they are recorded again:
//!
//! ```text
//! JITOPT_RECORD_PTX=nvrtc JITOPT_NVRTC=…/libnvrtc.so.13 cargo test -p jitopt-core recorded_ptx
//! JITOPT_RECORD_PTX=clang JITOPT_CLANG=clang-16 cargo test -p jitopt-core recorded_ptx
//! ```

use super::disk_cache::DiskCache;
use super::emulated_launch::{Emulated, Image, Operands, source};
use super::loading::Loaded;
use super::ptx::PtxModule;
use super::ptx_compiler::{CLANG_VARIABLE, PtxCompiler};
use super::toolchain;
use super::wide_launch::{functions_of, split_functions_of};
use crate::codegen::column_totals::total_name;
use crate::codegen::geometry::{View, settle};
use crate::codegen::kernel_plan::Grid;
use crate::codegen::target::{CUDA, Nests};
use crate::codegen::text_lines::SourceText;
use crate::codegen::whole_graph::{Planned, kernels};
use crate::tensor::Dims;
use crate::text::{ParseOptions, parse};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

/// A recorded unit: its name, the element type of `%x`, its section, and the shape of the operand.
struct Case(&'static str, &'static str, &'static str, [i64; 2]);

const CASES: [Case; 6] = [
    Case("points", "Half", "%s : Tensor = aten::sigmoid(%x)\n  %y : Tensor = aten::mul(%s, %half)", [3, 100]),
    Case("softmax", "Float", "%y : Tensor = aten::softmax(%x, %one, %none)", [3, 301]),
    Case("variance", "Float", "%y : Tensor = aten::var(%x, %dims, %no, %no)", [3, 700]),
    Case("columns", "Float", "%y : Tensor = aten::sum(%x, %outer, %no, %none)", [70, 6]),
    Case(
        "argmax",
        "Float",
        "%i : Tensor = aten::argmax(%x, %one, %no)\n  %y : Tensor = aten::mul(%i, %half)",
        [3, 600],
    ),
    Case("scan", "Float", "%y : Tensor = aten::cumsum(%x, %one, %none)", [3, 300]),
];

impl Case {
    /// Its kernel, without functions for contiguous elements.
    fn planned(&self) -> Planned {
        let Case(name, dtype, section, _) = self;
        let text = format!(
            "graph(%a : {dtype}(*, *)):
  %r : Tensor = prim::FusionGroup_0(%a)
  return (%r)
with prim::FusionGroup_0 = graph(%x : {dtype}(*, *)):
  %none : None = prim::Constant()
  %one : int = prim::Constant[value=1]()
  %no : bool = prim::Constant[value=0]()
  %half : float = prim::Constant[value=0.5]()
  %outer : int[] = prim::Constant[value=[0]]()
  %dims : int[] = prim::Constant[value=[1]]()
  {section}
  return (%y)
"
        );
        let graph = parse(text.as_bytes(), ParseOptions::default()).unwrap_or_else(|why| panic!("{text}\n{why:?}"));
        let mut planned = kernels(&graph.graph, None, &CUDA).planned.remove(0);
        let grid = planned.plan.grid.unwrap_or_else(|| panic!("{name} has no grid"));
        planned.plan.grid = Some(Grid { wide: false, split: *name == "columns", ..grid });
        planned
    }

    fn path(&self, compiler: &str) -> PathBuf {
        let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("testdata/runtime/ptx");
        folder.join(format!("{}.{compiler}.ptx", self.0))
    }

    /// The PTX that NVRTC made of it.
    fn recorded(&self) -> String {
        self.recorded_by("nvrtc")
    }

    fn recorded_by(&self, compiler: &str) -> String {
        let path = self.path(compiler);
        std::fs::read_to_string(&path).unwrap_or_else(|why| panic!("{}: {why}", path.display()))
    }

    /// The bits of the elements of the operand, and their size: small numbers of both signs.
    fn operand(&self) -> (Vec<u8>, usize) {
        let numbers = (0..self.3[0] * self.3[1]).map(|i| (i * 37 % 211) as f32 / 70.0 - 1.5);
        match self.1 {
            "Half" => (numbers.flat_map(|x| half::f16::from_f32(x).to_le_bytes()).collect(), 2),
            _ => (numbers.flat_map(f32::to_le_bytes).collect(), 4),
        }
    }
}

fn nests(planned: &Planned) -> Nests {
    CUDA.nests(&planned.kernel, &planned.traversal, &planned.plan).expect("nests")
}

/// The text for GPUs, and its functions.
fn text(planned: &Planned) -> (SourceText, Vec<String>) {
    let (names, texts): (Vec<String>, Vec<SourceText>) = CUDA.functions("k", &nests(planned)).into_iter().unzip();
    ((CUDA.unit)(&texts), names)
}

fn compiled(planned: &Planned) -> Image {
    let (text, names) = text(planned);
    let cache = DiskCache::new(None);
    let compiler = toolchain::find((None, None), true, &cache, None).expect("there is a compiler");
    let folder = cache.private_folder().expect("there is a folder");
    let path = compiler.compile((source(&text, &names, false).text(), true), &folder.0, None).expect("it compiles");
    Image::Compiled(Arc::new(Loaded::open(&path).expect("it opens")))
}

/// The result of a launch of an image, its bits, and what is reported.
fn result(case: &Case, planned: &Planned, image: Image) -> (Vec<u8>, Vec<String>) {
    let (text, _) = text(planned);
    let nests = nests(planned);
    let find = |name: &str| image.entry(name);
    let totals = nests.totals.iter().map(|(store, _)| (*store, find(&total_name("k", *store)).expect("an entry")));
    let emulated = Emulated {
        functions: functions_of("k", &nests, find).expect("entries"),
        split: split_functions_of("k", &nests, find).expect("entries"),
        totals: totals.collect(),
        image,
        grid: planned.plan.grid.expect("a grid"),
        has_barriers: nests.own.has_barriers(),
        text: text.into(),
        is_checked: false,
    };
    let shape = Dims::from_slice(&case.3);
    let view = View { strides: Dims::from_slice(&[shape[1], 1]), shape, offset: 0 };
    let geometry = settle(&planned.kernel, &[Some(view)]).expect("a space");
    let (operand, size) = case.operand();
    // Of a type that is aligned as elements have to be.
    let operand: Vec<u64> = operand.chunks(8).map(eight).collect();
    let elements = geometry.made[0].0.iter().product::<i64>() as usize;
    let made = planned.kernel.made[0].dtype.size();
    let mut result = vec![u64::MAX; (elements * made).div_ceil(8)];
    let data = [
        (operand.as_ptr().expose_provenance(), (case.3[0] * case.3[1]) as usize),
        (result.as_mut_ptr().expose_provenance(), elements),
    ];
    assert_eq!(size, planned.kernel.loads[0].dtype.size());
    let operands = Operands { data: &data, starts: &[0, 0], floats: &[], integers: &[] };
    let seen = emulated.launch(&planned.kernel, &geometry, &operands, 1).expect("a launch");
    let bytes = result.iter().flat_map(|word| word.to_le_bytes()).take(elements * made).collect();
    (bytes, seen.findings)
}

fn eight(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |all, &byte| all << 8 | u64::from(byte))
}

fn interpreted(text: &str) -> Image {
    let mut module = PtxModule::read(text).unwrap_or_else(|why| panic!("{why}\n{text}"));
    // A changed instruction may keep a launch from its end.
    module.most_steps = 2_000_000;
    Image::Ptx(Rc::new(module))
}

/// Writes the PTX of a case, if that is wanted of a compiler.
fn record(case: &Case, planned: &Planned, compiler: &str) {
    if std::env::var("JITOPT_RECORD_PTX").as_deref() != Ok(compiler) {
        return;
    }
    let [nvrtc, clang] = ["JITOPT_NVRTC", CLANG_VARIABLE].map(|name| std::env::var(name).ok());
    let cache = DiskCache::new(None);
    let found = PtxCompiler::find(nvrtc.as_deref(), clang.as_deref(), &cache).expect("a compiler");
    let made = found.compile(text(planned).0.text(), &cache, None).expect("it compiles");
    // Names of files and of functions that are inlined are left out.
    let is_needed = |line: &&str| !line.trim_start().starts_with("//") && !line.trim().is_empty();
    let code = made.split("\t.section").next().unwrap_or_default().lines().filter(is_needed);
    let code = code.filter(|line| !line.trim_start().starts_with(".file") && !line.contains("inlined_at"));
    let code: String = code.map(|line| line.to_owned() + "\n").collect();
    let head = format!("// {}, of:\n// {}\n", found.name(), case.2.replace("\n ", "\n// "));
    std::fs::write(case.path(compiler), head + &code).expect("it is written");
}

#[test]
fn recorded_ptx_has_the_bits_of_the_emulation() {
    for (case, compiler) in CASES.iter().flat_map(|case| [(case, "nvrtc"), (case, "clang")]) {
        let planned = case.planned();
        record(case, &planned, compiler);
        let expected = result(case, &planned, compiled(&planned));
        let found = result(case, &planned, interpreted(&case.recorded_by(compiler)));
        let path = case.path(compiler);
        assert_eq!(found, expected, "{} is not what the emulation computes: see above", path.display());
        assert!(expected.1.is_empty() && expected.0.iter().any(|&byte| byte != expected.0[0]), "{}", case.0);
    }
}

#[test]
fn a_wrong_instruction_is_noticed() {
    // What an instruction becomes: in each case that has it, every time that it occurs.
    let changes = [
        ("add.rn.f32", "sub.rn.f32"),
        ("mul.rn.f32", "add.rn.f32"),
        ("add.rn.f64", "mul.rn.f64"),
        ("div.rn.f32", "mul.rn.f32"),
        ("selp.f32", "swapped"),
        ("cvt.rn.f16.f32", "cvt.rn.bf16.f32"),
        ("setp.gt.f32", "setp.le.f32"),
        ("shl.b32", "shr.u32"),
        ("add.s64", "sub.s64"),
        ("ld.shared.f64", "ld.shared.u32"),
    ];
    for (from, to) in changes {
        let mut noticed = 0;
        for case in CASES {
            let recorded = case.recorded();
            if !recorded.contains(&format!("{from} ")) {
                continue;
            }
            let changed: String = recorded.lines().map(|line| changed(line, from, to) + "\n").collect();
            let planned = case.planned();
            let right = result(&case, &planned, interpreted(&recorded));
            noticed += usize::from(result(&case, &planned, interpreted(&changed)) != right);
        }
        assert!(noticed > 0, "no result shows that `{from}` is wrong");
    }
}

/// A line with another opcode, or with the first two operands swapped.
fn changed(line: &str, from: &str, to: &str) -> String {
    let parts: Vec<&str> = line.split(", ").collect();
    match (to, &parts[..]) {
        ("swapped", [first, a, b, last]) if line.contains(from) => [*first, *b, *a, *last].join(", "),
        ("swapped", _) => line.to_owned(),
        _ => line.replace(&format!("{from} "), &format!("{to} ")),
    }
}

#[test]
fn accesses_outside_are_reported_with_their_ir_line() {
    let case = &CASES[1];
    let (planned, recorded) = (case.planned(), case.recorded());
    let moved = |line: &str| match line.contains("ld.global.f32") {
        true => line.replace("];", "+1073741824];\n"),
        false => line.to_owned() + "\n",
    };
    let changed: String = recorded.lines().map(moved).collect();
    let (_, found) = result(case, &planned, interpreted(&changed));
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("is outside of the memory of an operand") && found[0].contains("PTX line"), "{found:?}");
    assert!(found[0].contains("(%x"), "{found:?}");
}
