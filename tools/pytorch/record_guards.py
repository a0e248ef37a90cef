"""Results of PyTorch's guard passes on profiled graphs, step by step: testdata/corpus/guards.

    python record_guards.py OUT FILE.ir ...

Each file is the text of a graph with `prim::profile` nodes that contain the observed types. The
outputs are OUT/NAME.profiled.ir, the graph as PyTorch reads it, then .insert.ir, .move.ir,
.coalesce.ir, .dominated.ir, .eliminate.ir if a step changed it, and .bailouts.ir. The passes have
no Python bindings, so a small program is compiled against the headers and libraries of the
installed torch, which needs g++ and about a minute. Nodes that count runs (` = prim::profile()`)
are removed, because PyTorch's reader refuses nodes without results; graphs with other such nodes
are skipped.
"""

import pathlib
import re
import subprocess
import sys
import tempfile

import torch

PROGRAM = r"""
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/ir/irparser.h>
#include <torch/csrc/jit/jit_log.h>
#include <torch/csrc/jit/passes/bailout_graph.h>
#include <torch/csrc/jit/passes/guard_elimination.h>
#include <torch/csrc/jit/passes/insert_guards.h>
#include <fstream>
#include <iostream>
#include <sstream>
using namespace torch::jit;

static void put(const std::string& name, const std::string& text) { std::ofstream(name) << text; }

int main(int argc, char** argv) {
  std::stringstream text, log;
  text << std::ifstream(argv[1]).rdbuf();
  std::string stem = argv[2];
  auto graph = std::make_shared<Graph>();
  try {
    parseIR(text.str(), graph.get());
  } catch (const std::exception& error) {
    std::cerr << argv[1] << " is passed over: the reader refuses it\n";
    return 1;
  }
  put(stem + ".profiled.ir", graph->toString());
  InsertGuards(graph);
  put(stem + ".insert.ir", graph->toString());
  set_jit_logging_levels(">>guard_elimination");
  set_jit_logging_output_stream(log);
  EliminateRedundantGuards(graph);
  put(stem + ".log", log.str());
  InsertBailOuts(graph);
  put(stem + ".bailouts.ir", graph->toString());
}
"""

STEPS = {"moveGuardsToDefs": "move", "coalesceGuards": "coalesce",
         "removeDominatedGuards": "dominated", "eliminateRedundantGuards": "eliminate"}
LINE = re.compile(r"\[DUMP guard_elimination\.cpp:\d+\] (?:After (\w+)$)?(.*)")


def compiled(folder):
    home = pathlib.Path(torch.__file__).parent
    source, program = folder / "guards.cpp", folder / "guards"
    source.write_text(PROGRAM)
    include = [f"-I{home / 'include'}", f"-I{home / 'include/torch/csrc/api/include'}"]
    lib = home / "lib"
    libraries = [f"-L{lib}", "-ltorch", "-ltorch_cpu", "-lc10", f"-Wl,-rpath,{lib}"]
    subprocess.run(["g++", "-std=c++20", "-w", *include, source, "-o", program, *libraries], check=True)
    return program


def split(stem):
    """The graphs in the log that differ from the previous one."""
    log, steps = pathlib.Path(f"{stem}.log"), {}
    for line in log.read_text().splitlines():
        found = LINE.match(line)
        if found and found[1]:
            steps[STEPS[found[1]]] = lines = []
        elif found and steps:
            lines.append(found[2])
    before = pathlib.Path(f"{stem}.insert.ir").read_text()
    for step, lines in steps.items():
        text = "\n".join(lines) + "\n"
        if text != before:
            pathlib.Path(f"{stem}.{step}.ir").write_text(text)
        before = text
    log.unlink()


def main(out, files):
    out = pathlib.Path(out)
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        program = compiled(folder)
        for file in map(pathlib.Path, files):
            text = re.sub(r"^ *= prim::profile\(\)\n", "", file.read_text(), flags=re.M)
            name = file.name.removesuffix(".ir").removesuffix(".profiling").removesuffix(".profiled")
            (folder / "in.ir").write_text(text)
            if "prim::profile" in text:
                try:
                    ran = subprocess.run([program, folder / "in.ir", out / name], timeout=20, check=False)
                except subprocess.TimeoutExpired:
                    print(f"{name}: PyTorch does not come to an end", file=sys.stderr)
                    for left in out.glob(f"{name}.*"):
                        left.unlink()
                    continue
                if ran.returncode == 0:
                    split(out / name)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
