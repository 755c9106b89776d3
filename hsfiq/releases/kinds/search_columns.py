"""The columns that releases of searches and of arenas share."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

from hsfiq.releases.kinds.columns import ANSWERED, STATES
from hsfiq.releases.schemas import (
    FLAG,
    NUMBER,
    NUMBERS,
    POINTS,
    TEXT,
    TEXTS,
    TIME,
    UNKNOWN,
    WHOLE,
    Column,
)
from hsfiq.releases.searching.rows import LATE, Stop

LEFT = "the participant left before the questions at the end"
NO_LIST = "the list did not come"
NO_FEEDBACK = "the participant gave no feedback on the list"
NO_TURN = "the search has no turn"
NO_TARGET = "there is no target"
STRUCK = "the study's owner has struck it"
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
        "whether they went on after half an hour or more away from the page",
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
    Column("would_go_on", FLAG, "whether they would search on if they could", null=LEFT),
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
    Column("text_normalised", TEXT, "in lower case, each run of blanks as one", null=STRUCK),
    Column("words", WHOLE, "of the text", "words", null=STRUCK, lowest=0),
    Column("struck", FLAG, "whether the study's owner has struck the text"),
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
