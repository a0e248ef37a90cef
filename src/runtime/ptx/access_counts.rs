//! Counts the instructions of PTX, and its accesses to memory by their width.
//!
//! ```text
//! ld.global.nc.v4.f32 {%f1, …}, [%rd1]     a load of 16 bytes by each thread
//! st.global.v2.b64 [%rd2], {%rd3, %rd4}    a store of 16 bytes
//! ```
//!
//! If the 32 threads of a warp access neighbouring memory, a request of 4 bytes each is for 4
//! sectors of 32 bytes, and one of 16 bytes for 16.

use super::ptx_text::{self, Listed, Operand, Statement};
use std::collections::BTreeMap;

/// Threads of a warp, and bytes of a sector.
const LANES: u64 = 32;
const SECTOR: u64 = 32;

/// The counts of a function, each instruction once, however often it is executed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FunctionCounts {
    /// Its name.
    pub name: String,
    /// Instructions.
    pub instructions: u64,
    /// Those on doubles.
    pub doubles: u64,
    /// Barriers, and exchanges between the lanes of a warp.
    pub barriers: u64,
    /// See `barriers`.
    pub shuffles: u64,
    /// Loads from global memory, by the bytes that a thread loads at once.
    pub loads: BTreeMap<u64, u64>,
    /// Stores, in the same way.
    pub stores: BTreeMap<u64, u64>,
    /// Accesses to memory of a thread's own.
    pub local: u64,
}

impl FunctionCounts {
    /// Bytes of the widest access to global memory.
    pub fn widest(&self) -> u64 {
        self.loads.keys().chain(self.stores.keys()).copied().max().unwrap_or(0)
    }

    /// Sectors that a warp requests with each of its accesses once, if these are coalesced.
    pub fn sectors(&self) -> u64 {
        let all = self.loads.iter().chain(&self.stores);
        all.map(|(width, times)| (width * LANES).div_ceil(SECTOR) * times).sum()
    }
}

/// The counts of all functions of a text.
///
/// # Errors
/// The line that is not understood.
pub fn counts(text: &str) -> Result<Vec<FunctionCounts>, String> {
    Ok(ptx_text::read(text)?.entries.iter().map(of_entry).collect())
}

fn of_entry(entry: &Listed<'_>) -> FunctionCounts {
    let mut counts = FunctionCounts { name: entry.name.to_owned(), ..FunctionCounts::default() };
    for statement in &entry.statements {
        counts.instructions += 1;
        let words: Vec<&str> = statement.opcode.split('.').collect();
        counts.doubles += u64::from(words.last() == Some(&"f64"));
        match words[..] {
            ["ld", "global", ..] => *counts.loads.entry(width(&words, statement)).or_default() += 1,
            ["st", "global", ..] => *counts.stores.entry(width(&words, statement)).or_default() += 1,
            ["ld" | "st", "local", ..] => counts.local += 1,
            ["bar" | "barrier", ..] => counts.barriers += 1,
            ["shfl", ..] => counts.shuffles += 1,
            _ => {}
        }
    }
    counts
}

/// The bytes that a thread loads or stores: those of an element, times those of a vector.
fn width(words: &[&str], statement: &Statement<'_>) -> u64 {
    let bits = words.last().and_then(|ty| ty.trim_start_matches(['b', 'u', 's', 'f']).parse::<u64>().ok());
    let vector = statement.operands.iter().find_map(|operand| match operand {
        Operand::Vector(all) => Some(all.len() as u64),
        _ => None,
    });
    bits.unwrap_or(0) / 8 * vector.unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accesses_are_counted_by_their_width() {
        let text = ".version 7.0\n.target sm_75\n.address_size 64\n.visible .entry k(.param .u64 k_0)\n{\n\
            .reg .f32 %f<9>;\nld.param.u64 %rd1, [k_0];\n@%p1 bra $L_2;\n\
            ld.global.nc.v4.f32 {%f1, %f2, %f3, %f4}, [%rd1];\nld.global.nc.u16 %rs1, [%rd1+16];\n\
            fma.rn.f64 %fd1, %fd2, %fd3, %fd4;\nbar.sync 0;\nshfl.sync.bfly.b32 %r1|%p2, %r2, 16, 31, -1;\n\
            ld.local.u32 %r4, [%rd3];\n$L_2:\nst.global.v2.b64 [%rd2], {%rd4, %rd5};\nret;\n}\n";
        let all = counts(text).expect("it is PTX");
        let wanted = FunctionCounts {
            name: "k".to_owned(),
            instructions: 10,
            doubles: 1,
            barriers: 1,
            shuffles: 1,
            loads: [(16, 1), (2, 1)].into(),
            stores: [(16, 1)].into(),
            local: 1,
        };
        assert_eq!(all, [wanted]);
        // 32 lanes of 16 bytes are 512 bytes, of 2 bytes 64.
        assert_eq!((all[0].widest(), all[0].sectors()), (16, 16 + 2 + 16));
        assert!(counts("kernel k").is_err());
    }

    #[test]
    fn recorded_kernels_are_counted() {
        let text = include_str!("../../../testdata/runtime/ptx/points.nvrtc.ptx");
        let all = counts(text).expect("it is PTX");
        assert!(all.iter().all(|one| one.instructions > 20 && one.widest() > 0 && one.local == 0), "{all:?}");
    }
}
