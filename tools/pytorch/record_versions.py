"""Prints graphs of many kinds with the release of PyTorch that runs this file, 1.0 to 2.15.

    python record_versions.py OUT          graphs, plans of both executors, and results of passes
    python record_versions.py OUT --logs   graphs from the executor's log, with autodiff formulas
    python record_versions.py OUT --cases=release_cases --every-pass
                       the sources of another file, and every pass that the release binds

Each case is a separate source text: cases that a release cannot compile are skipped and counted.
Files are named as in the corpus: `CASE.KIND.ir`, `passes/STEM.in.ir`, `passes/STEM.PASS.out.ir`.
"""

import importlib
import os
import re
import signal
import subprocess
import sys

import torch

PASSES = {
    "batch_mm": "_jit_pass_batch_mm", "canonicalize": "_jit_pass_canonicalize",
    "constant_pooling": "_jit_pass_constant_pooling", "constant_propagation": "_jit_pass_constant_propagation",
    "constant_propagation_immutable_types": "_jit_pass_constant_propagation_immutable_types",
    "cse": "_jit_pass_cse", "dce": "_jit_pass_dce", "dce_graph": "_jit_pass_dce_graph",
    "decompose_ops": "_jit_pass_decompose_ops",
    "erase_number_types": "_jit_pass_erase_number_types", "erase_shape_information": "_jit_pass_erase_shape_information",
    "fuse_addmm": "_jit_pass_fuse_addmm", "fuse_linear": "_jit_pass_fuse_linear", "inline": "_jit_pass_inline",
    "inline_fork_wait": "_jit_pass_inline_fork_wait", "integer_value_refinement": "_jit_pass_integer_value_refinement",
    "loop_unrolling": "_jit_pass_loop_unrolling", "constant_loop_unrolling": "_jit_pass_constant_loop_unrolling",
    "lower_all_tuples": "_jit_pass_lower_all_tuples", "peephole": "_jit_pass_peephole",
    "refine_tuple_types": "_jit_pass_refine_tuple_types", "remove_expands": "_jit_pass_remove_expands",
    "remove_mutation": "_jit_pass_remove_mutation", "specialize_autogradzero": "_jit_pass_specialize_autogradzero",
    "create_autodiff_subgraphs": "_jit_pass_create_autodiff_subgraphs", "canonicalize_ops": "_jit_pass_canonicalize_ops",
    "canonicalize_graph_fuser_ops": "_jit_pass_canonicalize_graph_fuser_ops", "fuse": "_jit_pass_fuse",
}
LOGGED = ("autodiff", "create_autodiff_subgraphs", "profiling_graph_executor_impl", "graph_executor", "graph_fuser",
          "tensorexpr_fuser", "guard_elimination", "insert_guards", "bailout_graph", "specialize_autogradzero",
          "dead_code_elimination", "peephole", "loop_unrolling", "inliner", "constant_propagation",
          "freeze_module", "remove_mutation", "subgraph_utils", "update_differentiable_graph_requires_grad")


class Recorder:
    def __init__(self, out, all=False):
        self.out, self.seen, self.written, self.failed, self.all = out, set(), 0, 0, all

    def write(self, name, text):
        """Writes one file, unless its text was written before."""
        text = re.sub(r"(# )/\S*/", r"\1", text)
        if text in self.seen and not name.startswith("passes/"):
            return
        self.seen.add(text)
        path = os.path.join(self.out, name)
        if not os.path.isdir(os.path.dirname(path)):
            os.makedirs(os.path.dirname(path))
        with open(path, "wb") as file:
            file.write(text.encode("utf-8"))
        self.written += 1

    def attempt(self, action):
        """Ignores features that a release lacks."""
        try:
            return action()
        except Exception:  # noqa: BLE001, whatever it is, the release does not have it
            self.failed += 1
            return None

    def graph(self, name, graph):
        self.write(name + ".ir", str(graph))
        self.attempt(lambda: self.write(name + ".nosrc.ir", graph.str(False)))
        for verbosity in "0124":
            os.environ["PYTORCH_JIT_TYPE_VERBOSITY"] = verbosity
            self.attempt(lambda: self.write("{}.str{}.ir".format(name, verbosity), str(graph)))
        os.environ.pop("PYTORCH_JIT_TYPE_VERBOSITY", None)

    def passes(self, stem, graph):
        self.write("passes/{}.in.ir".format(stem), str(graph))
        for name, binding in sorted(PASSES.items()):
            self.attempt(lambda: self.one_pass(stem, name, getattr(torch._C, binding), graph.copy()))

    def every_pass(self, stem, graph):
        """Runs all passes that take only a graph, each in its own process, because some crash."""
        for binding in sorted(name for name in dir(torch._C) if name.startswith("_jit_pass_")):
            name = binding[len("_jit_pass_"):]
            if name in PASSES or binding in PASSES.values():
                continue
            child = os.fork()
            if child == 0:
                signal.alarm(10)
                self.attempt(lambda: self.one_pass(stem, name, getattr(torch._C, binding), graph.copy()))
                os._exit(0)
            os.waitpid(child, 0)

    def one_pass(self, stem, name, run, graph):
        before = str(graph)
        result = run(graph, 1) if name == "create_autodiff_subgraphs" else run(graph)
        # Some change the graph, others return another one.
        graph = result if str(graph) == before and isinstance(result, torch._C.Graph) else graph
        self.write("passes/{}.{}.out.ir".format(stem, name), str(graph))


def graph_of(subject):
    graph = subject.graph
    return graph() if callable(graph) else graph


def inlined(graph):
    copy = graph.copy()
    torch._C._jit_pass_inline(copy)
    return copy


def with_gradients(args):
    floats = lambda a: isinstance(a, torch.Tensor) and a.dtype.is_floating_point
    return tuple(a.clone().requires_grad_() if floats(a) else a for a in args)


def plans(recorder, name, make):
    """The plans of the executors in their first runs."""
    for mode in ("profiling", "legacy"):
        recorder.attempt(lambda: torch._C._jit_set_profiling_mode(mode == "profiling"))
        recorder.attempt(lambda: torch._C._jit_set_profiling_executor(mode == "profiling"))
        recorder.attempt(lambda: torch._C._jit_override_can_fuse_on_cpu(True))
        for grads in ("n", "g"):
            made = recorder.attempt(make)
            if made is None:
                continue
            subject, args = made
            if grads == "g":
                args = with_gradients(args)
            for run in range(4):
                plan = recorder.attempt(lambda: subject.graph_for(*args))
                if plan is not None:
                    recorder.graph("{}.{}.{}.run{}".format(name, mode, grads, run), plan)
                recorder.attempt(lambda: backward(subject(*args)))


def backward(result):
    if isinstance(result, torch.Tensor) and result.requires_grad:
        result.sum().backward()


def lowered_models(recorder, name, subject, args):
    frozen = recorder.attempt(lambda: torch.jit.freeze(subject.eval()))
    if frozen is not None:
        recorder.graph(name + ".frozen", graph_of(frozen))
        recorder.attempt(lambda: recorder.graph(name + ".ofi", graph_of(torch.jit.optimize_for_inference(subject.eval()))))
    onnx = recorder.attempt(lambda: onnx_graph(subject, args))
    if onnx is not None:
        recorder.graph(name + ".onnx", onnx)


def onnx_graph(subject, args):
    import torch.onnx.utils as utils
    with torch.no_grad():
        try:
            return utils._model_to_graph(subject, args, example_outputs=subject(*args))[0]
        except TypeError:
            return utils._model_to_graph(subject, args)[0]


def record(recorder, name, module):
    make = lambda: module.make()
    made = recorder.attempt(make)
    if made is None:
        return
    subject, args = made
    graph = graph_of(subject)
    recorder.graph(name + ".graph", graph)
    flat = recorder.attempt(lambda: inlined(graph))
    if flat is not None:
        recorder.graph(name + ".inlined", flat)
    recorder.passes(name, flat if flat is not None else graph)
    if recorder.all:
        recorder.every_pass(name, flat if flat is not None else graph)
    for child, part in (list(subject.named_modules())[1:] if isinstance(subject, torch.nn.Module) else []):
        recorder.attempt(lambda: recorder.graph("{}.sub.{}".format(name, child), graph_of(part)))
    lowered_models(recorder, name, subject, args)
    plans(recorder, name, make)


def load(folder, name, text):
    path = os.path.join(folder, "case_{}.py".format(name))
    with open(path, "w") as file:
        file.write("import torch\nfrom typing import *\nfrom torch import nn, Tensor\nimport torch.nn.functional as F\n" + text)
    return importlib.import_module("case_" + name)


def graphs_of_log(text):
    """The graphs in a log, without the prefixes of their lines."""
    graph = []
    for line in text.split("\n"):
        line = re.sub(r"^\[[A-Z]+ +[^\]]*:\d+\] ?", "", line)
        if re.match(r"(with \S+ = )?graph\(", line):
            if graph and not line.startswith("with "):
                yield graph
                graph = []
            graph.append(line)
        elif graph and (line.startswith("  ") or line.startswith("return")):
            graph.append(line)
        elif graph:
            yield graph
            graph = []


def record_logs(out):
    level = ":".join(">>" + name for name in LOGGED)
    environment = dict(os.environ, PYTORCH_JIT_LOG_LEVEL=level)
    command = [sys.executable, __file__, os.path.join(out, "scratch")]
    log = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT).stdout
    recorder = Recorder(out)
    for i, graph in enumerate(graphs_of_log(log.decode("utf-8", "replace"))):
        if graph[-1].lstrip().startswith("return"):
            recorder.write("logs/{:06}.ir".format(i), "\n".join(graph) + "\n")
    print("{} graphs of logs".format(recorder.written))


def main(out, *options):
    if "--logs" in options:
        return record_logs(out)
    recorder = Recorder(out, "--every-pass" in options)
    files = [option[len("--cases="):] for option in options if option.startswith("--cases=")]
    cases = importlib.import_module(files[0] if files else "version_cases").CASES
    folder = os.path.join(out, "sources")
    if not os.path.isdir(folder):
        os.makedirs(folder)
    sys.path.insert(0, folder)
    torch.manual_seed(0)
    for name, text in sorted(cases.items()):
        # Some graphs crash some releases, so each case runs in its own process.
        child = os.fork()
        if child == 0:
            signal.alarm(60)
            module = recorder.attempt(lambda: load(folder, name, text))
            if module is not None:
                recorder.attempt(lambda: record(recorder, name, module))
            os._exit(0 if recorder.written else 1)
        status = os.waitpid(child, 0)[1]
        if status != 0:
            print("{}: {} {}".format(torch.__version__, name, "is refused" if os.WIFEXITED(status) else "crashes"))


if __name__ == "__main__":
    main(*sys.argv[1:])
