"""What a GPU does: step rates, share of its matmul peak, memory, mining, ranking, equality.

The scorer is BLIP-2 of the published shapes through transformers, with random weights: a ViT of
ViT-L's or ViT-g's size, and its Q-Former. A step is `Scorer.forward`, backward and AdamW on a batch
of triplets, from tokens on the device (cached) or from pixels. Its share of the peak is its
floating-point operations, as PyTorch counts them, a second, over those of a large matrix product of
the same type on the same device. `--device cpu` runs small shapes, so that every part can be tried
without a GPU; its figures mean nothing.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from hsfiq.model.encoders.blip2_weights import CLIP_L, EVA_G, Vit
from hsfiq.model.encoders.hf import Blip2Hf, build, config_of, require_transformers, tokenizer_of
from hsfiq.model.evaluation.rankings import TopK, scored_blocks
from hsfiq.model.recipes import recipe
from hsfiq.model.runtime import device_of
from hsfiq.model.scorer.inference import autocast
from hsfiq.model.scorer.job import Optimizer
from hsfiq.model.scorer.negatives import CHUNK, NegativeRule, draw_negatives
from hsfiq.model.scorer.scorer import Scorer, bradley_terry_loss, relevance, trained_parameters

BERT = {
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
    "max_position_embeddings": 512,
    "layer_norm_eps": 1e-12,
    "pad_token_id": 0,
}
"""The published settings of bert-base-uncased."""
SMALL_BERT = BERT | {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64,
}  # fmt: skip
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "is", "darker", "with", "long", "sleeves"]
TEXT = "is darker with long sleeves"
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
GOAL_SHARE, GOAL_SECONDS = 0.4, 1.0
"""Of the cached step at batch 256, and of ranking a million images for 1,000 queries."""


@dataclass(frozen=True)
class Size:
    """The shapes of a run; `corpora` are numbers of images to mine and to rank among."""

    vits: dict[str, Vit]
    bert: dict[str, Any]
    n_words: int
    cached_batch: int
    batch: int
    steps: int
    matmul: int
    corpora: tuple[int, ...]
    queries: int
    mined: int
    vectors: tuple[int, int]


SMALL = Size(
    vits={"small": Vit("eva", size=28, width=32, blocks=2, heads=2)},
    bert=SMALL_BERT,
    n_words=64,
    cached_batch=4,
    batch=2,
    steps=2,
    matmul=64,
    corpora=(300,),
    queries=8,
    mined=4,
    vectors=(4, 16),
)
PUBLISHED = Size(
    vits={"blip2-vitL": CLIP_L, "blip2-vitg": EVA_G},
    bert=BERT,
    n_words=30_523,
    cached_batch=256,
    batch=32,
    steps=10,
    matmul=8192,
    corpora=(100_000, 1_000_000),
    queries=1000,
    mined=100,
    vectors=(32, 256),
)


def run(seed: int, full: bool, device: str | None = None) -> dict[str, Any]:
    """Measure on a GPU, or with `device="cpu"` try every part; `full` takes five times the steps.

    Raises:
        SystemExit: there is no GPU.
    """
    if device is None and not torch.cuda.is_available():
        raise SystemExit("this machine has no GPU; --device cpu tries every part, small")
    chosen = device_of(device)
    size = SMALL if chosen.type == "cpu" else PUBLISHED
    n_steps = size.steps * (5 if full and chosen.type != "cpu" else 1)
    generator = torch.Generator().manual_seed(seed)
    # A CPU has no gradient scaler, which fp16 needs.
    dtypes = {name: each for name, each in DTYPES.items() if chosen.type != "cpu" or name != "fp16"}
    peaks = {name: matmul_rate(size.matmul, dtype, chosen) for name, dtype in dtypes.items()}
    cases: list[dict[str, Any]] = []
    for shape, vit in size.vits.items():
        for name, dtype in dtypes.items():
            stepper = Stepper(scorer_of(vit, size, seed), dtype, chosen)
            for is_cached, batch in ((True, size.cached_batch), (False, size.batch)):
                case = steps_case(stepper, vit, batch, n_steps, peaks[name], is_cached=is_cached)
                cases.append({"part": "step", "shape": shape, "dtype": name, **case})
        cases.append({"part": "resume", "shape": shape, **resume_case(vit, size, seed, chosen)})
    for n_images in size.corpora:
        cases.extend(corpus_cases(n_images, size, generator, chosen))
    cases.append({"part": "equal", **equality_case(size, generator, chosen)})
    return {
        "name": "gpu",
        "device": torch.cuda.get_device_name(chosen) if chosen.type == "cuda" else "cpu, untimed",
        "torch": torch.__version__,
        "matmul_tflops": peaks,
        "goal_share_cached": GOAL_SHARE,
        "goal_rank_s": GOAL_SECONDS,
        "cases": cases,
    }


class Stepper:
    """A scorer in training on a device, with the optimiser of the recipes."""

    def __init__(self, scorer: Scorer, dtype: torch.dtype, device: torch.device) -> None:
        self.scorer, self.dtype, self.device = scorer.to(device).train(), dtype, device
        stated = recipe("qure-fashioniq")
        self.parameters = trained_parameters(scorer)
        self.optimizer = Optimizer(self.parameters, stated, stated.weight_decay, device, dtype)
        self.optimizer.set_lr(stated.lr)

    def step(self, references: Tensor, targets: Tensor, negatives: Tensor) -> float:
        """Take a step on tokens, [B, P, W] each; the loss."""
        with autocast(self.device, self.dtype):
            margins = self.scorer(references, [TEXT] * len(references), targets, negatives)  # [B]
        loss = bradley_terry_loss(margins).mean()
        self.optimizer.backward(loss)
        self.optimizer.step()
        return loss.item()  # waits for the device

    def step_from_pixels(self, pixels: Tensor) -> float:
        """Encode the images of B triplets, [3 B, 3, size, size], and take a step."""
        references, targets, negatives = self.scorer.encoder.image_tokens(pixels).chunk(3)
        return self.step(references, targets, negatives)


def scorer_of(vit: Vit, size: Size, seed: int) -> Scorer:
    """BLIP-2 of this shape; weights have BERT's deviation, norms are 1, biases 0."""
    require_transformers("blip2-hf")
    hf = build(config_of(vit, size.bert, size.n_words), "benchmark")
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in hf.named_parameters():
        if name.endswith("bias"):
            parameter.data.zero_()
        elif parameter.dim() > 1:
            parameter.data.normal_(std=0.02, generator=generator)
        else:
            parameter.data.fill_(1.0)
    return Scorer(Blip2Hf(hf, vit, tokenizer_of(WORDS)), "max")


def steps_case(
    stepper: Stepper, vit: Vit, batch: int, n_steps: int, peak: float, *, is_cached: bool
) -> dict[str, Any]:
    """The rate of steps after two to warm up, and their share of the matmul peak (TFLOP/s)."""
    generator = torch.Generator(stepper.device).manual_seed(0)
    shape = (batch, *vit.tokens_shape) if is_cached else (3 * batch, 3, vit.size, vit.size)
    drawn = torch.randn(shape, generator=generator, device=stepper.device)

    def step() -> float:
        return (
            stepper.step(drawn, drawn, drawn.flip(0))
            if is_cached
            else (stepper.step_from_pixels(drawn))
        )

    if stepper.device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(stepper.device)
    step()
    with FlopCounterMode(display=False) as counter:
        step()
    seconds = timed(lambda: [step() for _ in range(n_steps)], stepper.device) / n_steps
    return {
        "cached": is_cached,
        "batch": batch,
        "triplets_per_s": batch / seconds,
        "share_of_peak": counter.get_total_flops() / seconds / (peak * 1e12),
        "peak_memory_mb": peak_memory_mb(stepper.device),
    }


def resume_case(vit: Vit, size: Size, seed: int, device: torch.device) -> dict[str, Any]:
    """How far a run that is resumed after two of four steps ends from one that is not."""
    generator = torch.Generator(device).manual_seed(1)
    tokens = torch.randn(4, size.batch, *vit.tokens_shape, generator=generator, device=device)
    whole = Stepper(scorer_of(vit, size, seed), torch.float32, device)
    kept: dict[str, Tensor] = {}
    state: dict[str, Tensor] = {}
    for number, each in enumerate(tokens):
        if number == 2:
            kept = {name: value.detach().clone() for name, value in whole.parameters.items()}
            state = copy.deepcopy(whole.optimizer.tensors())
        torch.manual_seed(number)  # for dropout
        whole.step(each, each, each.flip(0))
    resumed = Stepper(scorer_of(vit, size, seed), torch.float32, device)
    with torch.no_grad():
        for name, value in kept.items():
            resumed.parameters[name].copy_(value)
    resumed.optimizer.load(state)
    for number in (2, 3):
        torch.manual_seed(number)
        resumed.step(tokens[number], tokens[number], tokens[number].flip(0))
    pairs = [(value, resumed.parameters[name]) for name, value in whole.parameters.items()]
    return {
        "to_the_bit": all(torch.equal(a, b) for a, b in pairs),
        "largest_difference": max(float((a - b).detach().abs().max()) for a, b in pairs),
    }


def corpus_cases(
    n_images: int, size: Size, generator: torch.Generator, device: torch.device
) -> Iterator[dict[str, Any]]:
    """Mining by `qure` and ranking the 50 best among a corpus in fp16 on the device."""
    # Drawn in parts: in fp32, a million images take twice what they take in fp16.
    gallery = torch.empty(n_images, *size.vectors, dtype=torch.float16, device=device)  # [N, L, D]
    for images in torch.split(gallery, 20_000):
        images.copy_(unit(images.shape, generator, device))
    queries = unit((size.queries, size.vectors[1]), generator, device)  # [Q, D]
    targets = torch.randint(n_images, (size.mined,), generator=generator).to(device)
    uniforms = torch.rand(size.mined, 6, generator=generator).to(device)

    def mine() -> object:
        return draw_negatives(
            queries[: size.mined], gallery, targets, NegativeRule("qure"), uniforms, "max",
            chunk=CHUNK, temperature=0.07,
        )  # fmt: skip

    def rank() -> object:
        top = TopK(len(queries), 50)
        for block in scored_blocks(queries, torch.split(gallery, 20_000), "max"):
            top.add(block)
        return top.ranked()

    for part, n, function in (("mine", size.mined, mine), ("rank", size.queries, rank)):
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device)
        function()
        yield {
            "part": part,
            "images": n_images,
            "queries": n,
            "seconds": timed(function, device),
            "peak_memory_mb": peak_memory_mb(device),
        }


def equality_case(size: Size, generator: torch.Generator, device: torch.device) -> dict[str, Any]:
    """How far scores in fp32 on the device are from the CPU's: cosines, so at most 1."""
    queries = unit((64, size.vectors[1]), generator, torch.device("cpu"))
    gallery = unit((500, *size.vectors), generator, torch.device("cpu"))
    expected = relevance(queries, gallery, "max", chunk=100)
    scores = relevance(queries.to(device), gallery.to(device), "max", chunk=100).cpu()
    return {
        "largest_difference": float((scores - expected).abs().max()),
        "same_best": float((scores.argmax(1) == expected.argmax(1)).double().mean()),
    }


def unit(shape: tuple[int, ...], generator: torch.Generator, device: torch.device) -> Tensor:
    """Random vectors of length 1."""
    own = torch.Generator(device).manual_seed(int(torch.randint(2**31, (), generator=generator)))
    return torch.nn.functional.normalize(torch.randn(shape, generator=own, device=device), dim=-1)


def matmul_rate(n: int, dtype: torch.dtype, device: torch.device) -> float:
    """TFLOP/s of the product of two n x n matrices, the best of five measurements of ten."""
    a, b = (torch.randn(n, n, device=device).to(dtype) for _ in range(2))

    def ten() -> object:
        return [a @ b for _ in range(10)]

    ten()
    return 10 * 2 * n**3 / min(timed(ten, device) for _ in range(5)) / 1e12


def timed(function: Callable[[], object], device: torch.device) -> float:
    """Seconds, with all work on the device done before and after."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    start = time.perf_counter()
    function()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter() - start


def peak_memory_mb(device: torch.device) -> float | None:
    """Since the last reset; unknown without a GPU."""
    if device.type != "cuda":
        return None
    return torch.cuda.max_memory_allocated(device) / 1e6
