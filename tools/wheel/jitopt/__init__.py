"""The pass toolkit for TorchScript IR, and a check that two programs compute the same."""

import json
import os
import subprocess
import tempfile
from pathlib import Path

__all__ = ["binary", "check", "run"]

# What `jitopt validate` answers, by exit code.
VERDICTS = {0: "same", 5: "different", 1: "not compared"}


def binary():
    """The path of the program that this package carries."""
    return str(Path(__file__).with_name("bin") / "jitopt")


def run(*arguments, **options):
    """Runs `jitopt ARGUMENTS` and returns the `subprocess.CompletedProcess`, with text output."""
    return subprocess.run([binary(), *map(str, arguments)], capture_output=True, text=True, **options)


def check(module_or_path, other, *, inputs=None, samples=8, seed=1, options=()):
    """Compares two programs on the same inputs, and returns the report of `jitopt validate --json`.

    Each program is a path of a graph, a `.pt` or a `.pt2`, or an object that is saved to a
    temporary file: a `torch.jit.ScriptModule` or `ScriptFunction`, a
    `torch.export.ExportedProgram`, or a `torch.nn.Module` or a function of Python. These two are
    exported with `inputs`, a tuple of example inputs, modules in evaluation mode; without `inputs`
    they are scripted.

    The dict has `verdict`: "same", "different", "not compared" (no sample ran on both) or "refused"
    (a program could not be read), and the report on the difference: `class`, `why`,
    `weights`, `sizes`, `differences`, `first_node` and `second_node`. `exit_code` and `notes` are
    the exit code and the messages of the command; `options` are further arguments of it.
    """
    with tempfile.TemporaryDirectory(prefix="jitopt-") as folder:
        names = [(module_or_path, "a"), (other, "b")]
        paths = [_saved(program, Path(folder) / name, inputs) for program, name in names]
        done = run("validate", *paths, "--json", f"--samples={samples}", f"--seed={seed}", *options)
    answer = _json_of(done.stdout)
    answer.setdefault("verdict", VERDICTS.get(done.returncode, "refused"))
    return {**answer, "exit_code": done.returncode, "notes": done.stderr}


def _json_of(text):
    """The report in the output of the command; nothing where it could not compare."""
    try:
        answer = json.loads(text)
    except ValueError:
        return {}
    return answer if isinstance(answer, dict) else {}


def _evaluating(module, work):
    """What `work` makes of the module as it evaluates; its parts keep their modes."""
    modes = [(part, part.training) for part in module.modules()]
    try:
        return work(module.eval())
    finally:
        for part, mode in modes:
            part.training = mode


def _as_module(function):
    """A module that calls a function: only modules are exported."""
    import torch

    class Function(torch.nn.Module):
        def forward(self, *arguments):
            return function(*arguments)

    return Function()


def _program_of(source, inputs):
    """The program of a module or a function of Python: exported with inputs, else scripted."""
    import torch

    is_module = isinstance(source, torch.nn.Module)
    if inputs is not None and hasattr(torch, "export"):
        module = source if is_module else _as_module(source)
        return _evaluating(module, lambda module: torch.export.export(module, tuple(inputs)))
    return _evaluating(source, torch.jit.script) if is_module else torch.jit.script(source)


def _saved(program, path, inputs):
    """The path of a program, which is written to `path` if it is an object."""
    if isinstance(program, (str, os.PathLike)):
        return os.fspath(program)
    import torch

    scripted = (torch.jit.ScriptModule, torch.jit.ScriptFunction)
    exported = (torch.export.ExportedProgram,) if hasattr(torch, "export") else ()
    if callable(program) and not isinstance(program, scripted + exported):
        program = _program_of(program, inputs)
    if isinstance(program, scripted):
        path = path.with_suffix(".pt")
        torch.jit.save(program, str(path))
        return str(path)
    if isinstance(program, exported):
        path = path.with_suffix(".pt2")
        torch.export.save(program, str(path))
        return str(path)
    raise TypeError(
        "expected a path, a ScriptModule, a ScriptFunction, an ExportedProgram, a module or a "
        f"function, found {type(program).__name__}"
    )
