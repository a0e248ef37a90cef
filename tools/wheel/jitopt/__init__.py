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
    temporary file: a `torch.jit.ScriptModule`, a `torch.export.ExportedProgram`, or, with `inputs`,
    a tuple of example inputs, a `torch.nn.Module`, which is exported in evaluation mode.

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


def _exported(module, inputs):
    """The module as it evaluates; its own mode is left as it was."""
    import torch

    was_training = module.training
    try:
        return torch.export.export(module.eval(), inputs)
    finally:
        module.train(was_training)


def _saved(program, path, inputs):
    """The path of a program, which is written to `path` if it is an object."""
    if isinstance(program, (str, os.PathLike)):
        return os.fspath(program)
    import torch

    if isinstance(program, torch.jit.ScriptModule):
        path = path.with_suffix(".pt")
        torch.jit.save(program, str(path))
        return str(path)
    can_export = hasattr(torch, "export")
    if can_export and inputs is not None and isinstance(program, torch.nn.Module):
        program = _exported(program, tuple(inputs))
    if can_export and isinstance(program, torch.export.ExportedProgram):
        path = path.with_suffix(".pt2")
        torch.export.save(program, str(path))
        return str(path)
    raise TypeError(
        f"expected a path, a ScriptModule, an ExportedProgram, or a module with `inputs`, found "
        f"{type(program).__name__}"
    )
