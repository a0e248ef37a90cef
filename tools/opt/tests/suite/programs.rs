//! The generated programs of the benchmark.

#[path = "../../../bench/src/dialect.rs"]
pub mod dialect;
#[path = "../../../bench/src/llvm.rs"]
pub mod llvm;
#[path = "../../../bench/src/mlir.rs"]
pub mod mlir;
#[path = "../../../bench/src/shapes.rs"]
pub mod shapes;
#[path = "../../../bench/src/torchscript.rs"]
pub mod torchscript;
