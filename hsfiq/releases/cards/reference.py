"""Every table of every kind of release as Markdown: `python -m hsfiq.releases.cards.reference`."""

from __future__ import annotations

from collections.abc import Iterator

from hsfiq.releases.card import table_section
from hsfiq.releases.kinds import RELEASE_KINDS
from hsfiq.releases.kinds.shared_tables import SHARED_TABLES
from hsfiq.releases.schemas import Table

HEAD = """# The tables of a release

Made from the code by `python -m hsfiq.releases.cards.reference`; [releases](releases.md)
explains the rest. A column without an entry under "null if" is never null. Times are in UTC.

"""


def reference() -> str:
    return HEAD + "\n".join(sections())


def sections() -> Iterator[str]:
    described: dict[tuple[Table, ...], str] = {}
    for kind in RELEASE_KINDS.values():
        yield f"## Kind `{kind.name}`\n"
        if kind.own_tables in described:
            yield f"The tables of `{described[kind.own_tables]}`.\n"
            continue
        described[kind.own_tables] = kind.name
        yield from map(table_section, kind.own_tables)
    yield "## Every kind\n"
    yield from map(table_section, SHARED_TABLES)


if __name__ == "__main__":
    print(reference(), end="")  # noqa: T201
