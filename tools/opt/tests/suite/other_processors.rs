//! Kernels for aarch64 against those for this processor.
//!
//! The output of `--emit=c` is compiled by `cc` and by `aarch64-linux-gnu-gcc`, called by the same
//! small C program on the same memory, natively and under `qemu-aarch64`, and the results are
//! compared: elementwise functions bitwise, on ordinary numbers and on arbitrary bits; reductions,
//! whose order of summation depends on the vector width, within a tolerance. If one of the programs
//! is not installed (Debian: `gcc-aarch64-linux-gnu`, `qemu-user`), the test says so, and kernels
//! only run here.

#![allow(clippy::print_stdout, reason = "says what is left out to those who ask with --nocapture")]

use jitopt_core::ops::formulas::{Formula, Typing};
use jitopt_core::ops::rows::{Row, rows};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

const CROSS: &str = "aarch64-linux-gnu-gcc";
const QEMU: &str = "qemu-aarch64";

/// Calls of the elementwise functions of floats, from the rows of the operator table: every
/// operator with a formula that gives floats of floats, on the operands that random groups have.
fn calls() -> Vec<(&'static str, String)> {
    let gives_floats = |row: &&Row| {
        let is_float = |formula: &Formula| {
            let typing = formula.typing;
            let keeps = matches!(typing, Typing::Kept | Typing::Real | Typing::Promoted(_) | Typing::FloatPromoted(_));
            keeps && !formula.float.is_empty()
        };
        row.formulas().iter().any(is_float)
    };
    let call = |row: &Row| {
        let operands: Option<Vec<&str>> = row.drawn().first()?.chars().enumerate().map(operand).collect();
        Some((row.kind, operands?.join(", ")))
    };
    rows().filter(gives_floats).filter_map(call).collect()
}

/// The value for a letter of a random group; `None` for integers, bools and types.
fn operand((at, letter): (usize, char)) -> Option<&'static str> {
    Some(match letter {
        't' | 'r' | 'p' | 'o' if at == 0 => "%x",
        't' | 'r' | 'p' | 'o' => "%half",
        '=' => "%x",
        'n' | 'c' => "%real",
        '1' => "%one",
        'z' => "%none",
        _ => return None,
    })
}

/// A kernel, and its iteration space.
struct Case {
    name: &'static str,
    text: String,
    shape: &'static [usize],
    /// The number of dimensions that are traversed from tile to tile, and the number of tiles.
    kept: usize,
    tiles: usize,
    /// The strides and the number of elements of each access; operands, of which there is one,
    /// first.
    accesses: Vec<(&'static [usize], usize)>,
    /// The relative tolerance of results.
    apart: f32,
}

fn functions() -> Case {
    let mut lines = String::new();
    let mut results: Vec<String> = Vec::new();
    for (kind, operands) in calls() {
        let name = format!("%v{}", results.len());
        writeln!(lines, "  {name} : Tensor = {kind}({operands})").expect("memory is there");
        results.push(name);
    }
    assert!(results.len() > 60, "the rows have operands: {lines}");
    let outer: Vec<String> = (0..results.len()).map(|i| format!("%r{i}")).collect();
    let text = format!(
        "graph(%x : Float(4096)):\n  {outer} = prim::FusionGroup_0(%x)\n  return ({outer})\nwith prim::FusionGroup_0 = graph(%x : Float(4096)):\n  %one : int = prim::Constant[value=1]()\n  \
         %real : float = prim::Constant[value=1.7]()\n  %none : None = prim::Constant()\n  %half : Tensor = aten::mul(%x, %real)\n{lines}  return ({})\n",
        results.join(", "),
        outer = outer.join(", "),
    );
    let accesses = vec![(&[1][..], 4096); 1 + results.len()];
    Case { name: "functions", text, shape: &[4096], kept: 0, tiles: 16, accesses, apart: 0.0 }
}

/// A softmax, a mean and a variance over one of two dimensions.
fn reductions(name: &'static str, shape: &'static [usize; 2], dim: usize) -> Case {
    let ty = format!("Float({}, {})", shape[0], shape[1]);
    let text = format!(
        "graph(%x : {ty}):\n  %a, %b, %c = prim::FusionGroup_0(%x)\n  return (%a, %b, %c)\nwith prim::FusionGroup_0 = graph(%x : {ty}):\n  %none : None = prim::Constant()\n  %no : bool = prim::Constant[value=0]()\n  \
         %dim : int = prim::Constant[value={dim}]()\n  %dims : int[] = prim::Constant[value=[{dim}]]()\n  %a : Tensor = aten::softmax(%x, %dim, %none)\n  \
         %b : Tensor = aten::mean(%x, %dims, %no, %none)\n  %c : Tensor = aten::var(%x, %dims, %no, %no)\n  return (%a, %b, %c)\n"
    );
    let rows = shape[1 - dim];
    let (all, row): (&[usize], &[usize]) = if dim == 1 { (&[300, 1], &[1, 0]) } else { (&[70, 1], &[0, 1]) };
    let (kept, tiles) = if dim == 1 { (1, rows) } else { (0, 1) };
    let whole = (all, shape[0] * shape[1]);
    Case { name, text, shape, kept, tiles, accesses: vec![whole, whole, (row, rows), (row, rows)], apart: 1e-5 }
}

/// A program that calls the kernel and writes its results.
fn program(case: &Case) -> String {
    let list = |numbers: &mut dyn Iterator<Item = usize>| -> String {
        numbers.map(|n| n.to_string()).collect::<Vec<_>>().join(", ")
    };
    let strides = list(&mut case.accesses.iter().flat_map(|(strides, _)| strides.iter().copied()));
    let memory: String =
        case.accesses.iter().enumerate().map(|(k, (_, n))| format!("static float m{k}[{n}];\n")).collect();
    let data: Vec<String> = (0..case.accesses.len()).map(|k| format!("(char *)m{k}")).collect();
    let written: String =
        (1..case.accesses.len()).map(|k| format!("    fwrite(m{k}, 1, sizeof m{k}, stdout);\n")).collect();
    let (rank, shape, n) = (case.shape.len(), list(&mut case.shape.iter().copied()), case.accesses[0].1);
    // Inputs of reductions are such that their sums do not cancel.
    let any_bits = usize::from(case.apart == 0.0);
    format!(
        "#include <stdio.h>\n#include <string.h>\ntypedef long long i64;\ntypedef struct {{ const i64 *shape; i64 rank, kept, begin, end; char *const *data; const i64 *strides; const double *reals; const i64 *wholes; i64 stream, ask, columns, turn, part, parts; char *found; }} jo_args;\nvoid FusionGroup_0(const jo_args *);\n{memory}int main(void)\n{{\n    \
         unsigned s = 12345;\n    for (int i = 0; i < {n}; i++) {{\n        s = s * 1664525u + 1013904223u;\n        m0[i] = ((s >> 8) / (float)(1 << 24) - 0.5f) * 20 + {};\n        if ({any_bits} && i % 2) memcpy(&m0[i], &s, 4);\n    }}\n    \
         const i64 shape[] = {{{shape}}}, strides[] = {{{strides}}};\n    char *const data[] = {{{}}};\n    const jo_args args = {{shape, {rank}, {}, 0, {}, data, strides, 0, 0, 0, 0, 1024, 0, 0, 1, 0}};\n    FusionGroup_0(&args);\n{written}    return 0;\n}}\n",
        if any_bits == 1 { 0 } else { 11 },
        data.join(", "),
        case.kept,
        case.tiles,
    )
}

fn done(command: &mut Command) -> Vec<u8> {
    let output = command.output().expect("the program can be started");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// Compiles the kernel and its caller, and runs them.
fn run(case: &Case, folder: &Path, cc: &str, under: Option<&str>) -> Vec<f32> {
    let program = folder.join(format!("{}-{cc}", case.name));
    let sources = [folder.join("kernel.c"), folder.join("main.c")];
    let flags = ["-O2", "-std=gnu11", "-fno-math-errno", "-ffp-contract=off", "-fwrapv", "-fopenmp-simd", "-static"];
    let here = if has_fma() && under.is_none() { &["-march=native"][..] } else { &[] };
    done(Command::new(cc).args(flags).args(here).args(&sources).arg("-o").arg(&program));
    let bytes = match under {
        Some(emulator) => done(Command::new(emulator).arg(&program)),
        None => done(&mut Command::new(&program)),
    };
    bytes.chunks_exact(4).map(|x| f32::from_le_bytes([x[0], x[1], x[2], x[3]])).collect()
}

/// Whether two results are equal: the same bits, both NaN, or within the tolerance.
fn is_same(a: f32, b: f32, apart: f32) -> bool {
    a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan() || (a - b).abs() <= apart * a.abs()
}

/// Whether this processor has fused multiply-add, as those for aarch64 do: the vector mathematics
/// is one digit more accurate then.
fn has_fma() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::is_x86_feature_detected!("fma");
    #[cfg(not(target_arch = "x86_64"))]
    return false;
}

fn is_there(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
}

#[test]
fn kernels_for_aarch64_compute_the_same() {
    let missing = [CROSS, QEMU].into_iter().find(|program| !is_there(program));
    if let Some(missing) = missing {
        println!("only compiled and run for this processor: there is no {missing} here");
    }
    let folder: PathBuf = std::env::temp_dir().join(format!("jitopt-aarch64-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("there is room");
    for case in [functions(), reductions("inner", &[64, 300], 1), reductions("outer", &[300, 70], 0)] {
        let graph = folder.join("graph.ir");
        std::fs::write(&graph, &case.text).expect("there is room");
        let kernel = done(Command::new(env!("CARGO_BIN_EXE_jitopt")).args(["--torch=2.15", "--emit=c"]).arg(&graph));
        std::fs::write(folder.join("kernel.c"), kernel).expect("there is room");
        std::fs::write(folder.join("main.c"), program(&case)).expect("there is room");
        let here = run(&case, &folder, "cc", None);
        assert_eq!(here.len(), case.accesses[1..].iter().map(|(_, n)| n).sum::<usize>());
        assert!(here.iter().any(|x| x.is_finite() && *x != 0.0), "{}: nothing was computed", case.name);
        if missing.is_some() {
            continue;
        }
        let there = run(&case, &folder, CROSS, Some(QEMU));
        let apart = if has_fma() { case.apart } else { case.apart.max(1e-6) };
        let differ = (0..here.len()).find(|&i| !is_same(here[i], there[i], apart));
        assert!(differ.is_none(), "{}: {:?}", case.name, differ.map(|i| (i, here[i], there[i])));
    }
    std::fs::remove_dir_all(&folder).expect("the folder is ours");
}
