"""The sections on people: participants, agreement and reliability."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import isnan
from typing import TYPE_CHECKING

import numpy as np

from hsfiq.analysis.people.agreement import MIN_UNITS, IntraRater
from hsfiq.analysis.people.judges import MARGIN, JudgeAgreement
from hsfiq.analysis.people.participants import (
    WHY_UNDEFINED,
    BinFigures,
    Grouping,
    Participants,
    PlaceAndTime,
    Trend,
)
from hsfiq.analysis.people.reliability import Overlap
from hsfiq.analysis.reports import charts
from hsfiq.analysis.reports.document import (
    MANY,
    Chart,
    Column,
    NumberCell,
    Row,
    Section,
    Style,
    Table,
    estimate_cell,
    number_cell,
    number_text,
    p_cell,
    table,
)
from hsfiq.analysis.statistics.preference import PositionBias
from hsfiq.text import count_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure


# The section on judges: whether they agree with people as well as people with each other.


def judges_section(judges: Mapping[str, JudgeAgreement]) -> Section:
    text = (
        "On pairs of sets that several people judged, the preferences of each judge and of each "
        "person are compared with those of the other people. A judge agrees as well as people if "
        f"the interval of the difference lies above {-MARGIN:g}."
    )
    rows = (
        (
            name,
            part,
            number_cell(figures.judge, figures.reason, n=figures.n),
            number_cell(figures.people, figures.reason, n=figures.n),
            number_cell(figures.difference, figures.reason, n=figures.n, ci=figures.ci),
            *(figures.n, figures.n_pairs, figures.n_participants),
            figures.verdict,
        )
        for name, judge in judges.items()
        for part, figures in judge.parts.items()
    )
    return Section("judges", "Judges and people", (text, table("judges", rows)))


# The section on sets that several participants scored: agreement, and a metric's upper bound.

NAME, TITLE = "overlap", "Agreement between annotators"
ANY_METRIC = "upper bound for any metric"
NO_BOUND = "an upper bound is known for correlations only"


def overlap_section(overlap: Overlap) -> Section:
    """How well one annotator predicts another, metrics on the same sets, and the upper bound."""
    if not overlap.n_sets:
        text = (
            "No set was scored by two participants, so inter-annotator agreement and the upper "
            "bound for metrics are unknown."
        )
        return Section(NAME, TITLE, (text, _alpha_table(overlap)))
    text = (
        f"{count_text(overlap.n_sets, 'set')} {'was' if overlap.n_sets == 1 else 'were'} scored by "
        f"more than one participant ({count_text(overlap.n_participants, 'participant')} in all). "
        f"{' '.join(_comparison(overlap))}"
    )
    tables = (_table(overlap), _alpha_table(overlap), _reliability_table(overlap))
    return Section(NAME, TITLE, (text, *tables))


def _table(overlap: Overlap) -> Table:
    rows: list[Row] = [
        (name, estimate_cell(figures.spearman), estimate_cell(figures.tie_half))
        for name, figures in overlap.predictors.items()
    ]
    no_bound = overlap.reliability.rho_bound.reason or NO_BOUND
    bound = estimate_cell(overlap.reliability.rho_bound)
    rows.append((ANY_METRIC, bound, number_cell(float("nan"), no_bound)))
    return table("other_annotator", rows)


def _comparison(overlap: Overlap) -> Iterator[str]:
    rho = overlap.other_annotator.spearman.rho
    if isnan(rho):
        yield "How well one annotator predicts another is undefined."
    else:
        reaching = [
            name for name, figures in overlap.metrics.items() if figures.spearman.rho >= rho
        ]
        yield (
            "The score of one other annotator predicts an annotator's scores with rho = "
            f"{number_text(rho)}. This is no upper bound: the mean of several annotators predicts "
            "better."
        )
        if overlap.metrics:
            yield (
                f"Metrics with an equal or higher rho on these sets: {', '.join(reaching)}."
                if reaching
                else "No metric reaches this on the same sets."
            )
    bound = overlap.reliability.rho_bound.value
    if not isnan(bound):
        yield (
            "Because annotators differ, no metric can have a rho above about "
            f"{number_text(bound)} with their scores."
        )


def _alpha_table(overlap: Overlap) -> Table:
    agreements = {
        "scores (ordinal)": (overlap.scores, overlap.kappa["scores"]),
        "preferences (nominal)": (overlap.preferences, overlap.kappa["preferences"]),
    }
    rows = (
        (
            name,
            number_cell(agreement.alpha, agreement.reason, n=agreement.n_units, ci=agreement.ci),
            estimate_cell(kappa),
            agreement.n_units,
            agreement.n_ratings,
        )
        for name, (agreement, kappa) in agreements.items()
    )
    n = overlap.n_identical
    note = f"Preferences: without {count_text(n, 'question')} with two identical sets."
    return table("alpha", rows, note=note if n else None)


def _reliability_table(overlap: Overlap) -> Table:
    rows = (
        (str(mean.n_raters), estimate_cell(mean.reliability), estimate_cell(mean.bound))
        for mean in overlap.reliability.means
    )
    return table("reliability", rows)


# The section on the participants: position bias, speed, checks and outliers.

FIGURES = {
    "n": "Questions",
    "mean_score": "Mean score",
    "set_1": "Set 1 preferred",
    "same_scores": "Same scores",
    "contradictions": "Contradictions",
    "irrelevant": "Irrelevant",
    "seconds": "Median seconds",
    "failed_checks": "Failed checks",
}
CARE = {
    "longest_run": "Longest run of one answer",
    "modal_share": "Most frequent answer",
    "n_shared": "Sets judged by others too",
    "with_others": "rho with the others",
    "reliability": "Reliability, shrunk",
}
STYLES: dict[str, Style] = {
    **dict.fromkeys(("n", "seconds", "failed_checks", "longest_run", "n_shared"), "short"),
    **dict.fromkeys(
        ("set_1", "same_scores", "contradictions", "irrelevant", "modal_share"), "percent"
    ),
}
GROUPED_BY = {"language": "Language", "device": "Device"}
GROUP_FIGURES = {"position_bias": "P(set 1 preferred)", "mean_score": "Mean score"}
QUANTILES = {
    "lowest": 0.0,
    "lower_quartile": 0.25,
    "median": 0.5,
    "upper_quartile": 0.75,
    "highest": 1.0,
}


def participants_section(
    bias: PositionBias,
    participants: Participants,
    by_place_and_time: PlaceAndTime,
    groupings: Mapping[str, Grouping],
    repeated: IntraRater,
) -> Section:
    return Section(
        "participants",
        "Participants: position bias, speed and checks",
        (
            _bias_table(bias),
            _chart(participants),
            _summary_table(participants),
            *_place_and_time(by_place_and_time),
            *_groups(groupings, bool(participants.by_metric)),
            _repeats_table(repeated),
            _outliers_table(participants),
            _participants_table(participants),
            _care_table(participants),
        ),
    )


def bias_section(bias: PositionBias) -> Section:
    return Section("position_bias", "Position bias", (_bias_table(bias),))


def _bias_table(bias: PositionBias) -> Table:
    row = (
        number_cell(bias.rate, bias.reason, n=bias.n, ci=bias.ci),
        p_cell(bias.p, bias.reason),
        p_cell(bias.p_clustered, bias.reason),
        *(bias.n, bias.n_participants, bias.human_ties),
    )
    return table("position_bias", (row,))


def _chart(participants: Participants) -> Chart:
    columns = {"P(set 1 preferred)": participants.table["set_1"]} | {
        f"own rho of {name}": figures["rho"] for name, figures in participants.by_metric.items()
    }
    colours = (charts.GREY, *charts.COLOURS)

    def paint(figure: Figure) -> None:
        panels = charts.panels(figure, len(columns))
        for index, (axes, (title, values)) in enumerate(zip(panels, columns.items(), strict=True)):
            places, heights = charts.stack_dots(float(value) for value in values.dropna())
            colour = colours[index % len(colours)]
            axes.plot(places, heights, linestyle="", marker="o", ms=4, color=colour)
            charts.draw_reference(axes, 0.5 if index == 0 else 0.0, "chance")
            axes.set(
                title=charts.shorten(title, charts.PANEL_TITLE),
                yticks=[],
                ylim=(-1, max([*heights, 6]) + 1),
            )
            axes.spines["left"].set_visible(False)

    return Chart(
        "participants",
        "One dot for each participant",
        _caption(participants),
        "Dot plots over the participants: how often each one preferred set 1, and each one's rho "
        "for every metric; dashed lines mark chance.",
        charts.panels_size(len(columns), 2.0),
        paint,
        is_wide=True,
        is_empty=not len(participants.table),
    )


def _caption(participants: Participants) -> str:
    if not len(participants.table):
        return "There are no participants."
    sentences = []
    means = participants.table["mean_score"].dropna()
    if len(means):
        sentences.append(
            f"The participants' mean scores range from {number_text(means.min())} to "
            f"{number_text(means.max())}."
        )
    sentences += _rho_sentences(participants)
    known = participants.table["with_others"].dropna()
    if len(known):
        noun = "participant shares" if len(known) == 1 else "participants share"
        sentences.append(
            f"{len(known):,} {noun} at least {MIN_UNITS} sets with others; the scores of each "
            f"correlate with the mean of the others' by {number_text(known.min())} to "
            f"{number_text(known.max())}."
        )
    else:
        sentences.append(
            f"No participant shares {MIN_UNITS} sets with others, so the agreement of single "
            "participants with others is unknown."
        )
    n_outliers = len({outlier.participant for outlier in participants.outliers})
    if n_outliers:
        noun = "participant is an outlier" if n_outliers == 1 else "participants are outliers"
        sentences.append(
            f"{n_outliers:,} {noun} in at least one figure; they are listed below but not excluded."
        )
    else:
        sentences.append("There are no outliers.")
    return " ".join(sentences)


def _rho_sentences(participants: Participants) -> list[str]:
    """With whom each metric correlates positively; of many metrics, the two extremes."""
    by_metric = {name: each["rho"].dropna() for name, each in participants.by_metric.items()}
    shares = {name: float((rhos > 0).mean()) for name, rhos in by_metric.items() if len(rhos)}
    names = list(shares)
    if len(names) > MANY:
        names = [max(shares, key=lambda name: shares[name]), min(shares, key=lambda n: shares[n])]
    return [
        f"{name} correlates positively with the scores of {int((by_metric[name] > 0).sum()):,} of "
        f"{count_text(len(by_metric[name]), 'participant')}."
        for name in dict.fromkeys(names)
    ]


def participants_summary(participants: Participants) -> dict[str, dict[str, float]]:
    """Each figure's quantiles over the participants with a value; NaN if there are none."""
    values = {
        name: participants.table[name].astype("float64").dropna() for name in (*FIGURES, *CARE)
    }
    return {
        name: {
            quantile: float(np.quantile(column, q)) if len(column) else float("nan")
            for quantile, q in QUANTILES.items()
        }
        for name, column in values.items()
    }


def _summary_table(participants: Participants) -> Table:
    rows: tuple[Row, ...] = tuple(
        ((FIGURES | CARE)[name], *(_cell(name, value) for value in quantiles.values()))
        for name, quantiles in participants_summary(participants).items()
    )
    return table("participants_summary", rows)


def _cell(name: str, value: float) -> NumberCell:
    reason = WHY_UNDEFINED.get(name, "there are no answers")
    return number_cell(value, reason, style=STYLES.get(name, "plain"))


def _place_and_time(by: PlaceAndTime) -> Iterator[Table]:
    for name, trend in (("place", by.place), ("seconds", by.seconds)):
        yield _trend_table(f"by_{name}", trend)


def _groups(groupings: Mapping[str, Grouping], has_metrics: bool) -> Iterator[str | Table]:
    """The reason for each missing grouping, and a table of the groups."""
    rows: list[Row] = []
    for name, grouping in groupings.items():
        if grouping.reason is not None:
            yield f"{GROUPED_BY[name]}: {grouping.reason}."
        for figure, test in grouping.tests.items():
            title = f"tie_half of {figure}" if has_metrics else GROUP_FIGURES[figure]
            p_cells = [number_cell(p, test.reason, style="p") for p in (test.p, test.p_holm)]
            for group, own in grouping.groups.items():
                value = estimate_cell(own.figures[figure])
                sizes = (own.n_participants, own.n_questions)
                rows.append((GROUPED_BY[name], title, group, *sizes, value, *p_cells))
    if rows:
        yield table("people_groups", rows)


def _repeats_table(repeated: IntraRater) -> Table:
    cells = (estimate_cell(repeated.same_preference), estimate_cell(repeated.kappa))
    return table("repeats", ((repeated.n, repeated.n_participants, *cells),))


def _trend_table(name: str, trend: Trend) -> Table:
    rows: list[Row] = [
        (
            number_cell(each.low, style="short"),
            number_cell(each.high, style="short"),
            each.n,
            *_trend_cells(each.figures),
        )
        for each in trend.bins
    ]
    metrics: list[str] = []
    if trend.change is not None:
        metrics = list(trend.change.tie_half)
        cells = (replace(cell, style="signed") for cell in _trend_cells(trend.change))
        rows.append(("last minus first", "", "", *cells))
    columns = (
        Column(f"tie_half_{metric}", f"tie_half of {metric}", "tie_half") for metric in metrics
    )
    note = None
    if trend.n_unknown:
        note = f"Not recorded for {count_text(trend.n_unknown, 'answer')}."
    return table(name, rows, *columns, note=note)


def _trend_cells(figures: BinFigures) -> list[NumberCell]:
    return [estimate_cell(each) for each in (figures.mean_score, *figures.tie_half.values())]


def _outliers_table(participants: Participants) -> Table:
    rows: tuple[Row, ...] = tuple(
        (
            outlier.participant,
            outlier.figure,
            *(number_cell(value) for value in (outlier.value, outlier.median, outlier.z)),
        )
        for outlier in participants.outliers
    )
    return table("outliers", rows)


def _participants_table(participants: Participants) -> Table:
    answers, by_metric = participants.table, participants.by_metric
    own_figures = [(metric, name) for metric in by_metric for name in ("rho", "tie_half")]
    _, *shares_and_means = FIGURES  # the first figure is the number of questions
    rows: list[Row] = [
        (
            str(participant),
            int(answers.loc[participant, "n"]),
            *(_cell(name, float(answers.loc[participant, name])) for name in shares_and_means),
            *(
                _cell(name, float(by_metric[metric].loc[participant, name]))
                for metric, name in own_figures
            ),
        )
        for participant in answers.index
    ]
    columns = (
        *(Column(name, title) for name, title in FIGURES.items()),
        *(Column(f"{name}_{metric}", f"{name} of {metric}") for metric, name in own_figures),
    )
    return table("participants", rows, *columns)


def _care_table(participants: Participants) -> Table:
    rows: list[Row] = []
    for participant, figures in participants.table.iterrows():
        low, high = (float(figures[f"reliability_{end}"]) for end in ("low", "high"))
        reliability = _cell("reliability", float(figures["reliability"]))
        rows.append(
            (
                str(participant),
                *(_cell(name, float(figures[name])) for name in CARE if name != "reliability"),
                replace(reliability, bounds=(low, high)),
            )
        )
    return table("participants_care", rows)
