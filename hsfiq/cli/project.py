"""`hsfiq init` and `hsfiq rehearse`: a study of own data, and its rehearsal."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from hsfiq.actors import command_line
from hsfiq.cli import common
from hsfiq.errors import HsfiqError, UnreadableInput
from hsfiq.text import count_text

if TYPE_CHECKING:
    from hsfiq.db.engine import Database
    from hsfiq.drafts import Snapshot
    from hsfiq.project import Choices, Made, Pay, Platform, Sources
    from hsfiq.rehearsal import Fits
    from hsfiq.study.config import StudyConfig

app = common.Commands()
draft_app = common.Commands(
    help="Draw and rehearse studies set up in the browser.", no_args_is_help=True
)

T = TypeVar("T")


@app.command(
    epilog="Example: hsfiq init my-study --images photos --queries queries.csv "
    "--run mine=mine.jsonl --run theirs=theirs.json"
)
def init(
    folder: Annotated[
        Path,
        typer.Argument(metavar="FOLDER", help="The new folder; its name is also the study's."),
    ],
    images: Annotated[
        str,
        typer.Option(
            metavar="DIR|URL", help="The images, in a folder or a store; they may be in subfolders."
        ),
    ],
    queries: Annotated[
        Path,
        typer.Option(
            metavar="FILE",
            help="A table of the queries: query_id, text, reference, target, category.",
        ),
    ],
    run: Annotated[
        list[str],
        typer.Option(
            metavar="[NAME=]FILE",
            help="A system's ranked lists; once for each system, and at least twice.",
        ),
    ],
    participants: Annotated[
        int | None,
        typer.Option(metavar="N", help="How many people take part.", min=1, max=100_000),
    ] = None,
    overlap: Annotated[
        int | None,
        typer.Option(metavar="N", help="How many people judge each query.", min=1, max=1_000),
    ] = None,
    pay: Annotated[
        str | None,
        typer.Option(metavar="AMOUNT", help="Pay for an hour, such as '12 EUR'; 0 if unpaid."),
    ] = None,
    platform: Annotated[
        str | None,
        typer.Option(
            metavar="links|open|prolific",
            help="The recruitment: personal links, one open link, or Prolific.",
        ),
    ] = None,
    checks: Annotated[
        bool | None,
        typer.Option("--checks/--no-checks", help="Include attention checks."),
    ] = None,
    license_: Annotated[
        str | None,
        typer.Option(
            "--license", metavar="ID", help="The license of the released answers: CC-BY-4.0."
        ),
    ] = None,
    institution: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Named in the consent text.")
    ] = None,
    contact: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="The contact address for participants' questions."),
    ] = None,
    ethics: Annotated[
        str | None, typer.Option(metavar="TEXT", help="The ethics approval: committee and number.")
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="Do not ask; use the defaults of omitted options.")
    ] = False,
    as_json: common.JsonOption = False,
) -> None:
    """Create a project folder: a study of your images, queries and ranked lists.

    Asks for omitted options, imports the data, draws the study as a draft, and prints its
    requirements. Commands in the folder need neither --database nor --study.
    """
    from hsfiq.project import make_project, read_sources
    from hsfiq.study.config import require_study_name

    require_new_folder(folder)
    require_study_name(folder.resolve().name, "FOLDER")
    run_files = [(name, Path(file)) for name, file in map(common.named_run, run)]
    sources = read_sources(common.opened_images(images), queries, run_files)
    if not as_json:
        common.print_text("\n".join(sources.lines()))
    asking = Asking(is_asking=not yes)
    choices = asking.choices(
        sources,
        participants=participants,
        overlap=overlap,
        pay=pay,
        platform=platform,
        checks=checks,
        licence=license_,
        institution=institution,
        contact=contact,
        ethics=ethics,
    )
    made = make_project(folder, sources, choices, command_line(), common.progress("images"))
    report(folder, sources, choices, made, as_json=as_json)


def require_new_folder(folder: Path) -> None:
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UnreadableInput(str(folder), "exists already", "name a new folder")
    outer = common.project_around(folder.resolve().parent)
    if outer is not None:
        raise UnreadableInput(
            str(folder), f"is inside the project {outer}", "name a folder outside that project"
        )


class Asking:
    """Asks for omitted options at the terminal, or uses the defaults."""

    def __init__(self, *, is_asking: bool) -> None:
        self.is_asking = is_asking

    def choices(
        self,
        sources: Sources,
        *,
        participants: int | None,
        overlap: int | None,
        pay: str | None,
        platform: str | None,
        checks: bool | None,
        **texts: str | None,
    ) -> Choices:
        from hsfiq.project import Choices, Pay, size_for, usual_overlap

        n_queries = len(sources.answered)
        usual = Choices()

        def people(text: str) -> int:
            n = whole_number(text, "--participants")
            size_for(n_queries, n, overlap or usual_overlap(n_queries, n))
            return n

        n_people = participants or self.ask("How many people take part", usual.participants, people)

        def judges(text: str) -> int:
            n = whole_number(text, "--overlap")
            size_for(n_queries, n_people, n)
            return n

        most = usual_overlap(n_queries, n_people)
        return Choices(
            participants=n_people,
            overlap=overlap or self.ask("How many of them judge each query", most, judges),
            pay=Pay.read(pay)
            if pay is not None
            else self.ask("Pay for an hour, such as 12 EUR (0: unpaid)", "0", Pay.read),
            platform=platform_named(platform)
            if platform is not None
            else self.ask(
                "Recruitment: links (personal), open (one link) or prolific",
                usual.platform,
                platform_named,
            ),
            checks=checks
            if checks is not None
            else self.ask("Attention checks, yes or no", "yes", yes_or_no),
            **{
                name: one_line_of(name)(text)
                if text is not None
                else self.ask(TEXTS[name], "", one_line_of(name))
                for name, text in texts.items()
            },
        )

    def ask(self, question: str, default: object, read: Callable[[str], T]) -> T:
        """Ask until the answer can be read."""
        while self.is_asking:
            try:
                return read(
                    typer.prompt(question, default=str(default), show_default=default != "")
                )
            except HsfiqError as error:
                common.print_text(f"  {error.what}" + (f"; {error.remedy}" if error.remedy else ""))
            except typer.Abort as error:
                what = "is required without a terminal"
                raise UnreadableInput("--yes", what, "or press Ctrl-C to stop") from error
        return read(str(default))


TEXTS = {
    "licence": "License of the released answers, such as CC-BY-4.0 (empty: decide later)",
    "institution": "Institution, named in the consent text (empty: decide later)",
    "contact": "Address for participants' questions (empty: decide later)",
    "ethics": "Ethics approval: committee and number (empty: none)",
}


def whole_number(text: str, option: str) -> int:
    if not text.isdecimal() or not 0 < int(text) <= 100_000:
        raise UnreadableInput(option, f"{text!r} is not a whole number from 1 to 100,000")
    return int(text)


def platform_named(text: str) -> Platform:
    from hsfiq.project import PLATFORMS

    for platform in PLATFORMS:
        if text == platform:
            return platform
    raise UnreadableInput(
        "--platform", f"{text!r} is not {', '.join(PLATFORMS)}", "name one of these"
    )


def yes_or_no(text: str) -> bool:
    if text.lower() not in ("y", "yes", "n", "no"):
        raise UnreadableInput("--checks", f"{text!r} is neither yes nor no")
    return text.lower().startswith("y")


def one_line_of(name: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        from hsfiq.study.instrument import LONGEST_PROMPT, is_line
        from hsfiq.study.publication import Publication, publication_errors

        text = text.strip()
        if name == "licence":
            for _, what in publication_errors(Publication(licence=text)):
                raise UnreadableInput("--license", what)
        elif text and not is_line(text, LONGEST_PROMPT):
            what = f"must be one line of at most {LONGEST_PROMPT} characters"
            raise UnreadableInput(f"--{name}", what)
        return text

    return read


def report(folder: Path, sources: Sources, choices: Choices, made: Made, *, as_json: bool) -> None:
    """Print the study's requirements, missing settings and the next commands."""
    from hsfiq.cli.analyze import planned_for, precision_lines
    from hsfiq.study.capacity import StudySize
    from hsfiq.study.creation import missed_later

    budget = made.budget
    size = StudySize.of(made.config, budget, len(sources.systems), len(sources.answered))
    figures: dict[str, Any] | None = None
    try:
        planned = planned_for(size, None)
        figures, known = planned.to_json(), precision_lines(size, planned)
    except ModuleNotFoundError as error:
        known = [f"{error.name} is not installed: pip install 'hsfiq[analysis]'"]
    warnings = [*made.warnings, *missed_later(made.config)]
    common.warn(warnings)
    pay = choices.pay
    cost = None if pay is None else {"amount": budget.cost, "currency": pay.currency}
    facts: dict[str, Any] = {
        "project": str(folder),
        "study": made.config.study.name,
        "systems": sources.systems,
        **budget.facts(),
        "cost": cost,
        "planned": figures,
        "warnings": warnings,
    }
    precision = "\n          ".join(known)
    people = count_text(budget.participants, "participant")
    each = f"{budget.questions} questions each, about {budget.duration.minutes} minutes"
    lines = [
        f"people    {people}, {each}; {budget.overlap:g} judge each query",
        f"cost      {'nobody is paid' if pay is None else paid_text(budget.cost, pay)}",
        f"precision {precision}",
        "",
        f"{folder}/ holds study.toml, which you may change, and the database.",
        f"Next: hsfiq rehearse {folder}    (simulated annotators try the study)",
        f"      cd {folder}; hsfiq serve   (opens it and prints the links)",
    ]
    common.print_result(facts, "\n".join(lines), as_json=as_json)


def paid_text(cost: float | None, pay: Pay) -> str:
    return (
        f"{cost or 0:,.2f} {pay.currency} at {pay.per_hour:g} {pay.currency} an hour, "
        "without a platform's fees"
    )


# `hsfiq rehearse`: the study, answered by simulated annotators, in a folder of its own.


@app.command(epilog="Example: hsfiq rehearse my-study --strength mine=0.5 --strength theirs=0")
def rehearse(
    ctx: typer.Context,
    folder: Annotated[
        Path, typer.Argument(metavar="[FOLDER]", help="The project, by default this folder.")
    ] = Path(),
    strength: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=X",
            help="A system's strength in log odds of a preference. Others are drawn at random.",
        ),
    ] = None,
    scores: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Instead of strengths: a table with query_id, image_id and score, the fit of the "
            "image in log odds.",
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option(metavar="N", help="Seed of the annotators, answers and strengths.")
    ] = 0,
    as_json: common.JsonOption = False,
) -> None:
    """Let simulated annotators answer a copy of a project's study.

    The folder rehearsal/ in the project gets the release, the report and the list of payments.
    Nothing is stored in the project's own database.
    """
    from hsfiq.db.engine import open_database
    from hsfiq.images.folder import OwnImages
    from hsfiq.images.store import open_images
    from hsfiq.importing import ids_of_images
    from hsfiq.project import project_in
    from hsfiq.rehearsal import read_fits
    from hsfiq.study.config_file import read_config

    project = project_in(common.project_around(folder.absolute()) or folder)
    config, out = read_config(project.study_file), project.folder / REHEARSAL
    source = open_database(project.database_url, create=False)
    ctx.call_on_close(source.close)
    if scores is not None and strength:
        raise UnreadableInput(
            "--scores", "cannot be combined with --strength", "give only one of the two options"
        )
    fits = None
    if scores is not None:
        fits = read_fits(scores, ids_of_images(OwnImages(open_images(project.images()))))
    rehearsed = write_rehearsal(source, config, project.pay, out, strength or [], seed, fits)
    strengths = rehearsed.strengths
    known = {"strengths": strengths} if fits is None else {"scores": str(scores)}
    result = {"project": str(folder), "simulated": True} | known | rehearsed.result
    files = f"{relative(out)}/report/report.html, {common.RELEASES}/"
    who = rehearsed.who if fits is None else f"judge images by {scores}"
    text = [
        f"SIMULATED: annotators who {who}",
        "",
        *rehearsed.lines,
        "",
        f"All data are simulated: {files} and payments.csv in the same folder.",
        f"Next: cd {relative(project.folder)}; hsfiq serve    (opens the study, prints the links)",
    ]
    common.print_result(result, "\n".join(text), as_json=as_json)


@dataclass(frozen=True, slots=True)
class Rehearsed:
    """The properties of simulated annotators, and the report on their answers."""

    strengths: dict[str, float]
    who: str
    result: dict[str, Any]
    lines: list[str]


def write_rehearsal(
    source: Database,
    config: StudyConfig,
    pay: Pay | None,
    out: Path,
    stated: Sequence[str],
    seed: int,
    fits: Fits | None = None,
) -> Rehearsed:
    """Let simulated annotators answer a copy of a study; write release, report and pay list."""
    from hsfiq.atomic_files import draft_folder, write_report
    from hsfiq.cli.analyze import reported
    from hsfiq.db.engine import open_database
    from hsfiq.db.sqlite import sqlite_url
    from hsfiq.project import DATABASE_FILE, pay_list
    from hsfiq.rehearsal import rehearse, stated_strengths, systems_of

    strengths = stated_strengths(systems_of(source, config), strengths_in(stated), seed)
    with draft_folder(out) as draft:
        target = open_database(sqlite_url(draft / DATABASE_FILE))
        try:
            people, actor = common.progress("annotators"), command_line()
            name = rehearse(source, target, config, strengths, seed, actor, people, fits)
            release = release_of(target, name, draft / common.RELEASES)
            payments = pay_list(target, name, pay)
        finally:
            target.close()
        (draft / "payments.csv").write_text(payments, encoding="utf-8")
        result, lines, files = reported(release)
        write_report(files, draft / "report")
    drawn = ", ".join(f"{name} {value:+.2f}" for name, value in strengths.items())
    how = "as stated" if len(stated) == len(strengths) else f"drawn with seed {seed}"
    who = f"prefer systems by these strengths ({how}): {drawn}"
    return Rehearsed(strengths, who, result, lines)


REHEARSAL = "rehearsal"


def strengths_in(given: Sequence[str]) -> dict[str, float]:
    """The strengths of `NAME=X`."""
    strengths = {}
    for each in given:
        name, separator, value = each.rpartition("=")
        try:
            strengths[name] = float(value)
        except ValueError:
            separator = ""
        if not separator or not isfinite(strengths[name]):
            raise UnreadableInput("--strength", f"{each!r} is not NAME=X", "such as mine=0.5")
    return strengths


def release_of(database: Database, study: str, parent: Path) -> Path:
    """Export the valid answers of a study; the folder of its last release, which is HP of pairs."""
    from hsfiq.collect.studies import study_called
    from hsfiq.releases.export import export_releases
    from hsfiq.study.filters import Filters

    with database.reading() as session:
        row = study_called(session, study)
        outcomes = export_releases(session, row, None, Filters(invalid=True), parent=parent)
    return outcomes[-1].folder


def relative(path: Path) -> Path:
    return Path(os.path.relpath(path))


# `hsfiq draft`: studies that are set up in the browser. Their pages run the same functions.

DraftArgument = Annotated[
    str, typer.Argument(metavar="DRAFT", help="The draft, as `hsfiq draft list` names it.")
]


@draft_app.command("list", epilog="Example: hsfiq draft list")
def list_(call: common.JsonCall) -> None:
    """List the drafts, the most recently changed first."""
    from hsfiq.drafts import list_drafts, snapshot

    opened = call.open()
    with opened.reading() as session:
        drafts = [snapshot(session, opened, each.token) for each in list_drafts(session)]
    rows = [
        {
            "draft": draft.token,
            "study": draft.name,
            "title": draft.title,
            "status": draft.status,
            "changed_by": draft.changed_by,
            "changed_at": draft.changed_at.isoformat(),
        }
        for draft in drafts
    ]
    columns = ("draft", "study", "title", "status", "changed_by")
    cells = [[row[name] or "not drawn" for name in columns] for row in rows]
    call.print({"drafts": rows}, common.table_text(columns, cells) or "no draft")


@draft_app.command(epilog="Example: hsfiq draft show 0123456789abcdef")
def show(call: common.Call, draft: DraftArgument) -> None:
    """Print the study.toml of a draft."""
    from hsfiq.drafts import toml_of

    found = chosen_draft(call, draft)[1]
    common.print_text(toml_of(found.content, found.folder).rstrip())


@draft_app.command(epilog="Example: hsfiq draft draw 0123456789abcdef --open")
def draw(
    call: common.Call,
    draft: DraftArgument,
    opens: Annotated[bool, typer.Option("--open", help="Also open the study.")] = False,
) -> None:
    """Import the data of a draft, and draw its study."""
    from hsfiq.cli.study import open_draft
    from hsfiq.drafts import draw as draw_study

    opened, found = chosen_draft(call, draft)
    name = draw_study(opened, found.token, command_line(), common.progress("images"))
    if opens:
        open_draft(opened, name)
    common.print_text(f"study {name}: {'open' if opens else 'drawn as a draft'}")


@draft_app.command("rehearse", epilog="Example: hsfiq draft rehearse 0123456789abcdef --out trial")
def rehearse_draft(
    call: common.JsonCall,
    draft: DraftArgument,
    out: Annotated[Path, typer.Option(metavar="DIR", help="The new output folder.")],
    strength: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=X", help="A system's strength in log odds of a preference."),
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", help="Seed of annotators and answers.")] = 0,
) -> None:
    """Let simulated annotators answer a copy of a draft."""
    from hsfiq.drafts import complete, with_material

    opened, found = chosen_draft(call, draft)
    config, _ = complete(found.content, found.folder)
    with with_material(opened, found.content, found.folder) as source:
        pay = found.content.pay
        rehearsed = write_rehearsal(source, config, pay, out, strength or [], seed)
    result = {"draft": draft, "simulated": True, "strengths": rehearsed.strengths}
    lines = [f"SIMULATED: annotators who {rehearsed.who}", "", *rehearsed.lines]
    call.print(result | rehearsed.result, "\n".join(lines))


def chosen_draft(call: common.Call, token: str) -> tuple[Database, Snapshot]:
    from hsfiq.drafts import snapshot
    from hsfiq.errors import Refused

    opened = call.open()
    try:
        with opened.reading() as session:
            return opened, snapshot(session, opened, token)
    except Refused as error:
        raise UnreadableInput(
            "DRAFT", f"draft {token!r} does not exist", "see hsfiq draft list"
        ) from error
