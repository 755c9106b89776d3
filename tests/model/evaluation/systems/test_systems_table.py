"""`hsfiq evaluate ... --system`: a row for each system."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.analysis.studies import Question, make_release, write_release
from tests.model.evaluation.helpers import (
    DRESSES,
    MEMBERS,
    SHIRTS,
    evaluate,
    filled,
    put,
    refusal,
    result,
    write_circo,
    write_cirr,
    write_fashioniq,
)
from tests.model.evaluation.test_fashioniq import DRESS_RUN, SHIRT_RUN
from tests.model.training.helpers import CommandResult, hsfiq

BEST = {
    **{f"shirt.val.{i}": filled([f"s{[1, 3, 5, 6][i]}"], SHIRTS) for i in range(4)},
    **{f"dress.val.{i}": filled([f"d{2 * i + 1}"], DRESSES) for i in range(2)},
}
"""Every target comes first."""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_fashioniq(tmp_path_factory.mktemp("fashioniq"))


@pytest.fixture(scope="module")
def systems(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    """Two systems, one of them in two files."""
    folder = tmp_path_factory.mktemp("runs")
    shirts, dresses = put(folder / "s.json", SHIRT_RUN), put(folder / "d.json", DRESS_RUN)
    best = put(folder / "best.json", BEST)
    return "--system", f"first={shirts},{dresses}", "--system", f"SPRC={best}"


def fashioniq(data: Path, *words: str | Path) -> CommandResult:
    return hsfiq("evaluate", "fashioniq", "--data", data, *words)


def figures(command: CommandResult) -> Any:
    assert command.code == 0, command.err
    return json.loads(command.out)


def test_a_row_for_each_system(data: Path, systems: tuple[str, ...], tmp_path: Path) -> None:
    table = figures(fashioniq(data, *systems, "--json"))
    run = put(tmp_path / "run.json", SHIRT_RUN | DRESS_RUN)
    alone = result("fashioniq", data, run)
    first = table["systems"]["first"]
    assert len(first.pop("run")) == 2
    own_notes, notes = first.pop("notes"), alone.pop("notes")
    assert set(own_notes) <= set(notes)
    assert first == {name: value for name, value in alone.items() if name != "run"}
    assert table["systems"]["SPRC"]["recall@1"] == 1.0
    lines = fashioniq(data, *systems).out.splitlines()
    assert lines[0] == "FashionIQ val, captions forward: 6 queries, corpus split, 120 images"
    assert lines[2].split() == [
        *("first", "50.00", "50.00", "75.00", "100.00"),
        *("62.50", "75.00", "68.75"),
    ]
    assert lines[3].split() == ["SPRC", *["100.00"] * 7]


def test_what_was_done_without_is_said(data: Path, systems: tuple[str, ...]) -> None:
    table = figures(fashioniq(data, *systems, "--json"))
    assert table["published"] == []
    assert "no published figures: they are of other numbers of triplets" in "".join(table["notes"])
    done_without = "done without: CIRQRS@k (needs --scorer), preference rates (need --release)"
    assert done_without in table["notes"]
    assert f"note: {done_without}" in fashioniq(data, *systems).out


def test_intervals_of_each_system(data: Path, systems: tuple[str, ...]) -> None:
    table = figures(fashioniq(data, *systems, "--intervals", "--json"))
    assert set(table["systems"]["first"]["ci"]) >= {"recall@10", "mean"}
    assert table["systems"]["SPRC"]["ci"]["recall@1"] == [1.0, 1.0]
    assert "SPRC: 95% intervals (5 clusters" in fashioniq(data, *systems, "--intervals").out


def test_the_other_benchmarks(tmp_path: Path) -> None:
    cirr = write_cirr(tmp_path / "cirr")
    lists = {}
    for i in range(4):
        candidates = [member for member in MEMBERS if member != MEMBERS[6 * i]]
        lists[str(10 + i)] = filled(MEMBERS[6 * i + 1 : 6 * i + 6], candidates)
    run = put(tmp_path / "cirr.json", lists)
    lines = hsfiq("evaluate", "cirr", "--data", cirr, "--system", f"a={run}").out.splitlines()
    assert lines[1].split() == [
        "R@1",
        "R@5",
        "R@10",
        "R@50",
        "Rs@1",
        "Rs@2",
        "Rs@3",
        "Avg.",
        "Overall",
    ]
    assert lines[2].split() == ["a", *["100.00"] * 9]
    assert "the split of CIRQRS Table 5 and QuRe Table 3 is test1, this is val" in "".join(lines)
    circo = write_circo(tmp_path / "circo")
    run = put(tmp_path / "circo.json", {str(i): list(range(201, 251)) for i in range(2)})
    lines = hsfiq("evaluate", "circo", "--data", circo, "--system", f"a={run}").out.splitlines()
    assert lines[1].split() == ["mAP@5", "mAP@10", "mAP@25", "mAP@50"]
    assert lines[2].split() == ["a", "50.00", "55.00", "55.00", "55.00"]


STUDY = [
    Question(1, values=(0.9, 0.1)),
    Question(2, values=(0.9, 0.1)),
    Question(1, values=(0.5, 0.5), participant="p2"),
    Question(2, values=(0.1, 0.9), participant="p2"),
]
"""Where set 1 scores higher it is preferred once of two times, where it is not lower twice of 3."""


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = make_release(STUDY)
    folder = write_release(made, tmp_path_factory.mktemp("release") / "hp")
    scores = folder.with_name("hp.scores")
    scores.mkdir(exist_ok=True)
    flat = [value for question in STUDY for value in question.values]
    table = pd.DataFrame({"set_id": made.sets["set_id"], "score": flat})
    table.to_parquet(scores / "SPRC.parquet")
    return folder


def test_preference_rates_by_the_systems_own_scores(
    data: Path, systems: tuple[str, ...], release: Path
) -> None:
    table = figures(fashioniq(data, *systems, "--release", release, "--json"))
    rates = table["systems"]["SPRC"]["preference_rate"]
    assert rates["ge"]["rate"] == pytest.approx(2 / 3)
    assert (rates["gt"]["rate"], rates["gt"]["n"]) == (0.5, 2)
    assert table["release"] == {"name": "small 1.0.0", "n_questions": 4}
    assert "preference_rate" not in table["systems"]["first"]
    assert any("no preference rates of first" in note for note in table["notes"])
    text = fashioniq(data, *systems, "--release", release).out
    assert "preference rates by the systems' own scores: small 1.0.0" in text
    row = [line for line in text.splitlines() if line.startswith("SPRC")][-1]
    assert row.split() == ["SPRC", "66.67", "50.00"]


@pytest.mark.parametrize("suffix", [".csv", ".tex"])
def test_tables_as_files(
    data: Path, systems: tuple[str, ...], release: Path, tmp_path: Path, suffix: str
) -> None:
    path = tmp_path / f"table{suffix}"
    command = fashioniq(data, *systems, "--release", release, "--table", path)
    assert f"{path}: written" in command.out
    text = path.read_text(encoding="utf-8")
    if suffix == ".tex":
        assert text.count(r"\begin{tabular}") == 2
        assert r"SPRC &  & 100.00 & 100.00" in text
    else:
        first, second = text.split("\n\n")
        rows = list(csv.DictReader(first.splitlines()))
        assert [row["system"] for row in rows] == ["first", "SPRC"]
        assert float(rows[0]["mean.mean"]) == pytest.approx(0.6875)
        (rates,) = csv.DictReader(second.splitlines())
        assert float(rates["gt"]) == 0.5
    assert "exists" in refusal(fashioniq(data, *systems, "--table", path))


def test_what_is_refused(data: Path, systems: tuple[str, ...], tmp_path: Path) -> None:
    run = put(tmp_path / "run.json", BEST)
    assert "--run: is for one system" in refusal(fashioniq(data, *systems, "--run", run))
    assert "--compare: is for one" in refusal(fashioniq(data, *systems, "--compare", str(run)))
    assert "'best.json' is not NAME=FILE" in refusal(fashioniq(data, "--system", "best.json"))
    again = ("--system", f"first={run}")
    assert "'first' is named twice" in refusal(fashioniq(data, *systems, *again))
    assert "--release: needs --system" in refusal(
        evaluate("fashioniq", data, run, "--release", tmp_path)
    )
    assert "use .csv or .tex" in refusal(fashioniq(data, *systems, "--table", tmp_path / "t.txt"))
    cirr = write_cirr(tmp_path / "cirr")
    words = ("evaluate", "cirr", "--data", cirr, "--split", "test1", "--system", f"a={run}")
    assert "the targets of test1 are withheld" in refusal(hsfiq(*words))


@pytest.mark.shared
def test_published_rows_below_ours(shared: Path, tmp_path: Path) -> None:
    folder = shared / "data" / "fashioniq"
    lists = {}
    for category in ("dress", "shirt", "toptee"):
        captions = json.loads((folder / "captions" / f"cap.{category}.val.json").read_text())
        lists |= {f"{category}.val.{i}": [entry["target"]] for i, entry in enumerate(captions)}
    run = put(tmp_path / "oracle.json", lists)
    words = ("--system", f"CoVR-BLIP={run}", "--system", f"oracle={run}")
    lines = fashioniq(folder, *words).out.splitlines()
    assert lines[4].split()[:4] == ["CoVR-BLIP", "(CIRQRS", "Table", "4)"]
    assert lines[4].split()[-1] == "59.39"
    assert lines[5].split()[-1] == "60.24*"
    assert "note: * contradicts its row as printed: CoVR-BLIP in QuRe Table 2" in lines
