"""Computes gradients of small calls in one release of PyTorch and prints them, as JSON on stdout.

    for v in 1.3.1 1.6.0 2.15.0; do OMP_NUM_THREADS=1 $v/bin/python gradient_probe.py > $v.json; done
    python merge_release_probes.py *.json > testdata/releases/gradients.json

A call is the name of an operator, its operands and the same call in Python, as in
`release_probe.py`. Operands are chosen where derivatives are discontinuous: ties, bounds, zero,
infinity and NaN. Each floating-point tensor is differentiated; the incoming gradients are 1, -0.5
and 0.75, cyclically, for each differentiable result. A result is the list of gradients, null for
operands without one, or "raises" if the release raises. The script runs in PyTorch 1.3 and later.
"""

import json
import math
import warnings

import torch

warnings.simplefilter("ignore")
INF = float("inf")
NAN = float("nan")
PATTERN = [1.0, -0.5, 0.75]


class T(object):
    """A tensor operand: its element type and its nested elements."""

    def __init__(self, dtype, values):
        self.dtype, self.values = dtype, values

    def tensor(self):
        made = torch.tensor(self.values, dtype=getattr(torch, self.dtype))
        return made.requires_grad_() if self.dtype == "float64" else made


def real(*values):
    return T("float64", list(values))


def long(*values):
    return T("int64", list(values))


def truth(*values):
    return T("bool", list(values))


def scalar(value):
    return T("float64", value)


SIGNS = real(-2.0, -1.0, -0.0, 0.0, 1.0, 2.0)
WIDE = real(-INF, -3.0, 0.0, 3.0, INF, NAN)
ORDER = real(1.0, 2.0, 2.0, 3.0, 2.0, NAN)
OTHER = real(2.0, 2.0, 1.0, 3.0, NAN, 2.0)
TIES = real(1.0, 3.0, 3.0, 2.0)
ROWS = T("float64", [[1.0, 3.0, 3.0], [2.0, 2.0, 2.0]])
EMPTY_ROWS = T("float64", [[0.0, 0.0, 0.0], [3.0, 0.0, -4.0]])
ONE_ROW = T("float64", [[5.0], [6.0]])
IMAGE = T("float64", [[[[1.0, 1.0, 2.0], [1.0, 1.0, 2.0], [3.0, 3.0, 3.0]]]])
HALVES = T("float64", [[1.0, 2.0, 3.0], [4.0, 5.0, 7.0]])

# Kind, operands, the call with `a` to `e` for the operands.
CALLS = [
    # Ties.
    ("aten::max", [ORDER, OTHER], "torch.max(a, b)"),
    ("aten::min", [ORDER, OTHER], "torch.min(a, b)"),
    ("aten::maximum", [ORDER, OTHER], "torch.maximum(a, b)"),
    ("aten::minimum", [ORDER, OTHER], "torch.minimum(a, b)"),
    ("aten::fmax", [ORDER, OTHER], "torch.fmax(a, b)"),
    ("aten::fmin", [ORDER, OTHER], "torch.fmin(a, b)"),
    ("aten::max", [TIES], "torch.max(a)"),
    ("aten::min", [real(1.0, 3.0, 1.0)], "torch.min(a)"),
    ("aten::max", [real(1.0, NAN, NAN)], "torch.max(a)"),
    ("aten::max", [ROWS, 1, False], "torch.max(a, b, c)"),
    ("aten::min", [ROWS, 1, False], "torch.min(a, b, c)"),
    ("aten::amax", [ROWS, [1], False], "torch.amax(a, b, c)"),
    ("aten::amin", [ROWS, [1], False], "torch.amin(a, b, c)"),
    ("aten::median", [real(3.0, 2.0, 2.0, 1.0)], "torch.median(a)"),
    ("aten::median", [ROWS, 1, False], "torch.median(a, b, c)"),
    ("aten::mode", [ROWS, 1, False], "torch.mode(a, b, c)"),
    ("aten::kthvalue", [ROWS, 2, 1, False], "torch.kthvalue(a, b, c, d)"),
    ("aten::sort", [ROWS, 1, False], "torch.sort(a, b, c)"),
    ("aten::topk", [ROWS, 2, 1, True, True], "torch.topk(a, b, c, d, e)"),
    ("aten::cummax", [ROWS, 1], "torch.cummax(a, b)"),
    ("aten::cummin", [ROWS, 1], "torch.cummin(a, b)"),
    # Bounds.
    ("aten::clamp", [SIGNS, -1.0, 1.0], "torch.clamp(a, b, c)"),
    ("aten::clamp", [SIGNS, 1.0, -1.0], "torch.clamp(a, b, c)"),
    ("aten::clamp", [WIDE, -3.0, 3.0], "torch.clamp(a, b, c)"),
    ("aten::clamp", [SIGNS, NAN, 1.0], "torch.clamp(a, b, c)"),
    ("aten::clamp_min", [SIGNS, -1.0], "torch.clamp_min(a, b)"),
    ("aten::clamp_max", [SIGNS, 1.0], "torch.clamp_max(a, b)"),
    ("aten::clamp_min", [WIDE, 3.0], "torch.clamp_min(a, b)"),
    ("aten::hardtanh", [SIGNS, -1.0, 1.0], "torch.nn.functional.hardtanh(a, b, c)"),
    ("aten::hardtanh", [WIDE, -3.0, 3.0], "torch.nn.functional.hardtanh(a, b, c)"),
    ("aten::relu", [WIDE], "torch.relu(a)"),
    ("aten::relu6", [real(-1.0, 0.0, 6.0, 7.0, NAN)], "torch._C._nn.relu6(a)"),
    ("aten::threshold", [SIGNS, 1.0, 5.0], "torch.threshold(a, b, c)"),
    ("aten::threshold", [WIDE, 0.0, 5.0], "torch.threshold(a, b, c)"),
    ("aten::leaky_relu", [SIGNS, 0.25], "torch.nn.functional.leaky_relu(a, b)"),
    ("aten::leaky_relu", [WIDE, 0.25], "torch.nn.functional.leaky_relu(a, b)"),
    ("aten::elu", [SIGNS, 1.5, 1.0, 1.0], "torch._C._nn.elu(a, b, c, d)"),
    ("aten::elu", [WIDE, 1.5, 2.0, 0.5], "torch._C._nn.elu(a, b, c, d)"),
    ("aten::celu", [SIGNS, 1.5], "torch.celu(a, b)"),
    ("aten::selu", [SIGNS], "torch.selu(a)"),
    ("aten::prelu", [SIGNS, real(0.25)], "torch.prelu(a, b)"),
    ("aten::hardshrink", [SIGNS, 1.0], "torch.hardshrink(a, b)"),
    ("aten::hardshrink", [WIDE, 3.0], "torch.hardshrink(a, b)"),
    ("aten::softshrink", [SIGNS, 1.0], "torch._C._nn.softshrink(a, b)"),
    ("aten::softshrink", [WIDE, 3.0], "torch._C._nn.softshrink(a, b)"),
    ("aten::hardsigmoid", [WIDE], "torch._C._nn.hardsigmoid(a)"),
    ("aten::hardswish", [WIDE], "torch._C._nn.hardswish(a)"),
    ("aten::hardswish", [SIGNS], "torch._C._nn.hardswish(a)"),
    ("aten::softplus", [SIGNS, 1.0, 1.0], "torch._C._nn.softplus(a, b, c)"),
    ("aten::softplus", [real(-800.0, 30.0, 800.0), 1.0, 20.0], "torch._C._nn.softplus(a, b, c)"),
    ("aten::log_sigmoid", [real(-800.0, -INF, 0.0, 800.0, INF)], "torch.nn.functional.logsigmoid(a)"),
    ("aten::where", [truth(True, False), real(1.0, NAN), real(INF, 2.0)], "torch.where(a, b, c)"),
    ("aten::masked_fill", [real(1.0, NAN), truth(True, False), 0.0], "a.masked_fill(b, c)"),
    # Zero, infinity and NaN.
    ("aten::abs", [SIGNS], "torch.abs(a)"),
    ("aten::abs", [WIDE], "torch.abs(a)"),
    ("aten::sign", [SIGNS], "torch.sign(a)"),
    ("aten::sqrt", [real(0.0, 4.0, INF, -1.0)], "torch.sqrt(a)"),
    ("aten::rsqrt", [real(0.0, 4.0, INF)], "torch.rsqrt(a)"),
    ("aten::reciprocal", [real(0.0, 4.0, INF)], "torch.reciprocal(a)"),
    ("aten::log", [real(0.0, 1.0, INF, -1.0)], "torch.log(a)"),
    ("aten::log2", [real(0.0, 1.0)], "torch.log2(a)"),
    ("aten::log10", [real(0.0, 1.0)], "torch.log10(a)"),
    ("aten::log1p", [real(-1.0, 0.0)], "torch.log1p(a)"),
    ("aten::exp", [real(-INF, 0.0, INF)], "torch.exp(a)"),
    ("aten::expm1", [real(-INF, 0.0, INF)], "torch.expm1(a)"),
    ("aten::sigmoid", [real(-INF, 0.0, INF)], "torch.sigmoid(a)"),
    ("aten::tanh", [real(-INF, 0.0, INF)], "torch.tanh(a)"),
    ("aten::tan", [real(0.0, 1.0)], "torch.tan(a)"),
    ("aten::asin", [real(-1.0, 0.0, 1.0, 2.0)], "torch.asin(a)"),
    ("aten::acos", [real(-1.0, 0.0, 1.0, 2.0)], "torch.acos(a)"),
    ("aten::atan", [real(0.0, 1e200, INF)], "torch.atan(a)"),
    ("aten::asinh", [real(0.0, 1.0, 1e200)], "torch.asinh(a)"),
    ("aten::acosh", [real(1.0, 2.0, 0.5)], "torch.acosh(a)"),
    ("aten::atanh", [real(-1.0, 0.0, 1.0, 2.0)], "torch.atanh(a)"),
    ("aten::atan2", [real(0.0, 0.0, 1.0), real(0.0, 1.0, 0.0)], "torch.atan2(a, b)"),
    ("aten::hypot", [real(0.0, 3.0), real(0.0, 4.0)], "torch.hypot(a, b)"),
    ("aten::erfinv", [real(0.0, 1.0, -1.0)], "torch.erfinv(a)"),
    ("aten::erf", [real(0.0, INF)], "torch.erf(a)"),
    ("aten::lgamma", [real(0.0, -1.0, 2.0)], "torch.lgamma(a)"),
    ("aten::digamma", [real(0.0, -1.0, 2.0, -1.5)], "torch.digamma(a)"),
    ("aten::polygamma", [1, real(0.5, 2.0)], "torch.polygamma(a, b)"),
    ("aten::mvlgamma", [real(2.0, 3.0), 2], "torch.mvlgamma(a, b)"),
    ("aten::frac", [SIGNS], "torch.frac(a)"),
    ("aten::round", [SIGNS], "torch.round(a)"),
    ("aten::floor", [SIGNS], "torch.floor(a)"),
    ("aten::ceil", [SIGNS], "torch.ceil(a)"),
    ("aten::trunc", [SIGNS], "torch.trunc(a)"),
    ("aten::angle", [SIGNS], "torch.angle(a)"),
    ("aten::sinc", [SIGNS], "torch.sinc(a)"),
    ("aten::xlogy", [real(0.0, 0.0, 1.0, 2.0), real(0.0, 2.0, 0.0, NAN)], "torch.xlogy(a, b)"),
    ("aten::logit", [real(0.0, 0.25, 0.5, 0.75, 1.0), 0.25], "torch.logit(a, b)"),
    ("aten::logit", [real(0.0, 0.5, 1.0, 2.0)], "torch.logit(a)"),
    ("aten::copysign", [SIGNS, -1.0], "torch.copysign(a, b)"),
    ("aten::copysign", [SIGNS, real(1.0, -1.0, 1.0, -1.0, 0.0, -0.0)], "torch.copysign(a, b)"),
    ("aten::nan_to_num", [WIDE], "torch.nan_to_num(a)"),
    ("aten::logaddexp", [real(-INF, 0.0, INF), real(-INF, 0.0, INF)], "torch.logaddexp(a, b)"),
    ("aten::logaddexp2", [real(-INF, 0.0, INF), real(-INF, 0.0, INF)], "torch.logaddexp2(a, b)"),
    ("aten::pow", [SIGNS, 0.0], "torch.pow(a, b)"),
    ("aten::pow", [SIGNS, 1.0], "torch.pow(a, b)"),
    ("aten::pow", [SIGNS, 2.0], "torch.pow(a, b)"),
    ("aten::pow", [SIGNS, 0.5], "torch.pow(a, b)"),
    ("aten::pow", [SIGNS, -1.0], "torch.pow(a, b)"),
    ("aten::pow", [SIGNS, real(0.0, 1.0, 0.0, 0.0, 0.0, 2.0)], "torch.pow(a, b)"),
    ("aten::pow", [real(0.0, 0.0, 0.0, 0.0), real(2.0, 1.0, 0.5, -1.0)], "torch.pow(a, b)"),
    ("aten::pow", [0.0, SIGNS], "torch.pow(a, b)"),
    ("aten::pow", [2.0, SIGNS], "torch.pow(a, b)"),
    ("aten::pow", [-2.0, SIGNS], "torch.pow(a, b)"),
    ("aten::div", [real(0.0, 1.0, 0.0), real(0.0, 0.0, INF)], "torch.div(a, b)"),
    ("aten::fmod", [real(7.0, -7.0), 3.0], "torch.fmod(a, b)"),
    ("aten::fmod", [real(7.0, -7.0), real(3.0, 3.0)], "torch.fmod(a, b)"),
    ("aten::remainder", [real(7.0, -7.0), 3.0], "torch.remainder(a, b)"),
    ("aten::remainder", [real(7.0, -7.0), real(3.0, 3.0)], "torch.remainder(a, b)"),
    ("aten::lerp", [real(1.0, 2.0), real(3.0, INF), 0.0], "torch.lerp(a, b, c)"),
    ("aten::lerp", [real(1.0, 2.0), real(3.0, 4.0), real(0.25, 1.0)], "torch.lerp(a, b, c)"),
    ("aten::addcdiv", [real(1.0, 2.0), real(0.0, 4.0), real(0.0, 2.0)], "torch.addcdiv(a, b, c)"),
    # Norms and statistics.
    ("aten::norm", [real(0.0, 0.0), 2.0], "torch.norm(a, b)"),
    ("aten::norm", [real(0.0, 3.0, -3.0), 1.0], "torch.norm(a, b)"),
    ("aten::norm", [real(0.0, 3.0, -3.0), INF], "torch.norm(a, b)"),
    ("aten::norm", [real(1.0, 3.0, -3.0), -INF], "torch.norm(a, b)"),
    ("aten::norm", [real(0.0, 3.0, -4.0), 0.0], "torch.norm(a, b)"),
    ("aten::norm", [real(0.0, 3.0, -4.0), 3.0], "torch.norm(a, b)"),
    ("aten::norm", [real(0.0, 3.0, -4.0), 1.5], "torch.norm(a, b)"),
    ("aten::norm", [real(0.0, 3.0, -4.0), 0.5], "torch.norm(a, b)"),
    ("aten::norm", [real(0.0, 0.0), 0.5], "torch.norm(a, b)"),
    ("aten::norm", [real(0.0, 0.0), 3.0], "torch.norm(a, b)"),
    ("aten::norm", [EMPTY_ROWS, 2.0, [1], False], "torch.norm(a, b, c, d)"),
    ("aten::norm", [EMPTY_ROWS, INF, [1], False], "torch.norm(a, b, c, d)"),
    ("aten::dist", [real(1.0, 2.0), real(1.0, 2.0), 2.0], "torch.dist(a, b, c)"),
    ("aten::dist", [real(1.0, 2.0), real(4.0, 5.0), INF], "torch.dist(a, b, c)"),
    ("aten::renorm", [EMPTY_ROWS, 2.0, 0, 1.0], "torch.renorm(a, b, c, d)"),
    ("aten::renorm", [T("float64", [[3.0, 4.0], [6.0, 8.0]]), 2.0, 0, 5.0], "torch.renorm(a, b, c, d)"),
    ("aten::std", [real(2.0, 2.0, 2.0), True], "torch.std(a, b)"),
    ("aten::std", [ROWS, [1], True, False], "torch.std(a, b, c, d)"),
    ("aten::std", [ONE_ROW, [1], True, False], "torch.std(a, b, c, d)"),
    ("aten::var", [ONE_ROW, [1], True, False], "torch.var(a, b, c, d)"),
    ("aten::var", [scalar(3.0), True], "torch.var(a, b)"),
    ("aten::std", [scalar(3.0), False], "torch.std(a, b)"),
    ("aten::std_mean", [ROWS, [1], True, False], "torch.std_mean(a, b, c, d)"),
    ("aten::prod", [real(0.0, 2.0, 3.0)], "torch.prod(a)"),
    ("aten::prod", [real(0.0, 0.0, 3.0)], "torch.prod(a)"),
    ("aten::prod", [EMPTY_ROWS, 1, False], "torch.prod(a, b, c)"),
    ("aten::cumprod", [real(2.0, 0.0, 3.0, 0.0), 0], "torch.cumprod(a, b)"),
    ("aten::cumprod", [real(0.0, 2.0, INF), 0], "torch.cumprod(a, b)"),
    ("aten::logsumexp", [real(-INF, -INF), [0], False], "torch.logsumexp(a, b, c)"),
    ("aten::logsumexp", [real(INF, 0.0), [0], False], "torch.logsumexp(a, b, c)"),
    ("aten::logcumsumexp", [real(-INF, 0.0, 1.0), 0], "torch.logcumsumexp(a, b)"),
    ("aten::softmax", [real(-INF, 0.0, 1.0), 0], "torch.softmax(a, b)"),
    ("aten::log_softmax", [real(-INF, 0.0, 1.0), 0], "torch.log_softmax(a, b)"),
    ("aten::mean", [T("float64", [])], "torch.mean(a)"),
    ("aten::trace", [ROWS], "torch.trace(a)"),
    ("aten::nansum", [real(1.0, NAN)], "torch.nansum(a)"),
    ("aten::cdist", [ROWS, ROWS, 2.0], "torch.cdist(a, b, c)"),
    ("aten::cdist", [ROWS, ROWS, 1.0], "torch.cdist(a, b, c)"),
    ("aten::cdist", [ROWS, ROWS, INF], "torch.cdist(a, b, c)"),
    ("aten::cdist", [ROWS, ROWS, 0.5], "torch.cdist(a, b, c)"),
    ("aten::pdist", [T("float64", [[1.0, 3.0], [1.0, 3.0], [2.0, 5.0]]), 2.0], "torch.pdist(a, b)"),
    ("aten::pairwise_distance", [ROWS, ROWS, 2.0, 0.0, False], "torch.pairwise_distance(a, b, c, d, e)"),
    ("aten::pairwise_distance", [ROWS, HALVES, 2.0, 1e-6, False], "torch.pairwise_distance(a, b, c, d, e)"),
    ("aten::cosine_similarity", [EMPTY_ROWS, HALVES, 1, 1e-8], "torch.cosine_similarity(a, b, c, d)"),
    ("aten::cosine_similarity", [EMPTY_ROWS, HALVES, 1, 10.0], "torch.cosine_similarity(a, b, c, d)"),
    # Losses.
    ("aten::l1_loss", [SIGNS, real(-2.0, 0.0, 0.0, -0.0, 2.0, 1.0), 0], "torch._C._nn.l1_loss(a, b, c)"),
    ("aten::mse_loss", [SIGNS, real(-2.0, 0.0, 0.0, -0.0, 2.0, 1.0), 0], "torch._C._nn.mse_loss(a, b, c)"),
    ("aten::smooth_l1_loss", [SIGNS, real(-2.0, 0.0, 1.0, -1.0, 3.0, 0.0), 0, 1.0],
     "torch._C._nn.smooth_l1_loss(a, b, c, d)"),
    ("aten::smooth_l1_loss", [SIGNS, real(-2.0, 0.0, 1.0, -1.0, 3.0, 0.0), 0, 0.0],
     "torch._C._nn.smooth_l1_loss(a, b, c, d)"),
    ("aten::huber_loss", [SIGNS, real(-2.0, 0.0, 1.0, -1.0, 3.0, 0.0), 0, 2.0],
     "torch._C._nn.huber_loss(a, b, c, d)"),
    ("aten::soft_margin_loss", [SIGNS, real(1.0, -1.0, 1.0, -1.0, 1.0, -1.0), 0],
     "torch._C._nn.soft_margin_loss(a, b.detach(), c)"),
    ("aten::hinge_embedding_loss", [SIGNS, real(1.0, -1.0, 1.0, -1.0, -1.0, -1.0), 1.0, 0],
     "torch.hinge_embedding_loss(a, b, c, d)"),
    ("aten::margin_ranking_loss", [SIGNS, real(-1.0, -1.0, 0.0, 1.0, 1.0, 2.0), real(1.0), 1.0, 0],
     "torch.margin_ranking_loss(a, b, c, d, e)"),
    ("aten::margin_ranking_loss", [SIGNS, real(-1.0, 0.0, 1.0, 2.0, 3.0, 3.0), real(-1.0), 1.0, 0],
     "torch.margin_ranking_loss(a, b, c.detach(), d, e)"),
    ("aten::cosine_embedding_loss", [T("float64", [[1.0, 0.0], [3.0, 4.0], [1.0, 0.0]]),
                                     T("float64", [[0.0, 1.0], [4.0, 3.0], [0.0, 1.0]]), long(-1, -1, 1), 0.0, 0],
     "torch.cosine_embedding_loss(a, b, c, d, e)"),
    ("aten::triplet_margin_loss", [T("float64", [[3.0, 4.0], [3.0, 0.0]]), T("float64", [[0.0, 0.0], [0.0, 0.0]]),
                                   T("float64", [[3.0, 10.0], [0.0, 0.0]]), 1.0, 2.0, 0.0, False, 0],
     "torch.triplet_margin_loss(a, b, c, d, e, f, g, h)"),
    ("aten::triplet_margin_loss", [T("float64", [[0.0, 0.0]]), T("float64", [[3.0, 4.0]]),
                                   T("float64", [[0.0, 5.0]]), 1.0, 2.0, 0.0, True, 0],
     "torch.triplet_margin_loss(a, b, c, d, e, f, g, h)"),
    ("aten::multi_margin_loss", [T("float64", [[1.0, 2.0, 0.0]]), long(1), 1, 1.0],
     "torch._C._nn.multi_margin_loss(a, b, c, d)"),
    ("aten::kl_div", [real(-1.0, -2.0, -3.0), real(0.5, 0.0, 0.5), 0], "torch.kl_div(a, b, c)"),
    ("aten::binary_cross_entropy", [real(0.0, 0.5, 1.0), real(0.0, 1.0, 0.5)],
     "torch._C._nn.binary_cross_entropy(a, b)"),
    ("aten::binary_cross_entropy_with_logits", [SIGNS, real(0.0, 1.0, 0.5, 0.5, 1.0, 0.0)],
     "torch.binary_cross_entropy_with_logits(a, b)"),
    ("aten::poisson_nll_loss", [SIGNS, real(0.0, 1.0, 2.0, 3.0, 1.0, 0.0), False, True, 1e-8, 0],
     "torch.nn.functional.poisson_nll_loss(a, b, log_input=c, full=d, eps=e, reduction='none')"),
    # Images.
    ("aten::max_pool2d", [IMAGE, [2, 2], [1, 1]], "torch.max_pool2d(a, b, c)"),
    ("aten::adaptive_max_pool2d", [IMAGE, [2, 2]], "torch._C._nn.adaptive_max_pool2d(a, b)"),
    ("aten::avg_pool2d", [IMAGE, [2, 2], [1, 1], [1, 1], True, False], "torch._C._nn.avg_pool2d(a, b, c, d, e, f)"),
    ("aten::reflection_pad2d", [IMAGE, [1, 1, 1, 1]], "torch._C._nn.reflection_pad2d(a, b)"),
    # Indexing and partial writes.
    ("aten::gather", [ROWS, 1, T("int64", [[0, 0], [2, 1]])], "torch.gather(a, b, c)"),
    ("aten::scatter", [ROWS, 1, T("int64", [[0, 0], [2, 1]]), T("float64", [[1.0, 2.0], [3.0, 4.0]])],
     "torch.scatter(a, b, c, d)"),
    ("aten::index_copy", [real(1.0, 2.0, 3.0), 0, long(1, 1), real(5.0, 6.0)], "torch.index_copy(a, b, c, d)"),
    ("aten::index_fill", [real(1.0, 2.0, 3.0), 0, long(1, 1), 5.0], "torch.index_fill(a, b, c, d)"),
    ("aten::masked_scatter", [real(1.0, 2.0, 3.0), truth(True, False, True), real(5.0, 6.0, 7.0)],
     "torch.masked_scatter(a, b, c)"),
    ("aten::embedding", [ROWS, long(1, 1, 0), 0, False, False], "torch.embedding(a, b, c, d, e)"),
    ("aten::embedding", [ROWS, long(1, 1, 0), -1, True, False], "torch.embedding(a, b, c, d, e)"),
    # Matrices.
    ("aten::det", [T("float64", [[1.0, 2.0], [2.0, 4.0]])], "torch.det(a)"),
    ("aten::det", [T("float64", [[1.0, 2.0], [3.0, 4.0]])], "torch.det(a)"),
    ("aten::logdet", [T("float64", [[2.0, 1.0], [1.0, 2.0]])], "torch.logdet(a)"),
    ("aten::inverse", [T("float64", [[1.0, 2.0], [3.0, 4.0]])], "torch.inverse(a)"),
    ("aten::pinverse", [T("float64", [[1.0, 2.0], [3.0, 4.0]])], "torch.pinverse(a)"),
    ("aten::matrix_power", [T("float64", [[1.0, 2.0], [3.0, 4.0]]), 3], "torch.matrix_power(a, b)"),
    ("aten::ger", [real(1.0, INF), real(0.0, 2.0)], "torch.ger(a, b)"),
    ("aten::cross", [T("float64", [[1.0, 2.0, 3.0]]), T("float64", [[4.0, 5.0, 7.0]]), 1],
     "torch.cross(a, b, c)"),
    ("aten::tril", [ROWS, 0], "torch.tril(a, b)"),
    ("aten::diag", [ROWS, 0], "torch.diag(a, b)"),
]


def clean(x):
    """Replaces numbers that JSON lacks; rounds floats to six digits and drops the sign of 0."""
    if isinstance(x, list):
        return [clean(item) for item in x]
    if isinstance(x, float):
        return str(x) if math.isnan(x) or math.isinf(x) else float("%.6g" % x) + 0.0
    return x


def spelled(x):
    """Replaces numbers that JSON lacks, without rounding."""
    if isinstance(x, list):
        return [spelled(item) for item in x]
    return str(x) if isinstance(x, float) and (math.isnan(x) or math.isinf(x)) else x


def operand(x):
    if isinstance(x, T):
        return x.tensor()
    if isinstance(x, list):
        return [operand(item) for item in x]
    return x


def shown(x):
    """An operand as JSON."""
    if isinstance(x, T):
        return [x.dtype, spelled(x.values)]
    if isinstance(x, list):
        return {"list": [shown(item) for item in x]}
    return spelled(x)


def gradients(names, expression):
    """The gradients of the tensors among the operands, in order."""
    result = eval(expression, {"torch": torch}, names)
    results = [x for x in (result if isinstance(result, tuple) else (result,)) if x.requires_grad]
    given = []
    for one in results:
        pattern = [PATTERN[k % 3] for k in range(one.numel())]
        given.append(torch.tensor(pattern, dtype=one.dtype).reshape(one.shape))
    operands = [names[name] for name in sorted(names)]
    varying = [x for x in operands if isinstance(x, torch.Tensor) and x.requires_grad]
    found = torch.autograd.grad(results, varying, given, allow_unused=True)
    return [None if x is None else clean(x.tolist()) for x in found]


def run(operands, expression):
    names = dict(zip("abcdefgh", [operand(x) for x in operands]))
    try:
        return gradients(names, expression)
    except (AttributeError, TypeError):
        return "no operator"
    except Exception:
        return "raises"


def main():
    torch.set_num_threads(1)
    found = []
    for kind, operands, expression in CALLS:
        result = run(operands, expression)
        found.append({"kind": kind, "operands": [shown(x) for x in operands], "call": expression, "result": result})
    print(json.dumps({"release": torch.__version__, "calls": found}))


main()
