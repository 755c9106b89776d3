"""The sections on the systems that returned the sets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import isnan

from scipy.special import expit

from hsfiq.analysis.reports import charts, document
from hsfiq.analysis.reports.preference import NAMES
from hsfiq.analysis.score_effects import AnswerModel, Deviation, Effect
from hsfiq.analysis.systems.ranks import Duel, MetricRank, RankRanges
from hsfiq.analysis.systems.strengths import OrderAgreement, Parameter
from hsfiq.analysis.systems.systems import Systems
from hsfiq.analysis.verdicts import Verdict

# The section on the verdicts, the first of a report.

STATISTIC_NAMES = {
    "win_rate": "win rate",
    "mean_score": "mean score",
    "strength": "strength without side",
    "tie_half": "tie_half",
    "spearman": "rho",
    "symmetric": "symmetric rate",
    "within_query": "rho within queries",
}
WORDS = {
    "better": "better",
    "equivalent": "as good as",
    "undecided": "undecided",
    "undefined": document.DASH,
}


WIN_RATE = "Win rate minus one half, adjusted for the side,"
MOST_CHARTED = 15  # pairs: more do not fit a page


def verdicts_section(verdicts: Sequence[Verdict]) -> document.Section:
    """The chart and the table of all pairs, for papers; the page has its own plot of them."""
    kind = verdicts[0].kind
    title = "Which systems people prefer" if kind == "systems" else "Which metrics agree better"
    cells = [
        document.number_cell(each.difference, each.reason, n=each.n, ci=each.ci, style="signed")
        for each in verdicts
    ]
    rows = (
        (each.a, each.b, cell, document.p_cell(each.p_holm, each.reason), WORDS[each.verdict])
        for each, cell in zip(verdicts, cells, strict=True)
    )
    statistic = verdicts[0].statistic
    what = WIN_RATE if statistic == "win_rate" else f"{STATISTIC_NAMES[statistic]}, the difference"
    pairs = document.table(f"verdicts_{kind}", rows, what=f"{what} of every two {kind}")
    if len(verdicts) > MOST_CHARTED:
        return document.Section("verdicts", title, (pairs,))
    chart = charts.interval_chart(
        "verdicts",
        title,
        "Above 0, the first is better.",
        "For every pair, the first minus the second, with an interval.",
        rows=[f"{each.a}\nand {each.b}" for each in verdicts],
        series={STATISTIC_NAMES[verdicts[0].statistic]: cells},
        x_label="difference",
        reference=(0.0, "no difference"),
    )
    return document.Section("verdicts", title, (chart, pairs))


# The section on the model of the scores.

TITLE = "Effects on the scores"


def answer_model_section(model: AnswerModel) -> document.Section:
    if model.reason is not None:
        return document.Section("answer_model", TITLE, (f"Undefined: {model.reason}.",))
    rows = [_effect(name, each) for name, each in document.named_effects(model).items()]
    deviations = [
        _deviation("participants", model.sd_participants, model.shares["participants"]),
        _deviation("triplets", model.sd_triplets, model.shares["triplets"]),
        ("the rest", "", document.number_cell(model.shares["rest"], style="percent")),
    ]
    counts = {
        "n_scores": f"{model.n_scores:,}",
        "n_participants": f"{model.n_participants:,}",
        "n_triplets": f"{model.n_triplets:,}",
    }
    blocks = (
        document.table("answer_model", rows, **counts),
        document.table("answer_model_variance", deviations),
    )
    return document.Section("answer_model", TITLE, blocks)


def _effect(name: str, effect: Effect) -> document.Row:
    bounds = None if effect.reason is not None else effect.wald
    value = document.NumberCell(effect.value, bounds=bounds, reason=effect.reason, style="signed")
    return (name, value, document.p_cell(effect.p, effect.reason))


def _deviation(name: str, deviation: Deviation, share: float) -> document.Row:
    value = document.NumberCell(deviation.value, bounds=deviation.wald)
    return (name, value, document.number_cell(share, style="percent"))


# Tables of the agreement on pairs of systems, and of strengths adjusted for the side.


def pairs_table(systems: Systems) -> document.Table:
    pairs = [figures.pairs for figures in systems.metrics.values()]
    soft = document.mark_best(
        [document.number_cell(each.spa, each.reason, n=each.n_pairs) for each in pairs]
    )
    rows = (
        (
            metric,
            cell,
            document.number_cell(each.accuracy, each.reason, n=each.n_pairs),
            each.n_pairs,
            document.number_cell(each.accuracy_significant, each.reason, n=each.n_significant),
            each.n_significant,
        )
        for metric, cell, each in zip(systems.metrics, soft, pairs, strict=True)
    )
    return document.table("systems_pairs", rows)


def spa_differences_table(systems: Systems) -> document.Table:
    rows = (
        (
            each.metric,
            each.other,
            document.number_cell(
                each.spa.difference, each.spa.reason, n=each.n_pairs, style="signed"
            ),
            document.number_cell(each.spa.p, each.spa.reason, style="p"),
            document.p_cell(each.spa.p_holm, each.spa.reason),
            each.spa.n_clusters,
        )
        for each in systems.spa_differences
    )
    return document.table("spa_differences", rows)


def model_table(systems: Systems, names: list[str]) -> document.Table:
    """Davidson's model."""
    model = systems.model
    if model.reason is not None:
        undefined = document.number_cell(float("nan"), model.reason)
        return document.table("systems_side", [("all", undefined, undefined)])
    rows = [_parameter(name, model.strength[name]) for name in names]
    rows.append(_parameter("set 1 instead of set 2", model.side))
    rows.append(_parameter("tie (log nu)", model.log_nu))
    return document.table("systems_side", rows)


def side_sentence(systems: Systems) -> str:
    """The effect of the side alone; empty if it is unknown."""
    side = systems.model.side
    if systems.model.reason is not None or side.ci is None or isnan(side.ci.low):
        return ""
    low, high = (
        document.number_text(float(expit(end)), "percent") for end in (side.ci.low, side.ci.high)
    )
    rate = document.number_text(systems.model.set_1_rate, "percent")
    text = (
        "Between two equally strong systems, set 1 is preferred in "
        f"{rate} [{low}, {high}] of the answers without a tie"
    )
    if side.ci.low <= 0 <= side.ci.high:
        return f"{text}; this does not differ significantly from 50%."
    return f"{text}; the side alone has an effect."


def _parameter(name: str, parameter: Parameter) -> document.Row:
    value, reason = parameter.value, parameter.reason
    clustered = document.number_cell(value, reason, n=parameter.n, ci=parameter.ci, style="signed")
    bounds = None if isnan(value) else parameter.wald
    wald = document.NumberCell(value, parameter.n, bounds, reason=reason, style="signed")
    return (name, clustered, wald)


# Tables of ranks: the systems' rank ranges, wins over each other, and the ranks of metrics.

NOT_SIGNIFICANT = "n.s."


def rank_cells(ranks: RankRanges, system: str) -> tuple[document.Cell, document.Cell]:
    """The rank of a system with its range, and its cluster."""
    if ranks.reason is not None:
        undefined = document.number_cell(float("nan"), ranks.reason)
        return undefined, undefined
    place = ranks.systems[system]
    bounds = (float(place.low), float(place.high))
    return document.NumberCell(float(place.rank), bounds=bounds, style="short"), place.cluster


def win_matrix_table(duels: Sequence[Duel], names: Sequence[str]) -> document.Table:
    """How often the system of the row was preferred to that of the column."""
    rates = {(duel.system, duel.other): document.estimate_cell(duel.rate) for duel in duels}
    rows = (
        (name, *(_rate(rates[name, other]) if name != other else "" for other in names))
        for name in names
    )
    columns = (document.Column(f"against_{name}", name) for name in names)
    return document.table("win_matrix", rows, *columns)


def duels_table(systems: Systems, names: Sequence[str]) -> document.Table:
    place = {name: number for number, name in enumerate(names)}
    duels = sorted(systems.duels, key=lambda duel: (place[duel.system], place[duel.other]))
    rows = (
        (
            duel.system,
            duel.other,
            duel.wins,
            duel.ties,
            duel.losses,
            document.estimate_cell(duel.rate),
        )
        for duel in duels
        if place[duel.system] < place[duel.other]
    )
    return document.table("duels", rows)


def metric_ranks_section(ranks: Mapping[str, Sequence[MetricRank]]) -> document.Section:
    title = "Ranks of the metrics"
    tables = tuple(_metric_table(name, each) for name, each in ranks.items() if each)
    return document.Section("metric_ranks", title, tables or ("Ranks need at least two metrics.",))


def _metric_table(statistic: str, ranks: Sequence[MetricRank]) -> document.Table:
    rows: list[document.Row] = []
    for place, rank in enumerate(ranks):
        marks: list[document.Cell] = [""] * (place + 1)
        marks += [_mark(rank.p_below[worse.metric]) for worse in ranks[place + 1 :]]
        rows.append(
            (place + 1, rank.metric, document.number_cell(rank.value), rank.rank, *marks[1:])
        )
    columns = (document.Column(f"above_{place}", str(place)) for place in range(2, len(ranks) + 1))
    return document.table("metric_ranks", rows, *columns, key=statistic, statistic=NAMES[statistic])


def _mark(p: float) -> str:
    return "p undefined" if isnan(p) else document.stars(p) or NOT_SIGNIFICANT


def _rate(cell: document.NumberCell) -> document.NumberCell:
    return document.number_cell(cell.value, cell.reason, n=cell.n)


# The section on the systems that returned the sets.

NO_SIMILARITY = (
    "No scores file with a system's name gives that system's own similarity for both sets, so the "
    "rate of CIRQRS section 5.4 is undefined."
)


def systems_section(systems: Systems) -> document.Section:
    if systems.reason is not None:
        return document.Section(
            "systems", "Systems", (f"{document.DASH} Undefined: {systems.reason}.",)
        )
    names, sentence = by_win_rate(systems), side_sentence(systems)
    blocks = (
        systems_chart(systems),
        _people_table(systems),
        win_matrix_table(systems.duels, names),
        duels_table(systems, names),
        _strength_table(systems),
        *([sentence] if sentence else []),
        model_table(systems, names),
        *_agreement(systems),
        _set_score_table(systems),
    )
    return document.Section("systems", "Systems", blocks)


def _agreement(systems: Systems) -> Iterator[document.Block]:
    """The agreement of the metrics with people; empty without metrics."""
    if systems.metrics:
        yield _order_table(systems)
        yield pairs_table(systems)
    if systems.spa_differences:
        yield spa_differences_table(systems)


def by_win_rate(systems: Systems) -> list[str]:
    """The systems' names by win rate, best first, undefined rates last."""
    rates = {name: figures.win_rate.value for name, figures in systems.figures.items()}
    return sorted(rates, key=lambda name: (isnan(rates[name]), -rates[name], name))


def _people_table(systems: Systems) -> document.Table:
    names = by_win_rate(systems)
    figures = [systems.figures[name] for name in names]
    wins = document.mark_best([document.estimate_cell(system.win_rate) for system in figures])
    has_similarity = any(system.own_similarity.reason is None for system in figures)
    rows: list[document.Row] = []
    for name, win, system in zip(names, wins, figures, strict=True):
        similarity = (document.estimate_cell(system.own_similarity),) if has_similarity else ()
        rank, cluster = rank_cells(systems.ranks, name)
        rows.append(
            (name, win, document.estimate_cell(system.mean_score), rank, cluster, *similarity)
        )
    if not has_similarity:
        return document.table("systems", rows, note=NO_SIMILARITY)
    return document.table(
        "systems", rows, document.Column("own_similarity", "ge by own similarity", "own_similarity")
    )


def _set_score_table(systems: Systems) -> document.Table:
    """CIRQRS Table 6."""
    names = sorted(systems.figures)
    categories = sorted(
        {name for figures in systems.metrics.values() for name in figures.by_category}
    )
    no_sets = document.number_cell(float("nan"), "no sets")
    rows: list[document.Row] = []
    for metric, figures in systems.metrics.items():
        groups = [figures.by_category.get(category, {}) for category in categories]
        columns = [
            document.mark_best(
                [
                    document.estimate_cell(group[name]) if name in group else no_sets
                    for name in names
                ]
            )
            for group in (*groups, figures.set_score)
        ]
        rows += [(metric, name, *cells) for name, *cells in zip(names, *columns, strict=True)]
    k = "k" if systems.k is None else str(systems.k)
    titles = (
        *(document.Column(category, f"{category} @{k}", "set_score") for category in categories),
        document.Column("all", f"All sets @{k}", "set_score"),
    )
    note = "The sets have different sizes k." if systems.k is None else None
    return document.table("table6_set_scores", rows, *titles, note=note, k=k)


def _strength_table(systems: Systems) -> document.Table:
    """Strength and rank of each system, according to people and to each metric."""
    judges = {
        "people": (
            {name: figures.strength for name, figures in systems.figures.items()},
            systems.ranks,
        )
    } | {metric: (figures.strength, figures.ranks) for metric, figures in systems.metrics.items()}
    rows: list[document.Row] = [
        (
            judge,
            name,
            replace(document.estimate_cell(strength[name]), style="signed"),
            *rank_cells(ranks, name),
        )
        for judge, (strength, ranks) in judges.items()
        for name in by_win_rate(systems)
    ]
    return document.table("systems_strength", rows)


def _order_table(systems: Systems) -> document.Table:
    rows = (
        (
            metric,
            document.number_cell(figures.order.tau, figures.order.reason, ci=figures.order.ci),
            _reversed_pairs(figures.order),
            figures.ranks.text(),
        )
        for metric, figures in systems.metrics.items()
    )
    return document.table("systems_order", rows)


def _reversed_pairs(order: OrderAgreement) -> str:
    return ", ".join(f"{better} / {worse}" for better, worse in order.swapped) or "none"


def systems_chart(systems: Systems) -> document.Chart:
    names = by_win_rate(systems)
    series = {"people": [document.estimate_cell(systems.figures[name].strength) for name in names]}
    for metric, figures in systems.metrics.items():
        series[metric] = [document.estimate_cell(figures.strength[name]) for name in names]
    return charts.interval_chart(
        "systems",
        "Strength of each system, according to people and to each metric",
        _caption(systems),
        "For each system, its Bradley-Terry strength with interval, according to people and to "
        "each metric.",
        rows=names,
        series=series,
        x_label="Bradley-Terry strength (log)",
        reference=(0.0, "mean system"),
        colours=(charts.INK, *charts.COLOURS),
    )


def _caption(systems: Systems) -> str:
    best = by_win_rate(systems)[0]
    rate = systems.figures[best].win_rate
    if isnan(rate.value):
        return "No two systems were compared."
    caption = f"People prefer {best} most often: its win rate is {document.number_text(rate.value)}"
    caption += f" {document.bounds_text((rate.ci.low, rate.ci.high))}." if rate.ci else "."
    same = [
        metric
        for metric, figures in systems.metrics.items()
        if figures.order.reason is None and not figures.order.swapped
    ]
    if len(systems.metrics) > document.MANY:
        return f"{caption} {len(same)} of {len(systems.metrics)} metrics rank them as people do."
    if same:
        verb = "ranks" if len(same) == 1 else "rank"
        caption += f" {_joined(same)} {verb} the systems in the same order as people do."
    for metric, figures in systems.metrics.items():
        if figures.order.reason is not None:
            caption += f" The ranking by {metric} is undefined."
        elif figures.order.swapped:
            caption += f" {metric} reverses {_reversed_pairs(figures.order)}."
    return caption


def _joined(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
