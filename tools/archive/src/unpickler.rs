//! Strict unpickler: protocol 2, the opcodes and globals that PyTorch writes. Nothing is called;
//! what a global would make is made here, or the pickle is refused.

use crate::declared_types::Declared;
use crate::pickle_value::{Described, Global, Id, NamedStorage, Pickle, Value};
use crate::refusal::{Refusal, Result, refuse, shown};
use crate::stored_tensors::{Dtype, PerSlice, Quantizer, Signs};
use std::collections::HashSet;

/// Reads a pickle that is exactly these bytes. Memory is bounded by a multiple of their number.
pub(crate) fn unpickle(bytes: &[u8]) -> Result<Pickle> {
    let mut machine = Machine { bytes, ..Machine::default() };
    let root = machine.run().map_err(|mut refusal| {
        refusal.reason += &format!(", at byte {}", machine.at);
        refusal
    })?;
    let pickle = Pickle { values: machine.values, root };
    pickle.check_nesting()?;
    check_keys(&pickle)?;
    Ok(pickle)
}

/// Each dict has each key once: PyTorch would take the last, others the first.
fn check_keys(pickle: &Pickle) -> Result<()> {
    for value in &pickle.values {
        let Value::Dict(entries) = value else { continue };
        let mut seen = HashSet::new();
        if let Some(twice) = entries.iter().filter_map(|(key, _)| pickle.text(*key)).find(|key| !seen.insert(*key)) {
            return refuse(format!("attribute or key {} given twice", shown(twice)));
        }
    }
    Ok(())
}

#[derive(Default)]
struct Machine<'a> {
    bytes: &'a [u8],
    at: usize,
    values: Vec<Value>,
    stack: Vec<Id>,
    marks: Vec<usize>,
    memo: Vec<Id>,
    /// Comparisons of values with types so far.
    compared: u64,
}

impl Machine<'_> {
    fn run(&mut self) -> Result<Id> {
        if self.take(2)? != [0x80, 2] {
            self.at = 0;
            return refuse("the first opcode is not PROTO 2");
        }
        loop {
            let start = self.at;
            let opcode = self.byte()?;
            if opcode == b'.' {
                return self.stop();
            }
            self.step(opcode).inspect_err(|_| self.at = start)?;
        }
    }

    fn stop(&mut self) -> Result<Id> {
        if self.at != self.bytes.len() {
            return refuse(format!("{} bytes after STOP", self.bytes.len() - self.at));
        }
        match self.stack.as_slice() {
            [root] if self.marks.is_empty() => Ok(*root),
            [] => refuse("the stack is empty at STOP"),
            _ => refuse("the stack holds more than one value at STOP"),
        }
    }

    fn step(&mut self, opcode: u8) -> Result<()> {
        match opcode {
            b'(' => self.marks.push(self.stack.len()),
            b'N' => self.push(Value::None),
            0x88 => self.push(Value::Bool(true)),
            0x89 => self.push(Value::Bool(false)),
            b'J' | b'K' | b'M' | 0x8a => self.integer(opcode)?,
            b'G' => {
                let bits = self.array::<8>()?;
                self.push(Value::Float(f64::from_be_bytes(bits)));
            }
            b'X' => self.text()?,
            b'c' => self.global()?,
            b')' => self.push(Value::Tuple(Vec::new())),
            b']' => self.push(Value::List(Vec::new())),
            b'}' => self.push(Value::Dict(Vec::new())),
            b't' | b'l' | 0x85..=0x87 => self.sequence(opcode)?,
            b'd' => {
                let entries = self.entries()?;
                self.push(Value::Dict(entries));
            }
            b'a' | b'e' => self.append(opcode == b'e')?,
            b's' | b'u' => self.set_items(opcode == b'u')?,
            b'q' | b'r' | b'h' | b'j' => self.memo(opcode)?,
            b'Q' => self.persistent()?,
            0x81 => self.new_object()?,
            b'b' => self.build()?,
            b'R' => self.reduce()?,
            _ => return refuse(format!("opcode 0x{opcode:02X} is not one that PyTorch writes")),
        }
        Ok(())
    }

    // ---- bytes

    fn take(&mut self, count: usize) -> Result<&[u8]> {
        let end = self.at.checked_add(count).filter(|end| *end <= self.bytes.len());
        let Some(end) = end else { return refuse("the pickle ends early") };
        let taken = &self.bytes[self.at..end];
        self.at = end;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        self.take(N)?.try_into().map_err(|_| Refusal::new("the pickle ends early"))
    }

    fn byte(&mut self) -> Result<u8> {
        Ok(self.array::<1>()?[0])
    }

    fn line(&mut self) -> Result<String> {
        let rest = &self.bytes[self.at..];
        let Some(end) = rest.iter().position(|byte| *byte == b'\n') else { return refuse("the pickle ends early") };
        let line = std::str::from_utf8(&rest[..end]).map_err(|_| Refusal::new("a global is not UTF-8"))?;
        self.at += end + 1;
        Ok(line.to_owned())
    }

    fn integer(&mut self, opcode: u8) -> Result<()> {
        let number = match opcode {
            b'J' => i64::from(i32::from_le_bytes(self.array()?)),
            b'K' => i64::from(self.byte()?),
            b'M' => i64::from(u16::from_le_bytes(self.array()?)),
            _ => self.long()?,
        };
        self.push(Value::Int(number));
        Ok(())
    }

    /// PyTorch writes eight bytes, Python as few as it needs.
    fn long(&mut self) -> Result<i64> {
        let count = usize::from(self.byte()?);
        if !(1..=8).contains(&count) {
            return refuse(format!("integer over 64 bits: {count} bytes"));
        }
        let bytes = self.take(count)?;
        let fill = if bytes[count - 1] & 0x80 == 0 { 0 } else { 0xff };
        let mut all = [fill; 8];
        all[..count].copy_from_slice(bytes);
        Ok(i64::from_le_bytes(all))
    }

    fn text(&mut self) -> Result<()> {
        let count = u32::from_le_bytes(self.array()?) as usize;
        let text = std::str::from_utf8(self.take(count)?).map_err(|_| Refusal::new("a string is not UTF-8"))?;
        let text = text.to_owned();
        self.push(Value::Text(text));
        Ok(())
    }

    // ---- stack and memo

    fn add(&mut self, value: Value) -> Id {
        self.values.push(value);
        // There are fewer values than bytes, and a pickle of four gigabytes is never read.
        Id((self.values.len() - 1) as u32)
    }

    fn push(&mut self, value: Value) {
        let id = self.add(value);
        self.stack.push(id);
    }

    fn pop(&mut self) -> Result<Id> {
        let floor = self.marks.last().copied().unwrap_or(0);
        if self.stack.len() <= floor {
            return refuse("stack underflow");
        }
        self.stack.pop().map_or_else(|| refuse("stack underflow"), Ok)
    }

    fn top(&self) -> Result<Id> {
        let floor = self.marks.last().copied().unwrap_or(0);
        let top = self.stack.last().copied().filter(|_| self.stack.len() > floor);
        top.map_or_else(|| refuse("stack underflow"), Ok)
    }

    /// The values above the last MARK.
    fn above_mark(&mut self) -> Result<Vec<Id>> {
        let Some(mark) = self.marks.pop() else { return refuse("no MARK") };
        Ok(self.stack.split_off(mark))
    }

    fn entries(&mut self) -> Result<Vec<(Id, Id)>> {
        let all = self.above_mark()?;
        if all.len() % 2 == 1 {
            return refuse("a key without a value");
        }
        Ok(all.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect())
    }

    fn memo(&mut self, opcode: u8) -> Result<()> {
        let wide = matches!(opcode, b'r' | b'j');
        let index = if wide { u32::from_le_bytes(self.array()?) as usize } else { usize::from(self.byte()?) };
        if matches!(opcode, b'h' | b'j') {
            let Some(id) = self.memo.get(index).copied() else {
                return refuse(format!("memo index {index} was never set"));
            };
            self.stack.push(id);
            return Ok(());
        }
        let top = self.top()?;
        match index.cmp(&self.memo.len()) {
            std::cmp::Ordering::Less => self.memo[index] = top,
            std::cmp::Ordering::Equal => self.memo.push(top),
            std::cmp::Ordering::Greater => {
                return refuse(format!("memo index {index} leaves a gap: {} are set", self.memo.len()));
            }
        }
        Ok(())
    }

    // ---- containers

    fn sequence(&mut self, opcode: u8) -> Result<()> {
        let items = match opcode {
            b't' | b'l' => self.above_mark()?,
            _ => {
                let mut items = Vec::new();
                for _ in 0..opcode - 0x84 {
                    items.push(self.pop()?);
                }
                items.reverse();
                items
            }
        };
        self.push(if opcode == b'l' { Value::List(items) } else { Value::Tuple(items) });
        Ok(())
    }

    fn append(&mut self, several: bool) -> Result<()> {
        let new = if several { self.above_mark()? } else { vec![self.pop()?] };
        let list = self.top()?;
        match &mut self.values[list.0 as usize] {
            Value::List(items) => items.extend(new),
            other => return refuse(format!("{} is no list to append to", other.kind())),
        }
        Ok(())
    }

    fn set_items(&mut self, several: bool) -> Result<()> {
        let new = if several {
            self.entries()?
        } else {
            let value = self.pop()?;
            vec![(self.pop()?, value)]
        };
        let dict = self.top()?;
        match &mut self.values[dict.0 as usize] {
            Value::Dict(entries) => entries.extend(new),
            other => return refuse(format!("{} is no dict to add to", other.kind())),
        }
        Ok(())
    }

    // ---- objects

    fn global(&mut self) -> Result<()> {
        let (module, name) = (self.line()?, self.line()?);
        let global = global_of(&module, &name)?;
        self.push(Value::Global(global));
        Ok(())
    }

    fn persistent(&mut self) -> Result<()> {
        let parts = self.pop()?;
        let storage = self.storage_of(parts)?;
        self.push(Value::Storage(storage));
        Ok(())
    }

    fn storage_of(&self, parts: Id) -> Result<NamedStorage> {
        const WRONG: &str = "a persistent id is not a storage, ('storage', type, key, device, elements)";
        let (word, dtype, key, elements) = match self.tuple_of(parts).unwrap_or_default() {
            [word, dtype, key, _device, elements] => (word, dtype, key, elements),
            // Releases 1.3 and 1.4 write what a view of a storage is, which is nothing.
            [word, dtype, key, _device, elements, view] if *self.get(*view) == Value::None => {
                (word, dtype, key, elements)
            }
            _ => return refuse(WRONG),
        };
        if self.text_of(*word) != Ok("storage") {
            return refuse(WRONG);
        }
        let Value::Global(Global::Storage(dtype)) = self.get(*dtype) else { return refuse(WRONG) };
        let elements = self.natural(*elements, "storage size")?;
        Ok(NamedStorage { dtype: *dtype, key: self.text_of(*key)?.to_owned(), elements })
    }

    fn new_object(&mut self) -> Result<()> {
        let arguments = self.pop()?;
        let class = self.pop()?;
        let Value::Global(Global::Class(class)) = self.get(class) else { return refuse("NEWOBJ of no class") };
        let class = class.clone();
        if !self.tuple_of(arguments)?.is_empty() {
            return refuse("NEWOBJ with arguments");
        }
        self.push(Value::Object { class, state: None });
        Ok(())
    }

    fn build(&mut self) -> Result<()> {
        let given = self.pop()?;
        let object = self.top()?;
        match &mut self.values[object.0 as usize] {
            Value::Object { state: state @ None, .. } => *state = Some(given),
            Value::Object { .. } => return refuse("an object is given its state twice"),
            other => return refuse(format!("BUILD of {}, not an object", other.kind())),
        }
        Ok(())
    }

    fn reduce(&mut self) -> Result<()> {
        let arguments = self.pop()?;
        let callable = self.pop()?;
        let Value::Global(global) = self.get(callable) else { return refuse("REDUCE of no global") };
        let global = global.clone();
        let made = self.made(&global, arguments)?;
        self.stack.push(made);
        Ok(())
    }

    /// The result of a global for its arguments.
    fn made(&mut self, global: &Global, arguments: Id) -> Result<Id> {
        if let Global::Class(class) = global {
            return Ok(self.add(Value::Made { class: class.clone(), from: arguments }));
        }
        let all = self.tuple_of(arguments)?.to_vec();
        let value = match (global, all.as_slice()) {
            (Global::OrderedDict, []) => Value::Dict(Vec::new()),
            (Global::OrderedDict, [pairs]) => Value::Dict(self.pairs(*pairs)?),
            (Global::BuildList(element), [list]) => return self.typed_list(element, *list),
            (Global::RestoreTypeTag, [value, tag]) => return self.restored(*value, *tag),
            (Global::BuildTensorFromId, [number]) => Value::LegacyTensor(self.natural(*number, "tensor number")?),
            (Global::Complex, [real, imaginary]) => Value::Complex(self.real(*real)?, self.real(*imaginary)?),
            (Global::Device, [name, ..]) => Value::Device(self.text_of(*name)?.to_owned()),
            (Global::RebuildTensor, _) => self.tensor(&all, false)?,
            (Global::RebuildTensorOfBytes, _) => self.tensor_of_bytes(&all)?,
            (Global::RebuildQuantized, _) => self.tensor(&all, true)?,
            (Global::RebuildParameter, [tensor, requires_grad, _]) => self.parameter(*tensor, *requires_grad)?,
            (Global::RebuildParameterWithState, [tensor, requires_grad, _, state]) => {
                self.check_attributes(*state)?;
                self.parameter(*tensor, *requires_grad)?
            }
            (Global::RebuildTensorOfType, [rebuild, class, arguments, state]) => {
                return self.with_attributes(*rebuild, *class, *arguments, *state);
            }
            (Global::Set, [_]) => Value::Made { class: "builtins.set".to_owned(), from: arguments },
            _ => return refuse(format!("REDUCE of {global:?} with {} arguments", all.len())),
        };
        Ok(self.add(value))
    }

    fn real(&self, id: Id) -> Result<f64> {
        match self.get(id) {
            Value::Float(value) => Ok(*value),
            // Python writes the parts of complex numbers as floats; an int would be one, too.
            Value::Int(value) => Ok(*value as f64),
            other => refuse(format!("{} where a float is expected", other.kind())),
        }
    }

    fn pairs(&self, list: Id) -> Result<Vec<(Id, Id)>> {
        let Value::List(pairs) = self.get(list) else { return refuse("OrderedDict of no list") };
        let pair = |id: &Id| match self.get(*id) {
            Value::Tuple(pair) | Value::List(pair) if pair.len() == 2 => Ok((pair[0], pair[1])),
            _ => refuse("OrderedDict of no pairs"),
        };
        pairs.iter().map(pair).collect()
    }

    fn typed_list(&mut self, element: &str, list: Id) -> Result<Id> {
        let Value::List(items) = &self.values[list.0 as usize] else {
            return refuse(format!("a list of {element} of no list"));
        };
        let (declared, compared) = (Declared::parse(element), &mut self.compared);
        match items.iter().find(|item| !declared.admits(&self.values, **item, compared)) {
            Some(item) => refuse(format!("{} in a list of {element}", self.get(*item).kind())),
            None => Ok(list),
        }
    }

    fn restored(&mut self, value: Id, tag: Id) -> Result<Id> {
        let declared = Declared::parse(self.text_of(tag)?);
        if declared.admits(&self.values, value, &mut self.compared) {
            return Ok(value);
        }
        let tag = self.text_of(tag)?;
        refuse(format!("restore_type_tag with another type: {} is no {}", self.get(value).kind(), shown(tag)))
    }

    fn tensor(&self, all: &[Id], quantized: bool) -> Result<Value> {
        let name = if quantized { "_rebuild_qtensor" } else { "_rebuild_tensor_v2" };
        let wanted = 6 + usize::from(quantized);
        // From 2.0 on a dict of metadata may follow.
        if all.len() != wanted && all.len() != wanted + 1 {
            return refuse(format!("{name} takes {wanted} arguments, not {}", all.len()));
        }
        let Value::Storage(storage) = self.get(all[0]) else {
            return refuse(format!("{name}: storage wanted, not {}", self.get(all[0]).kind()));
        };
        let Value::Bool(requires_grad) = self.get(all[wanted - 2]) else {
            return refuse(format!("{name}: requires_grad is {}", self.get(all[wanted - 2]).kind()));
        };
        let sizes = self.naturals(all[2], "size")?;
        let quantizer = if quantized { Some(self.quantizer(all[4], &sizes)?) } else { None };
        Ok(Value::Tensor(Box::new(Described {
            storage: storage.clone(),
            dtype: storage.dtype,
            offset: self.natural(all[1], "storage offset")?,
            sizes,
            strides: self.naturals(all[3], "stride")?,
            requires_grad: *requires_grad,
            quantizer,
            signs: all.get(wanted).map_or(Ok(Signs::default()), |metadata| self.signs(*metadata))?,
            parameter: false,
        })))
    }

    /// The metadata of a view that conjugates or negates, `{'conj': True}`.
    fn signs(&self, metadata: Id) -> Result<Signs> {
        let entries = match self.get(metadata) {
            Value::None => return Ok(Signs::default()),
            Value::Dict(entries) => entries,
            other => return refuse(format!("the metadata of a tensor is {}", other.kind())),
        };
        let mut signs = Signs::default();
        for (key, value) in entries {
            match (self.text_of(*key)?, self.get(*value)) {
                ("conj", Value::Bool(conjugate)) => signs.conjugate = *conjugate,
                ("neg", Value::Bool(negative)) => signs.negative = *negative,
                (key, _) => return refuse(format!("metadata {} of a tensor is not read", shown(key))),
            }
        }
        Ok(signs)
    }

    /// The same with the element type after the other arguments.
    fn tensor_of_bytes(&self, all: &[Id]) -> Result<Value> {
        let (Some(Value::Global(Global::Dtype(dtype))), Some(usual)) =
            (all.get(6).map(|id| self.get(*id)), all.get(..6))
        else {
            return refuse("_rebuild_tensor_v3 without an element type");
        };
        let signs = all.get(7).map_or(Ok(Signs::default()), |metadata| self.signs(*metadata))?;
        match self.tensor(usual, false)? {
            Value::Tensor(described) => Ok(Value::Tensor(Box::new(Described { dtype: *dtype, signs, ..*described }))),
            other => Ok(other),
        }
    }

    /// A tensor with attributes, which PyTorch sets on it: the compiler marks dynamic dimensions of
    /// the inputs of an exported program so. They do not change the tensor.
    fn with_attributes(&mut self, rebuild: Id, class: Id, arguments: Id, state: Id) -> Result<Id> {
        let (rebuild, class) = (self.get(rebuild).clone(), self.get(class));
        let Value::Global(Global::TensorClass) = class else { return refuse("tensors of subclasses are not read") };
        self.check_attributes(state)?;
        match rebuild {
            Value::Global(global @ (Global::RebuildTensor | Global::RebuildQuantized | Global::RebuildParameter)) => {
                self.made(&global, arguments)
            }
            other => refuse(format!("_rebuild_from_type_v2 of {}, which makes no tensor", other.kind())),
        }
    }

    /// Refuses attributes that are properties of a tensor: setting `data` replaces its elements.
    /// The state is a dict, or a pair of one and of the values of slots, or None.
    fn check_attributes(&self, state: Id) -> Result<()> {
        match self.get(state) {
            Value::Tuple(parts) if parts.len() == 2 => parts.iter().try_for_each(|part| self.check_names(*part)),
            _ => self.check_names(state),
        }
    }

    fn check_names(&self, attributes: Id) -> Result<()> {
        let entries = match self.get(attributes) {
            Value::None => return Ok(()),
            Value::Dict(entries) => entries,
            other => return refuse(format!("the state of a tensor is {}", other.kind())),
        };
        let name = |entry: &(Id, Id)| self.text_of(entry.0);
        let names = entries.iter().map(name).collect::<Result<Vec<&str>>>()?;
        match names.into_iter().find(|name| PROPERTIES.contains(name) || name.starts_with("__")) {
            Some(name) => refuse(format!("the pickled state of a tensor sets its property {}", shown(name))),
            None => Ok(()),
        }
    }

    fn quantizer(&self, parts: Id, sizes: &[u64]) -> Result<Quantizer<Described>> {
        let parts = self.tuple_of(parts)?;
        let scheme = parts.first().map(|scheme| self.get(*scheme));
        match (scheme, parts) {
            (Some(Value::Global(Global::Scheme("per_tensor_affine"))), [_, scale, zero]) => {
                match (self.get(*scale), self.get(*zero)) {
                    (Value::Float(scale), Value::Int(zero)) => {
                        Ok(Quantizer::PerTensor { scale: *scale, zero_point: *zero })
                    }
                    _ => refuse("the scale is no float, or the zero point no int"),
                }
            }
            (Some(Value::Global(Global::Scheme(scheme))), [_, scales, zero_points, axis])
                if scheme.starts_with("per_channel") =>
            {
                let axis = usize::try_from(self.natural(*axis, "axis of the quantiser")?).unwrap_or(usize::MAX);
                let Some(slices) = sizes.get(axis) else {
                    return refuse("the quantiser has an axis that is no dimension");
                };
                let (scales, zero_points) = (self.per_slice(*scales, *slices)?, self.per_slice(*zero_points, *slices)?);
                let floats = *scheme == "per_channel_affine_float_qparams";
                Ok(Quantizer::PerChannel { axis, scales, zero_points, floats })
            }
            _ => refuse("the quantiser is neither per tensor nor per channel"),
        }
    }

    /// Scales or zero points, as many as there are slices.
    fn per_slice(&self, id: Id, slices: u64) -> Result<PerSlice<Described>> {
        let (count, numbers) = match self.get(id) {
            Value::Tensor(tensor) if tensor.quantizer.is_none() && tensor.sizes.len() == 1 => {
                (tensor.sizes[0], PerSlice::Tensor(tensor.clone()))
            }
            Value::List(items) => {
                let numbers = items.iter().map(|item| self.real(*item)).collect::<Result<Vec<f64>>>()?;
                (items.len() as u64, PerSlice::Listed(numbers))
            }
            other => return refuse(format!("{} is no list of scales or zero points", other.kind())),
        };
        if count == slices { Ok(numbers) } else { refuse(format!("{count} scales or zero points for {slices} slices")) }
    }

    fn parameter(&self, tensor: Id, requires_grad: Id) -> Result<Value> {
        match (self.get(tensor), self.get(requires_grad)) {
            (Value::Tensor(tensor), Value::Bool(requires_grad)) => {
                let requires_grad = *requires_grad;
                Ok(Value::Tensor(Box::new(Described { parameter: true, requires_grad, ..(**tensor).clone() })))
            }
            (other, _) => refuse(format!("_rebuild_parameter of {}", other.kind())),
        }
    }

    // ---- reading values

    fn get(&self, id: Id) -> &Value {
        &self.values[id.0 as usize]
    }

    fn text_of(&self, id: Id) -> Result<&str> {
        match self.get(id) {
            Value::Text(text) => Ok(text),
            other => refuse(format!("{} where a str is wanted", other.kind())),
        }
    }

    fn tuple_of(&self, id: Id) -> Result<&[Id]> {
        match self.get(id) {
            Value::Tuple(items) => Ok(items),
            other => refuse(format!("{} where a tuple is wanted", other.kind())),
        }
    }

    fn natural(&self, id: Id, what: &str) -> Result<u64> {
        match self.get(id) {
            Value::Int(number) => u64::try_from(*number).map_err(|_| Refusal::new(format!("negative {what} {number}"))),
            other => refuse(format!("the {what} is {}", other.kind())),
        }
    }

    fn naturals(&self, id: Id, what: &str) -> Result<Vec<u64>> {
        self.tuple_of(id)?.iter().map(|item| self.natural(*item, what)).collect()
    }
}

/// Attributes of `torch.Tensor` that Python code can set and that change what the tensor is.
const PROPERTIES: [&str; 10] = [
    "data",
    "grad",
    "_grad",
    "grad_fn",
    "imag",
    "names",
    "real",
    "requires_grad",
    "_backward_hooks",
    "_post_accumulate_grad_hooks",
];

/// The meaning of a global; all others are refused.
fn global_of(module: &str, name: &str) -> Result<Global> {
    Ok(match (module, name) {
        ("torch._utils", "_rebuild_tensor_v2") => Global::RebuildTensor,
        ("torch._utils", "_rebuild_tensor_v3") => Global::RebuildTensorOfBytes,
        ("torch._utils", "_rebuild_qtensor") => Global::RebuildQuantized,
        ("torch._utils", "_rebuild_parameter") => Global::RebuildParameter,
        ("torch._utils", "_rebuild_parameter_with_state") => Global::RebuildParameterWithState,
        ("torch._tensor", "_rebuild_from_type_v2") => Global::RebuildTensorOfType,
        ("torch", "Tensor") | ("torch.nn.parameter", "Parameter") => Global::TensorClass,
        ("builtins" | "__builtin__", "set") => Global::Set,
        ("torch.jit._pickle", "build_intlist") => Global::BuildList("int"),
        ("torch.jit._pickle", "build_doublelist") => Global::BuildList("float"),
        ("torch.jit._pickle", "build_boollist") => Global::BuildList("bool"),
        ("torch.jit._pickle", "build_tensorlist") => Global::BuildList("Tensor"),
        ("torch.jit._pickle", "build_tensor_from_id") => Global::BuildTensorFromId,
        ("torch.jit._pickle", "restore_type_tag") => Global::RestoreTypeTag,
        ("collections", "OrderedDict") => Global::OrderedDict,
        ("builtins" | "__builtin__", "complex") => Global::Complex,
        ("torch", "device") => Global::Device,
        ("torch", "per_tensor_affine") => Global::Scheme("per_tensor_affine"),
        ("torch", "per_channel_affine") => Global::Scheme("per_channel_affine"),
        ("torch", "per_channel_affine_float_qparams") => Global::Scheme("per_channel_affine_float_qparams"),
        ("torch", _) if name.ends_with("Storage") => Global::Storage(Dtype::of_storage(name)?),
        ("torch.storage", "UntypedStorage") => Global::Storage(Dtype::of_storage("ByteStorage")?),
        ("torch", _) if Dtype::of_name(name).is_ok() => Global::Dtype(Dtype::of_name(name)?),
        _ if module == "__torch__" || module.starts_with("__torch__.") => class_of(module, name)?,
        _ => {
            let global = shown(&format!("{module}.{name}"));
            let help = "PyTorch writes no such global into archives of programs; do not load this file with Python";
            let refusal = Refusal::new(format!("global {global} is not allowed")).with_help(help);
            return Err(Refusal { global: Some(format!("{module}.{name}")), ..refusal });
        }
    })
}

fn class_of(module: &str, name: &str) -> Result<Global> {
    let class = format!("{module}.{name}");
    let is_name = |part: &str| !part.is_empty() && part.chars().all(|c| c.is_alphanumeric() || c == '_');
    if class.split('.').all(is_name) {
        Ok(Global::Class(class))
    } else {
        refuse(format!("class name {}", shown(&class)))
    }
}
