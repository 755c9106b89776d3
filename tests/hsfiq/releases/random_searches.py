"""Searches that hypothesis draws: finished or left, with struck texts and uploaded pictures."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from hypothesis import strategies as st
from sqlalchemy import select
from sqlalchemy.orm import Session

from hsfiq.db.engine import Database
from hsfiq.db.search_tables import (
    SearchEnding,
    SearchFeedback,
    SearchList,
    SearchTurn,
    SearchUpload,
    StruckText,
)
from hsfiq.db.source_tables import Image
from hsfiq.db.tables import Response
from hsfiq.kinds import KindName
from tests.arenas import ARENA, Voter, draw_arena
from tests.studies import NOW, SYSTEMS, set_status

TEXTS = st.sampled_from(["is red", "Is  Red", "is longer", "mit Ärmeln", ""])
SECONDS = st.none() | st.floats(0, 5000, allow_nan=False)
STATES = st.text("mulse", min_size=2, max_size=2)
WHYS = st.sampled_from(["enough", "gave-up", "technical"])


def random_searches(database: Database, kind: KindName, data: st.DataObject) -> int:
    """A closed study of searches by two people; its key."""
    systems = SYSTEMS if kind == "arena" else SYSTEMS[:2]
    study = draw_arena(database, systems, replace(ARENA, kind=kind))
    for _ in range(2):
        questions = Voter.enrolled(database, study).question_ids()
        with database.writing() as session:
            images = list(session.scalars(select(Image.id).order_by(Image.id)))
            drawer = Drawer(session, images, 2 if kind == "arena" else 1, data)
            for question in questions:
                drawer.add_search(question)
    set_status(database, study, "closed")
    return study


class Drawer:
    """Adds searches whose turns have so many lists of these images."""

    def __init__(
        self, session: Session, images: list[int], n_lists: int, data: st.DataObject
    ) -> None:
        self.session, self.images, self.n_lists = session, images, n_lists
        self.draw = data.draw

    def add_search(self, question: int) -> None:
        uploaded, n_turns = self.draw(st.booleans()), self.draw(st.integers(0, 3))
        if uploaded:
            self.session.add(SearchUpload(
                question_id=question, submit_key="press", content=b"jpeg", sha256="0" * 64,
                width=1, height=1, uploaded_at=NOW,
            ))  # fmt: skip
        is_over = n_turns > 0 and self.draw(st.booleans())
        for number in range(1, n_turns + 1):
            is_last = number == n_turns
            turn = self.add_turn(question, number, is_upload=uploaded and number == 1)
            if not is_last or self.draw(st.booleans()):
                self.add_lists(turn)
                if not is_last or is_over:
                    self.add_feedback(turn)
        if is_over:
            self.end(question)

    def add_turn(self, question: int, number: int, *, is_upload: bool) -> SearchTurn:
        turn = SearchTurn(
            question_id=question, number=number, text=self.draw(TEXTS),
            reference_id=None if is_upload else self.draw(st.sampled_from(self.images)),
            submit_key="query" if number == 1 and not is_upload else f"press-{number}",
            asked_at=NOW + timedelta(minutes=number), pasted=self.draw(st.none() | st.booleans()),
            first_key_seconds=self.draw(SECONDS), last_key_seconds=self.draw(SECONDS),
            language="en", text_version=1,
        )  # fmt: skip
        self.session.add(turn)
        self.session.flush()
        if self.draw(st.booleans()):
            self.session.add(StruckText(turn_id=turn.id, struck_at=NOW))
        return turn

    def add_lists(self, turn: SearchTurn) -> None:
        at = turn.asked_at + timedelta(seconds=self.draw(st.integers(0, 12)), microseconds=7)
        images = st.lists(st.sampled_from(self.images), min_size=2, max_size=2, unique=True)
        for side in range(1, self.n_lists + 1):
            rank = self.draw(st.integers(1, 9)) if self.n_lists == 1 else None
            self.session.add(SearchList(
                turn_id=turn.id, side=side, listed_at=at, seconds=self.draw(st.floats(0, 9)),
                image_ids=self.draw(images), scores=[0.1 + side, 0.1], rank=rank,
                ties=None if rank is None else 0, corpus_sha256="0" * 64,
                system_version=self.draw(st.sampled_from(["1", "2"])),
            ))  # fmt: skip

    def add_feedback(self, turn: SearchTurn) -> None:
        nearest = self.draw(st.none() | st.integers(1, 2))
        preference = self.draw(st.integers(0, 2)) if self.n_lists == 2 else None
        both_bad = None if preference is None else preference == 0 and self.draw(st.booleans())
        self.session.add(SearchFeedback(
            turn_id=turn.id, preference=preference, both_bad=both_bad, nearest=nearest,
            satisfaction=self.draw(st.integers(1, 5)) if self.n_lists == 1 else None,
            nearest_side=None if nearest is None else self.draw(st.integers(1, self.n_lists)),
            images=" " + " ".join(self.draw(STATES) for _ in range(self.n_lists)),
            painted_seconds=self.draw(SECONDS), active_seconds=self.draw(st.floats(0, 99)),
            given_at=turn.asked_at + timedelta(hours=self.draw(st.integers(0, 1)), minutes=1),
        ))  # fmt: skip

    def end(self, question: int) -> None:
        """End a search; the participant may have left before the questions at the end."""
        reason = self.draw(st.sampled_from(["declared", "stopped", "max-rounds"]))
        is_declared = reason == "declared"
        self.session.add(SearchEnding(
            question_id=question, submit_key="press", reason=reason,
            declared_id=self.draw(st.sampled_from(self.images)) if is_declared else None,
            declared_side=self.draw(st.integers(1, self.n_lists)) if is_declared else None,
            ended_at=NOW + timedelta(hours=2),
        ))  # fmt: skip
        if self.draw(st.booleans()):
            return
        points = st.integers(1, 5)
        self.session.add(Response(
            question_id=question, revision=self.draw(st.integers(1, 2)), submit_key="press",
            judgement={
                "success": self.draw(points), "ease": self.draw(points),
                "would_go_on": self.draw(st.booleans()),
                "why": self.draw(WHYS) if reason == "stopped" else None,
            },
            reason=self.draw(st.none() | st.just("the lists were odd")), images="s",
            served_at=NOW, submitted_at=NOW + timedelta(hours=3), active_seconds=12.5,
            text_version=1, language="en",
        ))  # fmt: skip
