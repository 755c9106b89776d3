"""`search`: searches over several turns, their turns, and the sessions for `hsfiq sessions`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sqlalchemy.orm import Session

from hsfiq.db.tables import Study
from hsfiq.releases.kinds.columns import ASKED, IDS
from hsfiq.releases.kinds.kind import ReleaseKind, Rows, answer_row
from hsfiq.releases.kinds.search_columns import (
    ANSWERED_IN_THE_END,
    ASKED_AT_TURN,
    LIST,
    LIST_STATES,
    NO_FEEDBACK,
    NO_TARGET,
    SAID,
    SESSION,
)
from hsfiq.releases.rows import QuestionRow
from hsfiq.releases.schemas import FLAG, POINTS, TEXT, WHOLE, Column, Table
from hsfiq.releases.searching.records import RecordsFile
from hsfiq.releases.searching.rows import SearchRow, TurnRow
from hsfiq.releases.writing.further import FurtherFile

SYSTEM_NAME = Column("system", TEXT, "the retriever, by its name in the study")
SEARCH_ID = Column("question_id", TEXT, "of the search", refers_to="sessions.question_id")
EMPTY = ("image_ids", "scores")
"""Without a list these are empty; the other columns of a list are null."""


SESSIONS = Table(
    "sessions",
    "one row a search: how it stopped, how it went, flags and times",
    (
        *ASKED,
        SYSTEM_NAME,
        *SESSION,
        Column(
            "missed",
            FLAG,
            "whether a list had the target and the participant went on",
            null=NO_TARGET,
        ),
        Column(
            "final_rank",
            WHOLE,
            "of the target in the last list that came, from 1",
            null=f"{NO_TARGET}, or no list came",
            lowest=1,
        ),
        Column(
            "best_rank",
            WHOLE,
            "of the target in any list, from 1",
            null=f"{NO_TARGET}, or no list came",
            lowest=1,
        ),
        Column(
            "satisfaction",
            POINTS,
            "with the last list that was judged, 1 to 5",
            "points",
            null="no list was judged",
            lowest=1,
            highest=5,
        ),
        *ANSWERED_IN_THE_END,
    ),
    key=("question_id",),
)
TURNS = Table(
    "turns",
    "one row a turn: what was asked, the list, and the feedback on it",
    (
        SEARCH_ID,
        *IDS[1:],
        SYSTEM_NAME,
        *ASKED_AT_TURN,
        *(replace(column, null=None) if column.name in EMPTY else column for column in LIST),
        Column(
            "satisfaction",
            POINTS,
            "with the list, 1 to 5",
            "points",
            null=NO_FEEDBACK,
            lowest=1,
            highest=5,
        ),
        *SAID,
        LIST_STATES,
    ),
    key=("question_id", "turn"),
    present="a search has a turn",
)


def searches_in(kept: Sequence[QuestionRow]) -> list[tuple[QuestionRow, SearchRow]]:
    return [(question, question.search) for question in kept if question.search]


def tables(kept: Sequence[QuestionRow]) -> dict[str, Rows]:
    searches = searches_in(kept)
    turns = [
        turn_row(question, search, turn) for question, search in searches for turn in search.turns
    ]
    return {
        "sessions": [session_row(question, search) for question, search in searches],
        **({"turns": turns} if turns else {}),
    }


def session_row(question: QuestionRow, search: SearchRow) -> dict[str, Any]:
    target = question.query.target_id
    ranks = [rank for turn in search.turns if (rank := turn.of_list(1, "rank")) is not None]
    satisfied = [turn.satisfaction for turn in search.turns if turn.satisfaction is not None]
    return answer_row(
        question,
        system=search.systems[0],
        **session_values(question, search),
        missed=search.missed(target),
        final_rank=ranks[-1] if ranks else None,
        best_rank=min(ranks, default=None),
        satisfaction=satisfied[-1] if satisfied else None,
    )


def session_values(question: QuestionRow, search: SearchRow) -> dict[str, Any]:
    """The values of `SESSION`."""
    searches, retriever = search.searches, search.retrievers[0]
    return {
        "task": searches.task,
        "history": searches.history,
        "chooser": searches.chooser,
        "max_rounds": searches.rounds,
        "session_place": search.place,
        "uploaded": search.uploaded,
        "turns": len(search.turns),
        "stop": search.stop(question.query.target_id, question.judged("why")),
        "declared_id": search.declared_id,
        "abandoned": question.is_left_search,
        "resumed": search.resumed,
        "longest_pause_seconds": search.longest_pause,
        "late_lists": search.late_lists,
        "ended_at": search.ended_at,
        **{name: question.judged(name) for name in ("success", "ease", "would_go_on")},
        "corpus": retriever.corpus_name,
        "corpus_size": retriever.corpus_size,
    }


def turn_row(question: QuestionRow, search: SearchRow, turn: TurnRow) -> dict[str, Any]:
    lists = {column.name: turn.of_list(1, column.name) for column in LIST}
    no_images = {name: lists[name] or [] for name in EMPTY}
    return {
        **ids_of(question),
        "system": search.systems[0],
        **{column.name: getattr(turn, column.name) for column in ASKED_AT_TURN},
        **lists,
        **no_images,
        "satisfaction": turn.satisfaction,
        **{column.name: getattr(turn, column.name) for column in SAID},
        "image_states": turn.states_of_list(1),
    }


def ids_of(question: QuestionRow) -> dict[str, str]:
    return {column.name: getattr(question, column.name) for column in IDS}


def files(_session: Session, study: Study, folder: Path) -> list[FurtherFile]:
    return [RecordsFile(folder, study)]


def struck(kept: Sequence[QuestionRow]) -> Rows:
    """The rows of `exclusions` about texts that the owner has struck."""
    return [
        {
            "question_id": question.question_id,
            "participant_id": question.participant_id,
            "query_id": question.query_id,
            "rule": "struck-text",
            "value": f"turn {turn.turn}",
            "rules": ["struck-text"],
            "values": [f"turn {turn.turn}"],
        }
        for question in kept
        if question.search
        for turn in question.search.turns
        if turn.struck
    ]


SEARCH_RELEASE = ReleaseKind(
    name="search",
    question_kind="search",
    about="searches of people over several turns",
    main="sessions",
    own_tables=(SESSIONS, TURNS),
    tables=tables,
    files=files,
    struck=struck,
    sets_are="",
)
