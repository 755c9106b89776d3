"""The dashboard's numbers equal those counted by hand."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

import pytest

from hsfiq.analysis.data.release import read_release
from hsfiq.analysis.people.reliability import overlap
from hsfiq.analysis.resampling.bootstrap import Bootstrap
from hsfiq.analysis.statistics.preference import exact_proportion
from hsfiq.annotate.owner import cards, plots, tables
from hsfiq.annotate.owner.plots import line, seconds, since
from hsfiq.collect import participants
from hsfiq.collect.checks import check_results
from hsfiq.collect.history import question_history
from hsfiq.collect.leases import end_lease
from hsfiq.collect.progress import (
    AnswerRow,
    Headline,
    StudyProgress,
    answers_of,
    headline_of,
    participants_of,
)
from hsfiq.collect.studies import list_studies
from hsfiq.db.engine import Database
from hsfiq.releases.export import export_releases
from hsfiq.releases.filters import Filters
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


def test_the_headline_after_a_reassignment(tmp_path: object, database: Database) -> None:
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


def test_checks(watched: Database) -> None:
    with watched.reading() as session:
        results = [(c.kind, c.passed) for c in check_results(session, list_studies(session)[0])]
    assert results == [("arithmetic", False), ("arithmetic", True), ("arithmetic", True)]


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
