"""Times the models of `write_models.py` in PyTorch and in others, for `jitopt-bench models`.

Usage: bench_models.py FOLDER NAME WAY [--threads=N] [--once | --prepare]

WAY is `eager`, the module in Python; `frozen`, the archive after `torch.jit.freeze`; `compile`,
the module after `torch.compile`; or `onnxruntime`, `openvino` or `xla`, see `other_runtimes.py`.
All run without gradients, on the inputs in FOLDER, on one thread if no other number is given.

With `--once` the process ends after the first result. With `--prepare` it writes what later
processes read, NAME.onnx, and compares the first results with PyTorch's. Otherwise it prints the
version of the program, and for each line of standard input it runs the model that many times and
prints the median in seconds.
"""

import importlib.metadata
import pathlib
import statistics
import sys
import time

import other_runtimes

# What names the version of each way.
PACKAGES = {"onnxruntime": "onnxruntime", "openvino": "openvino", "xla": "torch_xla"}


def module(name):
    """The module in Python, with the weights of the archive."""
    import torch
    import write_models

    torch.manual_seed(write_models.SEED)
    model, _ = write_models.MODELS[name][1]()
    if not isinstance(model, torch.jit.ScriptModule):
        write_models.draw_statistics(model.eval())
    return model.eval()


def tensors(folder, name, kind="inputs"):
    """The inputs of a model, or what it is expected to return."""
    import safetensors.torch

    given = safetensors.torch.load_file(str(folder / f"{name}.{kind}.safetensors"))
    return [given[key] for key in sorted(given, key=lambda key: (len(key), key))]


def arrays(folder, name):
    """The inputs for programs without PyTorch."""
    import safetensors.numpy

    given = safetensors.numpy.load_file(str(folder / f"{name}.inputs.safetensors"))
    return [given[f"in{i}"] for i in range(len(given))]


def in_pytorch(folder, name, way, threads):
    """A call of the model in PyTorch."""
    import torch

    torch.set_num_threads(threads)
    inputs = tensors(folder, name)
    if way == "frozen":
        model = torch.jit.freeze(torch.jit.load(str(folder / f"{name}.pt")).eval())
    else:
        model = module(name)
    model = torch.compile(model) if way == "compile" else model

    def run():
        with torch.no_grad():
            return model(*inputs)

    return run


def prepared(folder, name, way, threads):
    """A call of the model."""
    if way == "xla":
        return other_runtimes.xla(module(name), tensors(folder, name), threads)
    if way in other_runtimes.NAMES:
        return getattr(other_runtimes, way)(folder / f"{name}.onnx", arrays(folder, name), threads)
    return in_pytorch(folder, name, way, threads)


def compare(results, folder, name):
    """Whether results are PyTorch's, but for rounding."""
    import torch

    results = results if isinstance(results, (list, tuple)) else [results]
    for found, expected in zip(results, tensors(folder, name, "expected"), strict=True):
        torch.testing.assert_close(torch.as_tensor(found).cpu(), expected, rtol=1e-3, atol=1e-3)


def main(arguments):
    """The command."""
    folder, name, way = pathlib.Path(arguments[0]), arguments[1], arguments[2]
    if "--prepare" in arguments and way in ("onnxruntime", "openvino"):
        exported, archive = folder / f"{name}.onnx", folder / f"{name}.pt"
        if not exported.exists() or exported.stat().st_mtime < archive.stat().st_mtime:
            other_runtimes.export(module(name), tensors(folder, name), exported)
    option = next((text for text in arguments if text.startswith("--threads=")), "--threads=1")
    run = prepared(folder, name, way, int(option.removeprefix("--threads=")))
    results = run()
    if "--prepare" in arguments:
        compare(results, folder, name)
    if "--once" in arguments or "--prepare" in arguments:
        return
    # Scripted code is optimised in the second and third call.
    for _ in range(3):
        run()
    print(importlib.metadata.version(PACKAGES.get(way, "torch")), flush=True)
    for line in sys.stdin:
        times = []
        for _ in range(int(line)):
            start = time.perf_counter()
            run()
            times.append(time.perf_counter() - start)
        print(statistics.median(times), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
