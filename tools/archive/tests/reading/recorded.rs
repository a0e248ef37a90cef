//! Archives of nine releases against what PyTorch recorded of them; hostile ones against what a
//! strict reader must say. They are in the folder that `JITOPT_CORPUS` names, not in this
//! repository.

use crate::archives;
use crate::sha256::sha256;
use jitopt_archive::{Archive, open};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Hostile archives whose fault shows only when the code is typed, or its load hook is run, or
/// operators have schemas. What is read here is sound, and nothing of it runs.
const BEYOND: [&str; 12] = [
    "c_setstate_allocation_3_gigabytes",
    "c_setstate_as_strided_resize",
    "c_setstate_doubling_list",
    "c_setstate_huge_allocation",
    "c_setstate_infinite_loop",
    "c_setstate_infinite_loop_empty",
    "c_setstate_long_loop",
    "c_setstate_raises",
    "c_undefined_name",
    "c_wrong_return_type",
    "e_meta_wrong",
    "e_target_unknown",
];

/// Archives of 1.2 that are not read yet: an element type without a name, a parameter without a
/// tensor.
const UNREAD: [&str; 2] = ["1.2.0/dtypes.pt", "1.2.0/getstate_setstate.pt"];

fn corpus() -> Option<PathBuf> {
    let folder = std::env::var_os("JITOPT_CORPUS").map(|folder| Path::new(&folder).join("archives"));
    folder.filter(|folder| folder.is_dir())
}

fn read(path: &Path) -> Result<Archive, String> {
    let file = std::fs::File::open(path).expect("a file");
    open(Box::new(file)).map_err(|refusal| refusal.to_string())
}

#[test]
fn hostile_archives_are_refused() {
    let Some(corpus) = corpus() else { return };
    let (mut wrong, mut judged) = (Vec::new(), 0);
    for path in archives(&corpus.join("hostile")) {
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        let expected = std::fs::read_to_string(path.with_extension("expect.txt")).expect("a verdict");
        let accepted = read(&path);
        println!("{name}: {}", accepted.as_ref().map_or_else(|e| e.clone(), |_| "accepted".to_owned()));
        let wanted = !expected.starts_with("refuse") || BEYOND.contains(&name.as_str());
        judged += 1;
        if accepted.is_ok() != wanted {
            wrong.push(format!("{name}: {} {:?}", expected.trim(), accepted.err()));
        }
    }
    assert!(wrong.is_empty() && judged > 100, "{judged} judged:\n{}", wrong.join("\n"));
}

#[test]
fn archives_of_nine_releases_are_read_with_every_tensor() {
    let Some(corpus) = corpus() else { return };
    let (mut wrong, mut read_tensors, mut read_archives, mut unread) = (Vec::new(), 0, 0, 0);
    for path in archives(&corpus).iter().filter(|path| !path.parent().is_some_and(|p| p.ends_with("hostile"))) {
        match read(path) {
            Err(_) if UNREAD.iter().any(|known| path.ends_with(known)) => unread += 1,
            Err(refusal) => wrong.push(format!("{}: {refusal}", path.display())),
            Ok(archive) => {
                read_archives += 1;
                match compare(path, &archive) {
                    Ok(count) => read_tensors += count,
                    Err(difference) => wrong.push(format!("{}: {difference}", path.display())),
                }
            }
        }
    }
    println!("{read_archives} archives, {read_tensors} tensors as recorded");
    assert!(wrong.is_empty() && read_tensors > 760 && unread == UNREAD.len(), "{}", wrong.join("\n"));
}

/// Compares all recorded tensors; the number of them.
fn compare(path: &Path, archive: &Archive) -> Result<usize, String> {
    let Ok(text) = std::fs::read_to_string(path.with_extension("state.json")) else { return Ok(0) };
    let state: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    let Some(recorded) = state["tensors"].as_object() else { return Err("no tensors are recorded".to_owned()) };
    // What a hook makes of a state is not known here.
    if !archive.hooks.is_empty() {
        return Ok(0);
    }
    let read: BTreeMap<&str, _> = archive.tensors.iter().map(|tensor| (tensor.name.as_str(), tensor)).collect();
    let mut storages: BTreeMap<u64, usize> = BTreeMap::new();
    for (name, wanted) in recorded {
        let found = read.get(name.as_str()).ok_or_else(|| format!("no tensor {name}"))?;
        let view = &found.tensor;
        let numbers = |key: &str| -> Vec<u64> {
            wanted[key].as_array().into_iter().flatten().filter_map(Value::as_u64).collect()
        };
        let same = view.dtype.name() == wanted["dtype"].as_str().unwrap_or_default()
            && view.sizes == numbers("shape")
            && view.strides == numbers("strides")
            && Some(view.offset) == wanted["storage_offset"].as_u64();
        let content = archive.content(view).map_err(|refusal| format!("{name}: {refusal}"))?;
        let digest = sha256(&content);
        if !same || wanted["sha256"].as_str() != Some(&digest) {
            return Err(format!("{name}: {view:?}, sha256 {digest}; recorded {wanted}"));
        }
        let storage = wanted["storage"].as_u64().unwrap_or_default();
        if *storages.entry(storage).or_insert(view.storage) != view.storage {
            return Err(format!("{name}: storage {storage} is split"));
        }
        let kind = wanted["kind"].as_str().unwrap_or_default();
        if matches!(kind, "parameter" | "buffer") && kind != found.role.name() {
            return Err(format!("{name}: a {}, recorded as {kind}", found.role.name()));
        }
    }
    Ok(recorded.len())
}
