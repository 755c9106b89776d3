"""A study of kind `arena` in a database, and votes in it, without any retriever."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from sqlalchemy import select
from sqlalchemy.orm import Session

from hsfiq.collect import participants
from hsfiq.db.engine import Database
from hsfiq.db.search_tables import SearchFeedback, SearchItem, SearchList, SearchTurn
from hsfiq.db.source_tables import Image, System
from hsfiq.db.tables import Form, Question, Response, Study
from hsfiq.kinds.search_rows import Retriever, Searches
from hsfiq.study.config import Checks, Design, StudyConfig
from hsfiq.study.design import draw_study
from hsfiq.study.searches import Described
from tests.studies import NOW, SYSTEMS, config, make_queries

ARENA = Design(
    kind="arena", k=2, questions_per_form=3, forms_per_participant=1, annotators_per_query=3, seed=1
)
TEXT = "something private that I long for"


def arena_config(
    systems: Sequence[str] = SYSTEMS, design: Design = ARENA, name: str = "arena"
) -> StudyConfig:
    retrievers = tuple(Retriever(system, f"http://127.0.0.1:1/{system}") for system in systems)
    searches = Searches(task="own-wish", retrievers=retrievers)
    return replace(config(design, name, Checks(arithmetic=False)), searches=searches)


def draw_arena(
    database: Database,
    systems: Sequence[str] = SYSTEMS,
    design: Design = ARENA,
    *,
    n_queries: int = 6,
    name: str = "arena",
) -> int:
    """An open arena of new queries; its key."""
    queries = make_queries(database, {"shirt": n_queries}, systems=(), dataset="small")
    with database.writing() as session:
        corpus = frozenset(session.scalars(select(Image.name)))
        described = {
            system: Described("1", "small", len(corpus), "0" * 64, corpus) for system in systems
        }
        wanted = arena_config(systems, design, name)
        return draw_study(session, wanted, queries, retrievers=described).id


@dataclass(frozen=True)
class Voter:
    """A participant whose turns and votes are written straight into the tables."""

    database: Database
    participant_id: int

    @classmethod
    def enrolled(cls, database: Database, study_id: int) -> Voter:
        with database.writing() as session:
            participant = participants.enrol(session, study_id, now=NOW)
            participants.consent(participant, now=NOW)
            return cls(database, participant.id)

    def question_ids(self) -> list[int]:
        own = select(Question.id).join(Form).where(Form.participant_id == self.participant_id)
        with self.database.reading() as session:
            return list(session.scalars(own.order_by(Form.position, Question.place)))

    def vote(self, question_id: int, preference: int, *, both_bad: bool = False) -> None:
        """Take a turn in a search, and vote between its lists."""
        with self.database.writing() as session:
            add_turn_with_vote(session, question_id, preference, both_bad=both_bad)

    def end(self, question_id: int) -> None:
        with self.database.writing() as session:
            end_search(session, question_id)


def end_search(session: Session, question_id: int) -> None:
    """Store the answer to the questions after a search."""
    answer = Response(
        question_id=question_id, revision=1, submit_key=f"end-{question_id}", judgement={}
    )
    session.add(answer)
    session.flush()


def add_turn_with_vote(
    session: Session, question_id: int, preference: int, *, both_bad: bool = False
) -> None:
    question = session.get_one(Question, question_id)
    reference = question.pair.query.triplet.reference_id
    assert reference is not None
    earlier = select(SearchTurn).where(SearchTurn.question_id == question_id)
    number = len(session.scalars(earlier).all()) + 1
    turn = SearchTurn(
        question_id=question_id,
        number=number,
        submit_key=f"press-{number}",
        reference_id=reference,
        text=TEXT,
        asked_at=NOW,
        pasted=False,
    )
    session.add(turn)
    session.flush()
    for side in (1, 2):
        session.add(
            SearchList(
                turn_id=turn.id, side=side, listed_at=NOW, seconds=0.1, image_ids=[reference],
                scores=[1.0], system_version="1", corpus_sha256="0" * 64,
            )
        )  # fmt: skip
    session.add(
        SearchFeedback(
            turn_id=turn.id, preference=preference, both_bad=both_bad, images="s s s",
            active_seconds=1.0, given_at=NOW + timedelta(minutes=number),
        )
    )  # fmt: skip
    session.flush()


def systems_met(database: Database, study_id: int) -> dict[int, tuple[str, str]]:
    """The systems of each question of a study, by the question's key; that of side 1 first."""
    rows = (
        select(Question.id, SearchItem.side, System.name)
        .join(Form, Question.form_id == Form.id)
        .join(SearchItem, SearchItem.pair_id == Question.pair_id)
        .join(System, SearchItem.system_id == System.id)
        .where(Form.study_id == study_id)
    )
    with database.reading() as session:
        names = {(key, side): name for key, side, name in session.execute(rows)}
        assert session.get_one(Study, study_id).kind == "arena"
    return {key: (names[key, 1], names[key, 2]) for key, side in names if side == 1}
