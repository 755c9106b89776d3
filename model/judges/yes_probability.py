"""The probability with which a vision-language model answers "yes" (VQAScore-style).

Lin et al. 2024, "Evaluating Text-to-Visual Generation with Image-to-Text Generation" (ECCV, arXiv
2404.01291): P("Yes" | image, question), with the question as the prompt. Models of transformers
that read images and write text, loaded from a folder.
"""

from __future__ import annotations

import inspect
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, Final

import torch
from PIL import Image
from torch import Tensor

from hsfiq.errors import UnreadableInput
from hsfiq.model.encoders.towers import SETTINGS, VOCABULARY, WEIGHTS, digest_of
from hsfiq.model.image_tokens import open_image
from hsfiq.model.judges.judge import Answer, Asks, Judge, JudgePrompt, Question
from hsfiq.model.token_files import dtype_name

FILES = (*WEIGHTS, *SETTINGS, *VOCABULARY, "processor_config.json", "chat_template*", "*.jinja")
YES: Final = ("Yes", " Yes", "yes", " yes", "YES")
NO: Final = ("No", " No", "no", " no", "NO")
FEATURES_APART: Final = ("llava", "paligemma")
"""Models whose images can be encoded apart; others encode the images of each batch."""
MOST_BYTES = 4 * 2**30
"""Of features of images that are kept, so that an image is not encoded again."""


class YesProbability(Judge):
    """Scores an image by P(yes): the sum over the single tokens of `YES` that there are."""

    asks: Asks = "images"
    batch = 8
    method: ClassVar[str] = "P(yes) of the next token (VQAScore-style, after arXiv 2404.01291)"

    def __init__(self, folder: Path, prompt: JudgePrompt, device: torch.device) -> None:
        self.name, self._prompt, self._device = f"vqascore:{folder.name}", prompt, device
        if prompt.asks != "images":
            what = f"asks about {prompt.asks}, not about images"
            raise UnreadableInput(prompt.name, what, "use --prompt change or vqascore")
        self.reads_reference = prompt.reference is not None
        self._model, self._processor = load(folder, f"vqascore:{folder}", device)
        self._sha256 = digest_of(folder, FILES)
        tokenizer = self._processor.tokenizer
        tokenizer.padding_side = "left"  # so that the last place of each row is the answer's
        self._yes, self._no = (single_tokens(tokenizer, words) for words in (YES, NO))
        if not self._yes:
            raise UnreadableInput(f"vqascore:{folder}", "its tokenizer has no single token for Yes")
        forward = inspect.signature(self._model.forward).parameters
        self._takes_features = (
            self._model.config.model_type in FEATURES_APART and "mm_encoder_outputs" in forward
        )
        self._features, self._wants_list = FeatureMemo(MOST_BYTES), False

    def identity(self) -> Mapping[str, Any]:
        return {
            "formula": self.method,
            "prompt": self._prompt.to_json(),
            "model_sha256": self._sha256,
            "precision": dtype_name(self._model.dtype),
        }

    @torch.inference_mode()
    def answer(self, questions: Sequence[Question]) -> Sequence[Answer]:
        files = [self._files(question) for question in questions]
        pictures = {path: read_rgb(path) for each in files for path in each}
        inputs = self._processor(
            text=[
                self._text(question, len(each))
                for question, each in zip(questions, files, strict=True)
            ],
            images=[[pictures[path] for path in each] for each in files],
            padding=True,
            return_tensors="pt",
        ).to(self._device, dtype=self._model.dtype)
        logits = self._model(**self._with_features(inputs, files)).logits[:, -1]
        probabilities = logits.float().softmax(dim=1).cpu()
        yes, no = (probabilities[:, ids].sum(dim=1).tolist() for ids in (self._yes, self._no))
        return [Answer(p, raw={"yes": p, "no": q}) for p, q in zip(yes, no, strict=True)]

    def _files(self, question: Question) -> list[Path]:
        image = question.sets[0][0]
        return [image] if question.reference is None else [question.reference, image]

    def _text(self, question: Question, n_images: int) -> str:
        prompt, parts = self._prompt, []
        labels = [prompt.reference, prompt.set] if n_images == 2 else [prompt.set]
        for label in labels:
            if label is not None:
                parts.append({"type": "text", "text": label.replace("{number}", "1")})
            parts.append({"type": "image"})
        parts.append({"type": "text", "text": prompt.filled(question.text).strip()})
        if self._processor.chat_template is not None:
            turns = [{"role": "user", "content": parts}]
            text: str = self._processor.apply_chat_template(turns, add_generation_prompt=True)
            return text
        token = getattr(self._processor, "image_token", "<image>")
        return "\n".join(part.get("text", token) for part in parts)

    def _with_features(self, inputs: Any, files: Sequence[Sequence[Path]]) -> dict[str, Any]:
        """The inputs, with the features of images in place of pixels where the model takes them."""
        arguments: dict[str, Any] = dict(inputs)
        images = [path for each in files for path in each]
        pixels = arguments.get("pixel_values")
        if not self._takes_features or pixels is None or len(pixels) != len(images):
            return arguments
        rows = {path: row for row, path in enumerate(images)}
        new = [path for path in rows if path not in self._features]
        if new:
            chosen = pixels[[rows[path] for path in new]]
            computed = self._model.get_image_features(pixel_values=chosen).pooler_output
            self._wants_list = isinstance(computed, list)
            for path, features in zip(new, computed, strict=True):
                self._features.put(path, features)
        kept = [self._features.get(path) for path in images]
        self._features.shrink()
        del arguments["pixel_values"]
        stacked = kept if self._wants_list else torch.stack(kept)
        return {
            **arguments,
            "mm_encoder_outputs": {"image": SimpleNamespace(pooler_output=stacked)},
        }


class FeatureMemo:
    """Features of images by file; of more than `most_bytes`, those used longest ago are dropped."""

    def __init__(self, most_bytes: int) -> None:
        self._most, self._bytes = most_bytes, 0
        self._kept: OrderedDict[Path, Tensor] = OrderedDict()

    def __contains__(self, path: Path) -> bool:
        return path in self._kept

    def put(self, path: Path, features: Tensor) -> None:
        self._kept[path] = features
        self._bytes += features.nbytes

    def get(self, path: Path) -> Tensor:
        self._kept.move_to_end(path)
        return self._kept[path]

    def shrink(self) -> None:
        while self._bytes > self._most and self._kept:
            _, dropped = self._kept.popitem(last=False)
            self._bytes -= dropped.nbytes


def load(folder: Path, where: str, device: torch.device) -> tuple[Any, Any]:
    """The model and its processor. UnreadableInput if the folder holds none that can be used."""
    if not (folder / "config.json").is_file():
        raise UnreadableInput(
            where, f"{folder} has no config.json", "name the folder of a transformers model"
        )
    try:
        from transformers import AutoModelForImageTextToText, AutoProcessor  # noqa: PLC0415
        from transformers.utils.logging import disable_progress_bar  # noqa: PLC0415
    except ImportError:
        raise UnreadableInput(where, "needs transformers", "pip install 'hsfiq[hf]'") from None
    disable_progress_bar()  # type: ignore[no-untyped-call]
    is_bf16 = device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
    try:
        model: Any = AutoModelForImageTextToText.from_pretrained(
            folder, local_files_only=True, dtype=torch.bfloat16 if is_bf16 else torch.float32
        )
        read_processor: Any = AutoProcessor.from_pretrained
        processor = read_processor(folder, local_files_only=True)
    except (OSError, ValueError, KeyError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise UnreadableInput(where, f"cannot be loaded ({reason})") from error
    if model.config.is_encoder_decoder:
        what = "is an encoder-decoder, which is not supported"
        raise UnreadableInput(where, what, "use a model such as LLaVA")
    return model.eval().to(device), processor


def single_tokens(tokenizer: Any, words: Sequence[str]) -> list[int]:
    """The ids of those words that are one known token."""
    ids = [tokenizer.encode(word, add_special_tokens=False) for word in words]
    return sorted({each[0] for each in ids if len(each) == 1} - {tokenizer.unk_token_id})


def read_rgb(path: Path) -> Image.Image:
    with open_image(path) as image:
        return image.convert("RGB")
