//! Functions that several programs of the suite share.

pub mod cases;
pub mod command_line;
pub mod dice;
pub mod drawn_layers;
pub mod drawn_lines;
pub mod drawn_operands;
pub mod drawn_pools;
pub mod each_pass;
pub mod gradient_operands;
pub mod nest_runs;
pub mod parallel;
pub mod recorded;
pub mod recorded_calls;
pub mod release_table;
pub mod seeds;
pub mod strided_tensors;
pub mod universe;
