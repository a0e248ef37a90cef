//! `cargo xtask new-operator`: the three places of an operator, to be filled in.
//!
//! The row is written without facts: it compiles, and `cargo test -p jitopt-core rows` names each
//! field that is still blank. The kernel refuses to run, and the lit file runs it.

use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::path::Path;

const ROW: &str = include_str!("../templates/row.rs.txt");
const KERNEL: &str = include_str!("../templates/kernel.rs.txt");
const LIT: &str = include_str!("../templates/operator.ir.txt");

/// The lists of schemas, the newest first. New schemas are added to the last one.
const LISTS: [&str; 4] = ["schemas-2.txt", "schemas-1.3.txt", "schemas-between.txt", "schemas-prim.txt"];

/// The files of a family of operators: the file of rows, and that of kernels.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Family {
    rows: &'static str,
    kernels: &'static str,
}

const VIEWS: Family = Family { rows: "view_rows", kernels: "views" };
const REDUCTIONS: Family = Family { rows: "reduction_rows", kernels: "reductions" };
const ARITHMETIC: Family = Family { rows: "arithmetic_rows", kernels: "special_functions" };
const FUNCTIONS: Family = Family { rows: "function_rows", kernels: "special_functions" };
const INDICES: Family = Family { rows: "index_rows", kernels: "scattering" };

/// Writes the row, the kernel and the lit file of an operator, given by its kind or its schema.
pub(crate) fn begin(root: &Path, operator: &str) -> Result<()> {
    let kind = operator.split(['(', '.']).next().unwrap_or(operator).trim();
    let short = check_kind(kind)?;
    let schema = declared(root, kind)?.map_or_else(|| declare(root, kind, operator), Ok)?;
    let family = family(&schema);
    let lit = format!("testdata/operators/{}.ir", kind.trim_start_matches("aten::").replace("::", "_"));
    ensure!(!root.join(&lit).exists(), "{lit} already exists");
    let rows = root.join(format!("src/ops/rows/{}.rs", family.rows));
    let row = ROW.replace("{kind}", kind);
    let with_row = with_last(&fs::read_to_string(&rows)?, "ROWS: &[Row] = &[", &row)?;
    let kernels = root.join(format!("src/interpreter/operators/{}.rs", family.kernels));
    let with_kernel = with_kernel(&fs::read_to_string(&kernels)?, kind, short)?;
    refuse_known(root, kind)?;
    fs::create_dir_all(root.join("testdata/operators"))?;
    fs::write(root.join(&lit), lit_file(kind, &schema))?;
    fs::write(&rows, with_row)?;
    fs::write(&kernels, with_kernel)?;
    println!("wrote the row of {kind} in src/ops/rows/{}.rs,", family.rows);
    println!("      its kernel in src/interpreter/operators/{}.rs, and {lit}", family.kernels);
    println!("\nnext: fill in the facts of the row; this names those that are missing, and those that");
    println!("      nothing observes yet:");
    println!("      cargo test -p jitopt-core rows");
    println!("      implement the kernel, and write PyTorch's values into {lit}:");
    println!("      cargo run -- test {lit}");
    println!("      write what PyTorch says of it, and the element types that it takes:");
    println!("      the commands at the head of tools/pytorch/observe_operators.py");
    println!("      BLESS=1 cargo test -p jitopt --test suite coverage_matrix");
    println!("      jitopt guide adding-an-operator explains the facts");
    Ok(())
}

/// The name after the namespace.
fn check_kind(kind: &str) -> Result<&str> {
    let is_word = |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    match kind.split_once("::") {
        Some((space, short)) if is_word(space) && is_word(short) => Ok(short),
        _ => bail!("`{kind}` is not a kind: expected the form `aten::softsign`, or a schema"),
    }
}

/// The first overload in the lists that makes a tensor and writes to none.
fn declared(root: &Path, kind: &str) -> Result<Option<String>> {
    for list in LISTS {
        let text = fs::read_to_string(root.join("src/ops").join(list))?;
        let own = text.lines().filter(|line| line.split(['(', '.']).next() == Some(kind));
        let mut plain = own.clone().filter(|line| !line.contains('!') && result(line).contains("Tensor"));
        if let Some(found) = plain.next().or_else(|| own.clone().next()) {
            return Ok(Some(found.to_owned()));
        }
    }
    Ok(None)
}

/// Adds a schema to the list of those that no release registers.
fn declare(root: &Path, kind: &str, operator: &str) -> Result<String> {
    let schema = match operator.contains('(') {
        true => operator.to_owned(),
        false => format!("{kind}(Tensor self) -> Tensor"),
    };
    ensure!(schema.contains(") -> "), "`{schema}` is not a schema: expected the form `{kind}(Tensor self) -> Tensor`");
    let path = root.join("src/ops/schemas-prim.txt");
    let text = fs::read_to_string(&path)?;
    let mut lines: Vec<&str> = text.lines().chain([schema.as_str()]).collect();
    lines.sort_unstable();
    fs::write(&path, lines.join("\n") + "\n")?;
    println!("no release registers {kind}: added `{schema}` to src/ops/schemas-prim.txt");
    Ok(schema)
}

/// The results of a schema.
fn result(schema: &str) -> &str {
    schema.rsplit_once(" -> ").map_or("", |(_, result)| result)
}

/// An operand of a schema.
#[derive(Debug, PartialEq)]
struct Formal {
    ty: String,
    name: String,
    default: Option<String>,
}

impl Formal {
    fn read(text: &str) -> Option<Formal> {
        let (declared, default) = match text.split_once('=') {
            Some((declared, default)) => (declared, Some(default.to_owned())),
            None => (text, None),
        };
        let (ty, name) = declared.trim().rsplit_once(' ')?;
        Some(Formal { ty: ty.to_owned(), name: name.to_owned(), default })
    }

    /// Whether it is a tensor, with or without a mark of what it shares memory with.
    fn is_tensor(&self) -> bool {
        self.ty.split('(').next() == Some("Tensor") && !self.ty.ends_with(['?', ']'])
    }
}

/// The operands of a schema.
fn formals(schema: &str) -> Vec<Formal> {
    let operands =
        schema.split_once('(').map_or("", |(_, rest)| rest.rsplit_once(") -> ").map_or("", |(list, _)| list));
    let mut all = Vec::new();
    let (mut depth, mut start) = (0, 0);
    for (at, c) in operands.char_indices().chain([(operands.len(), ',')]) {
        depth += i32::from(matches!(c, '(' | '[')) - i32::from(matches!(c, ')' | ']'));
        if c == ',' && depth == 0 {
            all.extend(Formal::read(&operands[start..at]));
            start = at + 1;
        }
    }
    all
}

/// Families whose operators are known by a part of their names; the first that fits is taken.
const BY_NAME: &[(&[&str], Family)] = &[
    (&["quantize", "q_per_"], Family { rows: "quantised_rows", kernels: "quantization" }),
    (&["lstm", "gru_", "rnn_"], Family { rows: "recurrent_rows", kernels: "recurrent" }),
    (&["_loss", "cross_entropy"], Family { rows: "loss_rows", kernels: "losses" }),
    (
        &["conv1d", "conv2d", "conv3d", "conv_", "convolution", "im2col"],
        Family { rows: "convolution_rows", kernels: "convolution" },
    ),
    (&["upsample", "grid_sample"], Family { rows: "resampling_rows", kernels: "resampling" }),
    (&["pool"], Family { rows: "pool_rows", kernels: "pooling" }),
    (&["scatter", "gather", "index", "embedding", "take"], INDICES),
    (&["shift", "bitwise", "gcd", "lcm"], Family { rows: "bit_rows", kernels: "pointwise" }),
    (&["_reduce"], REDUCTIONS),
    (&["stack", "cat", "block_diag"], Family { rows: "joining_rows", kernels: "joining" }),
    (&["sort", "topk", "unique", "quantile"], Family { rows: "ordering_rows", kernels: "sorting" }),
    (&["dropout", "rand", "bernoulli"], Family { rows: "random_rows", kernels: "sampling" }),
    (&["zeros", "ones", "full", "empty", "space", "window"], Family { rows: "factory_rows", kernels: "factories" }),
    (&["det", "inv", "cholesky", "solve", "matrix_"], Family { rows: "matrix_rows", kernels: "factorizations" }),
    (
        &["matmul", "mm", "dot", "mv", "outer", "dist", "cross"],
        Family { rows: "product_rows", kernels: "linear_algebra" },
    ),
    (&["pad", "flip", "roll", "shuffle", "tril", "triu"], Family { rows: "rearranging_rows", kernels: "rearranging" }),
    (&["vector_norm", "matrix_norm", "powsum"], Family { rows: "reduction_rows", kernels: "norms" }),
    (&["group_norm", "instance_norm", "rms_norm"], Family { rows: "layer_rows", kernels: "normalization" }),
];

/// The family of an operator, by its name and else by the look of its schema.
fn family(schema: &str) -> Family {
    let name = schema.split(['(', '.']).next().unwrap_or_default();
    let named = BY_NAME.iter().find(|(parts, _)| parts.iter().any(|part| name.contains(part)));
    let is_view = result(schema).contains("(a");
    match named.filter(|_| !is_view) {
        Some((_, family)) => *family,
        None => of_look(schema, is_view),
    }
}

/// The family that a schema looks like.
fn of_look(schema: &str, is_view: bool) -> Family {
    let formals = formals(schema);
    let has = |names: &[&str]| formals.iter().any(|formal| names.contains(&formal.name.as_str()));
    match formals.iter().filter(|formal| formal.is_tensor()).count() {
        _ if is_view => VIEWS,
        _ if has(&["index", "indices"]) => INDICES,
        _ if has(&["keepdim", "dim", "dims", "unbiased"]) => REDUCTIONS,
        0 | 1 => FUNCTIONS,
        _ => ARITHMETIC,
    }
}

/// A kind has one row, and one kernel.
fn refuse_known(root: &Path, kind: &str) -> Result<()> {
    for (folder, what) in
        [("src/ops/rows", format!("kind: \"{kind}\",")), ("src/interpreter/operators", format!("(\"{kind}\","))]
    {
        for entry in fs::read_dir(root.join(folder))? {
            let path = entry?.path();
            let text = fs::read_to_string(&path)?;
            ensure!(!text.contains(&what), "{kind} already stands in {}", path.display());
        }
    }
    Ok(())
}

/// The text with an item at the end of a list, which ends in a line `];`.
fn with_last(text: &str, list: &str, item: &str) -> Result<String> {
    let start = text.find(list).with_context(|| format!("there is no `{list}`"))?;
    let end = start + text[start..].find("\n];").context("the list has no end")? + 1;
    Ok(format!("{}{item}{}", &text[..end], &text[end..]))
}

/// The kernels with another one: its row, and a function before the tests.
fn with_kernel(text: &str, kind: &str, short: &str) -> Result<String> {
    let short = short.trim_start_matches('_');
    let name = if text.contains(&format!("fn {short}(")) { format!("{short}_kernel") } else { short.to_owned() };
    let text = with_last(text, "ROWS: &[Row] = &[", &format!("    (\"{kind}\", {name}),\n"))?;
    let function = KERNEL.replace("{kind}", kind).replace("{name}", &name);
    let at = text.find("#[cfg(test)]").unwrap_or(text.len());
    let (code, tests) = text.split_at(at);
    let gap = if tests.is_empty() { "" } else { "\n" };
    Ok(format!("{}\n\n{function}{gap}{tests}", code.trim_end()))
}

/// The lit file: a graph of one node, whose tensors are its params, and their values.
fn lit_file(kind: &str, schema: &str) -> String {
    let formals = formals(schema);
    let tensors: Vec<Param> = formals.iter().filter(|formal| formal.is_tensor()).map(Param::of).collect();
    let values: Vec<String> = tensors.iter().map(|param| format!("# ARGS: {}", param.values)).collect();
    let results: Vec<String> = match result(schema).matches("Tensor").count() {
        0 | 1 => vec!["%r".to_owned()],
        n => (0..n).map(|i| format!("%r{i}")).collect(),
    };
    let text = LIT.replace("{kind}", kind).replace("{result}", &results[0]).replace("{values}", &values.join(",\n"));
    text.replace("{graph}", &graph(kind, &formals, &results))
}

/// A param of the graph.
struct Param {
    ty: &'static str,
    values: &'static str,
}

impl Param {
    /// Its elements, as the name of the operand suggests.
    fn of(formal: &Formal) -> Param {
        match formal.name.as_str() {
            "index" | "indices" | "target" | "lengths" | "offsets" => Param {
                ty: "Long(2)",
                values: r#"{"kind": "Tensor", "dtype": "int64", "shape": [2], "values": [0, 1]}"#,
            },
            "mask" | "condition" => Param {
                ty: "Bool(2)",
                values: r#"{"kind": "Tensor", "dtype": "bool", "shape": [2], "values": [1, 0]}"#,
            },
            _ => Param {
                ty: "Float(2)",
                values: r#"{"kind": "Tensor", "dtype": "float32", "shape": [2], "values": [0.5, 2.0]}"#,
            },
        }
    }
}

/// A graph of one node.
fn graph(kind: &str, formals: &[Formal], results: &[String]) -> String {
    let (mut params, mut lines, mut names) = (Vec::new(), String::new(), Vec::new());
    for formal in formals {
        let name = &formal.name;
        match formal.is_tensor() {
            true => params.push(format!("%{name} : {}", Param::of(formal).ty)),
            false => lines.push_str(&constant(formal)),
        }
        names.push(format!("%{name}"));
    }
    let typed: Vec<String> = results.iter().map(|name| format!("{name} : Tensor")).collect();
    format!(
        "graph({}):\n{lines}  {} = {kind}({})\n  return ({})\n",
        params.join(",\n      "),
        typed.join(", "),
        names.join(", "),
        results.join(", ")
    )
}

/// The line of an operand that is no tensor: its default, or a value to be changed.
fn constant(formal: &Formal) -> String {
    let Formal { ty, name, default } = formal;
    let line = |ty: &str, value: &str| format!("  %{name} : {ty} = prim::Constant[value={value}]()\n");
    let given = |usual: &str| default.clone().unwrap_or_else(|| usual.to_owned());
    match ty.as_str() {
        "int" | "SymInt" => line("int", &given("0")),
        "float" => line("float", &given("0.5")),
        "bool" if default.as_deref() == Some("True") => line("bool", "1"),
        "bool" => line("bool", "0"),
        "str" => line("str", &given("\"sum\"")),
        "Scalar" if default.as_ref().is_some_and(|value| value.contains('.')) => line("float", &given("")),
        "Scalar" => line("int", &given("2")),
        _ if ty.starts_with("int[") || ty.starts_with("SymInt[") => {
            format!(
                "  %{name}.1 : int = prim::Constant[value=0]()\n  %{name} : int[] = prim::ListConstruct(%{name}.1)\n"
            )
        }
        _ => format!("  %{name} : NoneType = prim::Constant()\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_shows_its_family() {
        for (schema, expected) in [
            ("aten::softsign(Tensor self) -> Tensor", FUNCTIONS),
            ("aten::special_xlog1py(Tensor self, Tensor other) -> Tensor", ARITHMETIC),
            ("aten::nansum(Tensor self, int[1]? dim=None, bool keepdim=False) -> Tensor", REDUCTIONS),
            ("prims::sum(Tensor inp, int[]? dims, *, ScalarType? output_dtype=None) -> Tensor", REDUCTIONS),
            ("aten::linalg_diagonal(Tensor(a) A, *, int offset=0, int dim1=-2, int dim2=-1) -> Tensor(a)", VIEWS),
        ] {
            assert_eq!(family(schema), expected, "{schema}");
        }
        let files = |kind: &str| family(&format!("{kind}(Tensor self, Tensor other) -> Tensor")).rows;
        assert_eq!([files("aten::soft_margin_loss"), files("aten::chain_matmul")], ["loss_rows", "product_rows"]);
        assert_eq!([files("quantized::quantize"), files("aten::scatter")], ["quantised_rows", "index_rows"]);
        assert_eq!([files("prims::shift_left"), files("aten::segment_reduce")], ["bit_rows", "reduction_rows"]);
        let picks = "aten::value_selecting_reduction_backward(Tensor grad, int dim, Tensor indices) -> Tensor";
        assert_eq!(family(picks), INDICES);
    }

    #[test]
    fn files_of_families_have_lists_that_end_in_a_line_of_their_own() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let looks = [VIEWS, REDUCTIONS, ARITHMETIC, FUNCTIONS];
        for family in BY_NAME.iter().map(|(_, family)| *family).chain(looks) {
            for path in
                [format!("src/ops/rows/{}.rs", family.rows), format!("src/interpreter/operators/{}.rs", family.kernels)]
            {
                let text = fs::read_to_string(root.join(&path)).expect("a file of a family");
                assert!(with_last(&text, "ROWS: &[Row] = &[", "").is_ok(), "{path}");
            }
        }
    }

    #[test]
    fn operands_of_a_schema() {
        let all = formals("a::b(Tensor(a -> *) x, int[2] n=[1, 2], *, Tensor? y=None) -> (Tensor, Tensor)");
        let names: Vec<&str> = all.iter().map(|formal| formal.name.as_str()).collect();
        assert_eq!(names, ["x", "n", "y"]);
        assert!(all[0].is_tensor() && !all[2].is_tensor() && all[1].default.as_deref() == Some("[1, 2]"));
        let text = lit_file("a::b", "a::b(Tensor x, Tensor index, Scalar beta=1, str how) -> (Tensor, Tensor)");
        assert_eq!(
            text.split_once("\n\n").map(|(_, graph)| graph),
            Some(
                "graph(%x : Float(2),\n      %index : Long(2)):\n  %beta : int = prim::Constant[value=1]()\n  \
                 %how : str = prim::Constant[value=\"sum\"]()\n  \
                 %r0 : Tensor, %r1 : Tensor = a::b(%x, %index, %beta, %how)\n  return (%r0, %r1)\n"
            )
        );
        assert_eq!(text.matches("# ARGS: ").count(), 2);
    }

    #[test]
    fn rows_and_kernels_are_added_at_the_end() {
        let text =
            "pub const ROWS: &[Row] = &[\n    (\"aten::a\", a),\n];\n\nfn a() {}\n\n#[cfg(test)]\nmod tests {}\n";
        let added = with_kernel(text, "aten::b", "b").expect("a list");
        assert!(added.contains("    (\"aten::a\", a),\n    (\"aten::b\", b),\n];"), "{added}");
        assert!(
            added.contains("fn b(call: &Call<'_>) -> Answer {") && added.ends_with("}\n\n#[cfg(test)]\nmod tests {}\n")
        );
        let hidden = with_kernel(text, "aten::_b", "_b").expect("a list");
        assert!(hidden.contains("    (\"aten::_b\", b),\n") && hidden.contains("fn b("), "{hidden}");
        assert!(check_kind("softsign").is_err() && check_kind("aten::soft sign").is_err());
        assert_eq!(check_kind("aten::softsign").expect("a kind"), "softsign");
    }
}
