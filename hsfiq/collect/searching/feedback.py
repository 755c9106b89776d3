"""A participant's feedback on the lists of a turn."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy.orm import Session

from hsfiq.answer_rules import ImageState, ImageStates
from hsfiq.collect.searching.state import Place, SearchState
from hsfiq.db.search_tables import SearchFeedback
from hsfiq.errors import Refused
from hsfiq.kinds.search import POINTS


@dataclass(frozen=True, slots=True)
class Choice:
    """A vote between two lists: the better one, or 0 for neither, and then whether both are bad."""

    preference: int
    both_bad: bool


@dataclass(frozen=True, slots=True)
class Opinion:
    """What the page sends about a turn's lists; `nearest` is None if no image comes near.

    One list has a satisfaction, two have a vote. `images` has the states of each list's images.
    """

    satisfaction: int | None
    vote: Choice | None
    nearest: Place | None
    images: tuple[tuple[ImageState, ...], ...]
    painted_seconds: float | None
    active_seconds: float


def add_feedback(
    session: Session, state: SearchState, opinion: Opinion | None, now: datetime
) -> None:
    """Store the feedback on the last lists; before the first list there can be none."""
    if not state.turns:
        if opinion is not None:
            raise Refused("opinion: there is no list yet")
        return
    if opinion is None:
        raise Refused("opinion: is missing")
    lists, nearest, vote = state.lists, opinion.nearest, opinion.vote
    require_judged(opinion, len(lists))
    if nearest is not None:
        state.image_at(nearest, "nearest")
    lengths = [len(listed.image_ids) for listed in lists]
    if [len(states) for states in opinion.images] != lengths:
        raise Refused(f"images: must be of lists of {' and '.join(map(str, lengths))} images")
    session.add(
        SearchFeedback(
            turn_id=state.turns[-1].asked.id,
            satisfaction=opinion.satisfaction,
            preference=vote and vote.preference,
            both_bad=vote and vote.both_bad,
            nearest=nearest and nearest.place,
            nearest_side=nearest and nearest.side,
            images=ImageStates(None, opinion.images).letters,
            painted_seconds=opinion.painted_seconds,
            active_seconds=opinion.active_seconds,
            given_at=now,
        )
    )


def require_judged(opinion: Opinion, n_lists: int) -> None:
    """Raise `Refused` unless one list has a satisfaction, or two have a vote."""
    satisfaction, vote = opinion.satisfaction, opinion.vote
    if n_lists == 1:
        if vote is not None:
            raise Refused("vote: there is only one list")
        if satisfaction is None or not 1 <= satisfaction <= POINTS:
            raise Refused(f"satisfaction: is not from 1 to {POINTS}")
        return
    if satisfaction is not None:
        raise Refused("satisfaction: two lists have a vote instead")
    if vote is None:
        raise Refused("vote: is missing")
    if vote.preference not in range(n_lists + 1):
        raise Refused(f"vote.preference: is not from 0 to {n_lists}")
    if vote.both_bad and vote.preference:
        raise Refused("vote.both_bad: cannot be true if one list is better")
