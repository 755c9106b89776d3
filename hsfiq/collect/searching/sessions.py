"""A participant's search: its turns so far, and storing the next step.

The caller's `Database.writing` block is the transaction, in which the participant and the question
are locked. Rows are only added. A request that is repeated with its submit key stores nothing new.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from sqlalchemy.orm import Session

from hsfiq.answer_rules import Answer
from hsfiq.collect.leases import extend_lease
from hsfiq.collect.participants import require_active
from hsfiq.collect.responses import Skip
from hsfiq.collect.searching.feedback import Opinion, add_feedback
from hsfiq.collect.searching.state import Place, SearchState, searches_of, state_of
from hsfiq.collect.steps import require_reached
from hsfiq.db.search_tables import SearchEnding, SearchTurn
from hsfiq.db.tables import Participant
from hsfiq.errors import Conflict, Forbidden, Refused, SetBack
from hsfiq.kinds import Judgement
from hsfiq.study.searching.config import Searches
from hsfiq.text import is_storable_text

LONGEST_TEXT = 400
"""Characters of a turn's text."""

OF_QUERY = "query"
"""The submit key of a first turn whose text is the query's."""


@dataclass(frozen=True, slots=True)
class Typed:
    """A text, and how it was typed; seconds from when the list was painted."""

    text: str
    pasted: bool
    first_key_seconds: float | None
    last_key_seconds: float | None


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
    """Store the feedback on the last lists, and the text of the next turn.

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
    declared: Place | None,
    expected_turns: int,
    submit_key: str,
    now: datetime,
) -> None:
    """Store the feedback on the last list, and that the search ends here.

    `declared` is the image that the participant takes. A search whose list
    does not come may be stopped, too, without an opinion. Errors as in `ask`.
    """
    require_reached(session, participant, state.question.id)
    declared_id = None
    if declared is not None:
        declared_id = state.image_at(declared, "declared")
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
            declared_side=declared and declared.side,
            ended_at=now,
        )
    )
    extend_lease(participant, now)
    session.flush()


def judged(
    session: Session, question_id: int, answer: Answer | Judgement | Skip, revision: int
) -> Judgement:
    """How a search went, with the time of its turns; `revision` is the one that the page shows.

    `Refused` unless the search has ended, and `why` is given exactly if it was stopped.
    """
    state = state_of(session, question_id)
    if state.ending is None:
        raise SetBack("the search has not ended yet")
    if not isinstance(answer, Judgement):
        raise Refused("a search is stopped, not skipped")
    if (answer.values["why"] is not None) != (state.ending.reason == "stopped"):
        raise Refused(
            "why: must be given if the search was stopped without an image, and only then"
        )
    if revision:
        return answer
    searching = sum(turn.feedback.active_seconds for turn in state.turns if turn.feedback)
    seconds = round(searching + (answer.times.active_seconds or 0), 3)
    return replace(answer, times=replace(answer.times, active_seconds=seconds))


def require_same(participant: Participant, state: SearchState, expected_turns: int) -> None:
    """Raise unless the search stands as the page shows it, and may go on."""
    if state.question.reassigned:
        raise Forbidden("this search has been given to somebody else")
    require_active(participant)
    if len(state.turns) < expected_turns:
        raise SetBack("the turns that the page shows are not stored any more")
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
    session: Session, state: SearchState, key: str, reference: int | None, text: str, now: datetime
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


def reference_of(state: SearchState) -> int:
    """The query's reference, from which the search starts."""
    reference = state.triplet.reference_id
    if reference is None:
        raise Refused("this query has no reference image")
    return reference


def next_reference(searches: Searches, state: SearchState, opinion: Opinion | None) -> int | None:
    """The image that the next text is about; None if it is the uploaded picture."""
    if not state.turns:
        return None if state.upload else reference_of(state)
    if searches.chooser == "top1":
        return state.lists[0].image_ids[0]
    if opinion is None or opinion.nearest is None:
        return state.turns[-1].asked.reference_id
    return state.image_at(opinion.nearest, "nearest")
