"""A few seconds of the benchmark `people`, with few people and two workers."""

from __future__ import annotations

import pytest

from benchmarks import people


@pytest.mark.postgres
@pytest.mark.usefixtures("forked_servers", "postgres_server")
def test_everybody_answers_and_nobody_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(people, "ENTERING", 1)
    case = people.measure(people=3, workers=2, seconds=3.0, seed=7, thinking=0.4)
    assert (case["people"], case["workers"], case["refused"]) == (3, 2, 0)
    assert case["submits"] > 0
