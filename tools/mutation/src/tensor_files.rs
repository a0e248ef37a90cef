//! Mutates tensor files: the JSON header of safetensors, the header of a `.npy`, and those inside
//! an archive, whose checksums are recomputed, so that the reader reaches the mutated part.

use crate::byte_damage;
use crate::chance::Chance;
use crate::json_damage;

/// Mutates a file according to its first bytes.
pub fn damage(bytes: &mut Vec<u8>, other: &[u8], chance: &mut Chance) {
    if bytes.starts_with(b"PK") || bytes.starts_with(b"\x93NUMPY") || chance.one_in(4) {
        byte_damage::damage(bytes, other, chance);
    } else {
        safetensors(bytes, other, chance);
    }
}

fn safetensors(bytes: &mut Vec<u8>, other: &[u8], chance: &mut Chance) {
    let length = bytes.first_chunk().map_or(0, |head| u64::from_le_bytes(*head)) as usize;
    let Some(head) = bytes.get(8..8 + length.min(bytes.len())) else {
        return byte_damage::damage(bytes, other, chance);
    };
    let mut head = head.to_vec();
    json_damage::damage(&mut head, other, chance);
    let said = if chance.one_in(12) { chance.draw() >> chance.below(64) } else { head.len() as u64 };
    let body = bytes[8 + length..].to_vec();
    *bytes = [&said.to_le_bytes()[..], &head, &body].concat();
}

/// A `.npy` of a vector of floats, to be mutated.
pub fn npy(chance: &mut Chance) -> Vec<u8> {
    let kind = chance.pick(&["<f4", "<f8", "<i8", "|b1", ">f4", "<c8", "<U3", "|O", "<f2", "V2"]);
    let shape =
        chance.pick(&["(6,)", "()", "(2, 3)", "(1000000000000,)", "(-1,)", "(4611686018427387904, 4)", "(0, 99)"]);
    let order = chance.pick(&["False", "True"]);
    let mut head = format!("{{'descr': '{kind}', 'fortran_order': {order}, 'shape': {shape}, }}");
    while (head.len() + 11) % 64 != 0 {
        head.push(' ');
    }
    head.push('\n');
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((head.len() as u16).to_le_bytes());
    bytes.extend(head.bytes());
    bytes.extend((0..chance.below(64)).map(|_| chance.draw() as u8));
    bytes
}

/// An archive with one stored file and the correct checksum.
pub fn archive(name: &str, file: &[u8]) -> Vec<u8> {
    let sizes =
        [&crc32(file).to_le_bytes()[..], &(file.len() as u32).to_le_bytes(), &(file.len() as u32).to_le_bytes()]
            .concat();
    let mut bytes = b"PK\x03\x04\x14\0\0\0\0\0\0\0\0\0".to_vec();
    bytes.extend(&sizes);
    bytes.extend((name.len() as u16).to_le_bytes());
    bytes.extend([0, 0]);
    bytes.extend(name.bytes());
    bytes.extend(file);
    let directory = bytes.len() as u32;
    bytes.extend(b"PK\x01\x02\x14\0\x14\0\0\0\0\0\0\0\0\0");
    bytes.extend(&sizes);
    bytes.extend((name.len() as u16).to_le_bytes());
    bytes.extend([0; 16]);
    bytes.extend(name.bytes());
    let length = bytes.len() as u32 - directory;
    bytes.extend(b"PK\x05\x06\0\0\0\0\x01\0\x01\0");
    bytes.extend(length.to_le_bytes());
    bytes.extend(directory.to_le_bytes());
    bytes.extend([0, 0]);
    bytes
}

pub(crate) fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32, byte: &u8| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 })
    };
    !bytes.iter().fold(u32::MAX, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_those_of_archives() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
    }
}
