//! Files that hold no text of a graph, by the bytes that they begin with.

const GRAPH: &str = "expected `graph(%x : Tensor, …):`";
const UNPACK: &str = "unpack it first: what is inside may be a graph or an archive";

/// The place and the bytes that mark a kind of file, its name, and what to do.
type Kind = (usize, &'static [u8], &'static str, &'static str);

const KINDS: &[Kind] = &[
    (
        0,
        b"PK\x03\x04",
        "a zip archive, such as a `.pt` file, is not a graph",
        "print its graph: `print(torch.jit.load(FILE).inlined_graph)`",
    ),
    (
        0,
        b"\x80\x02",
        "a pickle, such as a checkpoint of `torch.save` before 1.6, holds values, but no program",
        "save the program with `torch.jit.save` or `torch.export.save`",
    ),
    (
        0,
        b"\x80\x04",
        "a pickle of Python holds values, but no program",
        "save the program with `torch.jit.save` or `torch.export.save`",
    ),
    (0, b"\x1f\x8b", "a gzip file is not a graph", UNPACK),
    (0, b"BZh", "a bzip2 file is not a graph", UNPACK),
    (0, b"\xfd7zXZ", "an xz file is not a graph", UNPACK),
    (0, b"\x28\xb5\x2f\xfd", "a zstd file is not a graph", UNPACK),
    (257, b"ustar", "a tar archive is not a graph", UNPACK),
    (0, b"\x89PNG", "a picture is not a graph", GRAPH),
    (0, b"\x93NUMPY", "an array of NumPy is not a graph", "`jitopt run GRAPH --inputs FILE` reads it"),
    (0, b"\x89HDF", "an HDF5 file is not a graph", GRAPH),
    (0, b"\x7fELF", "a program or a library is not a graph", GRAPH),
    (8, b"{\"", "a safetensors file holds tensors, but no program", "`jitopt run GRAPH --inputs FILE` reads it"),
];

/// The kind of a file that begins like this and is not a graph, and advice.
pub(super) fn of_no_graph(bytes: &[u8]) -> Option<(&'static str, &'static str)> {
    let is = |&&(at, mark, ..): &&Kind| bytes.get(at..).is_some_and(|rest| rest.starts_with(mark));
    let known = KINDS.iter().find(is).map(|&(_, _, message, help)| (message, help));
    let first = bytes.split(|&byte| byte == b'\n').next().unwrap_or_default();
    known.or_else(|| first.contains(&0).then_some(("a binary file is not a graph", GRAPH)))
}
