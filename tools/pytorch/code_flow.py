"""Control flow, calls and objects for `record_code.py`, and the list of recorded functions."""

# TorchScript compiles this source: it needs annotations of `typing`, and explicit loops and lists.
# ruff: noqa: UP006, UP007, UP035, UP045, PERF401, RET505

import enum
import math
from typing import Any, Dict, List, NamedTuple, Optional, Tuple, Union

import torch
import torch.nn.functional as F
from torch import Tensor

FUNCTIONS = []


def case(function):
    """Registers a function as a case."""
    FUNCTIONS.append(function)
    return function


class Color(enum.Enum):
    """An enum."""

    RED = 1
    BLUE = 2


class Point(NamedTuple):
    """A named tuple."""

    x: Tensor
    n: int


@torch.jit.script
class Counter:
    """An object with a counter."""

    def __init__(self, start: int):
        self.n = start

    def step(self, by: int) -> int:
        self.n += by
        return self.n


@torch.jit.script
class Scope:
    """A context manager that returns a number."""

    def __init__(self):
        self.depth = 0

    def __enter__(self) -> int:
        self.depth += 1
        return self.depth

    def __exit__(self, kind: Any, value: Any, trace: Any) -> None:
        self.depth -= 1


@torch.jit.interface
class Step:
    """An interface with a `step` method."""

    def step(self, by: int) -> int:
        pass


def helper(x: Tensor, n: int) -> Tensor:
    return x * n + 1


# IR does not contain the module of a function: functions of the main module have no prefix.
helper.__module__ = "__main__"


# ---- control flow


@case
def branch(x: Tensor, b: bool):
    if b:
        y = x + 1
    else:
        y = x - 1
    return y


@case
def branch_of_two(x: Tensor, n: int):
    if n > 3:
        y, z = x + 1, x
    elif n > 1:
        y, z = x, x - 1
    else:
        y, z = x * 2, x / 2
    return y + z


@case
def branch_without_else(x: Tensor, b: bool):
    if b:
        x = x.neg()
    return x


@case
def branch_of_effects(x: Tensor, b: bool):
    if b:
        print("yes")
    else:
        print("no")
    if not b:
        x.add_(1)
    return x


@case
def early_return(x: Tensor, n: int) -> Tensor:
    if n == 0:
        return x
    y = x * n
    if n == 1:
        return y + 1
    return y - 1


@case
def ternary(x: Tensor, b: bool):
    return (x if b else x + 1) * (1 if b else 2)


@case
def raising(x: Tensor, n: int):
    if n < 0:
        raise ValueError("negative")
    if n == 0:
        raise RuntimeError("zero: {}".format(n))
    return x


@case
def raise_only(x: Tensor) -> Tensor:
    raise Exception("never")


@case
def assertion(x: Tensor, n: int):
    assert n > 0
    assert n < 10, "too large"
    assert x.dim() == 2, f"{n}"
    return x


@case
def counting(x: Tensor, n: int):
    for i in range(n):
        x = x + i
    return x


@case
def counting_range(x: Tensor, n: int):
    for i in range(1, n, 2):
        x = x * i
    for i in range(3, -1, -1):
        x = x - i
    return x


@case
def counting_constant(x: Tensor):
    for _ in range(4):
        x = x.relu()
    return x


@case
def while_loop(x: Tensor, n: int):
    while n > 0:
        x = x + n
        n -= 1
    return x


@case
def while_of_tensor(x: Tensor):
    while bool(x.sum() < 10):
        x = x * 2
    return x


@case
def while_true(n: int):
    while True:
        n += 1
        if n > 10:
            break
    return n


@case
def forever(x: Tensor):
    while True:
        print(x)


@case
def breaking(xs: List[int]):
    total = 0
    for x in xs:
        if x < 0:
            continue
        if x > 100:
            break
        total += x
    return total


@case
def loop_return(xs: List[int]) -> int:
    for i, x in enumerate(xs):
        if x == 3:
            return i
    return -1


@case
def nested_loops(x: Tensor, n: int):
    for i in range(n):
        for j in range(i):
            x = x + i * j
        while n > i:
            n -= 1
    return x, n


@case
def loop_effects(x: Tensor, n: int):
    for i in range(n):
        print(i)
    for i in range(n):
        pass
    return x


@case
def loop_of_lists(xs: List[Tensor], ys: List[Tensor]):
    out: List[Tensor] = []
    for x, y in zip(xs, ys):
        out.append(x + y)
    for i, x in enumerate(out):
        out[i] = x.relu()
    return torch.stack(out)


@case
def loop_state_types(n: int) -> Optional[int]:
    best: Optional[int] = None
    for i in range(n):
        if i % 3 == 2:
            best = i
    return best


@case
def branch_in_loop(x: Tensor, n: int):
    y = x
    for i in range(n):
        if i % 2 == 0:
            y = y + x
        else:
            z = y * 2
            y = z - x
    return y


@case
def loop_over_tensor(x: Tensor):
    total = 0.0
    for row in x:
        total += float(row.sum())
    return total


@case
def uninitialised(x: Tensor, b: bool) -> Tensor:
    if b:
        y = x + 1
        return y
    else:
        raise RuntimeError("no")


@case
def refined(x: Optional[Tensor], n: Optional[int]):
    if x is not None and n is not None:
        return x + n
    if x is None:
        return torch.zeros([1])
    return x


@case
def refined_assert(x: Optional[Tensor]):
    assert x is not None
    return x + 1


@case
def unwrapped(x: Optional[int]):
    return torch.jit._unwrap_optional(x) + 1


@case
def optional_branch(b: bool, x: Tensor) -> Optional[Tensor]:
    if b:
        y = x
    else:
        y = None
    return y


@case
def union(x: Union[int, str, float]) -> int:
    y: Union[int, str] = "a"
    if isinstance(x, int):
        y = x
        return x
    return len(str(x)) if isinstance(x, str) else 0


@case
def many_names(x: Tensor):
    x0 = x + 1
    x1 = x0 + 1
    _x = x1 + 1
    input = _x + 1
    list_ = input + 1
    torch_ = list_ + 1
    nan = torch_ + 1
    inf = nan + 1
    ops = inf + 1
    fork = ops + 1
    return fork + x0 + x1 + _x + input + list_ + torch_ + nan + inf + ops


@case
def shadowed(x: Tensor, b: bool):
    y = x
    if b:
        y = x + 1
        y = y + 1
    else:
        y = x - 1
    y = y * 2
    y = y * y
    return y + y


@case
def two_returns(x: Tensor) -> Tuple[Tensor, int]:
    return x, x.dim()


# ---- calls


@case
def calls(x: Tensor):
    return helper(x, 2) + helper(x=x, n=3)


@case
def calls_functional(x: Tensor):
    return F.relu(F.dropout(x, 0.5, True, False)) + F.layer_norm(x, [3]) + F.gelu(x)


@case
def calls_nested(x: Tensor):
    a = helper(helper(x, 1), 2)
    return helper(a, helper(x, 3).dim())


@case
def objects(n: int):
    c = Counter(n)
    c.step(2)
    c.n = 5
    return c.step(3) + c.n


@case
def named_tuple(x: Tensor):
    p = Point(x, 2)
    y, m = p
    return p.x + p.n + y + m


@case
def named_tuple_param(p: Point, x: Tensor) -> Point:
    y, n = p
    if n > 2:
        return Point(y + p.x, n)
    return Point(x, 2)


@case
def interface(n: int, step: Step) -> List[Step]:
    steps: List[Step] = [step, step]
    return steps if step.step(n) > 0 else [Counter(n)]


@case
def objects_in_containers(n: int):
    many = [Counter(i) for i in range(n)]
    named = {"a": Counter(1)}
    one: Optional[Counter] = None
    if n > 1:
        one = many[0]
    return many[0].step(1), named["a"].n, one


@case
def enums(c: Color):
    return c == Color.RED, c.name, c.value, Color.BLUE.name


@case
def enum_result(b: bool) -> Color:
    return Color.RED if b else Color.BLUE


@case
def forked(x: Tensor):
    a = torch.jit.fork(helper, x, 2)
    b = torch.jit.fork(helper, x, 3)
    return torch.jit.wait(a) + torch.jit.wait(b)


@case
def awaited(x: Tensor):
    later = torch.jit._awaitable(helper, x, 2)
    return torch.jit._awaitable_wait(later) + 1


@case
def union_in_loop(n: int) -> Union[int, str]:
    x: Union[int, str] = 0
    for i in range(n):
        if i > 2:
            x = "s"
        else:
            x = i
    return x


@case
def no_grad(x: Tensor):
    y = x
    with torch.no_grad():
        y = x + 1
        with torch.no_grad():
            pass
    return y * 2


@case
def context(x: Tensor):
    with torch.autograd.profiler.record_function("a label"):
        x = x * 2
    with Scope() as n:
        x = x + n
    return x


@case
def autograd(x: Tensor):
    y = (x * x).sum()
    g = torch.autograd.grad([y], [x])
    return g


@case
def ignored(x: Tensor):
    return from_python(x, 2)


@torch.jit.ignore
def from_python(x: Tensor, n: int) -> Tensor:
    return x + n


@case
def hasattr_and_len(x: Tensor, xs: List[Tensor]):
    return len(xs), len(x), x.size(), x.numel()


@case
def random(x: Tensor):
    torch.manual_seed(3)
    return torch.rand([2, 3]) + torch.randn_like(x) + torch.randint(0, 5, [2]).float() + torch.randperm(4)


@case
def cats(xs: List[Tensor], x: Tensor):
    return torch.cat([x, x + 1], 1), torch.cat(xs), torch.stack([x, x], dim=0), torch.einsum("ij,jk->ik", [x, x])


@case
def norms(x: Tensor, w: Tensor, b: Tensor):
    return F.batch_norm(x, w, b, w, b, training=False), F.layer_norm(x, [4], w, b), F.group_norm(x, 2), F.normalize(x)


@case
def losses(x: Tensor, y: Tensor):
    return F.mse_loss(x, y), F.cross_entropy(x, y), F.nll_loss(x, y, reduction="sum"), F.binary_cross_entropy(x, y)


@case
def pools(x: Tensor):
    return F.avg_pool2d(x, [2, 2]), F.adaptive_avg_pool2d(x, [1, 1]), F.max_pool2d(x, 3, 2, 1), F.interpolate(x, scale_factor=2.0)


@case
def where(x: Tensor):
    return torch.where(x > 0, x, torch.zeros_like(x)), x.clamp(0, 1), x.clamp(min=0.0), torch.clamp(x, max=3), x.masked_fill(x > 1, 0.5)


@case
def linear_algebra(x: Tensor, y: Tensor):
    return x @ y, torch.mm(x, y), torch.addmm(x, x, y, beta=2, alpha=3), x.t(), torch.bmm(x, y), F.linear(x, y), F.linear(x, y, x)


@case
def attention(q: Tensor, k: Tensor, v: Tensor, mask: Optional[Tensor] = None):
    s = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(q.size(-1))
    if mask is not None:
        s = s.masked_fill(mask == 0, -1e9)
    return torch.matmul(F.softmax(s, dim=-1), v)


@case
def lstm_cell(x: Tensor, hx: Tensor, cx: Tensor, w_ih: Tensor, w_hh: Tensor):
    gates = x.mm(w_ih.t()) + hx.mm(w_hh.t())
    i, f, g, o = gates.chunk(4, 1)
    c = torch.sigmoid(f) * cx + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(c), c


@case
def beam(scores: Tensor, beam_size: int):
    done: List[Tuple[float, List[int]]] = []
    live = [(0.0, [0])]
    for step in range(int(scores.size(0))):
        grown: List[Tuple[float, List[int]]] = []
        for score, path in live:
            values, ids = scores[step].topk(beam_size)
            for j in range(beam_size):
                grown.append((score + float(values[j]), path + [int(ids[j])]))
        live = grown[:beam_size]
        if len(live) > 3:
            done.extend(live)
            break
    return done, live


@case
def fibonacci(n: int) -> int:
    a, b = 0, 1
    for _ in range(n):
        a, b = b, a + b
    return a


@case
def collatz(n: int) -> List[int]:
    seen = [n]
    while n != 1:
        if n % 2 == 0:
            n = n // 2
        else:
            n = 3 * n + 1
        seen.append(n)
    return seen


@case
def power_iteration(a: Tensor, eps: float):
    v = torch.ones([a.size(0)])
    last = -1.0
    value = 0.0
    while abs(value - last) > eps:
        last = value
        v = a.mv(v)
        v = v / v.norm()
        value = float(v.dot(a.mv(v)))
    return v, value


@case
def word_count(text: str) -> Dict[str, int]:
    counts: Dict[str, int] = {}
    for word in text.split(" "):
        if word in counts:
            counts[word] += 1
        else:
            counts[word] = 1
    return counts


@case
def nms(boxes: Tensor, scores: Tensor, threshold: float):
    order = torch.argsort(scores, descending=True)
    keep: List[int] = []
    while order.numel() > 0:
        i = int(order[0])
        keep.append(i)
        if order.numel() == 1:
            break
        rest = order[1:]
        top_left = torch.max(boxes[i, :2], boxes[rest][:, :2])
        bottom_right = torch.min(boxes[i, 2:], boxes[rest][:, 2:])
        area = (bottom_right - top_left).clamp(min=0).prod(dim=1)
        order = rest[area <= threshold]
    return keep
