"""Shared parts of the commands: options, printing, progress, the audit log and report folders."""

from __future__ import annotations

import inspect
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import MISSING, dataclass, fields, is_dataclass
from decimal import Decimal
from functools import wraps
from inspect import Parameter
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_type_hints

import typer

from hsfiq.actors import Action
from hsfiq.cli import QUIET
from hsfiq.errors import HsfiqError, NothingToDo, UnreadableInput
from hsfiq.public_url import public_url
from hsfiq.text import one_line, without_controls

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from hsfiq.collect.owner import OwnerAction
    from hsfiq.db.engine import Database
    from hsfiq.db.tables import Participant, Study
    from hsfiq.images.store import Images, Root
    from hsfiq.jobs import JobProgress
    from hsfiq.project import Project


T = TypeVar("T")
Command = TypeVar("Command", bound=Callable[..., None])

RELEASES = "releases"
MARKER = "hsfiq.toml"
"""Marks a project folder (`hsfiq.project`)."""

LOCAL_ADDRESS = "http://127.0.0.1:7860"

DATABASE_VARIABLE = "HSFIQ_DATABASE_URL"


def warn_of_password(url: str | None) -> str | None:
    """Warn that other users can see the password of a URL given on the command line."""
    if url and url != os.environ.get(DATABASE_VARIABLE):
        from hsfiq.db.failures import has_password, shown_url

        if has_password(url):
            seen = f"other users can see the password in {shown_url(url)}"
            warn([f"{seen}; set {DATABASE_VARIABLE} instead"])
    return url


DatabaseOption = Annotated[
    str | None,
    typer.Option(
        "--database",
        metavar="URL",
        help=f"The database; else ${DATABASE_VARIABLE}, else sqlite:///hsfiq.db.",
        show_default=False,
        callback=warn_of_password,
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
StudyOption = Annotated[
    str | None,
    typer.Option("--study", metavar="NAME", help="Needed if the database holds several."),
]

StudyArgument = Annotated[
    str | None,
    typer.Argument(metavar="[NAME]", help="The study; needed if the database holds several."),
]

PARTICIPANT_HELP = "The pseudonym, such as p7, or the platform id."


def project_around(folder: Path) -> Path | None:
    """The project folder that a folder is, or is in."""
    return next((each for each in (folder, *folder.parents) if (each / MARKER).is_file()), None)


def current_project() -> Project | None:
    """The project in whose folder the command runs."""
    folder = project_around(Path.cwd())
    if folder is None:
        return None
    from hsfiq.project import read_project

    return read_project(folder)


def releases_folder() -> Path:
    """Where `hsfiq export` writes: in a project in its folder, else here."""
    folder = project_around(Path.cwd())
    return Path(os.path.relpath((folder or Path.cwd()) / RELEASES))


def chosen_study(session: Session, name: str | None) -> Study:
    """Return the study with this name, or the only study.

    Raises:
        NothingToDo: there is no study.
        UnreadableInput: no study has the name, or there are several and none was named.
    """
    from hsfiq.collect.studies import list_studies

    by_name = {study.name: study for study in list_studies(session)}
    if not by_name:
        raise NothingToDo("the database holds no study; import or create one first")
    if name is None and len(by_name) == 1:
        return next(iter(by_name.values()))
    if name is None and (project := current_project()) is not None:
        name, _ = project.names()
    if name is None:
        raise UnreadableInput(
            "--study", f"there are {len(by_name)} studies", f"name one of {', '.join(by_name)}"
        )
    if name not in by_name:
        raise UnreadableInput(
            "--study", f"no study is called {name!r}", f"there are {', '.join(by_name)}"
        )
    return by_name[name]


def one_name(name: str | None, study: str | None) -> str | None:
    """The study that a command's argument or `--study` names; `UnreadableInput` if they differ."""
    if name is not None and study is not None and name != study:
        raise UnreadableInput("--study", f"is {study!r}, and NAME is {name!r}", "name one study")
    return study if name is None else name


def perform_participant_action(
    opened: Database, study: str | None, action: str, participant: str, reason: str = ""
) -> tuple[OwnerAction, Participant]:
    """Perform an action on a participant; return it with the participant as they were before.

    `participant` is a name or a platform id.
    """
    from hsfiq.actors import command_line
    from hsfiq.collect.owner import perform, prepare
    from hsfiq.collect.participants import by_name_or_platform_id

    with opened.reading() as session:
        person = by_name_or_platform_id(session, chosen_study(session, study), participant)
        prepared = prepare(person.study, action, person, reason)
    with opened.writing() as session:
        perform(session, prepared, command_line())
    return prepared, person


UrlOption = Annotated[
    str | None,
    typer.Option(
        "--url",
        metavar="URL",
        help=f"The server's public address; else $HSFIQ_PUBLIC_URL, else {LOCAL_ADDRESS}.",
        show_default=False,
    ),
]


def root_of_links(url: str | None) -> str:
    """The base address of links, without a trailing slash."""
    return str(public_url(url, "--url") or LOCAL_ADDRESS).rstrip("/")


def participant_label(name: str, platform_id: str | None) -> str:
    """The label of a participant in output: `p7`, or `p7 (5f8e0c1d)` with the platform id."""
    return one_line(f"{name} ({platform_id})" if platform_id else name)


@contextmanager
def requires(extra: str) -> Iterator[None]:
    """Import modules of an extra in this block; the error for a missing package names the extra.

    Raises:
        HsfiqError: a package is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise HsfiqError(
            f"{error.name} is not installed, and this command needs it",
            remedy=f"pip install 'hsfiq[{extra}]'",
        ) from error


MOST_RESAMPLES = 100_000
"""Of intervals: more would take hours and gigabytes, and change no digit that is shown."""

MOST_COLUMNS = 10_000
"""Characters of a line of a table that is not printed on a terminal."""

INDENTED = 3
"""The number of indented levels of JSON."""


def print_text(text: str, *, to_stderr: bool = False) -> None:
    """Print a text with terminal control characters escaped."""
    typer.echo(without_controls(text), err=to_stderr)


def print_result(result: dict[str, Any], text: str, *, as_json: bool) -> None:
    """Print the text, or the result as JSON."""
    print_text(indented_json(result) if as_json else text)


def table_text(columns: Sequence[str], rows: Sequence[Sequence[str | int]]) -> str:
    """The rows below the names of their columns, numbers to the right; "" without rows.

    On a terminal, cells are as wide as it allows; in a file or a pipe, no cell has a line break.
    """
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    if not rows:
        return ""
    table = Table(box=None, pad_edge=False, header_style="")
    for name, cell in zip(columns, rows[0], strict=True):
        table.add_column(name, justify="right" if isinstance(cell, int) else "left")
    for row in rows:
        cells = (f"{cell:,}" if isinstance(cell, int) else one_line(cell) for cell in row)
        table.add_row(*map(Text, cells))
    console = Console(
        file=StringIO(), color_system=None, width=None if sys.stdout.isatty() else MOST_COLUMNS
    )
    with console.capture() as printed:
        console.print(table)
    return "\n".join(line.rstrip() for line in printed.get().splitlines())


def indented_json(value: object, depth: int = 0) -> str:
    """JSON with two spaces of indent; values nested deeper than `INDENTED` are on one line.

    Python's own indentation takes seconds for the figures of many participants.
    """
    if depth < INDENTED and value and isinstance(value, dict | list):
        if isinstance(value, dict):
            entries = [
                f"{json.dumps(key, ensure_ascii=False)}: {indented_json(each, depth + 1)}"
                for key, each in value.items()
            ]
            opening, closing = "{}"
        else:
            entries = [indented_json(each, depth + 1) for each in value]
            opening, closing = "[]"
        lines = ",\n".join("  " * (depth + 1) + entry for entry in entries)
        return f"{opening}\n{lines}\n{'  ' * depth}{closing}"
    return json.dumps(value, ensure_ascii=False)


def warn(warnings: Iterable[str]) -> None:
    """Print warnings, a line each, beside the result."""
    for warning in warnings:
        print_text(f"hsfiq: warning: {warning}", to_stderr=True)


def note(line: str) -> None:
    """Print a line beside the result, such as progress, unless `--quiet` was given."""
    if not QUIET.get():
        print_text(line, to_stderr=True)


def progress(label: str) -> Callable[[Sequence[T]], Iterable[T]]:
    """Return a function that iterates over rows with a progress bar, if on a terminal.

    The command of a job reports its progress to the page that shows the job.
    """

    def track(rows: Sequence[T]) -> Iterable[T]:
        if (job := job_progress()) is not None:
            return job.track(rows, label)
        if not sys.stderr.isatty() or QUIET.get():
            return rows
        from rich.console import Console
        from rich.progress import track as rich_track

        return rich_track(rows, description=label, console=Console(stderr=True), transient=True)

    return track


def job_progress() -> JobProgress | None:
    """The function with which a job's command reports its progress; None outside a job."""
    folder = os.environ.get("HSFIQ_JOB")
    if not folder:
        return None
    from hsfiq.jobs import JobProgress

    return JobProgress(Path(folder))


def existing_folder(path: Path) -> Path:
    """Return the path, or raise `UnreadableInput` if it is not a folder."""
    on_this_disk(path)
    if not path.is_dir():
        raise UnreadableInput(str(path), "there is no such folder")
    return path


def images_root(text: str) -> Root:
    """The folder or the store of `--images`; a folder must exist."""
    from hsfiq.images.store import root_named

    root = root_named(text)
    return existing_folder(root) if isinstance(root, Path) else root


def opened_images(text: str) -> Images:
    """The images of `--images`; a store must hold at least one."""
    from hsfiq.images.store import open_images

    images = open_images(images_root(text))
    if not isinstance(images.root, Path) and not len(images):
        raise UnreadableInput(text, "holds no image", "check the path of the folder in the address")
    return images


def on_this_disk(root: Root) -> Path:
    """The folder, or `UnreadableInput` where the images are in a store and must not be."""
    from hsfiq.images.store import is_address

    if isinstance(root, Path) and not is_address(str(root)):
        return root
    what = "is a store, and this needs a folder on this machine"
    raise UnreadableInput(str(root), what, "copy the images, and name their folder with --images")


def named_run(given: str) -> tuple[str | None, str]:
    """The system's name, if there is one, and the file or files of `[NAME=]FILE`."""
    name, separator, file = given.partition("=")
    if not separator or Path(given).exists():
        return None, given
    if not name or not file:
        raise UnreadableInput("--run", f"{given!r} is not [NAME=]FILE", "such as mine=mine.jsonl")
    return name, file


def newest_hp_release() -> Path:
    """Return the newest hp release in `releases/`, or raise `UnreadableInput`."""
    from hsfiq.releases.export import newest_release

    releases = releases_folder()
    folder = newest_release(releases, "hp")
    if folder is None:
        raise UnreadableInput(
            f"{releases}/", "holds no hp release", "name a release, or run `hsfiq export` first"
        )
    return folder


def amount(option: str, given: str) -> Decimal:
    """Read an amount of money, such as 0.05."""
    if not re.fullmatch(r"\d{1,6}(\.\d{1,6})?", given, re.ASCII):
        raise UnreadableInput(option, f"{given!r} is not an amount", "write one like 0.05")
    return Decimal(given)


# The options of most commands.


@dataclass(frozen=True, kw_only=True)
class Call:
    """A call of a command that uses the database."""

    ctx: typer.Context
    database: DatabaseOption = None

    @property
    def url(self) -> str:
        """The URL of the option, of `hsfiq`, of the project, of the variable, or the default.

        `UnreadableInput` if the variable names another database than the project's.
        """
        from hsfiq.db.engine import DEFAULT_URL

        inherited = self.ctx.find_root().params.get("database")
        if "" in (self.database, inherited):
            raise UnreadableInput("--database", "is empty", f"name one, such as {DEFAULT_URL}")
        if self.database or inherited:
            return str(self.database or inherited)
        project, variable = current_project(), os.environ.get(DATABASE_VARIABLE)
        if project is not None and variable and variable != project.database_url:
            raise UnreadableInput(
                DATABASE_VARIABLE,
                f"names another database than the project {project.folder}",
                "unset it, leave the project's folder, or name one with --database",
            )
        return project.database_url if project else variable or DEFAULT_URL

    def open(self, *, create: bool = False, connections: int | None = None) -> Database:
        """Open the database; it is closed when the command ends.

        Digests of addresses that are no longer needed are deleted, as no server may run any more.
        """
        from hsfiq.collect.places import forget_old_enrolments
        from hsfiq.db.engine import open_database

        opened = open_database(self.url, create=create, connections=connections)
        self.ctx.call_on_close(opened.close)
        forget_old_enrolments(opened)
        return opened

    def reading(self) -> AbstractContextManager[Session]:
        return self.open().reading()

    def writing(self) -> AbstractContextManager[Session]:
        return self.open().writing()


@dataclass(frozen=True, kw_only=True)
class JsonCall(Call):
    """A call whose result can be printed as JSON; the help names `--database` before `--json`."""

    database: DatabaseOption = None
    as_json: JsonOption = False

    def print(self, result: dict[str, Any], text: str) -> None:
        print_result(result, text, as_json=self.as_json)


@dataclass(frozen=True, kw_only=True)
class StudyCall(JsonCall):
    """A call about one study."""

    study: StudyOption = None

    def chosen(self, session: Session) -> Study:
        return chosen_study(session, self.study)


# Options that several commands share, as the fields of a dataclass.


class Commands(typer.Typer):
    """Commands that may have dataclasses as parameters."""

    def command(self, *names: Any, **settings: Any) -> Callable[[Command], Command]:
        add = super().command(*names, **settings)

        def added(command: Command) -> Command:
            add(with_option_groups(command))
            return command

        return added


def with_option_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Replace each parameter of a command that is a dataclass by one option for each field.

    These options are the last ones. typer reads the signature of the returned function; the command
    receives the dataclass.
    """
    signature = inspect.signature(command, eval_str=True)
    groups: dict[str, type[Any]] = {
        name: parameter.annotation
        for name, parameter in signature.parameters.items()
        if isinstance(parameter.annotation, type) and is_dataclass(parameter.annotation)
    }

    @wraps(command)
    def with_groups(**values: Any) -> None:
        for name, group in groups.items():
            values[name] = group(**{field.name: values.pop(field.name) for field in fields(group)})
        command(**values)

    expanded: list[Parameter] = []
    parameters = signature.parameters.values()
    for parameter in sorted(parameters, key=lambda each: each.name in groups):
        if parameter.name in groups:
            expanded += options_of(parameter.annotation)
        else:
            expanded.append(parameter.replace(kind=Parameter.KEYWORD_ONLY))
    vars(with_groups).update(
        __signature__=signature.replace(parameters=expanded),
        __annotations__={parameter.name: parameter.annotation for parameter in expanded},
    )
    return with_groups


def options_of(group: type) -> list[Parameter]:
    """A group's own fields, then those of its base; a field without a default is required."""
    hints = get_type_hints(group, include_extras=True)
    own = vars(group)["__annotations__"]
    return [
        Parameter(
            field.name,
            Parameter.KEYWORD_ONLY,
            default=Parameter.empty if field.default is MISSING else field.default,
            annotation=hints[field.name],
        )
        for field in sorted(fields(group), key=lambda field: field.name not in own)
    ]


# Recording in the audit log what a command does.


def record_command(
    session: Session, action: Action, *, study: str | None = None, about: str = ""
) -> None:
    """Record an action of the user of the command line, in the transaction of the action."""
    from hsfiq.actors import command_line
    from hsfiq.audit import record

    record(session, command_line(), action, study=study, about=about)


def record_afterwards(
    opened: Database, action: Action, *, study: str | None = None, about: str = ""
) -> None:
    """Record an action that wrote nothing to the database; warn if the database can only be read.

    Data can also be exported from a database on read-only media.
    """
    with warning_unless_writable(action), opened.writing() as session:
        record_command(session, action, study=study, about=about)


def record_in(url: str, action: Action, about: str = "") -> None:
    """Record what was done to a whole database, which may be of an earlier version of hsfiq."""
    from sqlalchemy import inspect

    from hsfiq.db.engine import Database, connect_existing
    from hsfiq.db.tables import AuditEntry

    engine = connect_existing(url)
    try:
        with warning_unless_writable(action):
            if inspect(engine).has_table(AuditEntry.__tablename__):
                record_afterwards(Database(engine), action, about=about)
            else:
                warn_of_missing(action, "this database has none yet: run `hsfiq db upgrade`")
    finally:
        engine.dispose()


@contextmanager
def warning_unless_writable(action: Action) -> Iterator[None]:
    from sqlalchemy.exc import DBAPIError

    from hsfiq.db.failures import reason_not_written
    from hsfiq.errors import Unavailable

    try:
        yield
    except (Unavailable, DBAPIError) as error:
        reason = reason_not_written(error)
        if reason is None:
            raise
        warn_of_missing(action, reason)


def warn_of_missing(action: Action, reason: str) -> None:
    warn([f"{action} is not in the audit log ({reason})"])


# The folder of an analysis' report: whether it may be written, and writing it.
