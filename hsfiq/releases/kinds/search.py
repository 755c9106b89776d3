"""`search`: searches over several turns, their turns, and the sessions for `hsfiq sessions`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from sqlalchemy.orm import Session

from hsfiq.db.tables import Study
from hsfiq.releases.kinds.kind import (
    ANSWERED,
    ASKED,
    ITEM,
    Columns,
    Files,
    ReleaseKind,
    Rows,
    answer_row,
)
from hsfiq.releases.rows import QuestionRow
from hsfiq.releases.schemas import TEXT, TEXTS, TIME
from hsfiq.releases.searching.records import FILE, records_file
from hsfiq.releases.searching.rows import LATE, SearchRow, TurnRow

SESSION: Columns = {
    "task": TEXT,
    "history": TEXT,
    "chooser": TEXT,
    "max_rounds": pa.int32(),
    "session_place": pa.int32(),
    "uploaded": pa.bool_(),
    "turns": pa.int32(),
    "stop": TEXT,
    "declared_id": TEXT,
    "abandoned": pa.bool_(),
    "resumed": pa.bool_(),
    "longest_pause_seconds": pa.float64(),
    "late_lists": pa.int32(),
    "ended_at": TIME,
    "success": pa.int8(),
    "ease": pa.int8(),
    "would_go_on": pa.bool_(),
    "corpus": TEXT,
    "corpus_size": pa.int32(),
}
"""What the sessions of all live kinds have."""

OF_SEARCH: Columns = {
    "missed": pa.bool_(),
    "final_rank": pa.int32(),
    "best_rank": pa.int32(),
    "satisfaction": pa.int8(),
}
ASKED_AT_TURN: Columns = {
    "turn": pa.int32(),
    "reference_id": TEXT,
    "text": TEXT,
    "text_normalised": TEXT,
    "words": pa.int32(),
    "struck": pa.bool_(),
    "from_query": pa.bool_(),
    "repeats": pa.bool_(),
    "pasted": pa.bool_(),
    "asked_at": TIME,
    "first_key_seconds": pa.float64(),
    "last_key_seconds": pa.float64(),
    "listed_at": TIME,
}
LIST: Columns = {
    "retriever_seconds": pa.float64(),
    "image_ids": TEXTS,
    "scores": pa.list_(pa.float64()),
    "rank": pa.int32(),
    "ties": pa.int32(),
    "system_version": TEXT,
    "corpus_sha256": TEXT,
}
SAID: Columns = {
    "nearest_place": pa.int32(),
    "nearest_id": TEXT,
    "painted_seconds": pa.float64(),
    "active_seconds": pa.float64(),
    "pause_seconds": pa.float64(),
    "given_at": TIME,
}
IDS: Columns = dict.fromkeys(("question_id", "participant_id", "query_id"), TEXT)

SESSION_COLUMNS = {
    "item_id": ITEM,
    "text": "of the query, as in its source",
    "stop": "found (the declared image is the target), found-other (it is not, or there is "
    "no target), enough, gave-up, technical (as the participant said), max-rounds, or idle "
    "(the participant left during the search); null if they left after stopping it",
    "abandoned": "whether the participant left before the questions at the end",
    "resumed": "whether they went on after half an hour or more away from the page",
    "longest_pause_seconds": "the longest time away from the page in a turn",
    "late_lists": f"the lists that took more than {LATE:g} seconds, or never came",
    "success": "whether the participant found what they looked for, 1 to 5",
    "ease": "how easy the search was, from 1 (very hard) to 5",
    "active_seconds": "of all turns and of the questions at the end",
    "uploaded": "whether the participant uploaded a picture to start from, instead of the query's "
    "reference; the release does not have it",
    "turns": "the number of texts, the query's own included",
}
TURN_COLUMNS = {
    "question_id": "of the search, in sessions",
    "reference_id": "the image that the text is about; null if it is the participant's own picture",
    "text": "as typed; null if the study's owner has struck it",
    "text_normalised": "in lower case, each run of blanks as one",
    "from_query": "whether the text is the query's, and not the participant's",
    "repeats": "whether an earlier turn of the search had the same text",
    "first_key_seconds": "from when the list was on the page; null if unknown",
    "nearest_id": "the image marked as nearest; null if none was",
    "painted_seconds": "until all images were painted",
    "pause_seconds": "from the list to the feedback on it, without active_seconds",
}
"""Descriptions that all live kinds share."""


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
    """The columns of `SESSION`."""
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
    lists = {name: turn.of_list(1, name) for name in LIST}
    no_images = {name: lists[name] or [] for name in ("image_ids", "scores")}
    return {
        **ids_of(question),
        "system": search.systems[0],
        **{name: getattr(turn, name) for name in ASKED_AT_TURN},
        **lists,
        **no_images,
        "satisfaction": turn.satisfaction,
        **{name: getattr(turn, name) for name in SAID},
        "image_states": turn.states_of_list(1),
    }


def ids_of(question: QuestionRow) -> dict[str, str]:
    return {name: getattr(question, name) for name in IDS}


def files(_session: Session, study: Study, kept: Sequence[QuestionRow]) -> Files:
    content, n_left_out = records_file(study, kept)
    notes = [f"{FILE} lacks {n_left_out:,} searches without any turn"] if n_left_out else []
    return {FILE: content}, notes


def struck(kept: Sequence[QuestionRow]) -> Rows:
    """The rows of `exclusions` about texts that the owner has struck."""
    return [
        {
            "question_id": question.question_id,
            "participant_id": question.participant_id,
            "query_id": question.query_id,
            "rule": "struck-text",
            "value": f"turn {turn.turn}",
        }
        for question in kept
        if question.search
        for turn in question.search.turns
        if turn.struck
    ]


SEARCH = ReleaseKind(
    name="search",
    question_kind="search",
    about="searches of people over several turns",
    main="sessions",
    columns={
        "sessions": {**ASKED, "system": TEXT, **SESSION, **OF_SEARCH, **ANSWERED},
        "turns": {
            **IDS,
            "system": TEXT,
            **ASKED_AT_TURN,
            **LIST,
            "satisfaction": pa.int8(),
            **SAID,
            "image_states": TEXTS,
        },
    },
    descriptions={
        "sessions": "one row a search: how it stopped, how it went, flags and times",
        "turns": "one row a turn: what was asked, the list, and the feedback on it",
    },
    column_descriptions={
        "sessions": {
            **SESSION_COLUMNS,
            "missed": "whether a list had the target and the participant went on; null without a "
            "target",
            "best_rank": "of the target in any list, from 1; null without a target",
            "satisfaction": "with the last list that was judged, 1 to 5",
        },
        "turns": {
            **TURN_COLUMNS,
            "rank": "of the target in the whole corpus: images scored above it, those of its "
            "score earlier in the corpus, and 1; null without a target",
            "ties": "the other images with the target's score",
            "image_ids": "the list as shown, best first",
            "retriever_seconds": "how long the retriever took to answer",
        },
    },
    tables=tables,
    files=files,
    struck=struck,
    sets_are="",
)
