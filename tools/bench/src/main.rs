//! bench.
fn main() {}
