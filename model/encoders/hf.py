"""BLIP-2 with EVA ViT-g through transformers: the same model as through LAVIS, on any Python.

The same parts are frozen and trained, so features of one serve the other, and so do checkpoints
once their tensors are renamed (`hsfiq.model.encoders.hf_conversion`). transformers is imported
only when a model is built.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 -- the usual name

from hsfiq.errors import HsfiqError, UnreadableInput
from hsfiq.model.encoders import blip2_weights
from hsfiq.model.encoders.encoder import Preprocessing, normalise, pooled_query

if TYPE_CHECKING:
    from transformers import BertTokenizer, Blip2Config, Blip2ForImageTextRetrieval


# BLIP-2's tensors under LAVIS' names and under transformers' names.
#
# Three things differ besides the names. EVA's attention has a bias for queries and values but none
# for keys; transformers joins them into one tensor, with zeros between. LAVIS' state has a buffer
# of position ids. And transformers has neither the temperature nor the language model's head:
# `lavis_only` selects them.

VIT = "visual_encoder."
"""The prefix of the image encoder's tensors in LAVIS."""

HF_VIT = ("vision_model.embeddings.", "vision_model.encoder.")
"""The same in transformers; its `post_layernorm` is LAVIS' `ln_vision`, which is trained."""

LAVIS_ONLY_NAMES = ("temp", "Qformer.cls.")
"""Prefixes of LAVIS' names for which transformers has none."""

POSITION_IDS = "Qformer.bert.embeddings.position_ids"
_POSITIONS = "embeddings.position_embeddings.weight"

_TENSORS: Final = {
    "query_tokens": "query_tokens",
    "visual_encoder.cls_token": "vision_model.embeddings.class_embedding",
    "visual_encoder.pos_embed": "vision_model.embeddings.position_embedding",
    "visual_encoder.blocks.#.attn.qkv.weight": "vision_model.encoder.layers.#.self_attn.qkv.weight",
}
"""Tensors: the name in LAVIS and in transformers; `#` stands for a layer's number."""

_LAYER: Final = tuple(
    (f"{part}.self.{of}", f"{part}.attention.{of}")
    for part in ("attention", "crossattention")
    for of in ("query", "key", "value")
) + tuple(
    (name, name)
    for part in ("attention.output", "crossattention.output", "output", "output_query")
    for name in (f"{part}.dense", f"{part}.LayerNorm")
)
_MODULES: Final = {
    "visual_encoder.patch_embed.proj": "vision_model.embeddings.patch_embedding",
    "visual_encoder.blocks.#.norm1": "vision_model.encoder.layers.#.layer_norm1",
    "visual_encoder.blocks.#.norm2": "vision_model.encoder.layers.#.layer_norm2",
    "visual_encoder.blocks.#.attn.proj": "vision_model.encoder.layers.#.self_attn.projection",
    "visual_encoder.blocks.#.mlp.fc1": "vision_model.encoder.layers.#.mlp.fc1",
    "visual_encoder.blocks.#.mlp.fc2": "vision_model.encoder.layers.#.mlp.fc2",
    "ln_vision": "vision_model.post_layernorm",
    "Qformer.bert.embeddings.word_embeddings": "embeddings.word_embeddings",
    "Qformer.bert.embeddings.position_embeddings": "embeddings.position_embeddings",
    "Qformer.bert.embeddings.LayerNorm": "qformer.layernorm",
    **{f"Qformer.bert.encoder.layer.#.{a}": f"qformer.encoder.layer.#.{b}" for a, b in _LAYER},
    "Qformer.bert.encoder.layer.#.intermediate.dense": "qformer.encoder.layer.#.intermediate.dense",
    "Qformer.bert.encoder.layer.#.intermediate_query.dense": (
        "qformer.encoder.layer.#.intermediate_query.dense"
    ),
    "vision_proj": "vision_projection",
    "text_proj": "text_projection",
    "itm_head": "itm_head",
}
"""Modules with a weight, a bias or both: the name in LAVIS and in transformers."""

_TO_HF: Final = _TENSORS | {
    f"{lavis}.{parameter}": f"{hf}.{parameter}"
    for lavis, hf in _MODULES.items()
    for parameter in ("weight", "bias")
}
_TO_LAVIS: Final = {hf: lavis for lavis, hf in _TO_HF.items()}

_Q_BIAS = re.compile(r"visual_encoder\.blocks\.(\d+)\.attn\.q_bias")
_V_BIAS = re.compile(r"visual_encoder\.blocks\.(\d+)\.attn\.v_bias")
_QKV_BIAS = re.compile(r"vision_model\.encoder\.layers\.(\d+)\.self_attn\.qkv\.bias")
_NUMBER = re.compile(r"\.(\d+)\.")


def hf_name(name: str) -> str | None:
    """The name in transformers of a LAVIS tensor; None if it has no such tensor."""
    return _other(name, _TO_HF)


def lavis_names(name: str) -> tuple[str, ...]:
    """The LAVIS names of a transformers tensor: one, two for a joint bias, or none."""
    joint = _QKV_BIAS.fullmatch(name)
    if joint:
        return tuple(f"{VIT}blocks.{joint[1]}.attn.{letter}_bias" for letter in "qv")
    lavis_name = _other(name, _TO_LAVIS)
    return () if lavis_name is None else (lavis_name,)


def to_hf(tensors: Mapping[str, Tensor], where: str) -> dict[str, Tensor]:
    """Rename all or some of LAVIS' tensors to transformers' names, without those of `lavis_only`.

    UnreadableInput for a name that BLIP-2 with EVA's image encoder lacks, or half of a bias.
    """
    converted: dict[str, Tensor] = {}
    unknown = []
    for name, tensor in tensors.items():
        new_name = hf_name(name)
        if new_name is not None:
            converted[new_name] = tensor
        elif is_q := _Q_BIAS.fullmatch(name):
            v_bias = _required(f"{VIT}blocks.{is_q[1]}.attn.v_bias", tensors, where)
            joint = torch.cat([tensor, torch.zeros_like(tensor), v_bias])  # [3W]
            converted[f"vision_model.encoder.layers.{is_q[1]}.self_attn.qkv.bias"] = joint
        elif is_v := _V_BIAS.fullmatch(name):
            _required(f"{VIT}blocks.{is_v[1]}.attn.q_bias", tensors, where)
        elif name != POSITION_IDS and not name.startswith(LAVIS_ONLY_NAMES):
            unknown.append(name)
    _refuse(unknown, where, "LAVIS' BLIP-2 with EVA's image encoder")
    return converted


def lavis_only(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor for name, tensor in tensors.items() if name.startswith(LAVIS_ONLY_NAMES)}


def to_lavis(tensors: Mapping[str, Tensor], where: str) -> dict[str, Tensor]:
    """Rename all or some of transformers' tensors to LAVIS' names.

    UnreadableInput for a name that `Blip2ForImageTextRetrieval` lacks, or a bias for keys.
    """
    converted: dict[str, Tensor] = {}
    unknown = []
    for name, tensor in tensors.items():
        names = lavis_names(name)
        if len(names) == 2:
            q_bias, k_bias, v_bias = tensor.chunk(3)  # each [W]
            if k_bias.any():
                raise UnreadableInput(where, f"{name} has a bias for keys, and LAVIS has none")
            converted |= dict(zip(names, (q_bias.clone(), v_bias.clone()), strict=True))
        elif names:
            converted[names[0]] = tensor
        elif name != "embeddings.position_ids":  # from older versions of transformers
            unknown.append(name)
    _refuse(unknown, where, "transformers' Blip2ForImageTextRetrieval")
    if _POSITIONS in tensors:
        converted[POSITION_IDS] = torch.arange(len(tensors[_POSITIONS]))[None]  # [1, positions]
    return converted


def require_names(wanted: Iterable[str], tensors: Mapping[str, Tensor], where: str) -> None:
    missing = [name for name in wanted if name not in tensors]
    if missing:
        raise UnreadableInput(
            where, f"lacks {blip2_weights.first_two(missing)}", "use the file of this model"
        )


def _other(name: str, names: Mapping[str, str]) -> str | None:
    """A tensor's other name, whatever its layer's number."""
    number = _NUMBER.search(name)
    other = names.get(_NUMBER.sub(".#.", name, count=1))
    return other.replace("#", number[1]) if other and number else other


def _required(name: str, tensors: Mapping[str, Tensor], where: str) -> Tensor:
    require_names([name], tensors, where)
    return tensors[name]


def _refuse(unknown: list[str], where: str, model: str) -> None:
    if unknown:
        raise UnreadableInput(where, f"has {blip2_weights.first_two(unknown)}, unknown to {model}")


# The files of BLIP-2 in transformers' layout: their names, their source and their content.
#
# The folder is a copy of a repository of the Hugging Face hub. Nothing is downloaded: a message
# says what to fetch and where to put it.

REPOSITORY = "Salesforce/blip2-itm-vit-g"
URL = f"https://huggingface.co/{REPOSITORY}"

CONFIG = "config.json"
WEIGHTS, PARTS = "model.safetensors", "model.safetensors.index.json"
"""One file of tensors, or the list of several."""
VOCABULARY, TOKENIZER = "vocab.txt", "tokenizer.json"
"""Both hold the words; the first is preferred."""
LAVIS_ONLY = "lavis.safetensors"
"""Tensors that LAVIS has and transformers lacks: the temperature, and a head that no score uses."""

AGAIN = "download it again"


def usual_folder() -> Path:
    return blip2_weights.default_folder() / REPOSITORY.rpartition("/")[2]


def require_files(folder: Path) -> None:
    missing = [
        " or ".join(names)
        for names in ((CONFIG,), (WEIGHTS, PARTS), (VOCABULARY, TOKENIZER))
        if not any((folder / name).is_file() for name in names)
    ]
    if not missing and not (folder / WEIGHTS).is_file():
        missing = [name for name in parts(folder) if not (folder / name).is_file()]
    if missing:
        raise UnreadableInput(
            str(folder),
            f"blip2-hf lacks {', '.join(missing)} ({URL})",
            f"fetch them (hf download {REPOSITORY} --local-dir {folder}), convert LAVIS' files "
            "(hsfiq weights convert), or name the folder that has them with --weights",
        )


def parts(folder: Path) -> list[str]:
    """The files that the list of parts names."""
    files = read_json(folder / PARTS).get("weight_map")
    if not isinstance(files, dict) or not all(isinstance(file, str) for file in files.values()):
        raise UnreadableInput(str(folder / PARTS), "lists no files of tensors", AGAIN)
    return sorted({Path(name).name for name in files.values()})


def read_weights(folder: Path) -> dict[str, Tensor]:
    tensors: dict[str, Tensor] = {}
    for name in [WEIGHTS] if (folder / WEIGHTS).is_file() else parts(folder):
        tensors |= read_safetensors(folder / name)
    return tensors


def read_lavis_only(folder: Path) -> dict[str, Tensor]:
    """Read the tensors that only LAVIS has; none if the folder was not converted from its files."""
    file = folder / LAVIS_ONLY
    return read_safetensors(file) if file.is_file() else {}


def read_safetensors(file: Path) -> dict[str, Tensor]:
    try:
        return load_file(file)
    except (SafetensorError, OSError, ValueError) as error:
        raise UnreadableInput(
            str(file), f"is not a complete safetensors file ({type(error).__name__})", AGAIN
        ) from error


def vocabulary(folder: Path) -> list[str]:
    """The tokenizer's words in the order of their ids, without tokens added to BERT's."""
    if (folder / VOCABULARY).is_file():
        return blip2_weights.read_words(folder / VOCABULARY)
    file = folder / TOKENIZER
    model = read_json(file).get("model")
    ids = model.get("vocab") if isinstance(model, dict) else None
    if not isinstance(ids, dict) or sorted(ids.values()) != list(range(len(ids))):
        raise UnreadableInput(str(file), "holds no BERT vocabulary", AGAIN)
    return sorted(ids, key=ids.__getitem__)


def read_json(file: Path) -> dict[str, Any]:
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UnreadableInput(str(file), "is not a JSON file", AGAIN) from error
    if not isinstance(content, dict):
        raise UnreadableInput(str(file), "holds no JSON object", AGAIN)
    return content


# transformers' BLIP-2, built from local files instead of downloads.
#
# The functions import transformers, which takes some seconds.

LN_VISION_EPS = 1e-5
"""LAVIS' value, torch's default; transformers uses the image encoder's 1e-6 here too."""

N_QUERIES, DIM = 32, 256
"""Query tokens and dimensions, as LAVIS builds its `Blip2Qformer`."""

QFORMER = (
    *("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size"),
    *("hidden_act", "hidden_dropout_prob", "attention_probs_dropout_prob"),
    *("max_position_embeddings", "initializer_range", "layer_norm_eps", "pad_token_id"),
)
"""The settings that BERT and the Q-Former share."""


def require_transformers(model: str) -> None:
    """Raise HsfiqError for this model if transformers is not installed or has no BLIP-2."""
    try:
        from transformers import Blip2ForImageTextRetrieval  # noqa: F401, PLC0415 (an extra)
    except ImportError as error:
        raise HsfiqError(
            f"{model} needs transformers 5 ({error}): pip install 'hsfiq[hf]'"
        ) from error


def config_of(vit: blip2_weights.Vit, bert: Mapping[str, Any], n_words: int) -> Blip2Config:
    """The config of the model that LAVIS builds from an EVA image encoder and BERT's config.

    `n_words` counts the Q-Former's vocabulary: BERT's words and LAVIS' own.
    """
    from transformers import Blip2Config  # noqa: PLC0415 (an extra)

    qformer = {key: bert[key] for key in QFORMER if key in bert}
    return Blip2Config(
        vision_config={
            "hidden_size": vit.width,
            "intermediate_size": int(vit.width * blip2_weights.EVA_MLP_RATIO),
            "num_hidden_layers": vit.blocks,
            "num_attention_heads": vit.heads,
            "image_size": vit.size,
            "patch_size": blip2_weights.PATCH,
        },
        qformer_config={**qformer, "vocab_size": n_words, "use_qformer_text_input": True},
        num_query_tokens=N_QUERIES,
        image_text_hidden_size=DIM,
        architectures=["Blip2ForImageTextRetrieval"],
        dtype="float32",
    )


def read_config(folder: Path) -> Blip2Config:
    """Read the config of a BLIP-2 whose Q-Former takes texts; UnreadableInput otherwise."""
    from huggingface_hub.errors import StrictDataclassError  # noqa: PLC0415 (an extra)
    from transformers import Blip2Config  # noqa: PLC0415 (an extra)

    file = folder / CONFIG
    values = read_json(file)
    try:
        qformer = dict(values["qformer_config"])
        # Older versions call it `qformer_text_input`.
        takes_text = qformer.pop("qformer_text_input", False) or qformer.get(
            "use_qformer_text_input"
        )
        qformer["use_qformer_text_input"] = bool(takes_text)
        config: Blip2Config = Blip2Config.from_dict({**values, "qformer_config": qformer})
    except (StrictDataclassError, LookupError, ValueError, TypeError, AttributeError) as error:
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise UnreadableInput(str(file), f"is not a config of BLIP-2 ({reason})") from error
    if not takes_text:
        raise UnreadableInput(str(file), "describes a BLIP-2 whose Q-Former reads no text")
    vision: Any = config.vision_config
    if vision.patch_size != blip2_weights.PATCH or not isinstance(vision.image_size, int):
        raise UnreadableInput(
            str(file), f"has image patches that are not {blip2_weights.PATCH} pixels wide"
        )
    return config


def vit_of(config: Blip2Config) -> blip2_weights.Vit:
    vision: Any = config.vision_config
    return blip2_weights.Vit(
        "eva",
        size=vision.image_size,
        width=vision.hidden_size,
        blocks=vision.num_hidden_layers,
        heads=vision.num_attention_heads,
    )


def build(config: Blip2Config, where: str) -> Blip2ForImageTextRetrieval:
    """Build a model in fp32 that computes what LAVIS' does; its weights are uninitialised.

    Initialising those of ViT-g would take half a minute, for values that are never used. Raises
    UnreadableInput for sizes that do not fit together.
    """
    model = meta_model(config, where)
    model.to_empty(device="cpu")
    # The model's only buffer; no file holds it.
    positions: Any = model.embeddings.position_ids
    positions.copy_(torch.arange(positions.shape[1]))
    model.vision_model.post_layernorm.eps = LN_VISION_EPS
    return model


def shapes(config: Blip2Config, where: str) -> dict[str, torch.Tensor]:
    """The state of such a model, with shapes but no numbers; raises as `build`."""
    state: dict[str, torch.Tensor] = meta_model(config, where).state_dict()
    return state


def meta_model(config: Blip2Config, where: str) -> Blip2ForImageTextRetrieval:
    """The model on the meta device, without memory for its weights; raises as `build`."""
    from transformers import Blip2ForImageTextRetrieval  # noqa: PLC0415 (an extra)

    try:
        with torch.device("meta"):
            model = Blip2ForImageTextRetrieval(config)
    except (ValueError, TypeError, LookupError, ArithmeticError, RuntimeError) as error:
        reason = str(error).partition("\n")[0]
        raise UnreadableInput(where, f"is not a config of BLIP-2 ({reason})") from error
    nn.Module.to(model, torch.float32)  # a config may request parts in fp16
    return model


def tokenizer_of(words: Sequence[str]) -> BertTokenizer:
    """The tokenizer that LAVIS makes from BERT's words, with its additional token.

    The folder's own tokenizer settings are ignored: the published ones add `<image>` and put 32 of
    them before each text.
    """
    from transformers import BertTokenizer  # noqa: PLC0415 (an extra)

    tokenizer = BertTokenizer(vocab={word: i for i, word in enumerate(words)})
    tokenizer.add_special_tokens({"bos_token": "[DEC]"})
    return tokenizer


# BLIP-2 with EVA ViT-g through transformers: the same model as through LAVIS, on any Python.
#
# The same parts are frozen and trained, so features of one serve the other, and so do checkpoints
# once their tensors are renamed (`hsfiq.model.encoders.hf_conversion`). transformers is
# imported only when a model is built.

NAME = "blip2-hf"

TEMPERATURE = 0.07
"""LAVIS' initial value; transformers' model has none."""

MAX_TOKENS = 32
"""The longest text, with its first and last token: LAVIS' `max_txt_len`."""


class Blip2Hf(nn.Module):
    """The `blip2-hf` encoder; `hsfiq.model.encoders.encoder.Encoder` describes the methods.

    Only parameters that require gradients are trained; no buffer changes.
    """

    name = NAME

    def __init__(self, hf: Any, vit: blip2_weights.Vit, tokenizer: Any) -> None:
        """Wrap a `Blip2ForImageTextRetrieval` in fp32 and freeze what is not trained."""
        super().__init__()
        self.preprocessing = Preprocessing(size=vit.size)
        self.tokens_shape = vit.tokens_shape
        self.temperature = nn.Parameter(torch.tensor(TEMPERATURE))
        self.hf = hf
        self.tokenizer = tokenizer
        self._vit = vit
        self._frozen_id: str | None = None
        freeze(hf)

    def train(self, mode: bool = True) -> Blip2Hf:
        """Switch the trained part; the image encoder never uses dropout."""
        super().train(mode)
        self.hf.vision_model.eval()
        return self

    def frozen_id(self) -> str:
        """The sha256 of the image encoder's settings and weights, the same as through LAVIS."""
        if self._frozen_id is None:
            state = self.hf.state_dict()
            frozen = {name: state[name] for name in state if name.startswith(HF_VIT)}
            tensors = to_lavis(frozen, self.name)
            self._frozen_id = blip2_weights.frozen_id(
                self._vit, {name.removeprefix(VIT): tensors[name] for name in tensors}
            )
        return self._frozen_id

    def image_modules(self) -> Sequence[nn.Module]:
        return (self.hf.vision_model.embeddings, self.hf.vision_model.encoder)

    @torch.no_grad()
    def image_tokens(self, pixels: Tensor) -> Tensor:
        """Encode images: the tokens before the last norm, which is trained; returned as fp32.

        A GPU computes them in fp16, as LAVIS does, and a CPU in fp32, whatever autocast is on.
        """
        device, vision = pixels.device.type, self.hf.vision_model
        with torch.autocast(device, torch.float16, enabled=device != "cpu"):
            patches = vision.embeddings(pixels)  # [B, P, W]
            tokens: Tensor = vision.encoder(patches).last_hidden_state  # [B, P, W]
        return tokens.float()

    def clean_text(self, text: str) -> str:
        return normalise(text)

    def compose(self, tokens: Tensor, texts: Sequence[str]) -> Tensor:
        """Compose references and texts (QuRe section 3.1 and its code)."""
        if len(texts) != len(tokens):
            raise ValueError(f"{len(tokens)} references, but {len(texts)} texts")
        text = self.tokenizer(
            list(texts), padding=True, truncation=True, max_length=MAX_TOKENS, return_tensors="pt"
        ).to(tokens.device)
        query_mask = text.attention_mask.new_ones(len(tokens), self.hf.query_tokens.shape[1])
        mask = torch.cat([query_mask, text.attention_mask], dim=1)  # [B, L + T]
        states = self._states(tokens, text.input_ids, mask)
        projected: Tensor = self.hf.text_projection(states)  # [B, L, D]
        return pooled_query(projected.float())

    def gallery(self, tokens: Tensor) -> Tensor:
        projected: Tensor = self.hf.vision_projection(self._states(tokens))  # [B, L, D]
        return F.normalize(projected.float(), dim=-1)

    def _states(
        self, tokens: Tensor, word_ids: Tensor | None = None, mask: Tensor | None = None
    ) -> Tensor:
        """The query tokens' last states, with or without a text: [B, L, width].

        transformers' Q-Former expects queries and text already embedded together.
        """
        queries: Tensor = self.hf.query_tokens  # [1, L, width]
        n_queries = queries.shape[1]
        # LAVIS computes this norm in fp32, even under autocast.
        image = self.hf.vision_model.post_layernorm(tokens.to(queries.dtype))
        embedded = self.hf.embeddings(word_ids, query_embeds=queries.expand(len(tokens), -1, -1))
        output = self.hf.qformer(
            query_embeds=embedded,  # [B, L + T, width]
            query_length=n_queries,
            attention_mask=mask,
            encoder_hidden_states=image,
        )
        states: Tensor = output.last_hidden_state[:, :n_queries]
        return states


def load(folder: Path | None) -> Blip2Hf:
    """Load a model from a folder of transformers' layout; the usual folder if None."""
    folder = folder or usual_folder()
    require_files(folder)
    require_transformers("blip2-hf")
    config = read_config(folder)
    tokenizer = tokenizer_of(vocabulary(folder))
    qformer: Any = config.qformer_config
    n_words = qformer.vocab_size
    if len(tokenizer) > n_words:
        raise UnreadableInput(
            str(folder), f"its tokenizer has {len(tokenizer)} words, and its model {n_words}"
        )
    hf = build(config, str(folder / CONFIG))
    blip2_weights.fill(hf, read_weights(folder), folder / WEIGHTS)
    encoder = Blip2Hf(hf, vit_of(config), tokenizer)
    temperature = read_lavis_only(folder).get("temp")
    if temperature is not None:
        encoder.temperature.data.copy_(temperature)
    return encoder


def freeze(hf: Any) -> None:
    """Leave trainable only what a score depends on, as the encoder through LAVIS does."""
    vision, last_layer = hf.vision_model, hf.qformer.encoder.layer[-1]
    unused = (hf.itm_head, last_layer.intermediate, last_layer.output)
    for module in (vision.embeddings, vision.encoder, *unused):
        module.requires_grad_(requires_grad=False)
