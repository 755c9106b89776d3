"""One simulated participant, from enrolment to the completion code."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from random import Random
from typing import Any, Literal

from hsfiq.answer_rules import ImageState
from hsfiq.collect import protocol
from hsfiq.drawn import Garment, SimulatedAnnotator, generator
from hsfiq.drawn.garments import ATTRIBUTES, VALUES, differences
from hsfiq.drawn.pictures import recognize
from hsfiq.drawn.triplets import DrawnTriplet, write_captions
from hsfiq.drawn.utility import read, set_utility_as_read, utility
from hsfiq.errors import UnreadableInput
from hsfiq.kinds import KINDS, Rules
from hsfiq.kinds.search import MOST_POINTS
from hsfiq.simulate.client import (
    CannotContinue,
    Destination,
    RefusedRequest,
    StudyClient,
    require_simulated,
)

# How a participant searches: they describe how what they look for differs from an image.
#
# They look for the target, if the page shows it, or else for a wish of their own, and stop at an
# image that is exactly that. Their texts leave differences out, as people's do (`write_captions`).
# Between two lists they vote by how near the nearest image of each is, with the annotator's noise.

N_WISHED = 2
"""How many attributes of the first image a wish changes."""

PAUSE = 1.0
"""Seconds between two attempts while the retriever does not answer; the page waits for longer."""

MOST_ATTEMPTS = 120

BAD = 0.5
"""Neither list is good if the nearest images of both are less like the wish than this."""


@dataclass(slots=True)
class SearchingParticipant:
    """The searches of one participant.

    Attributes:
        look: fetches an image, once, and recognizes the garment in it.
        turns: texts that the server has acknowledged.
    """

    annotator: SimulatedAnnotator
    client: StudyClient
    look: Callable[[protocol.ImageView], Garment]
    seed: int
    turns: int = 0
    _wanted: dict[int, Garment] = field(default_factory=dict)
    _attempts: int = 0

    def step(self, view: protocol.SearchView) -> protocol.View:
        """Do what the page asks for next."""
        if view["awaits_list"]:
            return self._get_list(view)
        rng = generator(
            self.seed,
            "search",
            self.annotator.name,
            f"{view['number']}.{len(view['turns'])}.{view['ending'] or ''}",
        )
        key = rng.randbytes(16).hex()
        if view["ending"] is not None:
            return self._judge(view, rng, key)
        wanted = self._wanted_in(view)
        last = view["turns"][-1] if view["turns"] else None
        nearest = None if last is None else self._nearest(last, wanted)
        seconds = self.annotator.seconds(rng)
        self.client.wait(seconds)
        opinion = None if last is None else self._opinion(rng, last, nearest, wanted, seconds)
        if nearest is not None and self._garment_at(last, nearest) == wanted:
            return self._stop(view, key, opinion, nearest)
        reference = self._reference(view, last, nearest)
        if len(view["turns"]) >= view["rounds"] or reference in (None, wanted):
            return self._stop(view, key, opinion, None)
        captions = write_captions(rng, reference or wanted, wanted).texts
        text = rng.choice([captions[0], captions[1], " and ".join(captions)])
        typed = {
            "text": text,
            "pasted": False,
            "first_key_seconds": seconds / 2,
            "last_key_seconds": seconds,
        }
        payload = {
            "assignment": view["assignment"],
            "submit_key": key,
            "opinion": opinion,
            "typed": typed,
        }
        following = self.client.search("turn", payload)
        self.turns += 1
        return following

    def _get_list(self, view: protocol.SearchView) -> protocol.View:
        self._wanted_in(view)  # a remembered target is shown only now
        following = self.client.search("list", {"assignment": view["assignment"]})
        if following["step"] == "search" and following["is_unavailable"]:
            self._attempts += 1
            if self._attempts == MOST_ATTEMPTS:
                raise CannotContinue("the retriever does not answer")
            self.client.wait(PAUSE)
        else:
            self._attempts = 0
        return following

    def _stop(
        self, view: protocol.SearchView, key: str, opinion: Any, declared: protocol.PlaceView | None
    ) -> protocol.View:
        payload = {
            "assignment": view["assignment"],
            "submit_key": key,
            "opinion": opinion,
            "declared": declared,
        }
        return self.client.search("stop", payload)

    def _judge(self, view: protocol.SearchView, rng: Random, key: str) -> protocol.View:
        success = MOST_POINTS if view["ending"] == "declared" else rng.randint(1, 3)
        judgement = {
            "success": success,
            "ease": max(1, MOST_POINTS + 1 - len(view["turns"])),
            "would_go_on": view["ending"] == "max-rounds",
            "why": "gave-up" if view["ending"] == "stopped" else None,
        }
        answer = {
            "judgement": judgement,
            "irrelevant": False,
            "reason": None,
            "active_seconds": 0.0,
            "seconds_since_first_interaction": None,
        }
        payload: Any = {
            "assignment": view["assignment"],
            "submit_key": key,
            "answer": answer,
            "images": {"reference": "shown", "sets": []},
        }
        return self.client.submit(payload)["view"]

    def _wanted_in(self, view: protocol.SearchView) -> Garment:
        """What the participant looks for: the target while it is shown, or else a wish."""
        number, target = view["number"], view["target"]
        if number not in self._wanted:
            start = self.look(view["start"])
            self._wanted[number] = (
                self._wish(number, start) if target is None else self.look(target)
            )
        return self._wanted[number]

    def _wish(self, number: int, start: Garment) -> Garment:
        rng = generator(self.seed, "wish", self.annotator.name, str(number))
        changed = rng.sample(("colour", "sleeve", "pattern", "neckline"), N_WISHED)
        others = {
            name: rng.choice([value for value in VALUES[name] if value != start.value(name)])  # type: ignore[index, arg-type]
            for name in changed
        }
        return replace(start, **others)  # type: ignore[arg-type]  # checked by Garment

    def _lists(self, turn: protocol.SearchTurnView | None) -> list[list[Garment]]:
        lists = (turn["lists"] if turn else None) or ()
        return [[self.look(image) for image in images] for images in lists]

    def _garment_at(self, turn: protocol.SearchTurnView | None, at: protocol.PlaceView) -> Garment:
        return self._lists(turn)[at["list"] - 1][at["place"] - 1]

    def _nearest(self, turn: protocol.SearchTurnView, wanted: Garment) -> protocol.PlaceView | None:
        """The image with the fewest differences; None if all are of other kinds."""
        places: list[protocol.PlaceView] = [
            {"list": side, "place": place}
            for side, garments in enumerate(self._lists(turn), start=1)
            for place, garment in enumerate(garments, start=1)
            if garment.category == wanted.category
        ]
        return min(
            places,
            key=lambda at: len(differences(self._garment_at(turn, at), wanted)),
            default=None,
        )

    def _opinion(
        self,
        rng: Random,
        turn: protocol.SearchTurnView,
        nearest: protocol.PlaceView | None,
        wanted: Garment,
        seconds: float,
    ) -> dict[str, Any]:
        lists = self._lists(turn)
        is_vote = len(lists) > 1
        n_different = (
            MOST_POINTS
            if nearest is None
            else len(differences(self._garment_at(turn, nearest), wanted))
        )
        return {
            "satisfaction": None if is_vote else max(1, MOST_POINTS - n_different),
            "vote": self._vote(rng, lists, wanted) if is_vote else None,
            "nearest": nearest,
            "images": [["shown"] * len(garments) for garments in lists],
            "painted_seconds": 0.0,
            "active_seconds": seconds,
        }

    def _vote(self, rng: Random, lists: list[list[Garment]], wanted: Garment) -> protocol.VoteView:
        first, second = (
            max(likeness(garment, wanted) for garment in garments) for garments in lists
        )
        preference = self.annotator.answer(rng, first, second, ties_allowed=True).values[
            "preferred"
        ]
        return {
            "preference": preference,
            "both_bad": preference == 0 and max(first, second) < BAD,
        }

    def _reference(
        self,
        view: protocol.SearchView,
        turn: protocol.SearchTurnView | None,
        nearest: protocol.PlaceView | None,
    ) -> Garment | None:
        """The garment that the next text is about, as the server chooses it; None if of no use."""
        if turn is None:
            return self.look(view["start"])
        if view["chooser"] == "top1":
            chosen = self._lists(turn)[0][0]
        elif nearest is None:
            chosen = self.look(turn["reference"])
        else:
            chosen = self._garment_at(turn, nearest)
        return chosen if chosen.category == self._wanted_in(view).category else None


def likeness(garment: Garment, wanted: Garment) -> float:
    """The share of the attributes that are as wanted; 0 for another category."""
    if garment.category != wanted.category:
        return 0.0
    return 1 - len(differences(garment, wanted)) / len(ATTRIBUTES)


# How simulated annotators answer the owner's extra questions: at random, and not all of them.

TEXT = "written by a simulated annotator"

_SHARE_LEFT = 0.1  # of the answers that are not required


def answer_extra(
    rng: Random, questions: Sequence[protocol.ExtraQuestionView]
) -> dict[str, protocol.ExtraAnswer]:
    return {
        question["name"]: random_answer(rng, question)
        for question in questions
        if question["required"] or rng.random() >= _SHARE_LEFT
    }


def random_answer(rng: Random, question: protocol.ExtraQuestionView) -> protocol.ExtraAnswer:
    numbers = range(1, len(question["options"]) + 1)
    if question["type"] == "text":
        return TEXT
    if question["type"] == "number":
        return random_number(rng, question)
    options: list[int | str] = [*numbers, *([TEXT] if question["other"] else [])]
    if question["type"] == "choices":
        return rng.sample(options, rng.randint(1, len(options)))
    return rng.choice(options)


def random_number(rng: Random, question: protocol.ExtraQuestionView) -> float:
    """A number from 18 to 80, moved into the question's bounds."""
    number: float = rng.randint(18, 80)
    if question["min"] is not None:
        number = max(number, question["min"])
    return number if question["max"] is None else min(number, question["max"])


# What an annotator sees of a question.


@dataclass(frozen=True, slots=True)
class JudgedQuestion:
    """A question as it is shown.

    Attributes:
        readings: the triplets that the text may mean.
        sets: the garments of each set's images, in the order shown.
        progress: 0 at the first question and 1 at the last.
    """

    rules: Rules
    readings: Sequence[DrawnTriplet]
    sets: Sequence[Sequence[Garment]]
    progress: float

    def utilities(self) -> list[float]:
        return [set_utility_as_read(self.readings, garments) for garments in self.sets]

    def image_utilities(self) -> list[list[float]]:
        return [
            [max(utility(read, garment) for read in self.readings) for garment in garments]
            for garments in self.sets
        ]


def rules_of_page(study: protocol.StudyInfo, shown: Sequence[Sequence[object]]) -> Rules:
    """What the page allows in an answer to a question about these sets."""
    return Rules(
        points=study["points"],
        k=len(shown[0]) if shown else 0,
        n_sets=len(shown),
        ties=study["ties_allowed"],
        levels=study["levels"],
        confirm_difference=study["confirm_difference"],
    )


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
        turns: texts of searches that the server has acknowledged.
    """

    annotator: SimulatedAnnotator
    state: State = "failed"
    why: str | None = None
    answered: int = 0
    skipped: int = 0
    refused: int = 0
    checks: int = 0
    turns: int = 0
    code: str | None = None


@dataclass(slots=True)
class RecognisedImages:
    """The garment of each image; participants share it, so each image is recognized once.

    The address of an image begins with the same token for all participants.
    """

    _garments: dict[str, Garment] = field(default_factory=dict)

    def garment(self, address: str, content: bytes) -> Garment:
        """The garment in an image; `UnreadableInput` if it is not of the drawn catalogue."""
        token = address.partition(".")[0]
        if token not in self._garments:
            self._garments[token] = recognize(content, f"image {token}")
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
        self._study: protocol.StudyInfo | None = None
        self._seen: dict[str, Garment] = {}
        self._searches = SearchingParticipant(annotator, client, self._garment, seed)

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
        self._study = opening["study"]
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

    def _step(self, view: protocol.View) -> protocol.View:
        self.total = view["total"]
        if view["step"] == "consent":
            return self.client.consent()
        if view["step"] == "practice":
            return self.client.finish_practice()
        if view["step"] == "check":
            return self._check(view)
        if view["step"] == "questionnaire":
            return self._answer_questionnaire(view)
        if view["step"] == "search":
            return self._search(view)
        if view["step"] == "question":
            return self._judge(view)
        raise CannotContinue(f"the page shows an unknown step {view['step']!r}")

    def _search(self, view: protocol.SearchView) -> protocol.View:
        """Do the next step of a search; one that is over and judged needs none."""
        if view["earlier"] is not None:
            return self.client.current_view()
        following = self._searches.step(view)
        self.outcome.turns = self._searches.turns
        self.outcome.answered += view["ending"] is not None
        return following

    def _garment(self, image: protocol.ImageView) -> Garment:
        if self._look(image) != "shown":
            raise UnreadableInput("an image of a search", "is missing", "check the image folder")
        return self._seen[image["token"]]

    def _check(self, view: protocol.CheckView) -> protocol.View:
        given = sum_of(view["prompt"])
        reply = self.client.check({"assignment": view["assignment"], "given": given})
        if not reply["passed"]:
            raise CannotContinue(f"the answer {given!r} to {view['prompt']!r} was not accepted")
        self.outcome.checks += 1
        return reply["view"]

    def _answer_questionnaire(self, view: protocol.QuestionnaireView) -> protocol.View:
        rng = generator(self._seed, "questionnaire", self._annotator.name)
        answers = answer_extra(rng, view["questions"])
        return self.client.answer_questionnaire(
            {"assignment": view["assignment"], "answers": answers}
        )

    def _judge(self, view: protocol.QuestionView) -> protocol.View:
        """Judge a question, wait as long as the annotator takes, submit."""
        if view["earlier"] is not None:  # stored already, but the acknowledgement was lost
            return self.client.current_view()
        begun = time.monotonic()
        rng = generator(self._seed, "answers", self._annotator.name, str(view["number"]))
        assignment, submit_key = view["assignment"], rng.randbytes(16).hex()
        reference = view["reference"]
        images: protocol.ImagesPayload = {
            "reference": self._look(reference) if reference else None,
            "sets": [[self._look(image) for image in shown] for shown in view["sets"]],
        }
        states = {images["reference"], *chain.from_iterable(images["sets"])}
        if states - {"shown", None}:
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
        given, seconds = self._answer(rng, view)
        self.client.wait(begun + seconds / 2 - time.monotonic())
        first_interaction = time.monotonic()
        self.client.wait(begun + seconds - time.monotonic())
        now = time.monotonic()
        payload: Any = {
            **given,
            **self._extra(view),
            "reason": REASON if view["reason_asked"] else None,
            "active_seconds": now - begun,  # the seconds that have really passed
            "seconds_since_first_interaction": now - first_interaction,
        }
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

    def _extra(self, view: protocol.QuestionView) -> dict[str, Any]:
        """The answers to the owner's extra questions; nothing if there are none."""
        questions = self._opened()["extra_questions"]
        if not questions:
            return {}
        rng = generator(self._seed, "extra", self._annotator.name, str(view["number"]))
        return {"extra": answer_extra(rng, questions)}

    def _opened(self) -> protocol.StudyInfo:
        if self._study is None:
            raise CannotContinue("the study's page has not been opened")
        return self._study

    def _answer(self, rng: Random, view: protocol.QuestionView) -> tuple[dict[str, Any], float]:
        """What is answered, as the page sends it, and the seconds that it takes."""
        kind = KINDS[self._opened()["kind"]]
        if kind.simulated is None:
            raise CannotContinue(f"nothing simulates answers of kind {kind.name}")
        answer = kind.simulated(self._annotator, rng, self._question(view))
        given = {"judgement": dict(answer.values), "irrelevant": bool(answer.irrelevant)}
        return given, answer.times.active_seconds or 0.0

    def _question(self, view: protocol.QuestionView) -> JudgedQuestion:
        reference = view["reference"]
        if reference is None or not view["text"]:
            raise UnreadableInput(
                f"question {view['number']}",
                f"has no {'text' if reference else 'reference image'}",
                "simulated annotators judge only queries of the drawn catalogue, with both",
            )
        return JudgedQuestion(
            rules=rules_of_page(self._opened(), view["sets"]),
            readings=read(view["text"], self._seen[reference["token"]]),
            sets=[[self._seen[image["token"]] for image in images] for images in view["sets"]],
            progress=(view["number"] - 1) / max(1, view["total"] - 1),
        )

    def _look(self, image: protocol.ImageView) -> ImageState:
        """Fetch an image, once, and recognize the garment in it."""
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
