#!/usr/bin/env bash
# What only a GPU can tell, in about ten minutes: whether kernels give their recorded bits there,
# what NVIDIA's checker says of them, and how fast they are beside PyTorch. Needs a driver, NVRTC
# and a built jitopt; says what is missing, and then ends with exit code 3.
#
#   ci/gpu.sh [JITOPT]        OUT=FOLDER for results; PYTHON for the peer, python3 by default
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

jitopt="${1:-${CARGO_TARGET_DIR:-target}/release/jitopt}"
python="${PYTHON:-python3}"
out="${OUT:-$(mktemp -d)}"
cases="$out/cases"
failed=0
mkdir -p "$cases"

[ -x "$jitopt" ] || { echo "missing: $jitopt; cargo build --release -p jitopt makes it"; exit 3; }

# PyTorch's wheels have NVRTC and cuBLAS.
library() {
  command -v "$python" > /dev/null || return 0
  "$python" - "$1" <<'PY' || true
import glob, sys, sysconfig
paths = sysconfig.get_paths()["purelib"], sysconfig.get_paths()["platlib"], "/usr/local/cuda*/lib64"
name = "/lib" + sys.argv[1] + ".so.*"
names = [n for p in paths for n in glob.glob(p + "/nvidia/*/lib" + name) + glob.glob(p + name)]
names = [n for n in names if ".alt." not in n and "builtins" not in n]
print(sorted(names)[-1] if names else "")
PY
}
JITOPT_NVRTC="${JITOPT_NVRTC:-$(library nvrtc)}" JITOPT_CUBLAS="${JITOPT_CUBLAS:-$(library cublas)}"
export JITOPT_NVRTC JITOPT_CUBLAS

step() { printf '\n== %s (%ss)\n' "$*" "$SECONDS"; }
wrong() { echo "wrong: $*"; failed=1; }

step "this machine"
"$jitopt" probe | tee "$out/probe.txt"
"$jitopt" probe --json > "$out/probe.json"
if ! grep -q '^--backend .*[ ,]cuda$' "$out/probe.txt"; then
  echo "missing: --backend=cuda does not run here; the lines with \"no\" say what to install"
  exit 3
fi
if command -v nvidia-smi > /dev/null; then
  nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.mem,temperature.gpu --format=csv | tee "$out/clocks.csv"
fi

# A group, and the sizes that it is checked and timed at: rows x elements.
write() {
  local name="$1" body="$2"
  {
    echo 'graph(%x : Float(*, *), %w : Float(*, *)):'
    echo '  %r : Tensor = prim::FusionGroup_0(%x, %w)'
    echo '  return (%r)'
    echo 'with prim::FusionGroup_0 = graph(%x : Float(*, *), %w : Float(*, *)):'
    echo '  %none : None = prim::Constant()'
    echo '  %one : int = prim::Constant[value=1]()'
    echo '  %no : bool = prim::Constant[value=0]()'
    echo '  %outer : int[] = prim::Constant[value=[0]]()'
    echo "  $body"
    echo '  return (%y)'
  } > "$cases/$name.ir"
}
write add_relu '%s : Tensor = aten::add(%x, %w, %one)
  %y : Tensor = aten::relu(%s)'
write gate '%s : Tensor = aten::sigmoid(%x)
  %t : Tensor = aten::tanh(%w)
  %y : Tensor = aten::mul(%s, %t)'
write softmax '%s : Tensor = aten::add(%x, %w, %one)
  %y : Tensor = aten::softmax(%s, %one, %none)'
write columns '%s : Tensor = aten::mul(%x, %w)
  %y : Tensor = aten::sum(%s, %outer, %no, %none)'

step "bits: a GPU gives those of the emulation, which every machine can check"
for file in "$cases"/*.ir; do
  for sizes in 1,1 3,7 64,1000 1000,33; do
    arguments=("$file" --seed 7 --shape "%x=$sizes" --shape "%w=$sizes" --no-cache)
    for backend in cuda-emulated cuda; do
      "$jitopt" run "${arguments[@]}" --backend="$backend" --outputs "$out/$backend.safetensors" \
        > "$out/$backend.txt" 2>&1 || wrong "$file $sizes: $backend: $(tail -n 1 "$out/$backend.txt")"
    done
    grep 'warning' "$out/cuda.txt" || true
    cmp -s "$out"/cuda-emulated.safetensors "$out"/cuda.safetensors || wrong "$file $sizes: other digits"
  done
  "$jitopt" validate "$file" --backend=cuda --no-cache || wrong "$file is not validated"
done
for file in testdata/codegen/cuda*.ir; do
  passes=(); grep -q 'prim::FusionGroup' "$file" || passes=(--passes='@default,fuse')
  "$jitopt" validate "$file" --backend=cuda "${passes[@]}" > "$out/validated.txt" 2>&1 \
    || { code=$?; [ "$code" -ne 5 ] && [ "$code" -ne 70 ] || wrong "$file: $(tail -n 3 "$out/validated.txt")"; }
done

"$jitopt" validate testdata/passes/convert_to_library_calls/products.ir --passes=convert-to-library-calls \
  --backend=cuda || wrong "products of cuBLAS are not validated"

step "compute-sanitizer"
if command -v compute-sanitizer > /dev/null; then
  for tool in memcheck racecheck initcheck synccheck; do
    for name in gate softmax columns; do
      timeout 60 compute-sanitizer --tool "$tool" --error-exitcode 9 \
        "$jitopt" run "$cases/$name.ir" --seed 7 --shape %x=9,1000 --shape %w=9,1000 --backend=cuda \
        > "$out/$tool-$name.txt" 2>&1 || wrong "$tool of $name: $(tail -n 2 "$out/$tool-$name.txt")"
    done
  done
else
  echo "skipped: compute-sanitizer is not installed"
fi

step "times"
for name in add_relu gate softmax columns; do
  for sizes in 64,512 65536,1024; do
    timeout 120 "$jitopt" bench "$cases/$name.ir" --passes= --against= --backend=cuda --runs 21 --seed 1 \
      --shape "%x=$sizes" --shape "%w=$sizes" --json \
      > "$out/bench-$name-$sizes.json" 2> "$out/bench.err" \
      || wrong "$name $sizes is not timed: $(tail -n 1 "$out/bench.err")"
    echo "$name $sizes $(cat "$out/bench-$name-$sizes.json")" | cut -c 1-400
  done
done

step "times of PyTorch"
if "$python" -c 'import torch; assert torch.cuda.is_available()' 2> /dev/null; then
  timeout 180 "$python" - "$out/torch.jsonl" <<'PY' || wrong "PyTorch is not timed"
import json
import sys
import torch

GROUPS = {
    "add_relu": lambda x, w: torch.relu(x + w),
    "gate": lambda x, w: torch.sigmoid(x) * torch.tanh(w),
    "softmax": lambda x, w: torch.softmax(x + w, 1),
    "columns": lambda x, w: (x * w).sum(0),
}


def timed(run, runs=50):
    """The median of runs, in milliseconds."""
    for _ in range(10):
        run()
    events = [(torch.cuda.Event(True), torch.cuda.Event(True)) for _ in range(runs)]
    for begin, end in events:
        begin.record(), run(), end.record()
    torch.cuda.synchronize()
    return sorted(begin.elapsed_time(end) for begin, end in events)[runs // 2]


with open(sys.argv[1], "w", encoding="utf-8") as out:
    for name, group in GROUPS.items():
        for sizes in ((64, 512), (65536, 1024)):
            x, w = (torch.randn(sizes, device="cuda") for _ in range(2))
            for how, function in (("eager", group), ("compile", torch.compile(group))):
                row = {"row": name, "sizes": sizes, "how": how, "ms": timed(lambda: function(x, w))}
                print(json.dumps(row)), out.write(json.dumps(row) + "\n"), out.flush()
PY
else
  echo "skipped: $python has no PyTorch that sees a GPU"
fi

step "done; results are in $out"
exit "$failed"
