"""Published sessions: CIRCLED, Multi-turn FashionIQ and ChatIR."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hsfiq.errors import UnreadableInput
from hsfiq.sessions import record, scripts
from tests.hsfiq.sessions.circled_files import write_circled

FIXTURES = Path(__file__).parent / "fixtures"


def asked(path: Path) -> list[tuple[tuple[str, ...], list[tuple[str | None, str | None]]]]:
    """The targets of each session, and the references and texts of its rounds."""
    return [
        (each.targets, [(part.reference, part.text) for part in each.rounds])
        for each in scripts.read(path)
    ]


def test_circled_is_read_whole(tmp_path: Path) -> None:
    """Numbers of COCO have no padding; own sessions are scripts, too."""
    path = FIXTURES / "circled.json"
    assert asked(path) == [
        (("B1",), [("A1", "is naïve red"), ("A2", "has no sleeves")]),
        (("57413", "8"), [("999", "shows two of them")]),
    ]
    sessions = scripts.read(path)
    write_circled(tmp_path / "copy.json", sessions)
    assert (tmp_path / "copy.json").read_text() == path.read_text().rstrip("\n")
    padded = path.read_text().replace('"999"', '"000000000999"')
    (tmp_path / "padded.json").write_text(padded)
    assert asked(tmp_path / "padded.json") == asked(path)
    record.write(tmp_path / "own.jsonl", sessions)
    assert scripts.read(tmp_path / "own.jsonl") == sessions


def test_multi_turn_fashioniq_joins_its_captions() -> None:
    rounds = [("A1", "is longer and and has sleeves"), ("A2", "A paisley dress and is belted")]
    assert asked(FIXTURES / "multi_turn_fashioniq.json") == [(("B1",), rounds)]


def test_chatir_has_texts_alone() -> None:
    assert asked(FIXTURES / "chatir.json") == [
        (("185565",), [(None, "a bedroom with posters"), (None, "is the photo in color? yes")]),
        (("COCO_train2014_7",), [(None, "a dog")]),
    ]


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        ([], ("contains no session",)),
        ([{"query": 1}], ("[0]", "none of the keys", "CIRCLED")),
        ([{"dialog": [], "img": "a.jpg"}], ("[0]", "has no round")),
        ([{"target": ["B1"], "reference": []}], ("[0].target", "1 values instead of 2")),
        ([{"img": "a.jpg", "dialog": ["x"]}, {"img": "a.jpg"}], ("[1]", "'dialog' is missing")),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, content: object, parts: tuple[str, ...]) -> None:
    path = tmp_path / "script.json"
    path.write_text(json.dumps(content))
    with pytest.raises(UnreadableInput) as caught:
        scripts.read(path)
    assert all(part in str(caught.value) for part in (str(path), *parts)), caught.value


def test_turns_are_in_order(tmp_path: Path) -> None:
    value = json.loads((FIXTURES / "circled.json").read_text())
    value[0]["turns"].reverse()
    (tmp_path / "reversed.json").write_text(json.dumps(value))
    with pytest.raises(UnreadableInput, match=r"turns\[0\]: its turn is not 1"):
        scripts.read(tmp_path / "reversed.json")
