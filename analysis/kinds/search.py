"""`search`: the course of searches over several turns, and correlates of satisfaction.

The sets of such a release are the lists of its turns, and their scores the satisfaction; a list's
id is that of its search and the turn's number. Unfinished sessions are counted, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from hsfiq.analysis.data.kind_release import JudgedRelease
from hsfiq.analysis.data.metrics import Metric, ScoreColumn
from hsfiq.analysis.data.scores import read_image_scores
from hsfiq.analysis.json_results import UNDEFINED, BoolArray, FloatArray
from hsfiq.analysis.kinds.kind import Figures, KindStatistics, system_names
from hsfiq.analysis.kinds.single import agreement_of_scores
from hsfiq.analysis.resampling.bootstrap import Bootstrap, Estimate, group_means
from hsfiq.analysis.resampling.intervals import CORRELATION, RATE, SATISFACTION, Bounds
from hsfiq.analysis.sessions.measure import SessionAnalysis, measure
from hsfiq.analysis.sessions.ranks import ROUND_COLUMNS, SESSION_COLUMNS, Rules
from hsfiq.analysis.statistics.correlation import spearman, within_participant

# Means by system, with an interval each, of what some rows do not have.

ALL = "all"


def means_by_system(
    rows: pd.DataFrame,
    values: FloatArray,
    bootstrap: Bootstrap,
    bounds: Bounds | None = None,
    reason: str = "no value to average",
) -> dict[str, Estimate]:
    """The mean of each system's values, (n,), and of all if there are several systems.

    Rows with NaN are left out; a mean without any row is undefined for this reason.
    """
    systems = system_names(rows)
    names = sorted(set(systems))
    groups = {name: (systems == name).to_numpy() for name in names}
    if len(names) != 1:
        groups[ALL] = np.ones(len(rows), dtype=np.bool_)
    known = ~np.isnan(values)
    means = {}
    for name, own in groups.items():
        if not (own & known).any():
            means[name] = Estimate(UNDEFINED, 0, None, reason)
            continue
        group = np.where(own & known, 1, 0)[known]
        means[name] = group_means(rows[known], values[known], group, [1], bootstrap, bounds)[1]
    return means


def transposed(
    columns: Mapping[str, Mapping[str, Estimate]],
) -> dict[str, dict[str, Estimate]]:
    """Figures by system, then by column, from those by column, then by system."""
    systems = dict.fromkeys(name for column in columns.values() for name in column)
    return {
        name: {title: column[name] for title, column in columns.items() if name in column}
        for name in systems
    }


# Which image of a list people mark as nearest, and whether systems and scorers agree.

NO_MARK = "no participant has marked an image"
NO_SCORES = "no list with a marked image has a score for each image"
NO_TARGET_LISTED = "no list with a marked image has the target"


def nearest_figures(
    release: JudgedRelease, metrics: Sequence[Metric], bootstrap: Bootstrap
) -> list[Figures]:
    lists = release.sets.dropna(subset=["score"])
    place = lists["nearest_place"].to_numpy(np.float64)
    is_marked = ~np.isnan(place)
    columns = {
        "any image": (is_marked.astype(np.float64), NO_MARK),
        "the system's first": (equal_to(place, np.ones(len(lists))), NO_MARK),
        "a random one": (np.where(is_marked, 1 / lists["n_images"].to_numpy(), np.nan), NO_MARK),
        "the target, if listed": (equal_to(place, target_places(release, lists)), NO_TARGET_LISTED),
    }
    for metric in metrics:
        if isinstance(metric, ScoreColumn) and metric.name in release.scores:
            scores = read_image_scores(release.scores[metric.name], release.whole.sets)
            if scores:
                best = best_places(lists, scores)
                columns[f"{metric.name}'s first"] = (equal_to(place, best), NO_SCORES)
    means = {
        title: means_by_system(lists, values, bootstrap, RATE, reason)
        for title, (values, reason) in columns.items()
    }
    return [
        Figures(
            "nearest",
            "The image that people mark as nearest, by system",
            "system",
            transposed(means),
            "The share of the judged lists in which any image was marked and, among these, the "
            "share in which it is this image. Random image: the share expected for a random image "
            "of the list. A "
            "scorer's first has the highest score for the turn's reference and text.",
        )
    ]


def equal_to(place: FloatArray, other: FloatArray) -> FloatArray:
    """(n,) of 1 and 0, NaN where either is unknown."""
    return np.where(np.isnan(place + other), np.nan, place == other)


def target_places(release: JudgedRelease, lists: pd.DataFrame) -> FloatArray:
    """The rank of the target in each list, from 1; NaN if it is absent or has no rank."""
    targets = release.queries.set_index("query_id")["target_id"]
    wanted = lists["query_id"].map(targets).where(lists["rank"].notna())
    return np.array(
        [
            list(images).index(target) + 1
            if isinstance(target, str) and target in images
            else np.nan
            for images, target in zip(lists["image_ids"], wanted, strict=True)
        ],
        dtype=np.float64,
    )


def best_places(lists: pd.DataFrame, scores: Mapping[tuple[str, str], float]) -> FloatArray:
    """The rank of each list's image with the highest score; NaN unless all images have a score."""
    places = []
    for set_id, images in zip(lists["set_id"], lists["image_ids"], strict=True):
        own = [scores.get((set_id, image), np.nan) for image in images]
        places.append(np.nan if np.isnan(own).any() else float(np.argmax(own)) + 1)
    return np.array(places, dtype=np.float64)


# How searches ended and how they went: success, ease, reasons to stop, words and time.

NO_TARGET = "no search has a target"
NOT_RATED = "no participant has answered it"
NO_TEXT = "no participant has typed a text"
OWN_WISH = "own-wish"


def outcome_figures(
    searches: pd.DataFrame, turns: pd.DataFrame, bootstrap: Bootstrap
) -> list[Figures]:
    of_searches = [
        outcomes(searches, bootstrap),
        ratings(searches, bootstrap),
        stops(searches, bootstrap),
    ]
    if not len(turns):
        return of_searches
    return [
        *of_searches,
        effort(searches, turns, bootstrap),
        texts(turns, bootstrap),
    ]


def outcomes(searches: pd.DataFrame, bootstrap: Bootstrap) -> Figures:
    has_target = (searches["task"] != OWN_WISH).to_numpy()
    columns = {
        "target found": where(has_target, searches["stop"] == "found"),
        "image chosen": flags(searches["declared_id"].notna()),
        "target missed": numbers(searches["missed"]),
        "would go on": numbers(searches["would_go_on"]),
        "resumed": numbers(searches["resumed"]),
        "left unfinished": flags(searches["abandoned"]),
    }
    reasons = {"target found": NO_TARGET, "target missed": NO_TARGET, "would go on": NOT_RATED}
    means = {
        name: means_by_system(
            searches, values, bootstrap, RATE, reasons.get(name, "there is no search")
        )
        for name, values in columns.items()
    }
    return Figures(
        "outcomes",
        "How searches ended, by system",
        "system",
        transposed(means),
        "Shares of searches. Found: the declared image is the target; chosen: any image was "
        "declared; missed: a list had the target and the participant went on; resumed: after half "
        "an hour or more of inactivity; left unfinished: before the questions at the end.",
    )


def ratings(searches: pd.DataFrame, bootstrap: Bootstrap) -> Figures:
    columns = {
        title: means_by_system(
            searches, searches[name].to_numpy(np.float64), bootstrap, SATISFACTION, NOT_RATED
        )
        for title, name in (
            ("success", "success"),
            ("ease", "ease"),
            ("satisfaction with the last list", "satisfaction"),
        )
    }
    return Figures(
        "ratings",
        "Participants' answers at the end, by system",
        "system",
        transposed(columns),
        "Means of answers from 1 to 5. Success and ease are asked after the search.",
    )


def stops(searches: pd.DataFrame, bootstrap: Bootstrap) -> Figures:
    """Why searches stopped: a row for each reason that occurs."""
    stop = searches["stop"].fillna("unknown")
    rows = {
        str(reason): means_by_system(searches, flags(stop == reason), bootstrap, RATE)
        for reason in stop.value_counts().index
    }
    return Figures(
        "stops", "Why searches stopped", "reason", rows, "Shares of each system's searches."
    )


def effort(searches: pd.DataFrame, turns: pd.DataFrame, bootstrap: Bootstrap) -> Figures:
    columns = {
        "turns per search": means_by_system(
            searches, searches["turns"].to_numpy(np.float64), bootstrap
        ),
        "seconds per turn": means_by_system(
            turns, turns["active_seconds"].to_numpy(np.float64), bootstrap
        ),
        "words per text": means_by_system(
            turns, where(is_typed(turns), turns["words"]), bootstrap, reason=NO_TEXT
        ),
    }
    return Figures(
        "effort",
        "Turns, time and words, by system",
        "system",
        transposed(columns),
        "Means. Seconds are active ones, with a list and the text after it; words are of texts "
        "that participants typed, not of the query's own text.",
    )


def texts(turns: pd.DataFrame, bootstrap: Bootstrap) -> Figures:
    typed = is_typed(turns)
    columns = {
        title: means_by_system(turns, where(typed, turns[name]), bootstrap, RATE, NO_TEXT)
        for title, name in (("repeated", "repeats"), ("pasted", "pasted"))
    }
    return Figures(
        "texts",
        "Repeated and pasted texts, by system",
        "system",
        transposed(columns),
        "Shares of the texts that participants typed. Repeated: an earlier turn of the search had "
        "the same text.",
    )


def is_typed(turns: pd.DataFrame) -> BoolArray:
    typed: BoolArray = ~turns["from_query"].to_numpy(np.bool_)
    return typed


def flags(values: pd.Series[bool]) -> FloatArray:
    return np.asarray(values, dtype=np.float64)


def where(included: BoolArray, values: pd.Series[float] | pd.Series[bool]) -> FloatArray:
    """(n,) values, NaN where they do not count or are unknown."""
    return np.where(included, numbers(values), np.nan)


def numbers(values: pd.Series[float] | pd.Series[bool]) -> FloatArray:
    """(n,) values, NaN where they are null."""
    return np.asarray(values.astype(np.float64), dtype=np.float64)


# The measures of `analysis.sessions` for the searches of a release.


def measures(release: JudgedRelease, bootstrap: Bootstrap) -> SessionAnalysis | None:
    """Those of all searches with a turn; None if there is none.

    K are 1 and the number of images in a list: people stop when they see their target.
    """
    turns = release.turns
    searches = release.answers[release.answers["question_id"].isin(turns["question_id"])]
    if not len(searches):
        return None
    shown = int(turns["n_images"].max())
    return measure(
        session_rows(searches),
        round_rows(turns),
        Rules(ks=tuple(sorted({1, max(1, shown)}))),
        bootstrap=bootstrap,
        simulated=release.simulated,
    )


def session_rows(searches: pd.DataFrame) -> pd.DataFrame:
    named = searches.assign(
        system=system_names(searches),
        session_id=searches["question_id"],
        has_target=searches["task"] != OWN_WISH,
        stop_at=np.nan,
        stop_reason=searches["stop"],
    )
    return named[list(SESSION_COLUMNS)]


def round_rows(turns: pd.DataFrame) -> pd.DataFrame:
    named = turns.assign(
        system=system_names(turns),
        session_id=turns["question_id"],
        round=turns["turn"],
        earlier_ties=np.nan,
        depth=turns["n_images"],
        reference=turns["reference_id"],
        is_repeated_text=False,
        seconds=turns["retriever_seconds"],
    )
    return named[list(ROUND_COLUMNS)]


# Satisfaction with the lists: by turn, and what it goes with.
#
# Lists improve and people tire or warm to a search, so a rank that correlates with satisfaction
# over all lists may only say that both change with the turn. `changes` compares successive lists of
# one search, and the correlation within searches leaves out what differs between searches.

RANK, TURN = "rank of the target", "turn"
NO_WITHIN = "no search has two lists in which neither side is constant"
NO_CHANGE = "no search has two such lists"


def satisfaction_figures(
    release: JudgedRelease, metrics: Sequence[Metric], bootstrap: Bootstrap
) -> list[Figures]:
    judged = release.sets.dropna(subset=["score"])
    values = {
        RANK: judged.set_index("set_id")["rank"].astype(np.float64),
        TURN: judged.set_index("set_id")["turn"].astype(np.float64),
        **{str(metric): metric.values(release) for metric in metrics},
    }
    return [by_turn(judged, bootstrap), correlations(judged, values, bootstrap)] + (
        [changes(judged, bootstrap)] if judged["rank"].notna().any() else []
    )


def by_turn(judged: pd.DataFrame, bootstrap: Bootstrap) -> Figures:
    rows = {
        str(turn): means_by_system(own, own["score"].to_numpy(np.float64), bootstrap, SATISFACTION)
        for turn, own in judged.groupby("turn", sort=True)
    }
    return Figures(
        "satisfaction",
        "Satisfaction by turn",
        "turn",
        rows,
        "Means from 1 to 5, over the searches that have this turn: later turns lack the searches "
        "that ended earlier.",
    )


def correlations(
    judged: pd.DataFrame, values: Mapping[str, pd.Series[float]], bootstrap: Bootstrap
) -> Figures:
    rows = {}
    for name, own in values.items():
        pooled = spearman(judged, own, bootstrap)
        people = within_participant(judged, own, bootstrap)
        rows[name] = {
            "all lists": Estimate(pooled.rho, pooled.n, pooled.ci, pooled.reason),
            "within participants": Estimate(
                people.mean, people.n_participants, people.mean_ci, people.mean_reason
            ),
            "within searches": within_searches(judged, own, bootstrap),
        }
    return Figures(
        "correlation",
        "Correlates of satisfaction",
        "of the list",
        rows,
        "Spearman's rank correlation with satisfaction: over all lists; the mean of the "
        "participants' own, over participants with three lists or more; and the mean of the "
        "searches' own, over searches with two lists or more. n counts lists, participants and "
        "searches. A better rank "
        "is a lower one, so a negative correlation with it says that better lists satisfy more.",
    )


def within_searches(
    judged: pd.DataFrame, values: pd.Series[float], bootstrap: Bootstrap
) -> Estimate:
    """The mean of the searches' own correlations."""
    table = judged.assign(value=judged["set_id"].map(values)).dropna(subset=["value"])
    rhos = search_rhos(table)
    if not len(rhos):
        return Estimate(UNDEFINED, 0, None, NO_WITHIN)
    of_search = table.drop_duplicates("question_id").set_index("question_id")
    rows = of_search.loc[rhos.index, ["participant_id", "query_id"]].reset_index()
    column: FloatArray = np.asarray(rhos, dtype=np.float64)[:, None]
    resampled = bootstrap.ratios(rows, column, np.ones(column.shape))[:, 0]
    ci = bootstrap.interval(resampled, rows, bounds=CORRELATION)
    return Estimate(float(column.mean()), len(rows), ci)


def search_rhos(table: pd.DataFrame) -> pd.Series[float]:
    """Spearman's rho of each search with two lists or more and neither side constant."""
    searches = table["question_id"]
    ranks = table.groupby("question_id")[["value", "score"]].rank()
    ranks -= ranks.groupby(searches).transform("mean")
    x, y = ranks["value"], ranks["score"]
    sums = pd.DataFrame({"xy": x * y, "xx": x**2, "yy": y**2}).groupby(searches).sum()
    sums = sums[(sums["xx"] > 0) & (sums["yy"] > 0)]
    return sums["xy"] / np.sqrt(sums["xx"] * sums["yy"])


def changes(judged: pd.DataFrame, bootstrap: Bootstrap) -> Figures:
    """The change of satisfaction from one list of a search to the next, by the rank's change."""
    ordered = judged.dropna(subset=["rank"]).sort_values(["question_id", "turn"], kind="stable")
    steps = ordered.groupby("question_id")[["score", "rank", "turn"]].diff()
    follows = (steps["turn"] == 1).to_numpy()
    rows, steps = ordered[follows], steps[follows]
    change = steps["score"].to_numpy(np.float64)
    direction = np.sign(steps["rank"].to_numpy(np.float64))
    bounds = (SATISFACTION[0] - SATISFACTION[1], SATISFACTION[1] - SATISFACTION[0])
    return Figures(
        "changes",
        "Change of satisfaction from one list to the next",
        "rank of the target",
        {
            title: means_by_system(
                rows, only(change, direction == sign), bootstrap, bounds, NO_CHANGE
            )
            for title, sign in (("better", -1), ("the same", 0), ("worse", 1))
        },
        "Means over successive lists of a search. A rise while the rank is the same or worse is "
        "not due to the list.",
    )


def only(values: FloatArray, included: BoolArray) -> FloatArray:
    return np.where(included, values, np.nan)


COLUMNS = ("system", "task", "turns", "abandoned")
NULLABLE = (
    *("max_rounds", "stop", "declared_id", "resumed", "missed"),
    *("success", "ease", "would_go_on", "satisfaction"),
)


def figures(
    release: JudgedRelease, metrics: Sequence[Metric], bootstrap: Bootstrap
) -> list[Figures]:
    tables = outcome_figures(release.answers, release.turns, bootstrap)
    if not len(release.sets):
        return tables
    judged = release.sets.dropna(subset=["score"])
    return [
        *tables,
        *satisfaction_figures(release, metrics, bootstrap),
        *nearest_figures(release, metrics, bootstrap),
        agreement_of_scores(judged, release.triplets),
    ]


SEARCH = KindStatistics(
    main="sessions", columns=COLUMNS, figures=figures, nullable=NULLABLE, measures=measures
)
