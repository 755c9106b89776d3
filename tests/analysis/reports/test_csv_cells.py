"""Texts in CSV files, which spreadsheets may not run."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hsfiq import text
from hsfiq.analysis.reports.tables import spreadsheet_text


@given(st.text(max_size=4) | st.text("=+-@\t\r\n'a", max_size=4))
def test_both_packages_write_the_same_cell(given_text: str) -> None:
    assert spreadsheet_text(given_text) == text.spreadsheet_text(given_text)
