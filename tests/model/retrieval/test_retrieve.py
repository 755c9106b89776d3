"""`hsfiq retrieve`: the lists against a slow ranking, resuming, and half queries."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

from hsfiq.cli.demo import benchmark_of, lists_of
from hsfiq.demo.study import DrawnQuery
from hsfiq.drawn import Garment
from hsfiq.errors import UnreadableInput
from hsfiq.model.data import draw_dataset, drawn_size, shown_of
from hsfiq.model.encoders.encoder import Retriever
from hsfiq.model.evaluation.benchmarks import Benchmark
from hsfiq.model.evaluation.drawn import Catalogue
from hsfiq.model.evaluation.drawn import drawn as drawn_benchmark
from hsfiq.model.evaluation.retrieve import BLANK, Halves, Request, retrieve
from hsfiq.model.image_tokens import open_image
from hsfiq.model.retrieval.loading import load_retriever
from hsfiq.model.scorer.job import Callback
from hsfiq.model.scorer.loading import ScorerPaths
from tests.model.scorer.helpers import CPU, Drawn, hsfiq

pytestmark = pytest.mark.usefixtures("one_thread")

DEPTH = 7


@pytest.fixture(scope="module")
def benchmark() -> Benchmark:
    return drawn_benchmark(Catalogue(*draw_dataset(7, *drawn_size(60))), "val")


@pytest.fixture
def request_for(drawn: Drawn, clip4cir: Path, benchmark: Benchmark, tmp_path: Path) -> Request:
    paths = ScorerPaths(clip4cir, drawn.pictures, cache=drawn.cache)
    return Request(benchmark, paths, CPU, tmp_path / "run.jsonl", depth=DEPTH)


def lines_of(path: Path) -> dict[str, dict[str, Any]]:
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return {line["query_id"]: line for line in lines}


def slow_lists(
    retriever: Retriever, drawn: Drawn, benchmark: Benchmark, halves: Halves, *, keep: bool
) -> dict[str, list[str]]:
    """Each query's list from one image and one query at a time."""

    def tokens(image: str) -> torch.Tensor:
        with open_image(drawn.pictures / f"{image}.jpg") as opened:
            pixels = retriever.preprocessing(opened).unsqueeze(0)
        return retriever.image_tokens(pixels).half().float()  # as the cache keeps them

    size = retriever.preprocessing.size
    pixels = retriever.preprocessing(Image.new("RGB", (size, size), (BLANK,) * 3))
    blank = retriever.image_tokens(pixels.unsqueeze(0))
    lists = {}
    for part in benchmark.parts:
        images = part.corpus.images or ()
        gallery = {image: retriever.gallery(tokens(image))[0] for image in images}
        for query in part.queries:
            reference = blank if halves == "text" else tokens(query.reference)
            text = "" if halves == "image" else retriever.clean_text(query.text)
            vector = retriever.compose(reference, [text])[0]
            candidates = [image for image in images if keep or image != query.reference]
            scores = {image: (gallery[image] @ vector).max().item() for image in candidates}
            lists[query.query_id] = sorted(candidates, key=lambda image: -scores[image])[:DEPTH]
    return lists


@pytest.mark.parametrize(
    ("halves", "keep"), [("both", True), ("both", False), ("text", True), ("image", True)]
)
def test_the_lists_are_those_of_a_slow_ranking(
    request_for: Request,
    drawn: Drawn,
    clip4cir: Path,
    benchmark: Benchmark,
    halves: Halves,
    keep: bool,
) -> None:
    kept = replace(benchmark, keeps_reference=keep)
    result = retrieve(replace(request_for, benchmark=kept, halves=halves), Callback())
    with torch.no_grad():
        retriever = load_retriever(clip4cir, None, CPU).retriever
        retriever.train(mode=False)
        expected = slow_lists(retriever, drawn, kept, halves, keep=keep)
    lists = lines_of(request_for.out)
    assert {query: line["images"] for query, line in lists.items()} == expected
    assert result["n_lists"] == len(lists) == 36
    assert {line["system"] for line in lists.values()} == {"clip4cir"}
    assert all(line["scores"] == sorted(line["scores"], reverse=True) for line in lists.values())


def test_an_index_of_which_every_group_is_searched_gives_the_exact_lists(
    request_for: Request, tmp_path: Path
) -> None:
    exact, searched = tmp_path / "exact.jsonl", tmp_path / "searched.jsonl"
    benchmark = replace(request_for.benchmark, keeps_reference=False)
    request = replace(request_for, benchmark=benchmark)
    retrieve(replace(request, out=exact), Callback())
    result = retrieve(replace(request, out=searched, probes=1000), Callback())
    for query_id, line in lines_of(exact).items():
        assert lines_of(searched)[query_id]["images"] == line["images"]
    assert result["index"]["recall"]["dress"] == {"recall": 1.0, "n": 12}


class StopAfterOnePart(Callback):
    def ranking(self, done: int, n: int) -> None:  # noqa: ARG002
        if done == 1:
            raise KeyboardInterrupt


def test_a_stopped_run_keeps_its_complete_parts(request_for: Request, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        retrieve(request_for, StopAfterOnePart())
    folder = tmp_path / ".run.jsonl.parts"
    kept = {path.name for path in folder.iterdir()}
    assert kept == {"run.json", "dress.jsonl", "dress.recall.json"}
    with pytest.raises(UnreadableInput, match="holds parts of another run"):
        retrieve(replace(request_for, depth=3), Callback())
    # The part is taken as it is: a mark in it reaches the run.
    (folder / "dress.jsonl").write_text('{"query_id": "mark"}\n')
    retrieve(request_for, Callback())
    assert {"mark", "shirt.val.0"} <= lines_of(request_for.out).keys()
    assert not folder.exists()


def test_the_run_is_read_by_evaluate(drawn: Drawn, clip4cir: Path, tmp_path: Path) -> None:
    out = tmp_path / "run.jsonl"
    options = ["--checkpoint", clip4cir, "--data", "drawn", "--images", drawn.pictures]
    options += ["--cache", drawn.cache, "--out", out]
    result = hsfiq("retrieve", *options, "--json")
    assert result.code == 0
    about = json.loads(result.out)
    assert (about["system"], about["k"], about["n_lists"]) == ("clip4cir", 50, 36)
    assert about["memory_mb"] > 0
    evaluated = hsfiq(
        "evaluate", "drawn", "--checkpoint", clip4cir, "--images", drawn.pictures, "--cache",
        drawn.cache, "--run", out, "--json",
    )  # fmt: skip
    assert json.loads(evaluated.out)["n_queries"] == 36
    again = hsfiq("retrieve", *options)
    assert again.code == 2
    assert again.err == f"hsfiq: {out}: exists already; name another file with --out\n"


def test_other_systems_and_datasets_are_refused(
    drawn: Drawn, clip4cir: Path, tmp_path: Path
) -> None:
    options = ["--checkpoint", clip4cir, "--images", drawn.pictures, "--out", tmp_path / "x.jsonl"]
    other = hsfiq(
        "retrieve", "--system", "sprc", *options, "--data", "drawn", "--cache", drawn.cache
    )
    assert other.code == 2
    assert other.err.endswith("holds clip4cir, not sprc; leave out --system, or name clip4cir\n")
    folder = hsfiq("retrieve", *options, "--data", tmp_path)
    assert folder.code == 2
    assert folder.err.endswith(
        "was trained on the drawn catalogue; use --data drawn, or --dataset\n"
    )
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def garments() -> tuple[Garment, ...]:
    return shown_of(draw_dataset(7, *drawn_size(60))[0])


@pytest.fixture(scope="module")
def queries() -> list[DrawnQuery]:
    """Two triplets of each category, the second with its captions reversed."""
    triplets = [each for each in draw_dataset(7, *drawn_size(60))[1] if each.split == "val"]
    categories = dict.fromkeys(triplet.category for triplet in triplets)
    chosen = [
        [triplet for triplet in triplets if triplet.category == category][:2]
        for category in categories
    ]
    return [DrawnQuery(pair[i], i == 1) for pair in chosen for i in range(2)]


def test_the_benchmark_has_the_texts_that_are_shown(
    garments: tuple[Garment, ...], queries: list[DrawnQuery]
) -> None:
    parts = benchmark_of(garments, queries).parts
    texts = {query.query_id: query.text for part in parts for query in part.queries}
    assert set(texts) == {query.query_id for query in queries}
    for query in queries:
        first, second = query.triplet.captions[:: -1 if query.is_reversed else 1]
        text = texts[query.query_id].lower()
        assert text.index(first.lower().rstrip(".")) < text.index(second.lower().rstrip("."))


def test_the_demos_lists_are_those_of_a_slow_ranking(
    drawn: Drawn, clip4cir: Path, garments: tuple[Garment, ...], queries: list[DrawnQuery]
) -> None:
    paths = [ScorerPaths(clip4cir, drawn.pictures, cache=drawn.cache)]
    lists = lists_of(paths, garments, queries)
    with torch.no_grad():
        retriever = load_retriever(clip4cir, None, CPU).retriever
        retriever.train(mode=False)
        benchmark = benchmark_of(garments, queries)
        expected = slow_lists(retriever, drawn, benchmark, "both", keep=False)
    assert {each.query_id: list(each.images[:DEPTH]) for each in lists} == expected
    assert {each.system for each in lists} == {"clip4cir"}
