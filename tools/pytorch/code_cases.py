"""What `record_code.py` records: functions and modules, in small pieces that together say what TorchScript can say."""

import torch

import code_modules
import code_values  # noqa: F401
from code_flow import FUNCTIONS


def cases():
    """Names, functions or modules, and what they are traced with, None for those that are scripted."""
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
