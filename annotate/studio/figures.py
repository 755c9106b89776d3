"""The part "Figures" of the page Watch: figures of a study's answers while people answer."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from importlib.util import find_spec
from math import ceil, isnan
from operator import attrgetter
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeVar
from weakref import WeakKeyDictionary

from markupsafe import Markup
from sqlalchemy import select
from sqlalchemy.orm import Session

from hsfiq.annotate.image_copies import ImageStore
from hsfiq.annotate.owner import plots
from hsfiq.annotate.owner.plots import percent, render_fragment
from hsfiq.annotate.studio.shell import Desk
from hsfiq.answer_rules import LOWEST_SCORE
from hsfiq.collect.checks import CheckResult, check_results
from hsfiq.collect.participants import may_compare_systems, people_shown
from hsfiq.collect.places import quotas_of
from hsfiq.collect.progress import AnswerRow, StudyProgress, answers_of, progress_of
from hsfiq.collect.retrievers import TURN_TIMEOUT
from hsfiq.collect.review import SystemPair, hides_results, win_shares
from hsfiq.db.engine import Database
from hsfiq.db.schema import head_revision
from hsfiq.db.search_tables import SearchItem, SearchList, SearchTurn
from hsfiq.db.source_tables import Image, ImageChange, System
from hsfiq.db.tables import Pair, Question, Study
from hsfiq.errors import NothingToDo
from hsfiq.ids import set_id
from hsfiq.images.folder import Fault
from hsfiq.images.store import StoreObject
from hsfiq.kinds import KINDS, release_kinds_of
from hsfiq.kinds.search import MOST_POINTS
from hsfiq.releases.content import FIRST_VERSION, Source, write_files
from hsfiq.study.config import StudyConfig, config_of, n_sets_of
from hsfiq.study.filters import Filters
from hsfiq.study.images import dataset_of

if TYPE_CHECKING:
    import pandas as pd

    from hsfiq.analysis.kinds.kind import Figures
    from hsfiq.analysis.people.agreement import Agreement
    from hsfiq.analysis.resampling.bootstrap import Estimate
    from hsfiq.analysis.sequential import WatchedPreference
    from hsfiq.analysis.statistics.preference import Proportion

T = TypeVar("T")
NEEDS = "needs the analysis extra: pip install 'hsfiq[analysis]'"


class Translate(Protocol):
    """A text in the owner's language; `values` replace its names in braces."""

    def __call__(self, text: str, /, **values: object) -> str: ...


def with_commas(t: Translate) -> Translate:
    """The same texts; whole numbers have a comma as thousands separator."""

    def translated(text: str, /, **values: object) -> str:
        numbers = {name: f"{n:,}" for name, n in values.items() if isinstance(n, int)}
        return t(text, **values | numbers)

    return translated


@dataclass(frozen=True, slots=True)
class Line:
    """A value in large type with a note in small type, and a plot below."""

    value: str
    note: str
    plot: Markup


@dataclass(frozen=True, slots=True)
class Card:
    """A plot with its name above and its numbers in words below.

    `empty` is the text in place of the plot if there is nothing to show; `legend` holds
    `(CSS class, label)`.
    """

    name: str
    lines: tuple[Line, ...] = ()
    notes: tuple[str, ...] = ()
    legend: tuple[tuple[str, str], ...] = ()
    empty: str = ""


# What the page shows. Computing it takes seconds in a large study, which people answer meanwhile:
# so it is kept for a while, and computed by one request at a time.

KEPT_SECONDS = 10.0
PAUSE = 4
"""The pause before a repeated computation, as a multiple of its duration."""


@dataclass(slots=True)
class Kept(Generic[T]):
    """The last result; it is computed again when it is `due`."""

    lock: Lock = field(default_factory=Lock)
    value: T | None = None
    due: float = 0.0

    def compute(self, make: Callable[[], T]) -> T:
        begun = monotonic()
        self.value = value = make()
        ended = monotonic()
        self.due = ended + max(KEPT_SECONDS, PAUSE * (ended - begun))
        return value


KEPT: WeakKeyDictionary[Database, dict[Hashable, Kept[list[Card]]]] = WeakKeyDictionary()


def figures_view(desk: Desk, session: Session, study: Study) -> Mapping[str, object]:
    """The values of the template; without cards unless the address requests them."""
    values: dict[str, object] = {"kind": KINDS[study.kind], "cards": None}
    if desk.request.query_params.get("figures") != "1":
        return values
    key = study.id, desk.language, hides_results(session, study)
    latest = KEPT.setdefault(desk.database, {}).setdefault(key, Kept())
    images, t, now = desk.studio.services.images, with_commas(desk.t), datetime.now(UTC)
    with latest.lock:
        if monotonic() >= latest.due:
            latest.compute(lambda: cards_of(t, session, study, images, now))
        return values | {"cards": latest.value}


def cards_of(
    t: Translate, session: Session, study: Study, images: ImageStore, now: datetime
) -> list[Card]:
    """All cards; with very many answers, most cover only the most recent people.

    Scores, sides and times are without the answers to checks, and without those of people who are
    left out.
    """
    shown = people_shown(session, study)
    answers = answers_of(session, study, shown)
    counting = tuple(answer for answer in answers if answer.counts)
    judgements = [answer for answer in counting if answer.check is None]
    progress, kind = progress_of(session, study), KINDS[study.kind]
    seen_last = () if shown is None else (len(shown), progress.participants)
    cards = [
        images_card(t, progress, judgements, seen_last),
        times_card(t, judgements),
        checks_card(t, list(check_results(session, study, shown))),
    ]
    has_statistics = find_spec("scipy") is not None
    if kind.has_preferences:
        cards.append(scores_card(t, judgements, config_of(study).wording.points))
    if not has_statistics:
        cards.append(Card(t("Answers"), empty=NEEDS))
    elif kind.has_preferences:
        cards += [side_card(t, judgements), agreement_card(t, counting)]
    else:
        cards += kind_cards(t, session, study)
    if kind.is_live:
        cards.append(retrievers_card(t, session, study, now))
    cards += changed_images_cards(t, session, study, images)
    cards += quotas_cards(t, session, study, now)
    if has_statistics and kind.has_preferences and not hides_results(session, study):
        cards.append(preferences_card(t, session, study))
    return cards


# Cards of every kind of study.

LISTED = 6
"""The number of listed ids; further ids are only counted."""


def images_card(
    t: Translate, progress: StudyProgress, judgements: Sequence[AnswerRow], seen_last: Sequence[int]
) -> Card:
    """Whether people saw every image; `seen_last` are the people covered by the other cards."""
    painted, total = progress.images_painted, progress.answered - progress.skipped
    unknown = {"n": progress.images_not_painted, "unknown": progress.images_unknown}
    lines = [
        t("In {n} of {total} answers, every image was shown.", n=painted, total=total),
        t(
            "In {n} answers not every image was shown; for {unknown} answers this is unknown.",
            **unknown,
        ),
    ]
    skipped = [answer.question_id for answer in judgements if answer.skipped]
    if skipped:
        more = len(skipped) - LISTED
        named = ", ".join(skipped[:LISTED]) + (f" (+{more:,})" if more > 0 else "")
        lines.append(t("Skipped because an image was missing: {names}", names=named))
    if seen_last:
        many = "There are many answers: most figures cover the {n} most recent people, of {total}."
        lines.append(t(many, n=seen_last[0], total=seen_last[1]))
    return Card(t("Images"), notes=tuple(lines))


def times_card(t: Translate, answers: Sequence[AnswerRow]) -> Card:
    times, name = times_of(answers), t("Seconds per question")
    if times.median is None:
        return Card(name, empty=t("No times yet"))
    last = len(times.counts) - 1
    every = -(-len(times.counts) // 7)
    rows = []
    for index, count in enumerate(times.counts):
        low = index * times.width
        is_labelled = index == last or (index % every == 0 and last - index >= every / 2)
        label = f"{low}+" if index == last else str(low)
        span = f"{low}+ s" if index == last else f"{low}-{low + times.width} s"
        rows.append(plots.Column(label if is_labelled else "", (count,), f"{span}: {count:,}"))
    note = t("Median {n} s; first answers only", n=f"{times.median:.0f}")
    return Card(name, (Line("", "", plots.columns(rows, name)),), (note,))


CHECK_NAMES = {
    "gold": "Obvious questions",
    "repeat": "Repeated questions",
    "arithmetic": "Sums (tries)",
}


def checks_card(t: Translate, checks: Sequence[CheckResult]) -> Card:
    lines = []
    for kind, label in CHECK_NAMES.items():
        results = [check.passed for check in checks if check.kind == kind]
        if not results:
            continue
        passed, failed = results.count(True), results.count(False)
        note = f"{t(label)}: {t('{n} passed, {failed} failed', n=passed, failed=failed)}"
        plot = plots.split_bar([("passed", passed), ("failed", failed)], note)
        lines.append(Line("", note, plot))
    if not lines:
        return Card(t("Checks"), empty=t("No check has been answered yet"))
    legend = (("passed", t("passed")), ("failed", t("failed")))
    notes = [t("Sums are asked until they are right, so they do not count as failed.")]
    has_sums = any(check.kind == "arithmetic" for check in checks)
    return Card(t("Checks"), tuple(lines), tuple(notes if has_sums else ()), legend)


def quotas_cards(t: Translate, session: Session, study: Study, now: datetime) -> Iterator[Card]:
    quotas = quotas_of(session, study, now)
    lines = [f"{q.category}: {t('{n} of {total}', n=q.taking_part, total=q.quota)}" for q in quotas]
    if lines:
        yield Card(t("People by category"), notes=tuple(lines))


# Cards of pairs.


def scores_card(t: Translate, answers: Sequence[AnswerRow], points: int) -> Card:
    first, second = scores_of(answers, points)
    n, name = sum(first), t("Scores")
    if n == 0:
        return Card(name, empty=t("No score yet"))
    labels = t("Set {n}", n=1), t("Set {n}", n=2)
    rows = [
        plots.Column(str(score), (a / n, b / n), f"{score}: {labels[0]} {a:,}, {labels[1]} {b:,}")
        for score, (a, b) in enumerate(zip(first, second, strict=True), start=1)
    ]
    means = [sum(s * c for s, c in enumerate(counts, start=1)) / n for counts in (first, second)]
    legend = tuple(
        (f"key-{side}", t("set {n}, mean {mean}", n=side, mean=f"{mean:.2f}"))
        for side, mean in enumerate(means, start=1)
    )
    return Card(name, (Line("", "", plots.columns(rows, name, as_percent=True)),), legend=legend)


def side_card(t: Translate, answers: Sequence[AnswerRow]) -> Card:
    name = t("Preference for set 1")
    share, ties = side_share(answers)
    if share.reason:
        return Card(name, empty=t("No preference yet"))
    low, high = share.ci
    plot = plots.interval(share.rate, share.ci, SHARES, 0.5, name)
    ends = {"low": f"{100 * low:.1f}", "high": percent(high)}
    note = t("of {n}; 95 % interval {low} to {high}", n=share.n, **ends)
    tied = (t("{n} without a preference", n=ties),) if ties else ()
    verdict = t("The interval includes one half: no sign that the side matters.")
    if not low <= 0.5 <= high:
        verdict = t("The interval does not include one half: the side may matter.")
    return Card(name, (Line(percent(share.rate), note, plot),), (*tied, verdict))


def agreement_card(t: Translate, answers: tuple[AnswerRow, ...]) -> Card:
    name = t("Agreement (Krippendorff's alpha)")
    from hsfiq.analysis.kinds.kind import Figures  # noqa: PLC0415 (the extra may be absent)
    from hsfiq.analysis.resampling.bootstrap import Estimate  # noqa: PLC0415 (as above)

    agreements = agreements_of(answers)
    of_both = {
        t("Scores, ordinal"): agreements.scores,
        t("Preferences, nominal"): agreements.preferences,
    }
    rows = {
        label: {"alpha": Estimate(each.alpha, each.n_units, each.ci, each.reason)}
        for label, each in of_both.items()
    }
    method = t("Only sets that at least two people have judged; n counts sets and pairs of sets.")
    if agreements.n_identical:
        n = agreements.n_identical
        method += " " + t("Preferences: without {n} answers about identical sets.", n=n)
    return card_of(t, Figures("agreement", name, "answers", rows, method), ALPHA)


# The numbers behind these cards; statistics come from hsfiq.analysis.

MOST_BINS = 16
WIDTHS = (1, 2, 5, 10, 20, 30, 60, 120, 300)


@dataclass(frozen=True, slots=True)
class Times:
    """Durations of questions in bins of `width` seconds; the last bin has all longer ones."""

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
    """The number of times each score was given to set 1, and to set 2."""
    scale = range(LOWEST_SCORE, points + 1)
    first = Counter(answer.scores[0] for answer in answers if answer.scores)
    second = Counter(answer.scores[1] for answer in answers if answer.scores)
    return tuple(first[score] for score in scale), tuple(second[score] for score in scale)


def side_share(answers: Sequence[AnswerRow]) -> tuple[Proportion, int]:
    """The share that prefers set 1, with its exact interval, and the number of ties."""
    from hsfiq.analysis.statistics.preference import exact_proportion  # noqa: PLC0415 (the extra may be absent)

    preferred = Counter(answer.preferred for answer in answers)
    return exact_proportion(preferred[1], preferred[1] + preferred[2]), preferred[0]


class Agreements(NamedTuple):
    """Krippendorff's alpha of scores (ordinal) and of preferences (nominal).

    `n_identical` is the number of questions left out of the latter, whose two sets are identical.
    """

    scores: Agreement
    preferences: Agreement
    n_identical: int


@lru_cache(maxsize=8)
def agreements_of(answers: tuple[AnswerRow, ...]) -> Agreements:
    """The agreement, as printed by `hsfiq analyze --details` for a release of these answers.

    Checks are excluded: their pairs are repeated or planted. The result for the same answers is
    cached, so the bootstrap does not run again until a new answer arrives.
    """
    from hsfiq.analysis.data.columns import set_units  # noqa: PLC0415 (the extra may be absent)
    from hsfiq.analysis.people import agreement  # noqa: PLC0415 (the extra may be absent)

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

    rows = [
        (set_id(answer.question_id, side), answer.participant, answer.triplet, images, score)
        for answer in answers
        for side, images, score in zip((1, 2), answer.sets, answer.scores or (), strict=True)
    ]
    columns = ["set_id", "participant_id", "query_id", "image_ids", "score"]
    return pd.DataFrame(rows, columns=columns)


def released_preferences(answers: Sequence[AnswerRow]) -> pd.DataFrame:
    """The columns of `preferences` that agreement depends on, with triplets as queries."""
    import pandas as pd  # noqa: PLC0415 (the extra may be absent)

    rows = [
        (each.participant, each.triplet, *set_ids, each.preferred)
        for each in answers
        for set_ids in [[set_id(each.question_id, side) for side in (1, 2)]]
    ]
    return pd.DataFrame(rows, columns=["participant_id", "query_id", "set_1", "set_2", "preferred"])


# Cards of figures: each figure with its interval, on the axis of its table.

Ends = tuple[float, float]

SHARES = (0, 0.25, 0.5, 0.75, 1)
ALL = "all"
BY_SYSTEM = (
    *("outcomes", "ratings", "stops", "effort"),
    *("texts", "satisfaction", "changes", "nearest"),
)
ALPHA = (-0.5, 0, 0.5, 1)
CORRELATION = (-1, -0.5, 0, 0.5, 1)
UNKNOWN: Ends = (float("nan"), float("nan"))


NOT_BY_SYSTEM = ("verdicts", "well_formed", "score_shares", "concordance", "agreement")
"""The tables that may be seen while results by system are hidden."""


def kind_cards(t: Translate, session: Session, study: Study) -> Iterator[Card]:
    """A card for each table of the study's kind that has a row and may be seen."""
    config, is_hidden = config_of(study), hides_results(session, study)
    for table in kind_figures(session, study):
        if table.rows and (table.name in NOT_BY_SYSTEM or not is_hidden):
            yield card_of(t, table, ticks_of(table, config))


def card_of(t: Translate, table: Figures, ticks: Sequence[float]) -> Card:
    from hsfiq.analysis.kinds.kind import REFERENCES  # noqa: PLC0415 (the extra may be absent)

    mark, meaning = REFERENCES.get(table.name, (None, ""))
    lines = tuple(
        line_of(t, label_of(table, name, column), estimate, ticks, mark)
        for name, row in rows_of(table).items()
        for column, estimate in row.items()
    )
    dashed = (t("Dashed: {meaning}", meaning=meaning),) if meaning else ()
    return Card(t(table.title), lines, (*dashed, f"{table.method} {t('95 % intervals.')}"))


def rows_of(table: Figures) -> Mapping[str, Mapping[str, Estimate]]:
    """Without those over all systems, where there are several: of searches they are many."""
    if table.name not in BY_SYSTEM:
        return table.rows
    rows = {name: row for name, row in table.rows.items() if name != ALL}
    return {name: {c: e for c, e in row.items() if c != ALL} or row for name, row in rows.items()}


def label_of(table: Figures, row: str, column: str) -> str:
    name = f"{table.rows_are} {row}" if row.isdigit() else row
    return name if len(table.columns) == 1 else f"{name}, {column}"


def line_of(
    t: Translate, label: str, estimate: Estimate, ticks: Sequence[float], mark: float | None
) -> Line:
    """A figure with its interval, or the reason why it is undefined."""
    if isnan(estimate.value):
        return Line("", f"{label}: {t('undefined')}; {estimate.reason}", Markup(""))
    ci = estimate.ci
    ends: Ends = UNKNOWN if ci is None else (ci.low, ci.high)
    spread = "" if isnan(ends[0]) else f"{ends[0]:z.2f} to {ends[1]:z.2f}, "
    if ci is not None and ci.reason is not None:
        spread = f"{ci.reason}, "
    plot = plots.interval(estimate.value, ends, ticks, mark, label)
    return Line(f"{estimate.value:z.2f}", f"{label}; {spread}n = {estimate.n:,}", plot)


def ticks_of(table: Figures, config: StudyConfig) -> Sequence[float]:
    """The ticks of a table's axis; the first and the last are its ends."""
    if table.name == "effort":
        return (0, max(1, ceil(max(values_in(table), default=1))))
    if table.name in ("changes", "strengths"):
        end = max(1, ceil(max(map(abs, values_in(table)), default=1)))
        return (-end, 0, end)
    axes: dict[str, Sequence[float]] = {
        "mean_scores": range(1, config.wording.points + 1),
        "mean_ranks": range(1, n_sets_of(config.design) + 1),
        "agreement": ALPHA,
        "correlation": CORRELATION,
        "ratings": range(1, MOST_POINTS + 1),
        "satisfaction": range(1, MOST_POINTS + 1),
    }
    return axes.get(table.name, SHARES)


def values_in(table: Figures) -> list[float]:
    """The defined figures of a table and the defined ends of their intervals."""
    estimates = [estimate for row in table.rows.values() for estimate in row.values()]
    values = [estimate.value for estimate in estimates]
    values += [end for e in estimates if e.ci is not None for end in (e.ci.low, e.ci.high)]
    return [value for value in values if not isnan(value)]


# The figures of a study's kind, as `hsfiq analyze` computes them for a release of its answers.

RESAMPLES = 1000


def kind_figures(session: Session, study: Study) -> list[Figures]:
    """The figures of a release of the study's current answers; none without any answer."""
    from hsfiq.analysis.analyze import load_kind_inputs  # noqa: PLC0415 (the extra may be absent)
    from hsfiq.analysis.kinds import STATISTICS  # noqa: PLC0415 (as above)

    if study.kind not in STATISTICS or KINDS[study.kind].n_live > 1:
        return []  # an arena has its leaderboard
    (kind,) = release_kinds_of(study.kind)
    with TemporaryDirectory() as name:
        folder = Path(name)
        source = Source(session, study, kind, Filters())
        try:
            write_files(source, folder, schema_revision=head_revision(), version=FIRST_VERSION)
        except NothingToDo:
            return []
        inputs = load_kind_inputs(folder, [], n_resamples=RESAMPLES)
        return inputs.statistics.figures(inputs.release, inputs.metrics, inputs.bootstrap)


# How the live retrievers of a study answer: how fast, and how often not.

LATE = (
    "Late: the list arrived more than {n} seconds after the text, for example because the "
    "retriever was down and was asked again. Missing: it has not arrived within that time."
)
MEDIAN = "Median and 95th percentile of the retriever's response times, for the lists that arrived."
OF_ARENAS = (
    "The lists of a turn are stored together, so a late or missing one counts for both systems."
)


@dataclass(slots=True)
class Answers:
    """The answers of one retriever.

    `missing` counts the turns whose list is overdue.
    """

    seconds: list[float] = field(default_factory=list)
    late: int = 0
    missing: int = 0

    def add(self, asked_at: datetime, listed: SearchList | None, now: datetime) -> None:
        """Count a turn; None is a list that has not arrived."""
        is_late = (listed.listed_at if listed else now) - asked_at > timedelta(seconds=TURN_TIMEOUT)
        if listed is None:
            self.missing += is_late
        else:
            self.seconds.append(listed.seconds)
            self.late += is_late

    def within(self, share: float) -> float:
        """The time within which this share of the lists arrived."""
        return sorted(self.seconds)[ceil(share * len(self.seconds)) - 1]


def retrievers_card(t: Translate, session: Session, study: Study, now: datetime) -> Card:
    """A line for each retriever, by name."""
    answers, name = lists_of(session, study, now), t("Retrievers")
    if not answers:
        return Card(name, empty=t("No retriever has been asked yet"))
    lines = tuple(retriever_line(t, retriever, own) for retriever, own in sorted(answers.items()))
    of_arenas = (t(OF_ARENAS),) if KINDS[study.kind].n_live > 1 else ()
    notes = (t(LATE, n=f"{TURN_TIMEOUT:g}"), t(MEDIAN), *of_arenas)
    return Card(name, lines, notes, (("passed", t("in time")), ("failed", t("late or missing"))))


def lists_of(session: Session, study: Study, now: datetime) -> Mapping[str, Answers]:
    rows = session.execute(
        select(System.name, SearchTurn.asked_at, SearchList)
        .join(Question, SearchTurn.question_id == Question.id)
        .join(Pair, Question.pair_id == Pair.id)
        .join(SearchItem, SearchItem.pair_id == Pair.id)
        .join(System, SearchItem.system_id == System.id)
        .outerjoin(
            SearchList,
            (SearchList.turn_id == SearchTurn.id) & (SearchList.side == SearchItem.side),
        )
        .where(Pair.study_id == study.id)
    )
    answers: dict[str, Answers] = defaultdict(Answers)
    for name, asked_at, listed in rows:
        answers[name].add(asked_at, listed, now)
    return answers


def retriever_line(t: Translate, name: str, answers: Answers) -> Line:
    n = len(answers.seconds)
    numbers = {"late": answers.late, "missing": answers.missing}
    note = f"{name}; " + t("{n} lists, {late} late, {missing} missing", n=n, **numbers)
    value = f"{answers.within(0.5):.2f} s" if n else ""
    if n:
        note += "; " + t("95 % within {time} s", time=f"{answers.within(0.95):.2f}")
    shares = [("passed", n - answers.late), ("failed", answers.late + answers.missing)]
    return Line(value, note, plots.split_bar(shares, note))


# Preferences between systems, with their confidence sequences.

MOST_CHARTS, MOST_LINES = 2, 6
"""Up to this number of pairs of systems, each has a chart over time; more pairs have a line."""
MOST_STEPS = 100
HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 110, 30, 12, 8, 18

Shares = tuple[tuple[SystemPair, tuple[tuple[float, int], ...]], ...]


def preferences_card(t: Translate, session: Session, study: Study) -> Card:
    """The rates of all pairs of systems, which remain valid while they are watched and acted on."""
    name = t("Preference between systems")
    if not may_compare_systems(session, study):
        command = f"hsfiq study status --study {study.name}"
        return Card(name, empty=t("Too many answers: run {command}", command=command))
    shares = win_shares(session, study)
    if not shares.by_pair:
        return Card(name, empty=t("The sets do not name two systems"))
    by_pair = tuple((pair, tuple(own)) for pair, own in shares.by_pair.items())
    watched = watched_preferences(by_pair, shares.n_earlier)
    if shares.n_finished == 0:
        return Card(name, empty=t("Nobody has finished yet"))
    ordered = sorted(watched, key=lambda each: (each.preferred is None, -abs(each.rate - 0.5)))
    has_charts = len(watched) <= MOST_CHARTS
    lines = [preference_line(t, each, has_chart=has_charts) for each in ordered[:MOST_LINES]]
    more = len(ordered) - MOST_LINES
    notes = [t("{n} more pairs: see hsfiq study status.", n=more)] if more > 0 else []
    return Card(name, tuple(lines), (*notes, *shares.notes()))


@lru_cache(maxsize=8)
def watched_preferences(shares: Shares, n_earlier: int) -> tuple[WatchedPreference, ...]:
    """The sequences, computed once for the same answers."""
    from hsfiq.analysis.sequential import watch_preferences  # noqa: PLC0415 (the extra may be absent)

    return tuple(watch_preferences(dict(shares), n_earlier))


def preference_line(t: Translate, watched: WatchedPreference, *, has_chart: bool) -> Line:
    label = t("prefer {system} to {other}", system=watched.system, other=watched.other)
    if watched.n_participants == 0:
        return Line("", f"{label}: {watched.reason}", Markup(""))
    people, decision = t("{n} finished", n=watched.n_participants), t("undecided")
    if watched.preferred is not None:
        known = {"n": watched.decided_after, "system": watched.preferred}
        decision = t("decided after {n}: {system} is preferred", **known)
    ends = (watched.low[-1], watched.high[-1])
    low, high = f"{100 * ends[0]:.1f}", percent(ends[1])
    spread = watched.reason or t("{low} to {high}", low=low, high=high)
    note = f"{label}; {spread}, {people}, {decision}"
    if has_chart:
        return Line(percent(watched.rate), note, band(t, watched, note))
    return Line(percent(watched.rate), note, plots.interval(watched.rate, ends, SHARES, 0.5, note))


def band(t: Translate, watched: WatchedPreference, name: str) -> Markup:
    """The intervals over the number of participants, and a dashed line at one half."""
    n = watched.n_participants
    n_drawn = next((k for k, low in enumerate(watched.low) if isnan(low)), n)  # until it is NaN
    bottom, right = HEIGHT - BOTTOM, plots.WIDTH - RIGHT
    step = (right - LEFT) / n

    def x_of(number: float) -> float:
        return round(LEFT + step * number, 1)

    def y_of(share: float) -> float:
        return round(bottom - (bottom - TOP) * share, 1)

    every = -(-n // MOST_STEPS)
    steps = [*range(0, n_drawn, every), n_drawn]
    low = [(k, watched.low[k - 1] if k else 0.0) for k in steps]
    high = [(k, watched.high[k - 1] if k else 1.0) for k in steps]
    slots = [
        (x_of(k - every), f"{k:,}: {watched.low[k - 1]:.3f}-{watched.high[k - 1]:.3f}")
        for k in range(every, n_drawn + 1, every)
    ]
    return render_fragment(
        "plot_band.html", name=name, width=plots.WIDTH, height=HEIGHT, left=LEFT, right=right,
        top=TOP, bottom=bottom, slots=slots, slot_width=round(step * every, 1), half=y_of(0.5),
        grid=[(y_of(share), f"{share:g}") for share in (0, 0.5, 1)],
        points=" ".join(f"{x_of(k)},{y_of(share)}" for k, share in (*low, *reversed(high))),
        decided=None if watched.decided_after is None else x_of(watched.decided_after),
        labels=[(x_of(0), "0"), (x_of(n), t("{n} finished", n=n))],
    )  # fmt: skip


# Images whose files have changed since their digests were recorded.

IMAGES_LISTED = 20
CHANGED = (
    "These files are not shown, because their content has changed since their digests were "
    "recorded. Restore them, or run {command}, with --accept to show the new content."
)


def changed_images_cards(
    t: Translate, session: Session, study: Study, images: ImageStore
) -> Iterator[Card]:
    """A card with the images of the study's dataset that are not shown, if there are any."""
    paths, more = changed_files(session, study, images)
    if paths:
        command = f"hsfiq images check --study {study.name}"
        listed = [f"{name}: {path}" for name, path in paths]
        left = [t("and {n} more", n=more)] if more else []
        yield Card(t("Changed images"), notes=(t(CHANGED, command=command), *listed, *left))


def changed_files(
    session: Session, study: Study, images: ImageStore
) -> tuple[list[tuple[str, Path | str | None]], int]:
    """The first changed images with their paths, and the number of further ones.

    A file that has been restored is left out.
    """
    dataset = dataset_of(session, study)
    if dataset is None:
        return [], 0
    rows = session.scalars(
        select(Image)
        .join(ImageChange, ImageChange.image_id == Image.id)
        .where(Image.dataset_id == dataset.id)
        .order_by(Image.name)
    ).all()
    listed: list[tuple[str, Path | str | None]] = []
    for number, image in enumerate(rows):
        if len(listed) == IMAGES_LISTED:
            return listed, len(rows) - number
        copy = images.file_of(session, image)
        if isinstance(copy, Fault) and copy.kind == "changed":
            source = images.source_of(image)
            place = "in its store" if isinstance(source, StoreObject) else source
            listed.append((image.name, place))
    return listed, 0
