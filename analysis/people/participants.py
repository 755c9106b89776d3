"""How each participant answered. Outliers are named but not excluded."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from hsfiq.analysis.data import columns
from hsfiq.analysis.data.metrics import MetricValues
from hsfiq.analysis.data.release import Release, score_range
from hsfiq.analysis.json_results import UNDEFINED, FloatArray, JsonRecord, json_number, with_reason
from hsfiq.analysis.people.agreement import MIN_UNITS
from hsfiq.analysis.people.reliability import MIN_PEOPLE, participant_reliability
from hsfiq.analysis.resampling.bootstrap import Bootstrap, Estimate, errors_of_mean
from hsfiq.analysis.resampling.intervals import RATE, Bounds
from hsfiq.analysis.resampling.permutation import BLOCK_SIZE, PERMUTATIONS, holm
from hsfiq.analysis.statistics import preference
from hsfiq.analysis.statistics.accuracy import equal_bins
from hsfiq.analysis.statistics.correlation import MIN_SETS, participant_rhos, with_values

# Scores and accuracy by place in the form and by the time an answer took.
#
# If people tire or hurry, late and fast answers differ from the others: they give other scores, and
# metrics agree with them less.

NOT_RECORDED = "not recorded"
NO_PREFERENCE = "no preference among the answers"
NO_PAIR = "no pair has a preference and both values"


@dataclass(frozen=True)
class BinFigures(JsonRecord):
    """The mean score of both sets, and each metric's tie_half, of some answers."""

    mean_score: Estimate
    tie_half: Mapping[str, Estimate]


@dataclass(frozen=True)
class Bin(JsonRecord):
    """The `n` answers with a place or a time from `low` to `high`."""

    low: float
    high: float
    n: int
    figures: BinFigures


@dataclass(frozen=True)
class Trend(JsonRecord):
    """Up to five bins of about equally many answers, in increasing order.

    Attributes:
        change: the figures of the last bin minus those of the first, with paired intervals.
        n_unknown: how many answers have no place or time.
        reason: why there are no bins.
    """

    bins: tuple[Bin, ...]
    change: BinFigures | None
    n_unknown: int
    reason: str | None = None


@dataclass(frozen=True)
class PlaceAndTime(JsonRecord):
    """By the place in the form, from 1, and by the active seconds."""

    place: Trend
    seconds: Trend


def place_and_time(release: Release, values: MetricValues, bootstrap: Bootstrap) -> PlaceAndTime:
    """Describe the answers by place and by time; a trend is empty if these were not recorded."""
    place = columns.optional_column(release.preferences, "place") + 1
    seconds = columns.optional_column(release.preferences, "active_seconds")
    scale = score_range(release.points)
    return PlaceAndTime(
        place=trend(release.preferences, place, values, bootstrap, scale),
        seconds=trend(release.preferences, seconds, values, bootstrap, scale),
    )


def trend(
    preferences: pd.DataFrame,
    by: pd.Series[float],
    values: MetricValues,
    bootstrap: Bootstrap,
    scale: Bounds,
) -> Trend:
    """Describe the answers by a number of each, (n_questions,), NaN where it is unknown.

    `scale` has the lowest and the highest score.
    """
    known = by.notna().to_numpy()
    rows, number = preferences[known], np.asarray(by[known], dtype=np.float64)
    n_unknown = int((~known).sum())
    if not len(rows):
        return Trend((), None, n_unknown, NOT_RECORDED)
    bin_of = equal_bins(number)
    codes = np.unique(bin_of)
    terms = _terms(rows, values)
    by_figure = {
        name: _by_bin(rows, hits, counted, bin_of, bootstrap, RATE if name else scale)
        for name, (hits, counted) in terms.items()
    }
    figures = [
        _figures({name: estimates[place] for name, estimates in by_figure.items()})
        for place in range(len(codes) + 1)
    ]
    bins = tuple(
        Bin(
            float(number[bin_of == code].min()),
            float(number[bin_of == code].max()),
            int((bin_of == code).sum()),
            figures[place],
        )
        for place, code in enumerate(codes)
    )
    return Trend(bins, figures[-1], n_unknown)


def _terms(rows: pd.DataFrame, values: MetricValues) -> dict[str, tuple[FloatArray, FloatArray]]:
    """What each answer adds to each figure's numerator and denominator, (n,) each."""
    scores = ((rows["score_1"] + rows["score_2"]) / 2).to_numpy(np.float64)
    terms = {"": (scores, np.ones(len(rows)))}
    decided = columns.has_preference(rows).to_numpy()
    set_1 = (rows["preferred"] == 1).to_numpy()
    for name, own in values.items():
        difference = np.asarray(columns.metric_difference(rows, own), dtype=np.float64)
        counted = decided & ~np.isnan(difference)
        rate = preference.tie_half(np.nan_to_num(difference), set_1)
        terms[name] = (rate.hits * counted, counted.astype(np.float64))
    return terms


def _by_bin(
    rows: pd.DataFrame,
    hits: FloatArray,
    counted: FloatArray,
    bin_of: NDArray[np.int64],
    bootstrap: Bootstrap,
    bounds: Bounds,
) -> list[Estimate]:
    """A figure in each bin, then the last minus the first."""
    means, errors = [], []
    for number in np.unique(bin_of):
        inside = counted * (bin_of == number)
        n = int(inside.sum())
        errors.append(errors_of_mean(hits * inside, inside))
        if n == 0:
            means.append(Estimate(UNDEFINED, 0, None, NO_PAIR))
            continue
        mean = float((hits * inside).sum() / n)
        ci = bootstrap.mean_interval(mean, rows, errors[-1], inside > 0, bounds)
        means.append(Estimate(mean, n, ci))
    first, last = means[0], means[-1]
    difference = last.value - first.value
    if len(means) == 1 or np.isnan(difference):
        reason = "there is only one bin" if len(means) == 1 else NO_PAIR
        return [*means, Estimate(UNDEFINED, int(counted.sum()), None, reason)]
    ci = bootstrap.mean_interval(difference, rows, errors[-1] - errors[0])
    return [*means, Estimate(difference, first.n + last.n, ci)]


def _figures(by_name: Mapping[str, Estimate]) -> BinFigures:
    return BinFigures(by_name[""], {name: each for name, each in by_name.items() if name})


# Groups of people, by the language of the page and by the device, where answers have them.
#
# A person belongs, with all answers, to the group of most of them. The test of no difference deals
# the groups out among the people anew: whole people, since one person's answers depend on each
# other. Its statistic is the variance between groups: the mean over the answers of
# (figure of the answer's group - figure of everybody)^2.

GROUPINGS = ("language", "device")
"""Columns of the preferences. No release has the second, but users' own tables may."""
FEWEST_IN_GROUP = 2
NO_GROUP = f"no {FEWEST_IN_GROUP} people are in the same group"
NO_TWO_GROUPS = f"the figure is defined for fewer than two groups of {FEWEST_IN_GROUP} people"


@dataclass(frozen=True)
class GroupFigures(JsonRecord):
    """Each metric's tie_half in one group; without metrics, `position_bias` and `mean_score`."""

    n_participants: int
    n_questions: int
    figures: Mapping[str, Estimate]


@dataclass(frozen=True)
class GroupTest(JsonRecord):
    """The p of no difference between groups; `p_holm` is adjusted for all figures and groupings."""

    p: float
    p_holm: float
    n_permutations: int
    seed: int
    reason: str | None = None


@dataclass(frozen=True)
class Grouping(JsonRecord):
    """The groups of two or more people, a test of each figure, and how many people are in none."""

    groups: Mapping[str, GroupFigures]
    tests: Mapping[str, GroupTest]
    n_left_out: int
    reason: str | None = None


def groups_of_people(
    release: Release, values: MetricValues, bootstrap: Bootstrap, n_permutations: int = PERMUTATIONS
) -> dict[str, Grouping]:
    """Compare people by each of `GROUPINGS`; each group resamples its own clusters."""
    found = {
        name: _grouping(release, name, values, bootstrap, n_permutations) for name in GROUPINGS
    }
    tests = [(name, figure) for name, each in found.items() for figure in each.tests]
    adjusted = holm(np.array([found[name].tests[figure].p for name, figure in tests]))
    for (name, figure), p_holm in zip(tests, adjusted.tolist(), strict=True):
        test = replace(found[name].tests[figure], p_holm=p_holm)
        found[name] = replace(found[name], tests={**found[name].tests, figure: test})
    return found


def _grouping(
    release: Release, name: str, values: MetricValues, bootstrap: Bootstrap, n_permutations: int
) -> Grouping:
    of_person = main_values(release.preferences, name)
    sizes = of_person.value_counts()
    names = sorted(sizes.index[sizes >= FEWEST_IN_GROUP])
    n_left_out = release.n_participants - int(sizes[names].sum())
    if not names:
        return Grouping({}, {}, n_left_out, NO_GROUP if len(of_person) else NOT_RECORDED)
    of_answer = columns.looked_up(release.preferences["participant_id"], of_person)
    groups = {
        group: _group_figures(release.subset(of_answer == group), values, bootstrap)
        for group in names
    }
    rows = release.preferences[of_answer.isin(names)]
    tests = {}
    for figure, terms in _group_terms(rows, values).items():
        people = pd.DataFrame(dict(zip(("hits", "counted"), terms, strict=True)))
        people = people.groupby(rows["participant_id"].to_numpy()).sum().query("counted > 0")
        p, n = between_groups_p(
            people, of_person[people.index], n_permutations, np.random.default_rng(bootstrap.seed)
        )
        reason = None if n else NO_TWO_GROUPS
        tests[figure] = GroupTest(p, UNDEFINED, n, bootstrap.seed, reason)
    return Grouping(groups, tests, n_left_out)


def main_values(preferences: pd.DataFrame, column: str) -> pd.Series[str]:
    """The value of a column in most of each participant's answers, indexed by participant.

    Of equally frequent values it is the first by name. Participants without a value are missing.
    """
    if column not in preferences:
        return pd.Series(dtype="object")
    counts = preferences.groupby(["participant_id", column], observed=True).size()
    counts = counts.sort_values(ascending=False, kind="stable")
    values = counts.index.to_frame(index=False).drop_duplicates("participant_id")
    return values.set_index("participant_id")[column].astype("str")


def _group_terms(
    rows: pd.DataFrame, values: MetricValues
) -> dict[str, tuple[FloatArray, FloatArray]]:
    """What each answer adds to the numerator and denominator of each of a group's figures."""
    terms = _terms(rows, values)
    mean_score = terms.pop("")
    if terms:
        return terms
    set_1 = np.asarray(rows["preferred"] == 1, dtype=np.float64)
    decided = np.asarray(columns.has_preference(rows), dtype=np.float64)
    return {"position_bias": (set_1, decided), "mean_score": mean_score}


def _group_figures(group: Release, values: MetricValues, settings: Bootstrap) -> GroupFigures:
    bootstrap, rows = settings.for_release(group), group.preferences
    one_bin = np.zeros(len(rows), dtype=np.int64)
    figures = {}
    for name, (hits, counted) in _group_terms(rows, values).items():
        bounds = RATE if values or name == "position_bias" else score_range(group.points)
        figure, _ = _by_bin(rows, hits, counted, one_bin, bootstrap, bounds)
        reason = NO_PREFERENCE if figure.reason and not values else figure.reason
        figures[name] = replace(figure, reason=reason)
    return GroupFigures(group.n_participants, len(rows), figures)


def between_groups_p(
    people: pd.DataFrame,
    groups: pd.Series[str],
    n_permutations: int,
    rng: np.random.Generator,
) -> tuple[float, int]:
    """The p of no difference between groups (Pitman 1937), and the number of permutations.

    If there are at most `n_permutations` permutations of people, p is exact. It is NaN, from none,
    for fewer than two groups.

    Args:
        people: (n, ...) what each person adds to a figure's numerator and denominator, `hits` and
            `counted`.
        groups: (n,) the group of each.
    """
    hits, counted = (people[name].to_numpy(np.float64) for name in ("hits", "counted"))
    parts = [np.flatnonzero(groups == group) for group in groups.unique()]
    if len(parts) < 2:
        return UNDEFINED, 0
    residuals = hits - hits.sum() / counted.sum() * counted

    def variance(*dealt: FloatArray, axis: int) -> FloatArray:
        sums = (
            [values[part.astype(np.intp)].sum(axis=axis) for values in (residuals, counted)]
            for part in dealt
        )
        # Dealings that are equal but for the order of their sums have to count as equal.
        return np.asarray(np.round(sum(own**2 / n for own, n in sums) / counted.sum(), 12))

    test = stats.permutation_test(
        parts,
        variance,
        permutation_type="independent",
        vectorized=True,
        n_resamples=n_permutations,
        batch=max(1, BLOCK_SIZE // len(people)),
        alternative="greater",
        rng=rng,
    )
    return float(test.pvalue), len(test.null_distribution)


# Straight-lining: the same answer again and again.
#
# An answer is both scores and the preferred set. Both figures are descriptions, not proof: a short
# study with clear questions has long runs, too.

ANSWER = ["score_1", "score_2", "preferred"]


def straight_lining(preferences: pd.DataFrame) -> pd.DataFrame:
    """Each participant's `longest_run` of one answer and `modal_share`, indexed by participant.

    A run stays within a form; `modal_share` is the share of the most frequent answer. The
    preferences must be in the order in which participants answered them.
    """
    keys = ["participant_id", *(["form"] if "form" in preferences else [])]
    answers = preferences[[*keys, *ANSWER]].reset_index(drop=True)
    is_new = answers.ne(answers.shift()).any(axis=1)
    people = answers["participant_id"]
    runs = answers.groupby([people, is_new.cumsum()]).size()
    counts = answers.groupby(["participant_id", *ANSWER]).size().groupby("participant_id")
    return pd.DataFrame(
        {
            "longest_run": runs.groupby("participant_id").max().astype("float64"),
            "modal_share": counts.max() / counts.sum(),
        }
    )


MIN_Z = 3.5
"""Modified z-scores above this are outliers (Iglewicz and Hoaglin 1993)."""
MAD_OF_NORMAL = 0.6745  # the median absolute deviation of a normal variable of variance 1
COUNTS = ("n", "failed_checks", "n_shared", "longest_run")
COMPARED = (
    *("mean_score", "set_1", "same_scores", "contradictions", "irrelevant", "seconds"),
    *("failed_checks", "longest_run", "modal_share", "with_others"),
)
"""The figures in which a participant may be an outlier."""
TOO_LITTLE_OVERLAP = f"others judged fewer than {MIN_UNITS} of the participant's sets"
WHY_UNDEFINED = {
    "set_1": NO_PREFERENCE,
    "irrelevant": "irrelevance flags were not recorded",
    "seconds": "times were not recorded",
    "failed_checks": "results of attention checks were not recorded",
    "with_others": TOO_LITTLE_OVERLAP,
    "reliability": f"{TOO_LITTLE_OVERLAP}, or this holds for all but {MIN_PEOPLE - 1} participants",
    "rho": f"fewer than {MIN_SETS} sets with a value, or all values or all scores are the same",
    "tie_half": "no pair with a preference and both values",
}


@dataclass(frozen=True)
class Outlier(JsonRecord):
    """A participant who is an outlier in one figure.

    The modified z-score is 0.6745 (value - median) / median absolute deviation.
    """

    participant: str
    figure: str
    value: float
    median: float
    z: float


@dataclass(frozen=True, eq=False)
class Participants(JsonRecord):
    """How each participant answered, and the outliers by figure and participant.

    Attributes:
        table: a row per participant, indexed by id, sorted; NaN where a figure is undefined:
            `n`, the number of questions they answered; `mean_score`, the mean of their scores;
            `set_1`, P(set 1 preferred), without human ties;
            `same_scores`, the share of their questions whose two sets got the same score;
            `contradictions`, the share whose preferred set got the strictly lower score;
            `irrelevant`, the share that they flagged; `seconds`, the median of the active seconds;
            `failed_checks`, the number of checks they failed; `longest_run` and `modal_share` (see
            `straight_lining`); `n_shared`, `with_others`, `reliability`, `reliability_low` and
            `reliability_high` (see `participant_reliability`).
        by_metric: for each metric, such a table of `rho`, over their own sets, and `tie_half`, over
            their own pairs.
    """

    table: pd.DataFrame
    by_metric: Mapping[str, pd.DataFrame]
    outliers: tuple[Outlier, ...]

    @property
    def n_with_others(self) -> int:
        """How many participants can be compared with others."""
        return int(self.table["with_others"].notna().sum())

    def to_json(self) -> dict[str, object]:
        by_metric = {metric: each.to_dict("index") for metric, each in self.by_metric.items()}
        return {
            "n": len(self.table),
            "n_with_others": self.n_with_others,
            "participants": {
                str(name): {
                    **_to_json(figures),
                    "metrics": {metric: _to_json(each[name]) for metric, each in by_metric.items()},
                }
                for name, figures in self.table.to_dict("index").items()
            },
            "outliers": [outlier.to_json() for outlier in self.outliers],
        }


def participants(release: Release, values: MetricValues) -> Participants:
    """Describe each participant of a release, and name the outliers without excluding them."""
    units = release.units
    table = (
        _answers(release.preferences)
        .join(straight_lining(release.preferences))
        .join(participant_reliability(release.sets, units))
    )
    by_metric = {
        metric: pd.DataFrame(
            {
                "rho": participant_rhos(with_values(release.sets, own)),
                "tie_half": _tie_half(release.preferences, own),
            }
        ).reindex(table.index)
        for metric, own in values.items()
    }
    named = tuple(outlier for name in COMPARED for outlier in outliers(name, table[name]))
    return Participants(table, by_metric, named)


def outliers(name: str, values: pd.Series[float]) -> list[Outlier]:
    """The outliers of a figure; none if more than half of the participants have the same value."""
    median = float(values.median())
    deviations = (values - median).abs()
    mad = float(deviations.median())
    if np.isnan(mad) or mad == 0:
        return []
    z = MAD_OF_NORMAL * (values - median) / mad
    return [
        Outlier(str(person), name, float(values[person]), median, float(z[person]))
        for person in values.index[z.abs() > MIN_Z]
    ]


def _answers(preferences: pd.DataFrame) -> pd.DataFrame:
    score_1, score_2 = preferences["score_1"], preferences["score_2"]
    set_1 = (preferences["preferred"] == 1).where(columns.has_preference(preferences))
    figures = pd.DataFrame(
        {
            "mean_score": (score_1 + score_2) / 2,
            "set_1": set_1.astype("float64"),
            "same_scores": (score_1 == score_2).astype("float64"),
            "contradictions": columns.contradictions(preferences).astype("float64"),
            "irrelevant": columns.optional_column(preferences, "irrelevant"),
        }
    )
    people = preferences["participant_id"]
    by_person = figures.groupby(people)
    table = by_person.mean()
    table.insert(0, "n", by_person.size())
    table["seconds"] = (
        columns.optional_column(preferences, "active_seconds").groupby(people).median()
    )
    table["failed_checks"] = _failed_checks(preferences)
    return table


def _failed_checks(preferences: pd.DataFrame) -> pd.Series[float]:
    """How many checks each participant failed: the counts of their forms, each form once."""
    forms = preferences.assign(failed=columns.optional_column(preferences, "failed_checks"))
    keys = ["participant_id", *(["form"] if "form" in preferences else [])]
    return forms.drop_duplicates(keys).groupby("participant_id")["failed"].sum(min_count=1)


def _tie_half(preferences: pd.DataFrame, values: pd.Series[float]) -> pd.Series[float]:
    """Each participant's own rate; participants without a usable pair are missing."""
    rows, set_1, (difference,) = preference.usable_pairs(
        preferences, columns.metric_difference(preferences, values)
    )
    hits = pd.Series(preference.tie_half(difference, set_1).hits, index=rows.index)
    rates: pd.Series[float] = hits.groupby(rows["participant_id"]).mean()
    return rates


def _to_json(figures: Mapping[Hashable, float]) -> dict[str, object]:
    fields: dict[str, object] = {}
    for name, value in figures.items():
        number = json_number(float(value))
        fields[str(name)] = int(value) if number is not None and name in COUNTS else number
    reasons = [
        why for name, why in WHY_UNDEFINED.items() if name in fields and fields[name] is None
    ]
    return with_reason(fields, "; ".join(reasons) or None)
