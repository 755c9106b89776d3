"""How simulated annotators search: they describe how what they look for differs from an image.

They look for the target, if the page shows it, or else for a wish of their own, and stop at an
image that is exactly that. Their texts leave differences out, as people's do (`write_captions`).
Between two lists they vote by how near the nearest image of each is, with the annotator's noise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from hsfiq.collect.protocol import ImageView, PlaceView, SearchTurnView, SearchView, View, VoteView
from hsfiq.drawn import Garment, SimulatedAnnotator, generator
from hsfiq.drawn.garments import ATTRIBUTES, VALUES, differences
from hsfiq.drawn.triplets import write_captions
from hsfiq.kinds.search import MOST_POINTS
from hsfiq.simulate.client import CannotContinue, StudyClient

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
    look: Callable[[ImageView], Garment]
    seed: int
    turns: int = 0
    _wanted: dict[int, Garment] = field(default_factory=dict)
    _attempts: int = 0

    def step(self, view: SearchView) -> View:
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

    def _get_list(self, view: SearchView) -> View:
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

    def _stop(self, view: SearchView, key: str, opinion: Any, declared: PlaceView | None) -> View:
        payload = {
            "assignment": view["assignment"],
            "submit_key": key,
            "opinion": opinion,
            "declared": declared,
        }
        return self.client.search("stop", payload)

    def _judge(self, view: SearchView, rng: Random, key: str) -> View:
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

    def _wanted_in(self, view: SearchView) -> Garment:
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

    def _lists(self, turn: SearchTurnView | None) -> list[list[Garment]]:
        lists = (turn["lists"] if turn else None) or ()
        return [[self.look(image) for image in images] for images in lists]

    def _garment_at(self, turn: SearchTurnView | None, at: PlaceView) -> Garment:
        return self._lists(turn)[at["list"] - 1][at["place"] - 1]

    def _nearest(self, turn: SearchTurnView, wanted: Garment) -> PlaceView | None:
        """The image with the fewest differences; None if all are of other kinds."""
        places: list[PlaceView] = [
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
        turn: SearchTurnView,
        nearest: PlaceView | None,
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

    def _vote(self, rng: Random, lists: list[list[Garment]], wanted: Garment) -> VoteView:
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
        self, view: SearchView, turn: SearchTurnView | None, nearest: PlaceView | None
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
