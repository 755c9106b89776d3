"""Read text and JSON with errors that name the file and the place in it."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

from hsfiq.errors import UnreadableInput
from hsfiq.text import is_storable_text

LONGEST_NAME = 200
LONGEST_PATH = 1000
"""Characters of a path of keys in an error; the middle of a longer one is left out."""
DEEPEST = 50
"""Levels of lists and objects; functions that call themselves read them."""
TOO_DEEP = "the JSON is nested too deeply"
BYTE_ORDER_MARK = "\ufeff"


def read_text(path: Path) -> str:
    """The file's text without a byte order mark; `UnreadableInput` if it is not UTF-8."""
    try:
        return path.read_text(encoding="utf-8").removeprefix(BYTE_ORDER_MARK)
    except FileNotFoundError as error:
        raise UnreadableInput(str(path), "there is no such file") from error
    except UnicodeDecodeError as error:
        raise UnreadableInput(
            f"{path}: byte {error.start}",
            "this is not UTF-8 text",
            "save the file as UTF-8 (in Excel: CSV UTF-8)",
        ) from error
    except OSError as error:
        raise UnreadableInput(str(path), f"cannot be read ({error.strerror})") from error


def read_json(path: Path) -> Any:
    """The file's JSON value; `UnreadableInput` if it is not JSON or an object has a key twice."""
    return parse_json(read_text(path), str(path))


def parse_json(text: str, where: str, line: int | None = None) -> Any:
    """Parse JSON: all of the file `where`, or the part of it that starts at a line."""
    place = where if line is None else f"{where}: line {line}"
    try:
        value = json.loads(text, object_pairs_hook=unique_keys, parse_constant=refuse_constant)
    except json.JSONDecodeError as error:
        raise UnreadableInput(
            f"{where}: line {error.lineno + (line or 1) - 1}, column {error.colno}",
            f"broken JSON ({error.msg})",
        ) from error
    except ValueError as error:
        raise UnreadableInput(place, why_unreadable(error)) from error
    except RecursionError as error:
        raise UnreadableInput(place, TOO_DEEP) from error
    # A text with few brackets, such as most JSON lines, cannot be deep.
    if text.count("[") + text.count("{") > DEEPEST and is_deeper(value, DEEPEST):
        raise UnreadableInput(place, TOO_DEEP)
    return value


def is_deeper(value: Any, deepest: int) -> bool:
    """Whether lists and objects are nested more than so many levels deep."""
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(deepest):
        level = [
            member
            for container in level
            for member in (container.values() if isinstance(container, dict) else container)
            if isinstance(member, dict | list)
        ]
    return bool(level)


def why_unreadable(error: ValueError) -> str:
    """The error's own words, but for numbers of more digits than Python reads."""
    return "a number is too long" if "integer string conversion" in str(error) else str(error)


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object's members; a repeated key, of which `json` would keep the last, is refused."""
    members = dict(pairs)
    if len(members) < len(pairs):
        repeated = next(key for key, n in Counter(key for key, _ in pairs).items() if n > 1)
        raise ValueError(f"the key {repeated!r} occurs twice")
    return members


def refuse_constant(name: str) -> NoReturn:
    """Refuse NaN and infinities, which Python accepts but JSON does not allow."""
    raise ValueError(f"{name} is not a JSON value")


def numbered_lines(text: str) -> Iterator[tuple[int, str]]:
    """A file's lines that are not blank, numbered from 1.

    Only line feeds end a line: JSON may contain the other separators of `str.splitlines`.
    """
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            yield number, line


class Place:
    """A JSON value with its place in the file, for errors that name the place.

    `where` is the place in words or, for a member of another value, its key or its index there.
    """

    __slots__ = ("above", "step", "value")

    def __init__(self, value: Any, where: str | int, above: Place | None = None) -> None:
        self.value, self.step, self.above = value, where, above

    @property
    def where(self) -> str:
        """The place in words, made only when it is asked for: there may be millions of values."""
        steps: list[str] = []
        place = self
        while place.above is not None:
            steps.append(f"[{place.step}]" if isinstance(place.step, int) else f".{place.step}")
            place = place.above
        root, path = str(place.step), "".join(reversed(steps))
        # The file's name ends with ": ", the keys below it are joined with dots.
        path = path.removeprefix(".") if root.endswith(": ") else path
        half = LONGEST_PATH // 2
        return root + (path if len(path) <= LONGEST_PATH else f"{path[:half]}...{path[-half:]}")

    def with_value(self, value: Any) -> Place:
        """Another value at the same place, such as a part of a text."""
        return Place(value, self.step, self.above)

    def wrong(self, what: str, remedy: str = "") -> UnreadableInput:
        return UnreadableInput(self.where.removesuffix(": "), what, remedy)

    def items(self, longest: int = LONGEST_NAME) -> Iterator[tuple[str, Place]]:
        """The members of an object whose keys are ids of at most `longest` characters."""
        if not isinstance(self.value, dict):
            raise self.wrong(f"expected an object, found {kind(self.value)}")
        for key, value in self.value.items():
            if not 1 <= len(key) <= longest or not is_storable_text(key):
                Place(key, f"{self.where}{key[:40]!r}").name(longest)
            yield key, Place(value, key, self)

    def key(self, name: str) -> Place:
        if not isinstance(self.value, dict):
            raise self.wrong(f"expected an object, found {kind(self.value)}")
        if name not in self.value:
            raise self.wrong(f"the key {name!r} is missing")
        return Place(self.value[name], name, self)

    def only(self, *names: str) -> None:
        unknown = [key for key, _ in self.items() if key not in names]
        if unknown:
            raise self.wrong(f"unknown key {unknown[0]!r}", f"known keys: {', '.join(names)}")

    def members(self) -> Iterator[Place]:
        """The members of a list, one at a time."""
        if not isinstance(self.value, list):
            raise self.wrong(f"expected a list, found {kind(self.value)}")
        for index, value in enumerate(self.value):
            yield Place(value, index, self)

    def list(self) -> list[Place]:
        return [*self.members()]

    def text(self) -> str:
        if not isinstance(self.value, str):
            raise self.wrong(f"expected text, found {kind(self.value)}")
        if not is_storable_text(self.value):
            raise self.wrong("the text has characters that cannot be stored")
        return self.value

    def name(self, longest: int = LONGEST_NAME) -> str:
        name = self.text()
        if not 1 <= len(name) <= longest:
            raise self.wrong(f"an id here has 1 to {longest} characters, not {len(name):,}")
        return name

    def names(self) -> tuple[str, ...]:
        """The ids in a list."""
        if self.holds_names():
            return tuple(self.value)
        return tuple(place.name() for place in self.members())

    def holds_names(self) -> bool:
        """Whether this is a list of ids without a mistake: most are, and some hold millions."""
        return (
            isinstance(self.value, list)
            and all(isinstance(each, str) and 1 <= len(each) <= LONGEST_NAME for each in self.value)
            and is_storable_text("".join(self.value))
        )

    def integer(self) -> int:
        if not isinstance(self.value, int) or isinstance(self.value, bool):
            raise self.wrong(f"expected an integer, found {kind(self.value)}")
        return self.value

    def truth(self) -> bool:
        if not isinstance(self.value, bool):
            raise self.wrong(f"expected true or false, found {kind(self.value)}")
        return self.value

    def number(self) -> float:
        """A finite number that fits in a float."""
        if not isinstance(self.value, int | float) or isinstance(self.value, bool):
            raise self.wrong(f"expected a number, found {kind(self.value)}")
        try:
            number = float(self.value)
        except OverflowError:
            number = math.inf
        if math.isnan(number):
            raise self.wrong(f"{kind(self.value)} is not a number")
        if not math.isfinite(number):
            raise self.wrong(f"{kind(self.value)} is too large to be stored")
        return number


def open_place(path: Path) -> Place:
    return Place(read_json(path), f"{path}: ")


def kind(value: object) -> str:
    """A JSON value in words; strings and numbers are shown, shortened."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    shown = repr(value)
    return shown if len(shown) <= 40 else f"{shown[:37]}..."
