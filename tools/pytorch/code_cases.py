"""The subjects of `record_code.py`: small functions and modules that together cover TorchScript."""

import torch

import code_modules
import code_values  # noqa: F401
from code_flow import FUNCTIONS


def cases():
    """Names, functions or modules, and the inputs for tracing; None for scripted subjects."""
    for function in FUNCTIONS:
        yield function.__name__, function, None
    for module in code_modules.MODULES:
        if module is not code_modules.Holder:
            yield f"{module.__name__.lower()}_module", module(), None
    for module in code_modules.MODULES:
        if module not in (code_modules.State, code_modules.Indexed):
            yield f"{module.__name__.lower()}_traced", module(), code_modules.example_of(module)
    for function in code_modules.TRACED:
        yield function.__name__, function, torch.ones(2, 3)
