"""A study's searches with their turns, as releases have them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, get_args

from hsfiq.answer_rules import ImageState
from hsfiq.db.search_tables import StudyRetriever
from hsfiq.study.searching.config import Searches
from hsfiq.text import shown

Stop = Literal["found", "found-other", "enough", "gave-up", "technical", "max-rounds", "idle"]

LONG_PAUSE = 30 * 60.0
"""Seconds away from the page after which a search counts as resumed."""

LATE = 8.0
"""As `hsfiq.collect.retrievers.TURN_TIMEOUT`, whose module needs an extra."""


@dataclass(frozen=True, slots=True)
class ListRow:
    """The list with which a system answered a turn; image ids are names."""

    image_ids: list[str]
    scores: list[float]
    listed_at: datetime
    retriever_seconds: float
    rank: int | None
    ties: int | None
    system_version: str
    corpus_sha256: str


@dataclass(frozen=True, slots=True)
class TurnRow:
    """A turn: what was asked, the lists, that of side 1 first, and the feedback on them.

    Image ids are names; `reference_id` is None if the text is about a picture that the participant
    has uploaded. `text` is None if the owner has struck it. The lists are not there, and what is
    feedback is None, if the search was stopped before.
    """

    turn: int
    reference_id: str | None
    text: str | None
    struck: bool
    from_query: bool
    repeats: bool
    pasted: bool | None
    asked_at: datetime
    first_key_seconds: float | None
    last_key_seconds: float | None
    lists: tuple[ListRow, ...] = ()
    satisfaction: int | None = None
    preference: int | None = None
    both_bad: bool | None = None
    nearest_list: int | None = None
    nearest_place: int | None = None
    image_states: Sequence[Sequence[ImageState]] | None = None
    painted_seconds: float | None = None
    active_seconds: float | None = None
    given_at: datetime | None = None

    @property
    def pause_seconds(self) -> float | None:
        """How long the participant was away from the page between the list and the feedback."""
        if self.listed_at is None or self.given_at is None or self.active_seconds is None:
            return None
        elapsed = (self.given_at - self.listed_at).total_seconds()
        return round(max(0.0, elapsed - self.active_seconds), 3)

    @property
    def last_at(self) -> datetime:
        """When the last of its events was stored."""
        return max(each for each in (self.asked_at, self.listed_at, self.given_at) if each)

    @property
    def is_late(self) -> bool:
        """Whether its list did not come while the page waited for the first answer."""
        return self.listed_at is None or self.listed_at - self.asked_at > timedelta(seconds=LATE)

    @property
    def text_normalised(self) -> str | None:
        return None if self.text is None else shown(self.text).lower()

    @property
    def words(self) -> int | None:
        return None if self.text is None else len(self.text.split())

    @property
    def nearest_id(self) -> str | None:
        if self.nearest_place is None or self.nearest_list is None:
            return None
        return self.lists[self.nearest_list - 1].image_ids[self.nearest_place - 1]

    @property
    def listed_at(self) -> datetime | None:
        return self.lists[0].listed_at if self.lists else None

    def of_list(self, side: int, name: str) -> Any:
        """A value of a list; None if the list is not there."""
        return getattr(self.lists[side - 1], name) if self.lists else None

    def states_of_list(self, side: int) -> list[ImageState] | None:
        return list(self.image_states[side - 1]) if self.image_states else None


@dataclass(frozen=True, slots=True)
class SearchRow:
    """A search. `place` counts the participant's searches from 1, `declared_list` the lists.

    `is_left`: if nobody has finished it, nobody will: the study is closed, the question is somebody
    else's by now, or more than the study's lease has passed since its last turn.
    """

    retrievers: tuple[StudyRetriever, ...]
    searches: Searches
    seed: int | None
    place: int
    turns: tuple[TurnRow, ...]
    ending: str | None
    declared_id: str | None
    declared_list: int | None
    ended_at: datetime | None
    is_left: bool = False
    uploaded: bool = False

    @property
    def longest_pause(self) -> float | None:
        return max((turn.pause_seconds or 0.0 for turn in self.turns), default=None)

    @property
    def resumed(self) -> bool | None:
        """Whether the participant went on after a long pause."""
        return None if self.longest_pause is None else self.longest_pause >= LONG_PAUSE

    @property
    def late_lists(self) -> int:
        return sum(turn.is_late for turn in self.turns)

    @property
    def systems(self) -> list[str]:
        """The names of the systems, that of side 1 first."""
        return [retriever.system.name for retriever in self.retrievers]

    def stop(self, target_id: str | None, why: str | None) -> Stop | None:
        """Why it stopped; only with a target can the declared image be the one."""
        if self.ending == "declared":
            is_target = self.searches.task != "own-wish" and self.declared_id == target_id
            return "found" if is_target else "found-other"
        if self.ending == "max-rounds":
            return "max-rounds"
        if why is None and self.ending is None and self.is_left:
            return "idle"
        known: Mapping[str, Stop] = {why: why for why in get_args(Stop)}
        return known.get(why or "")

    def missed(self, target_id: str | None) -> bool | None:
        """Whether a list had the target and the participant did not take it; None without one."""
        if self.searches.task == "own-wish" or target_id is None:
            return None
        shown_in = [
            turn.turn
            for turn in self.turns
            if any(target_id in listed.image_ids for listed in turn.lists)
        ]
        if self.declared_id == target_id:
            return shown_in != [len(self.turns)]
        return bool(shown_in)
