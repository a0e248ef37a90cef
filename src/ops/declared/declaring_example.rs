//! An operator that a user declares.

use crate::{
    ops::{self, declared::Declared},
    symbol::Symbol,
    types::era::Era,
};

#[test]
fn a_declared_operator_is_known_until_its_guard_is_dropped() {
    let mut custom = Declared::default();
    custom.add("prepacked::run(Tensor x, __torch__.torch.classes.xnnpack.Conv2dOpContext c) -> Tensor").unwrap();
    let run = || ops::operator(Era::V2, Symbol::new("prepacked::run"));
    {
        let _entered = custom.enter();
        assert!(run().is_pure(run().schemas.first()));
    }
    assert!(!run().is_known());
}
