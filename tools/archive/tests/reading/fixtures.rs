//! Reads the small archives of this repository.

use crate::{folder, source};
use jitopt_archive::{Archive, Kind, Role, Written, open, safetensors};

fn read(name: &str) -> Archive {
    let bytes = std::fs::read(folder().join(name)).expect("a file");
    open(source(&bytes)).unwrap_or_else(|refusal| panic!("{name}: {refusal}"))
}

#[test]
fn kinds_are_recognised() {
    let kinds = ["legacy_1.2.pt", "methods_2.15.pt", "mobile_1.8.ptl", "tied_2.5.pt2", "tied_2.15.pt2"];
    let wanted = [Kind::Legacy, Kind::TorchScript, Kind::Mobile, Kind::Serialized, Kind::Exported];
    assert_eq!(kinds.map(|name| read(name).kind), wanted);
}

#[test]
fn tied_weights_share_their_storage() {
    for name in ["tied_2.5.pt2", "tied_2.15.pt2"] {
        let archive = read(name);
        let names: Vec<&str> = archive.tensors.iter().map(|tensor| tensor.name.as_str()).collect();
        assert_eq!(names, ["emb.weight", "out.weight"]);
        assert_eq!(archive.tensors[0].tensor.storage, archive.tensors[1].tensor.storage);
        assert_eq!((archive.tensors[0].role, archive.stored_bytes()), (Role::Parameter, 112));
    }
}

#[test]
fn a_load_hook_is_not_run_and_nothing_is_exported() {
    let archive = read("load_hook_2.15.pt");
    assert_eq!(archive.hooks, ["__setstate__"]);
    assert_eq!((archive.tensors[0].name.as_str(), archive.tensors[0].role), ("__setstate__.0", Role::State));
    let refusal = safetensors(&archive, None, |_| Ok(())).expect_err("a hook");
    assert!(refusal.reason.contains("nothing here runs code"), "{refusal}");
}

#[test]
fn quantised_weights_are_left_out_by_name() {
    let archive = read("quantized_2.15.pt");
    let packed = archive.tensors.iter().find(|tensor| tensor.tensor.dtype.is_quantized()).expect("a packed weight");
    assert_eq!((packed.name.as_str(), packed.role), ("0._packed_params._packed_params.0", Role::State));
    let written = safetensors(&archive, None, |_| Ok(())).expect("the others");
    assert_eq!(written.tensors + written.left_out.len(), archive.tensors.len());
    let refusal = &written.left_out[0];
    assert!(refusal.reason.contains("is quantised (qint8)"), "{refusal}");
}

/// The header names every tensor with its place, and all elements follow.
#[test]
fn the_exported_file_has_a_header_and_all_elements() {
    let archive = read("dtypes_2.15.pt");
    let mut bytes = Vec::new();
    let written = safetensors(&archive, None, |piece| {
        bytes.extend_from_slice(piece);
        Ok(())
    });
    assert_eq!(written, Ok(Written { tensors: archive.tensors.len(), left_out: Vec::new() }));
    let length = u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes")) as usize;
    let header: serde_json::Value = serde_json::from_slice(&bytes[8..8 + length]).expect("JSON");
    let total: u64 = archive.tensors.iter().map(|tensor| tensor.tensor.bytes()).sum();
    assert_eq!(bytes.len() as u64, 8 + length as u64 + total);
    for tensor in &archive.tensors {
        let row = &header[&tensor.name];
        assert_eq!(row["dtype"], tensor.tensor.dtype.safetensors().expect("a name"));
        let place = [0, 1].map(|at| row["data_offsets"][at].as_u64().expect("a number") as usize + 8 + length);
        assert_eq!(bytes[place[0]..place[1]], archive.content(&tensor.tensor).expect("elements"));
    }
}
