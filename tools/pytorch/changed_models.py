"""Writes pairs of files of one model, most with one difference, and scores `jitopt validate`.

Usage: changed_models.py FOLDER [--jitopt=PATH] [NAME…]

For each row of `CASES` the folder gets `NAME.old.pt`, traced, and `NAME.new.pt2`, exported with the
difference; rows in `SCRIPTED` get two scripted files, as only these keep attributes. With
`--jitopt` each pair is validated, and the verdict, the class of the difference and the first node
that differs are compared with the row:

    python changed_models.py FOLDER --jitopt=target/release/jitopt

Rows whose class is None have no difference: another verdict than `same` is a false alarm. Needs
only torch, 2.6 and 2.15 were tried. Weights come from a fixed seed.
"""

import copy
import json
import pathlib
import subprocess
import sys

import torch
import torch.nn.functional as F
from torch import nn

from neutral_paths import neutralise

SEED = 7
SCRIPTED = ("attribute_scale", "training_attribute")
DYNAMIC = torch.export.Dim.AUTO


class Mlp(nn.Module):
    """Linear layers with what `act`, `norm` and `scale` say between them."""

    def __init__(self, act=F.relu, norm=None, scale=1.0, residual=True, p=0.0):
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)
        self.norm = norm if norm is not None else nn.LayerNorm(8)
        self.drop = nn.Dropout(p)
        self.act, self.scale, self.residual = act, scale, residual

    def forward(self, x):
        h = self.drop(self.act(self.first(self.norm(x))))
        y = self.second(h) * self.scale
        return x + y if self.residual else y


class Cnn(nn.Module):
    """Two convolutions, a batch norm, a pooling layer and a classifier."""

    def __init__(self, padding=1, dilation=1, eps=1e-5, pool=None, act=F.relu):
        super().__init__()
        self.first = nn.Conv2d(3, 4, 3, padding=1)
        self.second = nn.Conv2d(4, 4, 3, padding=padding, dilation=dilation, groups=2)
        self.norm = nn.BatchNorm2d(4, eps=eps)
        self.norm.running_mean.normal_()
        self.norm.running_var.uniform_(0.5, 2)
        self.pool, self.act = pool or nn.AdaptiveAvgPool2d(2), act
        self.last = nn.Linear(16, 5)

    def forward(self, x):
        x = self.act(self.norm(self.second(self.act(self.first(x)))))
        return self.last(self.pool(x).flatten(1))


class Attention(nn.Module):
    """Written out, with the divisor of the scores, a mask or none."""

    def __init__(self, divisor=2.0, dim=-1, causal=True, softmax=torch.softmax):
        super().__init__()
        self.q, self.k, self.v = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8)
        self.divisor, self.dim, self.causal, self.softmax = divisor, dim, causal, softmax

    def forward(self, x):
        q, k, v = self.q(x), self.k(x), self.v(x)
        scores = q @ k.transpose(1, 2)
        if self.divisor is not None:
            scores = scores / self.divisor
        if self.causal:
            mask = torch.ones(x.size(1), x.size(1), dtype=torch.bool).tril()
            scores = scores.masked_fill(~mask, float("-inf"))
        return self.softmax(scores, self.dim) @ v


class Words(nn.Module):
    """An embedding with positions, a recurrent layer and a projection."""

    def __init__(self, layers=1, combine=torch.add):
        super().__init__()
        self.words = nn.Embedding(20, 8)
        self.register_buffer("positions", torch.randn(1, 6, 8))
        self.recurrent = nn.GRU(8, 8, num_layers=layers, batch_first=True)
        self.out, self.combine = nn.Linear(8, 20), combine

    def forward(self, tokens):
        x, _ = self.recurrent(self.combine(self.words(tokens), self.positions))
        return F.log_softmax(self.out(x), -1)


class Scaled(nn.Module):
    """A scale that is an attribute, and a dropout that reads the flag of the module."""

    def __init__(self, scale=0.5):
        super().__init__()
        self.linear, self.scale = nn.Linear(8, 8), scale

    def forward(self, x):
        return F.dropout(self.linear(x) * self.scale, 0.5, self.training)


class Function(nn.Module):
    """A function of its inputs."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        return self.function(*inputs)


def image():
    return (torch.randn(2, 3, 8, 8),)


def rows():
    return (torch.randn(3, 8),)


def sequence():
    return (torch.randn(2, 5, 8),)


def tokens():
    return (torch.randint(0, 20, (2, 6)),)


def matrix():
    return (torch.randn(4, 6),)


def edited(edit):
    """A copy of the model with other weights."""

    def change(model):
        with torch.no_grad():
            edit(model)
        return model

    return change


def of_weight(name, edit):
    def change(model):
        edit(
            model.get_parameter(name).data
            if name in dict(model.named_parameters())
            else model.get_buffer(name)
        )

    return edited(change)


def add_to_one(weight):
    weight.view(-1)[3] += 0.05


def swap(one, other):
    def edit(model):
        a, b = model.get_parameter(one).data, model.get_parameter(other).data
        kept = a.clone()
        a.copy_(b)
        b.copy_(kept)

    return edited(edit)


def rebuilt(build):
    """A model built with another option, with the weights of the old one."""

    def change(model):
        other = build()
        other.load_state_dict(model.state_dict(), strict=False)
        return other

    return change


def training(names):
    def change(model):
        for name in names:
            model.get_submodule(name).train()
        return model

    return change


def replaced(function):
    return lambda model: Function(function)


def flipped(w):
    w.copy_(w.t().clone())


def rolled(w):
    w.copy_(w.roll(1, 0))


def sharpened(w):
    w.mul_(1.01)


# Name, model, inputs, what makes the new one of it, the class of the difference, and the kinds of
# nodes that may be named as the first one that differs.
CASES = [
    (
        "weight_element",
        Mlp,
        rows,
        of_weight("first.weight", add_to_one),
        "weights",
        ["linear", "addmm", "mm", "t"],
    ),
    (
        "bias_element",
        Mlp,
        rows,
        of_weight("second.bias", add_to_one),
        "weights",
        ["linear", "addmm", "add"],
    ),
    (
        "transposed_weight",
        Mlp,
        rows,
        of_weight("first.weight", flipped),
        "weights",
        ["linear", "addmm", "mm"],
    ),
    (
        "norm_weight",
        Mlp,
        rows,
        of_weight("norm.weight", add_to_one),
        "weights",
        ["layer_norm", "native_layer_norm", "mul"],
    ),
    ("embedding_row", Words, tokens, of_weight("words.weight", rolled), "weights", ["embedding"]),
    ("positions", Words, tokens, of_weight("positions", add_to_one), "weights", ["add"]),
    (
        "recurrent_weight",
        Words,
        tokens,
        of_weight("recurrent.weight_hh_l0", add_to_one),
        "weights",
        ["gru"],
    ),
    (
        "conv_weight",
        Cnn,
        image,
        of_weight("first.weight", add_to_one),
        "weights",
        ["conv2d", "convolution", "_convolution"],
    ),
    (
        "permuted_channels",
        Cnn,
        image,
        of_weight("second.weight", rolled),
        "weights",
        ["conv2d", "convolution", "_convolution"],
    ),
    (
        "running_mean",
        Cnn,
        image,
        of_weight("norm.running_mean", add_to_one),
        "weights",
        ["batch_norm", "_native_batch_norm_legit_no_training"],
    ),
    (
        "swapped_projections",
        Attention,
        sequence,
        swap("q.weight", "k.weight"),
        "weights",
        ["linear", "addmm", "mm"],
    ),
    (
        "scaled_weight",
        Attention,
        sequence,
        of_weight("v.weight", sharpened),
        "weights",
        ["linear", "addmm", "mm"],
    ),
    (
        "layer_norm_eps",
        Mlp,
        rows,
        rebuilt(lambda: Mlp(norm=nn.LayerNorm(8, eps=1e-2))),
        "constant",
        ["layer_norm", "native_layer_norm"],
    ),
    (
        "batch_norm_eps",
        Cnn,
        image,
        rebuilt(lambda: Cnn(eps=1e-2)),
        "constant",
        ["batch_norm", "_native_batch_norm_legit_no_training"],
    ),
    (
        "scale_value",
        lambda: Mlp(scale=0.5),
        rows,
        rebuilt(lambda: Mlp(scale=0.25)),
        "constant",
        ["mul"],
    ),
    (
        "attention_divisor",
        Attention,
        sequence,
        rebuilt(lambda: Attention(divisor=8.0)),
        "constant",
        ["div"],
    ),
    (
        "softmax_dim",
        Attention,
        sequence,
        rebuilt(lambda: Attention(dim=1)),
        "constant",
        ["softmax", "_softmax"],
    ),
    (
        "gelu_approximation",
        lambda: Mlp(act=nn.GELU()),
        rows,
        rebuilt(lambda: Mlp(act=nn.GELU(approximate="tanh"))),
        "constant",
        ["gelu"],
    ),
    (
        "leaky_slope",
        lambda: Mlp(act=nn.LeakyReLU(0.01)),
        rows,
        rebuilt(lambda: Mlp(act=nn.LeakyReLU(0.2))),
        "constant",
        ["leaky_relu"],
    ),
    (
        "clamp_bound",
        lambda: Mlp(act=nn.Hardtanh(0, 6)),
        rows,
        rebuilt(lambda: Mlp(act=nn.Hardtanh(0, 0.5))),
        "constant",
        ["hardtanh", "clamp"],
    ),
    (
        "elu_alpha",
        lambda: Mlp(act=nn.ELU(1.0)),
        rows,
        rebuilt(lambda: Mlp(act=nn.ELU(0.5))),
        "constant",
        ["elu"],
    ),
    (
        "dilation",
        Cnn,
        image,
        rebuilt(lambda: Cnn(padding=2, dilation=2)),
        "constant",
        ["conv2d", "convolution", "_convolution"],
    ),
    (
        "add_alpha",
        lambda: Function(lambda x: torch.add(x, x.t().reshape(4, 6), alpha=2)),
        matrix,
        replaced(lambda x: torch.add(x, x.t().reshape(4, 6), alpha=3)),
        "constant",
        ["add"],
    ),
    (
        "align_corners",
        lambda: Function(
            lambda x: F.interpolate(x, scale_factor=2.0, mode="bilinear", align_corners=False)
        ),
        image,
        replaced(lambda x: F.interpolate(x, scale_factor=2.0, mode="bilinear", align_corners=True)),
        "constant",
        ["upsample_bilinear2d"],
    ),
    (
        "roll_distance",
        lambda: Function(lambda x: x.roll(1, 0) * x),
        matrix,
        replaced(lambda x: x.roll(2, 0) * x),
        "constant",
        ["roll"],
    ),
    (
        "pool_stride",
        lambda: Cnn(pool=nn.AvgPool2d(3, 4)),
        image,
        rebuilt(lambda: Cnn(pool=nn.AvgPool2d(4, 4))),
        "constant",
        ["avg_pool2d"],
    ),
    (
        "dropout_left_on",
        lambda: Mlp(p=0.5),
        rows,
        training(["drop"]),
        "mode",
        ["dropout", "native_dropout"],
    ),
    (
        "functional_dropout",
        lambda: Function(lambda x: F.dropout(x, 0.4, False) + 1),
        matrix,
        replaced(lambda x: F.dropout(x, 0.4, True) + 1),
        "mode",
        ["dropout", "native_dropout"],
    ),
    (
        "batch_norm_trains",
        Cnn,
        image,
        training(["norm"]),
        "mode",
        [
            "batch_norm",
            "_native_batch_norm_legit_functional",
            "_native_batch_norm_legit",
            "native_batch_norm",
        ],
    ),
    (
        "float64_to_float32",
        lambda: Function(lambda x: x.double().exp()),
        matrix,
        replaced(lambda x: x.exp()),
        "dtype",
        ["exp", "to", "_to_copy"],
    ),
    (
        "half_result",
        lambda: Function(lambda x: x * 3),
        matrix,
        replaced(lambda x: (x * 3).half()),
        "dtype",
        ["to", "_to_copy", "mul"],
    ),
    (
        "integer_result",
        lambda: Function(lambda x: (x > 0).sum(1)),
        matrix,
        replaced(lambda x: (x > 0).float().sum(1)),
        "dtype",
        ["sum", "to", "_to_copy"],
    ),
    (
        "double_model",
        lambda: Mlp().double(),
        lambda: (torch.randn(3, 8).double(),),
        lambda model: model.float(),
        "dtype",
        None,
    ),
    ("attribute_scale", Scaled, rows, rebuilt(lambda: Scaled(0.25)), "constant", ["mul"]),
    ("training_attribute", Scaled, rows, training([""]), "mode", ["dropout"]),
    ("fixed_batch", Mlp, rows, lambda model: model, "shape", None),
    (
        "fixed_reshape",
        lambda: Function(lambda x: x.reshape(x.size(0) * 3, 2).exp()),
        matrix,
        replaced(lambda x: x.reshape(12, 2).exp()),
        "shape",
        None,
    ),
    ("activation", Mlp, rows, rebuilt(lambda: Mlp(act=torch.tanh)), "operator", ["relu", "tanh"]),
    (
        "missing_residual",
        Mlp,
        rows,
        rebuilt(lambda: Mlp(residual=False)),
        "operator",
        ["add", "linear", "addmm", "mul"],
    ),
    (
        "missing_scale",
        Attention,
        sequence,
        rebuilt(lambda: Attention(divisor=None)),
        "operator",
        ["div", "masked_fill", "softmax", "_softmax"],
    ),
    (
        "missing_mask",
        Attention,
        sequence,
        rebuilt(lambda: Attention(causal=False)),
        "operator",
        ["masked_fill", "softmax", "_softmax"],
    ),
    (
        "pooling",
        lambda: Cnn(pool=nn.AvgPool2d(4)),
        image,
        rebuilt(lambda: Cnn(pool=nn.MaxPool2d(4))),
        "operator",
        ["avg_pool2d", "max_pool2d", "max_pool2d_with_indices"],
    ),
    (
        "combination",
        Words,
        tokens,
        rebuilt(lambda: Words(combine=torch.mul)),
        "operator",
        ["add", "mul"],
    ),
    (
        "rounding_mode",
        lambda: Function(lambda x: torch.floor_divide(x, 0.3)),
        matrix,
        replaced(lambda x: torch.div(x, 0.3, rounding_mode="trunc")),
        "operator",
        ["floor_divide", "div", "floor"],
    ),
    (
        "log_softmax",
        Attention,
        sequence,
        rebuilt(lambda: Attention(softmax=torch.log_softmax)),
        "operator",
        ["softmax", "log_softmax", "_softmax", "_log_softmax"],
    ),
    ("same_mlp", Mlp, rows, lambda model: model, None, None),
    ("same_cnn", Cnn, image, lambda model: model, None, None),
    ("same_attention", Attention, sequence, lambda model: model, None, None),
    ("same_words", Words, tokens, lambda model: model, None, None),
]


def write(folder, name, build, inputs, change):
    """Both files of a case, without paths of this machine."""
    write_both(folder, name, build, inputs, change)
    for file in folder.glob(f"{name}.*.pt*"):
        neutralise(file)


def write_both(folder, name, build, inputs, change):
    """Both files of a case, as PyTorch writes them."""
    torch.manual_seed(SEED)
    old = build().eval()
    new = change(copy.deepcopy(old))
    if name not in ("dropout_left_on", "batch_norm_trains", "training_attribute"):
        new.eval()
    example = inputs()
    if name in SCRIPTED:
        torch.jit.script(old).save(str(folder / f"{name}.old.pt"))
        torch.jit.script(new).save(str(folder / f"{name}.new.pt"))
        return
    torch.jit.trace(old, example).save(str(folder / f"{name}.old.pt"))
    fixed = name in ("fixed_batch", "fixed_reshape")
    dynamic = None if fixed else tuple({0: DYNAMIC} for _ in example)
    if isinstance(new, Function) and dynamic is not None:
        dynamic = (dynamic,)
    example = tuple(x.float() if x.is_floating_point() else x for x in example)
    program = torch.export.export(new, example, dynamic_shapes=dynamic)
    torch.export.save(program, str(folder / f"{name}.new.pt2"))


def verdict(jitopt, folder, name):
    new = f"{folder}/{name}.new.{'pt' if name in SCRIPTED else 'pt2'}"
    command = [jitopt, "validate", "--json", f"{folder}/{name}.old.pt", new]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    return json.loads(lines[0]) if lines else {"verdict": "refused", "message": done.stderr.strip()}


def score(found, expected, kinds):
    """Whether the verdict, the class and the node are those of the row."""
    is_found = (
        found["verdict"] in ("different", "refused") or found.get("class") == expected is not None
    )
    if expected is None:
        return found["verdict"] == "same", True, True
    nodes = [found.get(which) for which in ("first_node", "second_node")]
    named = [node["kind"].split("::")[1] for node in nodes if node]
    if expected == "weights":
        kinds = [*kinds, "GetAttr"]
    return (
        is_found,
        found.get("class") == expected,
        kinds is None or any(kind in kinds for kind in named),
    )


def main():
    paths = [argument for argument in sys.argv[1:] if not argument.startswith("--")]
    jitopt = next((a.split("=", 1)[1] for a in sys.argv[1:] if a.startswith("--jitopt=")), None)
    folder, names = pathlib.Path(paths[0]), paths[1:]
    folder.mkdir(parents=True, exist_ok=True)
    found = right_class = right_node = changed = alarms = 0
    for name, build, inputs, change, expected, kinds in CASES:
        if names and name not in names:
            continue
        if not any(folder.glob(f"{name}.new.*")):
            write(folder, name, build, inputs, change)
        if jitopt is None:
            continue
        report = verdict(jitopt, folder, name)
        is_found, has_class, has_node = score(report, expected, kinds)
        if expected is None:
            alarms += not is_found
        else:
            changed, found = changed + 1, found + is_found
            right_class, right_node = right_class + has_class, right_node + (has_class and has_node)
        if not (is_found and has_class and has_node):
            nodes = [
                (report.get(which) or {}).get("line") for which in ("first_node", "second_node")
            ]
            print(
                name,
                "expected",
                expected,
                "got",
                report["verdict"],
                report.get("class"),
                nodes,
                report.get("message", ""),
            )
    if jitopt is not None:
        print(
            f"{changed} changed: {found} found, {right_class} of the right class, "
            f"{right_node} with the node, too"
        )
        print(f"{alarms} false alarms")


if __name__ == "__main__":
    main()
