"""One simulated participant on the way from the welcome page to the completion code."""

from __future__ import annotations

import http.client
import json
import re
import time
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from hsfiq.drawn import Garment, SimulatedAnnotator, generator
from hsfiq.drawn.reading import read, set_utility_as_read
from hsfiq.drawn.recognition import recognise
from hsfiq.records import Answer
from hsfiq.simulate.browser import Refusal
from hsfiq.simulate.client import Page, Stuck, View
from hsfiq.simulate.entry import Destination, require_simulated

State = Literal["finished", "turned away", "failed"]

REASON = "said by a simulated annotator"
"""What is written where the study asks for a reason."""

MOVED_ON = (403, 409, 410)
"""The statuses at which the page loads anew what is asked now."""

TOO_MANY = 3
"""So often in a row an answer is refused before its participant gives up."""

_SUM = re.compile(r"(\d+) \+ (\d+)")


@dataclass(slots=True)
class Outcome:
    """What became of one participant.

    Attributes:
        annotator: their truth.
        state: how it ended; `why` says more where it did not end well.
        answered: questions whose answers the server has acknowledged, in this run.
        skipped: questions skipped because an image was missing.
        refused: answers that the server did not take; none of them is stored.
        checks: sums that were passed.
        code: the completion code, if the study has one.
    """

    annotator: SimulatedAnnotator
    state: State = "failed"
    why: str | None = None
    answered: int = 0
    skipped: int = 0
    refused: int = 0
    checks: int = 0
    code: str | None = None

    def facts(self) -> dict[str, Any]:
        """All of it by name."""
        return asdict(self)


@dataclass(slots=True)
class Eyes:
    """What the simulated annotators see: the garment behind each token, looked at once by all."""

    _seen: dict[str, Garment] = field(default_factory=dict)

    def look(self, page: Page, token: str) -> Garment:
        """The garment in an image of the page.

        Raises:
            UnreadableInput: the image is none of the drawn catalogue.
            Refusal: the server does not show it.
            Stuck: it does not answer.
        """
        if token not in self._seen:
            self._seen[token] = recognise(page.fetch(f"/image/{token}/full"), f"image {token}")
        return self._seen[token]


class Visitor:
    """A simulated annotator before a page."""

    def __init__(self, annotator: SimulatedAnnotator, page: Page, eyes: Eyes, seed: int) -> None:
        self.outcome = Outcome(annotator)
        self.total = 0
        self._annotator = annotator
        self.page = page
        self._eyes = eyes
        self._seed = seed
        self._ties_allowed = False

    def arrive(self, destination: Destination, study: str) -> None:
        """Come in, by personal link or through the open door, unless one is known already.

        Raises:
            Refusal: it takes nobody more, or the link is none.
            Stuck: the server does not answer.
        """
        if destination.link is not None:
            self.page.fetch(destination.link)
        elif not self.page.browser.cookies:
            self.page.enrol(study)

    def answer_all(self, destination: Destination) -> None:
        """Consent, practise and answer until nothing is left; `outcome` says how it went.

        Raises:
            UnreadableInput: the study is there for people (then nothing was agreed to or answered),
                or none on the drawn catalogue.
            Refusal: the server refuses what the page sends.
            Stuck: it does not answer, or there is no going on.
        """
        require_simulated(self.page.fetch("/"), destination.address)
        opening = self.page.open()
        self._ties_allowed = bool(opening["study"]["ties_allowed"])
        view: View = opening["view"]
        refused = 0
        while view["step"] not in ("done", "farewell"):
            try:
                view = self._step(view)
                refused = 0
            except Refusal as refusal:
                if refusal.status not in MOVED_ON or refused == TOO_MANY:
                    raise
                refused += 1
                self.outcome.refused += view["step"] == "question"
                view = self.page.ask("/question")
        self.outcome.code = view.get("code") or None
        if view["step"] == "farewell":
            raise Stuck(f"the study says farewell ({view['kind']})")
        self.outcome.state = "finished"

    def _step(self, view: View) -> View:
        """Do what a view asks for; the view after it."""
        self.total = view["total"]
        if view["step"] == "consent":
            return self.page.ask("/consent", {"agrees": True})
        if view["step"] == "practice":
            return self.page.ask("/practice", {})
        if view["step"] == "check":
            return self._add(view)
        if view["step"] != "question":
            raise Stuck(f"the page shows an unknown step {view['step']!r}")
        if view["earlier"] is not None:  # answered by a submit whose acknowledgement was lost
            return self.page.ask("/question")
        return self._judge(view)

    def _add(self, view: View) -> View:
        """Work out a sum."""
        numbers = _SUM.search(view["prompt"])
        given = str(int(numbers[1]) + int(numbers[2])) if numbers else ""
        reply = self.page.ask("/check", {"assignment": view["assignment"], "given": given})
        if not reply["passed"]:
            raise Stuck(f"the answer {given!r} to {view['prompt']!r} was not taken")
        self.outcome.checks += 1
        passed: View = reply["view"]
        return passed

    def _judge(self, view: View) -> View:
        """Look at a question, take one's time, press Next."""
        begun = time.monotonic()
        rng = generator(self._seed, "answers", self._annotator.name, str(view["number"]))
        body = {"assignment": view["assignment"], "submit_key": rng.randbytes(16).hex()}
        images = [view["reference"], *view["sets"][0], *view["sets"][1]]
        if any(image["missing"] for image in images):
            reply = self.page.ask("/submit", body | {"skip": True})
            self.outcome.skipped += 1
        else:
            answer = self._annotator.answer(
                rng,
                *self._utilities(view),
                ties_allowed=self._ties_allowed,
                progress=(view["number"] - 1) / max(1, view["total"] - 1),
            )
            seconds = answer.times.active_seconds or 0.0
            self.page.wait(begun + seconds / 2 - time.monotonic())
            touched = time.monotonic()
            self.page.wait(begun + seconds - time.monotonic())
            sent = _sent(answer, begun, touched, is_reason_asked=view["reason_asked"])
            reply = self.page.ask("/submit", body | {"answer": sent})
            self.outcome.answered += 1
        following: View = reply["view"]
        return following

    def _utilities(self, view: View) -> tuple[float, float]:
        """What the two sets are worth, from what the page shows."""
        reference = self._eyes.look(self.page, view["reference"]["token"])
        possible = read(view["text"], reference)
        one, other = (
            set_utility_as_read(
                possible, [self._eyes.look(self.page, image["token"]) for image in shown]
            )
            for shown in view["sets"]
        )
        return one, other


def _sent(
    answer: Answer, begun: float, touched: float, *, is_reason_asked: bool
) -> dict[str, object]:
    """An answer as the page sends it, with the seconds that have really passed."""
    now = time.monotonic()
    return {
        "score_1": answer.score_1,
        "score_2": answer.score_2,
        "preferred": answer.preferred,
        "irrelevant": answer.irrelevant,
        "reason": REASON if is_reason_asked else None,
        "active_seconds": now - begun,
        "seconds_since_first_interaction": now - touched,
    }


def refusal_as_text(refusal: Refusal) -> str:
    """What the server has said, in one line; of a page for people, its status."""
    try:
        said = json.loads(refusal.body)["error"]
    except (ValueError, KeyError, TypeError):
        said = http.client.responses.get(refusal.status, "refused")
    return f"{refusal.status} {said}"
