"""Half-precision gradients of PyTorch's eager mode: testdata/corpus/half_gradients.jsonl.

    JITOPT_UNIVERSE=1 JITOPT_DRAWS=draws.jsonl cargo test -p jitopt --test suite gradient_universe
    python half_gradients.py draws.jsonl OUT.jsonl          records
    python half_gradients.py draws.jsonl --ops aten::div.   shows the operators that a backward run executes

Each line of the draws is a graph of one operator with double-precision operands. These are
converted to float16 and bfloat16, scaled by powers of two to either end of the range, and the
incoming gradients are 1, 1024 and 65504. Every output line has the graph, the half-precision
operands, and the results of each case, with elements as their bits. A second program derives the
same operands from the line: a case names its type, its scale, which is a row of SCALES, and the
size of the incoming gradient, whose elements are multiples of PATTERN.
"""

import json
import sys

import torch
from torch.utils._python_dispatch import TorchDispatchMode

# Exponents of two by which elements are scaled, cyclically, for either type.
SCALES = {
    "ordinary": ([0], [0]),
    "tiny": ([-13], [-125]),
    "subnormal": ([-19], [-131]),
    "large": ([15], [127]),
    "mixed": ([0, -13, 15, -19, 0, 8, -8], [0, -125, 127, -131, 0, 8, -8]),
}
# The scale of the operands and the incoming gradient, one case each.
CASES = [("ordinary", 1), ("ordinary", 65504), ("tiny", 1024), ("subnormal", 1), ("large", 1), ("mixed", 1024)]
# Cyclic multipliers of the incoming gradient.
PATTERN = [1.0, -0.5, 0.75]
TYPES = {"half": torch.half, "bfloat16": torch.bfloat16}
OTHER_TYPES = {"Long": torch.long, "Bool": torch.bool, "Char": torch.int8}


class Shown(TorchDispatchMode):
    """Prints operators with the types of their operands."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        print("   ", func, [getattr(arg, "dtype", arg) for arg in args], kwargs or "", getattr(result, "dtype", ""))
        return result


def operands(draw, name, scale):
    """The operands of a case; floating-point ones require gradients."""
    made = []
    for i, drawn in enumerate(draw["inputs"]):
        if drawn["dtype"] != "Double":
            made.append(torch.tensor(drawn["values"]).to(OTHER_TYPES[drawn["dtype"]]).reshape(drawn["shape"]))
            continue
        exponents = SCALES[scale][name == "bfloat16"]
        base = torch.tensor(drawn["values"], dtype=torch.double).half().double()
        powers = [2.0 ** exponents[(k + 3 * i) % len(exponents)] for k in range(base.numel())]
        value = (base * torch.tensor(powers, dtype=torch.double)).to(TYPES[name]).reshape(drawn["shape"])
        made.append(value.requires_grad_(drawn["varies"]))
    return made


def bits(tensor):
    """The bits of half-precision elements, four digits each."""
    return "".join(f"{n & 0xffff:04x}" for n in tensor.detach().contiguous().view(torch.int16).flatten().tolist())


def gradients(function, draw, name, scale, size, shown=False):
    """The gradients of differentiable operands: None for missing ones, nothing if the run raises."""
    inputs = operands(draw, name, scale)
    results = function(*inputs)
    results = results if isinstance(results, (tuple, list)) else [results]
    picked = [(i, r) for i, r in enumerate(results) if i < draw["idle"] and torch.is_tensor(r) and r.requires_grad]
    if not picked or any(r.dtype.is_complex or not r.dtype.is_floating_point for _, r in picked):
        return None
    given = []
    for _, result in picked:
        pattern = [PATTERN[k % 3] * size for k in range(result.numel())]
        given.append(torch.tensor(pattern, dtype=torch.double).to(result.dtype).reshape(result.shape))
    varying = [x for x in inputs if x.requires_grad]
    if shown:
        with Shown():
            found = torch.autograd.grad([r for _, r in picked], varying, given, allow_unused=True)
        print(found)
        return None
    found = torch.autograd.grad([r for _, r in picked], varying, given, allow_unused=True)
    return [None if x is None else bits(x) for x in found]


def compiled(draw):
    """The graph as a function that runs it operator by operator, with eager mode's gradients."""
    graph = torch._C.parse_ir(draw["graph"])
    return torch._C._create_function_from_graph("drawn", graph)


def record(draw):
    """The line of one draw, or None if PyTorch does not run it in half precision."""
    function, cases = compiled(draw), {}
    for name in TYPES:
        for scale, size in CASES:
            try:
                found = gradients(function, draw, name, scale, size)
            except RuntimeError:
                continue
            if found and any(x is not None for x in found):
                cases[f"{name} {scale} {size}"] = found
    if not cases:
        return None
    inputs = []
    for drawn in draw["inputs"]:
        values = drawn["values"]
        if drawn["dtype"] == "Double":
            values = bits(torch.tensor(values, dtype=torch.double).half())
        inputs.append({**drawn, "values": values})
    return {"overload": draw["overload"], "graph": draw["graph"], "inputs": inputs,
            "idle": min(draw["idle"], 99), "cases": cases}


def main():
    torch.set_num_threads(1)
    torch._C._jit_set_profiling_executor(False)
    torch._C._set_graph_executor_optimize(False)
    with open(sys.argv[1]) as file:
        draws = [json.loads(line) for line in file]
    if sys.argv[2] == "--ops":
        scale, size = (sys.argv[4], float(sys.argv[5])) if len(sys.argv) > 5 else ("ordinary", 1)
        for draw in (draw for draw in draws if draw["overload"] == sys.argv[3]):
            print(draw["graph"])
            gradients(compiled(draw), draw, "half", scale, size, shown=True)
        return
    with open(sys.argv[2], "w") as out:
        for draw in draws:
            try:
                line = record(draw)
            except RuntimeError as error:
                print(draw["overload"], str(error).splitlines()[0], file=sys.stderr)
                continue
            if line:
                out.write(json.dumps(line, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
