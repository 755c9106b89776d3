"""Recall in training, compared with a reference ranking; CIRR removes the reference."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
import torch

from hsfiq.errors import UnreadableInput
from hsfiq.model.data import Example, TrainingData, mining_text
from hsfiq.model.encoders.encoder import normalise
from hsfiq.model.image_tokens import EncodedTokens
from hsfiq.model.recipes import Pooling
from hsfiq.model.runtime import Diverged
from hsfiq.model.scorer.inference import Inference, ranks, validate
from tests.model.encoders.small_encoder import SmallEncoder, draw_images
from tests.model.scorer.helpers import CPU, ONE_PROCESS, SMALL

pytestmark = pytest.mark.usefixtures("one_thread")

WORDS = ("is red", "has long sleeves and a collar", "no dots", "x", "is much shorter than that")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> TrainingData:
    """Two corpora of noise; queries between all neighbouring images."""
    images = draw_images(tmp_path_factory.mktemp("noise"), 20)
    names = tuple(images)
    corpora = {"one": names[:12], "two": names[8:]}
    val = tuple(
        Example(f"{corpus}.{i}", reference, target, (WORDS[i % 5], WORDS[i % 3]), corpus)
        for corpus, members in corpora.items()
        for i, (reference, target) in enumerate(pairwise(members))
    )
    return TrainingData("noise", val, val, corpora, corpora, images)


def inference_of(data: TrainingData, encoder: SmallEncoder) -> Inference:
    tokens = EncodedTokens(encoder, data.images, torch.float32, CPU)
    return Inference(encoder, tokens, ONE_PROCESS)


@torch.no_grad()
def literal_rank(
    data: TrainingData,
    encoder: SmallEncoder,
    example: Example,
    pooling: Pooling,
    *,
    without_reference: bool,
) -> int:
    tokens = EncodedTokens(encoder, data.images, torch.float32, CPU)
    query = encoder.compose(
        tokens.tokens([example.reference]), [normalise(mining_text(example.captions))]
    )[0]
    scores = {}
    for image in data.corpora[example.pool]:
        vectors = encoder.gallery(tokens.tokens([image]))[0]
        products = vectors @ query
        scores[image] = (products.max() if pooling == "max" else products.mean()).item()
    if without_reference:
        del scores[example.reference]
    return sorted(scores, key=lambda image: -scores[image]).index(example.target) + 1


@pytest.mark.parametrize("pooling", ["max", "mean"])
@pytest.mark.parametrize("without_reference", [False, True])
def test_ranks_equal_the_reference(
    data: TrainingData, pooling: Pooling, without_reference: bool
) -> None:
    encoder = SmallEncoder()
    ranks_by_corpus = ranks(
        data, inference_of(data, encoder), pooling, without_reference=without_reference
    )
    for corpus, places in ranks_by_corpus.items():
        examples = [example for example in data.val if example.pool == corpus]
        expected = [
            literal_rank(data, encoder, example, pooling, without_reference=without_reference)
            for example in examples
        ]
        assert places.tolist() == expected


def test_recall_is_the_mean_over_corpora_and_ks(data: TrainingData) -> None:
    inference = inference_of(data, SmallEncoder())
    for dataset in ("fashioniq", "cirr"):
        recipe = replace(SMALL, dataset=dataset, val_recall=(1, 4))
        ranks_by_corpus = ranks(data, inference, "max", without_reference=dataset == "cirr")
        recall = {
            k: sum(
                sum(r <= k for r in places.tolist()) / len(places)
                for places in ranks_by_corpus.values()
            )
            / 2
            for k in (1, 4)
        }
        assert validate(data, recipe, inference) == pytest.approx(
            {"recall@1": recall[1], "recall@4": recall[4], "mean": (recall[1] + recall[4]) / 2}
        )


def test_cirr_selects_by_its_subsets_too(data: TrainingData) -> None:
    """CIRR's summary is (R@5 + Recall_subset@1) / 2; the sets may miss images."""
    encoder = SmallEncoder()
    val = tuple(
        replace(example, subset=(*data.corpora[example.pool][i % 3 :: 3], "gone", example.target))
        if i % 4
        else example
        for i, example in enumerate(data.val)
    )
    recipe = replace(SMALL, dataset="cirr", val_recall=(5,))
    values = validate(replace(data, val=val), recipe, inference_of(data, encoder))
    hits = []
    for example in filter(lambda example: example.subset, val):
        members = tuple(i for i in data.corpora[example.pool] if i in example.subset)
        among_set = TrainingData("", (), (example,), {}, {example.pool: members}, data.images)
        place = literal_rank(among_set, encoder, example, "max", without_reference=False)
        hits.append(place == 1)
    assert 0 < sum(hits) < len(hits) < len(val)
    assert values["recall_subset@1"] == pytest.approx(sum(hits) / len(hits))
    assert values["mean"] == pytest.approx((values["recall@5"] + values["recall_subset@1"]) / 2)


def test_cirr_ranks_without_the_reference_and_others_with_it(data: TrainingData) -> None:
    inference = inference_of(data, SmallEncoder())
    kept = ranks(data, inference, "max", without_reference=False)
    removed = ranks(data, inference, "max", without_reference=True)
    differences = [(kept[name] - removed[name]).unique().tolist() for name in kept]
    assert differences == [[0, 1], [0, 1]]  # some references stood before the target


def test_a_reference_outside_corpus_is_refused_only_where_it_is_removed(data: TrainingData) -> None:
    stray = replace(data.val[0], triplet_id="one.stray", reference="i19")
    strayed = replace(data, val=(stray, *data.val[1:]))
    inference = inference_of(data, SmallEncoder())
    assert ranks(strayed, inference, "max", without_reference=False)["one"].shape == (11,)
    with pytest.raises(UnreadableInput, match=r"one\.stray: its reference 'i19' is not in the co"):
        ranks(strayed, inference, "max", without_reference=True)


@pytest.mark.parametrize("broken", ["project", "word"])
def test_vectors_that_are_not_finite_are_reported_as_divergence(
    data: TrainingData, broken: str, tmp_path: Path
) -> None:
    encoder = SmallEncoder()
    with torch.no_grad():
        getattr(encoder, broken).fill_(float("inf"))
    with pytest.raises(Diverged, match="the model gives vectors that are not finite numbers"):
        validate(data, SMALL, inference_of(data, encoder))
