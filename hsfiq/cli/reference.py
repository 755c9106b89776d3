"""The reference pages of the commands and of the tables of releases, for the documentation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from hsfiq.cli import root_command
from hsfiq.kinds import RELEASE_KINDS
from hsfiq.kinds.tables import SHARED_TABLES, Table
from hsfiq.releases.card import table_section

if TYPE_CHECKING:
    from typer.core import TyperCommand, TyperGroup


WIDTH = 80

HEAD = """# The command line

The help of each command. `-h` is short for `--help`. Exit codes: 0 done; 1 a check failed, or there
is nothing to do; 2 wrong usage or unreadable input. Errors are one line on the error stream;
`--debug` anywhere shows the traceback.

Names of arguments and options are consistent:

| spelling | meaning |
|---|---|
| `NAME`, first | the study, participant or account: `hsfiq study open NAME` |
| `--study NAME` | the study, where `NAME` is something else |
| `--dataset NAME` | one of several datasets |
| `--database URL` | the database, else the project's, `$HSFIQ_DATABASE_URL` or `hsfiq.db` |
| `--run [NAME=]FILE` | a system's ranked lists |
| `--system NAME` | a system, where the file of its ranked lists does not name it |
| `--checkpoint DIR` | a scorer or a retrieval system that was trained |
| `--release DIR` or `RELEASE`, first | a release's folder |
| `--metric NAME`, `--scores FILE` | a metric, and a file with its values |
| `--images DIR`, `--data DIR` | image files, and a dataset's own folder |
| `--out` | the output |
| `--json` | the result for programs |
| `--yes` | no confirmation |
| `--force` | replaces what exists |
| `--seed N` | the seed of all random draws |
| `...` after a value | the option may be repeated |

A *run* is a file of ranked lists, training writes a *checkpoint folder*, a *release* is a dataset,
and a *session* is a search.
"""


def reference() -> str:
    """Return every command's help as Markdown, the same on every terminal."""
    sections = [
        f"## {path}\n\n```text\n{help_of(path, command)}\n```\n"
        for path, command in commands(root_command(), "hsfiq")
    ]
    return "\n".join([HEAD, *sections])


def commands(
    command: TyperCommand | TyperGroup, path: str
) -> Iterator[tuple[str, TyperCommand | TyperGroup]]:
    """Yield the command and its subcommands, each with the words that call it."""
    yield path, command
    for name, subcommand in getattr(command, "commands", {}).items():
        yield from commands(subcommand, f"{path} {name}")


def help_of(path: str, command: TyperCommand | TyperGroup) -> str:
    """Return the output of `--help` on a terminal of `WIDTH` columns."""
    context = command.context_class(
        command,
        info_name=path,
        terminal_width=WIDTH,
        max_content_width=WIDTH,
        help_option_names=["-h", "--help"],
    )
    return "\n".join(line.rstrip() for line in command.get_help(context).strip().splitlines())


# Every table of every kind of release as Markdown.

RELEASE_HEAD = """# The tables of a release

[Releases](releases.md) explains the files. A column without an entry under "null if" is never null.
Times are in UTC.

"""


def release_reference() -> str:
    return RELEASE_HEAD + "\n".join(sections())


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
