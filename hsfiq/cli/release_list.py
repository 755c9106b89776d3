"""`hsfiq release list`: the releases that a database has recorded, and the answers since."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from hsfiq.cli.common import (
    PARTICIPANT_HELP,
    DatabaseOption,
    JsonOption,
    chosen_study,
    open_chosen,
    print_result,
)
from hsfiq.errors import UnreadableInput

if TYPE_CHECKING:
    from hsfiq.collect.history import AnswerInRelease, ReleaseRecord


def register(app: typer.Typer) -> None:
    app.command("list", epilog="Example: hsfiq release list --participant p7")(list_)


def list_(
    ctx: typer.Context,
    study: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only releases of this study.")
    ] = None,
    participant: Annotated[
        str | None,
        typer.Option(metavar="NAME", help=f"Only releases with answers of one. {PARTICIPANT_HELP}"),
    ] = None,
    question: Annotated[
        str | None,
        typer.Option(
            metavar="ID", help="Which revision of this answer each release has: p7.form_1.0."
        ),
    ] = None,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the releases that hsfiq export has written, and how many answers have arrived since.

    Those that the database has recorded, oldest first.
    """
    from hsfiq.collect.history import find_question, records_of, releases_of_answer
    from hsfiq.collect.owner import exports_with
    from hsfiq.collect.participants import by_name_or_platform_id
    from hsfiq.collect.studies import list_studies

    if participant is not None and question is not None:
        raise UnreadableInput("--participant", "does not go with --question", "leave one out")
    answers: list[AnswerInRelease] = []
    with open_chosen(ctx, database, create=False).reading() as session:
        if participant is not None:
            row = chosen_study(session, study)
            person = by_name_or_platform_id(session, row, participant)
            only = [release.id for release in exports_with(session, person)]
            records = records_of(session, row, only)
        elif question is not None:
            row = chosen_study(session, study)
            key = find_question(session, row, question)
            if key is None:
                raise UnreadableInput("--question", f"study {row.name} has no {question[:80]!r}")
            by_release = releases_of_answer(session, key)
            records, answers = records_of(session, row, [*by_release]), [*by_release.values()]
        else:
            rows = list_studies(session) if study is None else [chosen_study(session, study)]
            records = [record for row in rows for record in records_of(session, row)]
    results = [record.facts() for record in records]
    lines = [as_text(record) for record in records]
    for place, answer in enumerate(answers):
        results[place]["answer"] = answer._asdict()
        lines[place] += f"; {'has' if answer.is_kept else 'dropped'} revision {answer.revision}"
    print_result({"releases": results}, "\n".join(lines) or "no release yet", as_json=as_json)


def as_text(record: ReleaseRecord) -> str:
    """The release with its filters, and what has changed since it was written."""
    from hsfiq.text import count_text

    filters = f" ({', '.join(map(filter_text, record.filters))})" if record.filters else ""
    line = (
        f"{record.name} {record.version}{filters}, {record.last_exported_at:%Y-%m-%d %H:%M} UTC: "
        f"{count_text(record.n_answers, 'answer')}; since then {record.since}"
    )
    if record.n_forgotten:
        people = count_text(record.n_forgotten, "participant")
        line += f"; has answers of {people} whose data were deleted"
    return line


def filter_text(filter_: dict[str, Any]) -> str:
    """`unseen`, or `too-fast(seconds=2)`."""
    values = ", ".join(f"{name}={value:g}" for name, value in filter_["parameters"].items())
    return f"{filter_['name']}({values})" if values else str(filter_["name"])
