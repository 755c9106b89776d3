"""Tables of the agreement on pairs of systems, and of strengths apart from the side."""

from __future__ import annotations

from math import isnan

from scipy.special import expit

from hsfiq.analysis.reports.cells import mark_best, number_cell, number_text, p_cell
from hsfiq.analysis.reports.document import NumberCell, Row, Table
from hsfiq.analysis.reports.layout import table
from hsfiq.analysis.systems.davidson import Parameter
from hsfiq.analysis.systems.systems import Systems


def pairs_table(systems: Systems) -> Table:
    pairs = [figures.pairs for figures in systems.metrics.values()]
    soft = mark_best([number_cell(each.spa, each.reason, n=each.n_pairs) for each in pairs])
    rows = (
        (
            metric,
            cell,
            number_cell(each.accuracy, each.reason, n=each.n_pairs),
            each.n_pairs,
            number_cell(each.accuracy_significant, each.reason, n=each.n_significant),
            each.n_significant,
        )
        for metric, cell, each in zip(systems.metrics, soft, pairs, strict=True)
    )
    return table("systems_pairs", rows)


def spa_differences_table(systems: Systems) -> Table:
    rows = (
        (
            each.metric,
            each.other,
            number_cell(each.spa.difference, each.spa.reason, n=each.n_pairs, style="signed"),
            number_cell(each.spa.p, each.spa.reason, style="p"),
            p_cell(each.spa.p_holm, each.spa.reason),
            each.spa.n_clusters,
        )
        for each in systems.spa_differences
    )
    return table("spa_differences", rows)


def model_table(systems: Systems, names: list[str]) -> Table:
    """Davidson's model."""
    model = systems.model
    if model.reason is not None:
        undefined = number_cell(float("nan"), model.reason)
        return table("systems_side", [("all", undefined, undefined)])
    rows = [_parameter(name, model.strength[name]) for name in names]
    rows.append(_parameter("set 1 instead of set 2", model.side))
    rows.append(_parameter("tie (log nu)", model.log_nu))
    return table("systems_side", rows)


def side_sentence(systems: Systems) -> str:
    """What the side alone does; empty if that is unknown."""
    side = systems.model.side
    if systems.model.reason is not None or side.ci is None or isnan(side.ci.low):
        return ""
    low, high = (number_text(float(expit(end)), "percent") for end in (side.ci.low, side.ci.high))
    rate = number_text(systems.model.set_1_rate, "percent")
    text = (
        "Between two equally strong systems, set 1 is preferred in "
        f"{rate} [{low}, {high}] of the answers without a tie"
    )
    if side.ci.low <= 0 <= side.ci.high:
        return f"{text}; this does not differ significantly from 50%."
    return f"{text}; the side alone makes a difference."


def _parameter(name: str, parameter: Parameter) -> Row:
    value, reason = parameter.value, parameter.reason
    clustered = number_cell(value, reason, n=parameter.n, ci=parameter.ci, style="signed")
    bounds = None if isnan(value) else parameter.wald
    wald = NumberCell(value, parameter.n, bounds, reason=reason, style="signed")
    return (name, clustered, wald)
