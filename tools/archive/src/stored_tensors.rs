//! Tensors as an archive stores them: views of storages, which are records.

use crate::refusal::{Result, refuse, shown};
use std::ops::Range;

/// Element types. The numbers of exported programs are one more than PyTorch's `ScalarType`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Dtype(usize);

/// The properties of an element type.
struct Row {
    /// PyTorch's name, without `torch.`.
    name: &'static str,
    /// The name before `Storage` in pickles, and its bytes.
    storage: &'static str,
    bytes: u64,
    /// The name in safetensors.
    safetensors: Option<&'static str>,
}

const fn row(name: &'static str, storage: &'static str, bytes: u64, safetensors: &'static str) -> Row {
    Row { name, storage, bytes, safetensors: if safetensors.is_empty() { None } else { Some(safetensors) } }
}

/// In the order of `c10/core/ScalarType.h`; types below a byte are not read.
const ROWS: [Row; 45] = [
    row("uint8", "Byte", 1, "U8"),
    row("int8", "Char", 1, "I8"),
    row("int16", "Short", 2, "I16"),
    row("int32", "Int", 4, "I32"),
    row("int64", "Long", 8, "I64"),
    row("float16", "Half", 2, "F16"),
    row("float32", "Float", 4, "F32"),
    row("float64", "Double", 8, "F64"),
    row("complex32", "ComplexHalf", 4, ""),
    row("complex64", "ComplexFloat", 8, "C64"),
    row("complex128", "ComplexDouble", 16, ""),
    row("bool", "Bool", 1, "BOOL"),
    row("qint8", "QInt8", 1, ""),
    row("quint8", "QUInt8", 1, ""),
    row("qint32", "QInt32", 4, ""),
    row("bfloat16", "BFloat16", 2, "BF16"),
    row("quint4x2", "QUInt4x2", 0, ""),
    row("quint2x4", "QUInt2x4", 0, ""),
    row("bits1x8", "Bits1x8", 1, ""),
    row("bits2x4", "Bits2x4", 1, ""),
    row("bits4x2", "Bits4x2", 1, ""),
    row("bits8", "Bits8", 1, ""),
    row("bits16", "Bits16", 2, ""),
    row("float8_e5m2", "Float8_e5m2", 1, "F8_E5M2"),
    row("float8_e4m3fn", "Float8_e4m3fn", 1, "F8_E4M3"),
    row("float8_e5m2fnuz", "Float8_e5m2fnuz", 1, ""),
    row("float8_e4m3fnuz", "Float8_e4m3fnuz", 1, ""),
    row("uint16", "UInt16", 2, "U16"),
    row("uint32", "UInt32", 4, "U32"),
    row("uint64", "UInt64", 8, "U64"),
    row("uint1", "UInt1", 0, ""),
    row("uint2", "UInt2", 0, ""),
    row("uint3", "UInt3", 0, ""),
    row("uint4", "UInt4", 0, ""),
    row("uint5", "UInt5", 0, ""),
    row("uint6", "UInt6", 0, ""),
    row("uint7", "UInt7", 0, ""),
    row("int1", "Int1", 0, ""),
    row("int2", "Int2", 0, ""),
    row("int3", "Int3", 0, ""),
    row("int4", "Int4", 0, ""),
    row("int5", "Int5", 0, ""),
    row("int6", "Int6", 0, ""),
    row("int7", "Int7", 0, ""),
    row("float8_e8m0fnu", "Float8_e8m0fnu", 1, "F8_E8M0"),
];

impl Dtype {
    /// By PyTorch's number.
    pub(crate) fn of_number(number: i64) -> Result<Dtype> {
        let known = usize::try_from(number).ok().filter(|number| *number < ROWS.len());
        known.map_or_else(|| refuse(format!("there is no element type {number}")), |number| Dtype(number).readable())
    }

    /// By the name of a storage class in pickles, such as `FloatStorage`.
    pub(crate) fn of_storage(name: &str) -> Result<Dtype> {
        let known = name.strip_suffix("Storage").and_then(|name| ROWS.iter().position(|row| row.storage == name));
        known.map_or_else(|| refuse(format!("unknown storage class {}", shown(name))), |at| Dtype(at).readable())
    }

    /// By PyTorch's name, such as `float32`.
    pub(crate) fn of_name(name: &str) -> Result<Dtype> {
        let known = ROWS.iter().position(|row| row.name == name);
        known.map_or_else(|| refuse(format!("unknown element type {}", shown(name))), |at| Dtype(at).readable())
    }

    /// Refuses types with less than a byte: how their storages count is not known here.
    fn readable(self) -> Result<Dtype> {
        if self.bytes() == 0 { refuse(format!("elements of type {} are not read", self.name())) } else { Ok(self) }
    }

    /// PyTorch's name, without `torch.`.
    pub fn name(self) -> &'static str {
        ROWS[self.0].name
    }

    /// The bytes of an element.
    pub fn bytes(self) -> u64 {
        ROWS[self.0].bytes
    }

    /// The name in safetensors, if there is one.
    pub fn safetensors(self) -> Option<&'static str> {
        ROWS[self.0].safetensors
    }

    /// Whether elements are integers with a scale.
    pub fn is_quantized(self) -> bool {
        ROWS[self.0].name.starts_with('q')
    }
}

/// Scale and zero point of a quantised tensor. `T` is a tensor of scales or zero points.
#[derive(Clone, Debug, PartialEq)]
pub enum Quantizer<T = StoredTensor> {
    /// One scale and zero point.
    PerTensor {
        /// The scale of an integer step.
        scale: f64,
        /// The integer that means 0.
        zero_point: i64,
    },
    /// One of each for every index along this dimension.
    PerChannel {
        /// The dimension.
        axis: usize,
        /// The scale of each slice.
        scales: PerSlice<T>,
        /// The zero point of each slice.
        zero_points: PerSlice<T>,
        /// Whether zero points are floats, as those of embeddings are.
        floats: bool,
    },
}

/// A number for each slice.
#[derive(Clone, Debug, PartialEq)]
pub enum PerSlice<T = StoredTensor> {
    /// A tensor, from 1.5 on.
    Tensor(Box<T>),
    /// A list.
    Listed(Vec<f64>),
}

impl<T> PerSlice<T> {
    /// Converts its tensors.
    pub(crate) fn with<U>(&self, mut form: impl FnMut(&T) -> Result<U>) -> Result<PerSlice<U>> {
        Ok(match self {
            PerSlice::Tensor(tensor) => PerSlice::Tensor(Box::new(form(tensor)?)),
            PerSlice::Listed(numbers) => PerSlice::Listed(numbers.clone()),
        })
    }
}

impl<T> Quantizer<T> {
    /// Converts its tensors.
    pub(crate) fn with<U>(&self, mut form: impl FnMut(&T) -> Result<U>) -> Result<Quantizer<U>> {
        Ok(match self {
            Quantizer::PerTensor { scale, zero_point } => {
                Quantizer::PerTensor { scale: *scale, zero_point: *zero_point }
            }
            Quantizer::PerChannel { axis, scales, zero_points, floats } => {
                let scales = scales.with(&mut form)?;
                let zero_points = zero_points.with(&mut form)?;
                Quantizer::PerChannel { axis: *axis, scales, zero_points, floats: *floats }
            }
        })
    }
}

/// A view of a storage.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredTensor {
    /// The type of the elements.
    pub dtype: Dtype,
    /// Elements along each dimension.
    pub sizes: Vec<u64>,
    /// Elements between neighbours along each dimension.
    pub strides: Vec<u64>,
    /// The element of the storage that is the first of the tensor.
    pub offset: u64,
    /// The storage, by its number in the archive. Tensors that share memory have the same.
    pub storage: usize,
    /// Whether gradients are computed for it.
    pub requires_grad: bool,
    /// The meaning of its integers.
    pub quantizer: Option<Quantizer>,
    /// Which signs of its elements are other ones than those stored.
    pub signs: Signs,
}

/// Signs that a view changes, as those of `x.conj()` and `x.conj().imag` do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Signs {
    /// Complex elements are the conjugates of those stored.
    pub conjugate: bool,
    /// Elements are the negatives of those stored.
    pub negative: bool,
}

impl Signs {
    /// Whether elements are not those stored.
    pub fn change(self) -> bool {
        self.conjugate || self.negative
    }

    /// Changes the signs of little-endian elements: the highest bit of each number.
    fn apply(self, dtype: Dtype, bytes: &mut [u8]) {
        let is_complex = dtype.name().starts_with("complex");
        let width = usize::try_from(dtype.bytes()).unwrap_or(1) / if is_complex { 2 } else { 1 };
        for (place, number) in bytes.chunks_exact_mut(width.max(1)).enumerate() {
            let flips = self.negative != (self.conjugate && is_complex && place % 2 == 1);
            if let Some(last) = number.last_mut().filter(|_| flips) {
                *last ^= 0x80;
            }
        }
    }
}

impl StoredTensor {
    /// Elements.
    pub fn elements(&self) -> u64 {
        self.sizes.iter().product()
    }

    /// Bytes of the elements, each counted once.
    pub fn bytes(&self) -> u64 {
        self.elements().saturating_mul(self.dtype.bytes())
    }

    /// Refuses a tensor that leaves its storage of `bytes` bytes. Nothing here overflows.
    pub(crate) fn check(&self, bytes: u64) -> Result<()> {
        if self.sizes.len() != self.strides.len() {
            return refuse(format!("{} sizes, {} strides", self.sizes.len(), self.strides.len()));
        }
        let elements = self.sizes.iter().try_fold(1u64, |all, size| all.checked_mul(*size));
        // A product of other sizes may overflow although one is zero; PyTorch refuses that too.
        if elements.and_then(|elements| elements.checked_mul(self.dtype.bytes())).is_none() {
            return refuse("the number of elements overflows");
        }
        let last = if elements == Some(0) { Some(0) } else { self.end() };
        let needed = last.and_then(|last| last.checked_mul(self.dtype.bytes()));
        match needed {
            Some(needed) if needed <= bytes => Ok(()),
            Some(needed) => refuse(format!("tensor leaves its storage: it needs {needed} bytes of {bytes}")),
            None => refuse("tensor leaves its storage: sizes and strides overflow"),
        }
    }

    /// Elements of the storage up to the last one of the tensor.
    fn end(&self) -> Option<u64> {
        let reach = |all: u64, (size, stride): (&u64, &u64)| all.checked_add((size - 1).checked_mul(*stride)?);
        self.sizes.iter().zip(&self.strides).try_fold(self.offset, reach)?.checked_add(1)
    }

    /// The elements in row-major order, from the bytes of the storage.
    pub(crate) fn gathered(&self, storage: &[u8]) -> Option<Vec<u8>> {
        let mut bytes = self.gathered_as_stored(storage)?;
        if self.signs.change() {
            self.signs.apply(self.dtype, &mut bytes);
        }
        Some(bytes)
    }

    /// Where in the bytes of the storage the elements are, if they are there in row-major order.
    pub(crate) fn place_in_storage(&self) -> Option<Range<usize>> {
        if self.signs.change() || !self.is_contiguous() {
            return None;
        }
        if self.elements() == 0 {
            return Some(0..0);
        }
        let start = usize::try_from(self.offset.checked_mul(self.dtype.bytes())?).ok()?;
        Some(start..start.checked_add(usize::try_from(self.bytes()).ok()?)?)
    }

    fn gathered_as_stored(&self, storage: &[u8]) -> Option<Vec<u8>> {
        let width = usize::try_from(self.dtype.bytes()).ok()?;
        let count = usize::try_from(self.elements()).ok()?;
        // A view may repeat elements: a size may be much larger than the storage.
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(count.checked_mul(width)?).ok()?;
        if self.is_contiguous() {
            let start = usize::try_from(self.offset).ok()?.checked_mul(width)?;
            let end = start.checked_add(count * width)?;
            bytes.extend_from_slice(if count == 0 { &[] } else { storage.get(start..end)? });
            return Some(bytes);
        }
        let mut index = vec![0u64; self.sizes.len()];
        let mut at = self.offset;
        for _ in 0..count {
            let start = usize::try_from(at).ok()?.checked_mul(width)?;
            bytes.extend_from_slice(storage.get(start..start + width)?);
            self.advance(&mut index, &mut at);
        }
        Some(bytes)
    }

    /// The next index in row-major order, and its place.
    fn advance(&self, index: &mut [u64], at: &mut u64) {
        for dim in (0..index.len()).rev() {
            index[dim] += 1;
            *at = at.wrapping_add(self.strides[dim]);
            if index[dim] < self.sizes[dim] {
                return;
            }
            *at = at.wrapping_sub(self.strides[dim].wrapping_mul(self.sizes[dim]));
            index[dim] = 0;
        }
    }

    fn is_contiguous(&self) -> bool {
        let mut wanted = 1u64;
        for (size, stride) in self.sizes.iter().zip(&self.strides).rev() {
            if *size != 1 && *stride != wanted {
                return self.elements() == 0;
            }
            wanted = wanted.saturating_mul(*size);
        }
        true
    }
}

/// The role of a tensor in the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Trained.
    Parameter,
    /// Part of the state, not trained.
    Buffer,
    /// An attribute that is neither.
    Attribute,
    /// A constant of the code.
    Constant,
    /// Part of a state that code of the archive (`__setstate__`) or of PyTorch makes an object of.
    State,
}

impl Role {
    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Role::Parameter => "parameter",
            Role::Buffer => "buffer",
            Role::Attribute => "attribute",
            Role::Constant => "constant",
            Role::State => "state",
        }
    }
}

/// A tensor under its qualified name, such as `encoder.0.weight`.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedTensor {
    /// The qualified name.
    pub name: String,
    /// Its role in the module.
    pub role: Role,
    /// The view.
    pub tensor: StoredTensor,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn tensor(sizes: &[u64], strides: &[u64], offset: u64) -> StoredTensor {
        let dtype = Dtype::of_name("int16").expect("a type");
        let (sizes, strides) = (sizes.to_vec(), strides.to_vec());
        StoredTensor {
            dtype,
            sizes,
            strides,
            offset,
            storage: 0,
            requires_grad: false,
            quantizer: None,
            signs: Signs::default(),
        }
    }

    #[test]
    fn views_are_gathered_in_row_major_order() {
        let bytes: Vec<u8> = (0..12).collect();
        assert_eq!(tensor(&[2, 2], &[1, 2], 1).gathered(&bytes), Some(vec![2, 3, 6, 7, 4, 5, 8, 9]));
        assert_eq!(tensor(&[2], &[0], 5).gathered(&bytes), Some(vec![10, 11, 10, 11]));
        assert_eq!(tensor(&[], &[], 0).gathered(&bytes), Some(vec![0, 1]));
        assert_eq!(tensor(&[0, 3], &[3, 1], 0).gathered(&bytes), Some(vec![]));
    }

    #[test]
    fn signs_of_conjugates_and_negatives_are_changed() {
        let numbers = |all: [f32; 4]| all.map(f32::to_le_bytes).concat();
        let dtype = Dtype::of_name("complex64").expect("a type");
        let stored = StoredTensor { dtype, ..tensor(&[2], &[1], 0) };
        let with = |conjugate: bool, negative: bool| {
            StoredTensor { signs: Signs { conjugate, negative }, ..stored.clone() }
                .gathered(&numbers([1.0, 2.0, 3.0, 4.0]))
        };
        assert_eq!(with(true, false), Some(numbers([1.0, -2.0, 3.0, -4.0])));
        assert_eq!(with(false, true), Some(numbers([-1.0, -2.0, -3.0, -4.0])));
        assert_eq!(with(true, true), Some(numbers([-1.0, 2.0, -3.0, 4.0])));
    }

    #[test]
    fn a_tensor_that_leaves_its_storage_is_refused() {
        assert!(tensor(&[3, 2], &[2, 1], 0).check(12).is_ok());
        assert!(tensor(&[3, 2], &[2, 1], 1).check(12).is_err());
        assert!(tensor(&[2], &[u64::MAX], 0).check(12).is_err());
        assert!(tensor(&[1 << 62, 4], &[0, 0], 0).check(12).is_err());
        assert!(tensor(&[2], &[], 0).check(12).is_err());
    }

    proptest! {
        /// Whatever passes the check can be gathered, and gives the bytes of its elements.
        #[test]
        fn checked_tensors_can_be_gathered(dims in prop::collection::vec((0u64..4, 0u64..6), 0..4), offset in 0u64..9) {
            let (sizes, strides): (Vec<u64>, Vec<u64>) = dims.into_iter().unzip();
            let (tensor, storage) = (tensor(&sizes, &strides, offset), vec![7; 24]);
            let gathered = tensor.gathered(&storage);
            if tensor.check(24).is_ok() {
                prop_assert_eq!(gathered.map(|bytes| bytes.len() as u64), Some(tensor.bytes()));
            }
        }
    }
}
