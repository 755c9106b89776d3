"""`hsfiq study create --dry-run`: what a study needs, without storing it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from hsfiq.cli.common import print_result, warn
from hsfiq.cli.study_retrievers import described_retrievers
from hsfiq.errors import ConfigError

if TYPE_CHECKING:
    from hsfiq.db.engine import Database
    from hsfiq.study.capacity import Budget


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
    warn(warnings)
    facts = {"study": wanted.study.name, **budget.facts(), "interval_widths": precision}
    facts |= {"interval_widths_reason": note, "fallbacks": fallbacks, "warnings": warnings}
    print_result(facts, as_text(wanted.study.name, budget, precision, note), as_json=as_json)


def expected_widths(budget: Budget, kind: str) -> tuple[dict[str, float] | None, str | None]:
    """The expected widths of the 95% intervals, by simulation; or the reason why there are none."""
    if kind != "pair":
        return None, f"the simulation is for pairs of sets, not for {kind!r}"
    if budget.participants < 2 or budget.questions < 2:
        return None, "needs two participants with two questions each"
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


def as_text(name: str, budget: Budget, widths: dict[str, Any] | None, note: str | None) -> str:
    minutes = f"{budget.duration.minutes:,} minutes each ({budget.duration.source})"
    cost = "" if budget.cost is None else f"\ncost: {budget.cost:,.2f}, without the platform's fees"
    interval = ", ".join(f"{key} {value:.3f}" for key, value in (widths or {}).items())
    return (
        f"study {name}: nothing is stored\n"
        f"participants: {budget.participants:,}\n"
        f"questions: {budget.questions:,} each, about {minutes}{cost}\n"
        f"participants for each query: {budget.overlap:g}\n"
        f"expected width of the 95% intervals: {note or interval}"
    )
