"""The report: its files, their content, and the command that writes them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hsfiq import analysis
from hsfiq.analysis.reports.caveats import FIGURE_METHODS
from hsfiq.analysis.reports.document import DASH, cell_text
from hsfiq.analysis.reports.report import Report
from hsfiq.cli import run
from tests.analysis.reports.helpers import check_page, quick_bootstrap, read_csv, with_systems
from tests.analysis.studies import Question, make_release, write_release
from tests.studies import ROOT

pytestmark = pytest.mark.xdist_group("full report")


def numbers(value: object) -> Iterator[float]:
    """All numbers in a JSON value."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from numbers(item)
    elif isinstance(value, int | float):
        yield float(value)


def test_the_folder_holds_every_output(full_report: Report, files: dict[str, bytes]) -> None:
    charts = [chart.name for chart in full_report.document.charts()]
    tables = [table.name for table in full_report.document.tables()]
    assert len(charts) == len(set(charts)) == 10
    assert len(tables) == len(set(tables))
    assert {"table2_spearman", "table3_preference_rate", "table6_set_scores"} <= set(tables)
    assert set(files) == {
        "report.html",
        "results.json",
        "first.json",
        "section.tex",
        *(f"figures/{name}.{kind}" for name in charts for kind in ("svg", "png", "pdf")),
        *(f"tables/{name}.{kind}" for name in tables for kind in ("csv", "tex")),
    }
    assert all(files[f"figures/{name}.png"].startswith(b"\x89PNG") for name in charts)
    assert set(full_report.figures()) == set(charts)


def test_every_number_in_the_tables_is_in_the_results(files: dict[str, bytes]) -> None:
    known = set(numbers(json.loads(files["results.json"])))
    checked = 0
    for name, content in files.items():
        if name.endswith(".csv") and name != "tables/methods.csv":
            for row in read_csv(content):
                for key, text in row.items():
                    if re.fullmatch(r"-?[\d.]+(e-?\d+)?", text or ""):
                        assert float(text) in known, (name, key, text)
                        checked += 1
    assert checked > 1_000


def test_results_are_printed_json_and_more(full_report: Report, files: dict[str, bytes]) -> None:
    results = json.loads(files["results.json"])
    added = results.pop("report")
    assert results == json.loads(json.dumps(full_report.analysis.to_json()))
    assert set(added) == {"read_first", "captions", "distribution", "participants", "base_rates"}
    assert sum(added["distribution"]["scores"].values()) == results["release"]["n_sets"]


def test_simulated_answers_are_marked_in_every_file(files: dict[str, bytes]) -> None:
    for name, content in files.items():
        if not name.endswith((".png", ".pdf", ".csv")):
            assert b"simulated" in content.lower(), name
        if name.endswith(".csv"):
            assert all(row["simulated"] == "true" for row in read_csv(content)), name
    release = make_release([Question(1), Question(2, participant="p2")])
    assert "SIMULATED" not in analysis.report(release, [], (), quick_bootstrap(release)).to_html()


def test_the_same_release_gives_the_same_page() -> None:
    release = make_release([Question(1, (4, 2)), Question(2, (1, 3), participant="p2")])
    pages = [analysis.report(release, [], (), quick_bootstrap(release)).to_html() for _ in "12"]
    check_page(pages[0])
    assert pages[0] == pages[1]


@pytest.mark.parametrize(
    "study",
    [
        [],
        [Question(1)],
        [Question(1, (4, 2)), Question(2, (2, 3)), Question(1, (5, 1))],
        [Question(0, (3, 3), participant=person) for person in ("p1", "p2", "p3")],
        [Question(1, (3, 3), ("abcde", "abcde"), participant=p) for p in ("p1", "p2")] * 2,
        [Question(1, (4, 3), target=None, participant=p) for p in ("p1", "p2")] * 2,
    ],
    ids=["empty", "one question", "one participant", "human ties", "all ties", "no values"],
)
def test_undefined_figures_are_dashes_with_reasons(study: list[Question]) -> None:
    release = make_release(study)
    report = analysis.report(release, ["recall@5", "recall@1"], (), quick_bootstrap(release))
    check_page(report.to_html())
    json.dumps(report.to_json(), allow_nan=False)
    with_dashes = [
        table
        for table in report.document.tables()
        for row in table.rows
        for cell in row
        if cell_text(cell) == DASH and not isinstance(cell, str)
    ]
    assert with_dashes
    assert all(table.footnotes() for table in with_dashes)


@pytest.mark.parametrize("systems", [("one", "one"), ("one", "two")])
def test_systems_that_cannot_be_ranked(systems: tuple[str, str]) -> None:
    release = with_systems(make_release([Question(1), Question(1, participant="p2")]), *systems)
    report = analysis.report(release, ["recall@5"], (), quick_bootstrap(release))
    check_page(report.to_html())
    tables = {table.name: table for table in report.document.tables()}
    assert tables["systems_strength"].footnotes()


def test_the_command_writes_a_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    release = make_release([Question(1, (4, 2)), Question(2, (1, 3), participant="p2")])
    folder, out = write_release(release, tmp_path / "hp"), tmp_path / "report"
    command = ["analyze", str(folder), "--metric", "recall@5", "--resamples", "20"]
    assert run([*command, "--report", str(out), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    written = json.loads((out / "results.json").read_text(encoding="utf-8"))
    assert printed == {key: value for key, value in written.items() if key != "report"}
    assert analysis.report(str(folder), ["recall@5"]).analysis.release.n_questions == 2
    assert run([*command, "--report", str(out)]) == 2
    assert "--force" in capsys.readouterr().err
    assert run([*command, "--force"]) == 2
    assert "--report" in capsys.readouterr().err


def test_importing_the_package_loads_no_library() -> None:
    code = (
        "import sys; from hsfiq import analysis; "
        "print(*{'numpy', 'pandas', 'matplotlib', 'jinja2'} & set(sys.modules))"
    )
    process = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=ROOT
    )
    assert process.stdout.strip() == ""
    with pytest.raises(AttributeError, match="no attribute"):
        _ = analysis.reprot  # type: ignore[attr-defined]


def test_every_method_is_described_in_the_docs() -> None:
    text = (ROOT / "docs" / "reference" / "statistics.md").read_text(encoding="utf-8")
    keys = re.findall(r"(?m)^\| @(\w+) \|$", text)
    assert sorted([*keys, "verdict"]) == sorted(method.key for method in FIGURE_METHODS)
