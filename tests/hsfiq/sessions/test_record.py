"""Sessions as JSON lines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hsfiq.errors import InvalidRecord, UnreadableInput
from hsfiq.sessions import record
from hsfiq.sessions.record import Corpus, Round, Session, Stop

PLAYED = Session(
    session_id="dress.val.0/0", query_id="dress.val.0", system="sprc", system_version="ab" * 32,
    simulator="drawn-full", history="mean", chooser="top1", seed=0, targets=("t",), max_rounds=2,
    corpus=Corpus(name="dress", size=3, sha256="cd" * 32),
    rounds=(
        Round(
            round=1, reference="r", text="is red", shown=("a", "t"), scores=(0.5, 0.25), rank=2,
            ties=0, candidate="a", seconds=0.0,
        ),
        Round(round=2, reference="a", text="", shown=("t", "a"), scores=(1, 0.5), rank=1, ties=0),
    ),
    stop=Stop(reason="max-rounds", round=2),
)  # fmt: skip
BY_A_PERSON = Session(
    session_id="p1.3", query_id="dress.val.0", participant="p1", study="live", task="own-wish",
    would_go_on=False, satisfaction=4,
    rounds=(Round(round=1, text="a blue dress", shown=("a", "b"), satisfaction=2, nearest="b"),),
    stop=Stop(reason="found-other", round=1, declared="b"),
)  # fmt: skip


def test_what_is_written_is_read_with_the_keys_of_the_contract(tmp_path: Path) -> None:
    """What is unknown is absent."""
    record.write(tmp_path / "sessions.jsonl", [PLAYED, BY_A_PERSON])
    assert record.read(tmp_path / "sessions.jsonl") == (PLAYED, BY_A_PERSON)
    played, by_a_person = record.to_json(PLAYED), record.to_json(BY_A_PERSON)
    assert (played["final_rank"], played["seed"], played["rounds"][0]["ties"]) == (1, 0, 0)
    assert played["stop"] == {"reason": "max-rounds", "round": 2}
    assert played["corpus"] == {"name": "dress", "size": 3, "sha256": "cd" * 32}
    assert played["rounds"][1] == {
        "round": 2, "reference": "a", "text": "", "shown": ["t", "a"], "scores": [1, 0.5],
        "rank": 1, "ties": 0,
    }  # fmt: skip
    assert by_a_person["would_go_on"] is False
    assert by_a_person.keys().isdisjoint({"system", "final_rank", "targets", "is_practice"})


def changed(**changes: Any) -> str:
    return json.dumps({**record.to_json(PLAYED), **changes})


@pytest.mark.parametrize(
    ("line", "parts"),
    [
        ("{", ("line 2", "invalid JSON")),
        ("1", ("line 2", "expected an object")),
        ('{"session_id": "s"}', ("line 2", "'query_id' is missing")),
        (changed(systm="x"), ("line 2", "unknown key 'systm'", "known keys")),
        (changed(rounds=[]), ("has no round",)),
        (changed(rounds=[{"round": 2}]), ("numbered 1, 2",)),
        (changed(rounds=[{"round": 1, "rank": 0}]), ("rank 0 of round 1",)),
        (changed(rounds=[{"round": 1, "rank": "1"}]), ("rounds[0].rank", "an integer")),
        (changed(rounds=[{"round": 1, "shown": ["a", "a"]}]), ("a repeated image",)),
        (changed(rounds=[{"round": 1, "scores": [1]}]), ("0 images with 1 scores",)),
        (changed(stop={"reason": "bored", "round": 2}), ("stop.reason", "'bored'", "found-other")),
        (changed(stop={"reason": "found", "round": 1}), ("2 rounds", "after round 1")),
        (changed(final_rank=5), ("final_rank is 5", "rank 1")),
        (changed(is_practice=1), ("is_practice", "true or false")),
        (changed(session_id=""), ("session_id",)),
        (changed(), ("'dress.val.0/0' occurs twice",)),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, line: str, parts: tuple[str, ...]) -> None:
    path = tmp_path / "sessions.jsonl"
    path.write_text(f"{changed()}\n{line}\n")
    with pytest.raises(UnreadableInput) as caught:
        record.read(path)
    assert all(part in str(caught.value) for part in (str(path), *parts)), caught.value


def test_empty_files_and_impossible_records_are_refused(tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").write_text("\n")
    with pytest.raises(UnreadableInput, match="contains no session"):
        record.read(tmp_path / "empty.jsonl")
    with pytest.raises(InvalidRecord, match="stop_at 0"):
        Session(session_id="s", query_id="q", rounds=(Round(round=1),), stop_at=0)
