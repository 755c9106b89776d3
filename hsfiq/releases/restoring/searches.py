"""The searches of a release as rows: their turns, with lists and feedback, and how they stopped."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import insert
from sqlalchemy.orm import Session

from hsfiq.answer_rules import ImageStates
from hsfiq.collect.searches import OF_QUERY
from hsfiq.db.search_tables import (
    ImportedSearch,
    Reason,
    SearchEnding,
    SearchFeedback,
    SearchList,
    SearchTurn,
    StruckText,
)
from hsfiq.db.types import Base
from hsfiq.releases.checking.tables import ReleaseFolder
from hsfiq.releases.restoring.items import Items
from hsfiq.releases.restoring.rows import UNKNOWN_TIME, Row, RowsOfQuestions, rows_of

SIDES: Mapping[str, tuple[str, ...]] = {"search": ("",), "arena": ("_1", "_2")}
"""How the names of the columns of each list end, that of side 1 first."""

TYPED = ("text", "asked_at", "pasted", "first_key_seconds", "last_key_seconds")
OPINIONS = ("satisfaction", "preference", "both_bad")
TIMES = ("painted_seconds", "active_seconds", "given_at")


class SearchRestorer:
    """Writes what the tables of searches have of a question; questions come in their order."""

    def __init__(self, session: Session, release: ReleaseFolder, items: Items) -> None:
        self.session, self.items = session, items
        self.ends = SIDES.get(release.kind.name, ())
        self.turns = RowsOfQuestions(rows_of(release, "turns"))

    def restore(self, question: int, row: Row) -> None:
        turns = self.turns.of(row["question_id"])
        dataset = self.items.dataset_of(row["query_id"])
        self.items.search_with(row["item_id"], [row[f"system{end}"] for end in self.ends])
        self.add(ImportedSearch, [{
            "question_id": question, "place": row["session_place"], "uploaded": row["uploaded"],
            "repeats": [turn["turn"] for turn in turns if turn["repeats"]],
        }])  # fmt: skip
        self.add(SearchEnding, list(self.ending(question, dataset, row)))
        if turns:
            self.restore_turns(question, dataset, turns)

    def add(self, table: type[Base], rows: Sequence[dict[str, Any]]) -> None:
        if rows:
            self.session.execute(insert(table), rows)

    def ending(self, question: int, dataset: int, row: Row) -> Iterator[dict[str, Any]]:
        """How the search stopped; nothing if the participant left during it."""
        reason = reason_of(row)
        if reason is None:
            return
        declared = row["declared_id"]
        yield {
            "question_id": question,
            "submit_key": "imported",
            "reason": reason,
            "declared_id": None if declared is None else self.items.image(dataset, declared),
            "declared_side": None if declared is None else row.get("declared_list", 1),
            "ended_at": row["ended_at"],
        }

    def restore_turns(self, question: int, dataset: int, turns: Sequence[Row]) -> None:
        keys = self.session.scalars(
            insert(SearchTurn).returning(SearchTurn.id, sort_by_parameter_order=True),
            [self.turn(question, dataset, turn) for turn in turns],
        ).all()
        by_key = list(zip(keys, turns, strict=True))
        self.add(SearchList, [
            listed for key, turn in by_key for listed in self.lists(key, dataset, turn)
        ])  # fmt: skip
        self.add(SearchFeedback, [
            self.feedback(key, turn) for key, turn in by_key if turn["given_at"] is not None
        ])  # fmt: skip
        self.add(StruckText, [
            {"turn_id": key, "struck_at": UNKNOWN_TIME} for key, turn in by_key if turn["struck"]
        ])  # fmt: skip

    def turn(self, question: int, dataset: int, turn: Row) -> dict[str, Any]:
        reference, number = turn["reference_id"], turn["turn"]
        return {
            "question_id": question,
            "number": number,
            "submit_key": OF_QUERY if turn["from_query"] else f"imported-{number}",
            "reference_id": None if reference is None else self.items.image(dataset, reference),
            **{name: turn[name] for name in TYPED},
        }

    def lists(self, key: int, dataset: int, turn: Row) -> Iterator[dict[str, Any]]:
        """The list of each side; releases of arenas have no ranks of targets."""
        if turn["listed_at"] is None:
            return
        for side, end in enumerate(self.ends, start=1):
            yield {
                "turn_id": key,
                "side": side,
                "listed_at": turn["listed_at"],
                "seconds": turn[f"retriever_seconds{end}"],
                "image_ids": [self.items.image(dataset, name) for name in turn[f"image_ids{end}"]],
                "scores": turn[f"scores{end}"],
                "rank": turn.get(f"rank{end}"),
                "ties": turn.get(f"ties{end}"),
                "system_version": turn[f"system_version{end}"],
                "corpus_sha256": turn[f"corpus_sha256{end}"],
            }

    def feedback(self, key: int, turn: Row) -> dict[str, Any]:
        """The feedback; the state of the reference is not in a release."""
        states = [turn[f"image_states{end}"] for end in self.ends]
        known = tuple(tuple(each) for each in states if each is not None)
        nearest = turn["nearest_place"]
        return {
            "turn_id": key,
            **{name: turn.get(name) for name in OPINIONS},
            "nearest": nearest,
            "nearest_side": None if nearest is None else turn.get("nearest_list", 1),
            "images": ImageStates(None, known).letters,
            **{name: turn[name] for name in TIMES},
        }


def reason_of(row: Row) -> Reason | None:
    if row["ended_at"] is None:
        return None
    if row["declared_id"] is not None:
        return "declared"
    return "max-rounds" if row["stop"] == "max-rounds" else "stopped"
