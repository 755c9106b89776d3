"""CLIPScore: w * max(cos, 0) of an image's and a text's vector, with w = 2.5.

Hessel et al. 2021, "CLIPScore: A Reference-free Evaluation Metric for Image Captioning" (EMNLP,
arXiv 2104.08718), equation 1; texts begin with "A photo depicts", as there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, ClassVar, Final

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 -- the usual name

from hsfiq.model.encoders.towers import load_towers
from hsfiq.model.image_tokens import open_image
from hsfiq.model.judges.judge import Answer, Asks, Judge, Question

WEIGHT: Final = 2.5
PREFIX: Final = "A photo depicts "
THREADS = 4
"""That decode and prepare images, for each call of `answer`."""


class ClipScore(Judge):
    """Scores an image by the text alone; no vector is computed twice."""

    asks: Asks = "images"
    reads_reference = False
    batch = 64
    method: ClassVar[str] = f"{WEIGHT} * max(cosine, 0) (CLIPScore, arXiv 2104.08718, eq. 1)"

    def __init__(self, folder: Path, device: torch.device) -> None:
        is_open_clip = (folder / "open_clip_config.json").is_file()
        self.library = "openclip" if is_open_clip else "hf"
        self._towers = load_towers(self.library, folder).eval().to(device)
        self._device = device
        self.name = f"clipscore:{folder.name}"
        self._images: dict[Path, Tensor] = {}
        self._texts: dict[str, Tensor] = {}

    def identity(self) -> Mapping[str, Any]:
        return {
            "formula": self.method,
            "prefix": PREFIX,
            "library": self.library,
            "model_sha256": self._towers.sha256,
        }

    @torch.inference_mode()
    def answer(self, questions: Sequence[Question]) -> Sequence[Answer]:
        images = [question.sets[0][0] for question in questions]
        texts = [f"{PREFIX}{question.text}" for question in questions]
        self._encode_images([each for each in dict.fromkeys(images) if each not in self._images])
        self._encode_texts([each for each in dict.fromkeys(texts) if each not in self._texts])
        first = torch.stack([self._images[image] for image in images])
        second = torch.stack([self._texts[text] for text in texts])
        cosines = (first * second).sum(dim=1)
        values = WEIGHT * cosines.clamp(min=0)
        return [
            Answer(value, raw={"cosine": cosine})
            for value, cosine in zip(values.tolist(), cosines.tolist(), strict=True)
        ]

    def _encode_images(self, paths: Sequence[Path]) -> None:
        if not paths:
            return
        with ThreadPoolExecutor(THREADS) as pool:
            pixels = torch.stack(list(pool.map(self._prepared, paths)))
        vectors = F.normalize(self._towers.image_vectors(pixels.to(self._device)), dim=1)
        self._images.update(zip(paths, vectors.cpu(), strict=True))

    def _encode_texts(self, texts: Sequence[str]) -> None:
        if texts:
            vectors = F.normalize(self._towers.text_vectors(texts), dim=1)
            self._texts.update(zip(texts, vectors.cpu(), strict=True))

    def _prepared(self, path: Path) -> Tensor:
        with open_image(path) as image:
            return self._towers.preprocessing(image)
