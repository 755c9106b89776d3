"""`hsfiq study extend`: further forms for a study that is running."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hsfiq.cli.common import (
    DatabaseOption,
    JsonOption,
    chosen_study,
    open_chosen,
    print_result,
    progress,
    warn,
)
from hsfiq.cli.study_budget import as_text, expected_widths
from hsfiq.errors import UnreadableInput
from hsfiq.text import count_text

if TYPE_CHECKING:
    from hsfiq.db.engine import Database
    from hsfiq.study.extension import Added, MoreAnnotators, NewQueries


def register(app: typer.Typer) -> None:
    app.command(epilog="Example: hsfiq study extend autumn --annotators 3 --dry-run")(extend)


def extend(
    ctx: typer.Context,
    study: Annotated[str, typer.Argument(metavar="NAME", help="The study.")],
    annotators: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Until N participants judge each query."),
    ] = None,
    all_queries: Annotated[
        bool, typer.Option("--all-queries", help="All new queries that match [queries].")
    ] = False,
    sample: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="N of these, drawn at random.")
    ] = None,
    query_ids: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Those of these that FILE lists, one id a line."),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Print what would be added and its cost; store nothing."),
    ] = False,
    pay_per_hour: Annotated[
        float | None,
        typer.Option(metavar="AMOUNT", min=0, help="With --dry-run: a participant's hourly pay."),
    ] = None,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Add forms to a study: more participants for its queries, or new queries.

    What the study has already stays as it is. This is possible while the study is served.
    """
    from hsfiq.actors import command_line
    from hsfiq.collect.owner import extend_while_running
    from hsfiq.study.images import check_and_record

    wanted = request_of(annotators, all_queries, sample, query_ids)
    if pay_per_hour is not None and not dry_run:
        raise UnreadableInput("--pay-per-hour", "needs --dry-run", "leave it out, or add it")
    opened = open_chosen(ctx, database, create=False)
    if dry_run:
        show_cost(opened, study, wanted, pay_per_hour, as_json=as_json)
        return
    added = extend_while_running(
        opened,
        command_line(),
        lambda session: chosen_study(session, study),
        wanted,
        datetime.now(UTC),
        progress("new images"),
    )
    warnings = added.capacity.warnings()
    warnings += check_and_record(opened, study, progress("images")).warnings()
    warn(warnings)
    facts: dict[str, Any] = {"study": study, **wanted.facts(), **added.facts()}
    print_result(facts | {"warnings": warnings}, in_one_line(study, added), as_json=as_json)


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
    """Print what would be added and its cost; the forms are stored and rolled back."""
    from hsfiq.collect.owner import extend as extend_study
    from hsfiq.study.capacity import budget_for, budget_of
    from hsfiq.study.config import config_of

    with database.writing() as session:
        row = chosen_study(session, study)
        added = extend_study(session, row, wanted, datetime.now(UTC))
        budget = budget_for(session, row, added.capacity.places, added.capacity, pay_per_hour)
        whole = budget_of(session, row, config_of(row), None)
        kind = row.kind
        session.rollback()
    warnings = added.capacity.warnings()
    warn(warnings)
    widths, note = expected_widths(whole, kind)
    facts: dict[str, Any] = {"study": study, **wanted.facts(), **added.facts()}
    facts |= budget.facts() | {"interval_widths": widths, "interval_widths_reason": note}
    text = f"{in_one_line(study, added)}\n{as_text(study, budget, widths, note)}"
    print_result(facts | {"warnings": warnings}, text, as_json=as_json)


def request_of(
    annotators: int | None, all_queries: bool, sample: int | None, query_ids: Path | None
) -> MoreAnnotators | NewQueries:
    """What the options ask for; exactly one of them must be given."""
    from hsfiq.study.extension import MoreAnnotators, NewQueries

    given = [annotators is not None, all_queries, sample is not None, query_ids is not None]
    if sum(given) != 1:
        raise UnreadableInput(
            "study extend",
            "needs one thing to add" if not any(given) else "adds one thing at a time",
            "give one of --annotators, --all-queries, --sample and --query-ids",
        )
    if annotators is not None:
        return MoreAnnotators(annotators)
    return NewQueries(sample or 0, query_ids)
