"""Records PyTorch's code of graphs, as the expected output of `jitopt --emit=python`.

Usage: record_code.py FOLDER [GRAPHS.ir …]

Writes NAME.ir, a graph as PyTorch prints it, and NAME.py, its code, into FOLDER: for each function
and module in `code_cases.py`, as scripted or traced, inlined, frozen, and after each of a list of
passes. With file names, it records instead the graphs in them that PyTorch's own reader accepts, as
printed by that reader. Graphs without code are skipped; a tally of the reasons goes to standard
output. All functions are called `forward`; defaults of parameters and source locations are omitted.
"""

import collections
import pathlib
import re
import sys

import torch

import code_cases

PASSES = [
    "inline",
    "constant_propagation",
    "constant_pooling",
    "cse",
    "dce",
    "peephole",
    "loop_unrolling",
    "constant_loop_unrolling",
    "lower_all_tuples",
    "remove_mutation",
    "decompose_ops",
    "canonicalize_graph_fuser_ops",
    "fuse_linear",
    "remove_expands",
    "inline_fork_wait",
]
LOCATION = re.compile(r" # [^\"\n]*:\d+:\d+$", re.M)
NAME = re.compile(r"\Adef [A-Za-z0-9_]+\(")
SELF = re.compile(r"\Adef forward\(self: __torch__[^,)]*")


def readable(text):
    """Adapts a text to PyTorch's reader, which refuses `=` of nodes without outputs, and scopes."""
    return re.sub(r", scope: [^#\n]*", "", re.sub(r"^( *)  = (?=[a-z])", r"\1 ", text, flags=re.M))


def nodes_of(block):
    """The nodes of a block and of the blocks in them, in printed order."""
    for node in block.nodes():
        yield node
        for inner in node.blocks():
            yield from nodes_of(inner)


def read(text):
    """Parses a graph and restores the names of outputs, which PyTorch's reader drops."""
    graph = torch._C.parse_ir(readable(text), parse_tensor_constants=True)
    lines = [line for line in text.splitlines() if re.match(r" +(%.* = | = |)(\^|[a-z_0-9]+::)", line)]
    nodes = list(nodes_of(graph))
    if len(nodes) == len(lines):
        for node, line in zip(nodes, lines):
            names = re.findall(r"%([^ ,:()=]+) :", line.split(" = ")[0])
            for value, name in zip(node.outputs(), names):
                if not name.isdigit():
                    value.setDebugName(name)
    return graph


def text_of(graph):
    """The text of a graph without source locations."""
    return LOCATION.sub("", str(graph))


def named_forward(code):
    """Renames a function to `forward` and drops parameter defaults, which graphs do not contain."""
    head, arrow, rest = NAME.sub("def forward(", code).partition(") -> ")
    return re.sub(r"=[^\n]*?(?=,\n|\Z)", "", head) + arrow + rest


def code_of(graph):
    """The code of a graph, as a method if the first parameter is an object called `self`."""
    code = torch._C._create_function_from_graph("forward", graph).code
    return SELF.sub("def forward(self", code)


class Recorder:
    """Writes pairs, and counts graphs without a pair."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.failures = collections.Counter()
        self.seen = set()
        self.written = 0

    def attempt(self, name, make):
        """Records a graph and its code, the results of `make`; duplicates are skipped."""
        try:
            text, code = make()
        except Exception as error:  # noqa: BLE001
            first = (str(error).strip().splitlines() or [""])[0]
            self.failures[f"{type(error).__name__}: {first[:100]}"] += 1
            return
        if text in self.seen:
            return
        self.seen.add(text)
        self.written += 1
        (self.folder / f"{name}.ir").write_text(text)
        (self.folder / f"{name}.py").write_text(code)

    def graph(self, name, make):
        """Records a graph with the code of a function created from it."""

        def both():
            graph = make()
            return text_of(graph), code_of(graph)

        self.attempt(name, both)


def after(graph, name):
    """A copy of a graph after a pass."""
    copy = graph.copy()
    run = getattr(torch._C, f"_jit_pass_{name}")
    result = run(copy)
    return result if isinstance(result, torch._C.Graph) else copy


def record_case(recorder, name, thing, example):
    """Records a function or module, and its graph after passes."""
    is_module = isinstance(thing, torch.nn.Module)
    compiled = torch.jit.script(thing) if example is None else torch.jit.trace(thing, example, check_trace=False)
    how = "script" if example is None else "trace"
    recorder.attempt(f"{name}.{how}", lambda: (text_of(compiled.graph), named_forward(compiled.code)))
    recorder.graph(f"{name}.inlined", lambda: compiled.inlined_graph.copy())
    for each in PASSES:
        recorder.graph(f"{name}.{each}", lambda each=each: after(compiled.inlined_graph, each))
    if is_module:
        for method, inner in compiled.named_modules():
            if method and hasattr(inner, "forward"):
                inner_name = f"{name}.{method.replace('.', '_')}"
                recorder.attempt(inner_name, lambda inner=inner: (text_of(inner.graph), named_forward(inner.code)))

        def frozen():
            return torch.jit.freeze(compiled.eval()).graph

        recorder.graph(f"{name}.frozen", frozen)


def main():
    recorder = Recorder(sys.argv[1])
    for path in map(pathlib.Path, sys.argv[2:]):
        name = f"{path.parent.name}.{path.name.removesuffix('.ir')}"
        recorder.graph(name, lambda path=path: read(path.read_text()))
    if len(sys.argv) == 2:
        for name, thing, example in code_cases.cases():
            try:
                record_case(recorder, name, thing, example)
            except Exception as error:  # noqa: BLE001
                first = (str(error).strip().splitlines() or [""])[-1]
                recorder.failures[f"{name}: {type(error).__name__}: {first[:140]}"] += 1
    print(f"{recorder.written} graphs with code")
    for why, count in recorder.failures.most_common():
        print(f"{count:6} {why}")


main()
