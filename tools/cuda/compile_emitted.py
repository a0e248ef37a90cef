"""Compiles the text of `--emit=cuda` with NVRTC, NVIDIA's compiler; needs no GPU.

    pip install nvidia-cuda-nvrtc-cu12
    python tools/cuda/compile_emitted.py target/debug/jitopt testdata/codegen/*.ir

Each file is printed as CUDA C, with `--passes=@default,fuse` where it has no fusion groups yet, and
compiled for the architectures below that NVRTC knows. Kernels are listed with their registers; one
that spills registers into memory, and a file that does not compile, are errors. Without NVRTC
nothing is compiled, which is said, and is no error.
"""

import ctypes
import glob
import os
import re
import subprocess
import sys
import sysconfig

ARCHITECTURES = (75, 80, 90, 100)
OPTIONS = ("--fmad=false", "-default-device", "--device-int128", "--ptxas-options=-v")


def library():
    """NVRTC: JITOPT_NVRTC, or that of the package nvidia-cuda-nvrtc."""
    site = sysconfig.get_paths()["purelib"]
    found = sorted(glob.glob(os.path.join(site, "nvidia", "*", "lib", "libnvrtc.so.*")))
    for path in filter(None, [os.environ.get("JITOPT_NVRTC"), *found]):
        return ctypes.CDLL(path)
    return None


def known(nvrtc):
    """Those of the architectures that NVRTC knows, by name."""
    count = ctypes.c_int()
    nvrtc.nvrtcGetNumSupportedArchs(ctypes.byref(count))
    numbers = (ctypes.c_int * count.value)()
    nvrtc.nvrtcGetSupportedArchs(numbers)
    return [f"sm_{number}" for number in ARCHITECTURES if number in numbers]


def compiled(nvrtc, text, architecture):
    """Whether a text compiles, and what the compiler says."""
    program = ctypes.c_void_p()
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), text.encode(), b"emitted.cu", 0, None, None)
    options = [option.encode() for option in (f"--gpu-architecture={architecture}", *OPTIONS)]
    status = nvrtc.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
    size = ctypes.c_size_t()
    nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetProgramLog(program, log)
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    return status == 0, log.value.decode()


def emitted(jitopt, path):
    """The CUDA C of a file; empty where it has no kernels."""
    with open(path, encoding="utf-8", errors="replace") as file:
        passes = [] if "prim::FusionGroup" in file.read() else ["--passes=@default,fuse"]
    run = subprocess.run([jitopt, path, *passes, "--emit=cuda"], capture_output=True, text=True, check=False)
    return run.stdout if "JO_KERNEL(" in run.stdout.partition("#endif")[2] else ""


def measured(log):
    """The registers and the bytes of spilled ones of each kernel, by name."""
    kernels, name, spilled = {}, None, 0
    for line in log.splitlines():
        if found := re.search(r"Compiling entry function '(\w+)'", line):
            name = found[1]
        if found := re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads", line):
            spilled = int(found[1]) + int(found[2])
        if found := re.search(r"Used (\d+) registers", line):
            kernels[name] = (int(found[1]), spilled)
    return kernels


def main():
    """Compiles all files."""
    nvrtc, (jitopt, *paths) = library(), sys.argv[1:]
    if nvrtc is None:
        print(f"skipped: {len(paths)} files are not compiled, for want of NVRTC (pip install nvidia-cuda-nvrtc-cu12)")
        return 0
    texts, kernels, wrong, most = 0, 0, 0, 0
    architectures = known(nvrtc)
    for path in paths:
        text = emitted(jitopt, path)
        texts += bool(text)
        for architecture in architectures if text else ():
            is_right, log = compiled(nvrtc, text, architecture)
            if not is_right:
                wrong += 1
                print(f"{path}: {architecture}: it does not compile\n{log}")
            for name, (registers, spilled) in measured(log).items():
                kernels, most = kernels + 1, max(most, registers)
                if spilled:
                    wrong += 1
                    print(f"{path}: {architecture}: {name} spills {spilled} bytes, with {registers} registers")
    names = ", ".join(architectures)
    print(f"{texts} texts, {kernels} kernels on {names}, {most} registers at most, {wrong} wrong")
    return 1 if wrong or not texts else 0


if __name__ == "__main__":
    sys.exit(main())
