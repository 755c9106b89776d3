"""The HTML page: self-contained, complete and escaped."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from hsfiq import analysis
from hsfiq.analysis.reports.document import cell_text
from hsfiq.analysis.reports.report import Report
from hsfiq.analysis.reports.tables import to_latex
from tests.analysis.reports.helpers import (
    SPECIAL_CHARACTERS,
    XHTML,
    check_latex,
    check_page,
    quick_bootstrap,
    with_systems,
)
from tests.analysis.studies import Question, make_release

pytestmark = pytest.mark.xdist_group("full report")


def test_the_page_is_self_contained(files: dict[str, bytes]) -> None:
    check_page(files["report.html"].decode())


def test_the_page_shows_all_cells(full_report: Report, files: dict[str, bytes]) -> None:
    root = check_page(files["report.html"].decode())
    elements = [*root.iter(f"{XHTML}td"), *root.iter(f"{XHTML}th")]
    texts = {" ".join("".join(element.itertext()).split()) for element in elements}
    texts |= {text.rstrip("*") for text in texts}
    for table in full_report.document.tables():
        for row in table.rows:
            for cell in row:
                text = " ".join(cell_text(cell).split())
                assert any(f"{text}{mark}" in texts for mark in ("", *"abcdefghij")), cell


def test_names_are_escaped_everywhere(tmp_path: Path) -> None:
    study = [
        Question(preferred, scores, participant=f"{SPECIAL_CHARACTERS}{person}")
        for person in range(3)
        for preferred, scores in ((1, (4, 2)), (2, (1, 3)), (1, (5, 5)))
    ]
    release = with_systems(make_release(study), SPECIAL_CHARACTERS, f"{SPECIAL_CHARACTERS}2")
    path = tmp_path / f"{SPECIAL_CHARACTERS}{'long' * 30}.csv"
    ids = release.sets["set_id"]
    pd.DataFrame({"set_id": ids, "score": range(len(ids))}).to_csv(path, index=False)
    report = analysis.report(release, [path.stem, "recall@5"], [path], quick_bootstrap(release))
    assert SPECIAL_CHARACTERS in "".join(check_page(report.to_html()).itertext())
    for table in report.document.tables():
        check_latex(to_latex(table, simulated=False))
