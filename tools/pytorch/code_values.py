"""Straight-line code, containers and indexing for `record_code.py`."""

# TorchScript compiles this source: it needs annotations of `typing`, and explicit loops and lists.
# ruff: noqa: UP006, UP007, UP035, UP045, PERF401, RET505

import math
from typing import Any, Dict, List, Optional, Tuple, Union

import torch
import torch.nn.functional as F
from torch import Tensor

from code_flow import case


# ---- straight-line code


@case
def add(x: Tensor, y: Tensor):
    return x + y


@case
def nested_expression(x: Tensor, y: Tensor):
    return torch.tanh(x + y * 2) - torch.sigmoid(x)


@case
def named_variables(x: Tensor):
    a = x.neg()
    b = a.exp()
    return b + a


@case
def rebound(x: Tensor):
    x = x + 1
    x = x * 2
    x = x.relu()
    return x


@case
def alpha(x: Tensor, y: Tensor):
    return torch.add(x, y, alpha=3) + torch.sub(x, y, alpha=1)


@case
def long_line(a_rather_long_name: Tensor, another_rather_long_name: Tensor):
    return torch.tanh(a_rather_long_name + another_rather_long_name) * (another_rather_long_name - a_rather_long_name)


@case
def long_line_with_write(x: Tensor, y: Tensor):
    return torch.add(x.add_(1), torch.mul(torch.exp(y) + torch.log(y), torch.sin(x) + torch.cos(x)))


@case
def deep(x: Tensor):
    return x.neg().exp().log().sin().cos().tan().relu().abs().sqrt().rsqrt().sigmoid().tanh()


@case
def out_variant(x: Tensor, y: Tensor, z: Tensor):
    torch.add(x, y, out=z)
    torch.mul(x, y, out=z)
    return torch.arange(0, 4, 1, out=z)


@case
def in_place(x: Tensor):
    x.add_(1).mul_(2)
    x.zero_()
    x[0] = 5
    x[1:3] += 1
    return x


@case
def keywords(x: Tensor):
    a = torch.zeros([2, 3], dtype=torch.float32, device=x.device)
    b = torch.full([2], 1.5)
    c = torch.ones_like(x, dtype=torch.int64)
    d = torch.empty([2, 2], memory_format=torch.contiguous_format)
    return a, b, c, d


@case
def defaults_are_left_out(x: Tensor, w: Tensor):
    a = F.conv2d(x, w)
    b = F.conv2d(x, w, stride=2)
    c = F.max_pool2d(a, 2)
    d = torch.sum(x, dim=[0], keepdim=False)
    e = torch.softmax(x, 1)
    f = torch.std(x, dim=1, unbiased=True)
    g = x.contiguous()
    return a, b, c, d, e, f, g


@case
def dtype_and_device(x: Tensor):
    y = x.to(torch.float64)
    z = y.to("cpu")
    w = z.to(device="cpu", dtype=torch.int32)
    return w.to(x)


@case
def device_constant():
    return torch.zeros([1], device=torch.device("cuda:1"))


@case
def layout_constant(x: Tensor):
    return torch.empty_like(x, layout=torch.strided)


@case
def floats(x: Tensor):
    a = x * 1e-8 + 0.1 - 1e10 * 2.0 + 1.5e300
    b = a * float("inf") + float("-inf")
    return b + math.pi - 1.0 / 3.0 + (-0.0)


@case
def nan():
    return float("nan"), math.inf, -math.inf


@case
def ints():
    return 9223372036854775807, -9223372036854775807, 0, -1


@case
def complexes(x: Tensor):
    a = 2 + 3j
    return x * a + 1.5j


@case
def strings():
    a = "plain"
    b = "quotes ' and \" and \\"
    c = "line\nbreak\ttab\r\a\b\f\v"
    d = "\x01\x7f"
    return a, b, c, d


@case
def long_string(x: Tensor):
    assert x.dim() > 3, "this is a message of more than forty characters, which is not inlined"
    return x


@case
def unicode_string():
    return "é", ["ü", "a"]


@case
def long_strings_twice(x: Tensor):
    print("this is a message of more than forty characters, which is not inlined", x)
    print("another message of more than forty characters, which is not inlined", x)
    return x


@case
def formatted(x: Tensor, n: int):
    print(f"{n} of {x}")
    return "{} and {}".format(n, x.dim())


@case
def percent(n: int, s: str):
    return "%d %s" % (n, s)


@case
def printing(x: Tensor):
    print(x)
    print("x", x, 1, 2.5, [1, 2], True, None)
    print()


@case
def lists_of_numbers():
    return [math.inf, math.nan, 1e-300, -0.0, 123456789.125, 1e10, 1e16], [1j, 2 + 3j, -1.5 - 0.5j], complex(1, 2)


@case
def members_do_not_tell():
    a: Dict[str, Optional[int]] = {"a": 1, "b": None}
    b: Dict[str, Union[int, str]] = {"a": 1, "b": "x"}
    c: List[Union[int, float]] = [1, 2.5]
    return a, b, c


@case
def devices(x: Tensor):
    return [torch.device("cpu"), x.device], torch.device("cuda", 1), x.to(torch.device("meta"))


@case
def params_of_all_types(
    a: Tuple[int, Optional[Tensor]],
    b: Dict[str, Tuple[int, int]],
    c: List[Dict[int, List[float]]],
    d: Tuple[()],
    e: Optional[Dict[str, Optional[List[Tensor]]]],
):
    return a, b, c, d, e


@case
def slices(xs: List[int], s: str, t: Tuple[int, int, int]):
    return xs[::2], xs[:3], xs[-2:], s[::1], t[:2], t[1:], t[-1]


@case
def several_results_in_a_tuple(x: Tensor):
    return x.topk(2), torch.max(x, 1), x.sum(0, keepdim=True), x.mean([0, 1], True, dtype=torch.float64)


@case
def keywords_only(x: Tensor):
    return x.var(dim=[0], correction=0), torch.div(x, 2, rounding_mode="floor"), x.round(decimals=2)


@case
def deleting(d: Dict[str, int], xs: List[int]):
    del d["a"]
    del xs[0]
    d.update({"k": 1})
    d.setdefault("x", 3)
    return d.popitem()


@case
def element_of_expression(x: Tensor, xs: List[Tensor]):
    return (xs + [x])[0], x.relu()[0], xs[0][1], torch.split(x, 1)[0]


@case
def names_that_collide(x: Tensor, _0: Tensor, _1: int, self: Tensor, x_1: Tensor):
    x = x + _0
    x = x + _1
    return (x + self, x - x_1), [x * 2, x * 3]


@case
def nothing(x: Tensor):
    x.add_(1)


@case
def returns_none(x: Optional[Tensor]) -> Optional[Tensor]:
    return None


@case
def string_methods(s: str):
    parts = s.split(",")
    return s.upper().strip() + s[0] + s[1:3] + s.replace("a", "b"), len(s), s.startswith("x"), "".join(parts)


@case
def conversions(x: Tensor, s: str, n: int):
    return int(x), float(x), bool(x), str(n), int(s), float(s), float(n), bool(n), int(2.5)


@case
def scalar_math(a: int, b: int, c: float):
    return a // b, a % b, a / b, a**b, -a, abs(a), a & b, a | b, a ^ b, a << 1, b >> 1, c // 2, math.floor(c), math.sqrt(c), round(c), min(a, b), max(c, 1.0)


@case
def comparisons(a: int, b: float, s: str):
    return a < 3, a == 4, b >= 1.0, not (a > 2), a != 2 and b < 1.0, s == "x" or s != "y", a is None


@case
def item(x: Tensor):
    return x.item()


@case
def implicit(x: Tensor, n: int):
    y = torch.zeros([n, n])
    y[x] = 1.0
    return torch.add(y, 1, alpha=n), y.size(0), y.shape[1]


@case
def attributes_of_tensors(x: Tensor):
    return x.dtype, x.device, x.shape, x.requires_grad, x.grad, x.is_cuda, x.T, x.data, x.ndim, x.layout


# ---- containers


@case
def lists(x: Tensor, n: int):
    a = [1, 2, n]
    b = [x, x]
    c: List[int] = []
    d: List[Optional[int]] = [1, None]
    e = [[1], [2, n]]
    f: List[Tensor] = []
    c.append(3)
    f.append(x)
    f.extend(b)
    return a, b, c, d, e, f


@case
def list_methods(a: List[int]):
    a.append(1)
    a.extend([2])
    a.insert(0, 3)
    a.reverse()
    a.sort()
    b = a.pop()
    a[0] = 5
    del a[1]
    c = a[1:]
    d = a[:-1:2]
    return a.index(1), a.count(2), len(a), sum(a), sorted(a), b, 3 in a, c, d, a + c, a * 2, a.copy()


@case
def dicts(x: Tensor):
    a = {"a": x, "b": x + 1}
    b: Dict[str, int] = {}
    c: Dict[int, Optional[Tensor]] = {1: x, 2: None}
    b["n"] = 3
    d = a["a"]
    return a, b, c, d, "a" in a, len(a), list(a.keys()), list(a.values()), a.get("b"), b.get("x", 0)


@case
def dict_items(d: Dict[str, int]):
    total = 0
    for k, v in d.items():
        total += v + len(k)
    for k in d:
        total += d[k]
    return total


@case
def tuples(x: Tensor, n: int):
    a = (x, n)
    b = (x,)
    c = a + (1,)
    y, m = a
    (z,) = b
    return a, b, c, y, m, z, a[0], a[-1], c[1:], ()


@case
def tuple_params(p: Tuple[int, Tensor], q: Tuple[int]):
    a, b = p
    return b + a + q[0]


@case
def nested_tuples(x: Tensor):
    (a, b), c = (x, x + 1), x + 2
    return a, (b, c), ((a,),)


@case
def unpacked_list(xs: List[int]):
    a, b, c = xs
    return a + b * c


@case
def comprehension(xs: List[int], ts: List[Tensor]):
    a = [x * 2 for x in xs]
    b = [t.relu() for t in ts]
    c = {x: x + 1 for x in xs}
    return a, b, c


@case
def comprehension_if(xs: List[int]):
    return [x for x in range(4)], [i + x for i, x in enumerate(xs)]


@case
def optional_list(a: Optional[List[int]]) -> List[int]:
    if a is None:
        return [1]
    return a


@case
def constant_containers():
    return [1, 2, 3], [1.0, 2.5], ["a", "b"], [True, False], (1, "a", None), {"k": 1}, [(1, 2), (3, 4)], [[1], [2, 3]]


@case
def empty_containers():
    a: List[Tensor] = []
    b: Dict[str, List[int]] = {}
    c: List[Tuple[int, Tensor]] = []
    d = torch.jit.annotate(List[Optional[Tensor]], [])
    return a, b, c, d


@case
def annotated(x: Tensor):
    a = torch.jit.annotate(Optional[int], None)
    b = torch.jit.annotate(List[float], [])
    return a, b


@case
def any_value(x: Any) -> int:
    if isinstance(x, int):
        return x
    elif isinstance(x, (float, str)):
        return 1
    return 0


@case
def list_of_any() -> List[Any]:
    a: List[Any] = [1, "a", 2.0]
    return a


@case
def to_list(x: Tensor) -> List[List[float]]:
    a: List[List[float]] = x.tolist()
    return a


# ---- indexing


@case
def indexing(x: Tensor, i: int, m: Tensor):
    return x[0], x[i, 1], x[:, 1], x[1:3], x[::2, None], x[..., 0], x[m], x[m > 0], x[-1], x[1:, i:], x[None]


@case
def index_assign(x: Tensor, m: Tensor):
    x[0] = 1
    x[:, 1] = 2.0
    x[m] = x[m] + 1
    x[1:3, 0] = x[0, 0]
    return x


@case
def views(x: Tensor, n: int):
    return x.view(-1, n), x.reshape([n, 2]), x.permute(1, 0), x.transpose(0, 1), x.expand(2, -1), x.unsqueeze(0).squeeze(), x.flatten(1)


@case
def splitting(x: Tensor):
    a, b = x.chunk(2, 0)
    c = torch.split(a, 1, 1)
    d, e, f = torch.unbind(b)
    return a, c, d + e + f


@case
def several_results(x: Tensor):
    values, indices = torch.max(x, dim=1)
    q, r = torch.linalg.qr(x)
    _, k = x.topk(3)
    return values + q, indices, r, k
