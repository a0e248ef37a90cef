"""Reads a graph, runs CSE and DCE and prints it, with PyTorch: the peer of `jitopt-bench toolkit`.

Usage: bench_toolkit.py FILE

The text of the result is discarded. Standard output is one line of JSON: the CPU and wall seconds
from opening the file until the graph is freed, the CPU seconds of each phase, and the peak memory
of importing PyTorch, which the caller subtracts from that of the whole process.
"""

import json
import resource
import sys
import time

import torch


def peak_rss():
    """Peak resident set of this process, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def run_pass(name):
    """A step that runs a pass in place and returns the graph."""

    def step(graph):
        getattr(torch._C, name)(graph)
        return graph

    return step


def optimise(path):
    """Reads, optimises and prints the graph in a file; returns the CPU seconds of each phase."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    steps = {
        "parse": lambda _: torch._C.parse_ir(text),
        "cse": run_pass("_jit_pass_cse"),
        "dce": run_pass("_jit_pass_dce"),
        "print": lambda graph: str(graph) and graph,
        "free": lambda _: None,
    }
    phases = {}
    graph = None
    for name, step in steps.items():
        before = time.process_time()
        graph = step(graph)
        phases[name] = time.process_time() - before
    return phases


def main():
    """The command."""
    startup_rss = peak_rss()
    cpu, wall = time.process_time(), time.perf_counter()
    phases = optimise(sys.argv[1])
    report = {
        "torch": torch.__version__,
        "startup_rss": startup_rss,
        "work_cpu_s": time.process_time() - cpu,
        "work_wall_s": time.perf_counter() - wall,
        "phases_cpu_s": phases,
    }
    print(json.dumps(report))


if __name__ == "__main__":
    main()
