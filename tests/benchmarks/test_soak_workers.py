"""A few seconds of the benchmark `soak-workers`: one of three workers behind nginx is killed."""

from __future__ import annotations

import pytest

from benchmarks.soak_workers import Size, soak


@pytest.mark.postgres
@pytest.mark.usefixtures("forked_servers", "postgres_server")
def test_every_acknowledged_answer_is_stored_once() -> None:
    result = soak(Size(people=9, seconds=8, thinking=0.5), seed=7)
    assert result["acknowledged"] > 0
    assert result["killed"] == 1
    assert (result["lost"], result["doubled"], result["overlap_exceeded"]) == (0, 0, 0)
    # What is stored beyond that was saved, but the kill came before the acknowledgement.
    assert 0 <= result["stored"] - result["acknowledged"] <= result["people"]
