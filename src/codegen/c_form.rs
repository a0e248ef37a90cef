//! Kernels as C: readable, without headers, each statement beside its IR line.
//!
//! A kernel is one function over a range of tiles of its iteration space. Offsets of rows are stepped, not divided; a tile is one loop, or
//! one for each stage, all of which a compiler can make vectors of:
//!
//! ```c
//! for (i64 i = 0; i < m; i++) {
//!     const float v_x = x0[i];                     // %x
//!     const float v_y = v_x <= 0 ? 0 : v_x;        // %y : Float(*) = aten::relu(%x)
//!     y0[i] = v_y;
//! }
//! ```

use super::kernel::{Inner, Input, Kernel, Source, Step};
use super::prelude;
use super::staging::{Stages, stages};
use crate::tensor::{DType, Kind, Scalar};
use std::collections::BTreeSet;
use std::fmt::Write;

/// Elements in a tile of one loop: the overhead of a tile is nothing beside it, and there are enough of them to share out.
pub const WHOLE_TILE: usize = 4096;
/// Elements in a tile of several loops: the buffers between them stay in the first level of cache. Measured for an LSTM cell.
pub const STAGED_TILE: usize = 256;

/// Elements in a tile of a kernel.
pub fn tile(kernel: &Kernel) -> usize {
    if stages(kernel).count > 1 { STAGED_TILE } else { WHOLE_TILE }
}

/// One translation unit of several kernels: what they call of the prelude, then each as a function of its name.
pub fn unit(kernels: &[(&str, &Kernel, &[Inner])]) -> String {
    let functions: Vec<String> = kernels.iter().map(|(name, kernel, inner)| function(name, kernel, inner)).collect();
    let mut text = prelude::types().to_owned();
    text += &prelude::used_by(functions.iter().map(String::as_str));
    for function in functions {
        text += "\n";
        text += &function;
    }
    text
}

/// The identifiers in a formula.
pub fn names(text: &str) -> impl Iterator<Item = &str> {
    tokens(text).filter(|token| token.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_'))
}

/// Words, numbers, and everything else character by character.
fn tokens(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let first = rest.chars().next()?;
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
        let end = if is_word(first) { rest.find(|c| !is_word(c)).unwrap_or(rest.len()) } else { first.len_utf8() };
        let (token, after) = rest.split_at(end);
        rest = after;
        Some(token)
    })
}

/// A type of C that holds the elements of a type in memory.
pub fn memory_type(dtype: DType) -> &'static str {
    match dtype {
        DType::Char => "i8",
        DType::Short => "i16",
        DType::Int => "i32",
        DType::Long => "i64",
        DType::Half | DType::BFloat16 => "u16",
        DType::Float => "float",
        DType::Double => "double",
        _ => "u8",
    }
}

/// The type that values of an element type are computed in.
fn value_type(dtype: DType) -> &'static str {
    match dtype {
        DType::Half | DType::BFloat16 => "float",
        other => memory_type(other),
    }
}

/// The function of a kernel. `inner` has an entry for each access.
pub fn function(name: &str, kernel: &Kernel, inner: &[Inner]) -> String {
    let mut writer = Writer { kernel, inner, stages: stages(kernel), out: String::new() };
    writer.head(name);
    writer.walk();
    writer.out
}

struct Writer<'k> {
    kernel: &'k Kernel,
    inner: &'k [Inner],
    stages: Stages,
    out: String,
}

/// Column that comments begin in.
const MARGIN: usize = 68;

impl Writer<'_> {
    fn line(&mut self, indent: usize, text: &str) {
        let _ = writeln!(self.out, "{:indent$}{text}", "");
    }

    /// A statement, and the IR line that it is of.
    fn noted(&mut self, indent: usize, text: &str, note: &str) {
        // A comment that ends in a backslash goes on in the next line.
        let note = note.replace('\\', "/");
        let width = MARGIN.saturating_sub(indent);
        let _ = writeln!(self.out, "{:indent$}{text:width$} // {note}", "");
    }

    fn head(&mut self, name: &str) {
        let kernel = self.kernel;
        self.line(0, &format!("// {}", kernel.group));
        for assumed in &kernel.assumed {
            self.line(0, &format!("// {assumed}"));
        }
        let list = |names: Vec<String>| names.join(", ");
        let loads =
            (0..kernel.loads.len()).map(|i| format!("{} {}", self.access_name(i), kernel.loads[i].dtype.name()));
        self.line(0, &format!("// data: {}", list(loads.collect())));
        let stored = |k: usize| kernel.made[kernel.stores[k].tensor].dtype.name();
        let stores = (0..kernel.stores.len()).map(|k| format!("{} {}", self.store_name(k), stored(k)));
        self.line(0, &format!("// and then, written: {}", list(stores.collect())));
        self.line(
            0,
            &format!(
                "void {name}(const i64 *shape, i64 rank, i64 begin, i64 end, char *const *data, const i64 *strides,\n          const double *reals, const i64 *wholes)"
            ),
        );
        self.line(0, "{");
        self.line(4, "(void)reals, (void)wholes;");
    }

    fn access_name(&self, access: usize) -> String {
        match access.checked_sub(self.kernel.loads.len()) {
            None => format!("in{access}"),
            Some(store) => self.store_name(store),
        }
    }

    fn store_name(&self, store: usize) -> String {
        format!("out{store}")
    }

    fn dtype_of(&self, access: usize) -> DType {
        match access.checked_sub(self.kernel.loads.len()) {
            None => self.kernel.loads[access].dtype,
            Some(store) => self.kernel.made[self.kernel.stores[store].tensor].dtype,
        }
    }

    /// From tile to tile: rows are walked by adding strides.
    fn walk(&mut self) {
        let accesses = self.kernel.accesses();
        let tile = tile(self.kernel);
        self.line(4, &format!("const i64 n = shape[rank - 1], tiles = (n + {}) / {tile};", tile - 1));
        self.line(4, "i64 row = begin / tiles, tile = begin % tiles, at[64];");
        let offsets: Vec<String> = (0..accesses).map(|k| format!("at{k} = 0")).collect();
        self.line(4, &format!("i64 {};", offsets.join(", ")));
        self.line(4, "for (i64 d = rank - 2; d >= 0; d--) {");
        self.line(8, "at[d] = row % shape[d], row /= shape[d];");
        for k in 0..accesses {
            self.line(8, &format!("at{k} += at[d] * strides[{k} * rank + d];"));
        }
        self.line(4, "}");
        self.line(4, "for (i64 item = begin; item < end; item++) {");
        self.line(8, &format!("const i64 from = tile * {tile}, m = n - from < {tile} ? n - from : {tile};"));
        (0..accesses).for_each(|k| self.pointer(k));
        self.buffers(tile);
        (0..self.stages.count).for_each(|stage| self.stage(stage));
        self.line(8, "if (++tile < tiles) continue;");
        self.line(8, "tile = 0;");
        self.line(8, "for (i64 d = rank - 2; d >= 0; d--) {");
        for k in 0..accesses {
            self.line(12, &format!("at{k} += strides[{k} * rank + d];"));
        }
        self.line(12, "if (++at[d] < shape[d]) break;");
        for k in 0..accesses {
            self.line(12, &format!("at{k} -= shape[d] * strides[{k} * rank + d];"));
        }
        self.line(12, "at[d] = 0;");
        self.line(8, "}");
        self.line(4, "}");
        self.line(0, "}");
    }

    fn pointer(&mut self, access: usize) {
        let (name, element) = (self.access_name(access), memory_type(self.dtype_of(access)));
        let constant = if access < self.kernel.loads.len() { "const " } else { "" };
        let from = match self.inner[access] {
            Inner::Still => String::new(),
            Inner::Unit => " + from".to_owned(),
            Inner::Strided => format!(" + from * s{access}"),
        };
        if self.inner[access] == Inner::Strided {
            self.line(8, &format!("const i64 s{access} = strides[{access} * rank + rank - 1];"));
        }
        let pointer =
            format!("{constant}{element} *restrict {name} = ({constant}{element} *)data[{access}] + at{access}{from};");
        self.line(8, &pointer);
    }

    /// What one stage computes for later ones.
    fn buffers(&mut self, tile: usize) {
        for step in self.carried() {
            let step = &self.kernel.steps[step];
            let text = format!("{} {}_t[{tile}];", value_type(step.out), step.name);
            self.line(8, &text);
        }
    }

    /// The steps whose values are read in a later stage than that in which they are computed.
    fn carried(&self) -> Vec<usize> {
        let read = |(reader, step): (usize, &Step)| -> Vec<usize> {
            let later = |input: &Input| match input.source {
                Source::Step(i) if self.stages.of_step[i] < self.stages.of_step[reader] => Some(i),
                _ => None,
            };
            step.inputs.iter().filter_map(later).collect()
        };
        let carried: BTreeSet<usize> = self.kernel.steps.iter().enumerate().flat_map(read).collect();
        carried.into_iter().collect()
    }

    fn stage(&mut self, stage: usize) {
        let carried = self.carried();
        let mut declared: BTreeSet<String> = BTreeSet::new();
        self.line(8, "#pragma omp simd");
        self.line(8, "for (i64 i = 0; i < m; i++) {");
        for (i, step) in self.kernel.steps.iter().enumerate() {
            if self.stages.of_step[i] != stage {
                continue;
            }
            for input in &step.inputs {
                self.declare(input.source, stage, &mut declared);
            }
            let statement = format!("const {} {} = {};", value_type(step.out), step.name, self.expression(step));
            self.noted(12, &statement, &step.line);
            declared.insert(step.name.clone());
            if carried.contains(&i) {
                self.line(12, &format!("{0}_t[i] = {0};", step.name));
            }
        }
        for (k, store) in self.kernel.stores.iter().enumerate() {
            if self.stages.of(store.source) == stage {
                self.declare(store.source, stage, &mut declared);
                self.store(k);
            }
        }
        self.line(8, "}");
    }

    /// Makes a value known in a stage that does not compute it.
    fn declare(&mut self, source: Source, stage: usize, declared: &mut BTreeSet<String>) {
        let name = self.name(source, DType::Float);
        match source {
            Source::Load(k) if declared.insert(name.clone()) => {
                let load = &self.kernel.loads[k];
                let element = format!("in{k}{}", self.index(k));
                let statement = format!("const {} {name} = {};", value_type(load.dtype), widened(&element, load.dtype));
                let line = load.line.clone();
                self.noted(12, &statement, &line);
            }
            Source::Step(i) if self.stages.of_step[i] != stage && declared.insert(name.clone()) => {
                let statement = format!("const {} {name} = {name}_t[i];", value_type(self.kernel.steps[i].out));
                self.line(12, &statement);
            }
            _ => {}
        }
    }

    fn index(&self, access: usize) -> String {
        match self.inner[access] {
            Inner::Still => "[0]".to_owned(),
            Inner::Unit => "[i]".to_owned(),
            Inner::Strided => format!("[i * s{access}]"),
        }
    }

    fn store(&mut self, k: usize) {
        let store = self.kernel.stores[k];
        let made = &self.kernel.made[store.tensor];
        let value = converted(&self.name(store.source, store.dtype), store.dtype, made.dtype);
        let value = match made.dtype {
            DType::Half => format!("jo_to_half({value})"),
            DType::BFloat16 => format!("jo_to_bfloat16({value})"),
            _ => value,
        };
        let access = self.kernel.loads.len() + k;
        let statement = format!("{}{} = {value};", self.store_name(k), self.index(access));
        let part = store.part.map_or(String::new(), |part| format!(", part {}", part.index));
        self.noted(12, &statement, &format!("a result{part}"));
    }

    /// A value as an expression, constants as numbers of a type.
    fn name(&self, source: Source, dtype: DType) -> String {
        match source {
            Source::Load(k) => self.kernel.loads[k].name.clone(),
            Source::Step(i) => self.kernel.steps[i].name.clone(),
            Source::Real(k) => format!("reals[{k}]"),
            Source::Whole(k) => format!("wholes[{k}]"),
            Source::Constant(scalar) => literal(scalar, dtype),
        }
    }

    fn expression(&self, step: &Step) -> String {
        let suffix = if value_type(step.computed) == "float" { "f" } else { "" };
        let is_real = step.computed.is_float();
        let mut text = String::new();
        let mut all = tokens(step.text).peekable();
        while let Some(token) = all.next() {
            let is_called = all.peek() == Some(&"(");
            let input = step.inputs.iter().find(|input| token.len() == 1 && token.starts_with(input.letter));
            match input {
                Some(input) if !is_called => text += &self.input(input),
                _ if is_called && token.starts_with(|c: char| c.is_ascii_alphabetic()) => {
                    let _ = write!(text, "jo_{token}{suffix}");
                }
                _ if is_real && token.contains('.') => {
                    text += &literal(Scalar::Float(token.parse().unwrap_or(0.0)), step.computed)
                }
                _ => text += token,
            }
        }
        match step.out == DType::Bool && step.computed == DType::Bool {
            true => format!("({text}) != 0"),
            false => text,
        }
    }

    fn input(&self, input: &Input) -> String {
        match input.source {
            Source::Constant(scalar) => literal(scalar, input.to),
            source => converted(&self.name(source, input.dtype), input.dtype, input.to),
        }
    }
}

/// An element of memory as a value.
fn widened(element: &str, dtype: DType) -> String {
    match dtype {
        DType::Half => format!("jo_from_half({element})"),
        DType::BFloat16 => format!("jo_from_bfloat16({element})"),
        _ => element.to_owned(),
    }
}

/// A value of one type as one of another: whole numbers wrap, reals are cut, what is not 0 is true.
fn converted(value: &str, from: DType, to: DType) -> String {
    let is_real = |dtype: DType| dtype.arithmetic() == Some(Kind::Float);
    match to {
        _ if from == to => value.to_owned(),
        DType::Bool => format!("({value} != 0)"),
        DType::Half => format!("jo_from_half(jo_to_half((float){value}))"),
        DType::BFloat16 => format!("jo_from_bfloat16(jo_to_bfloat16((float){value}))"),
        _ if is_real(to) && value_type(from) == value_type(to) => value.to_owned(),
        _ if is_real(from) && !is_real(to) => {
            let cut = format!("jo_cut{}({value})", if value_type(from) == "float" { "f" } else { "" });
            if to == DType::Long { cut } else { format!("({}){cut}", value_type(to)) }
        }
        _ => format!("({}){value}", value_type(to)),
    }
}

/// A number as a literal of a type, exactly.
fn literal(scalar: Scalar, dtype: DType) -> String {
    let text = match dtype.arithmetic() {
        Some(Kind::Float) if dtype == DType::Double => real_literal(scalar.real(), scalar.real().to_string(), ""),
        Some(Kind::Float) => {
            let x = scalar.real() as f32;
            real_literal(f64::from(x), x.to_string(), "f")
        }
        _ => match scalar.int() {
            // Its absolute value is no number of the type.
            i64::MIN => "(-9223372036854775807LL - 1)".to_owned(),
            n if i32::try_from(n).is_err() => format!("{n}LL"),
            n => n.to_string(),
        },
    };
    if text.starts_with('-') { format!("({text})") } else { text }
}

fn real_literal(x: f64, shortest: String, suffix: &str) -> String {
    if x.is_nan() {
        return format!("__builtin_nan{suffix}(\"\")");
    }
    if x.is_infinite() {
        return format!("{}__builtin_inf{suffix}()", if x < 0.0 { "-" } else { "" });
    }
    // Numbers far from 1 are written with all their zeros otherwise.
    let text = if x != 0.0 && !(1e-4..1e15).contains(&x.abs()) {
        match suffix {
            "f" => format!("{:e}", x as f32),
            _ => format!("{x:e}"),
        }
    } else {
        shortest
    };
    let point = if text.contains(['.', 'e']) { "" } else { ".0" };
    format!("{text}{point}{suffix}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_are_exact_and_c() {
        let real = |x: f64, dtype| literal(Scalar::Float(x), dtype);
        assert_eq!(real(0.1, DType::Float), "0.1f");
        assert_eq!(real(0.1, DType::Half), "0.1f");
        assert_eq!(real(1.0, DType::Double), "1.0");
        assert_eq!(real(-2.5, DType::Double), "(-2.5)");
        // Six digits do not tell these two apart, which once made one kernel of two.
        assert_eq!(real(1.2345671, DType::Float), "1.234567f");
        assert_eq!(real(1.2345679, DType::Float), "1.2345679f");
        assert_eq!(real(1e-30, DType::Float), "1e-30f");
        assert_eq!(real(1e300, DType::Double), "1e300");
        assert_eq!(real(f64::NEG_INFINITY, DType::Float), "(-__builtin_inff())");
        assert_eq!(real(-0.0, DType::Float), "(-0.0f)");
        assert_eq!(literal(Scalar::Int(i64::MIN), DType::Long), "(-9223372036854775807LL - 1)");
        assert_eq!(literal(Scalar::Int(1 << 40), DType::Long), "1099511627776LL");
        assert_eq!(literal(Scalar::Int(3), DType::Float), "3.0f");
        // As PyTorch, a plain number is converted to the type of the tensor.
        assert_eq!(literal(Scalar::Float(2.7), DType::Int), "2");
    }

    #[test]
    fn tokens_keep_numbers_whole() {
        assert_eq!(names("a * sigmoid(1.5 * (a + 0.044715 * b))").collect::<Vec<_>>(), ["a", "sigmoid", "a", "b"]);
    }
}
