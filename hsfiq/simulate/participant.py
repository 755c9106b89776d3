"""One simulated participant, from enrolment to the completion code."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field
from typing import Literal

from hsfiq.answer_rules import Answer, ImageState
from hsfiq.collect.protocol import (
    AnswerPayload,
    CheckView,
    ImagesPayload,
    ImageView,
    QuestionView,
    View,
)
from hsfiq.drawn import Garment, SimulatedAnnotator, generator
from hsfiq.drawn.reading import read, set_utility_as_read
from hsfiq.drawn.recognition import recognise
from hsfiq.simulate.client import CannotContinue, RefusedRequest, StudyClient
from hsfiq.simulate.entry import Destination, require_simulated

State = Literal["finished", "turned away", "failed"]

REASON = "said by a simulated annotator"
"""The reason that is given if the study asks for one."""

RELOAD_STATUSES = (403, 409, 410)
"""The statuses at which the page reloads the current step."""

NOT_FOUND = 404

MAX_REFUSALS = 3
"""A participant gives up after more refused answers in a row."""

_SUM = re.compile(r"(\d+) \+ (\d+)")


def sum_of(prompt: str) -> str:
    match = _SUM.search(prompt)
    return str(int(match[1]) + int(match[2])) if match else ""


@dataclass(slots=True)
class Outcome:
    """The result of one participant.

    Attributes:
        annotator: the true parameters.
        why: explains any other state than `finished`.
        answered: questions whose answers the server has acknowledged in this run.
        skipped: questions skipped because an image was missing or could not be fetched.
        refused: answers that the server refused; none of them is stored.
        checks: arithmetic checks passed.
    """

    annotator: SimulatedAnnotator
    state: State = "failed"
    why: str | None = None
    answered: int = 0
    skipped: int = 0
    refused: int = 0
    checks: int = 0
    code: str | None = None


@dataclass(slots=True)
class RecognisedImages:
    """The garment behind each token; participants share it, so each image is recognised once."""

    _garments: dict[str, Garment] = field(default_factory=dict)

    def garment(self, token: str, content: bytes) -> Garment:
        """The garment in an image; `UnreadableInput` if it is not of the drawn catalogue."""
        if token not in self._garments:
            self._garments[token] = recognise(content, f"image {token}")
        return self._garments[token]


class SimulatedParticipant:
    def __init__(
        self,
        annotator: SimulatedAnnotator,
        client: StudyClient,
        images: RecognisedImages,
        seed: int,
    ) -> None:
        self.outcome = Outcome(annotator)
        self.total = 0
        self.client = client
        self._annotator = annotator
        self._images = images
        self._seed = seed
        self._ties_allowed = False
        self._seen: dict[str, Garment] = {}

    def enter(self, destination: Destination, study: str) -> None:
        """Follow the personal link, or enrol unless a cookie shows that this is done."""
        if destination.link is not None:
            self.client.get(destination.link)
        elif not self.client.cookies:
            self.client.enrol(study)

    def answer_all(self, destination: Destination) -> None:
        """Consent, practise and answer until nothing is left; `outcome` records the result.

        Raises:
            UnreadableInput: the study is for people (nothing has been agreed to or answered then),
                or not on the drawn catalogue.
            RefusedRequest, CannotContinue: see `hsfiq.simulate.client`.
        """
        require_simulated(self.client.get("/"), destination.address)
        opening = self.client.open()
        self._ties_allowed = opening["study"]["ties_allowed"]
        view = opening["view"]
        refusals = 0
        while view["step"] != "done" and view["step"] != "farewell":
            try:
                view = self._step(view)
                refusals = 0
            except RefusedRequest as refusal:
                if refusal.status not in RELOAD_STATUSES or refusals == MAX_REFUSALS:
                    raise
                refusals += 1
                self.outcome.refused += view["step"] == "question"
                view = self.client.current_view()
        self.outcome.code = view.get("code") or None
        if view["step"] == "farewell":
            raise CannotContinue(f"the study is over for this participant ({view['kind']})")
        self.outcome.state = "finished"

    def _step(self, view: View) -> View:
        self.total = view["total"]
        if view["step"] == "consent":
            return self.client.consent()
        if view["step"] == "practice":
            return self.client.finish_practice()
        if view["step"] == "check":
            return self._check(view)
        if view["step"] != "question":
            raise CannotContinue(f"the page shows an unknown step {view['step']!r}")
        if view["earlier"] is not None:  # stored already, but the acknowledgement was lost
            return self.client.current_view()
        return self._judge(view)

    def _check(self, view: CheckView) -> View:
        given = sum_of(view["prompt"])
        reply = self.client.check({"assignment": view["assignment"], "given": given})
        if not reply["passed"]:
            raise CannotContinue(f"the answer {given!r} to {view['prompt']!r} was not accepted")
        self.outcome.checks += 1
        return reply["view"]

    def _judge(self, view: QuestionView) -> View:
        """Judge a question, wait as long as the annotator takes, submit."""
        begun = time.monotonic()
        rng = generator(self._seed, "answers", self._annotator.name, str(view["number"]))
        assignment, submit_key = view["assignment"], rng.randbytes(16).hex()
        images: ImagesPayload = {
            "reference": self._look(view["reference"]),
            "sets": [[self._look(image) for image in shown] for shown in view["sets"]],
        }
        if {images["reference"], *images["sets"][0], *images["sets"][1]} != {"shown"}:
            reply = self.client.submit(
                {
                    "assignment": assignment,
                    "submit_key": submit_key,
                    "skip": True,
                    "images": images,
                }
            )
            self.outcome.skipped += 1
            return reply["view"]
        answer = self._annotator.answer(
            rng,
            *self._utilities(view),
            ties_allowed=self._ties_allowed,
            progress=(view["number"] - 1) / max(1, view["total"] - 1),
        )
        seconds = answer.times.active_seconds or 0.0
        self.client.wait(begun + seconds / 2 - time.monotonic())
        first_interaction = time.monotonic()
        self.client.wait(begun + seconds - time.monotonic())
        payload = _payload(answer, begun, first_interaction, is_reason_asked=view["reason_asked"])
        reply = self.client.submit(
            {
                "assignment": assignment,
                "submit_key": submit_key,
                "answer": payload,
                "images": images,
            }
        )
        self.outcome.answered += 1
        return reply["view"]

    def _look(self, image: ImageView) -> ImageState:
        """Fetch an image, once, and recognise the garment in it."""
        token = image["token"]
        if image["missing"]:
            return "missing"
        if token not in self._seen:
            try:
                content = self.client.get(f"/image/{token}/full")
            except RefusedRequest as refusal:
                if refusal.status != NOT_FOUND:
                    raise
                return "unloaded"
            self._seen[token] = self._images.garment(token, content)
        return "shown"

    def _utilities(self, view: QuestionView) -> tuple[float, float]:
        readings = read(view["text"], self._seen[view["reference"]["token"]])
        first, second = (
            set_utility_as_read(readings, [self._seen[image["token"]] for image in images])
            for images in view["sets"]
        )
        return first, second


def _payload(
    answer: Answer, begun: float, first_interaction: float, *, is_reason_asked: bool
) -> AnswerPayload:
    """An answer as the page sends it, with the seconds that have really passed."""
    now = time.monotonic()
    return {
        "score_1": answer.score_1,
        "score_2": answer.score_2,
        "preferred": answer.preferred,
        "irrelevant": answer.irrelevant,
        "reason": REASON if is_reason_asked else None,
        "active_seconds": now - begun,
        "seconds_since_first_interaction": now - first_interaction,
    }
