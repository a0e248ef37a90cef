"""Writes whole models with random weights, for `jitopt run`, `validate` and `bench`.

Usage: write_models.py FOLDER [NAME…]

For each model the folder gets `NAME.pt`, a TorchScript archive with its weights,
`NAME.inputs.safetensors`, which `jitopt` finds by its name, and `NAME.expected.safetensors`, what
PyTorch computes on one thread:

    jitopt run FOLDER/NAME.pt --expect=FOLDER/NAME.expected.safetensors

The usual tolerances of float32 are too narrow for two of them: coordinates of `box_head` are
pixels, whose last place is above 1e-5 (`--atol=1e-4`), and rounding in the 50 layers of `resnet50`
adds up to 2e-6 of the largest results (`--rtol=1e-5 --atol=1e-3`).

Packages: torch 2.15 with torchvision and transformers, whose layers the models are made of;
`models.json` names the versions, the configuration, the sizes and the element type of each.
Weights and inputs come from a fixed seed, all float32. Running statistics of batch norms are drawn
too: the initial ones, 0 and 1, would hide a norm that is folded wrongly.
"""

import json
import pathlib
import sys

import safetensors.torch
import torch
import torchvision
import transformers

from neutral_paths import neutralise

SEED = 20
IMAGE = (1, 3, 224, 224)
TRANSFORMER = {"layers": 4, "width": 256, "heads": 4, "vocabulary": 1000, "tokens": 64}


def image_model(build, shape=IMAGE):
    """A model of torchvision that classifies an image."""
    return lambda: (build(), (torch.randn(shape),))


def small_vit():
    """The small vision transformer: 12 layers of width 384, patches of 16."""
    return torchvision.models.VisionTransformer(
        image_size=224, patch_size=16, num_layers=12, num_heads=6, hidden_dim=384, mlp_dim=1536
    )


class FirstResult(torch.nn.Module):
    """A model that returns a tensor, where the one inside returns a record."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, tokens):
        return self.model(tokens, return_dict=False)[0]


def language_model(build):
    """A transformer that reads tokens."""

    def make():
        t = TRANSFORMER
        return FirstResult(build(t)), (torch.randint(t["vocabulary"], (1, t["tokens"])),)

    return make


def bert(t):
    """The encoder of BERT."""
    return transformers.BertModel(
        transformers.BertConfig(
            vocab_size=t["vocabulary"], hidden_size=t["width"], num_hidden_layers=t["layers"],
            num_attention_heads=t["heads"], intermediate_size=4 * t["width"],
            attn_implementation="eager",
        )
    )


def gpt2(t):
    """The decoder GPT2, with its language model head and no kept keys."""
    return transformers.GPT2LMHeadModel(
        transformers.GPT2Config(
            vocab_size=t["vocabulary"], n_embd=t["width"], n_layer=t["layers"],
            n_head=t["heads"], n_positions=t["tokens"], use_cache=False,
            attn_implementation="eager",
        )
    )


def t5(t):
    """The encoder of T5."""
    return transformers.T5EncoderModel(
        transformers.T5Config(
            vocab_size=t["vocabulary"], d_model=t["width"], num_layers=t["layers"],
            num_heads=t["heads"], d_kv=t["width"] // t["heads"], d_ff=4 * t["width"],
            attn_implementation="eager",
        )
    )


class LstmLanguageModel(torch.nn.Module):
    """Embeds tokens, runs an LSTM cell over them in a loop, and scores the next token."""

    def __init__(self, vocabulary: int, width: int):
        super().__init__()
        self.width = width
        self.embedding = torch.nn.Embedding(vocabulary, width)
        self.cell = torch.nn.LSTMCell(width, width)
        self.head = torch.nn.Linear(width, vocabulary)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens)
        h = torch.zeros(tokens.size(1), self.width)
        c = torch.zeros(tokens.size(1), self.width)
        states = []
        for i in range(tokens.size(0)):
            gates = torch.nn.functional.linear(x[i], self.cell.weight_ih, self.cell.bias_ih)
            gates = gates + torch.nn.functional.linear(h, self.cell.weight_hh, self.cell.bias_hh)
            write, forget, new, read = gates.chunk(4, 1)
            c = torch.sigmoid(forget) * c + torch.sigmoid(write) * torch.tanh(new)
            h = torch.sigmoid(read) * torch.tanh(c)
            states.append(h)
        return self.head(torch.stack(states))


def lstm():
    """32 steps of a batch of 4. Its loop stays a loop: it is scripted, not traced."""
    model = LstmLanguageModel(1000, 128)
    return torch.jit.script(model.eval()), (torch.randint(1000, (32, 4)),)


class BoxHead(torch.nn.Module):
    """What Faster R-CNN does with the scores and deltas of its boxes, before it selects any."""

    def __init__(self):
        super().__init__()
        self.coder = torchvision.models.detection._utils.BoxCoder((10.0, 10.0, 5.0, 5.0))

    def forward(self, scores, deltas, boxes):
        found = self.coder.decode_single(deltas, boxes)
        found = torch.stack([found[:, 0::4], found[:, 1::4], found[:, 2::4], found[:, 3::4]], 2)
        return torch.softmax(scores, -1), torchvision.ops.clip_boxes_to_image(found, (800, 1216))


def box_head(boxes=1000, classes=91):
    """Boxes inside an image of 800 x 1216."""
    corner = torch.rand(boxes, 2) * 600
    ends = torch.cat([corner, corner + 1 + torch.rand(boxes, 2) * 200], 1)
    return BoxHead(), (torch.randn(boxes, classes), torch.randn(boxes, 4 * classes), ends)


TV = torchvision.models
MODELS = {
    "resnet18": ("torchvision resnet18, image 1x3x224x224", image_model(TV.resnet18)),
    "resnet50": ("torchvision resnet50, image 1x3x224x224", image_model(TV.resnet50)),
    "resnet50_batch8": (
        "torchvision resnet50, images 8x3x224x224",
        image_model(TV.resnet50, (8, 3, 224, 224)),
    ),
    "mobilenet_v3_small": (
        "torchvision mobilenet_v3_small, image 1x3x224x224",
        image_model(TV.mobilenet_v3_small),
    ),
    "vit_small": (
        "torchvision VisionTransformer, 12 layers of 384, 6 heads, patches of 16, 1x3x224x224",
        image_model(small_vit),
    ),
    "convnext_tiny": (
        "torchvision convnext_tiny, image 1x3x224x224",
        image_model(TV.convnext_tiny),
    ),
    "bert": ("transformers BertModel, 4 layers of 256, 4 heads, 64 tokens", language_model(bert)),
    "gpt2": (
        "transformers GPT2LMHeadModel, 4 layers of 256, 4 heads, 64 tokens",
        language_model(gpt2),
    ),
    "t5_encoder": (
        "transformers T5EncoderModel, 4 layers of 256, 4 heads, 64 tokens",
        language_model(t5),
    ),
    "lstm": ("an LSTM cell of width 128 in a loop of 32 steps, batch 4, 1000 words", lstm),
    "box_head": ("torchvision BoxCoder, 1000 boxes of 91 classes, softmax, clipping", box_head),
}


# Where the usual ones of float32 are too narrow, see above.
TOLERANCES = {
    "box_head": {"atol": 1e-4},
    "resnet50": {"rtol": 1e-5, "atol": 1e-3},
    "resnet50_batch8": {"rtol": 1e-5, "atol": 1e-3},
}


def draw_statistics(model):
    """Gives batch norms other statistics, weights and biases than the initial ones."""
    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.running_mean.normal_(0, 0.1)
            module.running_var.uniform_(0.5, 1.5)
            torch.nn.init.uniform_(module.weight, 0.5, 1.5)
            torch.nn.init.normal_(module.bias, 0, 0.1)


def write(folder, name):
    """Writes one model; returns what `models.json` says of it."""
    text, make = MODELS[name]
    torch.manual_seed(SEED)
    model, inputs = make()
    with torch.no_grad():
        if not isinstance(model, torch.jit.ScriptModule):
            draw_statistics(model.eval())
            model = torch.jit.trace(model, inputs, check_trace=False)
        expected = model(*inputs)
    expected = expected if isinstance(expected, tuple) else (expected,)
    keys = ["out"] if len(expected) == 1 else [f"out.{i}" for i in range(len(expected))]
    model.save(str(folder / f"{name}.pt"))
    neutralise(folder / f"{name}.pt")
    given = {f"in{i}": tensor.contiguous() for i, tensor in enumerate(inputs)}
    results = {key: tensor.contiguous() for key, tensor in zip(keys, expected)}
    safetensors.torch.save_file(given, str(folder / f"{name}.inputs.safetensors"))
    safetensors.torch.save_file(results, str(folder / f"{name}.expected.safetensors"))
    parameters = sum(tensor.numel() for tensor in model.parameters())
    about = {"model": text, "dtype": "float32", "parameters": parameters, "seed": SEED}
    return about | TOLERANCES.get(name, {})


def main():
    """The command."""
    if len(sys.argv) < 2 or not set(sys.argv[2:]) <= set(MODELS):
        sys.exit(__doc__ + "\nNames: " + " ".join(MODELS))
    torch.set_num_threads(1)
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    versions = {p.__name__: p.__version__ for p in (torch, torchvision, transformers)}
    made = {name: write(folder, name) for name in sys.argv[2:] or MODELS}
    (folder / "models.json").write_text(json.dumps({"packages": versions, "models": made}, indent=1))


if __name__ == "__main__":
    main()
