"""`hsfiq evaluate judged`: hand-computed figures, several systems, and what is refused."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path
from typing import Any

import pytest

from tests.hsfiq.readers.test_judged import write_icir
from tests.model.evaluation.helpers import put, refusal
from tests.model.evaluation.judged_queries import LISTS, write_lists, write_set
from tests.model.scorer.helpers import hsfiq

Words = tuple[str | Path, ...]


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> Words:
    return write_set(tmp_path_factory.mktemp("judged"))


def result(words: Words, *options: str | Path) -> Any:
    command = hsfiq(*words, *options, "--json")
    assert command.code == 0, command.err
    return json.loads(command.out)


def test_hand_computed_figures(words: Words, tmp_path: Path) -> None:
    run = write_lists(tmp_path)
    figures = result(words, "--run", run, "--k", "2")
    own = figures["systems"][str(run)]
    ideal = 2 + 1 / math.log2(3)
    assert own["ndcg@2"] == pytest.approx((2 / math.log2(3) / ideal + 1) / 2)
    assert own["ap"] == ((1 / 2 + 2 / 4) / 2 + 1) / 2
    assert own["ap@2"] == (1 / 4 + 1) / 2
    assert own["p@2"] == pytest.approx((1 / 2 + 1 / 2 + 0) / 3)
    assert own["wrong@2"] == pytest.approx((1 / 2 + 0 + 0) / 3)
    assert own["judged@2"] == pytest.approx((2 / 2 + 1 / 2 + 0) / 3)
    # q3 has no relevant image: it has no nDCG and no AP, but counts elsewhere.
    assert (own["n_counted"]["ap"], own["n_counted"]["wrong@2"]) == (2, 3)
    assert "1 query without a relevant image: left out of nDCG and AP" in figures["notes"]
    assert own["group_means"]["p@2"] == (1 / 2 + 0) / 2
    assert (figures["n_queries"], figures["n_clusters"]) == (3, 2)
    assert figures["databases"] == {"n": 2, "smallest": 3, "largest": 5}
    assert figures["judgements"] == {"relevant": 3, "not_relevant": 1, "wrong": 3}


def test_a_row_for_each_system(words: Words, tmp_path: Path) -> None:
    first = write_lists(tmp_path)
    best = write_lists(tmp_path, "best.json", q1=["a", "d", "c", "e", "b"])
    lines = hsfiq(*words, "--run", first, "--run", best, "--k", "2").out.splitlines()
    assert "3 queries in 2 clusters; 2 databases of 3 to 5 images" in lines[0]
    assert lines[1].split() == ["ap", "ndcg@2", "ap@2", "p@2", "wrong@2", "judged@2"]
    assert lines[2].split()[:3] == [str(first), "75.00", "73.98"]
    assert lines[3].split()[:3] == [str(best), "100.00", "100.00"]


def test_a_system_may_have_several_files(words: Words, tmp_path: Path) -> None:
    dogs = put(tmp_path / "dogs.json", {query: LISTS[query] for query in ("q1", "q2")})
    cats = put(tmp_path / "cats.json", {"q3": LISTS["q3"]})
    whole = result(words, "--run", write_lists(tmp_path))["systems"]
    parts = result(words, "--run", f"{dogs},{cats}")["systems"]
    assert list(parts.values()) == list(whole.values())


def test_paraphrases_are_one_cluster(words: Words, tmp_path: Path) -> None:
    run = write_lists(tmp_path)
    own = result(words, "--run", run, "--k", "2", "--intervals")["systems"][str(run)]
    # Two clusters: resamples have q1 and q2 twice, q3 twice, or all three.
    assert own["ci"]["wrong@2"] == [0.0, 0.25]
    assert own["ci_method"]["unit"] == "cluster of queries"
    assert own["ci"]["ap"] == [None, None]  # one cluster alone has relevant images
    text = hsfiq(*words, "--run", run, "--k", "2", "--intervals").out
    assert "wrong@2   16.67 [0.00, 25.00]" in text
    assert "needs 2 clusters" in text


def test_values_by_query(words: Words, tmp_path: Path) -> None:
    path = tmp_path / "values.csv"
    result(words, "--run", write_lists(tmp_path), "--k", "2", "--per-query", path)
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["query_id"] for row in rows] == ["q1", "q2", "q3"]
    assert [row["cluster"] for row in rows] == ["running", "running", "asleep"]
    assert [row["ap"] for row in rows] == ["0.5", "1.0", ""]


def test_short_lists_leave_figures_undefined(words: Words, tmp_path: Path) -> None:
    run = write_lists(tmp_path, q1=["a"])
    own = result(words, "--run", run, "--k", "2")["systems"][str(run)]
    assert own["ap"] is None
    assert "1 of 2 lists are too short" in own["reason"]["ap"]
    assert own["p@2"] is None


def test_missing_lists(words: Words, tmp_path: Path) -> None:
    run = put(tmp_path / "run.json", {query: LISTS[query] for query in ("q1", "q3")})
    line = refusal(hsfiq(*words, "--run", run))
    assert "1 of 3 queries have no list (q2); --allow-missing" in line
    own = result(words, "--run", run, "--k", "2", "--allow-missing")["systems"][str(run)]
    assert own["missing"] == {"queries": 1}
    assert own["ap"] == (0.5 + 0) / 2
    assert own["p@2"] == pytest.approx((0.5 + 0 + 0) / 3)
    assert own["wrong@2"] == (0.5 + 0) / 2  # a query without a list shows nothing wrong
    text = hsfiq(*words, "--run", run, "--allow-missing").out
    assert "1 query without a list, each counted as a miss" in text


@pytest.mark.parametrize(
    ("lists", "error"),
    [
        ({"q1": ["a", "x"]}, "image 'x' of query q1 is not among the 5 images of its database"),
        ({"q9": ["a"]}, "1 of 4 queries are not in"),
        ({"q1": ["a", "a"]}, "twice"),
    ],
)
def test_wrong_lists(words: Words, tmp_path: Path, lists: dict[str, list[str]], error: str) -> None:
    assert error in refusal(hsfiq(*words, "--run", write_lists(tmp_path, **lists)))


def test_an_image_outside_of_database_is_named_with_its_line(words: Words, tmp_path: Path) -> None:
    run = tmp_path / "run.jsonl"
    lists = LISTS | {"q3": ["z", "a"]}
    run.write_text(
        "".join(json.dumps({"query_id": q, "images": i}) + "\n" for q, i in lists.items())
    )
    line = refusal(hsfiq(*words, "--run", run))
    assert f"{run}: line 3: image 'a' of query q3" in line
    assert "of group cats; rank only the images of that database" in line


def test_without_databases_candidates_are_unknown(tmp_path: Path) -> None:
    words = write_set(tmp_path)
    without = tuple(
        word for word in words if word not in ("--databases", tmp_path / "databases.csv")
    )
    figures = result(without, "--run", write_lists(tmp_path), "--k", "2")
    assert figures["databases"] is None
    assert "without --databases, images were not compared with the candidates" in figures["notes"]


def test_a_run_is_needed(words: Words) -> None:
    assert "Missing option '--run'" in refusal(hsfiq(*words))


def test_a_run_named_twice_is_refused(words: Words, tmp_path: Path) -> None:
    run = write_lists(tmp_path)
    assert "names a run twice" in refusal(hsfiq(*words, "--run", run, "--run", run))


ICIR_LISTS = {
    "icir.0": ["db/t1.jpg", "db/t3.jpg", "db/t2.jpg"],
    "icir.1": ["db/t3.jpg", "db/t1.jpg", "db/t2.jpg"],
    "icir.2": ["db/c1.jpg", "db/c2.jpg"],
}


def test_mean_average_precision_by_instance(tmp_path: Path) -> None:
    data, run = write_icir(tmp_path / "icir"), put(tmp_path / "run.json", ICIR_LISTS)
    command = hsfiq("evaluate", "icir", "--data", data, "--run", run, "--k", "2", "--json")
    assert command.code == 0, command.err
    figures = json.loads(command.out)
    own = figures["systems"][str(run)]
    first = (1 + 2 / 3) / 2
    assert own["ap"] == pytest.approx((first + 1 + 1) / 3)
    assert own["group_means"]["ap"] == pytest.approx(((first + 1) / 2 + 1) / 2)
    # t1 at 1: 1; t2 at 3: (1/2 + 2/3) / 2.
    assert own["ap_icir"] == pytest.approx(((1 + 7 / 12) / 2 + 1 + 1) / 3)
    assert not {"wrong@2", "judged@2"} & set(own)
    assert (figures["queries"], figures["n_clusters"]) == ("i-CIR", 2)
    text = hsfiq("evaluate", "icir", "--data", data, "--run", run).out
    assert "2 databases of 2 to 3 images; 4 right answers, all other images wrong" in text


def test_lists_of_another_instance_are_refused(tmp_path: Path) -> None:
    data = write_icir(tmp_path / "icir")
    run = put(tmp_path / "run.json", ICIR_LISTS | {"icir.2": ["db/t1.jpg"]})
    line = refusal(hsfiq("evaluate", "icir", "--data", data, "--run", run))
    assert "is not among the 2 images of its database of group cup" in line
