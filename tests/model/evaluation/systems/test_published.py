"""The published figures, compared with the papers' text and with themselves."""

from __future__ import annotations

import re
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from hsfiq.model.evaluation import benchmarks
from hsfiq.model.evaluation.systems import (
    contents,
    published_rates,
    published_rows,
    rows_of,
    simplified,
    why_incomparable,
)

TABLES = contents()["tables"]
PAPERS = {"CIRQRS": "cirqrs.txt", "QuRe": "qure.txt"}
FIRST_WORDS = {"CIRQRS": "**Table {}:**", "QuRe": "Table {}. "}
CATEGORIES = ("dress", "shirt", "toptee")


def printed_rows(text: str, source: str) -> dict[str, list[str]]:
    """The rows of a table as the paper's text has them: tab-separated after its caption."""
    paper, _, number = source.partition(" Table ")
    lines = text.split("\n")
    start = next(
        place for place, line in enumerate(lines)
        if line.startswith(FIRST_WORDS[paper].format(number))
    )  # fmt: skip
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
