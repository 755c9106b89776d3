"""The lines of a TOML file on which its tables and keys stand, for messages about them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

_TABLE = re.compile(r"\s*\[+\s*([\w.-]+)\s*\]+")
_KEY = re.compile(r"\s*([\w-]+(?:\s*\.\s*[\w-]+)*)\s*=")
_TEXT = re.compile(r"""\"{3}|'{3}|"(?:\\.|[^"\\])*"|'[^']*'|#.*""")


def enclosing(key: str) -> Iterator[str]:
    """A key and the tables that contain it: `a.b.c`, `a.b`, `a`."""
    while key:
        yield key
        key = key.rpartition(".")[0]


def lines_of_keys(text: str) -> Iterator[tuple[str, int]]:
    """The lines of each table and each `table.key`; multi-line texts are skipped.

    The tables of an array are numbered from 1.
    """
    table, quotes = "", ""
    numbers = Counter[str]()
    for number, line in enumerate(text.split("\n"), start=1):
        if not quotes:
            if match := _TABLE.match(line):
                table = match[1]
                if "[[" in line.partition(table)[0]:
                    numbers[table] += 1
                    table += f".{numbers[table]}"
                yield table, number
            elif match := _KEY.match(line):
                key = re.sub(r"\s", "", match[1])
                yield (f"{table}.{key}" if table else key), number
        quotes = _open_at_the_end(line, quotes)


def _open_at_the_end(line: str, quotes: str) -> str:
    """The quotes of a multi-line text that continues after this line; "" if there is none."""
    rest = line
    while True:
        if quotes:
            _, closing, rest = rest.partition(quotes)
            if not closing:
                return quotes
            quotes = ""
        match = _TEXT.search(rest)
        if match is None:
            return ""
        rest = rest[match.end() :]
        if match[0] in ('"""', "'''"):
            quotes = match[0]
