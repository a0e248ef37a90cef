"""Runs random graphs in PyTorch and in `jitopt run`, and compares the results.

Usage: compare_random.py JITOPT FIRST_SEED LAST_SEED [NODES]

The graphs come from `jitopt smith`. PyTorch reads them with its own reader and runs them without
optimisation. Standard output has a line for each graph on which the two disagree, and a tally.
Graphs that use random numbers, that PyTorch's reader rejects or that return nothing are skipped.
Values must have the same type, shape and, within the precision of the type, the same elements; of
exceptions only the occurrence is compared, not the message.
"""

import collections
import json
import math
import re
import subprocess
import sys
import tempfile

import torch

DTYPES = {str(dtype).removeprefix("torch."): dtype for dtype in vars(torch).values() if isinstance(dtype, torch.dtype)}
TOLERANCES = {torch.float16: 2e-2, torch.bfloat16: 6e-2, torch.float32: 1e-4, torch.complex64: 1e-3}
SPECIAL = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


def number(text):
    """A number of a description: special values are strings."""
    return SPECIAL[text] if isinstance(text, str) else text


def elements(values, rank, is_complex):
    """The nested lists of a tensor, with numbers at the bottom."""
    if rank > 0:
        return [elements(value, rank - 1, is_complex) for value in values]
    return complex(*map(number, values)) if is_complex else number(values)


def tensor(note):
    """The tensor of a description."""
    dtype, shape = DTYPES[note["dtype"]], note["shape"]
    if 0 in shape:
        return torch.zeros(shape, dtype=dtype)
    made = torch.tensor(elements(note["values"], len(shape), dtype.is_complex), dtype=dtype)
    if "strides" in note:
        made = torch.empty_strided(shape, note["strides"], dtype=dtype).copy_(made)
    return made


def value(note):
    """The value of a description; KeyError if elements are omitted."""
    match note["kind"]:
        case "Tensor":
            return tensor(note)
        case "list":
            return [value(part) for part in note["elements"]]
        case "tuple":
            return tuple(value(part) for part in note["elements"])
        case "None" | "undefined":
            return None
        case "float":
            return number(note["value"])
        case _:
            return note["value"]


def difference(a, b, path=""):
    """The difference of two values, or None."""
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        if a.dtype != b.dtype or a.shape != b.shape:
            return f"{path}: {a.dtype}{list(a.shape)}, {b.dtype}{list(b.shape)}"
        if a.dtype.is_floating_point or a.dtype.is_complex:
            rtol = TOLERANCES.get(a.dtype, 1e-8)
            wide = torch.complex128 if a.dtype.is_complex else torch.float64
            same = torch.allclose(a.to(wide), b.to(wide), rtol=rtol, atol=rtol / 10, equal_nan=True)
        else:
            same = torch.equal(a, b)
        return None if same else f"{path}: {a.flatten()[:6].tolist()}, {b.flatten()[:6].tolist()}"
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)) and len(a) == len(b):
        parts = (difference(x, y, f"{path}.{i}") for i, (x, y) in enumerate(zip(a, b)))
        return next((part for part in parts if part), None)
    both_nan = isinstance(a, float) and isinstance(b, float) and math.isnan(a) and math.isnan(b)
    return None if both_nan or (type(a) is type(b) and a == b) else f"{path}: {a}, {b}"


def with_one_result(graph):
    """The graph with its results in a tuple, as PyTorch requires it; None without results."""
    end = re.search(r"\n  return \((.*)\)\s*$", graph)
    results = [name.strip() for name in end.group(1).split(",")]
    if results == [""]:
        return None
    types = {}
    for name, type_ in re.findall(r"(%[\w.]+) : ([A-Za-z\[\]?]+|\([^=()]*\))", graph):
        types.setdefault(name, type_)
    of_tuple = ", ".join(types[name] for name in results)
    tuple_ = f"  %all.results : ({of_tuple}) = prim::TupleConstruct({', '.join(results)})"
    return f"{graph[: end.start()]}\n{tuple_}\n  return (%all.results)\n"


def run_ours(jitopt, text):
    """The results of `jitopt run` in a tuple, or its error message."""
    with tempfile.NamedTemporaryFile("w", suffix=".ir") as file:
        file.write(text)
        file.flush()
        ran = subprocess.run([jitopt, "run", file.name], capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        return None, ran.stderr.strip()
    outputs = value(json.loads(ran.stdout)["outputs"])
    return outputs if isinstance(outputs, tuple) else (outputs,), None


def compare(jitopt, seed, nodes):
    """The outcome of one graph, in a few words; disagreements begin with their seed."""
    command = [jitopt, "smith", "--seed", str(seed), "--nodes", str(nodes)]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    if re.search(r"rand_like|dropout", text):
        return "draws random numbers"
    lines = text.split("\n")
    notes = json.loads("[" + "".join(line[7:] for line in lines if line.startswith("# ARGS:")) + "]")
    graph = with_one_result("\n".join(line for line in lines if not line.startswith("#")))
    if graph is None:
        return "returns nothing"
    try:
        function = torch._C._create_function_from_graph("f", torch._C.parse_ir(graph))
    except RuntimeError:
        return "is not read by PyTorch"
    try:
        with torch.no_grad(), torch.jit.optimized_execution(False):
            theirs, raised = function(*map(value, notes)), None
    except Exception as error:  # whatever a graph raises is a result
        theirs, raised = None, str(error).strip().split("\n")[-1]
    try:
        ours, said = run_ours(jitopt, text)
    except KeyError:
        return "is too large to be printed"
    if (raised is None) != (said is None):
        return f"{seed}: PyTorch {raised or 'has results'}; jitopt {said or 'has results'}"
    apart = None if raised else difference(theirs, ours)
    return f"{seed}: {apart}" if apart else "same"


def main():
    """The command."""
    jitopt, first, last = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    nodes = int(sys.argv[4]) if len(sys.argv) > 4 else 15
    torch.set_num_threads(1)
    tally = collections.Counter()
    for seed in range(first, last):
        result = compare(jitopt, seed, nodes)
        differs = result[0].isdigit()
        if differs:
            print(result[:400], flush=True)
        tally["DIFFERENT" if differs else result] += 1
    print(f"PyTorch {torch.__version__}:", dict(tally))


if __name__ == "__main__":
    main()
