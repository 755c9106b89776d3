"""Kill -9 at random moments under concurrent annotators, three rounds of the benchmark `soak`."""

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

from benchmarks import serving
from benchmarks.serving import Place
from benchmarks.soak import soak
from tests.processes import Fork, start_command


def test_every_acknowledged_answer_is_stored_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(command: Sequence[str], env: dict[str, str], **_: object) -> Fork:
        return start_command(*command[3:], log=tmp_path / "server.log", **env)

    monkeypatch.setattr(serving, "subprocess", SimpleNamespace(Popen=start))
    result = soak(Place(tmp_path), rounds=3, seed=7)
    assert result["acknowledged"] > 0
    assert result["restarts"] == 3
    assert result["lost"] == 0
    assert result["duplicated"] == 0
    assert result["overlap_exceeded"] == 0
    # What is stored beyond that was saved, but the kill came before the acknowledgement.
    assert 0 <= result["stored"] - result["acknowledged"] <= result["annotators"]
