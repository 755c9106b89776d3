"""Counts in words."""

from __future__ import annotations

import pytest

from hsfiq import text
from hsfiq.analysis.errors import count_text


@pytest.mark.parametrize("n", [0, 1, 2, 1_234_567])
def test_both_packages_count_alike(n: int) -> None:
    assert count_text(n, "query", "queries") == text.count_text(n, "query", "queries")
    assert count_text(n, "set") == text.count_text(n, "set")


def test_one_is_in_the_singular() -> None:
    assert count_text(1, "set") == "1 set"
    assert [count_text(n, "set") for n in (0, 2, 1200)] == ["0 sets", "2 sets", "1,200 sets"]
    assert (count_text(1, "query", "queries"), count_text(3, "query", "queries")) == (
        "1 query",
        "3 queries",
    )
