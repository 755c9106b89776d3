"""The figures on the page Watch equal those counted by hand."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from weakref import WeakKeyDictionary

import pytest
from fastapi.testclient import TestClient
from playwright.sync_api import BrowserContext, Page, expect

from hsfiq.actors import Actor, Role
from hsfiq.analysis.data.release import read_release
from hsfiq.analysis.people.reliability import overlap
from hsfiq.analysis.resampling.bootstrap import Bootstrap
from hsfiq.analysis.sequential import DRIFT, watch_preferences
from hsfiq.analysis.statistics.preference import exact_proportion
from hsfiq.annotate.owner import plots
from hsfiq.annotate.studio import figures
from hsfiq.collect import participants
from hsfiq.collect.checks import check_results
from hsfiq.collect.owner import change_quotas
from hsfiq.collect.progress import AnswerRow, answers_of, participants_of
from hsfiq.collect.review import WinShares, unblind, win_shares
from hsfiq.collect.studies import list_studies
from hsfiq.db.engine import Database
from hsfiq.db.tables import Study
from hsfiq.releases.export import export_releases
from hsfiq.study.filters import Filters
from tests.annotate.axe import faults
from tests.annotate.conftest import running
from tests.annotate.owner.studies_in_progress import (
    PASSWORD,
    add_account,
    answer,
    log_in,
    newcomer,
    watched_study,
)
from tests.annotate.served_studies import Place, ReusedStudy, browser_of, make_study
from tests.annotate.studio.shown_figures import english, figures_in, text_of

NOW = datetime(2026, 3, 1, 12, 30, tzinfo=UTC)


@pytest.fixture(scope="module")
def at_noon(tmp_path_factory: pytest.TempPathFactory) -> Database:
    return watched_study(Place(tmp_path_factory.mktemp("at_noon")), NOW)


@pytest.fixture(scope="module")
def counting(at_noon: Database) -> tuple[AnswerRow, ...]:
    with at_noon.reading() as session:
        answers = answers_of(session, list_studies(session)[0])
    return tuple(answer for answer in answers if answer.counts)


def test_all_figures(at_noon: Database) -> None:
    with at_noon.reading() as session:
        text = figures_in(session, list_studies(session)[0], at_noon, NOW)
    for line in (
        "In 6 of 14 answers, every image was shown.",
        "In 2 answers not every image was shown; for 6 answers this is unknown.",
        "Skipped because an image was missing: p3.form_1.2",
        "Median 20 s; first answers only",
        "Sums (tries): 2 passed, 1 failed",
        "set 1, mean 3.71",
        "64.3 % of 14; 95 % interval",
    ):
        assert line in text, line


def test_an_empty_study_says_so(place: Place) -> None:
    database = make_study(place)
    with database.reading() as session:
        text = figures_in(session, list_studies(session)[0], database)
    for words in (
        "No times yet",
        "No score yet",
        "No preference yet",
        "No check has been answered",
    ):
        assert words in text
    database.close()


def test_figures_are_of_those_seen_last(at_noon: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    with at_noon.reading() as session:
        study = list_studies(session)[0]
        assert participants.people_shown(session, study) is None
        everybody = {row.participant: row for row in participants_of(session, study)}
        last = sorted(everybody, key=lambda name: everybody[name].seen_at or NOW)[-2:]
        monkeypatch.setattr(participants, "MOST_ANSWERS", 12)
        shown = participants.people_shown(session, study)
        rows = participants_of(session, study, shown)
        assert {row.participant: row for row in rows} == {name: everybody[name] for name in last}
        own = [answer for answer in answers_of(session, study) if answer.participant in last]
        assert answers_of(session, study, shown) == own
        keys = set(shown or ())
        assert list(check_results(session, study, shown)) == [
            each for each in check_results(session, study) if each.participant_id in keys
        ]
        text = figures_in(session, study, at_noon, NOW)
        monkeypatch.setattr(participants, "MOST_COMPARED", 12)
        card = figures.preferences_card(english, session, study)
    assert "most figures cover the 2 most recent people, of 4." in text
    assert "In 6 of 14 answers" in text  # of all
    assert card.empty == f"Too many answers: run hsfiq study status --study {study.name}"


def test_times(counting: tuple[AnswerRow, ...]) -> None:
    times = figures.times_of(counting)
    assert times.median == 20.0  # six of 10 s, two of 20 s, six of 30 s: the revision adds none
    assert times.width == 2
    assert {i * times.width: n for i, n in enumerate(times.counts) if n} == {10: 6, 20: 2, 30: 6}
    assert figures.times_of(()).median is None


def test_times_beyond_the_last_bin_are_counted_in_it() -> None:
    rows = [times_row(value) for value in [1.0] * 99 + [10_000.0]]
    times = figures.times_of(rows)
    assert (times.width, times.counts) == (1, (0, 99, 1))


def times_row(value: float) -> AnswerRow:
    return AnswerRow(
        question_id="p.f.0", position=(1, 0, 0), participant="p", triplet=1, sets=((1,), (2,)),
        values=None, summary=None, irrelevant=False, skipped=None, are_painted=None, revisions=1,
        submitted_at=None, active_seconds=value, check=None, counts=True,
    )  # fmt: skip


def test_scores_and_sides(counting: tuple[AnswerRow, ...]) -> None:
    assert figures.scores_of(counting, 5) == ((0, 0, 5, 8, 1), (0, 6, 1, 2, 5))
    share, ties = figures.side_share(counting)
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
    agreements = figures.agreements_of(counting)
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
    assert note in text_of([figures.agreement_card(english, counting)])
    assert figures.agreements_of(counting) is agreements  # nothing new, nothing drawn again


def test_missing_overlap_is_reported(counting: tuple[AnswerRow, ...]) -> None:
    single_rater = tuple(answer for answer in counting if answer.participant == "p1")
    agreements = figures.agreements_of(single_rater)
    assert agreements
    assert math.isnan(agreements.scores.alpha)
    assert math.isnan(agreements.preferences.alpha)
    card = figures.agreement_card(english, single_rater)
    assert "no unit has been judged by two people" in card.lines[0].note


@pytest.mark.parametrize("highest", [0, 1, 3, 4, 5, 39, 100, 999, 61_000])
def test_axes_contain_the_highest_value(highest: int) -> None:
    step = plots.nice_step(highest, as_percent=False)
    assert step == int(step)
    assert highest <= 4 * step
    assert "nan" not in plots.columns([plots.Column("a", (highest,), "said")], "name")


def test_the_preferences_of_a_study_in_progress(at_noon: Database) -> None:
    """p1 and p2 have finished; three pairs of systems have an interval each."""
    with at_noon.reading() as session:
        study = list_studies(session)[0]
        shown = figures.preferences_card(english, session, study)
        shares = win_shares(session, study)
    asked = [own for own in shares.by_pair.values() if own]
    assert len(shown.lines) == 3
    undecided = sum("2 finished, undecided" in line.note for line in shown.lines)
    assert undecided == sum(len(own) == 2 for own in asked)
    assert "Not finished, so not counted yet: 1." in shown.notes
    assert "any of the 3 intervals" in text_of([shown])


def shown_card(
    monkeypatch: pytest.MonkeyPatch,
    by_pair: dict[tuple[str, str], list[tuple[float, int]]],
    *numbers: int,
) -> figures.Card:
    """The card of these shares; `numbers` are the further ones of `WinShares`."""
    monkeypatch.setattr(figures, "may_compare_systems", lambda *_: True)
    monkeypatch.setattr(figures, "win_shares", lambda *_: WinShares(by_pair, *numbers))
    return figures.preferences_card(english, None, None)  # type: ignore[arg-type]


def test_one_pair_has_a_chart_over_time(monkeypatch: pytest.MonkeyPatch) -> None:
    own = [(0.8, 25)] * 20
    shown = shown_card(monkeypatch, {("a", "b"): own}, 20, 0, 500, 0)
    (watched,) = watch_preferences({("a", "b"): own})
    (line,) = shown.lines
    assert line.value == "80.0 %"
    assert f"decided after {watched.decided_after}: a is preferred" in line.note
    (points,) = re.findall(r'<polygon class="band" points="([^"]*)"', line.plot)
    assert len(points.split()) == 2 * (20 + 1)
    tooltips = re.findall(r"<title>(\d+): ([\d.]+)-([\d.]+)</title>", line.plot)
    assert [float(low) for _, low, _ in tooltips] == pytest.approx(list(watched.low), abs=1e-3)
    assert 'class="decided"' in line.plot


def test_a_chart_of_many_participants_stays_small(monkeypatch: pytest.MonkeyPatch) -> None:
    own = [(0.75, 4), (0.5, 4)] * 2000
    (line,) = shown_card(monkeypatch, {("a", "b"): own}, 4000, 0, 500, 0).lines
    (points,) = re.findall(r'<polygon class="band" points="([^"]*)"', line.plot)
    assert len(points.split()) == 2 * (figures.MOST_STEPS + 1)
    (watched,) = watch_preferences({("a", "b"): own})
    last = re.findall(r"<title>([\d,]+): ([\d.]+)-", line.plot)[-1]
    assert last == ("4,000", f"{watched.low[-1]:.3f}")


def test_many_pairs_have_a_line_each(monkeypatch: pytest.MonkeyPatch) -> None:
    by_pair = {(f"s{i}", "z"): [(0.5 + i / 30, 2)] * 30 for i in range(12)}
    shown = shown_card(monkeypatch, by_pair, 30, 0, 9, 0)
    assert [line.value for line in shown.lines[:2]] == ["86.7 %", "83.3 %"]
    assert len(shown.lines) == figures.MOST_LINES
    assert "polygon" not in shown.lines[0].plot
    assert shown.notes[0] == "6 more pairs: see hsfiq study status."


def test_a_drift_is_shown_up_to_where_it_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    own = [(1.0, 5)] * 40 + [(0.0, 5)] * 40
    (line,) = shown_card(monkeypatch, {("a", "b"): own}, 80, 0, 9, 0).lines
    assert DRIFT in line.note
    assert "nan" not in line.plot


def test_nothing_to_show_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "do not name two systems" in shown_card(monkeypatch, {}, 0, 0, 0, 0).empty
    nobody = shown_card(monkeypatch, {("a", "b"): []}, 0, 2, 0, 0)
    assert nobody.empty == "Nobody has finished yet"


# The part of the page.


def shown_figures(client: TestClient, query: str = "figures=1") -> str:
    page = client.get(f"/owner/study/1/watch?{query}")
    assert page.status_code == 200
    return page.text[page.text.index('id="figures"') :]


@pytest.fixture(autouse=True)
def nothing_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "KEPT", WeakKeyDictionary())
    monkeypatch.setattr(figures, "KEPT_SECONDS", 0.0)
    monkeypatch.setattr(figures, "PAUSE", 0)


def test_figures_are_computed_when_somebody_opens_them(
    owner: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    computed: list[Study] = []

    def counted(_t: object, _session: object, study: Study, *_: object) -> list[figures.Card]:
        computed.append(study)
        return [figures.Card("<b>{card}</b>", notes=("${note}",))]

    monkeypatch.setattr(figures, "cards_of", counted)
    assert "Show the figures" in shown_figures(owner, "")
    assert computed == []
    assert "&lt;b&gt;{card}&lt;/b&gt;" in shown_figures(owner)
    monkeypatch.setattr(figures, "KEPT_SECONDS", 60.0)
    for _ in range(3):
        assert "Hide the figures" in shown_figures(owner)
    assert len(computed) == 2


def test_a_failed_computation_is_not_kept(
    owner: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> list[figures.Card]:
        raise ZeroDivisionError

    with monkeypatch.context() as patch:
        patch.setattr(figures, "cards_of", fail)
        with pytest.raises(ZeroDivisionError):
            shown_figures(owner)
    assert "64.3 %" in shown_figures(owner)


def test_no_system_is_named_before_results_are_shown(owner: TestClient, watched: Database) -> None:
    hidden = owner.get("/owner/study/1/watch?figures=1&person=p2&answer=p2.form_1.0").text
    assert "telltale-alpha" not in hidden + shown_figures(owner)
    assert "Preference between systems" not in hidden
    with watched.writing() as session:
        unblind(session, list_studies(session)[0], Actor("owner"), datetime.now(UTC))
    assert "telltale-alpha" in shown_figures(owner)
    answers = owner.get("/owner/study/1/watch?person=p2&answer=p2.form_1.0").text
    assert re.search(r"<dt>Set 1</dt><dd>telltale-\w+</dd>", answers)


def test_figures_are_in_the_owners_language(owner: TestClient) -> None:
    korean = shown_figures(owner, "figures=1&language=ko")
    for shown in ("중앙값 20초", "세트 1 선호", "일치도"):
        assert shown in korean, shown
    for english_text in ("first answers only", "Hide the figures", "No sign"):
        assert english_text not in korean


def test_quotas_are_shown(owner: TestClient, watched: Database) -> None:
    with watched.writing() as session:
        change_quotas(session, list_studies(session)[0], {"shirt": 2})
    assert "shirt: 2 of 2" in shown_figures(owner)


def test_who_may_not_read_sees_no_figures(owner: TestClient, watched: Database) -> None:
    for role, status in ((Role.ANALYST, 200), (Role.HELPER, 403)):
        add_account(watched, role, role)
        browser = browser_of(owner.app)
        log_in(browser, name=role)
        assert browser.get("/owner/study/1/watch?figures=1").status_code == status


# In a browser.


@pytest.fixture
def page(context: BrowserContext, reused_watched: ReusedStudy, watched: Database) -> Iterator[Page]:
    with running(reused_watched.server()) as server:
        page = context.new_page()
        page.set_viewport_size({"width": 1440, "height": 900})
        page.goto(f"{server.url}/owner/login")
        page.get_by_label("Password").fill(PASSWORD)
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", name="Studies")).to_be_visible()
        page.goto(f"{server.url}/owner/study/1/watch?person=p2&answer=p2.form_1.0")
        yield page
        page.close()


def fits(page: Page) -> bool:
    page.set_viewport_size({"width": 390, "height": 900})
    return bool(page.evaluate("document.documentElement.scrollWidth <= 390"))


@pytest.mark.browser
def test_figures_open_are_accessible_and_fit(page: Page) -> None:
    page.get_by_role("link", name="Show the figures").click()
    figure = page.get_by_role("img", name="Seconds per question")
    expect(figure).to_be_visible()
    sizes = [{"width": width, "height": 900} for width in (1440, 390)]
    looks = [(size, scheme) for scheme in ("light", "dark") for size in sizes]
    violations = list(faults(page, looks))
    assert fits(page)
    page.set_viewport_size({"width": 1440, "height": 900})
    lefts = page.evaluate(
        "[...document.querySelectorAll('.figures text')].map((text) => text.getBBox().x)"
    )
    assert len(lefts) > 10
    assert min(lefts) >= 0
    page.get_by_role("link", name="Recruiting and messages").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Recruiting")
    violations += faults(page, looks)
    assert fits(page)
    assert violations == [], "\n".join(violations)


@pytest.mark.browser
def test_links_are_made_and_somebody_is_paused_with_the_keyboard(page: Page) -> None:
    page.get_by_role("link", name="Recruiting and messages").press("Enter")
    page.get_by_label("New links").fill("2")
    page.keyboard.press("Enter")
    links = page.get_by_label("New links: copy them now")
    expect(links).to_have_value(re.compile(r"person,link\np5,http://\S+\np6,http://\S+\n"))
    page.get_by_role("button", name="Pause p1").press("Enter")
    expect(page.get_by_role("button", name="Resume p1")).to_be_visible()
    page.get_by_role("button", name="Undo").press("Enter")
    expect(page.get_by_role("button", name="Pause p1")).to_be_visible()
    page.get_by_role("button", name="Log out").press("Enter")
    expect(page.get_by_label("Password")).to_be_visible()
