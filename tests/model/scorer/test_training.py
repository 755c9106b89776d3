"""Recall, relevance and ranks against plain loops; CIRR removes the reference."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import get_args

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hsfiq.errors import UnreadableInput
from hsfiq.model.data import Example, TrainingData, mining_text
from hsfiq.model.encoders.encoder import normalise
from hsfiq.model.image_tokens import EncodedTokens
from hsfiq.model.recipes import Pooling
from hsfiq.model.runtime import Diverged
from hsfiq.model.scorer.inference import Inference, ranks, target_ranks, validate
from hsfiq.model.scorer.scorer import paired_relevance, relevance
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


POOLINGS = get_args(Pooling)


def literal_relevance(query: torch.Tensor, image: torch.Tensor, pooling: Pooling) -> torch.Tensor:
    """One query [D], one image [L, D]."""
    products = [sum((q * g for q, g in zip(query, vector, strict=True))) for vector in image]
    if pooling == "mean":
        return torch.as_tensor(sum(products)) / len(products)
    return max(products)


def vectors(*shape: int, seed: int = 0) -> torch.Tensor:
    drawn = torch.randn(*shape, generator=torch.Generator().manual_seed(seed))
    return torch.nn.functional.normalize(drawn, dim=-1)


@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("chunk", [1, 3, 7, 100])
def test_relevance_equals_the_reference(pooling: Pooling, chunk: int) -> None:
    queries, gallery = vectors(4, 5), vectors(7, 3, 5, seed=1)
    expected = [[literal_relevance(q, image, pooling) for image in gallery] for q in queries]
    scores = relevance(queries, gallery, pooling, chunk=chunk)
    torch.testing.assert_close(scores, torch.tensor(expected))


@pytest.mark.parametrize("pooling", POOLINGS)
def test_a_half_precision_gallery_is_converted_in_parts(pooling: Pooling) -> None:
    queries, gallery = vectors(4, 5), vectors(7, 3, 5, seed=1).half()
    scores = relevance(queries, gallery, pooling, chunk=2)
    torch.testing.assert_close(scores, relevance(queries, gallery.float(), pooling, chunk=2))


def test_relevance_of_nothing_is_empty() -> None:
    assert relevance(vectors(0, 5), vectors(7, 3, 5), "max", chunk=2).shape == (0, 7)
    assert relevance(vectors(4, 5), vectors(0, 3, 5), "mean", chunk=2).shape == (4, 0)


@pytest.mark.parametrize("pooling", POOLINGS)
def test_pairs_and_their_gradients_equal_the_reference(pooling: Pooling) -> None:
    queries, gallery = vectors(4, 5).requires_grad_(), vectors(4, 3, 5, seed=1).requires_grad_()
    ours = paired_relevance(queries, gallery, pooling)
    theirs = torch.stack(
        [literal_relevance(q, image, pooling) for q, image in zip(queries, gallery, strict=True)]
    )
    torch.testing.assert_close(ours, theirs)
    weights = torch.arange(1.0, 5)
    our_gradients = torch.autograd.grad((ours * weights).sum(), (queries, gallery))
    their_gradients = torch.autograd.grad((theirs * weights).sum(), (queries, gallery))
    torch.testing.assert_close(our_gradients, their_gradients)


@given(
    st.integers(1, 9).flatmap(
        lambda images: st.tuples(
            st.lists(st.integers(0, 3), min_size=images, max_size=images),
            st.integers(0, images - 1),
            st.none() | st.integers(0, images - 1),
        )
    )
)
def test_the_rank_is_the_position_in_a_stable_sort(case: tuple[list[int], int, int | None]) -> None:
    scores, target, excluded = case
    if excluded == target:
        excluded = None
    order = sorted(range(len(scores)), key=lambda i: -scores[i])
    expected = [i for i in order if i != excluded].index(target) + 1
    ranks = target_ranks(
        torch.tensor([scores, scores]).float(),
        torch.tensor([target, target]),
        None if excluded is None else torch.tensor([excluded, excluded]),
    )
    assert ranks.tolist() == [expected, expected]


def test_ranks_refuse_unusable_scores() -> None:
    scores = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    with pytest.raises(UnreadableInput, match="query 1: its target is not in the pool"):
        target_ranks(scores, torch.tensor([0, 2]))
    with pytest.raises(UnreadableInput, match="query 0: its excluded image is not in the pool"):
        target_ranks(scores, torch.tensor([0, 0]), torch.tensor([-1, 1]))
    with pytest.raises(UnreadableInput, match="query 1: its target is excluded"):
        target_ranks(scores, torch.tensor([0, 1]), torch.tensor([1, 1]))
    with pytest.raises(UnreadableInput, match="not a number"):
        target_ranks(scores / 0 * 0, torch.tensor([0, 1]))


def test_scores_whose_sum_overflows_are_accepted() -> None:
    assert target_ranks(torch.full((1, 3), 3e38), torch.tensor([1])).tolist() == [2]
