"""Times the models of `write_models.py` in PyTorch, for `jitopt-bench models`.

Usage: bench_models.py FOLDER NAME WAY [--once]

WAY is `eager`, the module in Python; `frozen`, the archive after `torch.jit.freeze`; or `compile`,
the module after `torch.compile`. All run on one thread without gradients, on the inputs in FOLDER.

With `--once` the process ends after the first result. Otherwise it prints the version of PyTorch,
and for each line of standard input it runs the model that many times and prints the median in
seconds.
"""

import pathlib
import statistics
import sys
import time

import safetensors.torch
import torch


def module(name):
    """The module in Python, with the weights of the archive."""
    import write_models

    torch.manual_seed(write_models.SEED)
    model, _ = write_models.MODELS[name][1]()
    if not isinstance(model, torch.jit.ScriptModule):
        write_models.draw_statistics(model.eval())
    return model.eval()


def prepared(folder, name, way):
    """The model as it is called."""
    if way == "frozen":
        return torch.jit.freeze(torch.jit.load(str(folder / f"{name}.pt")).eval())
    model = module(name)
    return torch.compile(model) if way == "compile" else model


def main(arguments):
    """The command."""
    folder, name, way = pathlib.Path(arguments[0]), arguments[1], arguments[2]
    torch.set_num_threads(1)
    given = safetensors.torch.load_file(str(folder / f"{name}.inputs.safetensors"))
    inputs = [given[f"in{i}"] for i in range(len(given))]
    with torch.no_grad():
        model = prepared(folder, name, way)
        model(*inputs)
        if "--once" in arguments:
            return
        # Scripted code is optimised in the second and third call.
        for _ in range(3):
            model(*inputs)
        print(torch.__version__, flush=True)
        for line in sys.stdin:
            times = []
            for _ in range(int(line)):
                start = time.perf_counter()
                model(*inputs)
                times.append(time.perf_counter() - start)
            print(statistics.median(times), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
