"""Searches written by hand, as a release's tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from hsfiq.analysis.data.kind_release import JudgedRelease, lists_of, with_lists

IMAGES = ("a", "b", "target", "c")


class Turn(NamedTuple):
    """A turn of a search: satisfaction None if nothing was said of the list."""

    satisfaction: int | None
    rank: int | None = None
    nearest: int | None = None
    images: Sequence[str] = IMAGES
    words: int = 2


class Search(NamedTuple):
    """A search. `stop` is None where nobody finished it."""

    participant: str
    query: str
    system: str
    turns: Sequence[Turn]
    stop: str = "max-rounds"
    task: str = "target-shown"
    success: int | None = 3
    missed: bool | None = False


def release_of(
    searches: Sequence[Search], scores: Mapping[str, Path] | None = None
) -> JudgedRelease:
    """Of searches whose ids are their places, from 0."""
    answers = pd.DataFrame([answer_row(*each) for each in enumerate(searches)])
    turns = [
        turn_row(number, search, place, turn)
        for number, search in enumerate(searches)
        for place, turn in enumerate(search.turns, start=1)
    ]
    queries = sorted({search.query for search in searches})
    table = with_lists(pd.DataFrame(turns))
    return JudgedRelease(
        folder=Path("hand"),
        name="hand",
        version="1.0.0",
        kind="search",
        study="hand",
        simulated=False,
        answers=answers,
        sets=lists_of(table),
        queries=pd.DataFrame(
            {"query_id": queries, "triplet_id": queries, "target_id": ["target"] * len(queries)}
        ),
        scores=scores or {},
        turns=table,
    )


def answer_row(number: int, search: Search) -> dict[str, Any]:
    return {
        "question_id": str(number),
        "participant_id": search.participant,
        "query_id": search.query,
        "system": search.system,
        "task": search.task,
        "stop": search.stop,
        "declared_id": "target" if search.stop == "found" else None,
        "missed": search.missed,
        "abandoned": search.success is None,
        "resumed": False,
        "would_go_on": None if search.success is None else False,
        "success": search.success,
        "ease": search.success,
        "satisfaction": search.turns[-1].satisfaction if search.turns else None,
        "turns": len(search.turns),
        "max_rounds": 5,
    }


def turn_row(number: int, search: Search, place: int, turn: Turn) -> dict[str, Any]:
    return {
        "question_id": str(number),
        "participant_id": search.participant,
        "query_id": search.query,
        "system": search.system,
        "turn": place,
        "reference_id": "a",
        "from_query": place == 1,
        "repeats": False,
        "pasted": place == 3,
        "words": turn.words,
        "image_ids": list(turn.images),
        "rank": turn.rank,
        "ties": 0,
        "satisfaction": turn.satisfaction,
        "nearest_place": turn.nearest,
        "active_seconds": 4.0,
        "retriever_seconds": 0.1,
    }
