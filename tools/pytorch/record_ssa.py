"""Graphs as PyTorch's emitter writes them, and what makes SSA of them: testdata/corpus/ssa.

    python record_ssa.py OUT

For each function, OUT/NAME.emitted.ir is the graph before SSA, with stores, loads and exits,
OUT/NAME.ssa.ir the graph whose exits are still there, and OUT/NAME.exits.ir the one without. PyTorch
prints none of them: a library that is loaded first (cc) stands before its two functions and dumps
the graph around them.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

LIBRARY = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
typedef void (*Pass)(void *);
static Pass find(const char *name) {
  return (Pass)dlsym(dlopen(getenv("TORCH_CPU"), RTLD_NOLOAD | RTLD_LAZY), name);
}
static void show(const char *what, void **graph) {
  fflush(stdout);
  printf("== %s\n", what);
  fflush(stdout);
  find("_ZNK5torch3jit5Graph4dumpEv")(*graph);
  fflush(stdout);
}
#define AROUND(name, before, after) \
  void name(void *graph) { show(before, graph); find(#name)(graph); show(after, graph); }
AROUND(_ZN5torch3jit12ConvertToSSAERSt10shared_ptrINS0_5GraphEE, "emitted", "converted")
AROUND(_ZN5torch3jit14TransformExitsERSt10shared_ptrINS0_5GraphEE, "ssa", "exits")
"""

CASES = '''
def straight(x: Tensor, n: int) -> Tensor:
  y = x + n
  x = y * 2
  y = x - y
  return y
def branches(x: Tensor, n: int) -> Tensor:
  y = x
  if n > 1:
    y = x + 1
    z = y * 2
  else:
    z = x
  return y * z
def nested_branches(x: Tensor, a: bool, b: bool) -> Tensor:
  if a:
    if b:
      x = x + 1
    else:
      x = x + 2
  else:
    y = x * 3
    x = y
  return x
def counted(x: Tensor, n: int) -> Tensor:
  for i in range(n):
    x = x + i
  return x
def conditional(x: Tensor, n: int) -> Tensor:
  i = 0
  while i < n:
    x = x + i
    i = i + 1
  return x
def loops_in_loops(x: Tensor, n: int) -> Tensor:
  for i in range(n):
    for j in range(i):
      x = x + j
      if j == 3:
        x = x * 2
  return x
def continues(x: Tensor, n: int) -> Tensor:
  i = 0
  while i < n:
    i = i + 1
    if i == 3:
      continue
    x = x + i
  return x
def breaks(x: Tensor, n: int) -> Tensor:
  for i in range(n):
    if i == 3:
      break
    x = x + i
  return x
def breaks_and_continues(x: Tensor, n: int) -> Tensor:
  for i in range(n):
    if i == 2:
      continue
    elif i == 5:
      break
    else:
      x = x + i
    x = x * 2
  return x
def breaks_twice(x: Tensor, n: int) -> Tensor:
  for i in range(n):
    for j in range(n):
      if j > i:
        break
      x = x + j
    if i == 4:
      break
  return x
def returns_early(x: Tensor, n: int) -> Tensor:
  if n == 0:
    return x
  x = x + n
  if n == 1:
    return x * 2
  return x - 1
def returns_in_both(x: Tensor, n: int) -> Tensor:
  if n == 0:
    return x
  else:
    return x + 1
def returns_or_raises(x: Tensor, n: int) -> Tensor:
  if n < 0:
    raise Exception("negative")
  else:
    return x * n
def raises(x: Tensor, n: int) -> Tensor:
  if n < 0:
    raise Exception("negative")
  if n > 9:
    y = x
  else:
    raise Exception("small")
  return y
def returns_in_loop(x: Tensor, n: int) -> Tensor:
  for i in range(n):
    x = x + i
    if i == 3:
      return x * 2
  return x
def returns_in_loops(x: Tensor, n: int) -> Tensor:
  for i in range(n):
    for j in range(n):
      x = x + j
      if i * j == 6:
        return x * 2
    x = x * 3
  return x
def everything(x: Tensor, n: int) -> Tensor:
  y = x
  for i in range(n):
    if i == 3:
      continue
    if i > 5:
      break
    y = y + 1
  if n > 4:
    return y
  while bool(y.sum() > 0):
    y = y - 1
    if n == 1:
      return y * 2
  return y
def returns_tuples(x: Tensor, n: int) -> Tuple[Tensor, int]:
  if n == 2:
    return x, n
  return x + 1, 0
def returns_nothing(x: List[int], n: int) -> None:
  for i in range(n):
    if i == 2:
      return
    x.append(i)
def returns_none_or_one(x: Tensor, n: int) -> Optional[Tensor]:
  if n == 2:
    return None
  return x
def comprehensions(xs: List[int], n: int) -> List[int]:
  ys = [x + n for x in xs]
  return [y * 2 for y in ys]
def ternaries(x: Tensor, n: int) -> Tensor:
  y = x if n > 2 else x + 1
  while n > 0 and n < 9 or n == 12:
    n = n - 1
    y = y + (1 if n == 3 else 2)
  return y
def overwritten(x: Tensor, n: int) -> int:
  i = 7
  for i in range(n):
    pass
  return i
def dead_code(x: Tensor, n: int) -> Tensor:
  while True:
    x = x + 1
    break
    x = x * 2
  return x
def unrolled_continue(x: Tensor, n: int) -> Tensor:
  m = n
  while m > 0 and m < 20:
    m = m - 1
    if m == 1:
      continue
    if m == 2:
      continue
    x = x - m
  return x
'''


def record(out: pathlib.Path) -> None:
    import torch

    cpu = pathlib.Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"
    with tempfile.TemporaryDirectory() as folder:
        source, library = pathlib.Path(folder, "around.c"), pathlib.Path(folder, "around.so")
        source.write_text(LIBRARY)
        subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
        env = {**os.environ, "LD_PRELOAD": str(library), "TORCH_CPU": str(cpu)}
        for case in re.split(r"^(?=def )", CASES.strip(), flags=re.M):
            if not case:
                continue
            name = case[4 : case.index("(")]
            done = subprocess.run([sys.executable, __file__, "--emit", case + "\n"], env=env, capture_output=True, text=True)
            write(out, name, done.stdout)


def write(out: pathlib.Path, name: str, text: str) -> None:
    # The last function is the case; those before are PyTorch's own.
    last = text.rindex("== emitted")
    parts = re.split(r"^== (\w+)$", text[last:], flags=re.M)
    for kind, graph in zip(parts[1::2], parts[2::2]):
        if kind != "converted":
            (out / f"{name}.{kind}.ir").write_text(graph.strip("\n") + "\n")


if __name__ == "__main__":
    if sys.argv[1] == "--emit":
        import torch

        torch.jit.CompilationUnit(sys.argv[2])
    else:
        out = pathlib.Path(sys.argv[1])
        out.mkdir(parents=True, exist_ok=True)
        record(out)
