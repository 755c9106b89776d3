"""The votes of a study of kind `arena`, read while it runs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session, aliased

from hsfiq.db.searches.tables import SearchFeedback, SearchItem, SearchTurn
from hsfiq.db.tables import Form, Pair, Participant, Query, Question, Study, System, Triplet
from hsfiq.ids import question_id


@dataclass(frozen=True, slots=True)
class Vote:
    """A participant's vote between the two lists of a turn, with outside ids.

    `preference` is the better list, 0 if neither is better; `both_bad` is true only then.
    """

    question_id: str
    turn: int
    participant_id: str
    query_id: str
    triplet_id: str
    system_1: str
    system_2: str
    preference: int
    both_bad: bool
    answered_at: datetime


def read_votes(session: Session, study: Study) -> list[Vote]:
    """The votes so far, by participant, search and turn; those of searches under way, too.

    Those of excluded participants are left out; of people who are forgotten there are none.
    """
    first, second = aliased(SearchItem), aliased(SearchItem)
    system_1, system_2 = aliased(System), aliased(System)
    rows = session.execute(
        select(
            Participant.name, Form.name, Question.place, SearchTurn.number,
            Triplet.external_id, Query.suffix, system_1.name, system_2.name,
            SearchFeedback.preference, SearchFeedback.both_bad, SearchFeedback.given_at,
        )
        .join(Form, Form.participant_id == Participant.id)
        .join(Question, Question.form_id == Form.id)
        .join(Pair, Question.pair_id == Pair.id)
        .join(Query, Pair.query_id == Query.id)
        .join(Triplet, Query.triplet_id == Triplet.id)
        .join(first, (first.pair_id == Pair.id) & (first.side == 1))
        .join(second, (second.pair_id == Pair.id) & (second.side == 2))
        .join(system_1, first.system_id == system_1.id)
        .join(system_2, second.system_id == system_2.id)
        .join(SearchTurn, SearchTurn.question_id == Question.id)
        .join(SearchFeedback, SearchFeedback.turn_id == SearchTurn.id)
        .where(
            Form.study_id == study.id,
            Participant.status != "excluded",
            SearchFeedback.preference.is_not(None),
        )
        .order_by(Participant.id, Form.position, Question.place, SearchTurn.number)
    )  # fmt: skip
    return [
        Vote(
            question_id(person, str(form), place),
            turn,
            person,
            triplet + suffix,
            triplet,
            *systems_and_vote,
        )
        for person, form, place, turn, triplet, suffix, *systems_and_vote in rows
    ]
