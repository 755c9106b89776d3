"""`arena`: a search with two live retrievers side by side, and a vote between them at each turn.

The judgement in the end is that of a search. Its release has the votes between the lists.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hsfiq.kinds.kind import ReleaseKind, RowCheck, as_many_as_images, is_of_query
from hsfiq.kinds.rows import QuestionRow, Questions, TableRows, answer_row
from hsfiq.kinds.search import (
    ANSWERED_IN_THE_END,
    ASKED_AT_TURN,
    LIST,
    LIST_STATES,
    SAID,
    SEARCH,
    SEARCH_ID,
    SESSION,
    TEXT_IS_STRUCK,
    TURN,
    ids_of,
    judgement,
    nearest_is_in_list,
    searches_in,
    session_values,
    struck,
)
from hsfiq.kinds.search_rows import SearchRow, TurnRow
from hsfiq.kinds.tables import (
    ASKED,
    FLAG,
    IDS,
    NUMBER,
    POINTS,
    TEXT,
    TIME,
    UNKNOWN,
    WHOLE,
    Column,
    Table,
    renamed,
    without,
)

SIDES = (1, 2)
SYSTEMS = (
    Column("system_1", TEXT, "of the list on the left (on a phone, above), for the whole search"),
    Column("system_2", TEXT, "of the list on the right (on a phone, below), for the whole search"),
)
OF_LIST = without(LIST, "rank", "ties")
"""What a list has without a target."""

PREFERENCE = Column(
    "preference",
    POINTS,
    "the better list, 1 or 2; 0 if neither is better",
    null="the participant did not vote",
    values=(0, 1, 2),
)
BOTH_BAD = Column(
    "both_bad",
    FLAG,
    "whether both lists are bad; true only with preference 0",
    null="the participant did not vote",
)
VOTE = (PREFERENCE, BOTH_BAD)
NEAREST_LIST = Column(
    "nearest_list",
    POINTS,
    "the list of the nearest image, 1 or 2",
    null="none is nearest",
    values=(1, 2),
)
SESSIONS = Table(
    "sessions",
    "one row a search: its two systems, how it stopped, how it went, flags and times",
    (
        *ASKED,
        *SYSTEMS,
        *SESSION,
        Column(
            "declared_list",
            POINTS,
            "the list of the declared image, 1 or 2",
            null="none was declared",
            values=(1, 2),
        ),
        *ANSWERED_IN_THE_END,
    ),
    key=("question_id",),
)
TURNS = Table(
    "turns",
    "one row a turn: the query to both systems, the two lists, and the feedback on them",
    (
        SEARCH_ID,
        *IDS[1:],
        *SYSTEMS,
        *ASKED_AT_TURN[:-1],
        replace(
            ASKED_AT_TURN[-1],
            meaning="when both lists were stored, after which both are shown",
            null="the lists did not arrive",
        ),
        *renamed(OF_LIST, "_1"),
        *renamed(OF_LIST, "_2"),
        *VOTE,
        NEAREST_LIST,
        *SAID,
        *(replace(LIST_STATES, name=f"image_states_{side}") for side in SIDES),
    ),
    key=("question_id", "turn"),
    present="a search has a turn",
)
VOTES = Table(
    "votes",
    "one row a vote between the two lists of a turn",
    (
        SEARCH_ID,
        *IDS[1:],
        TURN,
        Column("triplet_id", TEXT, "of the query"),
        *SYSTEMS,
        *(replace(column, null=None) for column in VOTE),
        Column("answered_at", TIME, "when the vote was given"),
        Column("session_place", WHOLE, "of the search among the participant's, from 1", lowest=1),
        NEAREST_LIST,
        Column(
            "common_images", WHOLE, "the number of images that both lists have", "images", lowest=0
        ),
        Column("active_seconds", NUMBER, "the time with the lists in use", "seconds", null=UNKNOWN),
    ),
    key=("question_id", "turn"),
    present="there is a vote",
)


def table_rows(kept: Questions) -> dict[str, TableRows]:
    searches = searches_in(kept)
    turns = [(question, search, turn) for question, search in searches for turn in search.turns]
    votes = [each for each in turns if each[2].preference is not None]
    return {
        "sessions": [session_row(question, search) for question, search in searches],
        **({"turns": [turn_row(*each) for each in turns]} if turns else {}),
        **({"votes": [vote_row(*each) for each in votes]} if votes else {}),
    }


def session_row(question: QuestionRow, search: SearchRow) -> dict[str, Any]:
    return answer_row(
        question,
        **systems_of(search),
        **session_values(question, search),
        declared_list=search.declared_list,
    )


def systems_of(search: SearchRow) -> dict[str, str]:
    return dict(zip((column.name for column in SYSTEMS), search.systems, strict=True))


def turn_row(question: QuestionRow, search: SearchRow, turn: TurnRow) -> dict[str, Any]:
    return {
        **ids_of(question),
        **systems_of(search),
        **values_of(turn, ASKED_AT_TURN),
        **{
            f"{column.name}_{side}": turn.of_list(side, column.name)
            for side in SIDES
            for column in OF_LIST
        },
        **values_of(turn, (*VOTE, NEAREST_LIST, *SAID)),
        **{f"image_states_{side}": turn.states_of_list(side) for side in SIDES},
    }


def values_of(turn: TurnRow, columns: Sequence[Column]) -> dict[str, Any]:
    return {column.name: getattr(turn, column.name) for column in columns}


def vote_row(question: QuestionRow, search: SearchRow, turn: TurnRow) -> dict[str, Any]:
    first, second = turn.lists
    return {
        **ids_of(question),
        "turn": turn.turn,
        "triplet_id": question.query.triplet_id,
        **systems_of(search),
        **values_of(turn, VOTE),
        "answered_at": turn.given_at,
        "session_place": search.place,
        "nearest_list": turn.nearest_list,
        "common_images": len(set(first.image_ids) & set(second.image_ids)),
        "active_seconds": turn.active_seconds,
    }


CHECKS_OF_TURNS = (
    *(as_many_as_images(f"scores_{side}", f"image_ids_{side}") for side in SIDES),
    *(as_many_as_images(f"image_states_{side}", f"image_ids_{side}") for side in SIDES),
    RowCheck(
        "both_bad",
        "is true, with preference {preference}",
        "both_bad and preference <> 0",
        {"both_bad": "t.both_bad", "preference": "t.preference"},
    ),
    *(
        nearest_is_in_list(
            f"image_ids_{side}",
            f"{{image}} is not image {{place}} of list {side}",
            f"t.nearest_list = {side}",
        )
        for side in SIDES
    ),
    TEXT_IS_STRUCK,
)


ARENA = replace(
    SEARCH,
    name="arena",
    asks="searches with two systems side by side",
    n_live=2,
    releases=(
        ReleaseKind(
            name="arena",
            about="votes of people who search with two systems side by side",
            main="sessions",
            own_tables=(SESSIONS, TURNS, VOTES),
            tables=table_rows,
            judgement=judgement,
            checks={"sessions": (is_of_query(),), "turns": CHECKS_OF_TURNS},
            struck=struck,
            sets_are="",
            tags=("human-feedback", "preference"),
        ),
    ),
)
