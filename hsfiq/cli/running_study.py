"""`hsfiq study`: the commands for a study that is running."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from hsfiq.actors import Action, command_line
from hsfiq.cli import common
from hsfiq.cli.study import app  # whose commands these join
from hsfiq.errors import FileErrors, UnreadableInput
from hsfiq.public_url import public_url
from hsfiq.text import count_text

if TYPE_CHECKING:
    from hsfiq.study.config import QueryForm, StudyConfig

StudyName = Annotated[str, typer.Argument(metavar="NAME", help="The study's name.")]


@app.command(epilog="Example: hsfiq study preview autumn --url https://study.example.org")
def preview(
    call: common.JsonCall,
    name: StudyName,
    url: common.UrlOption = None,
    hours: Annotated[
        float, typer.Option(metavar="N", help="How long the link is valid.", min=0.1, max=720)
    ] = 24,
) -> None:
    """Print a link that shows the study as annotators see it.

    Nothing is stored. Anybody with the link can open the preview until it expires, even if the
    study is a draft.
    """
    with common.requires("annotate"):
        from hsfiq.annotate.cookies import signer_of
        from hsfiq.annotate.preview import new_preview, preview_path

    root = common.root_of_links(url)
    opened = call.open()
    with opened.reading() as session:
        place = new_preview(session, common.chosen_study(session, name), hours)
    link = f"{root}{preview_path(signer_of(opened), place)}"
    common.record_afterwards(opened, Action.STUDY_PREVIEW, study=name)
    expires = datetime.fromtimestamp(place.expires, UTC).isoformat()
    result = {"study": name, "link": link, "expires": expires}
    call.print(result, f"{link}\nvalid until {expires}")


@app.command(epilog="Example: hsfiq study unblind autumn")
def unblind(call: common.JsonCall, name: StudyName) -> None:
    """Show results by system before the study is closed.

    The disclosure is recorded, and cannot be undone.
    """
    from hsfiq.collect.review import unblind as show_results

    with call.writing() as session:
        show_results(session, common.chosen_study(session, name), command_line(), datetime.now(UTC))
    line = f"study {name}: results by system are now shown"
    call.print({"study": name, "hidden": False}, line)


@app.command(epilog="Example: hsfiq study edit autumn study.toml --dry-run")
def edit(
    call: common.JsonCall,
    name: StudyName,
    config: Annotated[
        Path, typer.Argument(metavar="CONFIG.toml", help="The corrected study file.")
    ],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the changes; store nothing.")
    ] = False,
) -> None:
    """Correct a study's texts and codes; keep earlier versions.

    The study may be served at the same time. If other settings in the file differ from the study,
    nothing is changed.
    """
    from hsfiq.collect.owner import ForbiddenEdit, perform_edit, prepare_edit
    from hsfiq.study.config_file import located, read_config
    from hsfiq.study.texts import difference

    opened = call.open()
    wanted = read_config(config)
    with opened.reading() as session:
        study = common.chosen_study(session, name)
        try:
            prepared = prepare_edit(study, wanted, study.text_version)
        except ForbiddenEdit as error:
            raise located(config, *error.errors) from error
    lines = difference(prepared.changes)
    number = prepared.version_seen
    if lines and not dry_run:
        with opened.writing() as session:
            number = perform_edit(session, prepared, datetime.now(UTC)).number
            about = f"text version {number}"
            common.record_command(session, Action.STUDY_EDIT, study=name, about=about)
    if not lines:
        end = "texts and codes are the same; nothing was changed"
    elif dry_run:
        end = "nothing was stored (--dry-run)"
    else:
        end = f"stored as version {number}; participants see it on their next page"
    result = {"study": name, "text_version": number, "difference": lines}
    call.print(result, "\n".join([*lines, f"study {name}: {end}"]))


@app.command(epilog='Example: hsfiq study message autumn "The server restarts at noon."')
def message(
    call: common.JsonCall,
    name: StudyName,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The message, as Markdown.")],
    participant: Annotated[
        str | None,
        typer.Option(
            metavar="ID",
            help=f"Send the message only to this participant. {common.PARTICIPANT_HELP}",
        ),
    ] = None,
) -> None:
    """Send a message to all current participants, or to one.

    Participants see the message on their next page; its closing is recorded.
    """
    from hsfiq.collect.messages import send_message
    from hsfiq.collect.participants import by_name_or_platform_id

    with call.writing() as session:
        study = common.chosen_study(session, name)
        person = by_name_or_platform_id(session, study, participant) if participant else None
        recipients = send_message(session, study, text, to=person, now=datetime.now(UTC))
        pseudonym = person.name if person else None
        common.record_command(
            session, Action.STUDY_MESSAGE, study=name, about=pseudonym or "everybody"
        )
        label = common.participant_label(person.name, person.external_id) if person else None
    result = {"study": name, "participant": pseudonym, "recipients": recipients}
    whom = label or count_text(recipients, "participant")
    call.print(result, f"study {name}: message sent to {whom}")


# `hsfiq study enrolment`: the rules for who may begin, while a study runs.


@app.command(epilog="Example: hsfiq study enrolment autumn --per-address 60")
def enrolment(
    call: common.JsonCall,
    study: Annotated[str, typer.Argument(metavar="NAME", help="The study.")],
    per_address: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=0,
            max=1_000_000,
            help="The most participants from one IP address per hour; 0: no limit.",
        ),
    ] = None,
    unbegun_minutes: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=0,
            max=525_600,
            help="When to free a place without consent; 0: when the lease ends.",
        ),
    ] = None,
    signed_links: Annotated[
        bool | None,
        typer.Option(
            "--signed-links/--any-links",
            help="Require links of `hsfiq participant links` from people of a platform.",
        ),
    ] = None,
) -> None:
    """Print or change the rules of enrolment."""
    from hsfiq.collect.owner import change_enrolment
    from hsfiq.study.config import config_of

    given = {
        "enrolments_per_address": per_address,
        "unbegun_minutes": unbegun_minutes,
        "signed_links": signed_links,
    }
    changes = {key: value for key, value in given.items() if value is not None}
    opened = call.open()
    if changes:
        with opened.writing() as session:
            change_enrolment(session, common.chosen_study(session, study), changes)
            about = ", ".join(f"{key}={value}" for key, value in changes.items())
            common.record_command(session, Action.STUDY_ENROLMENT, study=study, about=about)
    with opened.reading() as session:
        recruitment = config_of(common.chosen_study(session, study)).recruitment
    rules = {key: getattr(recruitment, key) for key in given}
    lines = [f"study {study}:", *(f"{key}: {value}" for key, value in rules.items())]
    call.print({"study": study, **rules}, "\n".join(lines))


# `hsfiq study hit`: what Mechanical Turk needs to show a study to workers.


@app.command(epilog="Example: hsfiq study hit autumn --url https://study.example.org")
def hit(
    call: common.Call,
    study: Annotated[str, typer.Argument(metavar="NAME", help="The study.")],
    url: Annotated[
        str | None,
        typer.Option(metavar="URL", help="The server's public address [HSFIQ_PUBLIC_URL]."),
    ] = None,
    height: Annotated[
        int,
        typer.Option(
            metavar="PIXELS",
            min=0,
            max=10_000,
            help="The height of the frame; 0 fits the frame to the window.",
        ),
    ] = 0,
) -> None:
    """Print a study's ExternalQuestion for Mechanical Turk."""
    from hsfiq.study.config import config_of
    from hsfiq.study.recruiting import external_question

    public = public_url(url, "--url")
    if public is None or public.scheme != "https":
        raise UnreadableInput(
            "--url",
            "Mechanical Turk shows only pages that are served over https",
            "give the server's address, such as https://study.example.org",
        )
    with call.reading() as session:
        row = common.chosen_study(session, study)
        name, mode = row.name, config_of(row).recruitment.mode
    if mode != "mturk":
        raise UnreadableInput(
            f"study {name}",
            f"recruits by mode = {mode!r}, so Mechanical Turk cannot show it",
            'set mode = "mturk" in [recruitment] of a new study',
        )
    common.print_text(external_question(name, public, height).removesuffix("\n"))


# `hsfiq study quota`: how many participants get forms of a category, while a study runs.


@app.command(epilog="Example: hsfiq study quota autumn dress=30")
def quota(
    call: common.JsonCall,
    study: Annotated[str, typer.Argument(metavar="NAME", help="The study.")],
    quotas: Annotated[
        list[str],
        typer.Argument(metavar="CATEGORY=N...", help="The quotas by category."),
    ],
) -> None:
    """Set the most participants of a category.

    Other quotas are unchanged.
    """
    from hsfiq.collect.owner import change_quotas
    from hsfiq.collect.places import quotas_of

    wanted = read_quotas(quotas)
    with call.writing() as session:
        row = common.chosen_study(session, study)
        change_quotas(session, row, wanted)
        counts = quotas_of(session, row, datetime.now(UTC))
        common.record_command(session, Action.STUDY_QUOTA, study=study, about=", ".join(quotas))
    lines = [f"{count.category}: {count.taking_part:,} of {count.quota:,}" for count in counts]
    result = {"study": study, "quotas": [count.facts() for count in counts]}
    call.print(result, "\n".join([f"study {study}, participants:", *lines]))


def read_quotas(given: list[str]) -> dict[str, int]:
    """Read `dress=30`; a category may contain `=`."""
    quotas: dict[str, int] = {}
    for part in given:
        category, _, number = part.rpartition("=")
        if not category or not (number.isascii() and number.isdigit()) or len(number) > 9:
            raise UnreadableInput(
                "study quota", f"{part!r} is not a category's quota", "write one like dress=30"
            )
        if category in quotas:
            raise UnreadableInput("study quota", f"{category!r} is given twice", "give one")
        quotas[category] = int(number)
    return quotas


# `hsfiq study strike`: a typed text that releases leave out.


@app.command(epilog="Example: hsfiq study strike p7.form_1.0 2 --study searches")
def strike(
    call: common.StudyCall,
    search: Annotated[
        str, typer.Argument(metavar="SEARCH", help="The search: question_id in a release.")
    ],
    turn: Annotated[int, typer.Argument(metavar="TURN", help="The turn's number.", min=1)],
) -> None:
    """Redact a text that a participant typed from later releases."""
    from hsfiq.collect.searches import strike as strike_text

    with call.writing() as session:
        row = call.chosen(session)
        is_new = strike_text(session, row, search, turn, datetime.now(UTC))
        name = row.name
        if is_new:
            about = f"{search} turn {turn}"
            common.record_command(session, Action.STUDY_STRIKE, study=name, about=about)
    result = {"study": name, "search": search, "turn": turn, "was_struck": not is_new}
    state = "is struck" if is_new else "was already redacted"
    line = f"study {name}: the text of turn {turn} of {search} {state}"
    call.print(result, line)


# `hsfiq study texts`: what a translator has to translate for a study.


@app.command(epilog="Example: hsfiq study share autumn --url https://study.example.org")
def share(
    call: common.JsonCall,
    name: StudyName,
    revoke: Annotated[
        int | None, typer.Option(metavar="N", help="Revoke link N instead; this cannot be undone.")
    ] = None,
    url: common.UrlOption = None,
) -> None:
    """Create or revoke a link to the newest report.

    Anybody with the link can read the report without an account. The link is printed only once.
    """
    from hsfiq.releases.reports import revoke_report, share_report

    root = common.root_of_links(url)
    with call.writing() as session:
        study = common.chosen_study(session, name)
        if revoke is not None:
            revoke_report(session, command_line(), study, revoke)
            call.print({"revoked": revoke}, f"link {revoke}: revoked")
            return
        shared = share_report(session, command_line(), study)
        result = {"number": shared.id, "link": f"{root}/shared/{shared.token}/"}
    call.print(result, f"link {result['number']}: {result['link']}")


@app.command(epilog="Example: hsfiq study jobs --stop 12")
def jobs(
    call: common.JsonCall,
    stop: Annotated[
        int | None, typer.Option(metavar="N", help="Stop job N, or remove it from the list.")
    ] = None,
    again: Annotated[
        int | None, typer.Option(metavar="N", help="Queue job N again after it failed or stopped.")
    ] = None,
) -> None:
    """List, stop or repeat the jobs of the server."""
    from hsfiq.jobs import ask_to_stop, jobs_of, try_again

    opened = call.open()
    if stop is not None or again is not None:
        with opened.writing() as session:
            if stop is not None:
                ask_to_stop(session, stop)
            if again is not None:
                try_again(session, again)
    with opened.reading() as session:
        rows = [(job.id, job.state, job.about, job.result or "") for job in jobs_of(session)]
    names = ("job", "state", "about", "result")
    facts = [dict(zip(names, row, strict=True)) for row in rows]
    call.print({"jobs": facts}, common.table_text(names, rows) or "no job yet")


@app.command("texts", epilog="Example: hsfiq study texts study.toml --language de")
def texts(
    config: Annotated[Path, typer.Argument(metavar="CONFIG.toml", help="The study's file.")],
    language: Annotated[
        str, typer.Option(metavar="TAG", help="The language to translate to: de, pt-BR.")
    ],
    part: Annotated[
        Literal["short", "guidelines", "consent"],
        typer.Option(help="The short texts as JSON, or a long text as Markdown."),
    ] = "short",
    queries: Annotated[
        Literal["composed", "text", "image"],
        typer.Option(help="The form of the study's queries: a text, an image, or both."),
    ] = "composed",
) -> None:
    """Print the English texts that a language file lacks.

    Short texts are printed with their keys. Texts in the language file beside CONFIG.toml are left
    out.
    """
    from hsfiq.study.config_file import read_config
    from hsfiq.study.languages import is_tag

    if not is_tag(language):
        raise UnreadableInput("--language", f"{language!r} is not a tag such as de or pt-BR")
    wanted = read_config(config, needs_language_files=False)
    if part == "short":
        path = config.with_name(f"{language}.json")
        common.print_text(missing_as_json(path, language, queries, wanted))
    else:
        typer.echo(long_text(wanted, part, queries))  # a text to translate stays as it is


def missing_as_json(path: Path, language: str, form: QueryForm, config: StudyConfig) -> str:
    """The missing texts in the structure of a language file; the owner's texts are not changed."""
    from hsfiq.study.languages import nested, read_language_file, untranslated_texts

    own, errors = read_language_file(path, config) if path.is_file() else ({}, [])
    if errors:
        raise FileErrors(errors)
    missing = untranslated_texts(config, language, form, own)
    if "name" in missing:
        missing["name"] = language
    return json.dumps(nested(missing), ensure_ascii=False, indent=2)


def long_text(config: StudyConfig, part: Literal["guidelines", "consent"], form: QueryForm) -> str:
    """The study's own guidelines or consent, otherwise the standard ones in English."""
    from hsfiq.annotate import texts as standard
    from hsfiq.study.instrument import page_texts
    from hsfiq.study.languages import overlaid, worded_texts

    own: str = getattr(config.study, part).strip()
    if own:
        return own
    kind = config.design.kind
    texts = worded_texts("en", form, kind, instrument=config.study.instrument)
    names = standard.set_names(config, texts["sets"])
    page = overlaid(texts["page"], page_texts(config.wording))
    if part == "consent":
        return standard.standard_consent("en", config, texts["entry"], page)
    file = standard.guidelines_file("en", form, kind)
    return standard.standard_guidelines(file, config, names, page).rstrip()
