"""A trained scorer's lists, compared with validation ranks and a reference; missing images."""

from __future__ import annotations

import shutil
from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random
from statistics import fmean

import pytest
import torch

from hsfiq.drawn import garment_of
from hsfiq.errors import UnreadableInput
from hsfiq.model import data
from hsfiq.model.data import (
    draw_dataset,
    draw_pictures,
    drawn_parts,
    drawn_size,
    mining_text,
    with_files,
)
from hsfiq.model.encoders.encoder import Encoder, normalise
from hsfiq.model.evaluation.benchmarks import Benchmark, Corpus, Part, Query, SystemLists
from hsfiq.model.evaluation.drawn import Catalogue, catalogue_of
from hsfiq.model.evaluation.drawn import drawn as drawn_benchmark
from hsfiq.model.evaluation.metrics import Figure
from hsfiq.model.evaluation.rankings import (
    CirqrsAt,
    PreparedScorer,
    ScorerLists,
    cirqrs_at,
    images_of_lists,
    prepare_scorer,
    rank_with_scorer,
    write_run,
)
from hsfiq.model.image_tokens import open_image
from hsfiq.model.scorer.job import Callback
from hsfiq.model.scorer.loading import ScorerPaths, load_scorer
from hsfiq.model.scorer.run import content_sha256
from hsfiq.readers import runs
from tests.model.scorer.helpers import CPU, SMALL, Drawn, train

pytestmark = pytest.mark.usefixtures("one_thread")

CATALOGUE = Catalogue(*draw_dataset(7, *drawn_size(60)))
"""The catalogue of the fixture `drawn`."""


@pytest.fixture(scope="module")
def run(drawn: Drawn, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A scorer trained for an epoch."""
    torch.set_num_threads(1)
    out = tmp_path_factory.mktemp("scorer") / "run"
    train(drawn, out, replace(SMALL, epochs=1, n_def=1))
    return out


@pytest.fixture(scope="module")
def val() -> Benchmark:
    return drawn_benchmark(CATALOGUE, "val")


@pytest.fixture
def paths(drawn: Drawn, run: Path) -> ScorerPaths:
    return ScorerPaths(run, drawn.pictures, cache=drawn.cache)


@pytest.fixture
def damaged(drawn: Drawn, paths: ScorerPaths, tmp_path: Path) -> ScorerPaths:
    """The same paths with a separate folder of pictures."""
    return replace(paths, images=shutil.copytree(drawn.pictures, tmp_path / "pictures"))


def retrieved(
    benchmark: Benchmark, paths: ScorerPaths, depth: int = 50, *, allow_missing: bool = False
) -> ScorerLists:
    return rank_with_scorer(
        benchmark, paths, CPU, Callback(), depth=depth, allow_missing=allow_missing
    )


def prepared_for(
    paths: ScorerPaths, images: frozenset[str], *, allow_missing: bool = False
) -> PreparedScorer:
    return prepare_scorer(paths, images, CPU, Callback(), allow_missing=allow_missing)


@torch.no_grad()
def reference_scores(paths: ScorerPaths, query: Query, images: tuple[str, ...]) -> dict[str, float]:
    """One image at a time: open, prepare, encode, and take the best product."""
    encoder = reference_encoder(paths.checkpoint)

    def tokens(image: str) -> torch.Tensor:
        return reference_tokens(paths.checkpoint, paths.images / f"{image}.jpg")

    vector = encoder.compose(tokens(query.reference), [normalise(query.text)])[0]  # [D]
    return {
        image: (encoder.gallery(tokens(image))[0] @ vector).max().item()  # [L, D]
        for image in images
    }


@cache
def reference_encoder(checkpoint: Path) -> Encoder:
    return load_scorer(checkpoint, None, CPU).scorer.eval().encoder


@cache
def reference_tokens(checkpoint: Path, path: Path) -> torch.Tensor:
    encoder = reference_encoder(checkpoint)
    with open_image(path) as image:
        pixels = encoder.preprocessing(image)
    return encoder.image_tokens(pixels.unsqueeze(0)).half()  # [1, P, W]


def test_lists_equal_the_reference_ranking(paths: ScorerPaths, val: Benchmark) -> None:
    part = val.parts[1]
    ranked = retrieved(replace(val, parts=(part,)), paths, depth=7)
    assert part.corpus.images is not None
    for query in part.queries[:5]:
        expected = reference_scores(paths, query, part.corpus.images)
        best = sorted(expected.values(), reverse=True)[:7]
        images = ranked.answers[part.name].lists[query.query_id]
        scores = ranked.scores[part.name][query.query_id]
        assert scores == pytest.approx(best, abs=1e-5)
        assert scores == pytest.approx([expected[image] for image in images], abs=1e-5)
    assert ranked.missing == {}


def test_cirr_removes_reference_and_ranks_the_subset(paths: ScorerPaths, val: Benchmark) -> None:
    rng = Random(3)
    part = val.parts[0]
    assert part.corpus.images is not None
    queries = tuple(
        replace(
            query,
            subset=tuple(rng.sample([i for i in part.corpus.images if i != query.reference], 5)),
        )
        for query in part.queries
    )
    cirr = Benchmark("cirr", "val", (replace(part, queries=queries),), keeps_reference=False)
    with_all = retrieved(val, paths, depth=1000).answers[part.name].lists
    ranked = retrieved(cirr, paths, depth=1000).answers[part.name]
    for query in queries:
        ranking = with_all[query.query_id]
        assert ranked.lists[query.query_id] == tuple(i for i in ranking if i != query.reference)
        assert ranked.subset[query.query_id] == tuple(i for i in ranking if i in query.subset)


def test_cirr_needs_the_reference_in_its_corpus(paths: ScorerPaths, val: Benchmark) -> None:
    part = val.parts[0]
    first = replace(part, queries=part.queries[:1])
    other_images = tuple(
        image for image in part.corpus.images or () if image != part.queries[0].reference
    )
    smaller = replace(first, corpus=Corpus("less", other_images))
    with pytest.raises(UnreadableInput, match="query 0: its excluded image is not in the pool"):
        retrieved(Benchmark("cirr", "val", (smaller,), keeps_reference=False), paths)


def test_an_unknown_corpus_is_refused(paths: ScorerPaths, val: Benchmark) -> None:
    part = replace(val.parts[0], corpus=Corpus("COCO", None))
    with pytest.raises(UnreadableInput, match=f"the candidates of {part.name} are unknown"):
        retrieved(replace(val, name="circo", parts=(part,)), paths)


def test_missing_checkpoints_and_folders_are_refused(paths: ScorerPaths, val: Benchmark) -> None:
    missing = paths.images / "nowhere"
    with pytest.raises(UnreadableInput, match="there is no such checkpoint"):
        retrieved(val, replace(paths, checkpoint=missing))
    with pytest.raises(UnreadableInput, match="there is no such folder"):
        retrieved(val, replace(paths, images=missing))


def test_a_written_run_can_be_read(paths: ScorerPaths, val: Benchmark, tmp_path: Path) -> None:
    ranked = retrieved(val, paths)
    write_run(tmp_path / "run.jsonl", ranked, "ours")
    read = {
        ranked_list.query_id: ranked_list for _, ranked_list in runs.read(tmp_path / "run.jsonl")
    }
    assert {ranked_list.system for ranked_list in read.values()} == {"ours"}
    for part in val.parts:
        for query_id, images in ranked.answers[part.name].lists.items():
            assert (read[query_id].images, read[query_id].scores) == (
                images,
                ranked.scores[part.name][query_id],
            )
    with pytest.raises(UnreadableInput, match="cannot be written"):
        write_run(tmp_path / "nowhere" / "run.jsonl", ranked, "ours")


def delete_image(paths: ScorerPaths, part: Part) -> tuple[str, str]:
    """Delete a candidate that is no reference, and damage a reference."""
    references = {query.reference for query in part.queries}
    deleted = next(image for image in part.corpus.images or () if image not in references)
    broken = part.queries[0].reference
    (paths.images / f"{deleted}.jpg").unlink()
    (paths.images / f"{broken}.jpg").write_bytes(b"no picture")
    return deleted, broken


def test_missing_images_are_refused_in_one_line(damaged: ScorerPaths, val: Benchmark) -> None:
    deleted, broken = delete_image(damaged, val.parts[0])
    n = sum(len(part.corpus.images or ()) for part in val.parts)
    with pytest.raises(UnreadableInput) as missing:
        retrieved(val, damaged)
    assert str(missing.value) == (
        f"{damaged.images}: 1 of {n} images are missing or unreadable ({deleted}); "
        "hsfiq images check lists all of a dataset's; --allow-missing continues without them"
    )
    draw_pictures([garment_of(deleted)], damaged.images)
    with pytest.raises(UnreadableInput, match=rf"1 of {n} images .*\({broken}\)"):
        retrieved(val, damaged)


def test_missing_images_that_are_allowed_are_counted(
    paths: ScorerPaths, damaged: ScorerPaths, val: Benchmark
) -> None:
    part = val.parts[0]
    deleted, broken = delete_image(damaged, part)
    lost = [query.query_id for query in part.queries if query.reference == broken]
    complete, ranked = (
        retrieved(val, scorer_paths, depth=1000, allow_missing=True)
        for scorer_paths in (paths, damaged)
    )
    n = sum(len(part.corpus.images or ()) for part in val.parts)
    names = sorted([deleted, broken])
    assert ranked.missing == {"images": 2, "of": n, "names": names, "queries": len(lost)}
    assert len(ranked.notes) == 1
    assert complete.missing == {}
    assert complete.notes == ()
    ours = ranked.benchmark.parts[0].corpus
    assert ours.images == tuple(
        image for image in part.corpus.images or () if image not in (deleted, broken)
    )
    lists = ranked.answers[part.name].lists
    assert list(lists) == [query.query_id for query in part.queries if query.query_id not in lost]
    for query_id, images in lists.items():
        all_ = complete.answers[part.name].lists[query_id]
        assert images == tuple(image for image in all_ if image not in (deleted, broken))
    assert ranked.answers[val.parts[1].name] == complete.answers[val.parts[1].name]


def test_a_part_without_any_image_is_refused(damaged: ScorerPaths, val: Benchmark) -> None:
    for image in val.parts[0].corpus.images or ():
        (damaged.images / f"{image}.jpg").unlink()
    with pytest.raises(UnreadableInput, match=f"lacks all .* of {val.parts[0].name}"):
        retrieved(val, damaged, allow_missing=True)


@pytest.fixture(scope="module")
def lists(val: Benchmark) -> dict[str, SystemLists]:
    """Random lists of six images, as of another system."""
    rng = Random(5)
    return {
        part.name: SystemLists(
            {
                query.query_id: tuple(rng.sample(part.corpus.images or (), 6))
                for query in part.queries
            },
            {},
        )
        for part in val.parts
    }


def test_cirqrs_is_the_mean_over_the_images_and_then_over_the_queries(
    paths: ScorerPaths, val: Benchmark, lists: dict[str, SystemLists]
) -> None:
    part, answers = val.parts[2], lists[val.parts[2].name]
    prepared = prepared_for(paths, images_of_lists([part], lists))
    ranked = cirqrs_at(part, answers, prepared, (2, 5, 50))
    for k in (2, 5):
        means = [
            fmean(reference_scores(paths, query, answers.lists[query.query_id][:k]).values())
            for query in part.queries
        ]
        assert ranked[k].figure.value == pytest.approx(fmean(means), abs=1e-6)
        assert len(ranked[k].by_query) == len(part.queries)
    n = len(part.queries)
    assert ranked[50] == CirqrsAt(Figure(None, f"{n} of {n} lists have fewer than 50 images"))


def test_cirqrs_excludes_and_counts_lists_with_missing_images(
    paths: ScorerPaths, damaged: ScorerPaths, val: Benchmark, lists: dict[str, SystemLists]
) -> None:
    part, answers = val.parts[0], lists[val.parts[0].name]
    deleted, broken = delete_image(damaged, part)
    images = images_of_lists([part], lists)
    with pytest.raises(UnreadableInput, match="are missing or unreadable"):
        prepared_for(damaged, images)
    complete_queries = [
        query
        for query in part.queries
        if not {deleted, broken} & {query.reference, *answers.lists[query.query_id][:5]}
    ]
    ranked = cirqrs_at(part, answers, prepared_for(damaged, images, allow_missing=True), (5,))[5]
    reduced = cirqrs_at(
        replace(part, queries=tuple(complete_queries)), answers, prepared_for(paths, images), (5,)
    )
    assert len(ranked.by_query) == len(complete_queries) < len(part.queries)
    assert ranked.figure.value == pytest.approx(reduced[5].figure.value, abs=1e-6)


def test_cirqrs_without_any_image_is_undefined(paths: ScorerPaths, val: Benchmark) -> None:
    prepared = replace(
        prepared_for(paths, frozenset({"x"}), allow_missing=True), available=frozenset()
    )
    part = val.parts[0]
    answers = SystemLists({query.query_id: ("x",) for query in part.queries}, {})
    expected = CirqrsAt(Figure(None, "no list has an available image"))
    assert cirqrs_at(part, answers, prepared, (1,)) == {1: expected}


def test_the_val_split_equals_the_validation_data_of_training(drawn: Drawn, val: Benchmark) -> None:
    assert {part.name: part.corpus.images for part in val.parts} == drawn.data.corpora
    ours = [
        (query.query_id, query.reference, query.target, query.text, part.name)
        for part in val.parts
        for query in part.queries
    ]
    assert ours == [
        (each.triplet_id, each.reference, each.target, mining_text(each.captions), each.pool)
        for each in drawn.data.val
    ]


def test_the_test_split_has_combinations_absent_from_training(drawn: Drawn) -> None:
    benchmark = drawn_benchmark(CATALOGUE, "test")
    queries = [query for part in benchmark.parts for query in part.queries]
    assert len(queries) == sum(triplet.split == "test" for triplet in CATALOGUE.triplets) > 0
    assert all(garment_of(str(query.target)).held_out for query in queries)
    assert not {query.target for query in queries} & set(drawn.data.images)
    for part in benchmark.parts:
        images = set(part.corpus.images or ())
        assert {str(query.target) for query in part.queries} <= images
        assert set(drawn.data.corpora[part.name]) < images


@pytest.mark.parametrize("limit", [20, 21, 22, 100])
def test_the_catalogue_of_a_training_is_recovered(limit: int, tmp_path: Path) -> None:
    parts = drawn_parts(*draw_dataset(SMALL.seed, *drawn_size(limit)), SMALL.pool, tmp_path)
    folders = {image: tmp_path for part in parts for image in part.images()}
    data = with_files("drawn", parts, folders, "")
    description = {"name": "drawn", "n_train": len(data.train), "sha256": content_sha256(data)}
    ranked = catalogue_of(SMALL, description)
    assert ranked == Catalogue(*draw_dataset(SMALL.seed, *drawn_size(limit)))
    benchmark = drawn_benchmark(ranked, "val")
    assert [query.query_id for part in benchmark.parts for query in part.queries] == [
        example.triplet_id for example in data.val
    ]


def test_a_different_catalogue_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data, "TRIPLETS", 120)
    monkeypatch.setattr(data, "GARMENTS", 40)
    other = catalogue_of(SMALL, {"name": "drawn", "n_train": 60, "sha256": "another"})
    assert other.notes == (
        "the triplets differ from the validation triplets of the scorer's training",
    )
    other_data = catalogue_of(SMALL, {"name": "fashioniq", "n_train": 18_000, "sha256": "another"})
    assert other_data.notes == ()
    assert other_data.triplets == other.triplets
