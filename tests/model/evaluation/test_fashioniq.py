"""`hsfiq evaluate fashioniq`: hand-computed figures, and mistakes in runs that are easy to miss."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hsfiq.model.data import mining_text
from hsfiq.model.evaluation import benchmarks
from tests.model.evaluation.helpers import (
    DRESS_RUN,
    SHIRT_RUN,
    SHIRT_UNION,
    SHIRTS,
    Lists,
    evaluate,
    filled,
    put,
    refusal,
    result,
)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return put(tmp_path / "run.json", SHIRT_RUN | DRESS_RUN)


def changed(tmp_path: Path, lists: Lists) -> Path:
    return put(tmp_path / "changed.json", SHIRT_RUN | lists)


def test_hand_computed_figures(data: Path, run: Path) -> None:
    figures = result("fashioniq", data, run)
    shirt, dress = figures["categories"]["shirt"], figures["categories"]["dress"]
    ks = ("recall@1", "recall@5", "recall@10", "recall@50")
    assert [shirt[k] for k in ks] == [0.25, 0.75, 0.75, 1.0]
    assert [dress[k] for k in ks] == [0, 0, 0.5, 0.5]
    assert [figures[k] for k in ks] == [0.125, 0.375, 0.625, 0.75]
    assert figures["mean"] == (0.625 + 0.75) / 2
    assert (shirt["n_queries"], dress["n_queries"], figures["n_queries"]) == (4, 2, 6)
    assert shirt["corpus"] == {"name": "split", "size": 60}
    assert figures["corpus"] == {"name": "split", "size": 120}
    assert figures["run"] == [str(run)]
    names = ("benchmark", "split", "captions")
    assert [figures[name] for name in names] == ["fashioniq", "val", "forward"]
    assert "missing" not in figures
    assert "reason" not in figures


def test_the_table_names_the_corpus(data: Path, run: Path) -> None:
    lines = evaluate("fashioniq", data, run).out.splitlines()
    assert lines[0] == f"FashionIQ val, captions forward: {run}"
    assert lines[1].split() == ["dress", "shirt", "mean"]
    assert lines[3].split() == ["corpus:", "split", "60", "60", "120"]
    assert lines[6].split() == ["recall@10", "50.00", "75.00", "62.50"]
    assert lines[8].split()[-1] == "68.75"
    assert lines[8].startswith("mean of recall@10 and recall@50")


def test_a_run_may_have_several_files_and_formats(data: Path, run: Path, tmp_path: Path) -> None:
    figures = result("fashioniq", data, run)
    lines = tmp_path / "shirt.jsonl"
    lines.write_text(
        "\n".join(json.dumps({"query_id": q, "images": images}) for q, images in SHIRT_RUN.items()),
        encoding="utf-8",
    )
    trec = tmp_path / "dress.trec"
    rows = [
        f"{query} Q0 {image} {rank} {-rank} mine"
        for query, images in DRESS_RUN.items()
        for rank, image in reversed(list(enumerate(images)))
    ]
    trec.write_text("\n".join(rows), encoding="utf-8")
    parts = result("fashioniq", data, lines, "--run", trec)
    assert parts.pop("run") == [str(lines), str(trec)]
    assert parts == {key: value for key, value in figures.items() if key != "run"}


def test_captions_in_either_order(data: Path, tmp_path: Path) -> None:
    reverse = {f"{query}~": images for query, images in SHIRT_RUN.items()}
    reverse["shirt.val.1~"] = filled(["s2"], [image for image in SHIRTS if image != "s3"])
    shirts = ("--category", "shirt")
    both_orders = put(tmp_path / "both.json", SHIRT_RUN | reverse)
    figures = result("fashioniq", data, both_orders, *shirts, "--captions", "both")
    assert (figures["n_queries"], figures["recall@1"]) == (8, 0.125)
    reversed_only = put(tmp_path / "alone.json", reverse)
    figures = result("fashioniq", data, reversed_only, *shirts, "--captions", "reversed")
    assert (figures["n_queries"], figures["captions"], figures["recall@1"]) == (4, "reversed", 0.0)
    line = refusal(evaluate("fashioniq", data, reversed_only, *shirts))
    assert "4 of 4 queries are not in FashionIQ val (shirt; captions forward)" in line
    assert "all have captions reversed: use --captions reversed, or both" in line
    line = refusal(evaluate("fashioniq", data, both_orders, *shirts))
    assert "4 of 8 queries" in line
    assert "all have captions reversed" in line
    line = refusal(evaluate("fashioniq", data, both_orders, *shirts, "--captions", "reversed"))
    assert "all have captions in order" in line
    forward = put(tmp_path / "forward.json", SHIRT_RUN)
    line = refusal(evaluate("fashioniq", data, forward, *shirts, "--captions", "both"))
    assert "4 of 8 queries" in line
    assert "--captions forward evaluates captions in order alone" in line


def test_texts_are_joined_as_in_the_queries(data: Path) -> None:
    (part,) = benchmarks.fashioniq(data, ["dress"], captions="both").parts
    assert [(query.query_id, query.text) for query in part.queries[:2]] == [
        ("dress.val.0", mining_text(["is Red.", "has dots"])),
        ("dress.val.0~", mining_text(["has dots", "is Red."])),
    ]
    assert part.queries[0].text == "Is red and has dots"


def test_lists_over_the_split_are_restricted_to_the_union(data: Path, tmp_path: Path) -> None:
    corpus = benchmarks.fashioniq(data, ["shirt"], corpus="union").parts[0].corpus
    assert corpus.images == tuple(SHIRT_UNION)
    shirts = ("--category", "shirt", "--corpus", "union")
    long = {f"shirt.val.{i}": filled([], SHIRTS, 60, seed=i) for i in range(4)}
    within = {
        query: [image for image in images if image in SHIRT_UNION] for query, images in long.items()
    }
    cut_figures = result("fashioniq", data, put(tmp_path / "long.json", long), *shirts)
    union_figures = result("fashioniq", data, put(tmp_path / "within.json", within), *shirts)
    assert cut_figures["corpus"] == {"name": "union", "size": 7}
    for key in ("recall@1", "recall@5", "recall@10", "recall@50", "mean"):
        assert cut_figures[key] == union_figures[key]
    assert "4 of 4 lists named images outside of the union" in "".join(cut_figures["notes"])
    assert not any("outside of the union" in note for note in union_figures["notes"])


def test_the_union_may_leave_too_few_images(data: Path, tmp_path: Path) -> None:
    lists = {f"shirt.val.{i}": ["s0", *SHIRTS[20:40]] for i in range(4)}
    run = put(tmp_path / "it.json", lists)
    figures = result("fashioniq", data, run, "--category", "shirt", "--corpus", "union")
    assert (figures["recall@1"], figures["recall@5"], figures["mean"]) == (0.0, None, None)
    assert "4 of 4 lists are too short, after the cut" in figures["reason"]["recall@5"]
    assert figures["reason"]["mean"].startswith("recall@10: 4 of 4 lists")


def test_lists_that_were_made_over_the_union(data: Path, tmp_path: Path) -> None:
    lists = {f"shirt.val.{i}": filled([], SHIRT_UNION, seed=i) for i in range(4)}
    run = put(tmp_path / "it.json", lists)
    command = evaluate("fashioniq", data, run, "--category", "shirt")
    assert "note: ALL listed images are in the union" in command.out
    union = result("fashioniq", data, run, "--category", "shirt", "--corpus", "union")
    assert not any("ALL listed images" in note for note in union["notes"])


def test_a_short_list_makes_figures_undefined(data: Path, tmp_path: Path) -> None:
    run = changed(tmp_path, {"shirt.val.2": ["s4", "s8", "s9"], "shirt.val.1": ["s3"]})
    figures = result("fashioniq", data, run, "--category", "shirt")
    assert (figures["recall@1"], figures["recall@5"], figures["mean"]) == (0.25, None, None)
    assert figures["reason"]["recall@50"] == ("1 of 4 lists are too short; give 50 images for each")
    text = evaluate("fashioniq", data, run, "--category", "shirt").out
    assert "recall@5 is undefined: 1 of 4 lists" in text
    both = result("fashioniq", data, put(run, SHIRT_RUN | DRESS_RUN | {"dress.val.1": ["d2"]}))
    assert (both["categories"]["shirt"]["recall@5"], both["recall@5"]) == (0.75, None)
    assert both["reason"]["recall@5"].startswith("dress: 1 of 2 lists")


def test_missing_queries(data: Path, run: Path, tmp_path: Path) -> None:
    lists = dict(SHIRT_RUN | DRESS_RUN)
    del lists["shirt.val.1"]
    gap = put(tmp_path / "gap.json", lists)
    line = refusal(evaluate("fashioniq", data, gap))
    assert "1 of 6 queries" in line
    assert "have no list (shirt.val.1); --allow-missing counts them as misses" in line
    figures = result("fashioniq", data, gap, "--allow-missing")
    assert figures["missing"] == {"queries": 1}
    assert figures["categories"]["shirt"]["recall@1"] == 0.0
    assert figures["categories"]["shirt"]["recall@50"] == 0.75
    empty = put(tmp_path / "nothing.json", {})
    line = refusal(evaluate("fashioniq", data, empty, "--allow-missing"))
    assert "nothing.json: the run is empty" in line
    text = evaluate("fashioniq", data, gap, "--allow-missing").out
    assert "MISSING: 1 query without a list, each counted as a miss" in text


@pytest.mark.parametrize(
    ("lists", "message"),
    [
        ({"shirt.val.0": ["s1", "s1"]}, "the list of query shirt.val.0 contains image s1 twice"),
        ({"shirt.val.0": ["s1", "d1"]}, "image 'd1' is not among the 60 candidates"),
        ({"shirt.val.0": ["s1", "s2.png"]}, "60 candidates; leave out the folder and the exten"),
        ({"shirt.val.4": ["s1"]}, "1 of 5 queries are not in FashionIQ val (shirt; captions fo"),
        ({"shirt.val.4": ["s1"]}, "(shirt.val.4); its ids look like shirt.val.0"),
        ({"12": ["s1"]}, "(12); its ids look like shirt.val.0"),
        ({f"shirt.test.{i}": ["s1"] for i in range(9)}, "shirt.test.2 and 6 more)"),
        ({"shirt.test.0": ["s1"]}, "they all belong to split test"),
        ({"shirt.val.0~": ["s1"]}, "all have captions reversed"),
        ({"version": "rc2", "metric": "recall"}, "is a file for CIRR's server, not for FashionIQ"),
        ({"version": "rc1", "metric": "recall"}, "version: 'rc1' is not 'rc2'"),
        ({"shirt.val.0": "s1"}, "shirt.val.0: expected a list, found 's1'"),
    ],
)
def test_refused_runs(data: Path, tmp_path: Path, lists: Lists, message: str) -> None:
    path = changed(tmp_path, lists)
    line = refusal(evaluate("fashioniq", data, path, "--category", "shirt"))
    assert message in line
    assert str(path) in line


def test_runs_over_other_categories_than_requested(data: Path, run: Path, tmp_path: Path) -> None:
    shirts = ("--category", "shirt")
    shirt_figures = result("fashioniq", data, put(tmp_path / "shirts.json", SHIRT_RUN), *shirts)
    figures = result("fashioniq", data, run, *shirts)
    assert figures.pop("notes")[-1] == f"{len(DRESS_RUN)} lists of dress are ignored"
    del shirt_figures["notes"], shirt_figures["run"], figures["run"]
    assert figures == shirt_figures
    fewer = refusal(evaluate("fashioniq", data, tmp_path / "shirts.json"))
    assert "2 of 6 queries" in fewer
    assert "--category shirt evaluates" in fewer
    dresses = put(tmp_path / "dresses.json", DRESS_RUN)
    other = refusal(evaluate("fashioniq", data, dresses, *shirts))
    assert "they all belong to dress: add --category dress" in other


def test_two_systems_and_a_query_in_two_files(data: Path, run: Path, tmp_path: Path) -> None:
    several = tmp_path / "it.trec"
    several.write_text("shirt.val.0 Q0 s1 1 1 A\nshirt.val.1 Q0 s1 1 1 B\n", encoding="utf-8")
    assert "lists of A and B" in refusal(evaluate("fashioniq", data, several))
    other_run = put(tmp_path / "other.json", {"shirt.val.0": ["s1"]})
    line = refusal(evaluate("fashioniq", data, run, "--run", other_run))
    message = "shirt.val.0: query shirt.val.0 occurs twice"
    assert f"{other_run}: {message}; first at {run}: shirt.val.0" in line


def test_a_split_without_targets(data: Path, run: Path) -> None:
    line = refusal(evaluate("fashioniq", data, run, "--split", "test"))
    assert "triplet shirt.test.0 has no target" in line
    line = refusal(evaluate("fashioniq", data, run, "--category", "toptee"))
    assert "no captions of category 'toptee'; there are dress, shirt" in line


def test_an_empty_file(data: Path, tmp_path: Path) -> None:
    put(tmp_path / "captions" / "cap.shirt.val.json", [])
    put(tmp_path / "image_splits" / "split.shirt.val.json", SHIRTS)
    line = refusal(evaluate("fashioniq", tmp_path, put(tmp_path / "it.json", SHIRT_RUN)))
    assert "cap.shirt.val.json: holds no query" in line


def test_a_reference_missing_from_every_list(data: Path, run: Path, tmp_path: Path) -> None:
    lists = {
        f"shirt.val.{i}": filled([], [image for image in SHIRTS if image not in ("s0", "s2", "s4")])
        for i in range(4)
    }
    shirts = ("--category", "shirt")
    figures = result("fashioniq", data, put(tmp_path / "it.json", lists), *shirts)
    assert any(note.startswith("no list holds its query's reference") for note in figures["notes"])
    assert not any("reference" in note for note in result("fashioniq", data, run)["notes"])


def test_scores_that_contradict_the_order(data: Path, tmp_path: Path) -> None:
    rows = [
        f"{query} Q0 {image} {rank} {rank} distances"
        for query, images in SHIRT_RUN.items()
        for rank, image in enumerate(images)
    ]
    run = tmp_path / "it.trec"
    run.write_text("\n".join(rows), encoding="utf-8")
    figures = result("fashioniq", data, run, "--category", "shirt")
    assert figures["recall@1"] == 0.25
    assert "categories" not in figures
    assert "in 4 of 4 lists a score is above the one before it" in "".join(figures["notes"])


def test_files_that_are_not_the_published_ones(data: Path, run: Path) -> None:
    (first, second, third) = result("fashioniq", data, run)["notes"][:3]
    assert "dress val have 2 triplets and 60 images, the published ones 2,017 and 3,817" in first
    assert second.startswith("the files of shirt val have 4 triplets")
    assert third.startswith("the mean is over dress and shirt; published ones are over dress,")
