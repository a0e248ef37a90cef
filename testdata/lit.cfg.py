"""Runs these tests under LLVM's lit, with LLVM's FileCheck, as a second opinion on our own runner.

    cargo build && lit -v testdata            # needs bash, lit, and FileCheck or FileCheck-NN on the path

JITOPT names another binary. What LLVM's tools do not have is translated, see llvm_lit_format.py.
"""
import os
import sys
import tempfile

root = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, root)
import llvm_lit_format  # noqa: E402

config.name = "jitopt"
config.test_source_root = root
config.test_exec_root = os.path.join(tempfile.gettempdir(), "jitopt-llvm-lit")
config.suffixes = [".ir", ".test"]
config.excludes = ["corpus", "Inputs"]
config.test_format = llvm_lit_format.Format()
if llvm_lit_format.filecheck is None:
    lit_config.fatal("no FileCheck on the path: `jitopt test testdata` needs none")
