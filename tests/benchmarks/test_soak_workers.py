"""A few seconds of the benchmark `soak-workers`, with its three faults."""

from __future__ import annotations

import pytest

from benchmarks.soak_workers import Size, soak


@pytest.mark.postgres
@pytest.mark.usefixtures("forked_servers", "postgres_server")
def test_every_acknowledged_answer_is_stored_once() -> None:
    result = soak(Size(people=9, seconds=8, thinking=0.5, outage=0.6), seed=7)
    assert result["acknowledged"] > 0
    assert result["faults"] == ["worker", "nginx", "postgresql"]
    assert result["repeated"] > 0
    assert result["answers"][-1] > 0
    assert (result["lost"], result["doubled"], result["overlap_exceeded"]) == (0, 0, 0)
    # What is stored beyond that was saved, but the kill came before the acknowledgement.
    assert 0 <= result["stored"] - result["acknowledged"] <= result["people"]
