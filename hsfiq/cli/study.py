"""`hsfiq study`: create studies, invite participants, open and close."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from warnings import catch_warnings

import typer

from hsfiq.actors import Action
from hsfiq.cli import (
    next_study,
    running_study,
    study_enrolment,
    study_extend,
    study_hit,
    study_quota,
    study_strike,
    study_texts,
)
from hsfiq.cli.common import (
    PARTICIPANT_HELP,
    DatabaseOption,
    JsonOption,
    StudyArgument,
    StudyOption,
    UrlOption,
    chosen_study,
    one_name,
    open_chosen,
    participant_label,
    perform_action,
    perform_participant_action,
    print_result,
    progress,
    root_of_links,
    warn,
)
from hsfiq.cli.recording import record_command
from hsfiq.cli.study_budget import print_budget
from hsfiq.cli.study_retrievers import described_retrievers
from hsfiq.errors import ConfigError, UnreadableInput
from hsfiq.text import count_text

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from hsfiq.db.engine import Database
    from hsfiq.db.tables import Study

app = typer.Typer(
    help="Create, open and close studies, invite participants, show progress.", no_args_is_help=True
)
next_study.register(app)
study_enrolment.register(app)
study_extend.register(app)
running_study.register(app)
study_quota.register(app)
study_hit.register(app)
study_strike.register(app)
study_texts.register(app)


@app.command("list", epilog="Example: hsfiq study list")
def list_(ctx: typer.Context, database: DatabaseOption = None, as_json: JsonOption = False) -> None:
    """List the studies with their status and progress."""
    from hsfiq.collect.progress import progress_of
    from hsfiq.collect.studies import list_studies

    with open_chosen(ctx, database, create=False).reading() as session:
        rows = [progress_of(session, study).facts() for study in list_studies(session)]
    lines = [
        f"{row['study']}: {row['status']}, {row['origin']}, {row['answered']:,} of "
        f"{count_text(row['questions'], 'question')} answered by "
        f"{count_text(row['participants'], 'participant')}"
        for row in rows
    ]
    print_result({"studies": rows}, "\n".join(lines) or "no study yet", as_json=as_json)


@app.command(epilog="Example: hsfiq study status hpfiq")
def status(
    ctx: typer.Context,
    name: StudyArgument = None,
    study: StudyOption = None,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show a study's progress, which systems people prefer so far, and its texts' versions."""
    from hsfiq.cli.watched_preferences import watched_preferences
    from hsfiq.collect.progress import count_standings, progress_of
    from hsfiq.collect.recruiting import quotas_of
    from hsfiq.study.languages import fallbacks_of
    from hsfiq.study.texts import version_notes

    with open_chosen(ctx, database, create=False).reading() as session:
        chosen = chosen_study(session, one_name(name, study))
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
    print_result(facts, "\n".join(lines), as_json=as_json)


@app.command(epilog="Example: hsfiq study create study.toml")
def create(
    ctx: typer.Context,
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
        typer.Option("--dry-run", help="Print what the study needs and costs; store nothing."),
    ] = False,
    pay_per_hour: Annotated[
        float | None,
        typer.Option(metavar="AMOUNT", min=0, help="With --dry-run: a participant's hourly pay."),
    ] = None,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Draw a study from its file and open it; all errors in the file are reported at once."""
    from hsfiq.actors import command_line
    from hsfiq.collect.progress import progress_of
    from hsfiq.study.capacity import capacity_of, require_enough_forms
    from hsfiq.study.config_file import located, read_config
    from hsfiq.study.creation import create_study
    from hsfiq.study.design import chosen_queries
    from hsfiq.study.languages import fallback_warnings, fallbacks_of

    opened = open_chosen(ctx, database, create=False)
    if dry_run:
        print_budget(opened, config, pay_per_hour, as_json=as_json)
        return
    if pay_per_hour is not None:
        raise UnreadableInput("--pay-per-hour", "needs --dry-run", "leave it out, or add it")
    wanted = read_config(config)
    try:
        # Before the transaction: while a retriever thinks, nobody waits for the database.
        retrievers = described_retrievers(wanted)
        with opened.reading() as session:
            queries = chosen_queries(session, wanted)

        def require(session: Session, study: Study) -> None:
            require_enough_forms(session, study, wanted)

        images = create_study(
            opened,
            wanted,
            queries,
            actor=command_line(),
            require=require,
            origin="simulated" if simulated else "collected",
            status="draft" if draft else "open",
            retrievers=retrievers,
            track=progress("images"),
        )
    except ConfigError as error:
        raise located(config, error) from error
    with opened.reading() as session:
        study = chosen_study(session, wanted.study.name)
        row, capacity = progress_of(session, study).facts(), capacity_of(session, study)
        fallbacks = fallbacks_of(session, study)
    line = (
        f"study {row['study']}: {count_text(row['questions'], 'question')} about "
        f"{count_text(len(queries), 'query', 'queries')} in {count_text(row['forms'], 'form')} for "
        f"{count_text(capacity.places, 'participant')}; it is {row['status']}"
    )
    languages = fallback_warnings(fallbacks, str(config))
    unbound = [] if draft else unbound_warnings(opened, wanted.study.name)
    warnings = [*capacity.warnings(), *images.warnings(), *languages, *unbound]
    warn(warnings)
    result = row | {"places": capacity.places, "fallbacks": fallbacks, "warnings": warnings}
    print_result(result, line, as_json=as_json)


def unbound_warnings(opened: Database, name: str) -> list[str]:
    """Warn of a study that strangers' links can enter with any STUDY_ID."""
    from hsfiq.collect.studies import is_unbound

    with opened.reading() as session:
        if not is_unbound(chosen_study(session, name)):
            return []
    warning = (
        f"study {name} is bound to no study on Prolific, so a link with any STUDY_ID enters it: "
        f"hsfiq study bind STUDY_ID --study {name}"
    )
    return [warning]


def add_command(action: str, help_text: str) -> None:
    """Add a command that performs an action on a study and prints the change of status."""

    @app.command(action, help=help_text, epilog=f"Example: hsfiq study {action} autumn")
    def change_status(
        ctx: typer.Context,
        name: StudyArgument = None,
        study: StudyOption = None,
        database: DatabaseOption = None,
        as_json: JsonOption = False,
    ) -> None:
        study = one_name(name, study)
        if action == "open":
            require_usable_images(ctx, database, study)
        done = perform_action(ctx, database, study, action)
        if action == "open":
            warn(unbound_warnings(open_chosen(ctx, database, create=False), done.study))
        result = {"study": done.study, "before": done.status_seen, "status": done.status_after}
        line = f"study {done.study}: {done.status_seen} -> {done.status_after}"
        print_result(result, line, as_json=as_json)


def require_usable_images(ctx: typer.Context, database: str | None, study: str | None) -> None:
    """`BrokenImages` if files of a draft have been damaged since it was created."""
    from hsfiq.images.check import decoder
    from hsfiq.study.images import BrokenImages, check_shown, shown_images

    with open_chosen(ctx, database, create=False).reading() as session:
        chosen = chosen_study(session, study)
        if chosen.status != "draft":
            return
        shown = shown_images(session, chosen)
    with catch_warnings(action="ignore"):
        images = check_shown(shown, decoder(), progress("images"))
    if images.broken:
        raise BrokenImages(images.broken)
    warn(images.warnings())


for _action, _help in (
    ("open", "Let a study take participants and answers."),
    ("pause", "Pause a study: participants on the page see why and can come back later."),
    ("close", "Close a study: late participants see a closing page with their completion code."),
):
    add_command(_action, _help)


@app.command(epilog="Example: hsfiq study invite autumn --count 61 --url https://study.example.org")
def invite(
    ctx: typer.Context,
    count: Annotated[int, typer.Option(help="How many invitations.", min=1, max=100_000)],
    name: StudyArgument = None,
    url: UrlOption = None,
    out: Annotated[
        Path, typer.Option(metavar="FILE", help="The CSV of participants and their links.")
    ] = Path("invitations.csv"),
    language: Annotated[
        str | None,
        typer.Option(metavar="TAG", help="Show the study in this language; else in the browser's."),
    ] = None,
    study: StudyOption = None,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Create personal links; each works in any browser and resumes where they stopped."""
    from hsfiq.actors import command_line
    from hsfiq.collect.participants import places_for_invitations, write_invitations

    root = root_of_links(url)
    if out.exists():
        raise UnreadableInput(str(out), "already exists", "name another file with --out")
    opened = open_chosen(ctx, database, create=False)
    with opened.reading() as session:
        chosen = chosen_study(session, one_name(name, study)).name
    write_invitations(opened, command_line(), chosen, count, root, out, language=language)
    with opened.reading() as session:
        places = places_for_invitations(session, chosen_study(session, chosen), datetime.now(UTC))
    warn(places.warnings())
    result = {"study": chosen, "invitations": count, "file": str(out), "free_places": places.free}
    line = f"study {chosen}: {count_text(count, 'invitation')} in {out}"
    print_result(result, line, as_json=as_json)


@app.command(epilog="Example: hsfiq study bind 64ab0c1d2e3f405162738495 --study autumn")
def bind(
    ctx: typer.Context,
    platform_study_id: Annotated[
        str, typer.Argument(metavar="STUDY_ID", help="The id of the study on Prolific.")
    ],
    study: StudyOption = None,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Bind a study to a study on Prolific: links from any other one are turned away."""
    from hsfiq.collect.studies import bind_platform_study, lock_study
    from hsfiq.study.config import PLATFORM_ID, config_of

    if not PLATFORM_ID.fullmatch(platform_study_id):
        raise UnreadableInput("STUDY_ID", f"{platform_study_id!r} is not an id of Prolific")
    with open_chosen(ctx, database, create=False).writing() as session:
        row = lock_study(session, chosen_study(session, study).id)
        if config_of(row).recruitment.mode != "prolific":
            raise UnreadableInput(
                "--study", f"study {row.name} does not recruit on Prolific", "name another study"
            )
        name, before = row.name, row.platform_study_id
        bind_platform_study(session, row, platform_study_id)
        record_command(session, Action.STUDY_BIND, study=name)
    result = {"study": name, "before": before, "platform_study_id": platform_study_id}
    line = f"study {name}: bound to {platform_study_id} (before: {before or 'to none'})"
    print_result(result, line, as_json=as_json)


@app.command(epilog="Example: hsfiq study assign p7")
def assign(
    ctx: typer.Context,
    participant: Annotated[str, typer.Argument(help=PARTICIPANT_HELP)],
    study: StudyOption = None,
    database: DatabaseOption = None,
) -> None:
    """Give a participant's unanswered questions to the next participant, before the lease ends."""
    done, person = perform_participant_action(ctx, database, study, "reassign", participant)
    label = participant_label(person.name, person.external_id)
    typer.echo(
        f"study {done.study}: the next participant gets the questions that {label} has not answered"
    )
