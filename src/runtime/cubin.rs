//! Reads facts about kernels from machine code for GPUs: registers, memory of threads, shared
//! memory.
//!
//! It is an ELF file. A section `.nv.info` has attributes of all kernels, `.nv.info.NAME` those of
//! one, and `.nv.shared.NAME` has the size of its shared memory. An attribute has a format, a kind
//! and 16 bits, which in one format are the number of bytes that follow:
//!
//! ```text
//! 04 2f 08 00  symbol, registers
//! 04 11 08 00  symbol, bytes of the stack of a thread, where registers are spilled
//! 04 05 0c 00  most threads of a block, in three dimensions
//! ```

/// The format whose bytes follow, and kinds of attributes.
const SIZED: u8 = 4;
const REGISTERS: u8 = 0x2f;
const STACK: u8 = 0x11;
const MOST_THREADS: u8 = 0x05;
/// The type of a section with symbols, and the bytes of a symbol.
const SYMBOLS: u64 = 2;
const SYMBOL: usize = 24;
/// Registers of a multiprocessor, and of how many a warp takes a multiple.
const REGISTER_FILE: u64 = 65_536;
const GRANULE: u64 = 256;

/// A kernel in machine code.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelResources {
    /// Its name.
    pub name: String,
    /// Registers of a thread.
    pub registers: u64,
    /// Bytes of memory of a thread: arrays that are indexed, and spilled registers.
    pub stack: u64,
    /// Bytes of shared memory of a block.
    pub shared: u64,
    /// Most threads of a block.
    pub threads: u64,
}

impl KernelResources {
    /// The threads that a multiprocessor runs, whose own limits of threads and blocks are given.
    pub fn resident(&self, (threads, blocks): (u64, u64)) -> u64 {
        let warps = self.threads.div_ceil(32).max(1);
        let of_warp = (self.registers * 32).next_multiple_of(GRANULE).max(GRANULE);
        // Each of the four parts of a multiprocessor has a fourth of the registers.
        let most = REGISTER_FILE / of_warp / 4 * 4;
        (most / warps).min(threads / (warps * 32)).min(blocks) * warps * 32
    }
}

/// A section: its name, type, bytes and link.
struct Section<'i> {
    name: &'i str,
    kind: u64,
    bytes: &'i [u8],
    size: u64,
    link: usize,
}

/// The kernels of machine code, by name.
///
/// # Errors
/// It is no such file.
pub fn resources(image: &[u8]) -> Result<Vec<KernelResources>, String> {
    read(image).ok_or_else(|| "machine code is no ELF file as NVRTC makes them".to_owned())
}

fn read(image: &[u8]) -> Option<Vec<KernelResources>> {
    let sections = sections(image)?;
    let symbols = sections.iter().find(|section| section.kind == SYMBOLS)?;
    let names = sections.get(symbols.link)?.bytes;
    let name_of = |symbol: u64| {
        let at = usize::try_from(symbol).ok()?.checked_mul(SYMBOL)?;
        text_at(names, unsigned(symbols.bytes, at, 4)? as usize)
    };
    let mut kernels: Vec<KernelResources> = Vec::new();
    let all = sections.iter().find(|section| section.name == ".nv.info")?;
    for (kind, payload) in attributes(all.bytes) {
        let (Some(name), Some(value)) = (unsigned(payload, 0, 4).and_then(name_of), unsigned(payload, 4, 4)) else {
            continue;
        };
        let at = kernels.iter().position(|kernel| kernel.name == name).unwrap_or_else(|| {
            kernels.push(KernelResources { name: name.to_owned(), ..KernelResources::default() });
            kernels.len() - 1
        });
        match kind {
            REGISTERS => kernels[at].registers = value,
            STACK => kernels[at].stack = value,
            _ => {}
        }
    }
    for kernel in &mut kernels {
        let of = |prefix: &str| sections.iter().find(|one| one.name.strip_prefix(prefix) == Some(&kernel.name));
        kernel.shared = of(".nv.shared.").map_or(0, |section| section.size);
        let limits = of(".nv.info.").map_or(&[][..], |section| section.bytes);
        let limit = attributes(limits).find(|(kind, _)| *kind == MOST_THREADS);
        kernel.threads = limit.and_then(|(_, payload)| unsigned(payload, 0, 4)).unwrap_or(0);
    }
    kernels.sort_by(|a, b| a.name.cmp(&b.name));
    Some(kernels)
}

/// The sections of an ELF file of 64 bits, the lowest byte of a number first.
fn sections(image: &[u8]) -> Option<Vec<Section<'_>>> {
    image.starts_with(b"\x7fELF\x02\x01").then_some(())?;
    let table = unsigned(image, 0x28, 8)? as usize;
    let [size, count, names] = [0x3a, 0x3c, 0x3e].map(|at| unsigned(image, at, 2).map(|n| n as usize));
    let header = |number: usize, at: usize, bytes: usize| {
        unsigned(image, table.checked_add(number.checked_mul(size?)?)?.checked_add(at)?, bytes)
    };
    let contents = |number: usize| {
        let (from, bytes) = (header(number, 0x18, 8)? as usize, header(number, 0x20, 8)? as usize);
        // Shared memory has a size, and no bytes.
        Some(image.get(from..from.checked_add(bytes)?).unwrap_or_default())
    };
    let names = contents(names?)?;
    let section = |number: usize| {
        Some(Section {
            name: text_at(names, header(number, 0, 4)? as usize)?,
            kind: header(number, 4, 4)?,
            bytes: contents(number)?,
            size: header(number, 0x20, 8)?,
            link: header(number, 0x28, 4)? as usize,
        })
    };
    (0..count?).map(section).collect()
}

/// The kinds of attributes, and the bytes that follow them.
fn attributes(bytes: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let &[format, kind, low, high] = rest.first_chunk()?;
        let follow = if format == SIZED { usize::from(u16::from_le_bytes([low, high])) } else { 0 };
        let payload = rest.get(4..4 + follow)?;
        rest = &rest[4 + follow..];
        Some((kind, payload))
    })
}

fn unsigned(bytes: &[u8], at: usize, count: usize) -> Option<u64> {
    let bytes = bytes.get(at..at.checked_add(count)?)?;
    Some(bytes.iter().rev().fold(0, |all, &byte| all << 8 | u64::from(byte)))
}

/// A text that ends with 0.
fn text_at(bytes: &[u8], at: usize) -> Option<&str> {
    std::str::from_utf8(bytes.get(at..)?.split(|&byte| byte == 0).next()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Files are made here, section by section: their names, types, bytes, sizes and links.
    fn image(sections: &[(&str, u32, Vec<u8>, u64, u32)]) -> Vec<u8> {
        let names: String = sections.iter().map(|section| format!("{}\0", section.0)).collect();
        let mut image = b"\x7fELF\x02\x01".to_vec();
        image.resize(0x40, 0);
        let (mut headers, mut name) = (Vec::new(), 0);
        let last = (".names", 3, names.clone().into_bytes(), names.len() as u64, 0);
        for (text, kind, bytes, size, link) in sections.iter().chain([&last]) {
            let mut header = [0_u8; 64];
            let text_at = if *text == ".names" { 0 } else { name };
            header[..4].copy_from_slice(&u32::to_le_bytes(text_at));
            header[4..8].copy_from_slice(&kind.to_le_bytes());
            header[0x18..0x20].copy_from_slice(&(image.len() as u64).to_le_bytes());
            header[0x20..0x28].copy_from_slice(&size.to_le_bytes());
            header[0x28..0x2c].copy_from_slice(&link.to_le_bytes());
            headers.extend(header);
            image.extend(bytes);
            name += text.len() as u32 + 1;
        }
        let (table, count) = (image.len() as u64, sections.len() as u16);
        image[0x28..0x30].copy_from_slice(&table.to_le_bytes());
        image[0x3a..0x3c].copy_from_slice(&64_u16.to_le_bytes());
        image[0x3c..0x3e].copy_from_slice(&(count + 1).to_le_bytes());
        image[0x3e..0x40].copy_from_slice(&count.to_le_bytes());
        image.extend(headers);
        image
    }

    fn words(all: &[u32]) -> Vec<u8> {
        all.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    fn two_kernels() -> Vec<u8> {
        // Two symbols, `one` and `two`, whose names begin at 1 and 5.
        let symbols = [words(&[1, 0, 0, 0, 0, 0]), words(&[5, 0, 0, 0, 0, 0])].concat();
        let all = words(&[0x0008_2f04, 1, 40, 0x0008_2f04, 0, 255, 0x0000_3701, 0x0008_1104, 0, 24]);
        let one = words(&[0x0004_1c04, 9, 0x000c_0504, 256, 1, 1]);
        image(&[
            (".strtab", 3, b"\0one\0two\0".to_vec(), 9, 0),
            (".symtab", 2, symbols, 48, 0),
            (".nv.info", 0x7000_0000, all.clone(), all.len() as u64, 1),
            (".nv.info.one", 0x7000_0000, one.clone(), one.len() as u64, 1),
            (".nv.shared.two", 8, Vec::new(), 2048, 0),
        ])
    }

    #[test]
    fn attributes_of_kernels_are_read() {
        let kernel = |name: &str, numbers: [u64; 4]| {
            let [registers, stack, shared, threads] = numbers;
            KernelResources { name: name.to_owned(), registers, stack, shared, threads }
        };
        let expected = vec![kernel("one", [255, 24, 0, 256]), kernel("two", [40, 0, 2048, 0])];
        assert_eq!(resources(&two_kernels()), Ok(expected));
        // A file that is truncated or changed in any way is read or refused.
        let image = two_kernels();
        for at in 0..image.len() {
            let mut other = image.clone();
            other[at] ^= 0xff;
            let _ = resources(&other);
            let _ = resources(&image[..at]);
        }
        assert!(resources(b"fakecub").is_err());
    }

    #[test]
    fn registers_limit_the_threads_that_are_resident() {
        let resident = |registers, threads| {
            KernelResources { registers, threads, ..KernelResources::default() }.resident((2048, 32))
        };
        // 32 registers for each of 2048 threads are all there are.
        assert_eq!([16, 32, 33, 40].map(|registers| resident(registers, 256)), [2048, 2048, 1536, 1536]);
        assert_eq!([64, 128, 255].map(|registers| resident(registers, 256)), [1024, 512, 256]);
        assert_eq!((resident(40, 1024), resident(16, 32)), (1024, 1024));
    }
}
