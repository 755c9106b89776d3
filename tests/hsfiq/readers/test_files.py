"""Errors of files name the location."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsfiq.errors import UnreadableInput
from hsfiq.readers.files import DEEPEST, Place, numbered_lines, open_place, parse_json, read_text

DEEP = "[" * 100_000 + "]" * 100_000


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": 1,\n "b": }', "line 2, column 7: invalid JSON"),
        ("", "line 1, column 1: invalid JSON"),
        ('{"a": 1, "a": 2}', "the key 'a' occurs twice"),
        ('{"a": NaN}', "NaN is not a JSON value"),
        ("[-Infinity]", "-Infinity is not a JSON value"),
        (f"[{'9' * 5000}]", "a number is too long"),
        (DEEP, "nested too deeply"),
    ],
    ids=["broken", "empty", "twins", "nan", "infinity", "digits", "deep"],
)
def test_invalid_json_is_refused(text: str, message: str) -> None:
    with pytest.raises(UnreadableInput) as error:
        parse_json(text, "it.json")
    assert str(error.value).startswith("it.json: ")
    assert message in str(error.value)


@pytest.mark.parametrize("depth", [DEEPEST, DEEPEST + 1, 450, 900])
@pytest.mark.parametrize("brackets", ["[]", ('{"a":', "}")], ids=["lists", "objects"])
def test_json_is_nested_up_to_a_limit(depth: int, brackets: tuple[str, str]) -> None:
    opening, closing = brackets
    text = f"{opening * depth}{closing * depth}".replace(":}", ":0}")
    if depth == DEEPEST:
        assert parse_json(text, "it.json")
        return
    with pytest.raises(UnreadableInput, match="nested too deeply") as error:
        parse_json(text, "it.jsonl", line=7)
    assert error.value.where == "it.jsonl: line 7"


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("{,}", 7, "line 7, column 2"),
        ('{"a": 1, "a": 2}', 7, "line 7: the key 'a' occurs twice"),
        ("[NaN]", 1, "line 1: NaN is not a JSON value"),
    ],
)
def test_line_numbers_count_from_the_start_of_the_file(text: str, line: int, message: str) -> None:
    with pytest.raises(UnreadableInput, match=rf"it\.jsonl: {message}"):
        parse_json(text, "it.jsonl", line=line)


def test_a_byte_order_mark_is_skipped(tmp_path: Path) -> None:
    path = tmp_path / "windows.json"
    path.write_bytes(b'\xef\xbb\xbf{"a": 1}')
    assert read_text(path) == '{"a": 1}'
    assert open_place(path).key("a").where == f"{path}: a"


def test_only_line_feeds_end_lines(tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"
    path.write_bytes('"a\u2028b"\r\n\n  \n"c\x0bd"\n'.encode())
    assert list(numbered_lines(read_text(path))) == [(1, '"a\u2028b"'), (4, '"c\x0bd"')]


def place(value: object) -> Place:
    return Place(value, "it.json: ")


def test_locations_are_named_by_keys_and_indexes() -> None:
    inner = place({"a": {"b": [10, 20]}}).key("a").key("b").list()[1]
    assert (inner.where, inner.integer()) == ("it.json: a.b[1]", 20)


def test_long_locations_are_shortened() -> None:
    value: object = ["x"]
    for _ in range(20):
        value = {"k" * 250: value}
    inner = place(value)
    for _ in range(20):
        inner = inner.key("k" * 250)
    (member,) = inner.members()
    assert member.where.startswith("it.json: kkk")
    assert member.where.endswith("kkk[0]")
    assert len(member.where) < 1_100
    assert member.with_value("y").where == member.where


@pytest.mark.parametrize(
    ("read_value", "value", "message"),
    [
        (Place.text, 3, "expected text, found 3"),
        (Place.text, "a\0b", "cannot be stored"),
        (Place.text, "a\ud800b", "characters that cannot be stored"),
        (Place.name, "", "1 to 200 characters, not 0"),
        (Place.name, "x" * 201, "1 to 200 characters, not 201"),
        (Place.integer, True, "found true"),
        (Place.integer, 1.0, "found 1.0"),
        (Place.number, "1", "found '1'"),
        (Place.number, 10**400, "too large to be stored"),
        (Place.number, float("inf"), "too large to be stored"),
        (Place.number, None, "found null"),
        (Place.list, {}, "expected a list, found an object"),
        (lambda place: list(place.items()), [], "expected an object, found a list"),
        (lambda place: place.key("b"), "text", "expected an object, found 'text'"),
        (lambda place: place.key("b"), {"a": 1}, "the key 'b' is missing"),
        (lambda place: place.only("a"), {"a": 1, "c": 2}, "unknown key 'c'; known keys: a"),
    ],
)
def test_values_of_the_wrong_kind(read_value, value: object, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(UnreadableInput) as error:
        read_value(place(value))
    assert str(error.value).startswith("it.json: ")
    assert message in str(error.value)


ids = st.sampled_from(["", "a", "b" * 200, "b" * 201, "\0", "\ud800", 3])


@given(st.lists(ids, max_size=4) | st.sampled_from([None, "names", {"a": 1}, 3]))
def test_names_are_those_of_the_single_places(values: object) -> None:
    place = Place(values, "file")
    as_a_whole = outcome(place.names)
    assert as_a_whole == outcome(lambda: tuple(each.name() for each in place.list()))
    assert not isinstance(values, list) or place.holds_names() == isinstance(as_a_whole, tuple)
    assert isinstance(values, list) or "expected a list" in as_a_whole


def outcome(read: Callable[[], tuple[str, ...]]) -> tuple[str, ...] | str:
    """What is read, or the message of its error."""
    try:
        return read()
    except UnreadableInput as error:
        return str(error)


def test_the_first_repeated_key_of_many_is_named() -> None:
    members = [f'"q{number}": []' for number in range(60_000)]
    with pytest.raises(UnreadableInput, match="'q59998' occurs twice"):
        parse_json("{" + ", ".join([*members, '"q59998": []', '"q59999": []']) + "}", "run.json")
