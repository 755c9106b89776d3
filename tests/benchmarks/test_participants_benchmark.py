"""The benchmark `participants` on small studies: its database is valid, and both ways are equal."""

from __future__ import annotations

import json
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from benchmarks import participants
from benchmarks.participants import (
    ANSWERS,
    STUDY,
    follow_in_blocks,
    keep_everything,
    make_database,
    show_dashboard,
)
from hsfiq.collect.studies import find_study
from hsfiq.db.engine import open_database
from tests.benchmarks.test_five_million import broken_references
from tests.hsfiq.collect.slow_progress import assert_counts
from tests.processes import Fork


def test_both_ways_find_the_same(tmp_path: Path) -> None:
    url = make_database(tmp_path / "study.db", 150, seed=1)
    with closing(open_database(url)) as database, database.reading() as session:
        assert broken_references(database) == {}
        study = find_study(session, STUDY)
        assert study is not None
        assert assert_counts(session, study).answered == 150 * ANSWERS
    ours = follow_in_blocks(url)
    assert ours == keep_everything(url)
    assert "150" in str(show_dashboard(url))


def work_alone() -> None:
    participants.work_alone(*sys.argv[1:])


@pytest.mark.slow
def test_what_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def forked(work: str, url: str) -> Any:
        printed = tmp_path / work
        process = Fork(work_alone, [work, url], printed, tmp_path / "errors")
        assert process.wait() == 0
        return json.loads(printed.read_text())

    monkeypatch.setattr(participants, "in_own_process", forked)
    result = participants.measure(seed=0, sizes=(50,), n_compared=40)
    assert result["equal"]
    assert [case["work"] for case in result["cases"]] == ["study status", "dashboard"]
    assert min(case["peak_mb"] for case in result["cases"]) > 0
