"""Make `tests/model/fixtures` anew: `python tests/lavis/make_reference.py` in LAVIS' environment.

A test in this folder checks that LAVIS still computes the stored outputs.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from lavis.models.blip2_models.Qformer import BertConfig  # noqa: E402
from safetensors.torch import save_file  # noqa: E402

from hsfiq.model.encoders.lavis import Blip2, from_files  # noqa: E402
from hsfiq.model.encoders.lavis_model import LocalBlip2Qformer  # noqa: E402
from hsfiq.model.scorer.scorer import relevance  # noqa: E402
from tests.lavis.small_blip2 import WORDS as SOME_WORDS  # noqa: E402
from tests.model.encoders.lavis_reference import ABOUT, SMALL, TENSORS, VIT, write_lavis_files  # noqa: E402

SIGNS = "abcdefghijklmnopqrstuvwxyz0123456789.,'-!?/"
WORDS = [*SOME_WORDS, *(s for s in SIGNS if s not in SOME_WORDS), *(f"##{s}" for s in SIGNS[:36])]
WORDS = list(dict.fromkeys(WORDS))
BERT = {
    "hidden_size": 16,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "max_position_embeddings": 40,
    "vocab_size": len(WORDS),
    "hidden_dropout_prob": 0.1,
}
N_IMAGES = 2

TEXTS = [
    "is red",
    "",
    "has long sleeves and no logo",
    "is more striped than the blue shirt, and darker",
    " ".join(["red", "blue", "and", "green"] * 12),
    "Is RED, with É-shaped logos!",
]
ODD_TEXTS = [
    *("[DEC]", "a [DEC] shirt", "[SEP] red [PAD]", "[dec]", "<image> red", "[MASK]", "red [UNK]"),
    *("\t is \n red \x00\ufffd", "naïve café", "Straße", "İstanbul", "红色 dress", "a" * 120),
    *("red\u200bblue", "1,000.5", "can't", "long--sleeve", "🙂 red", "e\u0301", "\u00a0red"),
]


def random_texts(n: int) -> list[str]:
    """Strings with characters that a tokenizer may treat specially."""
    draw = random.Random(3)
    odd = "\u2018\u2019\u201c\u201d\u2013\u2014\u2026\u0301\u200d\u00ad"
    signs = [*SIGNS, *odd, *' \t ABCÉÅßñ中文한글ไทย`~@#$%^&*()[]{}<>|\\"', "##"]
    return ["".join(draw.choices(signs, k=draw.randint(1, 24))) for _ in range(n)]


def random_weights(folder: Path) -> dict[str, Tensor]:
    """The state of a model whose weights are large enough for every part to matter."""
    vocabulary = folder / "vocab.txt"
    vocabulary.write_text("\n".join(WORDS) + "\n", encoding="utf-8")
    lavis = LocalBlip2Qformer(SMALL.vit, BertConfig(**BERT), vocabulary)
    for parameter in lavis.parameters():
        parameter.data += 0.1 * torch.randn(parameter.shape)
    lavis.temp.data.fill_(0.05)
    return {
        name: tensor.clone().half() if name.startswith(VIT) else tensor.clone()
        for name, tensor in lavis.state_dict().items()
    }


def word_ids(blip2: Blip2, texts: list[str]) -> list[list[int]]:
    """Each text's token ids, truncated as in a query."""
    ids: list[list[int]] = blip2.lavis.tokenizer(
        texts, truncation=True, max_length=blip2.lavis.max_txt_len
    ).input_ids
    return ids


@torch.no_grad()
def computed(blip2: Blip2, pixels: Tensor, texts: list[str]) -> dict[str, Tensor]:
    """LAVIS' outputs for the inputs."""
    blip2.eval()
    tokens = blip2.image_tokens(pixels)
    references = tokens[torch.arange(len(texts)) % len(tokens)]
    query, gallery = blip2.compose(references, texts), blip2.gallery(tokens)
    scores = relevance(query, gallery, "max", chunk=8)
    return {"tokens": tokens, "gallery": gallery, "query": query, "scores": scores}


def trained(blip2: Blip2) -> list[str]:
    """The names of the trained parameters."""
    return sorted(name for name, parameter in blip2.named_parameters() if parameter.requires_grad)


def main() -> None:
    """Write both files."""
    torch.manual_seed(11)
    torch.set_num_threads(1)
    size = SMALL.vit.size
    pixels = torch.randn(N_IMAGES, 3, size, size).half()
    with tempfile.TemporaryDirectory() as folder:
        weights = random_weights(Path(folder))
        write_lavis_files(Path(folder) / "lavis", weights, BERT, WORDS)
        blip2 = from_files(SMALL, Path(folder) / "lavis")
    texts = [*TEXTS, *ODD_TEXTS, *random_texts(60)]
    description: dict[str, Any] = {
        "versions": {name: version(name) for name in ("salesforce-lavis", "transformers", "torch")},
        "ln_vision_eps": blip2.lavis.ln_vision.eps,
        "frozen_id": blip2.frozen_id(),
        "trained": trained(blip2),
        "bert": BERT,
        "words": WORDS,
        "texts": TEXTS,
        "tokenized": [list(pair) for pair in zip(texts, word_ids(blip2, texts), strict=True)],
    }
    tensors = {f"weights/{name}": weight for name, weight in weights.items()}
    tensors["inputs/pixels"] = pixels
    outputs = computed(blip2, pixels.float(), TEXTS)
    tensors |= {f"outputs/{name}": output.contiguous() for name, output in outputs.items()}
    TENSORS.parent.mkdir(exist_ok=True)
    save_file(tensors, TENSORS)
    TENSORS.chmod(0o644)
    ABOUT.write_text(json.dumps(description, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
