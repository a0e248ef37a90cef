//! The types that kernels compute in and read from memory, which are those of C: facts about them
//! are here, and their names are for printers, and for the reader of the vector mathematics.

use crate::tensor::DType;
use std::fmt;

/// A type, in the order of the names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NumberType {
    /// `double`
    Double,
    /// `float`
    Float,
    /// `i16`
    I16,
    /// `i32`
    I32,
    /// `i64`
    I64,
    /// `i8`
    I8,
    /// `int`: what is true or not.
    Int,
    /// `u16`, which halves are in memory
    U16,
    /// `u32`
    U32,
    /// `u64`
    U64,
    /// `u8`
    U8,
}

use NumberType::{Double, Float, I8, I16, I32, I64, Int, U8, U16, U32, U64};

/// The types with their names.
const NAMES: [(NumberType, &str); 11] = [
    (I8, "i8"),
    (U8, "u8"),
    (I16, "i16"),
    (U16, "u16"),
    (I32, "i32"),
    (U32, "u32"),
    (I64, "i64"),
    (U64, "u64"),
    (Int, "int"),
    (Float, "float"),
    (Double, "double"),
];

impl NumberType {
    /// The type with a name.
    pub(crate) fn named(name: &str) -> Option<NumberType> {
        NAMES.iter().find(|row| row.1 == name).map(|row| row.0)
    }

    /// The type of an element type in memory.
    pub(crate) fn in_memory(dtype: DType) -> NumberType {
        match dtype {
            DType::Char => I8,
            DType::Short => I16,
            DType::Int => I32,
            DType::Long => I64,
            DType::Half | DType::BFloat16 => U16,
            DType::Float => Float,
            DType::Double => Double,
            _ => U8,
        }
    }

    /// The type in which values of an element type are computed. Bools are as wide as floats:
    /// compilers choose the vector length by the narrowest type, and a vector of bytes would need
    /// four of floats. The gradient of the overlap of boxes, which has many comparisons, took 2.9
    /// times as long with bytes.
    pub(crate) fn of_values(dtype: DType) -> NumberType {
        match dtype {
            DType::Half | DType::BFloat16 => Float,
            DType::Bool => Int,
            other => NumberType::in_memory(other),
        }
    }

    /// Its bytes.
    pub(crate) fn size(self) -> usize {
        match self {
            I8 | U8 => 1,
            I16 | U16 => 2,
            I32 | U32 | Int | Float => 4,
            I64 | U64 | Double => 8,
        }
    }

    /// The suffix of functions of the vector mathematics that compute in it.
    pub(crate) fn suffix(self) -> &'static str {
        match self {
            Float => "f",
            I64 => "64",
            I8 | U8 | I16 | I32 => "32",
            Double | Int | U16 | U32 | U64 => "",
        }
    }
}

impl fmt::Display for NumberType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(NAMES.iter().find(|row| row.0 == *self).map_or("", |row| row.1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_type_has_one_name_and_the_order_of_it() {
        let mut all = NAMES;
        all.sort_unstable();
        let names: Vec<&str> = all.iter().map(|row| row.1).collect();
        assert!(names.is_sorted() && all.windows(2).all(|two| two[0].0 != two[1].0 && two[0].1 != two[1].1));
        for (ty, name) in NAMES {
            assert_eq!((NumberType::named(name), ty.to_string()), (Some(ty), name.to_owned()));
        }
        assert_eq!(NumberType::named("void"), None);
    }
}
