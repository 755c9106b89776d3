"""Searches over several turns: `[searches]` of a study, and the rows of each search in releases."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, get_args

from hsfiq.answer_rules import ImageState
from hsfiq.text import shown

if TYPE_CHECKING:
    from hsfiq.db.search_tables import StudyRetriever

# `[searches]`: what participants look for, and with what.

Task = Literal["target-shown", "target-remembered", "own-wish"]
Chooser = Literal["nearest", "top1"]

Leaderboard = Literal["owner", "after-end", "public"]

History = Literal["mean", "last", "rocchio"]
"""As in `hsfiq.live`, which the core install cannot import."""

LONGEST_NAME = 200
"""Characters of a system's name."""


@dataclass(frozen=True, slots=True)
class Retriever:
    """`[[searches.retrievers]]`: a system that answers at an address.

    `name` is the system's in releases. `token_variable` names the environment variable that holds
    the server's token, "" if the server needs none.
    """

    name: str
    url: str
    token_variable: str = ""


@dataclass(frozen=True, slots=True)
class Searches:
    """`[searches]`: a search of several turns; `[design] k` images are in each list.

    A participant has `questions_per_form` searches in each form. In a study of kind `search`, each
    query is searched for with each retriever, by `annotators_per_query` participants each; in one
    of kind `arena`, by as many participants in all, each with two retrievers.

    Attributes:
        task: the participant sees the target all the time, or for `target_seconds` before the
            search, or has a wish of their own and starts from the query's reference.
        rounds: the most lists of a search.
        history: how a retriever combines the turns.
        chooser: the image that a text is about: the participant's `nearest`, or the first (`top1`).
        leaderboard: who sees that of an arena: its `owner`, everybody `after-end`, when the study
            is closed, or everybody at any time (`public`).
        uploads: whether the participant may start from a picture of their own, in `own-wish`.
    """

    task: Task = "target-shown"
    target_seconds: int = 10
    rounds: int = 5
    history: History = "mean"
    chooser: Chooser = "nearest"
    leaderboard: Leaderboard = "owner"
    uploads: bool = False
    retrievers: tuple[Retriever, ...] = ()


def retriever_errors(searches: Searches, n_live: int) -> Iterator[tuple[str, str]]:
    """The errors of the retrievers, by the key of study.toml; `n_live` are needed."""
    if not searches.retrievers:
        yield "searches.retrievers", "is missing; a search needs a live retriever"
    elif len(searches.retrievers) < n_live:
        yield "searches.retrievers", f"an arena needs {n_live} live retrievers or more"
    counts = Counter(retriever.name for retriever in searches.retrievers)
    for number, retriever in enumerate(searches.retrievers, start=1):
        key = f"searches.retrievers.{number}"
        if not retriever.name.strip() or len(retriever.name) > LONGEST_NAME:
            yield f"{key}.name", f"must have 1 to {LONGEST_NAME} characters"
        elif counts[retriever.name] > 1:
            yield f"{key}.name", f"{retriever.name!r} is also the name of another retriever"
        if not re.fullmatch(r"https?://[^\s/@]+\S*", retriever.url):
            yield f"{key}.url", f"{retriever.url!r} is not an http(s) address without a password"
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*|", retriever.token_variable):
            what = f"{retriever.token_variable!r} is not the name of an environment variable"
            yield f"{key}.token_variable", what


# A study's searches with their turns, as releases have them.

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
        """The participant's time away from the page between the list and the feedback."""
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
