//! Element types.

macro_rules! dtypes {
    ($($name:ident,)*) => {
        /// Element types, in the spelling of the text.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[allow(missing_docs, non_camel_case_types, reason = "the variants are the names of the text")]
        pub enum DType { $($name,)* }
        impl DType {
            /// All of them.
            pub const ALL: &[DType] = &[$(DType::$name,)*];
            /// The name in the text.
            pub fn name(self) -> &'static str {
                match self { $(DType::$name => stringify!($name),)* }
            }
        }
    };
}

dtypes! {
    Byte, Char, Short, Int, Long, Half, Float, Double, Bool, BFloat16, ComplexHalf, ComplexFloat, ComplexDouble,
    QInt8, QUInt8, QInt32, QUInt4x2, QUInt2x4, Bits1x8, Bits2x4, Bits4x2, Bits8, Bits16, Float8_e5m2,
    Float8_e4m3fn, Float8_e5m2fnuz, Float8_e4m3fnuz, Float8_e8m0fnu, Float4_e2m1fn_x2, UInt16, UInt32, UInt64,
    UInt1, UInt2, UInt3, UInt4, UInt5, UInt6, UInt7, Int1, Int2, Int3, Int4, Int5, Int6, Int7, Undefined,
    // The spelling of the undefined type in some releases.
    UNKNOWN_SCALAR,
}

/// The kind of arithmetic of an element type, weakest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// `Bool`
    Bool,
    /// Integers.
    Int,
    /// Floating point numbers.
    Float,
    /// Complex numbers.
    Complex,
}

impl DType {
    /// Whether every value of this type prints exactly in a few digits.
    pub fn is_integral(self) -> bool {
        use DType::*;
        matches!(self, Byte | Char | Short | Int | Long | Bool | UInt16 | UInt32 | UInt64)
    }

    /// The arithmetic; `None` for types that the interpreter's tensors do not have.
    pub fn arithmetic(self) -> Option<Kind> {
        use DType::*;
        match self {
            Bool => Some(Kind::Bool),
            Byte | Char | Short | Int | Long => Some(Kind::Int),
            Half | BFloat16 | Float | Double => Some(Kind::Float),
            ComplexFloat | ComplexDouble => Some(Kind::Complex),
            _ => None,
        }
    }

    /// Whether it is a floating point type.
    pub fn is_float(self) -> bool {
        self.arithmetic() == Some(Kind::Float)
    }

    /// Whether it is a 16-bit floating point type, whose arithmetic is done in single precision.
    pub fn is_short_float(self) -> bool {
        matches!(self, DType::Half | DType::BFloat16)
    }

    /// Whether it is a complex type.
    pub fn is_complex(self) -> bool {
        self.arithmetic() == Some(Kind::Complex)
    }

    /// Its number in graphs, `c10::ScalarType`: the order of PyTorch's header, which differs from
    /// the order here.
    pub fn code(self) -> Option<i64> {
        CODES.iter().find(|(dtype, _)| *dtype == self).map(|&(_, code)| code)
    }

    /// The type with this number in graphs.
    pub fn from_code(code: i64) -> Option<DType> {
        CODES.iter().find(|(_, known)| *known == code).map(|&(dtype, _)| dtype)
    }

    /// Its name in Python, `float32`.
    pub fn python_name(self) -> &'static str {
        PYTHON.iter().find(|(dtype, ..)| *dtype == self).map_or(self.name(), |(_, names)| names[0])
    }

    /// The type of a Python name, `float32` or `float`, with or without `torch.`.
    pub fn from_python(name: &str) -> Option<DType> {
        let name = name.strip_prefix("torch.").unwrap_or(name);
        PYTHON.iter().find(|(_, names)| names.contains(&name)).map(|&(dtype, _)| dtype)
    }

    /// The complex type with parts of this type, and the type itself when it is complex.
    pub(crate) fn to_complex(self) -> DType {
        match self {
            DType::Double | DType::ComplexDouble => DType::ComplexDouble,
            _ => DType::ComplexFloat,
        }
    }

    /// The type of the parts of a complex type; the type itself for others.
    pub fn to_real(self) -> DType {
        match self {
            DType::ComplexDouble => DType::Double,
            DType::ComplexFloat => DType::Float,
            other => other,
        }
    }

    /// The type of the elements in memory: quantised numbers are stored as integers.
    pub fn memory(self) -> DType {
        match self {
            DType::QUInt8 => DType::Byte,
            DType::QInt8 => DType::Char,
            DType::QInt32 => DType::Int,
            other => other,
        }
    }

    /// Whether elements are integers that represent multiples of a scale.
    pub fn is_quantized(self) -> bool {
        self.memory() != self
    }

    /// The size of one element in bytes.
    pub fn size(self) -> usize {
        use DType::*;
        match self {
            Short | Half | BFloat16 => 2,
            Int | Float | QInt32 => 4,
            Long | Double | ComplexFloat => 8,
            ComplexDouble => 16,
            _ => 1,
        }
    }

    /// Smallest and largest value of an integer type.
    pub fn range(self) -> Option<(i64, i64)> {
        match self {
            DType::Bool => Some((0, 1)),
            DType::Byte => Some((0, 255)),
            DType::Char => Some((i8::MIN.into(), i8::MAX.into())),
            DType::Short => Some((i16::MIN.into(), i16::MAX.into())),
            DType::Int => Some((i32::MIN.into(), i32::MAX.into())),
            DType::Long => Some((i64::MIN, i64::MAX)),
            _ => None,
        }
    }

    /// The largest number of a floating point type; infinite for others.
    pub(crate) fn largest(self) -> f64 {
        match self {
            DType::Half => half::f16::MAX.to_f64(),
            DType::BFloat16 => half::bf16::MAX.to_f64(),
            DType::Float => f64::from(f32::MAX),
            DType::Double => f64::MAX,
            _ => f64::INFINITY,
        }
    }

    /// Whether a number is in the range of a floating point type, after rounding: it is not larger
    /// than the largest one, or it is infinite.
    pub(crate) fn holds_float(self, number: super::Scalar) -> bool {
        !number.real().is_finite() || number.real().abs() <= self.largest()
    }

    /// The gap between 1 and the next larger number of the type, of the parts for complex types; 0
    /// for integers.
    pub fn epsilon(self) -> f64 {
        match self.to_real() {
            DType::Half => 2f64.powi(-10),
            DType::BFloat16 => 2f64.powi(-7),
            DType::Float => f64::from(f32::EPSILON),
            DType::Double => f64::EPSILON,
            _ => 0.0,
        }
    }
}

/// `c10/core/ScalarType.h` of PyTorch 2.15; up to 1.4 the list ends with 15.
const CODES: &[(DType, i64)] = &[
    (DType::Byte, 0),
    (DType::Char, 1),
    (DType::Short, 2),
    (DType::Int, 3),
    (DType::Long, 4),
    (DType::Half, 5),
    (DType::Float, 6),
    (DType::Double, 7),
    (DType::ComplexHalf, 8),
    (DType::ComplexFloat, 9),
    (DType::ComplexDouble, 10),
    (DType::Bool, 11),
    (DType::QInt8, 12),
    (DType::QUInt8, 13),
    (DType::QInt32, 14),
    (DType::BFloat16, 15),
];

const PYTHON: &[(DType, &[&str])] = &[
    (DType::Byte, &["uint8"]),
    (DType::Char, &["int8"]),
    (DType::Short, &["int16", "short"]),
    (DType::Int, &["int32", "int"]),
    (DType::Long, &["int64", "long"]),
    (DType::Half, &["float16", "half"]),
    (DType::Float, &["float32", "float"]),
    (DType::Double, &["float64", "double"]),
    (DType::ComplexHalf, &["complex32", "chalf"]),
    (DType::ComplexFloat, &["complex64", "cfloat"]),
    (DType::ComplexDouble, &["complex128", "cdouble"]),
    (DType::Bool, &["bool"]),
    (DType::QUInt8, &["quint8"]),
    (DType::QInt8, &["qint8"]),
    (DType::QInt32, &["qint32"]),
    (DType::BFloat16, &["bfloat16"]),
];
