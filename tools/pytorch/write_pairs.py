"""Writes models both as TorchScript archives and as exported programs, and checks the move.

Usage: write_pairs.py FOLDER [--jitopt=PATH] [NAME…]

For each row of `CASES` the folder gets `old/NAME.pt`, traced or scripted, and `new/NAME.pt2`,
exported from the same model with the same weights. With `--jitopt` all pairs are validated; no pair
differs, so each verdict other than `same` is a false alarm:

    python write_pairs.py FOLDER --jitopt=target/release/jitopt

Needs only torch; with torchvision and transformers there are more rows. Torch 2.6 and 2.15 were
tried. Weights come from a fixed seed, and running statistics are drawn, as 0 and 1 hide mistakes.
"""

import json
import pathlib
import subprocess
import sys

import torch
import torch.nn.functional as F
from torch import nn

from changed_models import Function
from neutral_paths import neutralise

SEED = 11
BATCH = torch.export.Dim("batch", min=2, max=512)
CASES = {}


def image(size=16, channels=3):
    return lambda: (torch.randn(2, channels, size, size),)


def rows(width=8):
    return lambda: (torch.randn(3, width),)


def sequence(length=5, width=8):
    return lambda: (torch.randn(2, length, width),)


def tokens(vocabulary=20, length=6):
    return lambda: (torch.randint(0, vocabulary, (2, length)),)


def case(name, build, inputs, how="trace", dynamic=False, core=False, dtype=None):
    CASES[name] = (build, inputs, how, dynamic, core, dtype)


class First(nn.Module):
    """The first result of a module."""

    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, x):
        return self.module(x)[0]


class Attention(nn.Module):
    """Self-attention, written out or by PyTorch's function."""

    def __init__(self, fused, causal=False, heads=2):
        super().__init__()
        self.qkv, self.out = nn.Linear(8, 24), nn.Linear(8, 8)
        self.fused, self.causal, self.heads = fused, causal, heads

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in (q, k, v))
        if self.fused:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        else:
            scores = q @ k.transpose(-1, -2) / 2.0
            if self.causal:
                mask = torch.ones(x.size(1), x.size(1), dtype=torch.bool).tril()
                scores = scores.masked_fill(~mask, float("-inf"))
            y = scores.softmax(-1) @ v
        return self.out(y.transpose(1, 2).flatten(2))


class Residual(nn.Module):
    """Two convolutions with norms around a shortcut."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(4, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4), nn.ReLU(inplace=True),
            nn.Conv2d(4, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4),
        )

    def forward(self, x):
        return F.relu(self.body(x) + x, inplace=True)


class Counting(nn.Module):
    """Counts its calls in a buffer and keeps a moving mean."""

    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(1))
        self.register_buffer("mean", torch.randn(8))

    def forward(self, x):
        self.calls += 1
        self.mean.mul_(0.9).add_(x.mean(0) * 0.1)
        return x - self.mean, self.calls.clone()


class Tied(nn.Module):
    """An embedding whose weight is the classifier's."""

    def __init__(self):
        super().__init__()
        self.words, self.out = nn.Embedding(20, 8), nn.Linear(8, 20, bias=False)
        self.out.weight = self.words.weight

    def forward(self, x):
        return self.out(self.words(x))


class Recurrent(nn.Module):
    """An embedding, a recurrent layer and a projection."""

    def __init__(self, kind, **options):
        super().__init__()
        self.words, self.layer = nn.Embedding(20, 8), kind(8, 6, batch_first=True, **options)
        self.out = nn.Linear(6 * (2 if options.get("bidirectional") else 1), 5)

    def forward(self, x):
        return self.out(self.layer(self.words(x))[0])


class Cells(nn.Module):
    """Steps of a cell over a sequence."""

    def __init__(self, kind):
        super().__init__()
        self.cell = kind(8, 6)

    def forward(self, x):
        state = torch.zeros(x.size(0), 6)
        state = (state, state) if isinstance(self.cell, nn.LSTMCell) else state
        for step in range(5):
            state = self.cell(x[:, step], state)
        return state


class Bags(nn.Module):
    """Sums of embeddings."""

    def __init__(self, mode):
        super().__init__()
        self.bag = nn.EmbeddingBag(20, 6, mode=mode)

    def forward(self, x):
        return self.bag(x)


class Several(nn.Module):
    """Results with names."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(8, 4), nn.Linear(8, 3)

    def forward(self, x):
        return self.a(x), (self.b(x).sigmoid(), x.sum(-1))


def mlp(act, *between):
    return lambda: nn.Sequential(nn.Linear(8, 8), *between, act, nn.Linear(8, 4))


def conv(*layers, channels=3):
    return lambda: nn.Sequential(nn.Conv2d(channels, 4, 3, padding=1), *layers)


def declare():
    """The rows that need only torch."""
    for name, act in {
        "relu": nn.ReLU(), "gelu": nn.GELU(), "gelu_tanh": nn.GELU(approximate="tanh"),
        "silu": nn.SiLU(), "elu": nn.ELU(), "selu": nn.SELU(), "mish": nn.Mish(),
        "hardswish": nn.Hardswish(), "softplus": nn.Softplus(), "prelu": nn.PReLU(),
        "leaky": nn.LeakyReLU(0.2), "softmax": nn.Softmax(-1), "log_softmax": nn.LogSoftmax(-1),
    }.items():
        case(f"mlp_{name}", mlp(act), rows(), dynamic=name in ("relu", "gelu", "prelu"))
    case("mlp_scripted", mlp(nn.ReLU()), rows(), how="script")
    case("mlp_frozen", mlp(nn.ReLU()), rows(), how="freeze")
    case("mlp_core", mlp(nn.GELU(), nn.LayerNorm(8)), rows(), core=True)
    case("dropout", mlp(nn.ReLU(), nn.Dropout(0.5)), rows(), dynamic=True)
    case("dropout_scripted", mlp(nn.ReLU(), nn.Dropout(0.5)), rows(), how="script")
    case("alpha_dropout", mlp(nn.SELU(), nn.AlphaDropout(0.3)), rows())
    case("layer_norm", mlp(nn.ReLU(), nn.LayerNorm(8)), rows(), dynamic=True)
    case("batch_norm_1d", mlp(nn.ReLU(), nn.BatchNorm1d(8)), rows(), dynamic=True)
    case("batch_norm_scripted", mlp(nn.ReLU(), nn.BatchNorm1d(8)), rows(), how="script")
    case("batch_norm_2d", conv(nn.BatchNorm2d(4), nn.ReLU()), image(), dynamic=True)
    case("batch_norm_core", conv(nn.BatchNorm2d(4), nn.ReLU()), image(), core=True)
    case("batch_norm_frozen", conv(nn.BatchNorm2d(4), nn.ReLU()), image(), how="freeze")
    case("group_norm", conv(nn.GroupNorm(2, 4), nn.SiLU()), image())
    case("instance_norm", conv(nn.InstanceNorm2d(4, affine=True)), image())
    case("max_pool", conv(nn.MaxPool2d(2, 2), nn.Flatten()), image(), dynamic=True)
    case("average_pool", conv(nn.AvgPool2d(3, 2, 1)), image())
    case("adaptive_pool", conv(nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(16, 3)), image())
    case("transposed", conv(nn.ConvTranspose2d(4, 2, 3, stride=2, output_padding=1)), image(8))
    case("grouped", conv(nn.Conv2d(4, 8, 3, groups=2, dilation=2)), image(), dynamic=True)
    case("depthwise", conv(nn.Conv2d(4, 4, 3, groups=4, stride=2)), image())
    case("upsample", conv(nn.Upsample(scale_factor=2, mode="bilinear")), image(8))
    case("nearest", conv(nn.Upsample(scale_factor=2), nn.PixelShuffle(2)), image(8))
    case("conv_1d", lambda: nn.Conv1d(5, 4, 3, padding="same"), sequence())
    case("conv_3d", lambda: nn.Conv3d(2, 3, 2), lambda: (torch.randn(1, 2, 4, 4, 4),))
    case("residual", Residual, image(8, 4), dynamic=True)
    case("residual_scripted", Residual, image(8, 4), how="script")
    for causal in (False, True):
        case(f"attention_{causal}", lambda c=causal: Attention(False, c), sequence(), dynamic=True)
        case(f"fused_{causal}", lambda c=causal: Attention(True, c), sequence(), dynamic=True)
    case("fused_core", lambda: Attention(True), sequence(), core=True)
    encoder = lambda **k: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, **k)
    case("encoder_layer", encoder, sequence())
    case("encoder_first", lambda: encoder(norm_first=True, activation="gelu"), sequence())
    case(
        "encoder",
        lambda: nn.TransformerEncoder(encoder(), 2, enable_nested_tensor=False),
        sequence(),
    )
    case("lstm", lambda: Recurrent(nn.LSTM), tokens(), dynamic=True)
    case("lstm_deep", lambda: Recurrent(nn.LSTM, num_layers=2, bidirectional=True), tokens())
    case("lstm_scripted", lambda: Recurrent(nn.LSTM), tokens(), how="script")
    case("lstm_core", lambda: Recurrent(nn.LSTM), tokens(), core=True)
    case("gru", lambda: Recurrent(nn.GRU, dropout=0.2, num_layers=2), tokens())
    case("rnn", lambda: Recurrent(nn.RNN), tokens())
    case("lstm_cell", lambda: Cells(nn.LSTMCell), sequence(), dynamic=True)
    case("gru_cell", lambda: Cells(nn.GRUCell), sequence())
    case("embedding", lambda: nn.Sequential(nn.Embedding(20, 6, padding_idx=0)), tokens())
    case("tied", Tied, tokens(), dynamic=True)
    for mode in ("sum", "mean", "max"):
        case(f"bag_{mode}", lambda m=mode: Bags(m), tokens())
    case("counting", Counting, rows())
    case("counting_core", Counting, rows(), core=True)
    case("several", Several, rows(), dynamic=True)
    case("double", mlp(nn.Tanh()), rows(), dtype=torch.float64)
    case("bfloat16", mlp(nn.Tanh()), rows(), dtype=torch.bfloat16)
    case("half", mlp(nn.ReLU()), rows(), dtype=torch.float16)
    functions = {
        "index": lambda x: (x[:, 1:3] * 2, x[..., None].expand(-1, -1, 2), x.roll(1, 1)),
        "masked": lambda x: torch.where(x > 0, x, -x).clamp(max=1.5).masked_fill(x > 1, 0.5),
        "norms": lambda x: (x.norm(dim=1), x.std(0), x.var(1), torch.logsumexp(x, 1)),
        "sorted": lambda x: (x.sort(1)[0], x.topk(2)[1], x.argmax(1), x.cumsum(1)),
        "einsum": lambda x: torch.einsum("ij,kj->ik", x, x.exp()) @ x,
        "inplace": lambda x: x.clone().add_(1).mul_(x).relu_(),
    }
    for name, function in functions.items():
        case(f"function_{name}", lambda f=function: Function(f), rows())


def declare_packages():
    """The rows of torchvision and transformers, where these are installed."""
    try:
        from torchvision import models
    except ImportError:
        models = None
    names = ("resnet18", "mobilenet_v3_small", "shufflenet_v2_x0_5", "squeezenet1_1")
    for name in names if models else ():
        case(name, lambda n=name: getattr(models, n)(num_classes=5), image(64))
    try:
        import transformers as hf
    except ImportError:
        return
    small = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "vocab_size": 20}
    small["intermediate_size"] = 32
    case("bert", lambda: First(hf.BertModel(hf.BertConfig(**small, return_dict=False))), tokens())
    gpt2 = {"n_embd": 16, "n_layer": 2, "n_head": 2, "vocab_size": 20, "use_cache": False}
    case("gpt2", lambda: First(hf.GPT2Model(hf.GPT2Config(**gpt2, return_dict=False))), tokens())


def draw_statistics(model):
    """Running statistics other than the initial ones."""
    for name, buffer in model.named_buffers():
        if name.endswith("running_mean"):
            buffer.normal_()
        elif name.endswith("running_var"):
            buffer.uniform_(0.5, 2)


def write(folder, name):
    """Both files of a row, without paths of this machine."""
    write_both(folder, name)
    neutralise(folder / "old" / f"{name}.pt")
    neutralise(folder / "new" / f"{name}.pt2")


def write_both(folder, name):
    """Both files of a row, as PyTorch writes them."""
    build, inputs, how, dynamic, core, dtype = CASES[name]
    torch.manual_seed(SEED)
    model, example = build().eval(), inputs()
    draw_statistics(model)
    if dtype is not None:
        model, example = model.to(dtype), tuple(x.to(dtype) for x in example)
    with torch.no_grad():
        copies = tuple(x.clone() for x in example)
        state = {key: value.clone() for key, value in model.state_dict().items()}
        shapes = tuple({0: BATCH} for _ in example) if dynamic else None
        if isinstance(model, Function) or len(example) > 1:
            shapes = None
        program = torch.export.export(model, copies, dynamic_shapes=shapes, strict=False)
        program = program.run_decompositions() if core else program
        torch.export.save(program, str(folder / "new" / f"{name}.pt2"))
        model.load_state_dict(state)
        if how == "trace":
            old = torch.jit.trace(model, example, check_trace=False)
        else:
            old = torch.jit.script(model)
            old = torch.jit.freeze(old) if how == "freeze" else old
        # Tracing runs the model, which may write to its buffers.
        if how != "freeze":
            old.load_state_dict(state)
        old.save(str(folder / "old" / f"{name}.pt"))


def main():
    """The command."""
    options = [word for word in sys.argv[1:] if word.startswith("--jitopt=")]
    words = [word for word in sys.argv[1:] if word not in options]
    declare()
    declare_packages()
    if not words or not set(words[1:]) <= set(CASES):
        sys.exit(__doc__ + "\nNames: " + " ".join(CASES))
    folder = pathlib.Path(words[0])
    for kind in ("old", "new"):
        (folder / kind).mkdir(parents=True, exist_ok=True)
    written = 0
    for name in words[1:] or CASES:
        try:
            write(folder, name)
            written += 1
        except Exception as error:  # noqa: BLE001, what a release cannot save is no pair
            print(f"{name}: not saved: {str(error).splitlines()[0][:200]}")
            for kind, suffix in (("old", "pt"), ("new", "pt2")):
                (folder / kind / f"{name}.{suffix}").unlink(missing_ok=True)
    print(f"{written} pairs of {torch.__version__}")
    if options:
        jitopt = options[0].partition("=")[2]
        command = [jitopt, "validate", "--pairs", str(folder / "old"), str(folder / "new")]
        done = subprocess.run([*command, "--json", "--jobs=2"], capture_output=True, text=True)
        alarms = 0
        for line in done.stdout.splitlines():
            report = json.loads(line)
            if report.get("verdict") != "same":
                alarms += 1
                print(line[:600])
        count, notes = len(done.stdout.splitlines()), done.stderr.strip()[-300:]
        print(f"{count} validated, {alarms} false alarms; {notes}")


if __name__ == "__main__":
    main()
