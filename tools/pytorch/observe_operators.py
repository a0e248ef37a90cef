"""What PyTorch says of its operators: src/ops/observed.txt, a line for each overload.

    JITOPT_SHAPES_DUMP=NODES cargo test -p jitopt --test suite shape_coverage
    python observe_operators.py src/ops/rows NODES > src/ops/observed.txt

NODES has calls that the interpreter runs, a line each. The floating-point operands of each call
are drawn at random here, and the call is made in PyTorch. An overload of a kind with a row gets a
line with its name, and of these words those that hold:

    pointwise reduction random     its tags
    python=MODULE                  the function of this name: in `torch.functional` and
                                   `torch.nn.functional` if it is compiled, else `torch`
    ran=N                          so many calls returned
    gradient=A,B                   these operands have a gradient
    flat                           no floating-point operand has one, and there are some
    shares=A                       a result shares memory with this operand in some call, which the
                                   schema does not say
    moves                          each result element is one of an operand, from a place that does
                                   not depend on the numbers, in each call
    exact inexact                  each result in single precision is that in double precision,
                                   or some is not
    judged                         the next three words were looked at
    settled                        a guard after it is redundant if each tensor among the operands
                                   is guarded, and the others are constants
    operands outputs               profiled runs record them

The last four need programs against the headers of the installed torch: g++ and two minutes.
"""

import math
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import warnings

import torch

warnings.simplefilter("ignore")
# Threads do not survive a fork.
torch.set_num_threads(1)
NUMBERS = {"Float": torch.float32, "Double": torch.float64, "Half": torch.float16, "BFloat16": torch.bfloat16,
           "ComplexFloat": torch.complex64, "ComplexDouble": torch.complex128, "Bool": torch.bool, "Byte": torch.uint8,
           "Char": torch.int8, "Short": torch.int16, "Int": torch.int32, "Long": torch.int64}
MOST_CALLS = 40

PROGRAM = r"""
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/ir/irparser.h>
#include <torch/csrc/jit/passes/guard_elimination.h>
#include <torch/csrc/jit/runtime/profiling_record.h>
#include <fstream>
#include <iostream>
#include <sstream>
using namespace torch::jit;

static Node* named(Graph& graph, const std::string& kind) {
  for (Node* node : graph.nodes())
    if (node->kind().toQualString() == kind) return node;
  return nullptr;
}

// Each graph follows a line `# KIND`; a line of four digits comes out for it.
int main(int, char** argv) {
  std::ifstream file(argv[1]);
  std::string line, kind, text;
  auto judge = [&] {
    if (kind.empty()) return;
    bool judged = false, settled = false, operands = false, outputs = false;
    try {
      auto graph = std::make_shared<Graph>();
      parseIR(text, graph.get());
      auto copy = graph->copy();
      EliminateRedundantGuards(graph);
      Node* node = named(*graph, kind);
      bool guarded = false;
      for (const auto& use : node->output(0)->uses()) guarded |= use.user->kind() == prim::Guard;
      settled = !guarded;
      auto record = ProfilingRecord::instrumentGraph(copy);
      Node* seen = named(*record->graph(), kind);
      for (Value* value : seen->inputs()) operands |= value->node()->kind() == prim::profile;
      for (const auto& use : seen->output(0)->uses()) outputs |= use.user->kind() == prim::profile;
      judged = true;
    } catch (const std::exception& error) {
      std::cerr << kind << ": " << std::string(error.what()).substr(0, 200) << "\n";
    }
    std::cout << judged << settled << operands << outputs << "\n";
  };
  while (std::getline(file, line)) {
    if (line.rfind("# ", 0) == 0) {
      judge();
      kind = line.substr(2);
      text.clear();
    } else {
      text += line + "\n";
    }
  }
  judge();
}
"""


# ---- calls

def bracketed(text, at):
    """The end of the bracket that opens at a position."""
    depth = 0
    for i in range(at, len(text)):
        depth += text[i] in "([{"
        depth -= text[i] in ")]}"
        if depth == 0:
            return i
    raise ValueError(text)


def pieces(text):
    """The parts of a list, at commas outside of brackets."""
    parts, start, depth = [], 0, 0
    for i, letter in enumerate(text + ","):
        depth += letter in "([{"
        depth -= letter in ")]}"
        if letter == "," and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
    return [part for part in parts if part]


class Spec:
    """A tensor without its elements."""

    def __init__(self, text):
        self.dtype = NUMBERS[re.search(r"dtype: (\w+)", text)[1]]
        self.shape = [int(n) for n in pieces(re.search(r"shape: \[([^]]*)\]", text)[1])]
        self.limit = int(re.search(r"limit: (-?\d+)", text)[1])

    def made(self, draws, wide, positive):
        n = math.prod(self.shape)
        if self.dtype.is_floating_point or self.dtype.is_complex:
            numbers = torch.rand(n, generator=draws) * 0.8 + 0.1 if positive else torch.randn(n, generator=draws)
            dtype = self.dtype
            if wide:
                numbers, dtype = numbers.to(dtype), torch.float64 if dtype == torch.float32 else dtype
            return numbers.to(dtype).reshape(self.shape)
        numbers = torch.arange(n) % max(self.limit, 1)
        return numbers.to(self.dtype).reshape(self.shape)


def operand(text):
    """An operand as Rust prints it: a number, a list, a text, or a `Spec` for each tensor."""
    head, _, rest = text.partition("(")
    inner = rest[:-1]
    match head:
        case "None":
            return None
        case "Int":
            return int(inner)
        case "Float":
            return float(inner)
        case "Bool":
            return inner == "true"
        case "Str" | "Device":
            return inner[1:-1]
        case "Ints":
            return [int(n) for n in pieces(inner[1:-1])]
        case "Floats":
            return [float(n) for n in pieces(inner[1:-1])]
        case "Bools":
            return [part == "true" for part in pieces(inner[1:-1])]
        case "Tensor":
            return Spec(inner)
        case "Tensors":
            return [None if part == "None" else Spec(part[5:-1]) for part in pieces(inner[1:-1])]
    raise KeyError(head)


def tensors(value):
    """The tensors in a value."""
    if isinstance(value, torch.Tensor):
        return [value]
    return [one for part in value for one in tensors(part)] if isinstance(value, (list, tuple)) else []


class Call:
    """A call of an overload."""

    def __init__(self, overload, words):
        self.overload, self.operands = overload, [operand(word) for word in words]

    def operands_of(self, seed, wide=False, positive=False):
        draws = torch.Generator().manual_seed(seed)

        def one(value):
            if isinstance(value, Spec):
                return value.made(draws, wide, positive)
            return [one(part) for part in value] if isinstance(value, list) else value
        return [one(value) for value in self.operands]

    def run(self, operands):
        """The tensors of the results."""
        torch.manual_seed(0)
        schema = self.overload._schema
        plain = [value for value, formal in zip(operands, schema.arguments) if not formal.kwarg_only]
        named = {formal.name: value for value, formal in zip(operands, schema.arguments) if formal.kwarg_only}
        return tensors(self.overload(*plain, **named))


def has_parts(tensor):
    return tensor.dtype.is_floating_point or tensor.dtype.is_complex


def places(operands, results):
    """Per result element the operand and index of the equal element; None if one has none."""
    table = {}
    for n, tensor in enumerate(one for value in operands for one in tensors(value)):
        if has_parts(tensor):
            for at, number in enumerate(tensor.detach().flatten().tolist()):
                table.setdefault(number, (n, at))
    found = [table.get(number) for result in results if has_parts(result) for number in result.flatten().tolist()]
    return None if None in found else found


class Seen:
    """What calls of an overload show."""

    def __init__(self):
        self.ran, self.gradients, self.without, self.shares = 0, set(), set(), set()
        self.moves, self.exact = [], []

    def note(self, call):
        operands = call.operands_of(1)
        results = call.run(operands)
        self.ran += 1
        formals = call.overload._schema.arguments
        for value, formal in zip(operands, formals):
            shared = [one for one in tensors(value) if any(same_memory(one, result) for result in results)]
            if shared and formal.alias_info is None:
                self.shares.add(formal.name)
            self.note_gradient(call, formal, value)
        self.note_moves(call, operands, results)
        self.note_precision(call)

    def note_gradient(self, call, formal, value):
        own = [one for one in tensors(value) if has_parts(one)]
        if not own:
            return
        operands = call.operands_of(1, positive=True)
        own = tensors(operands[[f.name for f in call.overload._schema.arguments].index(formal.name)])
        for one in own:
            one.requires_grad_()
        try:
            results = [one for one in call.run(operands) if one.requires_grad]
            whole = sum(one.abs().sum() for one in results)
            torch.autograd.grad(whole, own, allow_unused=True) if results else None
        except Exception:
            results = []
        (self.gradients if results else self.without).add(formal.name)

    def note_moves(self, call, operands, results):
        if not any(has_parts(one) and one.numel() > 1 for one in results):
            return
        others = call.operands_of(2)
        first, second = places(operands, results), places(others, call.run(others))
        self.moves.append(first is not None and first == second)

    def note_precision(self, call):
        for seed, positive in [(3, False), (4, True)]:
            single = call.run(call.operands_of(seed, positive=positive))
            double = call.run(call.operands_of(seed, wide=True, positive=positive))
            for a, b in zip(single, double):
                if a.dtype == torch.float32 and b.dtype == torch.float64 and a.numel():
                    self.exact.append(a.shape == b.shape and torch.equal(torch.nan_to_num(a.double()), torch.nan_to_num(b)))

    def words(self):
        yield f"ran={self.ran}" if self.ran else None
        yield f"gradient={','.join(sorted(self.gradients))}" if self.gradients else None
        yield "flat" if self.without and not self.gradients else None
        yield f"shares={','.join(sorted(self.shares))}" if self.shares else None
        yield "moves" if self.moves and all(self.moves) else None
        yield ("exact" if all(self.exact) else "inexact") if self.exact else None


def same_memory(a, b):
    return a.numel() > 0 and b.numel() > 0 and a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()


def watched(overload, calls):
    """What the calls show, in words."""
    seen = Seen()
    for words in calls:
        try:
            seen.note(Call(overload, words))
        except Exception:
            continue
    return [word for word in seen.words() if word]


def apart(overload, calls):
    """The same in a process of its own: some operators read where there is no memory."""
    if not calls:
        return []
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        os.write(writer, " ".join(watched(overload, calls)).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as words:
        found = words.read().split()
    os.waitpid(child, 0)
    return found


# ---- tags, modules, guards

def module(name):
    """Where the Python function of this name is compiled, or `torch`."""
    for place in (torch.functional, torch.nn.functional):
        found = getattr(place, name, None)
        if getattr(found, "__module__", None) == place.__name__ and found.__name__ == name:
            return place.__name__
    places = (torch, torch.nn.functional, torch._C._nn)
    return "torch" if any(callable(getattr(place, name, None)) for place in places) else None


def guarded_graph(kind, schema):
    """A graph of one node with guarded tensors and constants."""
    params, lines, names = [], [], []
    full = "Float(2, 2, strides=[2, 1], requires_grad=0, device=cpu)"
    for i, formal in enumerate(schema.arguments):
        ty = str(formal.type)
        match ty:
            case "Tensor":
                params.append(f"%p{i} : Tensor")
                lines.append(f"  %v{i} : {full} = prim::Guard(%p{i})")
            case "int" | "number" | "SymInt":
                lines.append(f"  %v{i} : int = prim::Constant[value=1]()")
            case "float":
                lines.append(f"  %v{i} : float = prim::Constant[value=0.5]()")
            case "bool":
                lines.append(f"  %v{i} : bool = prim::Constant[value=0]()")
            case "str":
                lines.append(f'  %v{i} : str = prim::Constant[value="none"]()')
            case _ if ty.startswith("Optional"):
                lines.append(f"  %v{i} : NoneType = prim::Constant()")
            case "List[int]":
                lines.append(f"  %v{i} : int[] = prim::Constant[value=[1, 1]]()")
            case _:
                return None
        names.append(f"%v{i}")
    results = [f"%r{i} : Tensor" for i in range(len(schema.returns))]
    lines.append(f"  {', '.join(results)} = {kind}({', '.join(names)})")
    lines.append(f"  %h : {full} = prim::Guard(%r0)")
    return f"graph({', '.join(params)}):\n" + "\n".join(lines) + "\n  return (%h)\n"


def guards(overloads):
    """The words about guards and profiles of each overload."""
    asked, texts = [], []
    for name, overload in overloads.items():
        makes_tensor = overload._schema.returns and str(overload._schema.returns[0].type) == "Tensor"
        text = guarded_graph(name.split(".")[0], overload._schema) if makes_tensor else None
        if text:
            asked.append(name)
            texts.append(f"# {name.split('.')[0]}\n{text}")
    root = pathlib.Path(torch.__file__).parent
    with tempfile.TemporaryDirectory() as folder:
        place = pathlib.Path(folder)
        (place / "guards.cpp").write_text(PROGRAM)
        (place / "graphs.ir").write_text("".join(texts))
        includes = [f"-I{root / 'include'}", f"-I{root / 'include/torch/csrc/api/include'}"]
        libraries = [f"-L{root / 'lib'}", f"-Wl,-rpath,{root / 'lib'}", "-ltorch", "-ltorch_cpu", "-lc10"]
        subprocess.run(["g++", "-std=c++20", "-O0", *includes, place / "guards.cpp", *libraries, "-o", place / "guards"],
                       check=True)
        out = subprocess.run([place / "guards", place / "graphs.ir"], check=True, capture_output=True, text=True)
    sys.stderr.write(out.stderr)
    digits = out.stdout.split()
    words = ("judged", "settled", "operands", "outputs")
    return {name: [word for word, digit in zip(words, line) if digit == "1"] for name, line in zip(asked, digits)}


def overloads_of(kinds):
    """The overloads of kinds that write to nothing, by name."""
    found = {}
    for kind in sorted(kinds):
        space, short = kind.split("::")
        packet = getattr(getattr(torch.ops, space), short, None) if space in ("aten", "prims") else None
        for overload in packet.overloads() if packet else []:
            one = getattr(packet, overload)
            if not any(formal.is_out for formal in one._schema.arguments):
                found[f"{kind}.{'' if overload == 'default' else overload}"] = one
    return found


def main():
    rows = pathlib.Path(sys.argv[1])
    kinds = {kind for file in rows.glob("*_rows.rs") for kind in re.findall(r'kind: "([^"]+)"', file.read_text())}
    overloads = overloads_of(kinds)
    calls = {}
    for line in pathlib.Path(sys.argv[2]).read_text().splitlines():
        kind, overload, *rest = line.split("\t")
        calls.setdefault(f"{kind}.{overload}", []).append(rest[:-1])
    about_guards = guards(overloads)
    for name, overload in overloads.items():
        tags = {"pointwise": torch.Tag.pointwise, "reduction": torch.Tag.reduction, "random": torch.Tag.nondeterministic_seeded}
        words = [word for word, tag in tags.items() if tag in overload.tags]
        place = module(name.split("::")[1].split(".")[0]) if name.startswith("aten::") else None
        words += [f"python={place}"] if place else []
        words += apart(overload, calls.get(name, [])[:MOST_CALLS]) + about_guards.get(name, [])
        print(name, *words, flush=True)


main()
