"""Kill -9 at random moments under concurrent annotators, three rounds of the benchmark `soak`."""

from pathlib import Path

import pytest

from benchmarks.serving import Place
from benchmarks.soak import soak


@pytest.mark.usefixtures("forked_servers")
def test_every_acknowledged_answer_is_stored_once(tmp_path: Path) -> None:
    result = soak(Place(tmp_path), rounds=3, seed=7)
    assert result["acknowledged"] > 0
    assert result["restarts"] == 3
    assert result["lost"] == 0
    assert result["duplicated"] == 0
    assert result["overlap_exceeded"] == 0
    # What is stored beyond that was saved, but the kill came before the acknowledgement.
    assert 0 <= result["stored"] - result["acknowledged"] <= result["annotators"]
