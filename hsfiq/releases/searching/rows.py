"""A study's searches with their turns, read from the database."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, get_args

from sqlalchemy import Select, select
from sqlalchemy.orm import Session

from hsfiq.answer_rules import ImageState, ImageStates
from hsfiq.db.searches.tables import (
    SearchEnding,
    SearchFeedback,
    SearchItem,
    SearchList,
    SearchTurn,
    SearchUpload,
    StruckText,
    StudyRetriever,
)
from hsfiq.db.tables import Form, Image, Pair, Question, Study
from hsfiq.study.config import config_of
from hsfiq.study.searching.config import Searches
from hsfiq.text import shown

Stop = Literal["found", "found-other", "enough", "gave-up", "technical", "max-rounds", "idle"]

LONG_PAUSE = 30 * 60.0
"""Seconds away from the page after which a search counts as resumed."""

LATE = 8.0
"""As `hsfiq.collect.searching.asking.TIMEOUT`, whose module needs an extra."""

KEYS_AT_ONCE = 10_000


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
    seed: int
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


def read_searches(session: Session, study: Study) -> dict[int, SearchRow]:
    """The searches of the study's assigned questions, by the question's database key."""
    retrievers = {
        retriever.system_id: retriever
        for retriever in session.scalars(
            select(StudyRetriever).where(StudyRetriever.study_id == study.id)
        )
    }
    if not retrievers:
        return {}
    config = config_of(study)
    turns = read_turns(session, study)
    endings = {
        ending.question_id: ending
        for ending in session.scalars(
            select(SearchEnding).where(SearchEnding.question_id.in_(questions_of(study)))
        )
    }
    declared = {ending.declared_id for ending in endings.values() if ending.declared_id}
    names = image_names(session, declared)
    uploaded = set(
        session.scalars(
            select(SearchUpload.question_id).where(
                SearchUpload.question_id.in_(questions_of(study))
            )
        )
    )
    over = last_left(study, config.design.lease_minutes, turns)
    systems = systems_of(session, study)
    rows = session.execute(
        select(Question.id, Question.reassigned, Question.pair_id, Form.participant_id)
        .join(Form, Question.form_id == Form.id)
        .where(Form.study_id == study.id, Form.participant_id.is_not(None))
        .order_by(Form.participant_id, Form.position, Question.place)
    )
    places: dict[int | None, int] = defaultdict(int)
    searches = {}
    for question, reassigned, pair, participant in rows:
        places[participant] += 1
        own = tuple(turns.get(question, ()))
        ending = endings.get(question)
        searches[question] = SearchRow(
            retrievers=tuple(retrievers[system] for system in systems[pair]),
            searches=config.searches,
            seed=config.design.seed,
            place=places[participant],
            turns=own,
            ending=ending.reason if ending else None,
            declared_id=names.get(ending.declared_id or 0) if ending else None,
            declared_list=ending.declared_side if ending else None,
            ended_at=ending.ended_at if ending else None,
            is_left=bool(own) and (reassigned or over is None or own[-1].last_at < over),
            uploaded=question in uploaded,
        )
    return searches


def last_left(
    study: Study, lease_minutes: int, turns: Mapping[int, Sequence[TurnRow]]
) -> datetime | None:
    """Searches whose last turn is older are left; None if all are.

    It depends on what is stored alone, not on the clock: the lease counts back from the study's
    last turn.
    """
    times = [own[-1].last_at for own in turns.values()]
    if study.status == "closed" or not times:
        return None
    return max(times) - timedelta(minutes=lease_minutes)


def systems_of(session: Session, study: Study) -> dict[int, list[int]]:
    """The keys of the systems of the study's pairs, by the pair's key, that of side 1 first."""
    rows = session.execute(
        select(SearchItem.pair_id, SearchItem.system_id)
        .join(Pair, SearchItem.pair_id == Pair.id)
        .where(Pair.study_id == study.id)
        .order_by(SearchItem.pair_id, SearchItem.side)
    )
    systems: dict[int, list[int]] = defaultdict(list)
    for pair, system in rows:
        systems[pair].append(system)
    return systems


def read_turns(session: Session, study: Study) -> dict[int, list[TurnRow]]:
    """The turns of the study's questions, by the question's database key."""
    rows = session.execute(
        select(SearchTurn, SearchFeedback, StruckText.turn_id)
        .outerjoin(SearchFeedback, SearchFeedback.turn_id == SearchTurn.id)
        .outerjoin(StruckText, StruckText.turn_id == SearchTurn.id)
        .where(SearchTurn.question_id.in_(questions_of(study)))
        .order_by(SearchTurn.question_id, SearchTurn.number)
    ).all()
    listed: dict[int, list[SearchList]] = defaultdict(list)
    for each in session.scalars(
        select(SearchList)
        .join(SearchTurn, SearchList.turn_id == SearchTurn.id)
        .where(SearchTurn.question_id.in_(questions_of(study)))
        .order_by(SearchList.turn_id, SearchList.side)
    ):
        listed[each.turn_id].append(each)
    keys = {turn.reference_id for turn, *_ in rows if turn.reference_id is not None}
    keys.update(key for lists in listed.values() for each in lists for key in each.image_ids)
    names = image_names(session, keys)
    turns: dict[int, list[TurnRow]] = defaultdict(list)
    texts: dict[int, set[str]] = defaultdict(set)
    for turn, feedback, struck in rows:
        earlier_texts = texts[turn.question_id]
        turns[turn.question_id].append(
            turn_row(
                turn,
                listed[turn.id],
                feedback,
                names,
                struck=struck is not None,
                earlier_texts=earlier_texts,
            )
        )
        earlier_texts.add(normalised(turn.text))
    return turns


def turn_row(
    turn: SearchTurn,
    lists: Sequence[SearchList],
    feedback: SearchFeedback | None,
    names: Mapping[int, str],
    *,
    struck: bool,
    earlier_texts: set[str],
) -> TurnRow:
    return TurnRow(
        turn=turn.number,
        reference_id=None if turn.reference_id is None else names[turn.reference_id],
        text=None if struck else turn.text,
        struck=struck,
        from_query=turn.submit_key == "query",
        repeats=normalised(turn.text) in earlier_texts,
        pasted=turn.pasted,
        asked_at=turn.asked_at,
        first_key_seconds=turn.first_key_seconds,
        last_key_seconds=turn.last_key_seconds,
        lists=tuple(list_row(listed, names) for listed in lists),
        **({} if feedback is None else feedback_columns(feedback)),
    )


def list_row(listed: SearchList, names: Mapping[int, str]) -> ListRow:
    return ListRow(
        image_ids=[names[key] for key in listed.image_ids],
        scores=listed.scores,
        listed_at=listed.listed_at,
        retriever_seconds=listed.seconds,
        rank=listed.rank,
        ties=listed.ties,
        system_version=listed.system_version,
        corpus_sha256=listed.corpus_sha256,
    )


def feedback_columns(feedback: SearchFeedback) -> dict[str, Any]:
    return {
        "satisfaction": feedback.satisfaction,
        "preference": feedback.preference,
        "both_bad": feedback.both_bad,
        "nearest_list": feedback.nearest_side,
        "nearest_place": feedback.nearest,
        "image_states": ImageStates.from_letters(feedback.images).sets,
        "painted_seconds": feedback.painted_seconds,
        "active_seconds": feedback.active_seconds,
        "given_at": feedback.given_at,
    }


def normalised(text: str) -> str:
    return shown(text).lower()


def questions_of(study: Study) -> Select[int]:
    """Select the keys of the study's questions."""
    return (
        select(Question.id).join(Pair, Question.pair_id == Pair.id).where(Pair.study_id == study.id)
    )


def image_names(session: Session, keys: Set[int]) -> dict[int, str]:
    """In parts: a statement of PostgreSQL takes at most 65,535 values."""
    ordered = sorted(keys)
    names: dict[int, str] = {}
    for start in range(0, len(ordered), KEYS_AT_ONCE):
        part = ordered[start : start + KEYS_AT_ONCE]
        names.update(session.execute(select(Image.id, Image.name).where(Image.id.in_(part))).all())
    return names
