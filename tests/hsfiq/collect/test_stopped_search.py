"""A search that is stopped while its lists are on their way."""

from __future__ import annotations

from sqlalchemy import func, select

from hsfiq.collect.retrievers import Asked, retrievers_of, store_lists
from hsfiq.collect.searches import state_of
from hsfiq.db.engine import Database
from hsfiq.db.search_tables import SearchEnding, SearchList, SearchTurn
from hsfiq.db.source_tables import Image
from hsfiq.db.tables import Question
from hsfiq.live.client import Answered
from hsfiq.live.protocol import RankedList, RankReply
from tests.arenas import Voter, draw_arena
from tests.studies import NOW


def test_lists_that_come_after_the_end_are_not_stored(database: Database) -> None:
    study = draw_arena(database)
    key = Voter.enrolled(database, study).question_ids()[0]
    with database.writing() as session:
        reference = session.get_one(Question, key).pair.query.triplet.reference_id
        session.add(
            SearchTurn(
                question_id=key, number=1, submit_key="press-1", reference_id=reference,
                text="is red", asked_at=NOW,
            )
        )  # fmt: skip
        session.flush()
        begun = state_of(session, key)
        asked = Asked(begun.turns[-1].asked.id, retrievers_of(session, begun))
        assert reference is not None
        name = session.get_one(Image, reference).name
        session.add(
            SearchEnding(question_id=key, submit_key="stop-1", reason="stopped", ended_at=NOW)
        )
        session.flush()
        ranked = RankedList(image_ids=(name,), scores=(1.0,))
        reply = RankReply(version="1", corpus_sha256="0" * 64, lists=(ranked,), seconds=0.1)
        answered = [Answered(reply, 0.1)] * 2
        state = state_of(session, key)
        store_lists(session, state, asked, answered, NOW)
        assert session.scalar(select(func.count()).select_from(SearchList)) == 0
        assert not state.awaits_list
