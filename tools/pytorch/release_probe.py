"""Runs a list of small calls in one release of PyTorch and prints the results as JSON on stdout.

    for v in 1.3.1 1.6.0 2.15.0; do OMP_NUM_THREADS=1 $v/bin/python release_probe.py > $v.json; done
    python merge_release_probes.py *.json > testdata/releases/calls.json

A call is the name of an operator, its operands and the same call in Python. Operands are tensors, `T(dtype, values)`, or
Python values. A result is `["dtype", [values]]` for a tensor, a plain value for a number, a list of results for several,
and "raises" if the release raises. The script runs in PyTorch 1.2 and later: integers
to negative powers crash earlier releases.
"""

import json
import math
import warnings

import torch

warnings.simplefilter("ignore")
INF = float("inf")
NAN = float("nan")


class T(object):
    """A tensor operand: its element type and its nested elements."""

    def __init__(self, dtype, values):
        self.dtype, self.values = dtype, values

    def tensor(self):
        return torch.tensor(self.values, dtype=getattr(torch, self.dtype))


def long(*values):
    return T("int64", list(values))


def real(*values):
    return T("float32", list(values))


def byte(*values):
    return T("uint8", list(values))


def truth(*values):
    return T("bool", list(values))


def scalar(dtype, value):
    return T(dtype, value)


LONGS = long(3, 5, -7)
REALS = real(1.5, -2.5, 3.5)

# Kind, operands, and the call, with `a` to `e` for the operands.
CALLS = [
    ("aten::div", [LONGS, 2], "torch.div(a, b)"),
    ("aten::div", [LONGS, long(2, 2, 2)], "torch.div(a, b)"),
    ("aten::div", [LONGS, 2.0], "torch.div(a, b)"),
    ("aten::div", [truth(True, False), truth(True, True)], "torch.div(a, b)"),
    ("aten::div", [REALS, 2], "torch.div(a, b)"),
    ("aten::div_", [LONGS, 2], "a.div_(b)"),
    ("aten::div_", [LONGS, long(2, 2, 2)], "a.div_(b)"),
    ("aten::div_", [REALS, 2], "a.div_(b)"),
    ("aten::true_divide", [LONGS, 2], "torch.true_divide(a, b)"),
    ("aten::floor_divide", [LONGS, 2], "torch.floor_divide(a, b)"),
    ("aten::floor_divide", [LONGS, long(2, 2, 2)], "torch.floor_divide(a, b)"),
    ("aten::floor_divide", [REALS, 2], "torch.floor_divide(a, b)"),
    ("aten::floor_divide_", [LONGS, 2], "a.floor_divide_(b)"),
    ("aten::reciprocal", [LONGS], "torch.reciprocal(a)"),
    ("aten::full", [[2], 3], "torch.full(a, b)"),
    ("aten::full", [[2], 3.5], "torch.full(a, b)"),
    ("aten::full", [[2], True], "torch.full(a, b)"),
    ("aten::full_like", [REALS, 3], "torch.full_like(a, b)"),
    ("aten::arange", [3], "torch.arange(a)"),
    ("aten::arange", [3.0], "torch.arange(a)"),
    ("aten::arange", [1, 4], "torch.arange(a, b)"),
    ("aten::arange", [1, 4.0], "torch.arange(a, b)"),
    ("aten::arange", [1, 6, 2], "torch.arange(a, b, c)"),
    ("aten::linspace", [0, 10, 5], "torch.linspace(a, b, c)"),
    ("aten::linspace", [0.0, 1.0, 4], "torch.linspace(a, b, c)"),
    ("aten::logspace", [0, 3, 4], "torch.logspace(a, b, c)"),
    ("aten::max", [real(1, NAN, 3)], "torch.max(a)"),
    ("aten::min", [real(1, NAN, 3)], "torch.min(a)"),
    ("aten::max", [real(1, NAN, 3), real(NAN, 2, 5)], "torch.max(a, b)"),
    ("aten::min", [real(1, NAN, 3), real(NAN, 2, 5)], "torch.min(a, b)"),
    ("aten::max", [LONGS, REALS], "torch.max(a, b)"),
    ("aten::min", [LONGS, REALS], "torch.min(a, b)"),
    ("aten::max", [real(1, 3, 3), 0], "torch.max(a, b)"),
    ("aten::max", [real(1, NAN, 3, NAN), 0], "torch.max(a, b)"),
    ("aten::min", [real(1, NAN, 3, NAN), 0], "torch.min(a, b)"),
    ("aten::max", [truth(True, False)], "torch.max(a)"),
    ("aten::min", [real(3, 1, 1), 0], "torch.min(a, b)"),
    ("aten::argmax", [real(1, 3, 3)], "torch.argmax(a)"),
    ("aten::argmin", [real(1, 1, 3)], "torch.argmin(a)"),
    ("aten::argmax", [real(1, 3, 3), 0], "torch.argmax(a, b)"),
    ("aten::argmin", [real(3, 1, 1), 0], "torch.argmin(a, b)"),
    ("aten::argmax", [long(1, 3, 3), 0], "torch.argmax(a, b)"),
    ("aten::argmax", [real(1, NAN, 3, NAN)], "torch.argmax(a)"),
    ("aten::clamp", [real(-5, 0, 5), 2, -2], "torch.clamp(a, b, c)"),
    ("aten::clamp", [LONGS, 0.5, 4.5], "torch.clamp(a, b, c)"),
    ("aten::clamp", [real(1, NAN), 0.0, 0.5], "torch.clamp(a, b, c)"),
    ("aten::clamp", [real(1, 2), NAN, 1.5], "torch.clamp(a, b, c)"),
    ("aten::clamp", [LONGS, 0, 4], "torch.clamp(a, b, c)"),
    ("aten::sum", [truth(True, True, False)], "torch.sum(a)"),
    ("aten::sum", [byte(200, 100)], "torch.sum(a)"),
    ("aten::prod", [truth(True, True)], "torch.prod(a)"),
    ("aten::cumsum", [truth(True, True), 0], "torch.cumsum(a, b)"),
    ("aten::cumsum", [byte(200, 100), 0], "torch.cumsum(a, b)"),
    ("aten::cumprod", [byte(200, 2), 0], "torch.cumprod(a, b)"),
    ("aten::mean", [LONGS], "torch.mean(a)"),
    ("aten::all", [byte(1, 1)], "torch.all(a)"),
    ("aten::any", [byte(0, 1)], "torch.any(a)"),
    ("aten::all", [LONGS], "torch.all(a)"),
    ("aten::any", [REALS], "torch.any(a)"),
    ("aten::rsub", [LONGS, 2, 1], "torch.rsub(a, b, alpha=c)"),
    ("aten::rsub", [LONGS, 2.5, 1], "torch.rsub(a, b, alpha=c)"),
    ("aten::add", [LONGS, 2.5, 1], "torch.add(a, b, alpha=c)"),
    ("aten::add", [LONGS, REALS, 1], "torch.add(a, b, alpha=c)"),
    ("aten::add", [LONGS, LONGS, 1.5], "torch.add(a, b, alpha=c)"),
    ("aten::add", [truth(True, False), truth(True, True), 1], "torch.add(a, b, alpha=c)"),
    ("aten::add", [truth(True, False), 1, 1], "torch.add(a, b, alpha=c)"),
    ("aten::add_", [LONGS, 2.5, 1], "a.add_(b, alpha=c)"),
    ("aten::add_", [LONGS, REALS, 1], "a.add_(b)"),
    ("aten::sub", [truth(True, False), truth(True, True), 1], "torch.sub(a, b, alpha=c)"),
    ("aten::mul", [LONGS, 2.5], "torch.mul(a, b)"),
    ("aten::mul_", [LONGS, 2.5], "a.mul_(b)"),
    ("aten::mul", [truth(True, False), truth(True, True)], "torch.mul(a, b)"),
    ("aten::mul", [scalar("float64", 3.0), REALS], "torch.mul(a, b)"),
    ("aten::pow", [LONGS, 2], "torch.pow(a, b)"),
    ("aten::pow", [LONGS, 2.5], "torch.pow(a, b)"),
    ("aten::pow", [long(1, 2, -1), -1], "torch.pow(a, b)"),
    ("aten::pow", [LONGS, long(2, 1, 0)], "torch.pow(a, b)"),
    ("aten::pow", [LONGS, REALS], "torch.pow(a, b)"),
    ("aten::pow", [2, LONGS], "torch.pow(a, b)"),
    ("aten::pow", [2.5, long(1, 2)], "torch.pow(a, b)"),
    ("aten::eq", [LONGS, 3], "torch.eq(a, b)"),
    ("aten::eq", [LONGS, REALS], "torch.eq(a, b)"),
    ("aten::lt", [LONGS, 3.5], "torch.lt(a, b)"),
    ("aten::lt", [byte(1, 2), -1], "torch.lt(a, b)"),
    ("aten::nonzero", [scalar("int64", 3)], "torch.nonzero(a)"),
    ("aten::nonzero", [long(0, 2, 3)], "torch.nonzero(a)"),
    ("aten::round", [real(0.5, 1.5, 2.5)], "torch.round(a)"),
    ("aten::round", [LONGS], "torch.round(a)"),
    ("aten::floor", [LONGS], "torch.floor(a)"),
    ("aten::ceil", [LONGS], "torch.ceil(a)"),
    ("aten::trunc", [LONGS], "torch.trunc(a)"),
    ("aten::frac", [REALS], "torch.frac(a)"),
    ("aten::remainder", [LONGS, 2], "torch.remainder(a, b)"),
    ("aten::remainder", [LONGS, -2], "torch.remainder(a, b)"),
    ("aten::remainder", [REALS, 2], "torch.remainder(a, b)"),
    ("aten::remainder", [LONGS, 2.5], "torch.remainder(a, b)"),
    ("aten::remainder", [LONGS, REALS], "torch.remainder(a, b)"),
    ("aten::fmod", [LONGS, 2], "torch.fmod(a, b)"),
    ("aten::fmod", [LONGS, 2.5], "torch.fmod(a, b)"),
    ("aten::fmod", [LONGS, REALS], "torch.fmod(a, b)"),
    ("aten::std", [real(1, 2, 4)], "torch.std(a)"),
    ("aten::var", [real(1, 2, 4)], "torch.var(a)"),
    ("aten::where", [truth(True, False), long(1, 2), real(1.5, 2.5)], "torch.where(a, b, c)"),
    ("aten::where", [byte(1, 0), real(1, 2), real(1.5, 2.5)], "torch.where(a, b, c)"),
    ("aten::atan2", [LONGS, REALS], "torch.atan2(a, b)"),
    ("aten::atan2", [LONGS, LONGS], "torch.atan2(a, b)"),
    ("aten::neg", [truth(True, False)], "torch.neg(a)"),
    ("aten::abs", [truth(True, False)], "torch.abs(a)"),
    ("aten::sign", [truth(True, False)], "torch.sign(a)"),
    ("aten::sign", [real(NAN, -2)], "torch.sign(a)"),
    ("aten::bitwise_not", [truth(True, False)], "torch.bitwise_not(a)"),
    ("aten::logical_not", [LONGS], "torch.logical_not(a)"),
    ("aten::logical_xor", [LONGS, LONGS], "torch.logical_xor(a, b)"),
    ("aten::__and__", [LONGS, long(1, 1, 1)], "a & b"),
    ("aten::__and__", [truth(True, False), truth(True, True)], "a & b"),
    ("aten::__or__", [truth(True, False), truth(True, True)], "a | b"),
    ("aten::__lshift__", [LONGS, 1], "a << b"),
    ("aten::__lshift__", [REALS, 1], "a << b"),
    ("aten::relu", [LONGS], "torch.relu(a)"),
    ("aten::relu", [real(NAN, -1, -0.0)], "torch.relu(a)"),
    ("aten::threshold", [real(NAN, -1, 2), 0, 7], "torch.threshold(a, b, c)"),
    ("aten::hardtanh", [real(NAN, -9, 9), -1, 1], "torch.nn.functional.hardtanh(a, b, c)"),
    ("aten::leaky_relu", [real(NAN, -1), 0.1], "torch.nn.functional.leaky_relu(a, b)"),
    ("aten::elu", [real(NAN, -1)], "torch.nn.functional.elu(a)"),
    ("aten::softplus", [real(-1, 30)], "torch.nn.functional.softplus(a)"),
    ("aten::gelu", [real(-1, 0.5)], "torch.nn.functional.gelu(a)"),
    ("aten::softmax", [LONGS, 0], "torch.softmax(a, b)"),
    ("aten::log_softmax", [LONGS, 0], "torch.log_softmax(a, b)"),
    ("aten::lerp", [LONGS, LONGS, 0.5], "torch.lerp(a, b, c)"),
    ("aten::addcmul", [LONGS, LONGS, LONGS, 0.5], "torch.addcmul(a, b, c, value=d)"),
    ("aten::addcdiv", [LONGS, LONGS, LONGS], "torch.addcdiv(a, b, c)"),
    ("aten::addcdiv", [REALS, REALS, REALS], "torch.addcdiv(a, b, c)"),
    ("aten::dot", [LONGS, LONGS], "torch.dot(a, b)"),
    ("aten::ger", [LONGS, LONGS], "torch.ger(a, b)"),
    ("aten::cat", [[LONGS, REALS], 0], "torch.cat(a, b)"),
    ("aten::stack", [[LONGS, REALS], 0], "torch.stack(a, b)"),
    ("aten::index", [LONGS, byte(1, 0, 1)], "a[b]"),
    ("aten::masked_fill", [LONGS, byte(1, 0, 1), 9], "a.masked_fill(b, c)"),
    ("aten::masked_fill", [LONGS, truth(True, False, True), 9.5], "a.masked_fill(b, c)"),
    ("aten::masked_select", [LONGS, byte(1, 0, 1)], "torch.masked_select(a, b)"),
    ("aten::scatter_add", [LONGS, 0, long(0, 0, 1), LONGS], "torch.scatter_add(a, b, c, d)"),
    ("aten::bincount", [long(1, 1, 2)], "torch.bincount(a)"),
    ("aten::histc", [real(1, 2, 2, 3), 3], "torch.histc(a, b)"),
    ("aten::median", [real(1, NAN, 3)], "torch.median(a)"),
    ("aten::median", [real(4, 2, 3, 1)], "torch.median(a)"),
    ("aten::sort", [real(3, NAN, 1)], "torch.sort(a)"),
    ("aten::topk", [real(3, NAN, 1), 2], "torch.topk(a, b)"),
    ("aten::tensor", [[1, 2]], "torch.tensor(a)"),
    ("aten::norm", [LONGS], "torch.norm(a)"),
    ("aten::dist", [REALS, REALS], "torch.dist(a, b)"),
    ("aten::cross", [REALS, LONGS], "torch.cross(a, b)"),
    ("aten::logsumexp", [LONGS, [0]], "torch.logsumexp(a, b)"),
    ("aten::isnan", [LONGS], "torch.isnan(a)"),
    ("aten::isfinite", [real(1, INF)], "torch.isfinite(a)"),
    ("aten::clamp_min", [LONGS, 1.5], "torch.clamp_min(a, b)"),
    ("aten::clamp_max", [LONGS, 1.5], "torch.clamp_max(a, b)"),
    ("aten::clamp_min", [real(NAN, 0), 1.0], "torch.clamp_min(a, b)"),
    ("aten::fill_", [LONGS, 2.5], "a.fill_(b)"),
    ("aten::mse_loss", [REALS, LONGS], "torch.nn.functional.mse_loss(a, b)"),
    ("aten::l1_loss", [LONGS, LONGS], "torch.nn.functional.l1_loss(a, b)"),
    ("aten::isclose", [LONGS, LONGS], "torch.isclose(a, b)"),
    ("aten::flip", [LONGS, [0]], "torch.flip(a, b)"),
    ("aten::eye", [2], "torch.eye(a)"),
    ("aten::zeros", [[2]], "torch.zeros(a)"),
    ("aten::zeros_like", [LONGS], "torch.zeros_like(a)"),
    ("aten::tril", [T("bool", [[True, True], [True, True]])], "torch.tril(a)"),
    ("aten::diag", [LONGS], "torch.diag(a)"),
    ("aten::matmul", [T("int64", [[1, 2], [3, 4]]), T("int64", [[1, 2], [3, 4]])], "torch.matmul(a, b)"),
    ("aten::nll_loss", [T("float32", [[0.5, 1.0]]), long(1)], "torch.nn.functional.nll_loss(a, b)"),
    ("aten::expm1", [LONGS], "torch.expm1(a)"),
    ("aten::clone", [LONGS], "a.clone()"),
    ("aten::float_power", [LONGS, 2], "torch.float_power(a, b)"),
    ("aten::sub", [LONGS, 2.5, 1], "torch.sub(a, b, alpha=c)"),
]

# Functions of one operand on integers and bools: support differs between releases.
for name in (
    "exp log sqrt rsqrt sin cos tan tanh sigmoid erf erfc lgamma digamma log2 log10 log1p atan asin acos sinh cosh"
).split():
    for values in (long(1, 2), truth(True, False)):
        CALLS.append(("aten::" + name, [values], "torch.%s(a)" % name))


def plain(x):
    """A result as JSON."""
    if isinstance(x, torch.Tensor):
        return [str(x.dtype).replace("torch.", ""), clean(x.tolist())]
    if isinstance(x, (tuple, list)):
        return {"results": [plain(item) for item in x]}
    return clean(x)


def clean(x):
    """Replaces numbers that JSON lacks, and rounds floats to six digits."""
    if isinstance(x, list):
        return [clean(item) for item in x]
    if isinstance(x, float):
        return str(x) if math.isnan(x) or math.isinf(x) else float("%.6g" % x)
    return x


def operand(x):
    if isinstance(x, T):
        return x.tensor()
    if isinstance(x, list):
        return [operand(item) for item in x]
    return x


def shown(x):
    """An operand as JSON, with tensors in the form of results."""
    if isinstance(x, T):
        return [x.dtype, clean(x.values)]
    if isinstance(x, list):
        return {"list": [shown(item) for item in x]}
    return clean(x)


def run(operands, expression):
    try:
        names = dict(zip("abcde", [operand(x) for x in operands]))
    except Exception:
        return "no operands"
    try:
        return plain(eval(expression, {"torch": torch}, names))
    except AttributeError:
        return "no operator"
    except Exception:
        return "raises"


def main():
    found = []
    for kind, operands, expression in CALLS:
        result = run(operands, expression)
        found.append({"kind": kind, "operands": [shown(x) for x in operands], "call": expression, "result": result})
    print(json.dumps({"release": torch.__version__, "calls": found}))


main()
