"""Tables as LaTeX."""

from __future__ import annotations

import pytest

from hsfiq.analysis.reports.document import footnote_letter
from hsfiq.analysis.reports.tables import escape
from tests.analysis.reports.helpers import SPECIAL_CHARACTERS, check_latex

pytestmark = pytest.mark.xdist_group("full report")


def test_all_tables_are_well_formed(files: dict[str, bytes]) -> None:
    for name, content in files.items():
        if name.endswith(".tex"):
            check_latex(content.decode())
    text = files["tables/table2_spearman.tex"].decode()
    assert r"\textbf{" in text
    assert r"\textsuperscript{***}" in text


def test_special_characters_are_escaped() -> None:
    assert r"a\textless{}b\textgreater{}\&''c" in escape(SPECIAL_CHARACTERS)


def test_footnotes_continue_after_z() -> None:
    letters = [footnote_letter(index) for index in (0, 25, 26, 27, 52)]
    assert letters == ["a", "z", "aa", "ab", "ba"]
