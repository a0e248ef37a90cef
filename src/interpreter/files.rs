//! Tensors in files: safetensors, and the formats of NumPy.
//!
//! Functions from bytes to tensors and back; callers open the files. Bytes may come from anywhere,
//! so that every field is checked before memory is allocated.

use crate::tensor::buffer::Buffer;
use crate::tensor::layout::{self, Dims};
use crate::tensor::shared_elements::SharedBytes;
use crate::tensor::{DType, Tensor};
use half::{bf16, f16};
use num_complex::Complex;
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};
use std::collections::BTreeMap;
use std::fmt;
use std::io::{Cursor, Read, Write};
use std::ops::Range;

/// Tensors by name, in order of names.
pub type Tensors = BTreeMap<String, Tensor>;

/// The reason why bytes are not in a format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormatError(pub String);

impl fmt::Display for FormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for FormatError {}

/// The result of a reader.
pub type Result<T> = std::result::Result<T, FormatError>;

/// Refuses with a message.
pub(crate) fn refuse<T>(message: impl Into<String>) -> Result<T> {
    Err(FormatError(message.into()))
}

/// The maximal size of an unpacked archive, in bytes.
const MOST_UNPACKED: u64 = 1 << 32;

/// Reads any of the formats, recognised by their first bytes. The tensor of a `.npy` file has an
/// empty name.
pub fn read_any(bytes: &[u8]) -> Result<Tensors> {
    if bytes.starts_with(MAGIC) {
        return Ok(Tensors::from([(String::new(), read_npy(bytes)?)]));
    }
    if bytes.starts_with(b"PK\x03\x04") || bytes.starts_with(b"PK\x05\x06") {
        read_npz(bytes)
    } else {
        read_safetensors(bytes)
    }
}

// ---- safetensors

const SAFE: &[(DType, Dtype)] = &[
    (DType::Bool, Dtype::BOOL),
    (DType::Byte, Dtype::U8),
    (DType::Char, Dtype::I8),
    (DType::Short, Dtype::I16),
    (DType::Int, Dtype::I32),
    (DType::Long, Dtype::I64),
    (DType::Half, Dtype::F16),
    (DType::BFloat16, Dtype::BF16),
    (DType::Float, Dtype::F32),
    (DType::Double, Dtype::F64),
    (DType::ComplexFloat, Dtype::C64),
];

/// Reads a file of the format `safetensors`.
pub fn read_safetensors(bytes: &[u8]) -> Result<Tensors> {
    let file = match SafeTensors::deserialize(bytes) {
        Ok(file) => file,
        Err(error) => return refuse(format!("not a safetensors file, or a truncated one: {error}")),
    };
    file.iter().map(|(name, view)| Ok((name.to_owned(), of_view(name, &view)?))).collect()
}

fn of_view(name: &str, view: &TensorView<'_>) -> Result<Tensor> {
    let Some((dtype, _)) = SAFE.iter().find(|(_, theirs)| *theirs == view.dtype()) else {
        return refuse(format!("tensor `{name}` has the unsupported element type {:?}", view.dtype()));
    };
    let shape: Dims = view.shape().iter().map(|&n| i64::try_from(n).unwrap_or(i64::MAX)).collect();
    let buffer =
        elements(*dtype, view.data(), &shape).map_err(|error| FormatError(format!("tensor `{name}`: {error}")))?;
    Ok(Tensor::new(buffer, *dtype, &shape).in_lines())
}

/// Writes tensors, with the elements in memory: a reference tensor is written as doubles.
pub fn write_safetensors(tensors: &Tensors) -> Result<Vec<u8>> {
    let rows: Vec<(&String, Dtype, Vec<usize>, Vec<u8>)> = tensors
        .iter()
        .map(|(name, tensor)| {
            let Some((_, dtype)) = SAFE.iter().find(|(ours, _)| *ours == tensor.kept()) else {
                let dtype = tensor.kept().python_name();
                return refuse(format!("tensor `{name}` is of {dtype}, which safetensors lacks; use .npz"));
            };
            let shape = tensor.shape().iter().map(|&n| n.max(0) as usize).collect();
            Ok((name, *dtype, shape, bytes_of(tensor)))
        })
        .collect::<Result<_>>()?;
    let views = rows.iter().map(|(name, dtype, shape, bytes)| {
        TensorView::new(*dtype, shape.clone(), bytes).map(|view| (name.as_str(), view))
    });
    let views: Vec<_> = views.collect::<std::result::Result<_, _>>().map_err(|error| FormatError(error.to_string()))?;
    safetensors::serialize(views, None).map_err(|error| FormatError(error.to_string()))
}

// ---- NumPy

const MAGIC: &[u8] = b"\x93NUMPY";

/// Element types in NumPy's spelling, after the byte order.
const NUMPY: &[(DType, &str)] = &[
    (DType::Bool, "b1"),
    (DType::Byte, "u1"),
    (DType::Char, "i1"),
    (DType::Short, "i2"),
    (DType::Int, "i4"),
    (DType::Long, "i8"),
    (DType::Half, "f2"),
    (DType::Float, "f4"),
    (DType::Double, "f8"),
    (DType::ComplexFloat, "c8"),
    (DType::ComplexDouble, "c16"),
];

/// Reads a `.npy` file of version 1, 2 or 3. Data in Fortran order gets the corresponding strides.
pub(crate) fn read_npy(bytes: &[u8]) -> Result<Tensor> {
    let (header, body) = npy_parts(bytes)?;
    let descr = quoted_after(header, "'descr':");
    let Some(descr) = descr else { return refuse("the header has no element type, or one with several fields") };
    let (order, name) = descr.split_at(descr.len().min(usize::from(descr.starts_with(['<', '>', '|', '=']))));
    let Some((dtype, _)) = NUMPY.iter().find(|(_, theirs)| *theirs == name) else {
        return refuse(format!("unsupported NumPy element type `{descr}`"));
    };
    let fortran = match after(header, "'fortran_order':").map(str::trim_start) {
        Some(rest) if rest.starts_with("True") => true,
        Some(rest) if rest.starts_with("False") => false,
        _ => return refuse("the header has no order of dimensions"),
    };
    let Some(shape) = shape_of(header) else { return refuse("the header has no shape") };
    let swapped = if order == ">" { in_our_order(*dtype, body) } else { body.to_vec() };
    let buffer = elements(*dtype, &swapped, &shape)?;
    let strides = match fortran {
        true => layout::strides_in_order(&shape, &(0..shape.len()).rev().collect::<Vec<_>>()),
        false => layout::contiguous(&shape),
    };
    Ok(Tensor::with_strides(buffer, *dtype, &shape, strides))
}

/// The header, and the elements.
fn npy_parts(bytes: &[u8]) -> Result<(&str, &[u8])> {
    let cut = || FormatError("the file ends within its header".to_owned());
    let rest = bytes.strip_prefix(MAGIC).ok_or_else(|| FormatError("not a .npy file".to_owned()))?;
    let (version, rest) = rest.split_at_checked(2).ok_or_else(cut)?;
    let width = match version[0] {
        1 => 2,
        2 | 3 => 4,
        other => return refuse(format!("version {other} of the format is unknown")),
    };
    let (len, rest) = rest.split_at_checked(width).ok_or_else(cut)?;
    let len = len.iter().rev().fold(0, |n, &byte| n << 8 | usize::from(byte));
    let (header, body) = rest.split_at_checked(len).ok_or_else(cut)?;
    let header = std::str::from_utf8(header).map_err(|_| FormatError("the header is not UTF-8".to_owned()))?;
    Ok((header, body))
}

fn after<'a>(header: &'a str, key: &str) -> Option<&'a str> {
    header.find(key).map(|at| &header[at + key.len()..])
}

fn quoted_after<'a>(header: &'a str, key: &str) -> Option<&'a str> {
    after(header, key)?.trim_start().strip_prefix('\'')?.split('\'').next()
}

fn shape_of(header: &str) -> Option<Dims> {
    let inside = after(header, "'shape':")?.trim_start().strip_prefix('(')?.split_once(')')?.0;
    let sizes = inside.split(',').map(str::trim).filter(|size| !size.is_empty());
    sizes.map(|size| size.parse().ok()).collect()
}

/// Converts big-endian elements.
fn in_our_order(dtype: DType, bytes: &[u8]) -> Vec<u8> {
    let width = if dtype.is_complex() { dtype.size() / 2 } else { dtype.size() };
    bytes.chunks(width).flat_map(|number| number.iter().rev().copied()).collect()
}

/// Writes a `.npy` file, in C order.
pub(crate) fn write_npy(tensor: &Tensor) -> Result<Vec<u8>> {
    let dtype = tensor.kept();
    let Some((_, name)) = NUMPY.iter().find(|(ours, _)| *ours == dtype) else {
        return refuse(format!("NumPy has no {}; use safetensors", dtype.python_name()));
    };
    let order = if dtype.size() == 1 { '|' } else { '<' };
    let sizes: String = tensor.shape().iter().map(|n| format!("{n}, ")).collect();
    let sizes = if tensor.rank() == 1 { sizes.trim_end() } else { sizes.trim_end_matches(", ") };
    let mut header = format!("{{'descr': '{order}{name}', 'fortran_order': False, 'shape': ({sizes}), }}");
    while !(MAGIC.len() + 4 + header.len() + 1).is_multiple_of(64) {
        header.push(' ');
    }
    header.push('\n');
    let mut bytes = MAGIC.to_vec();
    bytes.extend([1, 0]);
    bytes.extend(u16::try_from(header.len()).map_err(|_| FormatError("too many dimensions".to_owned()))?.to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend(bytes_of(tensor));
    Ok(bytes)
}

/// Reads a `.npz` file: an archive of `.npy` files.
pub(crate) fn read_npz(bytes: &[u8]) -> Result<Tensors> {
    let broken = |error: &dyn fmt::Display| FormatError(format!("the archive is broken: {error}"));
    let mut archive = zip::ZipArchive::new(Cursor::new(bytes)).map_err(|error| broken(&error))?;
    let mut tensors = Tensors::new();
    let mut left = MOST_UNPACKED;
    for i in 0..archive.len() {
        let file = archive.by_index(i).map_err(|error| broken(&error))?;
        let name = file.name().map_err(|error| broken(&error))?.into_owned();
        let mut content = Vec::new();
        file.take(left).read_to_end(&mut content).map_err(|error| broken(&error))?;
        left -= content.len() as u64;
        if left == 0 {
            return refuse(format!("the archive unpacks to more than {MOST_UNPACKED} bytes"));
        }
        let tensor = read_npy(&content).map_err(|error| FormatError(format!("`{name}` in it: {error}")))?;
        tensors.insert(name.strip_suffix(".npy").unwrap_or(&name).to_owned(), tensor);
    }
    Ok(tensors)
}

/// Writes a `.npz` file, uncompressed, as `numpy.savez` does.
pub fn write_npz(tensors: &Tensors) -> Result<Vec<u8>> {
    let failed = |error: &dyn fmt::Display| FormatError(format!("the archive cannot be written: {error}"));
    let mut archive = zip::ZipWriter::new(Cursor::new(Vec::new()));
    let stored = zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
    for (name, tensor) in tensors {
        let content = write_npy(tensor).map_err(|error| FormatError(format!("tensor `{name}`: {error}")))?;
        archive.start_file(format!("{name}.npy"), stored).map_err(|error| failed(&error))?;
        archive.write_all(&content).map_err(|error| failed(&error))?;
    }
    Ok(archive.finish().map_err(|error| failed(&error))?.into_inner())
}

// ---- elements

/// A contiguous tensor of little-endian elements.
///
/// # Errors
/// The number of bytes is not that of the elements, or elements of this type have no tensors.
pub fn tensor_of_bytes(dtype: DType, bytes: &[u8], shape: &[i64]) -> Result<Tensor> {
    Ok(Tensor::new(elements(dtype, bytes, shape)?, dtype, shape))
}

/// Elements in one dimension whose little-endian bytes come piece by piece.
#[derive(Debug)]
pub struct Pieces {
    dtype: DType,
    elements: usize,
    found: Buffer,
}

impl Pieces {
    /// None yet of a number of elements.
    ///
    /// # Errors
    /// There are too many.
    pub fn new(dtype: DType, elements: u64) -> Result<Pieces> {
        let shape = i64::try_from(elements).unwrap_or(i64::MAX);
        let elements = layout::checked(&[shape]).map_err(|error| FormatError(error.0))?;
        Ok(Pieces { dtype, elements, found: reserved(dtype, elements) })
    }

    /// Takes the bytes of the next elements.
    pub fn take(&mut self, bytes: &[u8]) {
        append(&mut self.found, bytes);
    }

    /// The tensor.
    ///
    /// # Errors
    /// There are more elements, or fewer.
    pub fn tensor(self) -> Result<Tensor> {
        if self.found.len() != self.elements {
            return refuse(format!("{} elements are needed, and there are {}", self.elements, self.found.len()));
        }
        Ok(Tensor::new(self.found, self.dtype, &[self.elements as i64]))
    }
}

/// A tensor in one dimension of elements where they are, least significant byte first: none where
/// they have to be copied.
pub fn tensor_in_place(dtype: DType, bytes: SharedBytes, range: Range<usize>) -> Option<Tensor> {
    let found = Buffer::shared(dtype, bytes, range)?;
    let size = i64::try_from(found.len()).ok()?;
    Some(Tensor::new(found, dtype, &[size]))
}

/// Elements from their bytes, least significant first.
fn elements(dtype: DType, bytes: &[u8], shape: &[i64]) -> Result<Buffer> {
    let n = layout::checked(shape).map_err(|error| FormatError(error.0))?;
    let wanted = n * dtype.size();
    if bytes.len() != wanted {
        let (found, name) = (bytes.len(), dtype.python_name());
        return refuse(format!("{wanted} bytes are needed for {shape:?} of {name}, and there are {found}"));
    }
    let mut all = reserved(dtype, n);
    append(&mut all, bytes);
    Ok(all)
}

/// An element type with a byte representation.
trait Bytes: Sized {
    fn of(bytes: &[u8]) -> Self;
    fn push(&self, out: &mut Vec<u8>);
}

macro_rules! little_endian {
    ($($t:ty)*) => {$(impl Bytes for $t {
        fn of(bytes: &[u8]) -> Self { <$t>::from_le_bytes(bytes.try_into().unwrap_or_default()) }
        fn push(&self, out: &mut Vec<u8>) { out.extend(self.to_le_bytes()) }
    })*};
}
little_endian!(u8 i8 i16 i32 i64 f16 bf16 f32 f64);

/// Appends all elements of these bytes. The size of an element is a constant here, so that this is
/// a copy.
fn extend<T: Bytes>(elements: &mut Vec<T>, bytes: &[u8]) {
    elements.extend(bytes.chunks_exact(size_of::<T>()).map(T::of));
}

impl Bytes for bool {
    fn of(bytes: &[u8]) -> Self {
        bytes.iter().any(|&byte| byte != 0)
    }
    fn push(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }
}

impl<T: Bytes> Bytes for Complex<T> {
    fn of(bytes: &[u8]) -> Self {
        let (re, im) = bytes.split_at(bytes.len() / 2);
        Complex::new(T::of(re), T::of(im))
    }
    fn push(&self, out: &mut Vec<u8>) {
        self.re.push(out);
        self.im.push(out);
    }
}

macro_rules! element_types {
    ($($name:ident)*) => {
        /// No elements, and memory for some.
        fn reserved(dtype: DType, elements: usize) -> Buffer {
            match dtype {
                $(DType::$name => Buffer::$name(Vec::with_capacity(elements).into()),)*
                _ => Buffer::Byte(Vec::with_capacity(elements).into()),
            }
        }

        fn append(buffer: &mut Buffer, bytes: &[u8]) {
            match buffer {
                $(Buffer::$name(elements) => extend(elements.own(), bytes),)*
            }
        }

        /// The elements in logical order.
        fn bytes_of(tensor: &Tensor) -> Vec<u8> {
            let row = tensor.copied();
            let mut out = Vec::new();
            match &*row.storage().read() {
                $(Buffer::$name(elements) => elements.iter().for_each(|element| element.push(&mut out)),)*
            }
            out
        }
    };
}
element_types!(Bool Byte Char Short Int Long Half BFloat16 Float Double ComplexFloat ComplexDouble);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::Precision;

    fn sample(dtype: DType) -> Tensor {
        Tensor::of(&[0.0, 1.0, 2.5, -3.0, 100.0, 7.0], dtype, &[2, 3], Precision::Typed).transpose(0, 1)
    }

    fn same(a: &Tensor, b: &Tensor) -> bool {
        (a.dtype(), a.shape(), bytes_of(a)) == (b.dtype(), b.shape(), bytes_of(b))
    }

    #[test]
    fn every_type_comes_back() {
        for &(dtype, _) in SAFE {
            let tensors = Tensors::from([("x".to_owned(), sample(dtype))]);
            let back = read_any(&write_safetensors(&tensors).expect("it has the type")).expect("it was just written");
            assert!(same(&back["x"], &tensors["x"]), "{dtype:?}");
        }
        for &(dtype, _) in NUMPY {
            let tensors = Tensors::from([("a.b".to_owned(), sample(dtype))]);
            let back = read_any(&write_npz(&tensors).expect("it has the type")).expect("it was just written");
            assert!(same(&back["a.b"], &tensors["a.b"]), "{dtype:?}");
        }
        assert!(write_npy(&sample(DType::BFloat16)).is_err());
    }

    #[test]
    fn numpy_headers() {
        let file = |version: u8, descr: &str, fortran: &str, shape: &str, body: &[u8]| {
            let header = format!("{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': {shape}, }}\n");
            let len = header.len() as u32;
            let len = if version == 1 { len.to_le_bytes()[..2].to_vec() } else { len.to_le_bytes().to_vec() };
            [MAGIC, &[version, 0], &len, header.as_bytes(), body].concat()
        };
        let fortran = read_npy(&file(1, "<i2", "True", "(2, 2)", &[1, 0, 2, 0, 3, 0, 4, 0])).expect("a good file");
        assert_eq!((fortran.read::<i64>(), fortran.strides()), (vec![1, 3, 2, 4], &[1, 2][..]));
        let big = read_npy(&file(3, ">f4", "False", "()", &1.5f32.to_be_bytes())).expect("a good file");
        assert_eq!((big.read::<f64>(), big.rank()), (vec![1.5], 0));
        let empty = read_npy(&file(2, "|b1", "False", "(0, 3)", &[])).expect("a good file");
        assert_eq!(empty.shape(), [0, 3]);
        for (descr, shape, body) in [
            ("<U5", "(1,)", 20),
            ("<f4", "(2,)", 7),
            ("<f4", "(-2,)", 8),
            ("<f4", "(9223372036854775807, 8)", 4),
            ("<f4", "oops", 4),
        ] {
            assert!(read_npy(&file(1, descr, "False", shape, &vec![0; body])).is_err(), "{descr} {shape}");
        }
    }

    #[test]
    fn parts_of_files_are_errors() {
        let tensors = Tensors::from([("x".to_owned(), sample(DType::Float))]);
        for whole in [write_safetensors(&tensors), write_npz(&tensors), write_npy(&tensors["x"])] {
            let whole = whole.expect("floats are everywhere");
            for n in 0..whole.len() {
                assert!(read_any(&whole[..n]).is_err(), "{n} of {} bytes", whole.len());
            }
        }
    }
}
