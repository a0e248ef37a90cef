"""Models of PyTorch in ONNX Runtime, OpenVINO and XLA, for the benchmarks.

ONNX Runtime and OpenVINO read what `torch.onnx` exports, by its exporter of TorchScript, as some
models are scripted. XLA runs the module itself, compiled by `torch.compile`, on as many processors
as threads are wanted, which is how its threads are limited. Packages: onnxruntime, openvino,
torch_xla, and onnx for the export.

Each function returns a call without arguments, which returns the results as NumPy arrays or
tensors of PyTorch. An ImportError says what is not installed.
"""

import os

NAMES = ("onnxruntime", "openvino", "xla")


def export(model, inputs, path):
    """Writes a module as ONNX."""
    import onnx  # noqa: F401, what the exporter needs
    import torch

    with torch.no_grad():
        torch.onnx.export(model, tuple(inputs), str(path), dynamo=False)


def onnxruntime(path, inputs, threads=1):
    """A file of ONNX in ONNX Runtime, with all of its optimisations."""
    import onnxruntime as runtime

    options = runtime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    session = runtime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    given = {operand.name: value for operand, value in zip(session.get_inputs(), inputs)}
    return lambda: session.run(None, given)


def openvino(path, inputs, threads=1):
    """The same in OpenVINO, which is to compute in float32 where the model does."""
    import openvino as runtime

    settings = {
        "INFERENCE_NUM_THREADS": threads,
        "NUM_STREAMS": 1,
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "f32",
    }
    compiled = runtime.Core().compile_model(str(path), "CPU", settings)
    request = compiled.create_infer_request()

    def run():
        results = request.infer(inputs, share_inputs=True, share_outputs=True)
        return [results[output] for output in compiled.outputs]

    return run


def xla(model, inputs, threads=1):
    """A module in XLA; one that is scripted is traced in each call."""
    os.environ["PJRT_DEVICE"] = "CPU"
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    import torch
    import torch_xla

    device = torch_xla.device()
    model, given = model.to(device), [value.to(device) for value in inputs]
    if not isinstance(model, torch.jit.ScriptModule):
        model = torch.compile(model, backend="openxla", dynamic=False)

    def run():
        with torch.no_grad():
            results = model(*given)
        # Calls only begin the computation, which a copy waits for.
        results = results if isinstance(results, (list, tuple)) else [results]
        return [result.cpu() for result in results]

    return run
