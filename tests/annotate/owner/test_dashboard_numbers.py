"""The dashboard's numbers equal those counted by hand, and are computed once for many pages."""

from __future__ import annotations

import math
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

import pytest

from hsfiq.actors import Role, User
from hsfiq.analysis.data.release import read_release
from hsfiq.analysis.people.reliability import overlap
from hsfiq.analysis.resampling.bootstrap import Bootstrap
from hsfiq.analysis.sequential import DRIFT, watch_preferences
from hsfiq.analysis.statistics.preference import exact_proportion
from hsfiq.annotate.handlers import Services
from hsfiq.annotate.owner import cards, plots, tables
from hsfiq.annotate.owner import cards as card
from hsfiq.annotate.owner.dashboard import KEPT_SECONDS, MOST_KEPT, PAUSE, Dashboard, SharedOutputs
from hsfiq.annotate.owner.login import Identities
from hsfiq.annotate.owner.plots import line, seconds, since
from hsfiq.collect import participants
from hsfiq.collect.checks import check_results
from hsfiq.collect.leases import end_lease
from hsfiq.collect.participants import may_compare_systems
from hsfiq.collect.progress import (
    AnswerRow,
    Headline,
    StudyProgress,
    answers_of,
    headline_of,
    participants_of,
)
from hsfiq.collect.question_history import question_history
from hsfiq.collect.review import WinShares, win_shares
from hsfiq.collect.studies import list_studies
from hsfiq.db.engine import Database
from hsfiq.releases.export import export_releases
from hsfiq.study.filters import Filters
from tests.annotate.owner.studies_in_progress import REASON, answer, newcomer, watched_study
from tests.annotate.served_studies import Place, make_study

NOW = datetime(2026, 3, 1, 12, 30, tzinfo=UTC)


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Database:
    return watched_study(Place(tmp_path_factory.mktemp("watched")), NOW)


@pytest.fixture(scope="module")
def answers(watched: Database) -> list[AnswerRow]:
    with watched.reading() as session:
        return answers_of(session, list_studies(session)[0])


@pytest.fixture(scope="module")
def counting(answers: list[AnswerRow]) -> tuple[AnswerRow, ...]:
    return tuple(answer for answer in answers if answer.counts)


def test_the_headline(watched: Database, answers: list[AnswerRow]) -> None:
    with watched.reading() as session:
        study = list_studies(session)[0]
        headline = headline_of(session, study, answers, now=NOW)
        later = headline_of(session, study, answers, now=NOW + timedelta(days=1))
    assert (headline.progress.questions, headline.progress.answered) == (24, 15)
    assert (headline.abandoned, headline.late) == (9, ("p3",))
    assert headline.skipped == ("p3.form_1.2",)
    progress = headline.progress
    assert (progress.images_painted, progress.images_not_painted) == (6, 2)
    assert (progress.images_unknown, progress.skipped) == (6, 1)
    # Who is done or gone is never late.
    assert later.late == ("p3",)


def test_the_headline_after_a_reassignment(database: Database) -> None:
    now = datetime.now(UTC)
    with database.writing() as session:
        study = list_studies(session)[0]
        leaver = participants.enrol(session, study.id, now=now)
        participants.enrol(session, study.id, now=now)
        end_lease(leaver)
        before = headline_of(session, study, [], now=now)
        assert (before.progress.questions, before.abandoned, before.late) == (12, 6, ("p1",))
        participants.enrol(session, study.id, now=now)
        after = headline_of(session, study, [], now=now)
    # What was handed on lives on once, with the one who got it.
    assert (after.progress.questions, after.abandoned, after.late) == (12, 0, ())


def test_each_participant(watched: Database) -> None:
    with watched.reading() as session:
        rows = participants_of(session, list_studies(session)[0])
    participant_rows = [
        (row.participant, row.status, row.answered, row.questions, row.failed_checks, row.checks,
         row.median_seconds)
        for row in rows
    ]  # fmt: skip
    assert participant_rows == [
        ("p1", "active", 6, 6, 0, 0, 10.0),
        ("p2", "active", 6, 6, 0, 0, 30.0),
        ("p3", "active", 3, 6, 0, 0, 20.0),
        ("p4", "excluded", 1, 6, 0, 0, 2.0),
    ]
    assert [row.standing for row in rows] == ["finished", "finished", "active", "excluded"]


def test_answers_by_the_hour(counting: tuple[AnswerRow, ...]) -> None:
    rate = plots.rate_of(counting, NOW)
    hours = [start.hour for start in rate.starts]
    # p3 at 9:30; p1 from 11:40, p2 from 11:50 to 11:53.
    assert (rate.unit, hours, rate.counts) == ("hour", [9, 10, 11], (3, 0, 12))
    assert rate.in_last_hour == 12
    assert plots.rate_of((), NOW) == plots.Rate("hour", (), (), 0)


def test_the_projected_end(counting: tuple[AnswerRow, ...]) -> None:
    # 15 answers in the three hours since 9:30: five an hour.
    assert plots.projected_end(counting, 10, NOW) == NOW + timedelta(hours=2)
    assert plots.projected_end(counting, 0, NOW) is None
    assert plots.projected_end(counting[:4], 10, NOW) is None
    assert plots.projected_end(counting, 10, NOW + timedelta(days=2)) is None


def test_answers_by_the_day_in_a_longer_study(counting: tuple[AnswerRow, ...]) -> None:
    earlier_answers = [later_by(answer, -timedelta(days=5)) for answer in counting[:2]]
    rate = plots.rate_of([*earlier_answers, *counting], NOW)
    assert (rate.unit, rate.counts) == ("day", (2, 0, 0, 0, 0, 15))


def later_by(answer: AnswerRow, delay: timedelta) -> AnswerRow:
    assert answer.submitted_at
    return replace(answer, submitted_at=answer.submitted_at + delay)


def test_times(counting: tuple[AnswerRow, ...]) -> None:
    times = plots.times_of(counting)
    assert times.median == 20.0  # six of 10 s, two of 20 s, six of 30 s: the revision adds none
    assert times.width == 2
    assert {i * times.width: n for i, n in enumerate(times.counts) if n} == {10: 6, 20: 2, 30: 6}
    assert plots.times_of(()).median is None


def test_times_beyond_the_last_bin_are_counted_in_it() -> None:
    rows = [times_row(value) for value in [1.0] * 99 + [10_000.0]]
    times = plots.times_of(rows)
    assert (times.width, times.counts) == (1, (0, 99, 1))


def times_row(value: float) -> AnswerRow:
    return AnswerRow(
        question_id="p.f.0", position=(1, 0, 0), participant="p", triplet=1, sets=((1,), (2,)),
        values=None, summary=None, irrelevant=False, skipped=None, are_painted=None, revisions=1,
        submitted_at=None, active_seconds=value, check=None, counts=True,
    )  # fmt: skip


def test_scores_and_sides(counting: tuple[AnswerRow, ...]) -> None:
    assert plots.scores_of(counting, 5) == ((0, 0, 5, 8, 1), (0, 6, 1, 2, 5))
    share, ties = plots.side_share(counting)
    assert share == exact_proportion(9, 14)
    assert ties == 0


def test_agreement_equals_that_of_the_release(place: Place, tmp_path: Path) -> None:
    """Two of the queries have two identical sets; the second participant answers first."""
    rng = Random(5)
    database = make_study(place, n_identical=2, annotators_per_query=2, questions_per_form=6)
    with database.writing() as session:
        study = list_studies(session)[0]
        people = [newcomer(session, NOW) for _ in range(2)]
        for person in reversed(people):
            for count in range(1, 13):
                values = (rng.randint(1, 5), rng.randint(1, 5), rng.randint(1, 2))
                answer(session, person, count, values, 9.0, NOW, [""])
                person.store(session)
        counting = tuple(answers_of(session, study))
        export_releases(session, study, ["hp"], Filters(), folder=tmp_path / "release")
    database.close()
    release = read_release(tmp_path / "release")
    expected = overlap(release, {}, Bootstrap.of_release(release, n_resamples=10))
    agreements = plots.agreements_of(counting)
    assert agreements
    for own, released in (
        (agreements.scores, expected.scores),
        (agreements.preferences, expected.preferences),
    ):
        assert own.alpha == pytest.approx(released.alpha)
        assert own.ci is not None
        assert own.ci.reason == "an interval needs 3 triplets and participants"
        assert (own.n_units, own.n_ratings) == (released.n_units, released.n_ratings)
    assert (agreements.scores.n_units, agreements.preferences.n_units) == (22, 10)
    assert agreements.n_identical == expected.n_identical == 4
    note = "Preferences: without 4 answers about identical sets"
    assert note in cards.cards(list(counting), [], NOW)
    assert plots.agreements_of(counting) is agreements  # nothing new, nothing drawn again


def test_missing_overlap_is_reported(counting: tuple[AnswerRow, ...]) -> None:
    single_rater = tuple(answer for answer in counting if answer.participant == "p1")
    agreements = plots.agreements_of(single_rater)
    assert agreements
    assert math.isnan(agreements.scores.alpha)
    assert math.isnan(agreements.preferences.alpha)
    assert (
        "nothing has been judged by two people" in cards.agreement_card(single_rater).lines[0].note
    )


def test_the_history_of_a_question(watched: Database) -> None:
    with watched.reading() as session:
        study = list_studies(session)[0]
        revised = question_history(session, study, " p2.form_1.0 ")
        after_sum = question_history(session, study, "p1.form_2.0")
        for unknown in ("", "p2", "p2.form_1.99", "p2.form_1.x", "9" * 40, "p9.form_1.0", "p2..0"):
            assert question_history(session, study, unknown) is None
    assert revised
    assert after_sum
    first, second = revised.revisions
    assert (first.score_1, first.score_2, first.preferred, first.active_seconds) == (3, 5, 2, 30.0)
    assert (second.score_1, second.score_2, second.preferred, second.irrelevant) == (5, 3, 1, True)
    assert second.reason == REASON
    assert [attempt.passed for attempt in after_sum.sum_tries] == [False, True]
    assert set(revised.systems) <= {"telltale-alpha", "telltale-beta", "telltale-gamma"}
    assert [len(images) for images in revised.images] == [5, 5]


def test_text_from_data_is_escaped(watched: Database) -> None:
    with watched.reading() as session:
        history = question_history(session, list_studies(session)[0], "p2.form_1.0")
    written = tables.history(history, "p2.form_1.0")
    assert "<script" not in written
    assert "<b>" not in written
    assert not set("{}$`") & set(written)
    written = line("<a href='x'>${1}{{2}}`\"", "note").removeprefix('<p class="note">')
    assert not set("<>{}$`'\"") & set(written.strip().removesuffix("</p>"))
    assert "<" not in tables.history(None, "<img>").replace('<p class="empty">', "").replace(
        "</p>", ""
    )


def test_an_empty_study_says_so() -> None:
    written = cards.cards([], [], NOW)
    for words in ("No answer yet", "No times yet", "No score yet", "No preference yet"):
        assert words in written
    progress = StudyProgress("empty", "Empty", "open", "collected", *[0] * 9, None)
    headline = Headline(progress, abandoned=0, late=(), skipped=())
    for has_any, words in ((False, "Nobody has enrolled yet"), (True, "Nobody is found")):
        table = tables.participants_table(
            [], study="empty", late=(), now=NOW, flags={}, has_any=has_any
        )
        assert table.count(words) == 1
    assert tables.latest_answers_table([], NOW).count("No answer yet") == 1
    assert "0.0 %" in cards.tiles(headline, {}, [], [], [], NOW)


@pytest.mark.parametrize("highest", [0, 1, 3, 4, 5, 39, 100, 999, 61_000])
def test_axes_contain_the_highest_value(highest: int) -> None:
    step = plots.nice_step(highest, as_percent=False)
    assert step == int(step)
    assert highest <= 4 * step
    assert "nan" not in plots.columns([plots.Column("a", (highest,), "said")], "name")


def test_formatted_times_and_durations() -> None:
    ago = [since(NOW - timedelta(seconds=s), NOW) for s in (-5, 3, 61, 7300, 200_000)]
    assert ago == ["now", "now", "1 min ago", "2 h ago", "2 d ago"]
    assert [seconds(value) for value in (None, 12.4, 240.0)] == ["\N{EN DASH}", "12 s", "4.0 min"]


def test_plots_and_tables_are_of_those_seen_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = watched_study(Place(tmp_path), NOW)
    services = Services.of(database)
    dashboard = Dashboard(Identities(database, services.signer), services.images)
    with database.reading() as session:
        study = list_studies(session)[0]
        assert participants.people_shown(session, study) is None
        everybody = {row.participant: row for row in participants_of(session, study)}
        last = sorted(everybody, key=lambda name: everybody[name].seen_at or NOW)[-2:]
        monkeypatch.setattr(participants, "MOST_ANSWERS", 12)
        shown = participants.people_shown(session, study)
        rows = participants_of(session, study, shown)
        assert {row.participant: row for row in rows} == {name: everybody[name] for name in last}
        answers = answers_of(session, study, shown)
        own = [answer for answer in answers_of(session, study) if answer.participant in last]
        assert answers == own
        checks = list(check_results(session, study, shown))
        keys = set(shown or ())
        assert checks == [
            each for each in check_results(session, study) if each.participant_id in keys
        ]
        owner = User("owner", Role.OWNER, 1)
        updated, tiles, *_ = dashboard.study_outputs(session, study.name, owner)
        assert may_compare_systems(session, study)
        monkeypatch.setattr(participants, "MOST_COMPARED", 12)
        assert not may_compare_systems(session, study)
        _, _, cards, *_ = dashboard.study_outputs(session, study.name, owner)
    assert f"Too many answers: run hsfiq study status --study {study.name}" in str(cards)
    assert "are of the 2 participants seen last, of 4;" in str(updated)
    assert "15" in str(tiles)  # the answers of all
    assert "seen last: " in str(tiles)
    database.close()


def test_the_card_of_a_study_in_progress(watched: Database) -> None:
    """p1 and p2 have finished; three pairs of systems have an interval each."""
    with watched.reading() as session:
        study = list_studies(session)[0]
        shown = cards.preferences_card(session, study)
        shares = win_shares(session, study)
    asked = [own for own in shares.by_pair.values() if own]
    assert (shown.name, len(shown.lines)) == (cards.PREFERENCE, 3)
    undecided = sum("2 finished, undecided" in line.note for line in shown.lines)
    assert undecided == sum(len(own) == 2 for own in asked)
    assert "Not finished, so not counted yet: 1." in shown.notes
    page = cards.cards([], [], NOW, further=[shown])
    assert cards.PREFERENCE in page
    assert "any of the 3 intervals" in page


def shown_card(
    monkeypatch: pytest.MonkeyPatch,
    by_pair: dict[tuple[str, str], list[tuple[float, int]]],
    *numbers: int,
) -> cards.Card:
    """The card of these shares; `numbers` are the further ones of `WinShares`."""
    monkeypatch.setattr(card, "win_shares", lambda *_: WinShares(by_pair, *numbers))
    return cards.preferences_card(None, None)  # type: ignore[arg-type]


def test_one_pair_has_a_chart_over_time(monkeypatch: pytest.MonkeyPatch) -> None:
    own = [(0.8, 25)] * 20
    shown = shown_card(monkeypatch, {("a", "b"): own}, 20, 0, 500, 0)
    (watched,) = watch_preferences({("a", "b"): own})
    (line,) = shown.lines
    assert line.value == "80.0 %"
    assert f"decided after {watched.decided_after}: a is preferred" in line.note
    (points,) = re.findall(r'<polygon class="band" points="([^"]*)"', line.plot)
    assert len(points.split()) == 2 * (20 + 1)
    tooltips = re.findall(r"<title>after (\d+): ([\d.]+) to ([\d.]+)</title>", line.plot)
    assert [float(low) for _, low, _ in tooltips] == pytest.approx(list(watched.low), abs=1e-3)
    assert 'class="decided"' in line.plot


def test_a_chart_of_many_participants_stays_small(monkeypatch: pytest.MonkeyPatch) -> None:
    own = [(0.75, 4), (0.5, 4)] * 2000
    (line,) = shown_card(monkeypatch, {("a", "b"): own}, 4000, 0, 500, 0).lines
    (points,) = re.findall(r'<polygon class="band" points="([^"]*)"', line.plot)
    assert len(points.split()) == 2 * (cards.MOST_STEPS + 1)
    (watched,) = watch_preferences({("a", "b"): own})
    last = re.findall(r"<title>after ([\d,]+): ([\d.]+) to", line.plot)[-1]
    assert last == ("4,000", f"{watched.low[-1]:.3f}")


def test_many_pairs_have_a_line_each(monkeypatch: pytest.MonkeyPatch) -> None:
    by_pair = {(f"s{i}", "z"): [(0.5 + i / 30, 2)] * 30 for i in range(12)}
    shown = shown_card(monkeypatch, by_pair, 30, 0, 9, 0)
    assert [line.value for line in shown.lines[:2]] == ["86.7 %", "83.3 %"]
    assert len(shown.lines) == cards.MOST_LINES
    assert "polygon" not in shown.lines[0].plot
    assert shown.notes[0] == "6 more pairs: see hsfiq study status."


def test_a_drift_is_shown_up_to_where_it_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    own = [(1.0, 5)] * 40 + [(0.0, 5)] * 40
    (line,) = shown_card(monkeypatch, {("a", "b"): own}, 80, 0, 9, 0).lines
    assert DRIFT in line.note
    assert "nan" not in line.plot


def test_nothing_to_show_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "no two systems" in shown_card(monkeypatch, {}, 0, 0, 0, 0).empty
    nobody = shown_card(monkeypatch, {("a", "b"): []}, 0, 2, 0, 0)
    assert nobody.empty == "Nobody has finished yet"


class Clock:
    def __init__(self) -> None:
        self.time = 1000.0

    def __call__(self) -> float:
        return self.time


class Work:
    """Computes its number, which takes `seconds`."""

    def __init__(self, clock: Clock, seconds: float = 0.0) -> None:
        self.clock, self.seconds, self.n = clock, seconds, 0

    def __call__(self) -> list[int]:
        self.n += 1
        self.clock.time += self.seconds
        return [self.n]


def test_a_timer_gets_what_was_computed_a_moment_ago() -> None:
    clock = Clock()
    outputs, work = SharedOutputs(clock), Work(clock)
    assert outputs.recent("study", work) == [1]
    clock.time += KEPT_SECONDS - 0.1
    assert outputs.recent("study", work) == [1]
    clock.time += 0.2
    assert outputs.recent("study", work) == [2]
    assert outputs.now("study", work) == [3]
    assert outputs.recent("study", work) == [3]
    assert outputs.recent("another", work) == [4]


def test_what_takes_long_is_computed_less_often() -> None:
    clock = Clock()
    outputs, work = SharedOutputs(clock), Work(clock, seconds=30)
    outputs.now("study", work)
    clock.time += PAUSE * 30 - 1
    assert outputs.recent("study", work) == [1]
    clock.time += 2
    assert outputs.recent("study", work) == [2]


def test_pages_wait_for_the_computation_under_way() -> None:
    outputs, clock = SharedOutputs(), Clock()
    work, begun, may_end = Work(clock), threading.Event(), threading.Event()

    def slow() -> list[int]:
        begun.set()
        may_end.wait()
        return work()

    with ThreadPoolExecutor(4) as pool:
        first = pool.submit(outputs.recent, "study", slow)
        begun.wait()
        others = [pool.submit(outputs.recent, "study", slow) for _ in range(3)]
        may_end.set()
        assert [each.result() for each in (first, *others)] == [[1]] * 4
    assert work.n == 1


def test_a_failed_computation_is_not_kept() -> None:
    clock = Clock()
    outputs = SharedOutputs(clock)

    def fail() -> list[int]:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        outputs.recent("study", fail)
    assert outputs.recent("study", Work(clock)) == [1]


def test_names_that_somebody_makes_up_take_no_memory() -> None:
    clock = Clock()
    outputs = SharedOutputs(clock)
    for number in range(3 * MOST_KEPT):
        outputs.now(f"study-{number}", Work(clock))
    assert len(outputs.latest) == MOST_KEPT


def test_no_role_gets_what_another_may_see(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    database = watched_study(Place(tmp_path))
    services = Services.of(database)
    dashboard = Dashboard(Identities(database, services.signer), services.images)
    with database.reading() as session:
        name = list_studies(session)[0].name
    users = [User(role.value, role, 1) for role in Role]
    asking: list[User] = []
    monkeypatch.setattr(Dashboard, "require", lambda *_: asking[-1])
    for user in users:
        asking.append(user)
        own = dashboard.computed(name, user)
        first, again = (
            dashboard.ticked(name, *("", False, 1), None)[: len(own)]  # type: ignore[arg-type]
            for _ in range(2)
        )
        assert list(map(id, first)) == list(map(id, again))
        shown = first
        # Numbers of the last hour may differ.
        assert [bool(each) for each in shown] == [bool(each) for each in own]
        assert shown[-1] == own[-1]
    database.close()
