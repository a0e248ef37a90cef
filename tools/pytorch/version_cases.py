"""The sources for `record_versions.py`: `make()` of each returns its subject and run arguments."""




def text(source, args="torch.rand(3, 4)"):
    """A function compiled from its text, which works in all releases."""
    body = "\n".join(source.strip("\n").split("\n"))
    return "SOURCE = {!r}\n\n\ndef make():\n    return torch.jit.CompilationUnit(SOURCE).f, ({},)\n".format(body + "\n", args)


def scripted(source, args="torch.rand(3, 4)"):
    """A function or module `subject` of a Python file."""
    return source + "\n\ndef make():\n    return torch.jit.script(subject), ({},)\n".format(args)


def traced(source, args="torch.rand(3, 4)"):
    return source + "\n\ndef make():\n    args = ({},)\n    return torch.jit.trace(subject, args), args\n".format(args)


def module(body, forward, args="torch.rand(2, 3, 8, 8)", how="traced"):
    source = "class M(nn.Module):\n    def __init__(self):\n        super(M, self).__init__()\n"
    source += "".join("        {}\n".format(line) for line in body.split("\n"))
    source += "    def forward(self, x):\n" + "".join("        {}\n".format(line) for line in forward.split("\n"))
    return {"traced": traced, "scripted": scripted_module}[how](source + "\nsubject = M()\n", args)


def scripted_module(source, args):
    """Scripts a module; 1.0 and 1.1 cannot script plain modules."""
    return source + "\n\ndef make():\n    return torch.jit.script(M()), ({},)\n".format(args)


CASES = {
    "arith": text("""
def f(x):
    y = x * 2 + 1.5
    z = y / 3.0 - x
    return z.sum() + y.mean(), -z
"""),
    "floats": text("""
def f(x):
    a = x * 0.1 + 1e-5
    b = a * 1e20 + 12345678901.0 + 3.0 - 1e10
    return b * 123456.789 + 1e-300 + 100000.0 + 1000000.0 + 0.1 * 3
"""),
    "control": text("""
def f(x, n):
    # type: (Tensor, int) -> Tensor
    y = x
    for i in range(n):
        if i % 2 == 0:
            y = y + float(i)
        else:
            y = y - x[0]
    while bool(y.sum() > 100):
        y = y / 2
    return y
""", "torch.rand(3, 4), 5"),
    "early": text("""
def f(x):
    # type: (Tensor) -> Tensor
    for i in range(10):
        if i > 5:
            break
        if i == 2:
            continue
        x = x + i
    if x.size(0) == 3:
        return x
    return x * 2
"""),
    "lists": text("""
def f(x):
    # type: (Tensor) -> Tuple[List[int], List[float], List[Tensor], List[List[int]]]
    a = [1, 2, 3]
    a.append(x.size(0))
    b = [0.5, 1e-7]
    c = [x, x + 1]
    d = [[1], [2, 3]]
    return a, b, c, d
"""),
    "empties": text("""
def f(x):
    # type: (Tensor) -> Tuple[List[int], List[float], List[bool], List[str], List[Tensor]]
    a = torch.jit.annotate(List[int], [])
    b = torch.jit.annotate(List[float], [])
    c = torch.jit.annotate(List[bool], [])
    d = torch.jit.annotate(List[str], [])
    e = torch.jit.annotate(List[Tensor], [])
    if x.size(0) > 3:
        a.append(1)
        e.append(x)
    return a, b, c, d, e
"""),
    "dicts": text("""
def f(x):
    # type: (Tensor) -> Dict[str, Tensor]
    d = {"a": x, "b": x + 1}
    d["c"] = d["a"] * 2
    for k in d.keys():
        d[k] = d[k] + 1
    return d
"""),
    "dicts2": text("""
def f(x):
    # type: (Tensor) -> Tuple[Dict[int, List[int]], Dict[str, Optional[int]]]
    d = {1: [1, 2], 2: [3]}
    e = torch.jit.annotate(Dict[str, Optional[int]], {})
    e["x"] = None
    return d, e
"""),
    "strings": text(r"""
def f(x):
    # type: (Tensor) -> Tuple[str, str, str, bool]
    a = "tab\there \"q\" 'p' \\ \n end"
    b = "h\u00e9llo \u20ac"
    c = "{} and {}".format(a, 3)
    return a, b, c, a == b
"""),
    "optional": text("""
def f(x, y, n):
    # type: (Tensor, Optional[Tensor], Optional[int]) -> Tuple[Tensor, Optional[int]]
    if y is None:
        z = x
    else:
        z = x + y
    if n is not None:
        z = z + n
    return z, n
""", "torch.rand(3, 4), None, 3"),
    "raises": text("""
def f(x):
    # type: (Tensor) -> Tensor
    assert x.size(0) == 3, "wrong size"
    if x.size(1) > 100:
        raise ValueError("too large")
    print(x.size(0), "text")
    return x
"""),
    "index": text("""
def f(x):
    a = x[0]
    b = x[:, 1:3]
    c = x[None, ..., -1]
    d = x[x > 0.5]
    x[1] = 3
    x[:, 0] += 2
    return a, b, c, d
"""),
    "factories": text("""
def f(x):
    a = torch.zeros([2, 3], dtype=torch.float, device="cpu")
    b = torch.ones_like(x)
    c = torch.full([2], 3.0)
    d = torch.arange(10)
    e = torch.tensor([1, 2, 3])
    g = torch.tensor([[1.5, 2.5]])
    h = torch.rand_like(x)
    return a, b, c, d, e, g, h
"""),
    "casts": text("""
def f(x):
    n = int(x.sum())
    b = bool(x.sum() > 1)
    r = float(x.sum())
    t = torch.tensor(3)
    return x.to(torch.double), x.to("cpu"), n + 1, b, r, x.to(torch.int), t + n, n / 2, n // 2, r ** 2
"""),
    "promote": text("""
def f(x):
    n = x.size(0)
    y = x * n
    z = y + float(n) * 2.5
    return z - (n + 1), z / n, z > n, n == 3, n < 2.5
"""),
    "tuples": text("""
def f(x):
    t = (x, x + 1, 3)
    a, b, c = t
    u = ((a, b), c)
    return u, t[0], t[1:]
"""),
    "chunks": text("""
def f(x):
    a, b = x.chunk(2, 1)
    c, d = torch.chunk(x, 2, dim=1)
    e = torch.cat([a, b, c, d], 1)
    return torch.stack([e, e]), a * b
"""),
    "inplace": text("""
def f(x):
    y = x + 1
    y.add_(x)
    y.mul_(2).clamp_(0, 1)
    z = torch.relu_(y)
    y.zero_()
    return z
"""),
    "lstm": text("""
def f(x, hx, cx, w_ih, w_hh, b_ih, b_hh):
    gates = torch.mm(x, w_ih.t()) + torch.mm(hx, w_hh.t()) + b_ih + b_hh
    i, f, g, o = gates.chunk(4, 1)
    cy = f.sigmoid() * cx + i.sigmoid() * g.tanh()
    return o.sigmoid() * cy.tanh(), cy
""", "torch.rand(4, 10), torch.rand(4, 20), torch.rand(4, 20), torch.rand(80, 10), torch.rand(80, 20), torch.rand(80), torch.rand(80)"),
    "mms": text("""
def f(x, a, b, c):
    y = torch.mm(x, a) + torch.mm(x, b) + torch.mm(x, c) + torch.mm(a, b)
    return y, torch.mm(x, a), torch.mm(x, b), torch.mm(x, c), torch.mm(x, a + b), torch.mm(x, a - c)
""", "torch.rand(4, 4), torch.rand(4, 4), torch.rand(4, 4), torch.rand(4, 4)"),
    "pointwise": text("""
def f(x, y):
    z = (x * y + 1).sigmoid().tanh()
    w = torch.where(z > 0.5, z, y)
    return w.exp() * z.log(), torch.addcmul(x, y, z), torch.lerp(x, y, 0.25), w.sum()
""", "torch.rand(3, 4), torch.rand(3, 4)"),
    "autodiff": text("""
def f(x, y):
    a = x.mean() + y.sum(0).mean()
    b = x.matmul(y.t()).relu().softmax(1)
    c = x.var() + x.std()
    d = x.view(-1).unsqueeze(0).expand([2, 12]).permute([1, 0]).contiguous()
    e = torch.threshold(x, 0.5, 0.) + x.clamp(0., 1.) + x.abs().sqrt().pow(2.5)
    return a + b.sum() + c + d.sum() + e.sum()
""", "torch.rand(3, 4), torch.rand(3, 4)"),
    "autodiff2": text("""
def f(x, w, b):
    y = torch.layer_norm(x, [4], w, b, 1e-5, False)
    y = torch.dropout(y, 0.5, True)
    y = torch.embedding(y, torch.tensor([0, 1])) + y.log_softmax(1, None)[0:2]
    y = torch.adaptive_avg_pool2d(y.unsqueeze(0).unsqueeze(0), [1, 1])
    return torch.nll_loss(y.view(1, 1), torch.tensor([0])) + torch.bmm(y[0], y[0]).sum()
""", "torch.rand(3, 4), torch.rand(4), torch.rand(4)"),
    "autodiff3": text("""
def f(x, w, b):
    y = torch.batch_norm(x.unsqueeze(-1), w, b, None, None, True, 0.1, 1e-5, False)
    z = y.squeeze(-1).transpose(0, 1).reshape([-1])
    u = torch.erf(z).floor() + z.fmod(2.) + z.remainder(3.) + torch.atan(z).cos() + z.lgamma() + z.digamma()
    return (u.type_as(x) * z.rsqrt() * z.reciprocal()).mean([0], True) + torch.max(x, x * 2).sum() + z.var([0], True, False)
""", "torch.rand(3, 4), torch.rand(4), torch.rand(4)"),
    "autodiff4": text("""
def f(x, y):
    a = x.std([0], True, False) + x.var([1], False, True).sum() + x.mean([0, 1], False, dtype=None)
    b = torch.ger(x[0], y[0]).sum() + torch.dist(x, y) + torch.addmm(x[:, :3], x, y.t()).sum()
    c = x.sum([0], True).sum() + x.norm(2) + x.select(0, 1).sum() + x.slice(0, 0, 2, 1).sum() if False else x.sum()
    return a.sum() + b + c
""", "torch.rand(3, 4), torch.rand(3, 4)"),
    "upsample": scripted("""
def subject(x):
    # type: (Tensor) -> Tensor
    return F.interpolate(x, scale_factor=2., mode="bilinear", align_corners=False) + F.interpolate(x, size=[8, 8])
""", "torch.rand(1, 2, 4, 4)"),
    "pools": scripted("""
def subject(x):
    # type: (Tensor) -> Tensor
    y = F.max_pool2d(x, 2) + F.avg_pool2d(x, 2)
    return F.dropout(F.adaptive_max_pool2d(y, 2), 0.5, True)
""", "torch.rand(1, 2, 4, 4)"),
    "named": scripted("""
from collections import namedtuple
class P(NamedTuple):
    x: Tensor
    y: int
    z: Optional[List[str]]
def subject(x):
    # type: (Tensor) -> P
    p = P(x, 3, ["a"])
    return P(p.x + p.y, p.y, None)
"""),
    "named_default": scripted("""
class Q(NamedTuple):
    x: Tensor
    n: int = 3
    s: str = "cfg, (x)"
def subject(x):
    # type: (Tensor) -> Q
    return Q(x)
"""),
    "enums": scripted("""
import enum
class Color(enum.Enum):
    RED = 1
    GREEN = 2
class Name(enum.Enum):
    A = "a"
    B = "b"
def subject(x: Tensor, c: Color):
    if c == Color.RED:
        return x, Name.A, [Color.RED, Color.GREEN]
    return x + c.value, Name.B, [c]
""", "torch.rand(2), sys.modules[__name__].Color.RED").replace("import enum", "import enum, sys"),
    "classes": scripted("""
@torch.jit.script
class Acc(object):
    def __init__(self, x):
        # type: (Tensor) -> None
        self.x = x
        self.n = 0
    def add(self, y):
        # type: (Tensor) -> Tensor
        self.x = self.x + y
        self.n += 1
        return self.x
def subject(x):
    # type: (Tensor) -> Tensor
    a = Acc(x)
    for i in range(3):
        a.add(x)
    return a.x + a.n
"""),
    "unions": scripted("""
def subject(x: Tensor, c: bool):
    m: Union[Tensor, int] = x
    if c:
        m = 3
    if isinstance(m, int):
        return x + m
    else:
        return x
""", "torch.rand(2), True"),
    "unions2": scripted("""
def subject(x: Union[Tensor, List[Tensor], Dict[str, int]], y: Union[int, float, None], z: Optional[Union[str, int]]):
    l: List[Union[int, str]] = []
    d: Dict[str, Union[int, List[int]]] = {}
    if isinstance(x, Tensor):
        return x, l, d
    return torch.zeros([2]), l, d
""", "torch.rand(2), 3, None"),
    "unions3": scripted("""
class T(NamedTuple):
    a: Union[int, Tensor]
    b: int
def subject(x: Tensor, y: Tuple[Union[int, str], Union[Tensor, int]]):
    return T(x, 3), y[0]
""", "torch.rand(2), (3, 4)"),
    "any": scripted("""
def subject(x: Any):
    if isinstance(x, Tensor):
        return 1
    if isinstance(x, int):
        return 2
    if isinstance(x, (list, tuple)):
        return 3
    return 4
"""),
    "forks": scripted("""
def g(x):
    # type: (Tensor) -> Tensor
    return x * 2
def h(x, n):
    # type: (Tensor, int) -> Tuple[Tensor, int]
    fut = torch.jit._fork(g, x)
    return torch.jit._wait(fut) + n, n
def subject(x):
    a = torch.jit._fork(g, x)
    b = torch.jit._fork(h, x, 3)
    c, n = torch.jit._wait(b)
    return torch.jit._wait(a) + c
"""),
    "awaits": scripted("""
from torch.jit import _awaitable, _awaitable_wait
from torch._awaits import _Await as Await
def g(x: Tensor) -> Tensor:
    return x * 2
def subject(x: Tensor):
    aw = torch.jit._awaitable(g, x)
    n = torch.jit._awaitable_nowait(x)
    return torch.jit._awaitable_wait(aw) + torch.jit._awaitable_wait(n)
"""),
    "complexes": text("""
def f(x):
    # type: (Tensor) -> Tuple[complex, Tensor, List[complex]]
    c = 2.0 + 3j
    d = complex(1.5, -2.5) * c
    return d, x * c, [c, 1j]
"""),
    "devices": text("""
def f(x):
    d = x.device
    e = torch.device("cuda:0")
    y = torch.zeros([2], device=d, dtype=x.dtype, layout=torch.strided)
    return y, e, d == torch.device("cpu"), x.is_cuda, [e, torch.device("cpu")], x.layout
"""),
    "withs": scripted("""
def subject(x: Tensor):
    with torch.no_grad():
        y = x * 2
    return y + 1
"""),
    "ignored": scripted("""
@torch.jit.ignore
def host(x):
    # type: (Tensor) -> Tensor
    return x
def subject(x):
    return host(x) + 1
"""),
    "autograd_function": traced("""
class Fn(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale, name, flag):
        return x * scale
    @staticmethod
    def backward(ctx, g):
        return g, None, None, None
def subject(x):
    return Fn.apply(x, 2.5, "a b", True) + Fn.apply(x, 3, "c", None)
"""),
    "quantised": traced("""
def subject(x):
    q = torch.quantize_per_tensor(x, 0.1, 3, torch.quint8)
    p = torch.quantize_per_channel(x, torch.tensor([0.1, 0.2, 0.3]), torch.tensor([0, 1, 2]), 0, torch.qint8)
    return torch.dequantize(q) + q.int_repr() + p.dequantize()
"""),
    "quantised_model": """
class M(nn.Module):
    def __init__(self):
        super(M, self).__init__()
        self.l = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.LSTM(5, 3))
    def forward(self, x):
        return self.l(x)
def make():
    q = torch.quantization.quantize_dynamic(M().eval(), {nn.Linear, nn.LSTM}, dtype=torch.qint8)
    return torch.jit.script(q), (torch.rand(2, 3, 4),)
""",
    "quantised_conv": """
class M(nn.Module):
    def __init__(self):
        super(M, self).__init__()
        self.a, self.c, self.d = torch.quantization.QuantStub(), nn.Conv2d(3, 4, 3), torch.quantization.DeQuantStub()
    def forward(self, x):
        return self.d(F.relu(self.c(self.a(x))))
def make():
    m = M().eval()
    m.qconfig = torch.quantization.default_qconfig
    torch.quantization.prepare(m, inplace=True)
    m(torch.rand(1, 3, 8, 8))
    torch.quantization.convert(m, inplace=True)
    args = (torch.rand(1, 3, 8, 8),)
    return torch.jit.trace(m, args), args
""",
    "sparse": traced("""
def subject(x):
    s = x.to_sparse()
    return torch.sparse.mm(s, x.t()).to_dense() if hasattr(torch.sparse, "mm") else s.to_dense()
"""),
    "dtypes": traced("""
def subject(x):
    ys = [x.to(d) for d in (torch.half, torch.double, torch.int, torch.uint8, torch.int8, torch.int16, torch.long)]
    return [y * 1 for y in ys] + [x > 0.5]
"""),
    "dtypes_new": traced("""
def subject(x):
    return [x.to(torch.bfloat16), x.to(torch.cfloat), x.to(torch.bool), x.to(torch.cdouble).real, x.to(torch.chalf)]
"""),
    "constants": traced("""
C = torch.arange(8)
D = torch.tensor([[0.123456789, 100000.5], [1e-8, 3.0]])
def subject(x):
    e = torch.tensor(3.25)
    return x * D.sum() + C.sum() + e + torch.tensor([True, False]).sum() + D[0] [0] + torch.zeros(0).sum() + torch.tensor([1e10, float("inf"), float("nan")])[0]
"""),
    "constant_lists": traced("""
def subject(x):
    a = torch.arange(6.).view(1, 2, 3) + torch.tensor([1, -2, 3])
    b = torch.tensor([[[1., 2.], [3., 4.5]], [[-1., 0.], [1e6, 2.]]])
    return x[:1, :3] + a[0] + b.sum() + torch.arange(10).view(2, 5).sum() + torch.tensor([1.5 + 2j, 3.]).abs().sum()
"""),
    "views": traced("""
def subject(x):
    y = x.view(-1).reshape(2, 6).t().contiguous().permute(1, 0).unsqueeze(0).squeeze()
    return y.expand(3, 2, 6).transpose(0, 1).flatten(), x.split(2), x.unbind(0), x.size(), x.shape[0] * 2
"""),
    "reductions": traced("""
def subject(x):
    return x.max(1), x.sort(0), x.topk(2), x.argmax(), x.cumsum(0), x.norm(), x.std(), torch.unique(x), x.nonzero()
"""),
    "mlp": module("self.l = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 2))", "return self.l(x)", "torch.rand(3, 4)"),
    "mlp_script": module("self.l = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 2))", "return self.l(x)", "torch.rand(3, 4)", "scripted"),
    "conv": module("self.c, self.b = nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4)", "return F.max_pool2d(F.relu(self.b(self.c(x))), 2).mean([2, 3])"),
    "conv_script": module("self.c, self.b = nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4)", "return F.max_pool2d(F.relu(self.b(self.c(x))), 2)", how="scripted"),
    "norms": module("self.g, self.l, self.i = nn.GroupNorm(3, 3), nn.LayerNorm([8, 8]), nn.InstanceNorm2d(3)", "return self.g(x) + self.l(x) + self.i(x)"),
    "rnns": module("self.l, self.g = nn.LSTM(4, 5, 2), nn.GRU(4, 5, bidirectional=True)", "y, (h, c) = self.l(x)\nz, hz = self.g(x)\nreturn y.sum() + h.sum() + z.sum()", "torch.rand(2, 3, 4)"),
    "rnns_script": module("self.l = nn.LSTM(4, 5)", "y, (h, c) = self.l(x)\nreturn y", "torch.rand(2, 3, 4)", "scripted"),
    "attention": module("self.a = nn.MultiheadAttention(4, 2)", "return self.a(x, x, x)[0]", "torch.rand(2, 3, 4)"),
    "attention_script": module("self.a = nn.MultiheadAttention(4, 2)", "return self.a(x, x, x)[0]", "torch.rand(2, 3, 4)", "scripted"),
    "transformer": module("self.t = nn.TransformerEncoderLayer(4, 2, 8)", "return self.t(x)", "torch.rand(2, 3, 4)", "scripted"),
    "embedding": module("self.e, self.b = nn.Embedding(10, 4), nn.EmbeddingBag(10, 4)", "return self.e(x) + self.b(x)", "torch.tensor([[1, 2, 3, 4]])"),
    "losses": module("self.c, self.m = nn.CrossEntropyLoss(), nn.MSELoss()", "return self.c(x, torch.tensor([1, 0, 2])) + self.m(x, x * 2)", "torch.rand(3, 4)"),
    "buffers": """
class M(nn.Module):
    n: int
    names: List[str]
    def __init__(self):
        super(M, self).__init__()
        self.n, self.names = 3, ["a", "b"]
        self.register_buffer("count", torch.zeros(1))
        self.table = {"a": 1, "b": 2}
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(2)])
    @torch.jit.export
    def reset(self, k: int = 2) -> int:
        self.n = k
        return self.n
    def forward(self, x: Tensor, scale: float = 1.5) -> Dict[str, Tensor]:
        self.count += 1
        for l in self.layers:
            x = l(x) * scale
        self.reset(len(self.names))
        return {"x": x + self.table["a"], "n": self.count}
def make():
    return torch.jit.script(M()), (torch.rand(3, 4),)
""",
    "interfaces": """
@torch.jit.interface
class I(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        pass
class A(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * 2
class M(nn.Module):
    p: I
    def __init__(self):
        super(M, self).__init__()
        self.p = A()
    def forward(self, x: Tensor) -> Tensor:
        return self.p.forward(x) + 1
def make():
    return torch.jit.script(M()), (torch.rand(3, 4),)
""",
    "properties": """
class M(nn.Module):
    def __init__(self):
        super(M, self).__init__()
        self.h: Optional[Tensor] = None
        self.fs = nn.ModuleDict({"a-b": nn.ReLU(), "c": nn.Tanh()})
    def forward(self, x: Tensor) -> Tensor:
        h = self.h
        if h is not None:
            x = x + h
        for k, f in self.fs.items():
            x = f(x)
        self.h = x
        return x
def make():
    return torch.jit.script(M()), (torch.rand(3, 4),)
""",
    "trace_script": """
@torch.jit.script
def g(x, n):
    # type: (Tensor, int) -> Tensor
    for i in range(n):
        x = x + i
    return x
def subject(x):
    return g(x, 3) * 2
def make():
    args = (torch.rand(3, 4),)
    return torch.jit.trace(subject, args), args
""",
    "generators": text("""
def f(x):
    return torch.rand([2]), torch.randn_like(x), torch.bernoulli(x), torch.normal(0., 1., [2]), torch.multinomial(x, 2)
"""),
    "bools": text("""
def f(x, a, b):
    # type: (Tensor, bool, bool) -> Tuple[bool, int, Tensor]
    c = (a and b) or (not a)
    n = 3 if c else 4
    return c, n, x if a else x + 1
""", "torch.rand(2), True, False"),
    "numbers": text("""
def f(x):
    # type: (Tensor) -> Tuple[int, float, Tensor, int]
    n = x.size(0) * 2 + 1
    y = float(n) / 2
    import_ = n % 3
    m = max(n, 3) + min(2, n) + abs(-n)
    return n, y, x * n + y, m
"""),
    "comprehension": text("""
def f(x):
    # type: (Tensor) -> List[Tensor]
    xs = [x, x + 1, x + 2]
    ys = [y * 2 for y in xs]
    for i, y in enumerate(ys):
        ys[i] = y + i
    for a, b in zip(xs, ys):
        x = x + a * b
    return ys
"""),
    "symints": """
def make():
    from torch.fx.experimental.proxy_tensor import make_fx
    g = torch._C.parse_ir('''graph(%x : Tensor, %n : SymInt, %m : SymInt[]):
  %2 : Tensor = aten::view(%x, %m)
  return (%2)
''')
    class G(object):
        graph = g
    return G(), ()
""",
    "scalars": traced("""
def subject(x, y):
    return x + y, x * 2, (x > y), torch.add(x, y, alpha=2), x.item() if False else x.sum()
""", "torch.tensor(3), torch.tensor(2.5)"),
    "scalar_plans": text("""
def f(x, n, y):
    # type: (Tensor, int, float) -> Tensor
    z = (x + n) * y
    return z.sigmoid() * z.tanh()
""", "torch.tensor(2.0), 3, 1.5"),
    "dimless": text("""
def f(x, y):
    z = x * y + x
    return (z.relu() * 2).tanh(), z.sum().sigmoid() * z
""", "torch.tensor(2.0), torch.tensor(1.0, dtype=torch.double)"),
    "ranks": text("""
def f(x, y):
    # type: (Tensor, List[Tensor]) -> Tensor
    for t in y:
        x = (x + t).tanh() * 2
    return x
""", "torch.rand(3, 4), [torch.rand(3, 4), torch.rand(4), torch.rand(1, 1), torch.tensor(1.)]"),
    "grad_loop": text("""
def f(x, w, n):
    # type: (Tensor, Tensor, int) -> Tensor
    for i in range(n):
        x = torch.tanh(x.mm(w)) + x
        if bool(x.sum() > 3):
            x = x * 0.5
    return x
""", "torch.rand(4, 4), torch.rand(4, 4), 3"),
    "fused_reductions": text("""
def f(x, y):
    z = (x * y).sum([1], True).sigmoid()
    return (z * x).mean([0]) + y.softmax(1).log().sum(0)
""", "torch.rand(3, 4), torch.rand(3, 4)"),
    "many_args": text("""
def f(x):
    a = torch.conv2d(x, torch.rand([4, 3, 3, 3]), None, [1, 1], [1, 1], [1, 1], 1)
    return a, torch.sum(a, [2, 3], dtype=torch.double), a.to(dtype=torch.half, non_blocking=True)
""", "torch.rand(1, 3, 8, 8)"),
    "decomposed": text("""
def f(x, w, b):
    y = torch.addmm(b, x, w) + torch.addmm(b, x, w, beta=2., alpha=1.5)
    z = torch.batch_norm(y, None, None, None, None, True, 0.1, 1e-05, False)
    return torch.layer_norm(z, [4], None, None, 1e-05, False), torch.matmul(x, w) + b
""", "torch.rand(3, 4), torch.rand(4, 4), torch.rand(4)"),
    "nested": text("""
def f(x, n):
    # type: (Tensor, int) -> Tensor
    for i in range(n):
        for j in range(i):
            if j > 1:
                if i > 2:
                    x = x + 1
                else:
                    x = x - 1
            else:
                x = x * 2
    for k in range(4):
        x = x + k
    return x
""", "torch.rand(3, 4), 4"),
}
