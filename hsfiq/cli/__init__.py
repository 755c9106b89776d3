"""The command line, the only package that imports from all others.

Commands import other modules only when they run, so that `hsfiq --help` is fast. Errors become
one line and an exit code here.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from copy import copy
from functools import cache
from typing import Annotated, Any

import typer
from typer.main import get_command, get_command_name

from hsfiq import __version__
from hsfiq.cli import (
    account,
    analyze,
    audit,
    db,
    demo,
    evaluate,
    export,
    images,
    imports,
    participant,
    release,
    retrieve,
    running_study,
    score,
    serve,
    sessions,
    simulate,
    study,
    train,
)
from hsfiq.errors import FileErrors, HsfiqError, NothingToDo, Unavailable
from hsfiq.text import one_line

app = typer.Typer(
    name="hsfiq",
    help="Do people agree? Annotate, release and analyse human judgements of retrieved sets.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for commands_of in (demo, serve, export, analyze, train, score, simulate):
    app.registered_commands += commands_of.app.registered_commands
app.registered_commands += images.show_app.registered_commands
study.app.registered_commands += running_study.app.registered_commands
app.add_typer(db.app, name="db")
app.add_typer(imports.app, name="import")
app.add_typer(images.app, name="images")
app.add_typer(study.app, name="study")
app.add_typer(participant.app, name="participant")
app.add_typer(account.owner_app, name="owner")
app.add_typer(account.app, name="account")
app.add_typer(audit.app, name="audit")
app.add_typer(account.secret_app, name="secret")
app.add_typer(evaluate.app, name="evaluate")
app.add_typer(release.app, name="release")
app.add_typer(retrieve.app, name="retrieve")
app.add_typer(sessions.app, name="sessions")
app.add_typer(retrieve.weights_app, name="weights")


def show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"hsfiq {__version__}")
        raise typer.Exit


@app.callback()
def root(
    database: Annotated[
        str | None, typer.Option(help="Like the commands' own --database.", metavar="URL")
    ] = None,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    version: Annotated[
        bool,
        typer.Option("--version", callback=show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Do people agree? Annotate, release and analyse human judgements of retrieved sets."""


def main() -> None:
    """Run the console script."""
    sys.exit(run(sys.argv[1:]))


@cache
def commands(name: str = "") -> Callable[..., object]:
    """The command or the group of commands with this name, or all if none has it.

    Each is built once, since Typer would build it again for each call, and without the others,
    which takes longer than to parse the arguments.
    """
    only = copy(app)
    only.registered_groups = [group for group in app.registered_groups if group.name == name]
    only.registered_commands = [
        command
        for command in app.registered_commands
        if command.callback and get_command_name(command.callback.__name__) == name
    ]
    return get_command(only if only.registered_groups or only.registered_commands else app)


def run(arguments: Sequence[str]) -> int:
    """Run a command and return its exit code: 0 done, 1 the data says no, 2 unusable input."""
    # --debug may be anywhere, since users append it after an error.
    debug = "--debug" in arguments
    rest = [argument for argument in arguments if argument != "--debug"]
    try:
        result = commands(*rest[:1])(args=rest, prog_name="hsfiq", standalone_mode=False)
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
            TOO_LONG, "a number with this many digits is too large"
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
    """The driver's error for one that says only that the database is unavailable."""
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
