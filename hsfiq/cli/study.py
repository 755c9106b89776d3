"""`hsfiq study`: making studies, opening and closing them, inviting, and showing progress."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal
from warnings import catch_warnings

import typer

from hsfiq.actors import Action, command_line
from hsfiq.cli import common
from hsfiq.cli.score import ScorerOptions, images_option
from hsfiq.errors import ConfigError, UnreadableInput
from hsfiq.public_url import is_local
from hsfiq.text import count_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy.orm import Session

    from hsfiq.analysis.sequential import WatchedPreference
    from hsfiq.db.engine import Database
    from hsfiq.db.tables import Study
    from hsfiq.images.store import Root
    from hsfiq.model.informative_pairs import Uncertainty
    from hsfiq.next_study import Candidates
    from hsfiq.study.capacity import Budget
    from hsfiq.study.config import Design, StudyConfig
    from hsfiq.study.extension import Added, MoreAnnotators, NewQueries
    from hsfiq.study.searches import Described

app = common.Commands(
    help="Create, open and close studies, invite participants, show progress.", no_args_is_help=True
)


@app.command("list", epilog="Example: hsfiq study list")
def list_(call: common.JsonCall) -> None:
    """List the studies with their status and progress."""
    from hsfiq.collect.progress import progress_of
    from hsfiq.collect.studies import list_studies

    with call.reading() as session:
        rows = [progress_of(session, study).facts() for study in list_studies(session)]
    names = ("study", "status", "origin", "participants", "answered", "questions")
    text = common.table_text(names, [[row[name] for name in names] for row in rows])
    empty = "no study yet: create one with hsfiq init, or with hsfiq study create FILE"
    call.print({"studies": rows}, text or empty)


@app.command(epilog="Example: hsfiq study status hpfiq")
def status(
    call: common.JsonCall, name: common.StudyArgument = None, study: common.StudyOption = None
) -> None:
    """Show a study's progress, and which systems people prefer.

    The versions of its texts are listed too.
    """
    from hsfiq.collect.places import quotas_of
    from hsfiq.collect.progress import count_standings, progress_of
    from hsfiq.study.languages import fallbacks_of
    from hsfiq.study.texts import version_notes

    with call.reading() as session:
        chosen = common.chosen_study(session, common.one_name(name, study))
        row = progress_of(session, chosen).facts()
        standings = count_standings(session, chosen)
        quotas = quotas_of(session, chosen, datetime.now(UTC))
        versions = version_notes(session, chosen)
        fallbacks = fallbacks_of(session, chosen)
        preferences = watched_preferences(session, chosen)
    lines = [f"{key}: {value}" for key, value in row.items()]
    lines += [f"participants {name}: {count:,}" for name, count in standings.items()]
    lines += [
        f"participants of {count.category}: {count.taking_part:,} of {count.quota:,}"
        for count in quotas
    ]
    lines += preferences.lines
    for version in versions:
        at = version.created_at
        lines.append(f"text version {version.number}: {at.isoformat() if at else 'time unknown'}")
        lines += [f"  {line}" for line in version.difference]
    lines += [
        f"language {language}: {f'{len(keys)} texts missing' if keys else 'complete'}"
        for language, keys in fallbacks.items()
    ]
    facts = row | {
        "fallbacks": fallbacks,
        "preferences": preferences.facts,
        "quotas": [count.facts() for count in quotas],
        "standings": standings,
        "text_versions": [version.facts() for version in versions],
    }
    call.print(facts, "\n".join(lines))


@app.command(epilog="Example: hsfiq study create study.toml")
def create(
    call: common.JsonCall,
    config: Annotated[Path, typer.Argument(metavar="CONFIG.toml", help="The study's file.")],
    draft: Annotated[bool, typer.Option("--draft", help="Do not open it yet.")] = False,
    simulated: Annotated[
        bool,
        typer.Option(
            "--simulated",
            help="For `hsfiq simulate`; exports state that the answers are simulated.",
        ),
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Print the study's requirements and costs; store nothing."),
    ] = False,
    pay_per_hour: Annotated[
        float | None,
        typer.Option(metavar="AMOUNT", min=0, help="With --dry-run: a participant's hourly pay."),
    ] = None,
) -> None:
    """Draw a study from its file and open it.

    All errors in the file are reported at once.
    """
    from hsfiq.collect.progress import progress_of
    from hsfiq.study.capacity import capacity_of, require_enough_forms
    from hsfiq.study.config_file import located, read_config
    from hsfiq.study.creation import create_study, missed_later
    from hsfiq.study.design import chosen_queries
    from hsfiq.study.languages import fallback_warnings, fallbacks_of

    opened = call.open()
    if dry_run:
        print_budget(opened, config, pay_per_hour, as_json=call.as_json)
        return
    if pay_per_hour is not None:
        raise UnreadableInput("--pay-per-hour", "needs --dry-run", "leave it out, or add it")
    wanted = read_config(config)
    try:
        # Before the transaction: while a retriever thinks, nobody waits for the database.
        retrievers = described_retrievers(wanted)
        with opened.reading() as session:
            queries = chosen_queries(session, wanted)
        images = create_study(
            opened,
            wanted,
            queries,
            actor=command_line(),
            require=partial(require_enough_forms, config=wanted),
            origin="simulated" if simulated else "collected",
            status="draft" if draft else "open",
            retrievers=retrievers,
            track=common.progress("images"),
        )
    except ConfigError as error:
        raise located(config, error) from error
    with opened.reading() as session:
        study = common.chosen_study(session, wanted.study.name)
        row, capacity = progress_of(session, study).facts(), capacity_of(session, study)
        fallbacks = fallbacks_of(session, study)
    line = (
        f"study {row['study']}: {count_text(row['questions'], 'question')} about "
        f"{count_text(len(queries), 'query', 'queries')} in {count_text(row['forms'], 'form')} for "
        f"{count_text(capacity.places, 'participant')}; it is {row['status']}"
    )
    languages = fallback_warnings(fallbacks, str(config))
    unbound = [] if draft else unbound_warnings(opened, wanted.study.name)
    missed = [] if simulated else missed_later(wanted)
    closed = [MTURK_CLOSED] if wanted.recruitment.mode == "mturk" else []
    warnings = [*capacity.warnings(), *images.warnings(), *languages, *unbound, *missed, *closed]
    common.warn(warnings)
    result = row | {"places": capacity.places, "fallbacks": fallbacks, "warnings": warnings}
    call.print(result, line)


MTURK_CLOSED = "Mechanical Turk has taken no new requesters since 2026-07-30; older accounts go on"


def unbound_warnings(opened: Database, name: str) -> list[str]:
    """Warn of a study that accepts links with any STUDY_ID."""
    from hsfiq.collect.studies import is_unbound

    with opened.reading() as session:
        if not is_unbound(common.chosen_study(session, name)):
            return []
    warning = (
        f"study {name} is not bound to a study on Prolific, so a link with any STUDY_ID is "
        f"accepted: "
        f"hsfiq study bind STUDY_ID --study {name}"
    )
    return [warning]


def add_command(action: str, help_text: str) -> None:
    """Add a command that performs an action on a study and prints the change of status."""

    @app.command(action, help=help_text, epilog=f"Example: hsfiq study {action} autumn")
    def change_status(
        call: common.JsonCall, name: common.StudyArgument = None, study: common.StudyOption = None
    ) -> None:
        from hsfiq.collect.owner import perform, prepare

        study, opened = common.one_name(name, study), call.open()
        if action == "open":
            require_usable_images(opened, study)
        with opened.reading() as session:
            done = prepare(common.chosen_study(session, study), action)
        with opened.writing() as session:
            perform(session, done, command_line())
        if action == "open":
            common.warn(unbound_warnings(opened, done.study))
        result = {"study": done.study, "before": done.status_seen, "status": done.status_after}
        line = f"study {done.study}: {done.status_seen} -> {done.status_after}"
        call.print(result, line)


def open_draft(opened: Database, name: str) -> None:
    """Open a study that is a draft; leave others as they are."""
    from hsfiq.collect.owner import perform, prepare

    require_usable_images(opened, name)
    with opened.reading() as session:
        study = common.chosen_study(session, name)
        if study.status != "draft":
            return
        action = prepare(study, "open")
    with opened.writing() as session:
        perform(session, action, command_line())


def require_usable_images(opened: Database, study: str | None) -> None:
    """`BrokenImages` if files of a draft have been damaged since it was created."""
    from hsfiq.images.check import decoder
    from hsfiq.study.images import BrokenImages, check_shown, shown_images

    with opened.reading() as session:
        chosen = common.chosen_study(session, study)
        if chosen.status != "draft":
            return
        shown = shown_images(session, chosen)
    with catch_warnings(action="ignore"):
        images = check_shown(shown, decoder(), common.progress("images"))
    if images.broken:
        raise BrokenImages(images.broken)
    common.warn(images.warnings())


for _action, _help in (
    ("open", "Let a study take participants and answers."),
    ("pause", "Pause a study; participants can return later."),
    ("close", "Close a study; late participants see their completion code."),
):
    add_command(_action, _help)


SAMPLE_ANSWERS = 600
"""Those of 12 simulated participants."""


@app.command(epilog="Example: hsfiq study sample")
def sample(call: common.Call) -> None:
    """Add a closed sample study with simulated answers."""
    with common.requires("annotate"):
        from hsfiq.demo.study import NAME, make_answered_study
    from hsfiq.collect.studies import find_study
    from hsfiq.db.sqlite import make_folder_private
    from hsfiq.jobs import uploads_home

    opened = call.open(create=True)
    with opened.reading() as session:
        if find_study(session, NAME) is not None:
            raise UnreadableInput("study sample", f"study {NAME} already exists")
    folder = uploads_home(opened) / "sample"
    make_folder_private(folder)
    make_answered_study(opened, folder, SAMPLE_ANSWERS, 0, common.progress("annotators"))
    common.print_text(f"study {NAME}: {SAMPLE_ANSWERS} answers by simulated annotators")


@app.command(epilog="Example: hsfiq study copy autumn")
def copy(
    call: common.Call, name: Annotated[str, typer.Argument(metavar="NAME", help="The study.")]
) -> None:
    """Copy a study as a draft, without its participants."""
    from hsfiq.drafts import copy_study

    draft = copy_study(call.open(), command_line(), name)
    common.print_text(f"draft {draft.token}: a copy of study {name}")


@app.command(epilog="Example: hsfiq study delete autumn")
def delete(
    call: common.JsonCall,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The study.")],
    backup: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The new file of the backup that is made first [NAME-before-deletion.backup].",
            show_default=False,
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
) -> None:
    """Delete a study with its answers, after a backup.

    The backup contains the whole database. Datasets, ranked lists and exported releases are kept.
    The study must be a draft or closed.

    The exit code is 1 if the database's files can still contain the deleted answers.
    """
    from hsfiq.backup import back_up
    from hsfiq.collect.progress import progress_of
    from hsfiq.collect.withdrawal import erase, erase_later
    from hsfiq.study.creation import delete_study

    opened = call.open()
    with opened.reading() as session:
        row = progress_of(session, common.chosen_study(session, name)).facts()
    answers = count_text(row["answered"], "answer")
    about = f"{answers} by {count_text(row['participants'], 'participant')}"
    if not yes and typer.prompt(f"study {name} has {about}; type its name to delete it") != name:
        raise UnreadableInput("study delete", "not confirmed; nothing was deleted")
    file = backup or Path(f"{name}-before-deletion.backup")
    back_up(call.url, file)
    with opened.writing() as session:
        study = common.chosen_study(session, name)
        delete_study(session, study)
        common.record_command(session, Action.STUDY_DELETE, study=name, about=about)
        due = erase_later(session, datetime.now(UTC))
    is_erased = erase(opened, due, datetime.now(UTC))
    lines = [f"study {name}: deleted, with {about}; {file} has the database as it was"]
    if not is_erased:
        lines.append(
            "the database's files can still contain the deleted answers, because the database is "
            "in use or belongs to another user; hsfiq serve erases them later"
        )
    result = {"study": name, "backup": str(file), "erased": is_erased} | row
    call.print(result, "\n".join(lines))
    if not is_erased:
        raise typer.Exit(1)


@app.command(epilog="Example: hsfiq study invite autumn --count 61 --url https://study.example.org")
def invite(
    call: common.JsonCall,
    count: Annotated[int, typer.Option(help="How many invitations.", min=1, max=100_000)],
    name: common.StudyArgument = None,
    url: common.UrlOption = None,
    out: Annotated[
        Path, typer.Option(metavar="FILE", help="The CSV of participants and their links.")
    ] = Path("invitations.csv"),
    language: Annotated[
        str | None,
        typer.Option(metavar="TAG", help="Show the study in this language; else in the browser's."),
    ] = None,
    study: common.StudyOption = None,
) -> None:
    """Create personal links, which work in any browser.

    Each resumes where its participant stopped.
    """
    from hsfiq.collect.participants import places_for_invitations, write_invitations
    from hsfiq.study.config import config_of

    root = common.root_of_links(url)
    if out.exists():
        raise UnreadableInput(str(out), "already exists", "name another file with --out")
    opened = call.open()
    with opened.reading() as session:
        chosen = common.chosen_study(session, common.one_name(name, study)).name
    write_invitations(opened, command_line(), chosen, count, root, out, language=language)
    with opened.reading() as session:
        places = places_for_invitations(
            session, common.chosen_study(session, chosen), datetime.now(UTC)
        )
        mode = config_of(common.chosen_study(session, chosen)).recruitment.mode
    common.warn([*places.warnings(), *link_warnings(root, mode)])
    result = {"study": chosen, "invitations": count, "file": str(out), "free_places": places.free}
    line = f"study {chosen}: {count_text(count, 'invitation')} in {out}"
    call.print(result, line)


def link_warnings(root: str, mode: str) -> list[str]:
    """The problems of personal links at this address to a study with this recruitment mode."""
    from hsfiq.study.recruiting import PLATFORMS

    warnings = []
    if is_local(root):
        warnings.append(f"the links point to {root}, which only this machine can reach: give --url")
    if mode == "open":
        warnings.append(
            "anybody who knows the address can take part, not only invited people: set "
            'recruitment.mode = "invitation" in study.toml'
        )
    if mode in PLATFORMS:
        warnings.append("participants with personal links are not in the platform's payment lists")
    return warnings


@app.command(epilog="Example: hsfiq study bind 64ab0c1d2e3f405162738495 --study autumn")
def bind(
    call: common.StudyCall,
    platform_study_id: Annotated[
        str, typer.Argument(metavar="STUDY_ID", help="The id of the study on Prolific.")
    ],
) -> None:
    """Accept links from only this study on Prolific."""
    from hsfiq.collect.studies import bind_platform_study, lock_study
    from hsfiq.study.config import config_of
    from hsfiq.study.recruiting import PLATFORM_ID

    if not PLATFORM_ID.fullmatch(platform_study_id):
        raise UnreadableInput("STUDY_ID", f"{platform_study_id!r} is not a Prolific study id")
    with call.writing() as session:
        row = lock_study(session, call.chosen(session).id)
        if config_of(row).recruitment.mode != "prolific":
            raise UnreadableInput(
                "--study", f"study {row.name} does not recruit on Prolific", "name another study"
            )
        name, before = row.name, row.platform_study_id
        bind_platform_study(session, row, platform_study_id)
        common.record_command(session, Action.STUDY_BIND, study=name)
    result = {"study": name, "before": before, "platform_study_id": platform_study_id}
    line = f"study {name}: bound to {platform_study_id} (previously: {before or 'to none'})"
    call.print(result, line)


@app.command(epilog="Example: hsfiq study assign p7")
def assign(
    call: common.Call,
    participant: Annotated[str, typer.Argument(help=common.PARTICIPANT_HELP)],
    study: common.StudyOption = None,
) -> None:
    """Reassign a participant's unanswered questions.

    They go to the next participant. The questions are reassigned automatically when the lease ends.
    """
    done, person = common.perform_participant_action(call.open(), study, "reassign", participant)
    label = common.participant_label(person.name, person.external_id)
    common.print_text(
        f"study {done.study}: the unanswered questions of {label} go to the next participant"
    )


# What `hsfiq study status` says of people's preferences while a study runs.


@dataclass(frozen=True, slots=True)
class Watched:
    """The entry `preferences` of the JSON result, None for other kinds than pairs, and lines."""

    facts: dict[str, Any] | None
    lines: list[str]


def watched_preferences(session: Session, study: Study) -> Watched:
    """Compute the confidence sequence of every two systems; it needs the analysis extra."""
    from hsfiq.collect.review import win_shares
    from hsfiq.kinds import KINDS

    if not KINDS[study.kind].has_preferences:
        return Watched(None, [])

    shares = win_shares(session, study)
    facts: dict[str, Any] = shares.facts() | {"pairs": []}
    if not shares.by_pair:
        return Watched(facts | {"reason": "the sets do not name two systems"}, [])
    try:
        from hsfiq.analysis.sequential import watch_preferences
    except ModuleNotFoundError as error:
        reason = f"{error.name} is not installed: pip install 'hsfiq[analysis]'"
        return Watched(facts | {"reason": reason}, [f"preferences: {reason}"])
    watched = watch_preferences(shares.by_pair, shares.n_earlier)
    facts["pairs"] = [each.to_json() for each in watched]
    lines = [
        f"preference for {each.system} over {each.other}: {in_words(each)}" for each in watched
    ]
    return Watched(facts, [*lines, *(f"  {note}" for note in shares.notes())])


def in_words(watched: WatchedPreference) -> str:
    if watched.n_participants == 0:
        return f"unknown; {watched.reason}"
    n = f"{watched.n_participants:,} finished, {count_text(watched.n_answers, 'answer')}"
    ends = f"[{watched.low[-1]:.3f}, {watched.high[-1]:.3f}]"
    if watched.preferred is None:
        decision = "undecided"
    else:
        decision = f"{watched.preferred} is preferred, decided after {watched.decided_after:,}"
    if watched.reason is not None:
        return f"{watched.rate:.3f} ({n}): {decision}; {watched.reason}"
    return f"{watched.rate:.3f} {ends} ({n}): {decision}"


# `hsfiq study create --dry-run`: what a study needs, without storing it.


def print_budget(
    opened: Database, config: Path, pay_per_hour: float | None, *, as_json: bool
) -> None:
    """Draw the study of a file, print what it needs, and undo it."""
    from hsfiq.study.capacity import budget_of, require_enough_forms
    from hsfiq.study.config_file import located, read_config
    from hsfiq.study.design import chosen_queries, draw_study
    from hsfiq.study.languages import fallback_warnings, fallbacks_of

    wanted = read_config(config)
    try:
        retrievers = described_retrievers(wanted)
        with opened.writing() as session:
            queries = chosen_queries(session, wanted)
            study = draw_study(session, wanted, queries, status="draft", retrievers=retrievers)
            require_enough_forms(session, study, wanted)
            budget = budget_of(session, study, wanted, pay_per_hour)
            fallbacks = fallbacks_of(session, study)
            session.rollback()
    except ConfigError as error:
        raise located(config, error) from error
    precision, note = expected_widths(budget, wanted.design.kind)
    warnings = [*budget.capacity.warnings(), *fallback_warnings(fallbacks, str(config))]
    common.warn(warnings)
    facts = {"study": wanted.study.name, **budget.facts(), "interval_widths": precision}
    facts |= {"interval_widths_reason": note, "fallbacks": fallbacks, "warnings": warnings}
    common.print_result(
        facts, budget_text(wanted.study.name, budget, precision, note), as_json=as_json
    )


def expected_widths(budget: Budget, kind: str) -> tuple[dict[str, float] | None, str | None]:
    """The expected widths of the 95% intervals, by simulation; or the reason why there are none."""
    from hsfiq.kinds import KINDS

    if not KINDS[kind].has_preferences:
        return None, f"the simulation is for pairs of sets, not for {kind!r}"
    if budget.participants < 2 or budget.questions < 2:
        return None, "needs at least two participants with two questions each"
    try:
        from hsfiq.analysis.power import PUBLISHED, power
    except ModuleNotFoundError as error:
        return None, f"{error.name} is not installed: pip install 'hsfiq[analysis]'"
    result = power(
        PUBLISHED,
        participants=[budget.participants],
        questions=[budget.questions],
        overlap=max(1, min(round(budget.overlap), budget.participants)),
    )
    (size,) = result.sizes
    return {str(name): round(each.width, 4) for name, each in size.precision.items()}, None


def budget_text(name: str, budget: Budget, widths: dict[str, Any] | None, note: str | None) -> str:
    minutes = f"{budget.duration.minutes:,} minutes each ({budget.duration.source})"
    cost = "" if budget.cost is None else f"\ncost: {budget.cost:,.2f}, without the platform's fees"
    interval = ", ".join(f"{key} {value:.3f}" for key, value in (widths or {}).items())
    return (
        f"study {name}: nothing was stored\n"
        f"participants: {budget.participants:,}\n"
        f"questions: {budget.questions:,} each, about {minutes}{cost}\n"
        f"participants for each query: {budget.overlap:g}\n"
        f"expected width of the 95% intervals: {note or interval}"
    )


# The live retrievers of a study's file.


def described_retrievers(config: StudyConfig) -> dict[str, Described]:
    """The self-descriptions of the study's retrievers; none for kinds other than `search`."""
    if not config.searches.retrievers:
        return {}
    with common.requires("live"):
        from hsfiq.collect.retrievers import describe_retrievers
    return describe_retrievers(config)


# `hsfiq study extend`: further forms for a study that is running.


@app.command(epilog="Example: hsfiq study extend autumn --annotators 3 --dry-run")
def extend(
    call: common.JsonCall,
    study: Annotated[str, typer.Argument(metavar="NAME", help="The study.")],
    annotators: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Add participants until N judge each query."),
    ] = None,
    all_queries: Annotated[
        bool, typer.Option("--all-queries", help="Add all new queries that match [queries].")
    ] = False,
    sample: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="N of the new queries, drawn at random.")
    ] = None,
    query_ids: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The new queries listed in FILE, one id a line."),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Print the additions and their cost; store nothing."),
    ] = False,
    pay_per_hour: Annotated[
        float | None,
        typer.Option(metavar="AMOUNT", min=0, help="With --dry-run: a participant's hourly pay."),
    ] = None,
) -> None:
    """Add participants for the queries of a study, or new queries.

    Existing questions are unchanged. The study may be served at the same time.
    """
    from hsfiq.collect.owner import extend_while_running
    from hsfiq.study.images import check_and_record

    wanted = request_of(annotators, all_queries, sample, query_ids)
    if pay_per_hour is not None and not dry_run:
        raise UnreadableInput("--pay-per-hour", "needs --dry-run", "leave it out, or add it")
    opened = call.open()
    if dry_run:
        show_cost(opened, study, wanted, pay_per_hour, as_json=call.as_json)
        return
    added = extend_while_running(
        opened,
        command_line(),
        lambda session: common.chosen_study(session, study),
        wanted,
        datetime.now(UTC),
        common.progress("new images"),
    )
    warnings = added.capacity.warnings()
    warnings += check_and_record(opened, study, common.progress("images")).warnings()
    common.warn(warnings)
    facts: dict[str, Any] = {"study": study, **wanted.facts(), **added.facts()}
    call.print(facts | {"warnings": warnings}, in_one_line(study, added))


def in_one_line(study: str, added: Added) -> str:
    line = (
        f"study {study}: {count_text(added.questions, 'question')} about "
        f"{count_text(added.queries, 'query', 'queries')} in {count_text(added.forms, 'form')} for "
        f"{count_text(added.capacity.places, 'more participant')}"
    )
    return f"{line}; it recruits {added.cap:,} now" if added.cap else line


def show_cost(
    database: Database,
    study: str,
    wanted: MoreAnnotators | NewQueries,
    pay_per_hour: float | None,
    *,
    as_json: bool,
) -> None:
    """Print the additions and their cost; the forms are stored and rolled back."""
    from hsfiq.collect.owner import extend as extend_study
    from hsfiq.study.capacity import budget_for, budget_of
    from hsfiq.study.config import config_of

    with database.writing() as session:
        row = common.chosen_study(session, study)
        added = extend_study(session, row, wanted, datetime.now(UTC))
        budget = budget_for(session, row, added.capacity.places, added.capacity, pay_per_hour)
        whole = budget_of(session, row, config_of(row), None)
        kind = row.kind
        session.rollback()
    warnings = added.capacity.warnings()
    common.warn(warnings)
    widths, note = expected_widths(whole, kind)
    facts: dict[str, Any] = {"study": study, **wanted.facts(), **added.facts()}
    facts |= budget.facts() | {"interval_widths": widths, "interval_widths_reason": note}
    text = f"{in_one_line(study, added)}\n{budget_text(study, budget, widths, note)}"
    common.print_result(facts | {"warnings": warnings}, text, as_json=as_json)


def request_of(
    annotators: int | None, all_queries: bool, sample: int | None, query_ids: Path | None
) -> MoreAnnotators | NewQueries:
    """The requested addition; exactly one of the options must be given."""
    from hsfiq.study.extension import MoreAnnotators, NewQueries

    given = [annotators is not None, all_queries, sample is not None, query_ids is not None]
    if sum(given) != 1:
        raise UnreadableInput(
            "study extend",
            "nothing to add was named" if not any(given) else "cannot combine these options",
            "give one of --annotators, --all-queries, --sample and --query-ids",
        )
    if annotators is not None:
        return MoreAnnotators(annotators)
    return NewQueries(sample or 0, query_ids)


# `hsfiq study next`: a study of the pairs whose answers are most informative.


@app.command("next", epilog="Example: hsfiq study next --checkpoint retrained --n 500")
def next_(
    call: common.JsonCall,
    n: Annotated[int, typer.Option("--n", metavar="N", help="Pairs to choose.", min=1)],
    config: Annotated[
        Path | None,
        typer.Argument(
            metavar="CONFIG.toml",
            help="The new study's file; else settings are copied from --study.",
        ),
    ] = None,
    scorer: Annotated[
        list[Path] | None,
        typer.Option(
            "--checkpoint",
            metavar="DIR",
            help="A scorer's checkpoint folder, or its last.json. Several form an ensemble; the "
            "uncertainty of one is estimated by dropout.",
        ),
    ] = None,
    strategy: Annotated[
        Literal["information", "random"],
        typer.Option(metavar="information|random", help="The selection strategy for pairs."),
    ] = "information",
    name: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="The new study's name; else the old study's name with a number."
        ),
    ] = None,
    release: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Exclude the triplets that this release holds out."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Of all random choices.", min=0)] = 0,
    draft: Annotated[bool, typer.Option("--draft", help="Do not open it yet.")] = False,
    simulated: Annotated[
        bool,
        typer.Option("--simulated", help="With CONFIG.toml: for `hsfiq simulate`, not for people."),
    ] = False,
    images: Annotated[Path | None, images_option("the folders recorded in the database")] = None,
    *,
    options: ScorerOptions,
    study: common.StudyOption = None,
) -> None:
    """Create a study of the most informative pairs for a scorer.

    Categories and pairs of systems are balanced; each triplet occurs at most once, and pairs asked
    before are excluded.
    """
    if not scorer and strategy == "information":
        raise UnreadableInput("--checkpoint", "is missing", "name one, or use --strategy random")
    if name is not None:
        from hsfiq.study.config import require_study_name

        require_study_name(name, "--name")
    if config is not None and study is not None:
        raise UnreadableInput("--study", "cannot be used with CONFIG.toml", "leave one out")
    if config is None and simulated:
        raise UnreadableInput(
            "--simulated",
            "can only be used with CONFIG.toml",
            "leave it out: the old study decides",
        )
    from hsfiq.model.informative_pairs import choose_pairs, require_enough
    from hsfiq.next_study import NOTHING, after, from_file, held_out_of, possibilities, store_study

    held_out = held_out_of(common.existing_folder(release)) if release else NOTHING
    opened = call.open()
    with opened.reading() as session:
        if config is None:
            wanted = after(session, common.chosen_study(session, study), name)
        else:
            wanted = from_file(config, name, "simulated" if simulated else "collected")
        possible = possibilities(session, wanted, held_out)
    candidates = possible.candidates
    require_enough(candidates, n, seed)
    uncertainty = None
    if scorer:
        root = images or possible.images
        uncertainty = uncertainty_of(scorer, candidates, wanted.config.design, seed, root, options)
    choice = choose_pairs(candidates, uncertainty, n, strategy, seed)
    status = "draft" if draft else "open"
    stored, shown = store_study(
        opened,
        wanted,
        choice.pairs,
        choice.sets,
        choice.about,
        actor=command_line(),
        status=status,
        track=common.progress("images"),
    )
    warnings = shown.warnings()
    common.warn(warnings)
    result = stored.facts() | choice.to_json(candidates) | {"warnings": warnings}
    call.print(result, next_text(result))


def uncertainty_of(
    checkpoints: Sequence[Path],
    candidates: Candidates,
    design: Design,
    seed: int,
    images: Root | None,
    options: ScorerOptions,
) -> Uncertainty:
    with common.requires("model"):
        from hsfiq.cli.training_bar import TrainingBar
        from hsfiq.model.informative_pairs import ExpectedAnswers, uncertainty
        from hsfiq.model.runtime import device_of
    paths, device = options.paths(None, images), device_of(options.device)
    expected = ExpectedAnswers.of(design)
    with TrainingBar() as bar:
        return uncertainty(checkpoints, paths, candidates, expected, seed, device, bar)


def next_text(result: dict[str, Any]) -> str:
    lines = [
        (
            f"study {result['study']}: {count_text(result['questions'], 'question')} about "
            f"{result['pairs']:,} of {result['candidates']:,} possible pairs, in "
            f"{count_text(result['forms'], 'form')}; it is {result['status']}"
        ),
        f"categories: {counted(result['categories'])}",
        f"systems: {counted(result['systems'])}",
    ]
    if result["expected_information"] is not None:
        lines.append(
            f"expected information of one answer each: {result['expected_information']:.3g} nats, "
            f"of as many random pairs {result['expected_information_of_random']:.3g} "
            f"({result['uncertainty']['uncertainty']}; {result['uncertainty']['answer_model']})"
        )
    if result["asked_before"] or result["held_out_triplets"]:
        lines.append(
            f"excluded: {count_text(result['asked_before'], 'pair')} asked before, "
            f"{count_text(result['held_out_triplets'], 'held-out triplet')}"
        )
    if result["missing_images"]:
        lines.append(
            f"pairs with {count_text(len(result['missing_images']), 'missing image')} are excluded"
        )
    return "\n".join(lines)


def counted(counts: dict[str, int]) -> str:
    """`dress 20, shirt 20`."""
    return ", ".join(f"{name} {number:,}" for name, number in counts.items())
