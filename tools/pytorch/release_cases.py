"""More sources for `record_versions.py --cases=release_cases`: types, constants and statements of
every kind.

Whereas `version_cases.py` has models and their plans, these cases cover the elements of printed
graphs: every kind of constant and type, at every possible position.
"""

from version_cases import scripted, text, traced

NUMBERS = ("0.0 -0.0 1.0 -3.0 0.1 1e-7 1e-5 1e-4 123456.0 1234567.0 9999999999.0 1e10 12345678901.0 -1e10 "
           "123456789012345678.0 4503599627370496.5 9223372036854774784.0 9223372036854775808.0 "
           "-9223372036854775808.0 1e16 1e17 1e20 1.7976931348623157e308 5e-324 1e-300 1234567.875").split()
SPECIAL = ["float('inf')", "float('-inf')", "float('nan')", "1e400", "-1e400"]
INTEGERS = "0 -1 9223372036854775807 -9223372036854775807 2147483648 4611686018427387904".split()


def returned(values, kind):
    """A function that returns each of these values."""
    lines = ["def f(x):", "    # type: (Tensor) -> Tuple[{}]".format(", ".join([kind] * len(values)))]
    lines += ["    v{} = {}".format(i, value) for i, value in enumerate(values)]
    return text("\n".join(lines + ["    return " + ", ".join("v{}".format(i) for i in range(len(values)))]))


def listed(values, kind):
    return text("def f(x):\n    # type: (Tensor) -> List[{}]\n    return [{}]".format(kind, ", ".join(values)))


def annotated(kind, value):
    """A local variable of some type, written if possible, and returned."""
    lines = ["def subject(x: Tensor):", "    v: {} = {}".format(kind, value), "    return v, x"]
    return scripted("\n".join(lines))


TYPES = {
    "List[List[int]]": "[[1, 2], [3]]", "List[List[List[float]]]": "[[[0.5, 1e10]], [[2.0]]]",
    "List[Optional[int]]": "[1, None]", "List[Tuple[int, str]]": "[(1, 'a'), (2, 'b, c')]",
    "List[Dict[str, int]]": "[{'a': 1}, {}]", "List[Optional[Tensor]]": "[x, None]",
    "Optional[List[Optional[str]]]": "['a', None]", "Optional[Tuple[int, Optional[float]]]": "(1, 2.5)",
    "Dict[int, List[int]]": "{1: [2]}", "Dict[str, Dict[int, Tensor]]": "{'a': {1: x}}",
    "Dict[str, Tuple[int, float]]": "{'a': (1, 0.5)}", "Dict[float, str]": "{0.5: 'x', 1e11: 'y'}",
    "Dict[bool, int]": "{True: 1, False: 0}", "Dict[Tensor, Tensor]": "{x: x}",
    "Dict[str, Optional[List[Tensor]]]": "{'a': [x], 'b': None}", "Dict[int, Optional[Dict[str, bool]]]": "{1: {'a': True}}",
    "Dict[str, List[Dict[int, Tuple[str, Tensor]]]]": "{'a': [{1: ('b', x)}]}",
    "Tuple[int, Tuple[float, Tuple[str, bool]]]": "(1, (2.0, ('s', True)))", "Tuple[int]": "(1,)",
    "Tuple[List[int], Dict[str, Tuple[Tensor, Tensor]]]": "([1], {'k': (x, x)})", "Tuple[()]": "()",
    "Optional[Dict[str, List[int]]]": "{'a': [1]}", "List[bool]": "[True, False]", "List[str]": "['a', '', 'b\\n']",
    "List[float]": "[0.5, 12345678901.0, -0.0, 2.0]", "List[complex]": "[1j, 2.5 - 3j]", "complex": "1e-7 + 12345678901j",
    "Optional[complex]": "2j", "Dict[str, complex]": "{'a': 1j}", "Dict[complex, int]": "{1j: 1}",
    "torch.device": "x.device", "List[torch.device]": "[x.device]", "Optional[torch.device]": "None",
    "torch.dtype": "x.dtype", "List[torch.dtype]": "[torch.float64, torch.int8]", "torch.layout": "torch.strided",
    "torch.memory_format": "torch.channels_last", "Any": "1", "List[Any]": "[1, 'a', x]", "Dict[str, Any]": "{'a': x}",
    "Tuple[Any, Optional[Any]]": "(x, None)", "Union[int, str]": "1", "Union[List[int], Dict[str, Union[int, float]]]": "[1]",
    "Optional[Union[int, Tensor, str]]": "None", "List[Union[int, float]]": "[1, 2.0]", "Union[int, None]": "None",
    "Dict[str, Union[int, Tensor]]": "{'a': 1}", "Tuple[Union[int, float], Union[Tensor, List[Tensor]]]": "(1, x)",
    "Union[Tuple[int, int], List[Tensor], None]": "(1, 2)", "Union[int, float, complex]": "2",
    "Optional[Tensor]": "x", "Optional[List[List[Tensor]]]": "[[x]]", "torch.Size": "x.shape",
    "List[Tuple[Tensor, Tensor]]": "[(x, x)]", "Tuple[str, ...]": "('a',)", "torch.Generator": "torch.Generator()",
    "Set[int]": "{1}", "Number": "1", "Final[int]": "1", "float": "3", "torch.qscheme": "torch.per_tensor_affine",
}

CASES = {"type{:02}".format(i): annotated(kind, TYPES[kind]) for i, kind in enumerate(sorted(TYPES))}

CASES.update({
    "floats_all": returned(NUMBERS + SPECIAL, "float"),
    "floats_list": listed(NUMBERS + SPECIAL, "float"),
    "floats_large": listed([n for n in NUMBERS if len(n) > 6 and float(n) % 1 == 0], "float"),
    "floats_used": text("def f(x):\n" + "".join("    x = x * {}\n".format(n) for n in NUMBERS) + "    return x"),
    "floats_folded": text("""
def f(x):
    # type: (Tensor) -> Tuple[float, float, float, float, float, List[float]]
    a = 1e5 * 1e5
    b = 12345678901.0 + 1.0
    c = 0.1 + 0.2
    d = -(0.0 * 1.0)
    e = 1e308 * 10.0
    return a, b, c, d, e, [1e10 * 2.0, 1.0 / 3.0, 2.0 * 3.0]
"""),
    "floats_default": text("""
def g(x, a=0.1, b=1e10, c=-0.5, d=12345678901.0):
    # type: (Tensor, float, float, float, float) -> Tensor
    return x * a + b - c * d

def f(x):
    return g(x) + g(x, b=2.0) + g(x, 1e-300, d=1e20)
"""),
    "floats_tensor": traced("def subject(x):\n    return x * torch.tensor([0.1, 1e10, 12345678901., -0., float('nan')])\n",
                            "torch.rand(5)"),
    "floats_double": traced("def subject(x):\n    return x + torch.tensor([0.1, 2., 1e20], dtype=torch.float64) + "
                            "torch.tensor(1e10, dtype=torch.float64) + torch.tensor(0.1) + torch.tensor(3.0)\n", "torch.rand(3)"),
    "integers_all": returned(INTEGERS, "int"),
    "integers_list": listed(INTEGERS, "int"),
    "dtypes": traced("\n".join(
        ["DTYPES = 'uint8 int8 int16 int32 int64 float16 float32 float64 bool bfloat16 complex64 complex128'.split()",
         "def subject(x):", "    for name in DTYPES:", "        if hasattr(torch, name):",
         "            for shape in ((), (0,), (1,), (3,), (2, 2), (2, 1, 2), (11,)):",
         "                try:",
         "                    y = torch.ones(shape, dtype=getattr(torch, name)) if shape else torch.tensor(1).to(getattr(torch, name))",
         "                    x = x + y.to(x.device).float().sum() if shape == () else (x, y)[0] + torch.numel(y)",
         "                except (RuntimeError, TypeError):", "                    pass",
         "    return x"])),
    "constants_of_tensors": traced("""
def subject(x):
    a = torch.tensor([1, -2, 3])
    b = torch.tensor([[True, False]])
    c = torch.tensor([[1.5, -2.25], [1e-5, 1e5]])
    d = torch.tensor(2.5).double()
    e = torch.tensor([], dtype=torch.int64)
    h = torch.tensor([0.1, 1.0]).half()
    return x[a.abs() - 1], x + c.sum(), torch.where(b, x[:2, :2], c), x * d, x[e], h.float() + x[:, :2]
"""),
    "strings_all": text(r'''
def f(x):
    # type: (Tensor) -> List[str]
    a = "quote \" and ' and \\ and \n \t \r \a \0 \x7f \x80 \xff"
    b = "\u00e9\u20ac\U0001f600"
    c = "%x = prim::Constant[value=1]() # no comment, {braces} [brackets] (parens)"
    d = ""
    e = "   "
    g = "annotate(List[int], [])"
    return [a, b, c, d, e, g, "<Tensor>", "None", "1", "-0."]
'''),
    "strings_ops": text("""
def f(x):
    # type: (Tensor) -> List[str]
    a = "a b,c"
    b = a.split(" ")
    c = ", ".join(b) + a[1:3] + a.upper() * 2
    d = "{} {}".format(x.dim(), a)
    return b + [c, d, a.replace("a", "\\n"), str(x.size(0)), a.strip()]
"""),
    "strings_f": scripted("def subject(x: Tensor, n: int):\n    return f'n is {n} and {x.dim()} {{}}', f\"{n}\"", "torch.rand(2), 3"),
    "asserts": text("""
def f(x):
    assert x.dim() == 2, "expected 2 dims, not \\"{}\\"".format(x.dim())
    assert bool(x.sum() > -1)
    if x.size(0) == 0:
        raise RuntimeError("no rows:\\n%d" % x.size(1))
    return x
"""),
    "slices": text("""
def f(x):
    a = x[1:, :-1]
    b = x[::2]
    c = x[..., None, 0]
    d = x[-1:][0]
    e = x[:, [0, 1]]
    g = x[x > 0.5]
    a[0] = 1.5
    a[:, 1:2] += 2
    return a, b, c, d, e, g
"""),
    "comprehension": text("""
def f(x):
    # type: (Tensor) -> Tuple[List[int], List[Tensor], int]
    a = [i * 2 for i in range(3)]
    b = [y + 1 for y in [x, x]]
    n = 0
    for i, y in enumerate(b):
        n += i
    for p, q in zip(a, [4, 5, 6]):
        n += p * q
    for i in range(10, 0, -3):
        n -= i
    return a, b, n
"""),
    "dict_ops": scripted("""
def subject(x: Tensor, d: Dict[str, Tensor]):
    e = {k: v + 1 for k, v in d.items()}
    e.update({"z": x})
    del e["z"]
    if "a" in e:
        e["b"] = e.pop("a")
    return e, list(e.keys()), e.get("c"), e.setdefault("q", x), len(e), sorted(list(e.keys()))
""", "torch.rand(2), {'a': torch.rand(2)}"),
    "tuples": scripted("""
def subject(x: Tensor):
    t = (1, 2.0, "a", x, (True, None))
    a, b, *c = t
    return t[1:3], t[-1], c, (x,), t == t
"""),
    "tuple_constants": scripted("""
def subject(x: Tensor):
    n = (1, (2, 3.5), "s")
    s = 0
    for i in (1, 2, 3):
        s += i
    return n[1], s
"""),
    "loops_with_values": text("""
def f(x, n):
    # type: (Tensor, int) -> Tuple[Tensor, int, Optional[Tensor]]
    last = torch.jit.annotate(Optional[Tensor], None)
    i = 0
    while i < n and bool(x.sum() < 100):
        for j in range(i):
            if j == 3:
                continue
            last = x * j
        i += 1
        if i == 7:
            break
    if last is not None:
        x = x + last
    return x, i, last
""", "torch.rand(3), 4"),
    "named_defaults": scripted("""
class P(NamedTuple):
    x: Tensor
    n: int = 3
    f: float = 12345678901.0
    s: str = "a, b"
    t: Tuple[int, str] = (1, "c : d")
    l: Optional[List[int]] = None
    b: bool = True
def subject(p: P):
    q = P(p.x, s="(")
    return p.x * p.n, q, q.s
""", "P(torch.rand(2))"),
    "named_nested": scripted("""
class A(NamedTuple):
    x: Tensor
    k: Dict[str, List[int]]
class B(NamedTuple):
    a: A
    rest: Optional[List[A]] = None
def subject(x: Tensor):
    b = B(A(x, {"a": [1]}), None)
    c: Dict[str, B] = {"b": b}
    return b, [b.a], c
"""),
    "named_traced": traced("""
import collections
P = collections.namedtuple("P", ["a", "b"])
def subject(x):
    return P(x + 1, x * 2)
"""),
    "enums_all": scripted("""
import enum
class I(enum.Enum):
    A = 1
    B = 2
class S(enum.Enum):
    X = "x, y"
    Y = ""
class D(enum.Enum):
    H = 0.5
    L = 12345678901.0
def subject(i: I, s: Optional[S], l: List[D]):
    if i == I.A:
        return i.value, S.Y, [I.B, i], s, l
    return i.value, S.X, [e for e in [I.A]], s, l + [D.H]
""", "I.A, None, [D.L]"),
    "devices_all": text("""
def f(x):
    d = torch.device("cuda:1")
    e = x.device
    if e == d or e.type == "cpu":
        x = x.to(torch.device("cpu"))
    return torch.zeros([2], device=d if e == d else e), x.to("cpu"), x.to(torch.float64)
"""),
    "factories": text("""
def f(x):
    a = torch.zeros([2, 3], dtype=torch.float64, device=torch.device("cpu"), layout=torch.strided)
    b = torch.full([2], 3)
    c = torch.arange(0, 10, 2)
    d = torch.tensor([1.0, 2.5])
    e = torch.ones_like(x)
    g = torch.rand([2, 2])
    h = torch.linspace(0, 1, 5)
    return a, b, c, d, e, g, h, torch.eye(3), torch.empty([0])
"""),
    "complexes": scripted("""
def subject(x: Tensor):
    a = 2 + 3j
    b = complex(1.5, -0.0)
    c = [1j, -1e10j, 12345678901j, complex(float('inf'), float('nan'))]
    return a * b, c, torch.view_as_real(x * 1j), a.real, abs(b)
"""),
    "forks": scripted("""
def g(x: Tensor, n: int = 2) -> Tuple[Tensor, int]:
    return x * n, n
def h(x: Tensor) -> List[Tensor]:
    return [x, x + 1]
def subject(x: Tensor):
    a = torch.jit.fork(g, x)
    b = torch.jit.fork(h, x)
    fs: List[torch.jit.Future[List[Tensor]]] = []
    for i in range(3):
        fs.append(torch.jit.fork(h, x * i))
    r = [torch.jit.wait(f) for f in fs]
    y, n = torch.jit.wait(a)
    return y, n, torch.jit.wait(b), r
"""),
    "awaits": scripted("""
def g(x: Tensor) -> Tensor:
    return x + 1
def subject(x: Tensor):
    w = torch.jit._awaitable(g, x)
    return torch.jit._awaitable_wait(w)
"""),
    "context": scripted("""
@torch.jit.script
class Guard(object):
    def __init__(self, n: int):
        self.n = n
    def __enter__(self):
        self.n += 1
        return self.n
    def __exit__(self, a: Any, b: Any, c: Any):
        self.n -= 1
def subject(x: Tensor):
    with Guard(3) as n:
        x = x + n
    with torch.no_grad():
        x = x * 2
    return x
"""),
    "classes": scripted("""
@torch.jit.script
class Pair(object):
    def __init__(self, a: Tensor, n: int):
        self.a = a
        self.n = n
        self.names: List[str] = ["a"]
        self.table: Dict[str, Tuple[int, float]] = {}
    def __add__(self, other: 'Pair'):
        return Pair(self.a + other.a, self.n)
    def __len__(self) -> int:
        return self.n
    def bump(self, k: int = 2) -> int:
        self.n += k
        return self.n
def subject(x: Tensor):
    p = Pair(x, 1)
    q = p + p
    q.table["k"] = (1, 2.0)
    ps: List[Pair] = [p, q]
    d: Dict[str, Optional[Pair]] = {"p": p, "n": None}
    return q.bump(), len(ps[0]), q.a, d["p"] is None
"""),
    "interfaces": scripted("""
@torch.jit.interface
class Act(nn.Module):
    def forward(self, x: Tensor, n: int) -> Tensor:
        pass
class A(nn.Module):
    def forward(self, x: Tensor, n: int) -> Tensor:
        return x + n
class M(nn.Module):
    act: Act
    def __init__(self):
        super(M, self).__init__()
        self.act = A()
    def forward(self, x: Tensor):
        a: Act = self.act
        return a.forward(x, 2)
subject = M()
"""),
    "attributes": scripted("""
class M(nn.Module):
    __constants__ = ["n", "flag", "name", "sizes"]
    table: Dict[str, List[int]]
    scale: Final[float]
    def __init__(self):
        super(M, self).__init__()
        self.n, self.flag, self.name, self.sizes = 3, True, "m", [1, 2]
        self.table = {"a": [1, 2], "b": []}
        self.scale = 12345678901.0
        self.pairs: List[Tuple[int, str]] = [(1, "x")]
        self.maybe: Optional[Tensor] = None
        self.nothing = None
        self.tensors = (torch.ones(2), torch.zeros(3))
        self.register_buffer("buffer", torch.ones(2, 2))
        self.dtype, self.device = torch.float16, torch.device("cpu")
        self.ratio, self.whole = 0.1, 2.0
    def forward(self, x: Tensor):
        if self.flag and self.maybe is None:
            x = x * self.n + self.scale * self.ratio + self.whole
        return x.to(self.device), self.table, self.pairs, self.name, self.tensors[0], self.buffer, self.nothing, self.sizes
subject = M()
"""),
    "containers_of_modules": scripted("""
class M(nn.Module):
    def __init__(self):
        super(M, self).__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4), nn.ReLU()])
        self.named = nn.ModuleDict({"a": nn.Linear(4, 2), "b": nn.Tanh()})
        self.ps = nn.ParameterList([nn.Parameter(torch.ones(2))])
    def forward(self, x: Tensor):
        for layer in self.layers:
            x = layer(x)
        for name, layer in self.named.items():
            if name == "a":
                x = layer(x)
        for p in self.ps:
            x = x + p
        return x, len(self.layers), "a" in self.named
subject = M().eval()
"""),
    "properties": scripted("""
class M(nn.Module):
    def __init__(self):
        super(M, self).__init__()
        self.k = 2
    @property
    def twice(self) -> int:
        return self.k * 2
    @twice.setter
    def twice(self, v: int):
        self.k = v
    @torch.jit.export
    def other(self, x: Tensor, y: Optional[int] = None) -> Tensor:
        return x if y is None else x + y
    def forward(self, x: Tensor):
        self.twice = 5
        return self.other(x, self.twice)
subject = M()
"""),
    "ignored": scripted("""
@torch.jit.ignore
def host(x: Tensor, n: List[int]) -> Tensor:
    return x
@torch.jit.unused
def never(x: Tensor) -> Tensor:
    return x
def subject(x: Tensor):
    print("x is", x.dim(), 1.5, None)
    if x.dim() > 5:
        x = never(x)
    return host(x, [1, 2])
"""),
    "recursive": scripted("""
def inner(x: Tensor, k: float = 0.1, s: str = "mean", l: List[int] = [1, 2]) -> Tensor:
    return x * k if s == "mean" else x.sum(l)
def middle(x: Tensor, flag: bool = False, t: Optional[Tensor] = None) -> Tensor:
    if t is not None:
        x = x + t
    return inner(x, s="sum" if flag else "mean")
def subject(x: Tensor):
    return middle(x) + middle(x, True, x) + F.softmax(x, -1) + F.dropout(x, 0.3) + F.interpolate(x[None, None], scale_factor=2.0).sum()
"""),
    "overloads": scripted("""
def subject(x: Tensor):
    a = torch.max(x)
    b, i = torch.max(x, 1)
    c = torch.sum(x, [0], True, dtype=torch.float64)
    d = torch.norm(x, 2.0)
    e = x.std(0, False)
    g = torch.clamp(x, max=0.5)
    h = torch.cat([x, x], 1)
    u, v, w = torch.unbind(x[:3])
    k = torch.topk(x, 2)[1]
    s = torch.stack(torch.split(x, [1, 2]) if x.size(0) == 99 else [x, x])
    return a, b, i, c, d, e, g, h, u, v, w, k, s, torch.einsum("ij,kj->ik", x, x)
"""),
    "refinement": scripted("""
def subject(x: Optional[Tensor], y: Any, z: List[int]):
    if x is None:
        return -1
    if isinstance(y, int):
        return y + 1
    elif isinstance(y, (str, float)):
        return 0
    if torch.jit.isinstance(y, List[Tensor]):
        return len(y)
    n = z[0] if len(z) > 0 else None
    assert n is not None
    return n + x.size(0)
""", "torch.rand(2), 3, [1]"),
    "unions_all": scripted("""
def subject(x: Union[Tensor, List[Tensor], int], d: Dict[str, Union[int, str]]):
    y: Union[int, float, None] = None
    if isinstance(x, Tensor):
        y = x.dim()
    elif isinstance(x, int):
        y = 1.5
    v = d["a"]
    if isinstance(v, str):
        return y, v, [y]
    return y, "none", [y]
""", "torch.rand(2), {'a': 1}"),
    "grad_functions": text("""
def f(x, w):
    y = torch.tanh(x.mm(w)).sigmoid() * x
    z = torch.relu(y) + y.mean(0, True)
    return (z * z).sum() / 3.0
""", "torch.rand(3, 3), torch.rand(3, 3)"),
    "custom_function": traced("""
class Fn(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, n, k):
        return x * n
    @staticmethod
    def backward(ctx, g):
        return g, None, None
def subject(x):
    return Fn.apply(x, 2, [1, 0.5]) + 1
"""),
    "trace_scopes": traced("""
class Block(nn.Module):
    def __init__(self):
        super(Block, self).__init__()
        self.conv, self.bn = nn.Conv2d(3, 3, 3), nn.BatchNorm2d(3)
    def forward(self, x):
        return F.relu(self.bn(self.conv(x)), inplace=True)
subject = nn.Sequential(Block(), nn.Sequential(Block(), nn.MaxPool2d(2))).eval()
""", "torch.rand(1, 3, 12, 12)"),
    "trace_shapes": traced("""
def subject(x):
    n, m = x.shape
    y = x.view(n * m // 2, -1)
    y[0, 0] = 5
    return y.reshape(x.size(0), x.size(1)).expand(2, n, m), torch.zeros(n, 2), x.new_ones(m)
"""),
    "trace_dict": traced("def subject(x):\n    return {'a': x, 'b': [x + 1, (x, x)]}\n"),
    "trace_script": traced("""
@torch.jit.script
def g(x, n):
    # type: (Tensor, int) -> Tensor
    for i in range(n):
        if bool(x.sum() > 3):
            x = x - i
    return x
def subject(x):
    return g(x, 3) * 2
"""),
    "rnn": traced("subject = nn.LSTM(4, 3, 2, bidirectional=True, batch_first=True)\n", "torch.rand(2, 5, 4)"),
    "gru_script": scripted("subject = nn.GRU(4, 3)\n", "torch.rand(5, 2, 4)"),
    "attention": scripted("subject = nn.TransformerEncoderLayer(8, 2, 16).eval()\n", "torch.rand(3, 2, 8)"),
    "quantized_dynamic": scripted("""
subject = torch.quantization.quantize_dynamic(nn.Sequential(nn.Linear(4, 4), nn.ReLU()), {nn.Linear}, dtype=torch.qint8)
"""),
    "quantized_tensor": traced("""
def subject(x):
    q = torch.quantize_per_tensor(x, 0.1, 3, torch.quint8)
    return q.int_repr(), q.dequantize(), torch.quantize_per_tensor(torch.ones(2), 0.5, 0, torch.qint8).dequantize()
"""),
    "sparse": traced("def subject(x):\n    return torch.sparse.mm(torch.eye(3).to_sparse(), x)\n"),
    "embedding": scripted("subject = nn.EmbeddingBag(10, 3, mode='sum')\n", "torch.tensor([[1, 2], [3, 4]])"),
    "loss": scripted("""
def subject(x: Tensor, y: Tensor):
    return F.cross_entropy(x, y, ignore_index=-100) + F.mse_loss(x, x) + F.nll_loss(F.log_softmax(x, 1), y, reduction="sum")
""", "torch.rand(3, 4), torch.tensor([0, 1, 2])"),
    "inplace": text("""
def f(x):
    y = x.clone()
    y.add_(1).mul_(2.5)
    y[0] = y[1]
    y.unsqueeze_(0)
    torch.relu_(y)
    y += x
    y *= 0.1
    y /= 3
    return y.squeeze(0)
"""),
    "math": text("""
import math
def f(x):
    # type: (Tensor) -> Tuple[float, int, float, int, float]
    a = math.sqrt(2.0) + math.pi
    b = int(a) // 2 % 3
    c = float(b) ** 0.5
    d = min(b, 3) + max(1, 2) + abs(-4) + round(2.5)
    return a, b, c, d, math.inf
"""),
    "math_script": scripted("""
import math
def subject(x: Tensor, n: int):
    a = math.sqrt(n) + math.pi + math.log2(8.0) + math.nan
    return a, n // 2, n % 3, n ** 2, n / 2, 7 & n | 1 ^ 2, ~n, n << 2, math.floor(a), divmod(n, 3), bool(n), -n, not n
""", "torch.rand(2), 3"),
    "bool_ops": text("""
def f(x, a, b):
    # type: (Tensor, bool, Optional[int]) -> Tuple[bool, Tensor, int]
    c = a and not b is None or a
    d = x if c else -x
    e = 1 if b is None else 2
    return c, d, e
""", "torch.rand(2), True, None"),
    "scripted_sizes": scripted("""
def subject(x: Tensor, sizes: List[int]):
    y = x.view(sizes[0], -1).permute(1, 0).contiguous(memory_format=torch.contiguous_format)
    a, b = y.shape
    return y.flatten(), y.size(), [a, b] + list(x.shape), y.numel(), y.stride(0), y.is_contiguous(), sizes[::-1], sizes[1:]
""", "torch.rand(4, 3), [2, 6]"),
    "profiled_shapes": text("""
def f(x, y, n):
    # type: (Tensor, Tensor, int) -> Tuple[Tensor, Tensor]
    a = x + y * 2
    b = torch.cat([a, y], 1)
    for i in range(n):
        a = a * b[:, :4].sigmoid() + i
        if i > 1:
            b = b.transpose(0, 1).contiguous().transpose(0, 1)
    return a.t(), b
""", "torch.rand(4, 4), torch.rand(4, 4).t(), 3"),
    "profiled_types": scripted("""
def subject(x: Tensor, h: Tensor, k: Optional[Tensor], n: List[Tensor]):
    y = x.double() + h.to(torch.float64)
    if k is not None:
        y = y + k
    z = y.sum() + n[0].long() + n[1].bool().float().mean()
    return y, z.int(), (x > 0.5) & (x < 0.9)
""", "torch.rand(3), torch.rand(3).half(), None, [torch.rand(()), torch.rand(0, 2)]"),
    "autocast": scripted("""
def subject(x: Tensor):
    with torch.autocast(device_type="cpu", dtype=torch.bfloat16):
        y = torch.mm(x, x)
    return y, torch.is_autocast_enabled()
""", "torch.rand(3, 3)"),
    "submodule_calls": scripted("""
class Sub(nn.Module):
    def __init__(self, k: int):
        super().__init__()
        self.k, self.w = k, nn.Parameter(torch.ones(2))
    def forward(self, x: Tensor, y: Optional[Tensor] = None) -> Tuple[Tensor, int]:
        return (x if y is None else x + y) * self.w, self.k
class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = Sub(1), Sub(2)
        self.hooked = nn.Linear(2, 2)
        self.hooked.weight.requires_grad_(False)
    def forward(self, x: Tensor):
        y, k = self.a(x)
        z, l = self.b(y, x)
        return self.hooked(z), k + l
subject = M().eval()
""", "torch.rand(3, 2)"),
})
