"""`search`: a search of several turns with a live retriever, and a final judgement of it.

The judgement is given after the search has stopped; the turns have separate tables. Its release
also contains the sessions for `hsfiq sessions`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, get_args

from hsfiq.errors import Refused
from hsfiq.kinds import kind
from hsfiq.kinds.rows import QuestionRow, Questions, TableRows, answer_row
from hsfiq.kinds.search_rows import LATE, SearchRow, Stop, TurnRow
from hsfiq.kinds.tables import (
    ANSWERED,
    ASKED,
    FLAG,
    IDS,
    NUMBER,
    NUMBERS,
    POINTS,
    STATES,
    TEXT,
    TEXTS,
    TIME,
    UNKNOWN,
    WHOLE,
    Column,
    Table,
)

RECORDS_FILE = "session_records.jsonl"
"""The searches as the sessions that `hsfiq sessions measure` reads."""

MOST_POINTS = 5
"""Of the scales of satisfaction, success and ease."""

WHYS = ("enough", "gave-up", "technical")
"""The reasons for stopping without declaring an image."""


def read(given: Mapping[str, Any], _rules: kind.Rules) -> dict[str, Any]:
    kind.require_keys(given, "success", "ease", "would_go_on", "why")
    scores = {
        name: kind.require_whole_number(name, given[name], 1, MOST_POINTS)
        for name in ("success", "ease")
    }
    if not isinstance(given["would_go_on"], bool):
        raise Refused("would_go_on is neither true nor false")
    why = given["why"]
    if why is not None and why not in WHYS:
        raise Refused(f"why is not one of {', '.join(WHYS)}")
    return {**scores, "would_go_on": given["would_go_on"], "why": why}


def summary(judgement: Mapping[str, Any]) -> str:
    return f"success {judgement['success']}, ease {judgement['ease']}"


def repeats(first: kind.ShownAnswer, again: kind.ShownAnswer, _rules: kind.Rules) -> bool:
    return bool(first.values["success"] == again.values["success"])


# The columns that releases of searches and of arenas share.

LEFT = "the participant left before the questions at the end"
NO_LIST = "the list did not arrive"
NO_FEEDBACK = "the participant gave no feedback on the list"
NO_TURN = "the search has no turn"
NO_TARGET = "there is no target"
STRUCK = "the study's owner has redacted it"
NO_FLAG = "always: searches cannot be flagged"
NOT_TYPED = "it is unknown, or the text is the query's"

SESSION = (
    Column(
        "task",
        TEXT,
        "what the participant saw of the target: target-shown, target-remembered (after a look) "
        "or own-wish (there was none)",
    ),
    Column("history", TEXT, "how the retriever combines the turns"),
    Column("chooser", TEXT, "the image that a further text is about: nearest or top1"),
    Column("max_rounds", WHOLE, "the most lists of a search", "lists", lowest=1),
    Column("session_place", WHOLE, "of the search among the participant's, from 1", lowest=1),
    Column(
        "uploaded",
        FLAG,
        "whether the participant uploaded a picture to start from, instead of the query's "
        "reference; the release does not have it",
    ),
    Column("turns", WHOLE, "the number of texts, the query's own included", "turns", lowest=0),
    Column(
        "stop",
        TEXT,
        "found (the declared image is the target), found-other (it is not, or there is no target), "
        "enough, gave-up, technical (as the participant said), max-rounds, or idle (the "
        "participant left during the search)",
        null="the participant left after stopping it",
        values=get_args(Stop),
    ),
    Column("declared_id", TEXT, "the image declared as found", null="none was declared"),
    Column("abandoned", FLAG, "whether the participant left before the questions at the end"),
    Column(
        "resumed",
        FLAG,
        "whether the participant continued after half an hour or more away from the page",
        null=NO_TURN,
    ),
    Column(
        "longest_pause_seconds",
        NUMBER,
        "the longest time away from the page in a turn",
        "seconds",
        null=NO_TURN,
        lowest=0,
    ),
    Column(
        "late_lists",
        WHOLE,
        f"the lists that took more than {LATE:g} seconds, or never came",
        "lists",
        lowest=0,
    ),
    Column("ended_at", TIME, "when the search stopped", null="the participant left before"),
    Column(
        "success",
        POINTS,
        "whether the participant found what they looked for, 1 to 5",
        "points",
        null=LEFT,
        lowest=1,
        highest=5,
    ),
    Column(
        "ease",
        POINTS,
        "how easy the search was, from 1 (very hard) to 5",
        "points",
        null=LEFT,
        lowest=1,
        highest=5,
    ),
    Column(
        "would_go_on",
        FLAG,
        "whether the participant would continue the search if possible",
        null=LEFT,
    ),
    Column("corpus", TEXT, "the name of the retriever's corpus"),
    Column("corpus_size", WHOLE, "of the retriever's corpus", "images", lowest=0),
)
"""What the sessions of all live kinds have."""

ANSWERED_IN_THE_END = tuple(
    replace(column, null=NO_FLAG) if column.name == "irrelevant" else column for column in ANSWERED
)
"""What the sessions of all live kinds have last."""

TURN = Column("turn", WHOLE, "of the search, from 1", lowest=1)
ASKED_AT_TURN = (
    TURN,
    Column(
        "reference_id",
        TEXT,
        "the image that the text is about",
        null="it is the participant's own picture",
    ),
    Column("text", TEXT, "as typed", null=STRUCK),
    Column("text_normalised", TEXT, "in lower case, with single spaces", null=STRUCK),
    Column("words", WHOLE, "of the text", "words", null=STRUCK, lowest=0),
    Column("struck", FLAG, "whether the study's owner has redacted the text"),
    Column("from_query", FLAG, "whether the text is the query's, and not the participant's"),
    Column("repeats", FLAG, "whether an earlier turn of the search had the same text"),
    Column("pasted", FLAG, "whether the text was pasted", null=NOT_TYPED),
    Column("asked_at", TIME, "when the text was sent"),
    Column(
        "first_key_seconds",
        NUMBER,
        "from when the list was on the page to the first key",
        "seconds",
        null=NOT_TYPED,
    ),
    Column(
        "last_key_seconds",
        NUMBER,
        "from when the list was on the page to the last key",
        "seconds",
        null=NOT_TYPED,
    ),
    Column("listed_at", TIME, "when the list was stored", null=NO_LIST),
)
LIST = (
    Column(
        "retriever_seconds",
        NUMBER,
        "how long the retriever took to answer",
        "seconds",
        null=NO_LIST,
        lowest=0,
    ),
    Column("image_ids", TEXTS, "the list as shown, best first", null=NO_LIST),
    Column("scores", NUMBERS, "of the images, as the retriever gave them", null=NO_LIST),
    Column(
        "rank",
        WHOLE,
        "of the target in the whole corpus: images scored above it, those of its score earlier in "
        "the corpus, and 1",
        null=f"{NO_TARGET}, or {NO_LIST}",
        lowest=1,
    ),
    Column(
        "ties",
        WHOLE,
        "the other images with the target's score",
        "images",
        null=f"{NO_TARGET}, or {NO_LIST}",
        lowest=0,
    ),
    Column("system_version", TEXT, "of the retriever, as it says", null=NO_LIST),
    Column("corpus_sha256", TEXT, "the digest of the corpus, as the retriever says", null=NO_LIST),
)
SAID = (
    Column(
        "nearest_place",
        WHOLE,
        "of the image marked as nearest, from 1",
        null="none was marked",
        lowest=1,
    ),
    Column("nearest_id", TEXT, "the image marked as nearest", null="none was marked"),
    Column(
        "painted_seconds",
        NUMBER,
        "until all images were painted",
        "seconds",
        null=f"{NO_FEEDBACK}, or {UNKNOWN}",
        lowest=0,
    ),
    Column(
        "active_seconds",
        NUMBER,
        "the time with the list in use",
        "seconds",
        null=NO_FEEDBACK,
        lowest=0,
    ),
    Column(
        "pause_seconds",
        NUMBER,
        "from the list to the feedback on it, without active_seconds",
        "seconds",
        null=NO_FEEDBACK,
        lowest=0,
    ),
    Column("given_at", TIME, "when the feedback was given", null=NO_FEEDBACK),
)
LIST_STATES = Column(
    "image_states",
    TEXTS,
    f"how each image of the list stood when the feedback was given: {STATES}",
    null=f"{NO_FEEDBACK}, or {UNKNOWN}",
)

# The tables of a release.

SYSTEM_NAME = Column("system", TEXT, "the retriever, by its name in the study")
SEARCH_ID = Column("question_id", TEXT, "of the search", refers_to="sessions.question_id")
EMPTY = ("image_ids", "scores")
"""Without a list these are empty; the other columns of a list are null."""


SESSIONS = Table(
    "sessions",
    "one row a search: its ending, the judgement, flags and times",
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
    "one row a turn: the query, the list, and the feedback on it",
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


def table_rows(kept: Questions) -> dict[str, TableRows]:
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


def struck(kept: Questions) -> list[dict[str, Any]]:
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


def judgement(row: kind.Row, _parts: Mapping[str, Sequence[kind.Row]]) -> dict[str, Any]:
    """The judgement of the search, and the reason for stopping, if asked."""
    stop = row["stop"]
    values = {name: row[name] for name in ("success", "ease", "would_go_on")}
    return {**values, "why": stop if stop in WHYS else None}


def nearest_is_in_list(images: str, what: str, side: str = "true") -> kind.RowCheck:
    return kind.RowCheck(
        "nearest_id",
        what,
        "place is not null and own is distinct from image",
        {
            "place": f"case when {side} then t.nearest_place end",
            "image": "t.nearest_id",
            "own": f"t.{images}[t.nearest_place]",
        },
    )


TEXT_IS_STRUCK = kind.RowCheck(
    "text",
    "is there, and was struck",
    "struck and said",
    {
        "struck": "t.struck",
        "said": "t.text is not null",
    },
)
CHECKS_OF_TURNS = (
    kind.as_many_as_images("scores"),
    kind.as_many_as_images("image_states"),
    nearest_is_in_list("image_ids", "{image} is not image {place} of the list"),
    TEXT_IS_STRUCK,
)

SEARCH_RELEASE = kind.ReleaseKind(
    name="search",
    about="searches of people over several turns",
    main="sessions",
    own_tables=(SESSIONS, TURNS),
    tables=table_rows,
    judgement=judgement,
    checks={"sessions": (kind.is_of_query(),), "turns": CHECKS_OF_TURNS},
    files=(RECORDS_FILE,),
    struck=struck,
    sets_are="",
)
SEARCH = kind.Kind(
    name="search",
    asks="searches over several turns",
    n_sets=lambda _options: 0,
    options=frozenset(),
    read=read,
    summary=summary,
    repeats=repeats,
    releases=(SEARCH_RELEASE,),
    needs_lists=False,
    n_live=1,
)
