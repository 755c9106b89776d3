"""`hsfiq study preview`, `edit` and `message`: what an owner does beside opening and closing."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from hsfiq.actors import Action
from hsfiq.cli.common import (
    PARTICIPANT_HELP,
    DatabaseOption,
    JsonOption,
    UrlOption,
    chosen_study,
    open_chosen,
    participant_label,
    print_result,
    requires,
    root_of_links,
)
from hsfiq.cli.recording import record_afterwards, record_command
from hsfiq.text import count_text

StudyName = Annotated[str, typer.Argument(metavar="NAME", help="The study's name.")]


def register(app: typer.Typer) -> None:
    app.command(epilog="Example: hsfiq study preview autumn --url https://study.example.org")(
        preview
    )
    app.command(epilog="Example: hsfiq study edit autumn study.toml --dry-run")(edit)
    app.command(epilog='Example: hsfiq study message autumn "The server restarts at noon."')(
        message
    )


def preview(
    ctx: typer.Context,
    name: StudyName,
    url: UrlOption = None,
    hours: Annotated[
        float, typer.Option(metavar="N", help="How long the link is valid.", min=0.1, max=720)
    ] = 24,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print a link that shows the study as annotators see it; nothing is stored.

    Whoever has the link can open the preview until it expires, also while the study is a draft.
    """
    with requires("annotate"):
        from hsfiq.annotate.cookies import signer_of
        from hsfiq.annotate.preview import new_preview, preview_path

    root = root_of_links(url)
    opened = open_chosen(ctx, database, create=False)
    with opened.reading() as session:
        place = new_preview(session, chosen_study(session, name), hours)
    link = f"{root}{preview_path(signer_of(opened), place)}"
    record_afterwards(opened, Action.STUDY_PREVIEW, study=name)
    expires = datetime.fromtimestamp(place.expires, UTC).isoformat()
    result = {"study": name, "link": link, "expires": expires}
    print_result(result, f"{link}\nvalid until {expires}", as_json=as_json)


def edit(
    ctx: typer.Context,
    name: StudyName,
    config: Annotated[
        Path, typer.Argument(metavar="CONFIG.toml", help="The study's file, corrected.")
    ],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would change; store nothing.")
    ] = False,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Correct a study's texts and codes, also while it is served; earlier versions are kept.

    Nothing else in the file may differ from the study, or nothing is changed.
    """
    from hsfiq.collect.owner import ForbiddenEdit, perform_edit, prepare_edit
    from hsfiq.study.config_file import located, read_config
    from hsfiq.study.texts import difference

    opened = open_chosen(ctx, database, create=False)
    wanted = read_config(config)
    with opened.reading() as session:
        study = chosen_study(session, name)
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
            record_command(session, Action.STUDY_EDIT, study=name, about=about)
    if not lines:
        end = "no text or code differs; nothing is changed"
    elif dry_run:
        end = "nothing is stored (--dry-run)"
    else:
        end = f"stored as version {number}; participants get it with their next page"
    result = {"study": name, "text_version": number, "difference": lines}
    print_result(result, "\n".join([*lines, f"study {name}: {end}"]), as_json=as_json)


def message(
    ctx: typer.Context,
    name: StudyName,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The message, as Markdown.")],
    participant: Annotated[
        str | None,
        typer.Option(metavar="ID", help=f"Send it to one only. {PARTICIPANT_HELP}"),
    ] = None,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Send a message to all who take part now, or to one participant.

    They see it with their next page, and it is recorded when they have closed it.
    """
    from hsfiq.collect.messages import send_message
    from hsfiq.collect.participants import by_name_or_platform_id

    with open_chosen(ctx, database, create=False).writing() as session:
        study = chosen_study(session, name)
        person = by_name_or_platform_id(session, study, participant) if participant else None
        recipients = send_message(session, study, text, to=person, now=datetime.now(UTC))
        pseudonym = person.name if person else None
        record_command(session, Action.STUDY_MESSAGE, study=name, about=pseudonym or "everybody")
        label = participant_label(person.name, person.external_id) if person else None
    result = {"study": name, "participant": pseudonym, "recipients": recipients}
    whom = label or count_text(recipients, "participant")
    print_result(result, f"study {name}: message sent to {whom}", as_json=as_json)
