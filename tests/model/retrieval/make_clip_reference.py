"""Make `tests/model/fixtures/clip_small*` anew: what open_clip computes with a small CLIP.

It needs an environment with open_clip_torch 3.3 and the torchvision of its torch, for example
LAVIS' (`make test-lavis`) with open_clip_torch, timm and ftfy installed without dependencies.
"""

from __future__ import annotations

import gzip
import json
import random
from importlib.metadata import version
from pathlib import Path
from typing import Any

import open_clip
import torch
from open_clip.tokenizer import SimpleTokenizer
from safetensors.torch import save_file

FOLDER = Path(__file__).parents[1] / "fixtures"
MERGED = "is has red blue green striped shirt sleeves longer shorter darker with and more the a"
SIZES = {
    "embed_dim": 8,
    "quick_gelu": True,
    "vision_cfg": {"image_size": 64, "layers": [1, 2, 1, 1], "width": 4, "patch_size": None},
    "text_cfg": {"context_length": 16, "width": 16, "heads": 2, "layers": 2},
}
TEXTS = [
    "is red",
    "",
    "Has LONGER sleeves, and it's more striped than the blue shirt",
    "a darker shirt &amp; shorter sleeves",
    "red blue green " * 12,
]
ODD_TEXTS = [
    *("\t is \n red  ", "naïve café", "Straße", "红色 dress", "a" * 40, "can't won't I'd we're"),
    *("1,000.5", "long--sleeve", "e\u0301", "\u00a0red", "🙂 red", "it 's"),
    *("A&amp;B &amp;amp; &lt;C&gt;", "red.", "(red)", "it\u2019s \u201cred\u201d"),
]


def merges_of(words: str) -> list[str]:
    """Merges that join each word from its start to its end."""
    merges: list[str] = []
    for word in words.split():
        parts = [*word[:-1], f"{word[-1]}</w>"]
        while len(parts) > 1:
            merges.append(" ".join(parts[:2]))
            parts[:2] = ["".join(parts[:2])]
    return list(dict.fromkeys(merges))


def random_texts(n: int) -> list[str]:
    """Texts of letters, digits and signs, without characters that ftfy replaces."""
    draw = random.Random(5)
    signs = "abcdefghijklmnopqrstuvwxyzABCXYZ0123456789 .,'-!?/éßñ中ไ#$%()[]~`^"
    return ["".join(draw.choices(signs, k=draw.randint(1, 24))) for _ in range(n)]


def word_ids(tokenizer: SimpleTokenizer, texts: list[str]) -> list[list[int]]:
    """Each text's ids, cut to the context length, without padding."""
    ids = tokenizer(texts, context_length=SIZES["text_cfg"]["context_length"])
    ends = [row.tolist().index(tokenizer.eot_token_id) + 1 for row in ids]
    return [row[:end].tolist() for row, end in zip(ids, ends, strict=True)]


@torch.no_grad()
def main() -> None:
    """Write the three files."""
    torch.manual_seed(7)
    torch.set_num_threads(1)
    file = FOLDER / "clip_small_merges.txt.gz"
    lines = ["the first line is a comment", *merges_of(MERGED)]
    file.write_bytes(gzip.compress("\n".join(lines).encode(), mtime=0))
    tokenizer = SimpleTokenizer(str(file))
    text_cfg: dict[str, Any] = {**SIZES["text_cfg"], "vocab_size": tokenizer.vocab_size}
    clip = open_clip.CLIP(**{**SIZES, "text_cfg": text_cfg}).eval()
    for name, tensor in clip.state_dict().items():
        if name.endswith("running_var"):
            tensor.uniform_(0.5, 2)
        elif tensor.is_floating_point():
            tensor.add_(0.1 * torch.randn(tensor.shape))
        tensor.copy_(tensor.half())  # the file holds fp16
    pixels = torch.randn(3, 3, 64, 64).half().float()
    weights = {f"weights/{name}": tensor.contiguous() for name, tensor in clip.state_dict().items()}
    ids = tokenizer(TEXTS, context_length=text_cfg["context_length"])
    outputs = {
        "inputs/pixels": pixels,
        "outputs/image": clip.encode_image(pixels),
        "outputs/text": clip.encode_text(ids),
    }
    halves = {
        name: tensor.half() if tensor.is_floating_point() else tensor
        for name, tensor in weights.items()
    }
    path = FOLDER / "clip_small.safetensors"
    save_file(halves | outputs, path)
    path.chmod(0o644)
    texts = [*TEXTS, *ODD_TEXTS, *random_texts(60)]
    about = {
        "versions": {name: version(name) for name in ("open_clip_torch", "torch")},
        "words": tokenizer.vocab_size,
        "texts": TEXTS,
        "sizes": {**SIZES, "text_cfg": text_cfg},
        "tokenized": list(zip(texts, word_ids(tokenizer, texts), strict=True)),
    }
    (FOLDER / "clip_small.json").write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
