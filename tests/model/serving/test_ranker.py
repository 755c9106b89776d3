"""The ranker against its twin: one image at a time, scores sorted, weights written out."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image

from hsfiq.errors import UnreadableInput
from hsfiq.live.protocol import (
    ComposedQuery,
    History,
    RetrieverRefused,
    Search,
    TargetRank,
    Turn,
    as_base64,
    corpus_sha256,
)
from hsfiq.model.image_tokens import open_image
from hsfiq.model.ranker import HISTORIES, CorpusRanker, folder_candidates
from hsfiq.model.retrieval.loading import load_retriever
from tests.model.scorer.helpers import CPU, Drawn

pytestmark = pytest.mark.usefixtures("one_thread")

Vector = NDArray[np.float64]


class Twin:
    """Vectors of one image or query at a time."""

    def __init__(self, checkpoint: Path, images: Path) -> None:
        self.retriever = load_retriever(checkpoint, None, CPU).retriever
        self.retriever.train(mode=False)
        self.images = images

    @torch.no_grad()
    def tokens(self, image: str) -> torch.Tensor:
        with open_image(self.images / f"{image}.jpg") as opened:
            pixels = self.retriever.preprocessing(opened).unsqueeze(0)
        return self.retriever.image_tokens(pixels).half().float()  # as the cache keeps them

    @torch.no_grad()
    def image(self, image: str) -> Vector:
        return self.retriever.gallery(self.tokens(image))[0].double().numpy()  # [L, D]

    @torch.no_grad()
    def query(self, turn: Turn) -> Vector:
        text = self.retriever.clean_text(turn.text)
        return self.retriever.compose(self.tokens(turn.reference), [text])[0].double().numpy()

    def search(self, search: Search, history: History) -> Vector:
        queries = [self.query(turn) for turn in search.turns]
        if history == "mean":
            return unit(np.mean(queries, axis=0))
        if history == "last":
            return queries[-1]
        vector = queries[0]
        for i in range(1, len(queries)):
            chosen = search.turns[i].reference
            others = [image for image in search.turns[i - 1].shown if image != chosen]
            vector = vector + 0.44 * queries[i] + 0.08 * unit(self.image(chosen).mean(axis=0))
            if others:
                away = np.mean([unit(self.image(each).mean(axis=0)) for each in others], axis=0)
                vector = vector - 0.29 * away
            vector = unit(vector)
        return vector


def unit(vector: Vector) -> Vector:
    return vector / np.linalg.norm(vector)


@pytest.fixture(scope="module")
def twin(clip4cir: Path, served_images: Path) -> Twin:
    return Twin(clip4cir, served_images)


@pytest.fixture(scope="module")
def search(ranker: CorpusRanker) -> Search:
    """Three turns; the last image before is chosen, and then one that had not been shown."""
    ids = ranker.corpus()
    return Search(
        turns=(
            Turn(reference=ids[3], text="is red with long sleeves", shown=ids[6:11]),
            Turn(reference=ids[10], text="has no print", shown=ids[11:13]),
            Turn(reference=ids[20], text="is a bit darker"),
        ),
        exclude=(ids[3], ids[10], "no candidate anyway"),
        targets=(ids[7], "a-copy", ids[5], "z-copy", ids[0]),
    )


@pytest.mark.parametrize("history", HISTORIES)
def test_lists_and_ranks_are_the_twins(
    ranker: CorpusRanker, twin: Twin, search: Search, history: History
) -> None:
    vector = twin.search(search, history)
    candidates = [image for image in ranker.corpus() if image not in search.exclude]
    scores = {image: round(float((twin.image(image) @ vector).max()), 5) for image in candidates}
    order = sorted(candidates, key=lambda image: -scores[image])  # stable: the corpus' order
    (ranked,) = ranker.rank([search], history, ranker.system().max_k)
    assert ranked.image_ids == tuple(order)
    np.testing.assert_allclose(ranked.scores, [scores[image] for image in order], atol=2e-5)
    assert ranked.targets == tuple(
        TargetRank(
            image_id=target,
            rank=order.index(target) + 1,
            ties=sum(scores[image] == scores[target] for image in candidates) - 1,
        )
        for target in search.targets
    )
    assert {target.ties for target in ranked.targets} >= {0, 2}  # two copies of one picture


def test_searches_of_any_length_are_ranked_together(ranker: CorpusRanker, search: Search) -> None:
    alone = search.model_copy(update={"turns": search.turns[2:]})
    searches = [search, alone, search, alone, search]  # more than a request may hold
    for history in HISTORIES:
        expected = [ranker.rank([each], history, 5)[0].image_ids for each in searches]
        lists = ranker.rank(searches, history, 5)
        assert [ranked.image_ids for ranked in lists] == expected


def test_no_list_is_longer_than_the_candidates(ranker: CorpusRanker, search: Search) -> None:
    few = search.model_copy(update={"exclude": ranker.corpus()[2:], "targets": ()})
    (ranked,) = ranker.rank([few], "mean", 5)
    assert set(ranked.image_ids) == set(ranker.corpus()[:2])


def test_the_description_names_checkpoint_and_corpus(ranker: CorpusRanker, twin: Twin) -> None:
    system = ranker.system()
    assert (system.name, system.corpus.size) == ("clip4cir", 32)
    assert system.corpus.sha256 == corpus_sha256(ranker.corpus())
    assert len(system.version) == 64


def test_composed_vectors_are_the_twins(ranker: CorpusRanker, twin: Twin, search: Search) -> None:
    queries = [ComposedQuery(reference=turn.reference, text=turn.text) for turn in search.turns]
    expected = [twin.query(turn) for turn in search.turns]
    np.testing.assert_allclose(ranker.compose(queries), expected, atol=1e-5)


@pytest.mark.parametrize("history", HISTORIES)
def test_an_image_brought_along_is_ranked_as_the_same_one_in_the_corpus(
    ranker: CorpusRanker, search: Search, served_images: Path, history: History, drawn: Drawn
) -> None:
    """Two searches of one request have different images under one id."""
    cached = {path: path.stat().st_size for path in drawn.cache.rglob("*")}
    searches, own_searches = [search], [search]
    for image in ("a-copy", ranker.corpus()[10]):
        turns = [*search.turns[:2], Turn(reference=image, text="is a bit darker")]
        searches.append(search.model_copy(update={"turns": tuple(turns)}))
        turns[2] = Turn(reference="mine", text="is a bit darker")
        content = (served_images / f"{image}.jpg").read_bytes()
        images = {"mine": as_base64(content)}
        own_searches.append(search.model_copy(update={"turns": tuple(turns), "images": images}))
    for expected, came in zip(
        ranker.rank(searches, history, 5), ranker.rank(own_searches, history, 5), strict=True
    ):
        assert came.image_ids == expected.image_ids
        assert came.targets == expected.targets
        np.testing.assert_allclose(came.scores, expected.scores, atol=1e-5)
    assert {path: path.stat().st_size for path in drawn.cache.rglob("*")} == cached


def file_of(form: str, size: int = 64, mode: str = "RGB") -> bytes:
    file = BytesIO()
    Image.new(mode, (size, size)).save(file, form)
    return file.getvalue()


@pytest.mark.parametrize(
    ("image", "content", "message"),
    [
        ("mine", lambda: b"no picture", "searches.0.images.mine: is not a known image format"),
        ("mine", lambda: file_of("PNG")[:-40], "searches.0.images.mine: cannot be decoded (image"),
        ("mine", lambda: file_of("WEBP"), "searches.0.images.mine: is a WEBP file"),
        ("mine", lambda: file_of("PNG", 8200, "1"), "searches.0.images.mine: has more than"),
        ("a-copy", lambda: file_of("JPEG"), "searches.0.images: 'a-copy' is in the corpus"),
    ],
)
def test_unusable_images_are_refused(
    ranker: CorpusRanker, image: str, content: Callable[[], bytes], message: str
) -> None:
    turns = (Turn(reference=image, text=""),)
    search = Search(turns=turns, images={image: as_base64(content())})
    with pytest.raises(RetrieverRefused) as caught:
        ranker.rank([search], "mean", 3)
    assert str(caught.value).startswith(message)
    assert (caught.value.status, bool(caught.value.remedy)) == (422, True)


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"targets": ("nowhere",)}, "searches.1.targets"),
        ({"exclude": ("a-copy",), "targets": ("a-copy",)}, "searches.1.targets"),
        ({"turns": (Turn(reference="nowhere", text=""),)}, "searches.1.turns.0.reference"),
        (
            {"turns": (Turn(reference="a-copy", text="", shown=("nowhere",)),)},
            "searches.1.turns.0.shown",
        ),
    ],
)
def test_unusable_searches_are_refused(
    ranker: CorpusRanker, search: Search, change: dict[str, object], where: str
) -> None:
    with pytest.raises(RetrieverRefused) as caught:
        ranker.rank([search, search.model_copy(update=change)], "mean", 3)
    assert caught.value.where == where


def test_images_of_own_data_are_named_by_path(tmp_path: Path) -> None:
    for name in ("red/1.jpg", "blue/1.png", "plain.webp"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    by_path = folder_candidates(tmp_path, by_path=True)
    assert by_path.image_ids == ("blue/1.png", "plain.webp", "red/1.jpg")
    assert folder_candidates(tmp_path).image_ids == ("1", "plain")


@pytest.mark.parametrize("name", ["a\nb", "a\x1b[31m", "a\udcff"])
def test_a_name_that_no_answer_can_have_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / f"{name}.png").write_bytes(b"")
    with pytest.raises(
        UnreadableInput, match="has a name that is not allowed in answers"
    ) as caught:
        folder_candidates(tmp_path)
    assert str(caught.value).isprintable()
