"""Every cell of the notebook runs, and the last one saves a report."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hsfiq.analysis.reports.report import Report
from tests.studies import ROOT

NOTEBOOK = ROOT / "docs" / "reference" / "statistics.ipynb"


def code_cells() -> list[str]:
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


@pytest.mark.slow
def test_every_cell_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HSFIQ_DATABASE_URL", raising=False)
    names: dict[str, object] = {"__name__": "__main__"}
    for index, source in enumerate(code_cells()):
        exec(compile(source, f"{NOTEBOOK.name}, code cell {index}", "exec"), names)
    report = names["report"]
    assert isinstance(report, Report)
    assert {"The base rate", "Few participants"} <= dict(report.document.caveats).keys()
    assert {path.name for path in Path("report").iterdir()} == {
        "report.html",
        "results.json",
        "first.json",
        "section.tex",
        "figures",
        "tables",
    }


def test_no_output_is_stored() -> None:
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    assert all(not cell.get("outputs") for cell in cells)
