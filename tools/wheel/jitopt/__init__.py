"""The pass toolkit for TorchScript IR, and a check that two programs compute the same."""

import os
import subprocess
import tempfile
from pathlib import Path

__all__ = ["binary", "check", "run"]

# What `jitopt validate` answers, by exit code.
VERDICTS = {0: "equal", 5: "different", 1: "not compared"}


def binary():
    """The path of the program that this package carries."""
    return str(Path(__file__).with_name("bin") / "jitopt")


def run(*arguments, **options):
    """Runs `jitopt ARGUMENTS` and returns the `subprocess.CompletedProcess`, with text output."""
    return subprocess.run([binary(), *map(str, arguments)], capture_output=True, text=True, **options)


def check(module_or_path, other, *, samples=8, seed=1, options=()):
    """Compares two programs on the same generated inputs.

    Each is a path of a graph, a `.pt` or a `.pt2`, or a `torch.jit.ScriptModule` or
    `torch.export.ExportedProgram`, which is saved to a temporary file.

    Returns a dict: `verdict` is "equal", "different", "not compared" (no sample ran on both) or
    "refused" (a program could not be read); `exit_code`, `report` and `notes` are the exit code, the
    output and the messages of `jitopt validate`. `options` are further arguments of that command.
    """
    with tempfile.TemporaryDirectory(prefix="jitopt-") as folder:
        paths = [_saved(program, Path(folder) / name) for program, name in [(module_or_path, "a"), (other, "b")]]
        done = run("validate", *paths, f"--samples={samples}", f"--seed={seed}", *options)
    verdict = VERDICTS.get(done.returncode, "refused")
    return {"verdict": verdict, "exit_code": done.returncode, "report": done.stdout, "notes": done.stderr}


def _saved(program, path):
    """The path of a program, which is written to `path` if it is an object."""
    if isinstance(program, (str, os.PathLike)):
        return os.fspath(program)
    import torch

    if isinstance(program, torch.jit.ScriptModule):
        path = path.with_suffix(".pt")
        torch.jit.save(program, str(path))
        return str(path)
    if hasattr(torch, "export") and isinstance(program, torch.export.ExportedProgram):
        path = path.with_suffix(".pt2")
        torch.export.save(program, str(path))
        return str(path)
    raise TypeError(
        f"expected a path, a ScriptModule or an ExportedProgram, found {type(program).__name__}: "
        "script, trace or export the module first"
    )
