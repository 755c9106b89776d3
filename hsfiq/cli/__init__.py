"""The command line, the only package that imports from all others.

A command's module is imported when the command is used, and commands import other modules only
when they run, so that `hsfiq --help` is fast. Errors become one line and an exit code here.
"""

from __future__ import annotations

import os
import sys
from collections import UserDict
from collections.abc import Sequence
from contextvars import ContextVar
from functools import cache
from importlib import import_module
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup
from typer.main import get_command, get_command_name

from hsfiq import __version__
from hsfiq.errors import FileErrors, HsfiqError, NothingToDo, Unavailable
from hsfiq.text import one_line

COMMANDS: Final[dict[str, dict[str, tuple[str, str]]]] = {
    "Collect answers": {
        "init": ("project:app", "Make a study of your own images, queries and lists."),
        "rehearse": ("project:app", "Rehearse a project's study with simulated annotators."),
        "draft": ("project:draft_app", "Draw and rehearse studies set up in the browser."),
        "demo": ("demo:app", "Serve a ready study with drawn garments."),
        "serve": ("serve:app", "Serve the studies of a database in the browser."),
        "study": ("running_study:app", "Create, open, change and close studies."),
        "participant": ("participant:app", "Invite, pause, exclude and pay participants."),
        "prolific": ("prolific:app", "Draft, publish, compare and pay a study on Prolific."),
        "account": ("account:app", "Manage the accounts of the studio."),
        "import": ("imports:app", "Import datasets, ranked lists and releases."),
        "images": ("images:app", "Check images, and make thumbnails in advance."),
        "simulate": ("simulate:app", "Answer a study with simulated annotators."),
    },
    "Publish and analyze": {
        "export": ("export:app", "Write a study's answers as releases."),
        "release": ("release:app", "Verify, compare, merge and publish releases."),
        "analyze": ("analyze:app", "Measure people's preferences and metrics' agreement."),
        "power": ("analyze:app", "Estimate the precision of a planned study."),
        "show": ("images:show_app", "Draw a contact sheet of a query's ranked lists."),
    },
    "Train and evaluate": {
        "train": ("train:app", "Train a scorer or a retrieval system."),
        "score": ("score:app", "Score every retrieved set of a release."),
        "retrieve": ("retrieve:app", "Write a retrieval system's ranked lists."),
        "retriever": ("retrieve:retriever_app", "Serve and check live retrievers."),
        "evaluate": ("evaluate:app", "Evaluate ranked lists on a benchmark."),
        "sessions": ("sessions:app", "Simulate and measure multi-round searches."),
        "weights": ("retrieve:weights_app", "Convert and import published weights."),
    },
    "Run a server": {
        "doctor": ("serve:app", "Check what a server needs."),
        "db": ("db:app", "Back up, restore, copy and upgrade the database."),
        "audit": ("audit:app", "Show who changed or exported study data."),
        "secret": ("account:secret_app", "Create and rotate the key that signs cookies."),
    },
}
"""Each command's module and Typer app, and what it does, by the headings of the help."""


class Imported(UserDict[str, Any]):
    """The commands of `COMMANDS`, each imported when it is used."""

    def __getitem__(self, name: str) -> Any:
        return command_named(name, self.data[name])


class Commands(TyperGroup):
    """Shows the commands with their headings, without importing them."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = Imported(
            {name: place for group in COMMANDS.values() for name, (place, _) in group.items()}
        )

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 (Typer passes it)
        for heading, commands in COMMANDS.items():
            with formatter.section(heading):
                formatter.write_dl([(name, what) for name, (_, what) in commands.items()])


@cache
def command_named(name: str, place: str) -> Any:
    """The command or the group of commands of a module's Typer app: `module:app`."""
    module, _, attribute = place.partition(":")
    commands_of: typer.Typer = getattr(import_module(f"hsfiq.cli.{module}"), attribute)
    parent = typer.Typer(add_completion=False, rich_markup_mode=None)
    parent.registered_commands = [
        command
        for command in commands_of.registered_commands
        if command.callback and get_command_name(command.callback.__name__) == name
    ]
    if parent.registered_commands:
        return without_types(get_command(parent))
    parent.add_typer(commands_of, name=name)
    group: Any = get_command(parent)
    return without_types(group.commands[name])


def without_types(command: Any) -> Any:
    """Return the command with readable value names in its help: FILE, N, not <int range>.

    Three dots mark an option that may be repeated.
    """
    for subcommand in getattr(command, "commands", {}).values():
        without_types(subcommand)
    for parameter in command.params:
        if parameter.param_type_name == "argument":
            parameter.display_type_rich = lambda ctx: None  # noqa: ARG005 (Typer names it)
            parameter.metavar = parameter.metavar or parameter.name.upper()
        elif parameter.metavar is None and parameter.bare_type() in ("int", "float"):
            parameter.metavar = "N"
        if parameter.param_type_name == "option" and parameter.multiple:
            parameter.metavar = f"{parameter.metavar} ..."
    return command


app = typer.Typer(
    name="hsfiq",
    cls=Commands,
    help="Do people agree? Annotate, release and analyze human judgements of retrieved sets.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"hsfiq {__version__}")
        raise typer.Exit


@app.callback()
def root(
    database: Annotated[
        str | None,
        typer.Option(
            help="Same as --database of a command.",
            metavar="URL",
            callback=lambda url: import_module("hsfiq.cli.common").warn_of_password(url),
        ),
    ] = None,
    quiet: Annotated[
        bool,
        typer.Option("--quiet", "-q", help="Hide progress and notes; show warnings."),
    ] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Also show log messages of libraries.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    version: Annotated[
        bool,
        typer.Option("--version", callback=show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Do people agree? Annotate, release and analyze human judgements of retrieved sets."""


ANYWHERE = ("--debug", "--quiet", "-q", "--verbose", "-v")
"""Options of `hsfiq` that may follow a command."""

QUIET = ContextVar("QUIET", default=False)
"""Whether neither notes nor progress are shown."""


def main() -> None:
    """Run the console script."""
    if os.environ.get("HSFIQ_JOB"):
        from hsfiq.jobs import become_job

        become_job()
    sys.exit(run(sys.argv[1:]))


@cache
def root_command() -> Any:
    return get_command(app)


def run(arguments: Sequence[str]) -> int:
    """Run a command and return its exit code: 0 done, 1 a check failed, 2 bad input."""
    # These may be anywhere, since users append them to a command that they repeat.
    moved = [argument for argument in arguments if argument in ANYWHERE]
    debug = "--debug" in moved
    rest = [*moved, *(argument for argument in arguments if argument not in ANYWHERE)]
    QUIET.set(not {"-q", "--quiet"}.isdisjoint(moved))
    if not {"-v", "--verbose"}.isdisjoint(moved):
        import logging

        logging.basicConfig(level=logging.INFO, format="%(name)s: %(message)s")
    try:
        result = root_command()(args=rest, prog_name="hsfiq", standalone_mode=False)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the program that reads our output has ended, as in `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        if debug:
            raise
        if type(error).__name__ == "NoArgsIsHelpError":  # `hsfiq db` alone: its message is the help
            typer.echo(str(error), err=True)
            return 2
        message, code = explain(in_drivers_words(error), rest)
        if message is None:
            raise
        for line in message.split("\n"):
            typer.echo(f"hsfiq: {line}", err=True)
        return code
    return result if isinstance(result, int) else 0


def explain(error: Exception, arguments: Sequence[str] = ()) -> tuple[str | None, int]:
    """Return the message and the exit code of an error that the user can fix; (None, 1) for a bug.

    `arguments` are those of the command line. The message has one line, or one for each mistake in
    a study's file or in own data.
    """
    if isinstance(error, HsfiqError):
        lines = error.lines if isinstance(error, FileErrors) else [str(error)]
        return "\n".join(map(one_line, lines)), error.exit_code
    if isinstance(error, typer.Abort):
        return "aborted", 1
    format_message = getattr(error, "format_message", None)
    if format_message is not None:  # typer's own: a wrong option or argument
        context = getattr(error, "ctx", None)
        command = context.command_path if context else "hsfiq"
        missing = all_missing(context, arguments) if hasattr(error, "param_type") else ""
        text = one_line(missing or format_message()).replace(
            TOO_LONG, "the number has too many digits"
        )
        text = text.replace(PREFIX_OF_PYDANTIC, ": ", 1)
        return f"{text} (see `{command} --help`)", 2
    if isinstance(error, MemoryError):
        return "out of memory", NothingToDo.exit_code
    if isinstance(error, OSError) and error.strerror:
        return one_line(f"{error.filename or 'the system'}: {error.strerror}"), 2
    return explain_others(error)


def all_missing(context: Any, arguments: Sequence[str]) -> str:
    """All missing arguments and options of a command (Click names one); "" if they are unknown."""
    rest, names = list(arguments), context.command_path.split()[1:]
    for name in names:
        if name not in rest:
            return ""
        rest = rest[rest.index(name) + 1 :]
    command = context.command
    given, _, _ = command.make_parser(context).parse_args(rest)
    missing = [
        parameter
        for parameter in command.params
        if parameter.required
        and parameter.value_is_missing(parameter.consume_value(context, given)[0])
    ]
    named = (f"{parameter.param_type_name} {parameter.get_error_hint()}" for parameter in missing)
    return f"Missing {'; '.join(named)}" if missing else ""


TOO_LONG = "Unable to parse input string as an integer, exceeded maximum size"
PREFIX_OF_PYDANTIC = ": Value error, "


def in_drivers_words(error: Exception) -> Exception:
    """The driver's error behind an error that reports only an unavailable database."""
    cause = error.__cause__ if isinstance(error, Unavailable) else None
    return cause if isinstance(cause, Exception) and explain_others(cause)[0] else error


UNUSABLE = {
    *("OperationalError", "DatabaseError"),
    *("InsufficientPrivilege", "ReadOnlySqlTransaction"),  # PostgreSQL's own
}
"""Database errors that are not bugs."""


def explain_others(error: Exception) -> tuple[str | None, int]:
    """Explain errors of packages that may not be installed, by the names of their classes."""
    package = type(error).__module__.partition(".")[0]
    if package == "sqlalchemy" and "sqlalchemy.exc" in sys.modules:
        orig = getattr(error, "orig", None)
        names = {type(error).__name__, type(orig).__name__}
        if orig is not None and names & UNUSABLE:
            return f"the database cannot be used ({one_line(str(orig))})", 2
    if package == "alembic" and type(error).__name__ == "CommandError":
        return f"the database's schema cannot be changed ({one_line(str(error))})", 2
    return None, 1
