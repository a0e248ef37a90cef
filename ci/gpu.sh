#!/usr/bin/env bash
# Checks that need a GPU: whether kernels give the bits of the emulation there, NVIDIA's checkers,
# and times compared with those of PyTorch. Needs a driver, NVRTC and a built jitopt; names what is
# missing, and then ends with exit code 3.
#
#   ci/gpu.sh [JITOPT]        OUT=FOLDER for results; PYTHON for the peer, python3 by default;
#                             SIZES='65536,1024 4096,16384' times these rows x elements
#
# Random groups run on the GPU with
#   export JITOPT_DEVICE_GROUPS=1 JITOPT_EMULATED_GROUPS=1500
#   cargo test -p jitopt --test suite emulated_groups
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

workers="$(nproc)"; [ "$workers" -le 16 ] || workers=16
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
# Operands of 64 MiB exceed the caches of GPUs.
export JITOPT_NVRTC JITOPT_CUBLAS SIZES="${SIZES:-16384,1024 1024,16384}"

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

# A group of an element type, which is checked and timed at several sizes.
write() {
  local name="$1" element="$2" body="$3" params types
  params='%x, %w' types="%x : $element(*, *), %w : $element(*, *)"
  [[ "$name" != layer_norm* ]] || params='%x, %w, %b' types="%x : $element(*, *), %w : $element(*), %b : $element(*)"
  {
    echo "graph($types):"
    echo "  %r : Tensor = prim::FusionGroup_0($params)"
    echo '  return (%r)'
    echo "with prim::FusionGroup_0 = graph($types):"
    echo '  %none : None = prim::Constant()'
    echo '  %one : int = prim::Constant[value=1]()'
    echo '  %no : bool = prim::Constant[value=0]()'
    echo '  %outer : int[] = prim::Constant[value=[0]]()'
    echo "  $body"
    echo '  return (%y)'
  } > "$cases/$name.ir"
}
add_relu='%s : Tensor = aten::add(%x, %w, %one)
  %y : Tensor = aten::relu(%s)'
softmax='%s : Tensor = aten::add(%x, %w, %one)
  %y : Tensor = aten::softmax(%s, %one, %none)'
write add_relu Float "$add_relu"
write add_relu_half Half "$add_relu"
write softmax Float "$softmax"
write softmax_half Half "$softmax"
write gate Float '%s : Tensor = aten::sigmoid(%x)
  %t : Tensor = aten::tanh(%w)
  %y : Tensor = aten::mul(%s, %t)'
for columns in 1 7 33 512 1000 $(for sizes in $SIZES; do echo "${sizes#*,}"; done); do
  write "layer_norm-$columns" Float "%sizes : int[] = prim::Constant[value=[$columns]]()
  %eps : float = prim::Constant[value=1e-05]()
  %y : Tensor = aten::layer_norm(%x, %sizes, %w, %b, %eps, %no)"
done
write columns Float '%s : Tensor = aten::mul(%x, %w)
  %y : Tensor = aten::sum(%s, %outer, %no, %none)'
write total Float '%s : Tensor = aten::mul(%x, %w)
  %y : Tensor = aten::sum(%s, %none)'

names='add_relu add_relu_half softmax softmax_half gate layer_norm columns total'

# The file of a group, and the flags for the sizes of its first operand.
case_of() {
  local name="$1" sizes="$2" columns="${2#*,}"
  case "$name" in
    layer_norm) set -- "$cases/$name-$columns.ir" --shape "%w=$columns" --shape "%b=$columns" ;;
    *) set -- "$cases/$name.ir" --shape "%w=$sizes" ;;
  esac
  printf '%s\n' "$@" --shape "%x=$sizes"
}

# PyTorch's compiler meanwhile fills its cache; only the times below need the GPU alone.
cat > "$out/peer.py" <<'PY'
"""Times groups in PyTorch, eagerly and compiled for their sizes; or only compiles them."""
import json
import os
import sys
import torch

GROUPS = {
    "add_relu": lambda x, w: torch.relu(x + w),
    "gate": lambda x, w: torch.sigmoid(x) * torch.tanh(w),
    "softmax": lambda x, w: torch.softmax(x + w, 1),
    "layer_norm": lambda x, w, b: torch.nn.functional.layer_norm(x, x.shape[1:], w, b),
    "columns": lambda x, w: (x * w).sum(0),
    "total": lambda x, w: (x * w).sum(),
}
SMALL = (64, 512)
LARGE = [tuple(map(int, sizes.split(","))) for sizes in os.environ["SIZES"].split()]
ROWS = [(name, sizes, torch.float) for sizes in (SMALL, *LARGE) for name in GROUPS]
ROWS += [(name, LARGE[0], torch.half) for name in ("add_relu", "softmax")]


def operands(name, sizes, dtype):
    shapes = (sizes, sizes[1:], sizes[1:]) if name == "layer_norm" else (sizes, sizes)
    return [torch.randn(shape, device="cuda", dtype=dtype) for shape in shapes]


def timed(run, runs=50):
    """The median of runs, in milliseconds. The GPU sleeps before each, until the run is queued."""
    for _ in range(10):
        run()
    events = [(torch.cuda.Event(True), torch.cuda.Event(True)) for _ in range(runs)]
    for begin, end in events:
        torch.cuda._sleep(200_000)
        begin.record(), run(), end.record()
    torch.cuda.synchronize()
    return sorted(begin.elapsed_time(end) for begin, end in events)[runs // 2]


def main(path):
    for name, sizes, dtype in ROWS:
        ways = {"eager": GROUPS[name]}
        if sizes != SMALL:
            torch._dynamo.reset()
            ways["compile"] = torch.compile(GROUPS[name], dynamic=False)
        values = operands(name, sizes, dtype)
        for how, function in ways.items():
            try:
                if path is None:
                    function(*values)
                    continue
                ms = timed(lambda: function(*values))
            except Exception as error:
                print(f"{name} {sizes} {how}: {error}"[:200], file=sys.stderr)
                continue
            full = name + ("_half" if dtype == torch.half else "")
            row = {"row": full, "sizes": ",".join(map(str, sizes)), "how": how, "ms": ms}
            with open(path, "a", encoding="utf-8") as out:
                out.write(json.dumps(row) + "\n")


main(sys.argv[1] if len(sys.argv) > 1 else None)
PY
has_torch=0
if "$python" -c 'import torch; assert torch.cuda.is_available()' 2> /dev/null; then has_torch=1; fi
export TORCHINDUCTOR_CACHE_DIR="$out/inductor"
compiling=
[ "$has_torch" = 0 ] || { timeout 150 "$python" "$out/peer.py" > "$out/compiling.txt" 2>&1 & compiling=$!; }

# One check of what follows, in a process of its own; prints what is wrong.
compare_bits() {
  local name="$1-$2" backend flags
  mapfile -t flags < <(case_of "$1" "$2")
  for backend in cuda-emulated cuda; do
    "$jitopt" run "${flags[@]}" --seed 7 --no-cache --backend="$backend" \
      --outputs "$out/$name.$backend.safetensors" > "$out/$name.$backend.txt" 2>&1 \
      || echo "wrong: $name: $backend: $(tail -n 1 "$out/$name.$backend.txt")"
  done
  grep 'warning' "$out/$name.cuda.txt" || true
  cmp -s "$out/$name".cuda-emulated.safetensors "$out/$name".cuda.safetensors || echo "wrong: $name: other digits"
  return 0
}
validate() {
  local file="$1" passes=() code text
  grep -q 'prim::FusionGroup' "$file" || passes=(--passes='@default,fuse')
  text="$("$jitopt" validate "$file" --backend=cuda --no-cache "${passes[@]}" 2>&1)" && return
  # Some files are about graphs that are refused.
  code=$?
  [ "$code" -ne 5 ] && [ "$code" -ne 70 ] && [[ "$file" != "$cases"/* ]] || echo "wrong: $file: $(tail -n 3 <<< "$text")"
  return 0
}
sanitize() {
  local tool="$1" name="$2" flags text
  mapfile -t flags < <(case_of "$name" 9,1000)
  text="$(timeout 60 compute-sanitizer --tool "$tool" --error-exitcode 9 \
    "$jitopt" run "${flags[@]}" --seed 7 --backend=cuda 2>&1)" \
    || echo "wrong: $tool of $name: $(tail -n 2 <<< "$text")"
  return 0
}
export jitopt out cases
export -f case_of compare_bits validate sanitize
# Runs a check for lines of arguments, several at once.
in_parallel() {
  local count="$1" check="$2"
  xargs -P "$count" -L 1 bash -c "$check"' "$@"' _ | tee "$out/$check.txt"
  if grep -q '^wrong: ' "$out/$check.txt"; then failed=1; fi
}

step "bits: a GPU gives those of the emulation, which every machine can check"
in_parallel "$workers" compare_bits < <(
  for name in $names; do
    for sizes in 1,1 3,7 64,1000 1000,33; do echo "$name $sizes"; done
  done
)

step "validation"
# Generated samples have rows of few elements.
in_parallel "$workers" validate < <(
  printf '%s\n' "$cases"/*[a-z].ir "$cases"/layer_norm-7.ir "$cases"/layer_norm-33.ir testdata/codegen/cuda*.ir
)
"$jitopt" validate testdata/passes/convert_to_library_calls/products.ir --passes=convert-to-library-calls \
  --backend=cuda || wrong "products of cuBLAS are not validated"

step "compute-sanitizer"
if command -v compute-sanitizer > /dev/null; then
  in_parallel "$(( (workers + 1) / 2 ))" sanitize < <(
    for tool in memcheck racecheck initcheck synccheck; do
      for name in gate softmax columns total; do echo "$tool $name"; done
    done
  )
else
  echo "skipped: compute-sanitizer is not installed"
fi

# The rows of the table at the end.
rows() {
  local name sizes
  for sizes in 64,512 $SIZES; do
    for name in add_relu gate softmax layer_norm columns total; do echo "$name $sizes"; done
  done
  for name in add_relu_half softmax_half; do echo "$name ${SIZES%% *}"; done
}

step "times"
[ -z "$compiling" ] || wait "$compiling" || echo "PyTorch has not compiled all groups: $(tail -n 1 "$out/compiling.txt")"
while read -r name sizes; do
  mapfile -t flags < <(case_of "$name" "$sizes")
  timeout 60 "$jitopt" bench "${flags[@]}" --passes= --against= --backend=cuda --runs 21 --seed 1 --json \
    > "$out/bench-$name-$sizes.json" 2> "$out/bench.err" \
    || wrong "$name $sizes is not timed: $(tail -n 1 "$out/bench.err")"
done < <(rows)

step "times of PyTorch"
if [ "$has_torch" = 1 ]; then
  timeout 120 "$python" "$out/peer.py" "$out/torch.jsonl" 2> "$out/torch.err" \
    || wrong "PyTorch is not timed: $(tail -n 1 "$out/torch.err")"
else
  echo "skipped: $python has no PyTorch that sees a GPU"
fi

# In milliseconds by the GPU's clock; the share is that of a copy in the same rounds. At 64,512
# launches take longer than kernels.
step "device ms, GB/s, share of a copy; PyTorch's ms, eagerly and compiled; ours by the better one"
command -v "$python" > /dev/null || echo "skipped: the table needs $python"
! command -v "$python" > /dev/null || rows | "$python" -c '
import json, os, sys
folder, peers = sys.argv[1], {}
path = os.path.join(folder, "torch.jsonl")
for line in open(path, encoding="utf-8") if os.path.exists(path) else ():
    row = json.loads(line)
    peers[row["row"], row["sizes"], row["how"]] = row["ms"]
for name, sizes in (line.split() for line in sys.stdin):
    try:
        with open(os.path.join(folder, f"bench-{name}-{sizes}.json"), encoding="utf-8") as file:
            own = json.load(file)[0]["rows"][1]["device"]
        ms, rate, share = (own[key]["median"] for key in ("time_s", "bytes_per_s", "share_of_copy"))
    except (OSError, ValueError, TypeError, KeyError, IndexError):
        print(f"{name:14} {sizes:11} not timed")
        continue
    eager, compiled = (peers.get((name, sizes, how)) for how in ("eager", "compile"))
    best = min((time for time in (eager, compiled) if time), default=None)
    shown = [f"{time:8.4f}" if time else "       -" for time in (ms * 1e3, eager, compiled)]
    ratio = f"{ms * 1e3 / best:5.2f}" if best else "    -"
    print(f"{name:14} {sizes:11} {shown[0]} {rate / 1e9:7.1f} {share:5.2f} {shown[1]} {shown[2]} {ratio}")
' "$out" | tee "$out/table.txt"

step "done; results are in $out"
exit "$failed"
