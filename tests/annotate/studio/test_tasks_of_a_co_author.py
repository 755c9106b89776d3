"""Tasks of a co-author who does not program, each from the list of studies on: how many actions.

A click, a key and a field that is filled are an action each. With `HSFIQ_SCREENSHOTS=DIR`, the
table of the numbers is written there, with a picture of the page at the end of each task.
"""

from __future__ import annotations

import csv
import os
import re
import sys
import zipfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import pytest
from playwright.sync_api import BrowserContext, Download, Locator, Page, expect

from hsfiq.actors import OWNER
from hsfiq.annotate.app import build_app
from hsfiq.answer_rules import Times
from hsfiq.collect import participants
from hsfiq.collect.asked_questions import mark_served, steps_of
from hsfiq.collect.owner import perform, prepare
from hsfiq.collect.participant_row import read_row
from hsfiq.collect.studies import list_studies
from hsfiq.db.tables import Question
from hsfiq.drafts import Content, change_draft, draw
from hsfiq.jobs import job_worker
from tests.annotate.owner.studies_in_progress import PASSWORD, submit
from tests.annotate.served_studies import Place, ThreadServer
from tests.annotate.studio.conftest import TITLE, StudioClient, fill, studio_in
from tests.processes import forked_jobs
from tests.studies import pair_answer

PLACES = 12


class Person(NamedTuple):
    """How somebody answers: so many questions in so many seconds each."""

    questions: int = 7
    seconds: float = 20.0
    is_consistent: bool = True
    comment: str = ""
    hours_ago: float = 1.0


PEOPLE = (
    Person(),
    Person(),
    Person(seconds=0.8),
    Person(is_consistent=False),
    Person(questions=3, hours_ago=5),
    Person(comment="the request does not fit the picture"),
)


def open_study(studio: StudioClient) -> None:
    """A study with uploaded images that is open; one of the questions is asked twice."""
    token = studio.new_draft()
    fill(studio, token)

    def change(content: Content) -> Content:
        values = {
            "wording.preference": "Which set fits beter?",
            "recruitment.participants": PLACES,
            "recruitment.max_failed_checks": 0,
            "design.annotators_per_query": PLACES,
            "checks.repeated": 1,
            "checks.on_failure": "pause",
        }
        return content.with_values(values)

    with studio.database.writing() as session:
        change_draft(session, token, OWNER, change)
    draw(studio.database, token, OWNER)
    with studio.database.writing() as session:
        perform(session, prepare(list_studies(session)[0], "open"), OWNER)


def answer_as(studio: StudioClient, person: Person) -> None:
    now = datetime.now(UTC) - timedelta(hours=person.hours_ago)
    with studio.database.writing() as session:
        (invited,) = participants.invite(session, list_studies(session)[0].id, 1, now=now)
        participants.enrol_invited(session, invited, now=now)
        participants.consent(invited, now=now)
        invited.practised_at = now
        seat = read_row(session, invited.token_hash)
        for step in steps_of(session, seat.id).steps[: person.questions]:
            if seat.status != "active":  # a check was failed
                break
            mark_served(session, step.question_id, now)
            question = session.get_one(Question, step.question_id)
            prefers_first = (question.pair_id % 3 > 0) is not question.swapped
            chosen = 1 if prefers_first or not person.is_consistent else 2
            scores = (4, 2) if chosen == 1 else (2, 4)
            times = Times(None, None, now, person.seconds)
            comment = person.comment if step.number == 2 else ""
            answer = pair_answer(
                *scores, chosen, irrelevant=bool(comment), reason=comment, times=times
            )
            submit(session, seat, step.question_id, answer, 0)
            now += timedelta(seconds=person.seconds)
        seat.store(session)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of the list of studies, on a server with the study."""
    monkeypatch.setenv("HSFIQ_UPLOADS", str(tmp_path / "uploads"))
    place = Place(tmp_path)
    studio = studio_in(place)
    open_study(studio)
    for person in PEOPLE:
        answer_as(studio, person)
    server = ThreadServer(place, studio.database, build_app(studio.database))
    server.start()
    with forked_jobs(), job_worker(studio.database):
        yield f"{server.url}/owner/"
    server.stop()


class Hand:
    """The mouse and the keyboard of the co-author; each action is counted."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.count = {"clicks": 0, "keys": 0, "fields": 0}

    def click(self, target: Locator) -> None:
        self.count["clicks"] += 1
        target.click()

    def link(self, name: str | re.Pattern[str]) -> None:
        self.click(self.page.get_by_role("link", name=name).first)

    def button(self, name: str | re.Pattern[str]) -> None:
        self.click(self.page.get_by_role("button", name=name).first)

    def press(self, key: str) -> None:
        self.count["keys"] += 1
        self.page.keyboard.press(key)

    def fill(self, field: Locator, text: str) -> None:
        self.count["fields"] += 1
        field.fill(text)

    def agree(self) -> None:
        """Agree to what the next click asks."""
        self.count["clicks"] += 1
        self.page.once("dialog", lambda dialog: dialog.accept())

    def downloaded(self, act: Callable[[], None]) -> Download:
        with self.page.expect_download() as download:
            act()
        return download.value

    def study(self) -> None:
        self.link(TITLE)

    def sees(self, text: str | re.Pattern[str]) -> None:
        expect(self.page.get_by_role("main").get_by_text(text).first).to_be_visible()


# The tasks.


def correct_a_typo(hand: Hand) -> None:
    hand.study()
    hand.link("Set up")
    hand.fill(hand.page.get_by_label("Question about both"), "Which set fits better?")
    hand.sees("Changed for everybody who has not finished yet.")


def invite_five_more(hand: Hand) -> None:
    hand.study()
    hand.link("Add people")
    hand.fill(hand.page.get_by_label("New links"), "5")
    file = hand.downloaded(lambda: hand.button("Make links and download them"))
    with file.path().open(encoding="utf-8-sig") as lines:
        assert len([row["link"] for row in csv.DictReader(lines)]) == 5


def leave_a_bot_out(hand: Hand) -> None:
    hand.study()
    hand.link("Look at p3")
    hand.click(hand.page.locator("label", has_text=re.compile("^Leave out$")))
    hand.fill(hand.page.get_by_label("Why the answers are left out"), "a bot: 0.8 s a question")
    hand.click(hand.page.locator("#do"))
    hand.sees("p3 is to be paid. The answers are left out of results.")


def find_out_why_somebody_failed(hand: Hand) -> None:
    hand.study()
    hand.link("Look at p4")
    expect(hand.page.get_by_role("link", name="the repeated one: failed")).to_be_visible()
    hand.sees("not as before")


def let_somebody_go_on(hand: Hand) -> None:
    hand.study()
    hand.link("Look at p4")
    hand.button("Let p4 go on")
    hand.sees("p4 can go on.")


def pay_everybody(hand: Hand) -> None:
    hand.study()
    hand.agree()
    hand.button(re.compile(r"^Pay \d+ people$"))
    hand.sees("Nobody is waiting.")
    hand.downloaded(lambda: hand.link("Pay list (CSV)"))


def mark_a_flagged_answer_as_done(hand: Hand) -> None:
    hand.study()
    hand.button(re.compile("^Done: p6"))
    hand.sees("1 of 1 done")


def add_places(hand: Hand) -> None:
    hand.study()
    hand.link("Add people")
    hand.button(re.compile(r"^Add \d+ places?$"))
    hand.sees(re.compile(r"\d+ more places?\."))


def pause_and_open_again(hand: Hand) -> None:
    hand.study()
    hand.button("Pause")
    hand.sees("The study is paused")
    hand.button("Open again")
    hand.sees("The study is open.")


def close_and_share_the_report(hand: Hand) -> None:
    hand.study()
    hand.button("Close the study")
    hand.link("Results")
    hand.button("Compute it now")
    hand.button("Make a link")
    expect(hand.page.get_by_label("The link, shown only this once")).to_have_value(
        re.compile("/shared/")
    )


def make_and_download_a_release(hand: Hand) -> None:
    hand.study()
    hand.button("Make release 1.0.0")
    file = hand.downloaded(lambda: hand.link(re.compile("zip$")))
    with zipfile.ZipFile(file.path()) as archive:
        assert any(name.endswith("manifest.json") for name in archive.namelist())


def run_it_again(hand: Hand) -> None:
    hand.button(f"Copy this study: {TITLE}")
    hand.link("Continue")
    hand.sees("All can be shown")


TASKS: dict[str, tuple[Callable[[Hand], None], int]] = {
    "Correct a typo in the question": (correct_a_typo, 3),
    "Invite five more people and get their links": (invite_five_more, 4),
    "Leave out somebody who was too fast, and say why": (leave_a_bot_out, 5),
    "Find out why somebody failed": (find_out_why_somebody_failed, 2),
    "Let somebody go on who was paused": (let_somebody_go_on, 3),
    "Pay everybody who passed, and get the pay list": (pay_everybody, 4),
    "Mark a flagged answer as done": (mark_a_flagged_answer_as_done, 2),
    "Add places": (add_places, 3),
    "Pause the study and open it again": (pause_and_open_again, 3),
    "Close it, compute the report and make a link to it": (close_and_share_the_report, 5),
    "Make a release and download it": (make_and_download_a_release, 3),
    "Run the same study again": (run_it_again, 2),
}
"""What is done, in this order, and the most actions that it takes."""


@pytest.mark.browser
@pytest.mark.slow
def test_each_task_takes_few_actions(context: BrowserContext, home: str) -> None:
    page, wrong = context.new_page(), []
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(f"{home}login")
    page.fill("#password", PASSWORD)
    page.click("button[name=enter]")
    table = ["clicks keys fields total  task"]
    for number, (task, (perform_task, most)) in enumerate(TASKS.items(), 1):
        page.goto(home)
        hand = Hand(page)
        perform_task(hand)
        total = sum(hand.count.values())
        counts = "{clicks:6d} {keys:4d} {fields:6d}".format(**hand.count)
        table.append(f"{counts} {total:5d}  {task}")
        keep(page, f"task-{number:02d}", table)
        wrong += [f"{task}: {total} actions, not {most}"] if total > most else []
    sys.stdout.write("\n".join(["", *table, ""]))
    assert wrong + errors == []


def keep(page: Page, name: str, table: list[str]) -> None:
    if folder := os.environ.get("HSFIQ_SCREENSHOTS"):
        page.screenshot(path=Path(folder) / f"{name}.png", full_page=True)
        (Path(folder) / "tasks.txt").write_text("\n".join([*table, ""]), encoding="utf-8")
