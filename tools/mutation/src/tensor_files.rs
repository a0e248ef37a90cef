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
