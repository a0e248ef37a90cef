"""Modules and traced functions for `record_code.py`."""

# ruff: noqa: UP006, UP007, UP035, UP045

from typing import List, Optional

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Linear(nn.Module):
    """Weights, and a method."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(2, 3))
        self.bias = nn.Parameter(torch.zeros(2))
        self.scale = 2.0

    def scaled(self, x: Tensor) -> Tensor:
        return x * self.scale

    def forward(self, x):
        return self.scaled(F.linear(x, self.weight, self.bias))


class Nest(nn.Module):
    """Nested modules, with names that are not identifiers."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
        self.heads = nn.ModuleList([nn.Linear(2, 2) for _ in range(3)])
        self.named = nn.ModuleDict({"a-b": nn.Tanh(), "c": nn.Sigmoid()})

    def forward(self, x):
        x = self.body(x)
        for head in self.heads:
            x = head(x) + x
        for name, act in self.named.items():
            x = act(x)
            print(name)
        return x


class State(nn.Module):
    """Mutable attributes."""

    calls: int
    history: List[int]
    last: Optional[Tensor]

    def __init__(self):
        super().__init__()
        self.calls = 0
        self.history = []
        self.last = None
        self.register_buffer("total", torch.zeros(3))
        self.table = {"a": 1}

    def forward(self, x):
        self.calls += 1
        self.history.append(self.calls)
        self.total.add_(x)
        last = self.last
        if last is not None:
            x = x + last
        self.last = x
        return self.total + self.table["a"]


class Cnn(nn.Module):
    """A small network."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 3, padding=1)
        self.bn1 = nn.BatchNorm2d(8)
        self.conv2 = nn.Conv2d(8, 8, 3, stride=2, groups=2, bias=False)
        self.pool = nn.AdaptiveAvgPool2d((1, 1))
        self.drop = nn.Dropout(0.1)
        self.fc = nn.Linear(8, 4)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        x = self.pool(self.conv2(x))
        return F.log_softmax(self.fc(self.drop(torch.flatten(x, 1))), dim=1)


class Residual(nn.Module):
    """Blocks with shortcuts."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Sequential(nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(inplace=True)) for _ in range(2)])
        self.down: Optional[nn.Module] = None

    def forward(self, x):
        for layer in self.layers:
            x = x + layer(x)
        return x


class Recurrent(nn.Module):
    """An LSTM and an embedding."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(10, 4)
        self.lstm = nn.LSTM(4, 5)
        self.gru = nn.GRUCell(5, 5)

    def forward(self, ids):
        out, (h, c) = self.lstm(self.embedding(ids))
        return self.gru(out[-1], h[0]), c


class Attention(nn.Module):
    """Attention heads, and an optional mask."""

    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2)
        self.norm = nn.LayerNorm(8)

    def forward(self, x, mask: Optional[Tensor] = None):
        y, w = self.attention(x, x, x, attn_mask=mask)
        return self.norm(x + y), w


class Holder(nn.Module):
    """Constant tensors of all types, for traces."""

    def __init__(self):
        super().__init__()
        self.inner = Linear()

    def forward(self, x):
        a = torch.tensor([1, 2, 3])
        b = torch.tensor(2.5)
        c = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
        d = torch.tensor([1, 2, 3])
        return self.inner(x) + a.sum() + b + c.sum() + d.sum() + torch.tensor(1)


class Exported(nn.Module):
    """Methods besides forward."""

    def __init__(self):
        super().__init__()
        self.n = 3

    @torch.jit.export
    def twice(self, x):
        return self.once(self.once(x))

    def once(self, x):
        return x + self.n

    def forward(self, x, flag: bool = False):
        if flag:
            return self.twice(x)
        return self.once(x)


@torch.jit.interface
class Layer(nn.Module):
    """The interface of indexed layers."""

    def forward(self, x: Tensor) -> Tensor:
        pass


class Shift(nn.Module):
    """A layer."""

    def forward(self, x: Tensor) -> Tensor:
        return x + 1


class Indexed(nn.Module):
    """Layers selected by computed indices and keys."""

    def __init__(self):
        super().__init__()
        self.many = nn.ModuleList([Shift(), Shift()])
        self.named = nn.ModuleDict({"a": Shift()})

    def forward(self, x, i: int = 0, key: str = "a"):
        first: Layer = self.many[i]
        second: Layer = self.named[key]
        return second.forward(first.forward(x))


MODULES = [Linear, Nest, State, Cnn, Residual, Recurrent, Attention, Exported, Indexed, Holder]


def example_of(module):
    """The inputs with which a module is traced."""
    if module in (Cnn,):
        return torch.ones(1, 3, 8, 8)
    if module is Residual:
        return torch.ones(1, 4, 8, 8)
    if module is Recurrent:
        return torch.zeros(3, 2, dtype=torch.long)
    if module is Attention:
        return torch.ones(3, 2, 8)
    return torch.ones(2, 3)


# ---- traced functions


def traced_arithmetic(x):
    a = x + 1
    return a * torch.tanh(x) - a.sum(dim=0, keepdim=True)


def traced_shapes(x):
    y = x.view(x.size(0), -1)
    return y.reshape(y.shape[1], y.shape[0]) + x.shape[0]


def traced_constants(x):
    return x * torch.arange(12.0).view(4, 3).sum() + torch.full((3,), 2.0) + torch.ones(2, 3) @ torch.eye(3)


def traced_lists(x):
    a, b = x.chunk(2, 0)
    return torch.cat([a, b], 1), [a, b], (a,)


def traced_index(x):
    x[0] = 1
    x[:, 1] += 2
    return x[1], x[x > 0], x[..., None], x.to(torch.float64).cpu()


TRACED = [traced_arithmetic, traced_shapes, traced_constants, traced_lists, traced_index]
