"""A participant's search: its turns so far, and storing the next step.

The caller's `Database.writing` block is the transaction, in which the participant and the question
are locked. Rows are only added. A request that is repeated with its submit key stores nothing new.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from sqlalchemy import select
from sqlalchemy.orm import Session

from hsfiq.answer_rules import Answer, ImageState, ImageStates
from hsfiq.collect.leases import extend_lease
from hsfiq.collect.participants import require_active
from hsfiq.collect.responses import Skip
from hsfiq.collect.steps import require_reached
from hsfiq.db.searches.tables import SearchEnding, SearchFeedback, SearchList, SearchTurn
from hsfiq.db.tables import Image, Participant, Question, Triplet
from hsfiq.errors import Conflict, Forbidden, Refused
from hsfiq.kinds import Judgement
from hsfiq.kinds.search import POINTS
from hsfiq.study.config import config_of
from hsfiq.study.searching.config import Searches
from hsfiq.text import is_storable_text

LONGEST_TEXT = 400
"""Characters of a turn's text."""

OF_QUERY = "query"
"""The submit key of a first turn whose text is the query's."""

SLACK = 2.0
"""Seconds by which a remembered target may be shown longer, while its image loads."""


@dataclass(frozen=True, slots=True)
class Opinion:
    """What the page sends of a list; `nearest` is a place from 1, None if no image is nearer."""

    satisfaction: int
    nearest: int | None
    images: tuple[ImageState, ...]
    painted_seconds: float | None
    active_seconds: float


@dataclass(frozen=True, slots=True)
class Typed:
    """A text, and how it was typed; seconds from when the list was painted."""

    text: str
    pasted: bool
    first_key_seconds: float | None
    last_key_seconds: float | None


@dataclass(frozen=True, slots=True)
class Turn:
    """A turn with its list and its feedback, as far as they are there."""

    asked: SearchTurn
    listed: SearchList | None
    feedback: SearchFeedback | None


@dataclass(frozen=True, slots=True)
class SearchState:
    """A question of kind `search` as it stands."""

    question: Question
    turns: tuple[Turn, ...]
    ending: SearchEnding | None

    @property
    def triplet(self) -> Triplet:
        return self.question.pair.query.triplet

    @property
    def first_text(self) -> str:
        """The text of the first turn if it is the query's; "" if the participant writes it."""
        is_own = searches_of(self.question).task == "own-wish"
        return "" if is_own else self.question.pair.query.text

    @property
    def awaits_list(self) -> bool:
        """Whether a list comes next; before the first turn, that of the query's text."""
        if not self.turns:
            return bool(self.first_text.strip())
        return self.turns[-1].listed is None


def state_of(session: Session, question_id: int) -> SearchState:
    rows = session.execute(
        select(SearchTurn, SearchList, SearchFeedback)
        .outerjoin(SearchList, SearchList.turn_id == SearchTurn.id)
        .outerjoin(SearchFeedback, SearchFeedback.turn_id == SearchTurn.id)
        .where(SearchTurn.question_id == question_id)
        .order_by(SearchTurn.number)
    )
    return SearchState(
        session.get_one(Question, question_id),
        tuple(Turn(asked, listed, feedback) for asked, listed, feedback in rows),
        session.get(SearchEnding, question_id),
    )


def begin(session: Session, question_id: int, now: datetime) -> SearchState:
    """The search; the first turn is stored if the query's text is asked and has not been."""
    state = state_of(session, question_id)
    if state.turns or not state.awaits_list:
        return state
    add_turn(session, state, OF_QUERY, reference_of(state), state.first_text, now)
    return state_of(session, question_id)


def ask(
    session: Session,
    participant: Participant,
    state: SearchState,
    *,
    opinion: Opinion | None,
    typed: Typed,
    expected_turns: int,
    submit_key: str,
    now: datetime,
    language: str | None = None,
    text_version: int | None = None,
) -> None:
    """Store the feedback on the last list, and the text of the next turn.

    Raises:
        Forbidden: the participant is not at this question.
        NotOpen: the study takes no answers.
        Conflict: another tab has gone on since the page was loaded.
        Refused: a value is not valid, or no turn is left.
    """
    require_reached(session, participant, state.question.id)
    if any(turn.asked.submit_key == submit_key for turn in state.turns):
        return
    require_same(participant, state, expected_turns)
    if state.awaits_list:
        raise Conflict("the list of this turn is not there yet")
    searches = searches_of(state.question)
    if len(state.turns) >= searches.rounds:
        raise Refused(f"this search has {searches.rounds} lists at most")
    require_text(typed)
    reference = next_reference(searches, state, opinion)
    add_feedback(session, state, opinion, now)
    turn = add_turn(session, state, submit_key, reference, typed.text, now)
    turn.pasted = typed.pasted
    turn.first_key_seconds = typed.first_key_seconds
    turn.last_key_seconds = typed.last_key_seconds
    turn.language, turn.text_version = language, text_version
    extend_lease(participant, now)
    session.flush()


def stop(
    session: Session,
    participant: Participant,
    state: SearchState,
    *,
    opinion: Opinion | None,
    declared: int | None,
    expected_turns: int,
    submit_key: str,
    now: datetime,
) -> None:
    """Store the feedback on the last list, and that the search ends here.

    `declared` is the place of the image that the participant takes, from 1. A search whose list
    does not come may be stopped, too, without an opinion. Errors as in `ask`.
    """
    require_reached(session, participant, state.question.id)
    declared_id = None
    if declared is not None:
        declared_id = image_at(listed_images(state), declared, "declared")
    if state.ending is not None and state.ending.submit_key == submit_key:
        if state.ending.declared_id != declared_id:
            raise Conflict("this submit was used for another ending")
        return
    require_same(participant, state, expected_turns)
    if opinion is not None or not state.awaits_list:
        add_feedback(session, state, opinion, now)
    is_last = len(state.turns) == searches_of(state.question).rounds and not state.awaits_list
    session.add(
        SearchEnding(
            question_id=state.question.id,
            submit_key=submit_key,
            reason="declared" if declared else "max-rounds" if is_last else "stopped",
            declared_id=declared_id,
            declared_side=declared_id and 1,
            ended_at=now,
        )
    )
    extend_lease(participant, now)
    session.flush()


def judged(
    session: Session, question_id: int, answer: Answer | Judgement | Skip, revision: int
) -> Judgement:
    """How a search went, with the time of its turns; `revision` is the one that the page shows.

    `Refused` unless the search has ended, and why it was stopped is said if it was.
    """
    state = state_of(session, question_id)
    if state.ending is None:
        raise Forbidden("the search has not ended yet")
    if not isinstance(answer, Judgement):
        raise Refused("a search is stopped, not skipped")
    if (answer.values["why"] is not None) != (state.ending.reason == "stopped"):
        raise Refused("why: is said of a search that was stopped without an image, and only then")
    if revision:
        return answer
    searching = sum(turn.feedback.active_seconds for turn in state.turns if turn.feedback)
    seconds = round(searching + (answer.times.active_seconds or 0), 3)
    return replace(answer, times=replace(answer.times, active_seconds=seconds))


def searches_of(question: Question) -> Searches:
    return config_of(question.pair.study).searches


def target_seconds_left(question: Question, now: datetime) -> float:
    """How long a remembered target may still be shown; a preview serves no question."""
    seconds = searches_of(question).target_seconds
    if question.served_at is None:
        return float(seconds)
    until = question.served_at + timedelta(seconds=seconds + SLACK)
    return min(max((until - now).total_seconds(), 0.0), float(seconds))


def require_same(participant: Participant, state: SearchState, expected_turns: int) -> None:
    """Raise unless the search stands as the page shows it, and may go on."""
    if state.question.reassigned:
        raise Forbidden("this search has been given to somebody else")
    require_active(participant)
    if state.ending is not None or len(state.turns) != expected_turns:
        raise Conflict("this search has gone on elsewhere since the page was loaded")


def require_text(typed: Typed) -> None:
    if not typed.text.strip():
        raise Refused("the text is empty")
    if len(typed.text) > LONGEST_TEXT:
        raise Refused(f"the text is longer than {LONGEST_TEXT} characters")
    if not is_storable_text(typed.text):
        raise Refused("the text has characters that cannot be stored")


def add_turn(
    session: Session, state: SearchState, key: str, reference: int, text: str, now: datetime
) -> SearchTurn:
    turn = SearchTurn(
        question_id=state.question.id,
        number=len(state.turns) + 1,
        submit_key=key,
        reference_id=reference,
        text=text,
        asked_at=now,
    )
    session.add(turn)
    session.flush()
    return turn


def add_feedback(
    session: Session, state: SearchState, opinion: Opinion | None, now: datetime
) -> None:
    """Store what was said of the last list; before the first list, nothing can be said."""
    if not state.turns:
        if opinion is not None:
            raise Refused("opinion: there is no list yet")
        return
    images = listed_images(state)
    if opinion is None:
        raise Refused("opinion: is missing")
    if not 1 <= opinion.satisfaction <= POINTS:
        raise Refused(f"satisfaction: is not from 1 to {POINTS}")
    if opinion.nearest is not None:
        image_at(images, opinion.nearest, "nearest")
    if len(opinion.images) != len(images):
        raise Refused(f"images: must be of {len(images)} images")
    session.add(
        SearchFeedback(
            turn_id=state.turns[-1].asked.id,
            satisfaction=opinion.satisfaction,
            nearest=opinion.nearest,
            nearest_side=opinion.nearest and 1,
            images=ImageStates(None, (opinion.images,)).letters,
            painted_seconds=opinion.painted_seconds,
            active_seconds=opinion.active_seconds,
            given_at=now,
        )
    )


def reference_of(state: SearchState) -> int:
    """The query's reference, from which the search starts."""
    reference = state.triplet.reference_id
    if reference is None:
        raise Refused("this query has no reference image")
    return reference


def next_reference(searches: Searches, state: SearchState, opinion: Opinion | None) -> int:
    """The image that the next text is about."""
    if not state.turns:
        return reference_of(state)
    images = listed_images(state)
    if searches.chooser == "top1":
        return images[0]
    if opinion is None or opinion.nearest is None:
        return state.turns[-1].asked.reference_id
    return image_at(images, opinion.nearest, "nearest")


def listed_images(state: SearchState) -> Sequence[int]:
    """The keys of the last list's images."""
    listed = state.turns[-1].listed if state.turns else None
    if listed is None:
        raise Refused("this search has no list yet")
    return listed.image_ids


def image_at(images: Sequence[int], place: int, name: str) -> int:
    if not 1 <= place <= len(images):
        raise Refused(f"{name}: is not a place from 1 to {len(images)}")
    return images[place - 1]


def images_by_key(session: Session, keys: set[int]) -> dict[int, Image]:
    return {image.id: image for image in session.scalars(select(Image).where(Image.id.in_(keys)))}
