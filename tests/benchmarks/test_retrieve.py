"""The benchmark `retrieve` on few candidates: both methods give the same ranking."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from benchmarks import retrieve
from benchmarks.retrieve import Case
from tests.processes import forkserver_context


@pytest.mark.parametrize("size", [3, 50, 600, 1300])
def test_both_methods_give_the_same_ranking(size: int) -> None:
    ours = retrieve.streamed(5, 30, size)
    assert ours.equal(retrieve.naive(5, 30, size))
    assert not ours.equal(retrieve.naive(6, 30, size))


def test_figures_of_fewer_candidates_are_scaled_and_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    forked = SimpleNamespace(get_context=lambda _method: forkserver_context())
    monkeypatch.setattr(retrieve, "multiprocessing", forked)
    result = retrieve.measure(5, (Case(40, 600, 600), Case(40, 1200, 600)))
    assert result["equal"]
    assert [case["theirs_measured_on"] for case in result["cases"]] == [600, 600]
    assert result["theirs"] == result["cases"][1]["theirs_seconds"]
