//! The overload of a node by the types of its operands.

use crate::{
    ops,
    symbol::Symbol,
    types::{Type, era::Era},
};

#[test]
fn an_addition_of_a_number_is_the_overload_of_tensors() {
    let add = ops::operator(Era::V2, Symbol::new("aten::add"));
    let found = add.resolve(&[Type::tensor(), Type::tensor(), Type::int()]);
    assert!(found.schema().is_some_and(|schema| schema.overload == "Tensor" && add.is_pure(Some(schema))));
}
