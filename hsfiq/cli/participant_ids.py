"""`hsfiq participant allow` and `links`: which people of a platform may enrol."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hsfiq.actors import Action
from hsfiq.cli.common import (
    DatabaseOption,
    JsonOption,
    StudyOption,
    UrlOption,
    chosen_study,
    open_chosen,
    print_result,
    requires,
    root_of_links,
)
from hsfiq.cli.recording import record_command
from hsfiq.errors import UnreadableInput
from hsfiq.text import count_text

IDS_HELP = "The platform's ids of people, one on each line."


def register(app: typer.Typer) -> None:
    app.command(epilog="Example: hsfiq participant allow ids.txt --study autumn")(allow)
    app.command(epilog="Example: hsfiq participant links ids.txt --url https://study.example.org")(
        links
    )


def allow(
    ctx: typer.Context,
    ids: Annotated[Path | None, typer.Argument(metavar="[IDS.txt]", help=IDS_HELP)] = None,
    everybody: Annotated[
        bool, typer.Option("--everybody", help="Delete the list: all ids are let in again.")
    ] = False,
    study: StudyOption = None,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Let only people with these ids enrol; repeat it to add more. Who has enrolled stays."""
    from hsfiq.collect.recruiting import allow_everybody, allow_people, count_allowed, read_people

    if (ids is None) != everybody:
        raise UnreadableInput("participant allow", "needs a file of ids or --everybody", "name one")
    people = read_people(ids) if ids else []
    with open_chosen(ctx, database, create=False).writing() as session:
        row = chosen_study(session, study)
        added = 0
        if everybody:
            allow_everybody(session, row)
        else:
            added = allow_people(session, row, people)
        about = "everybody" if everybody else count_text(added, "id")
        record_command(session, Action.PARTICIPANT_ALLOW, study=row.name, about=about)
        name, allowed = row.name, count_allowed(session, row)
    line = f"{count_text(added, 'id')} added; {count_text(allowed, 'id')} may enrol"
    if everybody:
        line = "everybody may enrol"
    result = {"study": name, "added": added, "allowed": allowed}
    print_result(result, f"study {name}: {line}", as_json=as_json)


def links(
    ctx: typer.Context,
    ids: Annotated[Path, typer.Argument(metavar="IDS.txt", help=IDS_HELP)],
    url: UrlOption = None,
    out: Annotated[
        Path, typer.Option(metavar="FILE", help="The CSV of ids and their links.")
    ] = Path("links.csv"),
    study: StudyOption = None,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write a signed link for each id, for studies with `signed_links`, which let in no other."""
    with requires("annotate"):
        from hsfiq.annotate.cookies import signer_of
        from hsfiq.annotate.entry import write_links
    from hsfiq.collect.recruiting import read_people, require_signable

    root, people = root_of_links(url), read_people(ids)
    if out.exists():
        raise UnreadableInput(str(out), "already exists", "name another file with --out")
    opened = open_chosen(ctx, database, create=False)
    signer = signer_of(opened)
    with opened.writing() as session:
        row = chosen_study(session, study)
        require_signable(row)
        name = row.name
        about = count_text(len(people), "link")
        record_command(session, Action.PARTICIPANT_LINKS, study=name, about=about)
        write_links(signer, row, people, root, out)
    result = {"study": name, "links": len(people), "file": str(out)}
    print_result(
        result, f"study {name}: {count_text(len(people), 'link')} in {out}", as_json=as_json
    )
