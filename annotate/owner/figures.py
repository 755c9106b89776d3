"""The numbers behind the dashboard's plots; statistics come from hsfiq.analysis."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from operator import attrgetter
from statistics import median
from typing import TYPE_CHECKING

from hsfiq.answer_rules import LOWEST_SCORE
from hsfiq.collect.progress import AnswerRow
from hsfiq.ids import set_id

if TYPE_CHECKING:
    import pandas as pd

    from hsfiq.analysis.people.agreement import Agreement
    from hsfiq.analysis.statistics.preference import Proportion

LONGEST_BY_HOUR = timedelta(hours=72)
PACE_OF = timedelta(days=1)
LEAST_FOR_PACE = 5
MOST_BINS = 16
WIDTHS = (1, 2, 5, 10, 20, 30, 60, 120, 300)
NEEDS = "needs the analysis extra: pip install 'hsfiq[analysis]'"


@dataclass(frozen=True, slots=True)
class Rate:
    """How many answers came in each hour, or in each day of a longer study."""

    unit: str
    starts: tuple[datetime, ...]
    counts: tuple[int, ...]
    in_last_hour: int


def rate_of(answers: Sequence[AnswerRow], now: datetime) -> Rate:
    """Count the answers by the hour or day of their first submit."""
    moments = sorted(answer.submitted_at for answer in answers if answer.submitted_at)
    recent = sum(now - timedelta(hours=1) <= at for at in moments)
    if not moments:
        return Rate("hour", (), (), 0)
    by_hour = moments[-1] - moments[0] <= LONGEST_BY_HOUR
    step = timedelta(hours=1) if by_hour else timedelta(days=1)
    first = floor(moments[0], step)
    slots = Counter((at - first) // step for at in moments)
    n_slots = (moments[-1] - first) // step + 1
    return Rate(
        "hour" if by_hour else "day",
        tuple(first + slot * step for slot in range(n_slots)),
        tuple(slots[slot] for slot in range(n_slots)),
        recent,
    )


def projected_end(answers: Sequence[AnswerRow], n_left: int, now: datetime) -> datetime | None:
    """When the questions left will be answered at the pace of the last day.

    None if fewer than `LEAST_FOR_PACE` answers show a pace, or nothing is left.
    """
    recent = [at for a in answers if (at := a.submitted_at) and now - PACE_OF <= at <= now]
    if n_left <= 0 or len(recent) < LEAST_FOR_PACE or min(recent) == now:
        return None
    return now + n_left * (now - min(recent)) / len(recent)


def floor(at: datetime, step: timedelta) -> datetime:
    start = datetime(2000, 1, 1, tzinfo=UTC)
    return start + (at - start) // step * step


@dataclass(frozen=True, slots=True)
class Times:
    """How long questions took: bins of `width` seconds, the last for all that took longer."""

    width: int
    counts: tuple[int, ...]
    median: float | None


def times_of(answers: Sequence[AnswerRow]) -> Times:
    """Count the active seconds of the first revisions."""
    values = sorted(a.active_seconds for a in answers if a.active_seconds is not None)
    if not values:
        return Times(WIDTHS[0], (), None)
    usual = values[int(0.97 * (len(values) - 1))]
    width = next((width for width in WIDTHS if usual <= width * MOST_BINS), WIDTHS[-1])
    last = min(MOST_BINS, int(usual // width) + 1)
    counts = Counter(min(int(value // width), last) for value in values)
    return Times(width, tuple(counts[bin_] for bin_ in range(last + 1)), median(values))


def scores_of(answers: Sequence[AnswerRow], points: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """How often each score of the scale was given to set 1, and to set 2."""
    scale = range(LOWEST_SCORE, points + 1)
    first = Counter(answer.scores[0] for answer in answers if answer.scores)
    second = Counter(answer.scores[1] for answer in answers if answer.scores)
    return tuple(first[score] for score in scale), tuple(second[score] for score in scale)


def side_share(answers: Sequence[AnswerRow]) -> tuple[Proportion | None, int]:
    """The share that prefers set 1, with its exact interval (None without the analysis extra).

    The second value is the number of ties.
    """
    preferred = Counter(answer.preferred for answer in answers)
    try:
        from hsfiq.analysis.statistics.preference import exact_proportion  # noqa: PLC0415 (the extra may be absent)
    except ModuleNotFoundError:
        return None, preferred[0]
    return exact_proportion(preferred[1], preferred[1] + preferred[2]), preferred[0]


@dataclass(frozen=True, slots=True)
class Agreements:
    """Krippendorff's alpha of scores (ordinal) and of preferences (nominal).

    `n_identical` is the number of questions left out of the latter, whose two sets are identical.
    """

    scores: Agreement
    preferences: Agreement
    n_identical: int


@lru_cache(maxsize=8)
def agreements_of(answers: tuple[AnswerRow, ...]) -> Agreements | None:
    """The agreement that `hsfiq analyze --details` prints for a release of these answers.

    Checks are excluded: their pairs are repeated or planted. The result for the same answers is
    cached, so the bootstrap does not run again until somebody answers.
    """
    try:
        from hsfiq.analysis.data.columns import set_units  # noqa: PLC0415 (the extra may be absent)
        from hsfiq.analysis.people import agreement  # noqa: PLC0415 (the extra may be absent)
    except ModuleNotFoundError:
        return None
    plain = [answer for answer in answers if answer.check is None and answer.scores]
    plain.sort(key=attrgetter("position"))
    sets, preferences = released_sets(plain), released_preferences(plain)
    triplets = sets["query_id"].drop_duplicates().set_axis(sets["query_id"].unique())
    units = set_units(sets, triplets)
    return Agreements(
        agreement.agreement(agreement.score_ratings(sets, units, triplets), "ordinal"),
        agreement.agreement(agreement.preference_ratings(preferences, units, triplets), "nominal"),
        int(agreement.has_identical_sets(preferences, units).sum()),
    )


def released_sets(answers: Sequence[AnswerRow]) -> pd.DataFrame:
    """The columns of a release's `sets` that agreement depends on, with triplets as queries."""
    import pandas as pd  # noqa: PLC0415 (the extra may be absent)

    return pd.DataFrame(
        [
            (set_id(answer.question_id, side), answer.participant, answer.triplet, images, score)
            for answer in answers
            for side, images, score in zip((1, 2), answer.sets, answer.scores or (), strict=True)
        ],
        columns=["set_id", "participant_id", "query_id", "image_ids", "score"],
    )


def released_preferences(answers: Sequence[AnswerRow]) -> pd.DataFrame:
    """The columns of `preferences` that agreement depends on, with triplets as queries."""
    import pandas as pd  # noqa: PLC0415 (the extra may be absent)

    return pd.DataFrame(
        [
            (
                answer.participant,
                answer.triplet,
                *(set_id(answer.question_id, side) for side in (1, 2)),
                answer.preferred,
            )
            for answer in answers
        ],
        columns=["participant_id", "query_id", "set_1", "set_2", "preferred"],
    )
