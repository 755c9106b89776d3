"""The published figures against the papers and themselves, and the table of systems."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from statistics import fmean
from typing import Any

import pandas as pd
import pytest

from hsfiq.model.evaluation import benchmarks
from hsfiq.model.evaluation.systems_table import (
    contents,
    published_rates,
    published_rows,
    rows_of,
    simplified,
    why_incomparable,
)
from tests.analysis.studies import Question, make_release, write_release
from tests.model.evaluation.helpers import (
    BEST_RUN,
    DRESS_RUN,
    SHIRT_RUN,
    best_of_cirr,
    evaluate,
    put,
    refusal,
    result,
    write_circo,
    write_cirr,
)
from tests.model.scorer.helpers import CommandResult, hsfiq

TABLES = contents()["tables"]
PAPERS = {"CIRQRS": "cirqrs.txt", "QuRe": "qure.txt"}
FIRST_WORDS = {"CIRQRS": "**Table {}:**", "QuRe": "Table {}. "}
CATEGORIES = ("dress", "shirt", "toptee")


def printed_rows(text: str, source: str) -> dict[str, list[str]]:
    """The rows of a table as the paper's text has them: tab-separated after its caption."""
    paper, _, number = source.partition(" Table ")
    lines = text.split("\n")
    heading = FIRST_WORDS[paper].format(number)
    start = next(place for place, line in enumerate(lines) if line.startswith(heading))
    start = next(place for place in range(start, len(lines)) if lines[place].startswith("Method"))
    rows: dict[str, list[str]] = {}
    for line in lines[start + 1 :]:
        if not line.strip():
            return rows
        name, *cells = (re.sub(r"<[^>]+>|\*", "", cell).strip() for cell in line.split("\t"))
        rows[simplified(re.sub(r"\([^)]*\)", "", name))] = cells
    return rows


@pytest.mark.shared
@pytest.mark.parametrize("table", TABLES, ids=lambda table: table["source"])
def test_tables_are_as_printed(shared: Path, table: dict[str, Any]) -> None:
    paper = PAPERS[table["source"].split(" ")[0]]
    text = (shared / "papers" / paper).read_text(encoding="utf-8")
    printed = printed_rows(text, table["source"])
    own = {simplified(name): values for name, values in table["rows"].items()}
    for name, values in own.items():
        assert [float(cell) for cell in printed[name]] == values
    left_out = set(printed) - set(own) - {""}  # the second line of the heading has no name
    assert left_out == set()


@pytest.mark.shared
def test_preference_rates_are_as_printed(shared: Path) -> None:
    in_text, in_table = contents()["preferences"]
    text = (shared / "papers" / "cirqrs.txt").read_text(encoding="utf-8")
    for system, rate in in_text["rows"].items():
        assert f"{system} ({rate / 100:.4f})" in text
    assert f"{in_text['n_questions']:,} valid queries" in text
    text = (shared / "papers" / "qure.txt").read_text(encoding="utf-8")
    printed = printed_rows(text, in_table["source"])
    assert {name: [str(rate)] for name, rate in in_table["rows"].items()} == {
        name: printed[simplified(name)] for name in in_table["rows"]
    }
    assert len(printed) == len(in_table["rows"])
    assert f"{in_table['n_questions']:,} valid queries" in text


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table["source"])
def test_means_fit_their_columns_except_the_slips(table: dict[str, Any]) -> None:
    for row in rows_of(table):
        own = {name: 100 * value for name, value in row.figures.items()}
        expected = {}
        if table["benchmark"] == "fashioniq":
            figure = "cirqrs" if "mean.cirqrs" in own else "recall"
            for k in (10, 50):
                values = [own[f"{category}.{figure}@{k}"] for category in CATEGORIES]
                expected[f"mean.{figure}@{k}"] = fmean(values)
            last = "mean.cirqrs" if figure == "cirqrs" else "mean.mean"
            expected[last] = fmean(own[f"mean.{figure}@{k}"] for k in (10, 50))
        if table["benchmark"] == "cirr":
            expected["mean"] = (own["recall@5"] + own["recall_subset@1"]) / 2
            if "overall" in own:
                expected["overall"] = fmean(own[name] for name in table["columns"][:7])
        wrong = {name for name, value in expected.items() if abs(own[name] - value) > 0.0151}
        assert wrong == set(row.slips)


@pytest.mark.shared
def test_published_rows_stand_beside_the_published_data_alone(shared: Path) -> None:
    data = shared / "data"
    fashioniq = benchmarks.fashioniq(data / "fashioniq")
    assert why_incomparable(fashioniq) is None
    rows = published_rows(fashioniq, ["sprc", "CLIP4Cir", "mine"])
    assert {(row.source, row.system) for row in rows} == {
        (source, system)
        for source in ("CIRQRS Table 4", "CIRQRS Table 6", "QuRe Table 2")
        for system in ("SPRC", "CLIP4CIR")
    }
    others = {
        "in order": benchmarks.fashioniq(data / "fashioniq", captions="both"),
        "split files": benchmarks.fashioniq(data / "fashioniq", corpus="union"),
        "other numbers": benchmarks.fashioniq(data / "fashioniq", ["dress", "shirt"]),
        "test1, this is val": benchmarks.cirr(data / "cirr"),
        "not given, this is val": benchmarks.circo(data / "circo"),
    }
    for reason, benchmark in others.items():
        assert reason in (why_incomparable(benchmark) or "")
        assert published_rows(benchmark, ["SPRC"]) == []


def test_published_rates_are_of_as_many_answers() -> None:
    (row,) = published_rates(2715, ["sprc", "mine"])
    assert (row.source, row.figures) == ("QuRe Table 4", {"gt": 0.7382})
    (row,) = published_rates(2743, ["SPRC"])
    assert (row.source, row.figures) == ("CIRQRS section 5.4", {"ge": 0.7339})
    assert published_rates(3018, ["SPRC"]) == []


@pytest.fixture(scope="module")
def systems(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    """Two systems, one of them in two files."""
    folder = tmp_path_factory.mktemp("runs")
    shirts, dresses = put(folder / "s.json", SHIRT_RUN), put(folder / "d.json", DRESS_RUN)
    best = put(folder / "best.json", BEST_RUN)
    return "--run", f"first={shirts},{dresses}", "--run", f"SPRC={best}"


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
    shown = [50, 50, 75, 100, 62.5, 75, 68.75]
    assert lines[2].split() == ["first", *(f"{value:.2f}" for value in shown)]
    assert lines[3].split() == ["SPRC", *["100.00"] * 7]
    assert table["published"] == []
    notes = "".join(table["notes"])
    assert "no published figures: they have other numbers of triplets" in notes
    assert "CIRQRS@k (needs --checkpoint), preference rates (need --release)" in notes


def test_intervals_of_each_system(data: Path, systems: tuple[str, ...]) -> None:
    table = figures(fashioniq(data, *systems, "--intervals", "--json"))
    assert set(table["systems"]["first"]["ci"]) >= {"recall@10", "mean"}
    assert table["systems"]["SPRC"]["ci"]["recall@1"] == [None, None]  # no spread
    assert "SPRC: 95% intervals (5 clusters" in fashioniq(data, *systems, "--intervals").out


def test_the_other_benchmarks(tmp_path: Path) -> None:
    cirr = write_cirr(tmp_path / "cirr")
    run = put(tmp_path / "cirr.json", best_of_cirr())
    lines = hsfiq("evaluate", "cirr", "--data", cirr, "--run", f"a={run}").out.splitlines()
    names = [f"R@{k}" for k in (1, 5, 10, 50)] + [f"Rs@{k}" for k in (1, 2, 3)]
    assert lines[1].split() == [*names, "Avg.", "Overall"]
    assert lines[2].split() == ["a", *["100.00"] * 9]
    assert "the split of CIRQRS Table 5 and QuRe Table 3 is test1, this is val" in "".join(lines)
    circo = write_circo(tmp_path / "circo")
    run = put(tmp_path / "circo.json", {str(i): list(range(201, 251)) for i in range(2)})
    lines = hsfiq("evaluate", "circo", "--data", circo, "--run", f"a={run}").out.splitlines()
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


def test_preference_rates_by_own_scores(
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
    run = put(tmp_path / "run.json", BEST_RUN)
    assert "has no name, but other runs have one" in refusal(
        fashioniq(data, *systems, "--run", run)
    )
    again = ("--run", f"first={run}")
    assert "'first' is named twice" in refusal(fashioniq(data, *systems, *again))
    alone = evaluate("fashioniq", data, run, "--release", tmp_path)
    assert "--release: needs named runs" in refusal(alone)
    assert "use .csv or .tex" in refusal(fashioniq(data, *systems, "--table", tmp_path / "t.txt"))
    cirr = write_cirr(tmp_path / "cirr")
    words = ("evaluate", "cirr", "--data", cirr, "--split", "test1", "--run", f"a={run}")
    assert "the targets of test1 are withheld" in refusal(hsfiq(*words))


@pytest.mark.shared
def test_published_rows_below_ours(shared: Path, tmp_path: Path) -> None:
    folder = shared / "data" / "fashioniq"
    parts = benchmarks.fashioniq(folder).parts
    lists = {query.query_id: [query.target] for part in parts for query in part.queries}
    run = put(tmp_path / "oracle.json", lists)
    words = ("--run", f"CoVR-BLIP={run}", "--run", f"oracle={run}")
    lines = fashioniq(folder, *words).out.splitlines()
    assert lines[4].split()[:4] == ["CoVR-BLIP", "(CIRQRS", "Table", "4)"]
    assert lines[4].split()[-1] == "59.39"
    assert lines[5].split()[-1] == "60.24*"
    assert "note: * contradicts its row as printed: CoVR-BLIP in QuRe Table 2" in lines
