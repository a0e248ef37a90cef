//! Mutants of archives: bytes changed anywhere, and contents changed inside records that are zipped
//! again with right checksums. Reading any of them ends without a panic; so does reading weights.

use crate::{archives, folder, source};
use jitopt_archive::{Container, open, safetensors, stored_zip};
use proptest::prelude::*;
use std::sync::LazyLock;

static FILES: LazyLock<Vec<Vec<u8>>> =
    LazyLock::new(|| archives(&folder()).iter().map(|path| std::fs::read(path).expect("a file")).collect());

/// Reads everything that can be read.
fn read(bytes: &[u8]) {
    if let Ok(archive) = open(source(bytes)) {
        let mut written = 0usize;
        let _ = safetensors(&archive, None, |piece| {
            written += piece.len();
            Ok(())
        });
        for tensor in archive.tensors.iter().take(50) {
            let _ = archive.content(&tensor.tensor);
        }
    }
}

/// A change of bytes, at a place given as a share of their number.
#[derive(Clone, Debug)]
enum Change {
    Set(f64, u8),
    Flip(f64, u8),
    Cut(f64),
    Remove(f64, usize),
    Repeat(f64, usize),
    Number(f64, u32),
}

fn change() -> impl Strategy<Value = Change> {
    let at = 0.0..1.0f64;
    prop_oneof![
        (at.clone(), any::<u8>()).prop_map(|(at, byte)| Change::Set(at, byte)),
        (at.clone(), 0u8..8).prop_map(|(at, bit)| Change::Flip(at, bit)),
        at.clone().prop_map(Change::Cut),
        (at.clone(), 1usize..20).prop_map(|(at, n)| Change::Remove(at, n)),
        (at.clone(), 1usize..40).prop_map(|(at, n)| Change::Repeat(at, n)),
        (at, prop_oneof![Just(u32::MAX), Just(0), Just(i32::MAX as u32), any::<u32>()])
            .prop_map(|(at, number)| Change::Number(at, number)),
    ]
}

fn apply(bytes: &mut Vec<u8>, change: &Change) {
    if bytes.is_empty() {
        return;
    }
    let place = |share: f64| ((share * bytes.len() as f64) as usize).min(bytes.len() - 1);
    match *change {
        Change::Set(at, byte) => {
            let at = place(at);
            bytes[at] = byte;
        }
        Change::Flip(at, bit) => {
            let at = place(at);
            bytes[at] ^= 1 << bit;
        }
        Change::Cut(at) => bytes.truncate(place(at)),
        Change::Remove(at, count) => {
            let at = place(at);
            bytes.drain(at..(at + count).min(bytes.len()));
        }
        Change::Repeat(at, count) => {
            let at = place(at);
            let copy = bytes[at..(at + count).min(bytes.len())].to_vec();
            bytes.splice(at..at, copy);
        }
        Change::Number(at, number) => {
            let at = place(at);
            for (byte, new) in bytes[at..].iter_mut().zip(number.to_le_bytes()) {
                *byte = new;
            }
        }
    }
}

/// The records of every sound file.
static RECORDS: LazyLock<Vec<Vec<(String, Vec<u8>)>>> = LazyLock::new(|| {
    let records = |bytes: &Vec<u8>| {
        let container = Container::open(source(bytes)).ok()?;
        let one = |entry| Some((jitopt_archive::Entry::clone(entry).name, container.content(entry).ok()?));
        container.entries().iter().map(one).collect::<Option<Vec<_>>>()
    };
    FILES.iter().filter_map(records).collect()
});

/// Zipping again what was read changes nothing: most mutants below reach the inner readers.
#[test]
fn records_zipped_again_are_read_as_before() {
    let accepted = |bytes: &[u8]| open(source(bytes)).map(|archive| archive.tensors).map_err(|refusal| refusal.reason);
    let (mut same, mut refused) = (0, 0);
    for records in RECORDS.iter() {
        match accepted(&stored_zip(records)) {
            Ok(_) => same += 1,
            Err(_) => refused += 1,
        }
    }
    assert!(same >= 10 && refused >= 10, "{same} read, {refused} refused");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn changed_files_are_read_or_refused(file in any::<prop::sample::Index>(), changes in prop::collection::vec(change(), 1..4)) {
        let mut bytes = file.get(&FILES).clone();
        changes.iter().for_each(|change| apply(&mut bytes, change));
        read(&bytes);
    }

    #[test]
    fn changed_records_are_read_or_refused(
        file in any::<prop::sample::Index>(),
        record in any::<prop::sample::Index>(),
        changes in prop::collection::vec(change(), 1..4),
    ) {
        let mut records = file.get(&RECORDS).clone();
        let content = &mut records[record.index(file.get(&RECORDS).len())].1;
        changes.iter().for_each(|change| apply(content, change));
        read(&stored_zip(&records));
    }
}
