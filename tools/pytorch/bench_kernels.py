"""Measures a function of tensors in PyTorch and in others, for `jitopt-bench kernels`.

Usage: bench_kernels.py SOURCE SHAPES DTYPES LAYOUT THREADS WAY [gradient]

SOURCE defines `model`, which takes tensors of SHAPES (a list of lists) and DTYPES (their names).
If LAYOUT is not empty, it is the order of dimensions in memory of tensors of full rank. The first
line of standard output is the version of the program. Then each line `HOW N` on standard input is
answered with the seconds per call of N consecutive calls. WAY is `pytorch`, where HOW is `eager` or
`compiled`, or the name of another program, see `other_runtimes.py`, which is HOW, too.

Compiled is `torch.compile(model, dynamic=False)` with inductor, `freezing` and `max_autotune` on:
the manual's settings for inference with fixed shapes. With `gradient` the last tensor is the
gradient of the result, and each call also computes the gradients of the others; `freezing`, which
is limited to inference, is off then; others compute none. In both modes each call allocates its
outputs, as in normal use of PyTorch.
"""

import importlib.metadata
import pathlib
import sys
import tempfile
import time

import torch

import bench_models
import other_runtimes


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


def in_pytorch(model, inputs, trains):
    """The calls in PyTorch, eager and compiled in the first call."""
    options = {"max_autotune": True} if trains else {"freezing": True, "max_autotune": True}
    eager, compiled = with_gradient(model, trains), []

    def run_compiled():
        if not compiled:
            function = torch.compile(model, dynamic=False, options=options)
            compiled.append(with_gradient(function, trains))
        return compiled[0](*inputs)

    eager(*inputs)
    return {"eager": lambda: eager(*inputs), "compiled": run_compiled}


class Module(torch.nn.Module):
    """A function as a module, which exporters read."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, *tensors):
        return self.model(*tensors)


def elsewhere(way, model, inputs, threads):
    """The call in another program, which computes what PyTorch does."""
    if way == "xla":
        run = other_runtimes.xla(Module(model), inputs, threads)
    else:
        # Programs without strides would copy others in each call.
        contiguous = [each.contiguous() for each in inputs]
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "model.onnx"
            other_runtimes.export(Module(model), contiguous, path)
            run = getattr(other_runtimes, way)(path, [each.numpy() for each in contiguous], threads)
    found, expected = run(), model(*inputs)
    found = found if isinstance(found, (list, tuple)) else [found]
    expected = expected if isinstance(expected, tuple) else (expected,)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(torch.as_tensor(one).cpu(), other, rtol=1e-2, atol=1e-2)
    return {way: run}


def main():
    """The command."""
    source, shapes, dtypes, layout, threads, way = sys.argv[1:7]
    trains = "gradient" in sys.argv[7:]
    torch.set_num_threads(int(threads))
    scope = {"torch": torch}
    exec(source, scope)
    inputs = [tensor(*each, eval(layout)) for each in zip(eval(shapes), eval(dtypes))]
    if way != "pytorch" and trains:
        sys.exit(f"{way} computes no gradients")
    with torch.set_grad_enabled(trains):
        if way == "pytorch":
            runs = in_pytorch(scope["model"], inputs, trains)
        else:
            runs = elsewhere(way, scope["model"], inputs, int(threads))
        print(importlib.metadata.version(bench_models.PACKAGES.get(way, "torch")), flush=True)
        for line in sys.stdin:
            how, times = line.split()
            run = runs[how]
            run()
            # The same warm-up time as in `kernel_speed.rs`.
            start = time.perf_counter()
            while time.perf_counter() - start < 0.02:
                run()
            start = time.perf_counter()
            for _ in range(int(times)):
                run()
            print((time.perf_counter() - start) / int(times), flush=True)


if __name__ == "__main__":
    main()
