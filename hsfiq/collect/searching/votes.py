"""The votes of a study of kind `arena`, read while it runs, and what is published of them.

A participant who looks at a leaderboard before and after they vote must not learn which list is
whose. So everybody sees the same figures until enough others have voted, and the votes of a search
count only once it has ended.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session, aliased

from hsfiq.collect.studies import lock_study
from hsfiq.db.search_tables import PublishedLeaderboard, SearchFeedback, SearchItem, SearchTurn
from hsfiq.db.source_tables import Query, System, Triplet
from hsfiq.db.tables import Form, Pair, Participant, Question, Response, Study
from hsfiq.ids import question_id

FEWEST_PEOPLE, FEWEST_OTHER_VOTES = 5, 20
"""A leaderboard is published again after new votes of at least `FEWEST_PEOPLE` people in searches
that have ended, of which at least `FEWEST_OTHER_VOTES` are not from the person who voted most."""


ENDED = (Response.question_id == Question.id) & (Response.revision == 1)
"""Joins the search of a question with the response that ended it."""


@dataclass(frozen=True, slots=True)
class Vote:
    """A participant's vote between the two lists of a turn, with outside ids.

    `preference` is the better list, 0 if neither is better; `both_bad` is true only then.
    `response_key` is the database key of the response that ended the search, None while it goes on;
    searches that ended later have higher ones.
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
    response_key: int | None


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
            Response.id,
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
        .outerjoin(Response, ENDED)
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


@dataclass(frozen=True, slots=True)
class Published:
    """What everybody sees; nothing yet if `number` is 0.

    `last_response` is the key of the newest response that ended one of the counted searches.
    """

    number: int = 0
    last_response: int = 0
    published_at: datetime | None = None
    figures: dict[str, Any] | None = None


def published_leaderboard(session: Session, study_id: int) -> Published:
    row = session.get(PublishedLeaderboard, study_id)
    if row is None:
        return Published()
    return Published(row.number, row.last_response, row.published_at, row.figures)


def is_next_batch_complete(session: Session, study: Study, published: Published) -> bool:
    """Whether the searches that ended since the last publication have votes of enough people."""
    by_person = (
        select(func.count())
        .select_from(SearchFeedback)
        .join(SearchTurn, SearchFeedback.turn_id == SearchTurn.id)
        .join(Question, SearchTurn.question_id == Question.id)
        .join(Form, Question.form_id == Form.id)
        .join(Participant, Form.participant_id == Participant.id)
        .join(Response, ENDED)
        .where(
            Form.study_id == study.id,
            Participant.status != "excluded",
            SearchFeedback.preference.is_not(None),
            Response.id > published.last_response,
        )
        .group_by(Participant.id)
    )
    return hides_each_person(session.scalars(by_person).all())


def hides_each_person(votes: Collection[int]) -> bool:
    """Whether there are enough votes of others beside each person's; `votes` has a count each."""
    return len(votes) >= FEWEST_PEOPLE and sum(votes) - max(votes) >= FEWEST_OTHER_VOTES


def publish_leaderboard(
    session: Session,
    study_id: int,
    before: Published,
    last_response: int,
    figures: dict[str, Any],
    at: datetime,
) -> None:
    """Replace what everybody sees, unless another process has done so since `before`."""
    lock_study(session, study_id)
    row = session.get(PublishedLeaderboard, study_id, populate_existing=True)
    if (row.number if row else 0) != before.number:
        return
    session.merge(
        PublishedLeaderboard(
            study_id=study_id,
            number=before.number + 1,
            last_response=last_response,
            published_at=at,
            figures=figures,
        )
    )
