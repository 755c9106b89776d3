"""The record of a session, of simulators and of people.

A field at its default is unknown or does not apply, and is absent from files. Files of scripts,
which say what is asked but not what was found, have the same record without ranks and lists.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from hsfiq.errors import InvalidRecord

StopReason = Literal[
    "found", "found-other", "enough", "gave-up", "max-rounds", "no-feedback", "idle", "technical"
]
"""Why a session ended.

`found`: the target was in the list, or was declared; `found-other`: another image was declared;
`no-feedback`: the simulator had no text for the next round.
"""
STOP_REASONS: tuple[StopReason, ...] = get_args(StopReason)

Task = Literal["target-shown", "target-remembered", "own-wish"]
"""What a participant searches for: an image in view, one that was shown before, or a wish."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Corpus:
    """The images that are searched. `sha256` is that of their ids in order, one a line."""

    name: str
    size: int | None = None
    sha256: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """Why and after which round a session ended, and the image that a participant declared."""

    reason: StopReason
    round: int
    declared: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """What is asked in a round, and the list that answers it.

    Attributes:
        round: its number, from 1.
        reference: none where a search begins with a text alone.
        shown: the first images of the list, best first, with their `scores`.
        rank: of the best target: the images scored above it, those of its score earlier in the
            corpus, and 1.
        ties: how many other images have the target's score.
        candidate: the image that the next text is about: the reference of the next round.
        seconds: from the question to the list.
        is_repeated_text: the simulator had nothing to say, since the reference is a target, and
            repeated its last text.
        satisfaction: with the list, from 1 to 5.
        nearest: the image that the participant clicked as nearest to the target.
        active_seconds: that the participant spent on the list and the next text.
    """

    round: int
    reference: str | None = None
    text: str | None = None
    shown: tuple[str, ...] = ()
    scores: tuple[float, ...] = ()
    rank: int | None = None
    ties: int | None = None
    candidate: str | None = None
    seconds: float | None = None
    is_repeated_text: bool = False
    satisfaction: int | None = None
    nearest: str | None = None
    active_seconds: float | None = None

    def __post_init__(self) -> None:
        for name, least in (("round", 1), ("rank", 1), ("ties", 0), ("seconds", 0)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise InvalidRecord(f"{name} {value} of round {self.round} is below {least}")
        if self.scores and len(self.scores) != len(self.shown):
            raise InvalidRecord(
                f"round {self.round} shows {len(self.shown)} images with {len(self.scores)} scores"
            )
        if len(set(self.shown)) < len(self.shown):
            raise InvalidRecord(f"round {self.round} shows an image twice")


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """One search for one query.

    Attributes:
        query_id: people and systems that searched for the same query are compared.
        system: none in a script.
        system_version: sha256 of the checkpoint.
        simulator: who gave the texts; none if people did.
        simulator_version: the model and the sha256 of the prompts of a language model.
        history: how the queries of all rounds are combined.
        chooser: which image of a list the next text is about.
        category: the dataset's category or subset.
        targets: the images that are searched for, the first one being the dataset's target.
        excluded: images that are no candidates in any round.
        stop_at: a session ends when the rank is this or better; none if it goes on.
        max_rounds: the number of rounds after which a session ends.
        is_simulated: the texts are those of a simulated participant, or a script's that a
            simulator or a language model gave.
        place: which of the participant's sessions it is, from 1.
        satisfaction, ease: from 1 to 5, at the end.
    """

    session_id: str
    query_id: str
    rounds: tuple[Round, ...]
    system: str | None = None
    system_version: str | None = None
    simulator: str | None = None
    simulator_version: str | None = None
    history: str | None = None
    chooser: str | None = None
    corpus: Corpus | None = None
    category: str | None = None
    seed: int | None = None
    targets: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    stop_at: int | None = None
    max_rounds: int | None = None
    stop: Stop | None = None
    participant: str | None = None
    study: str | None = None
    task: Task | None = None
    is_practice: bool = False
    is_simulated: bool = False
    place: int | None = None
    satisfaction: int | None = None
    ease: int | None = None
    would_go_on: bool | None = None
    active_seconds: float | None = None

    def __post_init__(self) -> None:
        if not self.session_id or not self.query_id:
            raise InvalidRecord("a session needs a session_id and a query_id")
        if not self.rounds:
            raise InvalidRecord(f"session {self.session_id} has no round")
        if [each.round for each in self.rounds] != list(range(1, len(self.rounds) + 1)):
            raise InvalidRecord(f"the rounds of session {self.session_id} are not numbered 1, 2, …")
        if self.stop is not None and self.stop.round != len(self.rounds):
            raise InvalidRecord(
                f"session {self.session_id} has {len(self.rounds)} rounds, but stops after "
                f"round {self.stop.round}"
            )
        for name in ("stop_at", "max_rounds", "place"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InvalidRecord(f"{name} {value} of session {self.session_id} is below 1")

    @property
    def final_rank(self) -> int | None:
        """The target's rank in the last round."""
        return self.rounds[-1].rank


SCRIPTED = "scripted"
"""The simulator that gives the texts of a script, which may be people's."""


def has_simulated_texts(session: Session) -> bool:
    """Whether the texts are known not to be people's."""
    return session.is_simulated or session.simulator not in (None, SCRIPTED)


def references(rounds: Sequence[Round]) -> tuple[str, ...]:
    """The images that the texts of these rounds are about."""
    return tuple(each.reference for each in rounds if each.reference is not None)
