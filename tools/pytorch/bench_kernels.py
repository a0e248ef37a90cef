"""Measures a function of tensors in PyTorch, eager and compiled, for `jitopt-bench kernels`.

Usage: bench_kernels.py SOURCE SHAPES DTYPES LAYOUT THREADS [gradient]

SOURCE defines `model`, which takes tensors of SHAPES (a list of lists) and DTYPES (their names).
If LAYOUT is not empty, it is the order of dimensions in memory of tensors of full rank. The first
line of standard output is the version of PyTorch. Then each line `eager N` or `compiled N` on
standard input is answered with the seconds per call of N consecutive calls.

Compiled is `torch.compile(model, dynamic=False)` with inductor, `freezing` and `max_autotune` on:
the manual's settings for inference with fixed shapes. With `gradient` the last tensor is the
gradient of the result, and each call also computes the gradients of the others; `freezing`, which
is limited to inference, is off then. In both modes each call allocates its outputs, as in normal
use of PyTorch.
"""

import sys
import time

import torch


def tensor(shape, dtype, layout):
    """Small numbers, equal to those of `jitopt-bench`."""
    order = layout if len(layout) == len(shape) else list(range(len(shape)))
    memory = [shape[dim] for dim in order]
    count = 1
    for size in shape:
        count *= size
    numbers = (torch.arange(count) * 7919 % 2003).to(torch.float32) / 500 - 2
    if dtype == "bool":
        numbers = numbers > 0
    places = [order.index(dim) for dim in range(len(shape))]
    return numbers.to(getattr(torch, dtype)).reshape(memory).permute(places)


def with_gradient(model, trains):
    """The results of the model, and the gradients of its operands if requested."""

    def both(*tensors):
        operands = [each.requires_grad_() for each in tensors[:-1]]
        result = model(*operands)
        return result, torch.autograd.grad(result, operands, tensors[-1])

    return both if trains else model


def main():
    """The command."""
    source, shapes, dtypes, layout, threads = sys.argv[1:6]
    trains = "gradient" in sys.argv[6:]
    torch.set_num_threads(int(threads))
    scope = {"torch": torch}
    exec(source, scope)
    inputs = [tensor(*each, eval(layout)) for each in zip(eval(shapes), eval(dtypes))]
    options = {"max_autotune": True} if trains else {"freezing": True, "max_autotune": True}
    with torch.set_grad_enabled(trains):
        models = {"eager": with_gradient(scope["model"], trains), "compiled": None}
        models["eager"](*inputs)
        print(torch.__version__, flush=True)
        for line in sys.stdin:
            how, times = line.split()
            if models[how] is None:
                compiled = torch.compile(scope["model"], dynamic=False, options=options)
                models[how] = with_gradient(compiled, trains)
            # The same warm-up time as in `kernel_speed.rs`.
            start = time.perf_counter()
            while time.perf_counter() - start < 0.02:
                models[how](*inputs)
            start = time.perf_counter()
            for _ in range(int(times)):
                models[how](*inputs)
            print((time.perf_counter() - start) / int(times), flush=True)


if __name__ == "__main__":
    main()
