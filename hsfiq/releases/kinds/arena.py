"""`arena`: searches with two systems side by side, their turns, and the votes between the lists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from hsfiq.releases.kinds.kind import ANSWERED, ASKED, Columns, ReleaseKind, Rows, answer_row
from hsfiq.releases.kinds.search import (
    ASKED_AT_TURN,
    IDS,
    LIST,
    SAID,
    SESSION,
    SESSION_COLUMNS,
    TURN_COLUMNS,
    ids_of,
    searches_in,
    session_values,
    struck,
)
from hsfiq.releases.rows import QuestionRow
from hsfiq.releases.schemas import TEXT, TEXTS, TIME
from hsfiq.releases.searching.rows import SearchRow, TurnRow

SIDES = (1, 2)
SYSTEMS: Columns = {f"system_{side}": TEXT for side in SIDES}
OF_LIST: Columns = {name: LIST[name] for name in LIST if name not in ("rank", "ties")}
"""What a list has without a target."""

LISTS: Columns = {f"{name}_{side}": type_ for side in SIDES for name, type_ in OF_LIST.items()}
VOTE: Columns = {"preference": pa.int8(), "both_bad": pa.bool_()}
VOTE_COLUMNS = {
    "preference": "the better list, 1 or 2; 0 if neither is better",
    "both_bad": "whether both lists are bad; true only with preference 0",
}


def tables(kept: Sequence[QuestionRow]) -> dict[str, Rows]:
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
    return dict(zip(SYSTEMS, search.systems, strict=True))


def turn_row(question: QuestionRow, search: SearchRow, turn: TurnRow) -> dict[str, Any]:
    return {
        **ids_of(question),
        **systems_of(search),
        **{name: getattr(turn, name) for name in ASKED_AT_TURN},
        **{f"{name}_{side}": turn.of_list(side, name) for side in SIDES for name in OF_LIST},
        **{name: getattr(turn, name) for name in (*VOTE, "nearest_list", *SAID)},
        **{f"image_states_{side}": turn.states_of_list(side) for side in SIDES},
    }


def vote_row(question: QuestionRow, search: SearchRow, turn: TurnRow) -> dict[str, Any]:
    first, second = turn.lists
    return {
        **ids_of(question),
        "turn": turn.turn,
        "triplet_id": question.query.triplet_id,
        **systems_of(search),
        **{name: getattr(turn, name) for name in VOTE},
        "answered_at": turn.given_at,
        "session_place": search.place,
        "nearest_list": turn.nearest_list,
        "common_images": len(set(first.image_ids) & set(second.image_ids)),
        "active_seconds": turn.active_seconds,
    }


ARENA = ReleaseKind(
    name="arena",
    question_kind="arena",
    about="votes of people who search with two systems side by side",
    main="sessions",
    columns={
        "sessions": {**ASKED, **SYSTEMS, **SESSION, "declared_list": pa.int8(), **ANSWERED},
        "turns": {
            **IDS,
            **SYSTEMS,
            **ASKED_AT_TURN,
            **LISTS,
            **VOTE,
            "nearest_list": pa.int8(),
            **SAID,
            **{f"image_states_{side}": TEXTS for side in SIDES},
        },
        "votes": {
            **IDS,
            "turn": pa.int32(),
            "triplet_id": TEXT,
            **SYSTEMS,
            **VOTE,
            "answered_at": TIME,
            "session_place": pa.int32(),
            "nearest_list": pa.int8(),
            "common_images": pa.int32(),
            "active_seconds": pa.float64(),
        },
    },
    descriptions={
        "sessions": "one row a search: its two systems, how it stopped, how it went, flags and "
        "times",
        "turns": "one row a turn: what both systems were asked, the two lists, and the feedback on "
        "them",
        "votes": "one row a vote between the two lists of a turn",
    },
    column_descriptions={
        "sessions": {
            **SESSION_COLUMNS,
            "system_1": "of the list on the left (on a phone, above), for the whole search",
            "stop": "found-other (an image was declared), enough, gave-up, technical (as the "
            "participant said), max-rounds, or idle (the participant left during the search); null "
            "if they left after stopping it",
            "turns": "the number of texts",
            "declared_list": "the list of the declared image, 1 or 2",
        },
        "turns": {
            **TURN_COLUMNS,
            "listed_at": "when both lists were stored; neither is shown before",
            "image_ids_1": "the list of system_1 as shown, best first; null if it did not come",
            "retriever_seconds_1": "how long the retriever took to answer",
            **VOTE_COLUMNS,
            "nearest_list": "the list of the nearest image, 1 or 2; null if none is nearest",
        },
        "votes": {
            "question_id": "of the search, in sessions",
            "turn": "of the search, from 1, as in turns",
            **VOTE_COLUMNS,
            "session_place": "of the search among the participant's, from 1",
            "nearest_list": "the list of the nearest image, 1 or 2; null if none is nearest",
            "common_images": "the number of images that both lists have",
        },
    },
    tables=tables,
    struck=struck,
    sets_are="",
)
