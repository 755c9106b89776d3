"""The columns that the answers of several kinds share, and the table of their sets."""

from __future__ import annotations

from hsfiq.answer_rules import IMAGE_STATES
from hsfiq.releases.schemas import (
    FLAG,
    NUMBER,
    POINTS,
    TEXT,
    TEXTS,
    TIME,
    UNKNOWN,
    WHOLE,
    WHOLES,
    Column,
    Table,
)

STATES = (
    "missing (no file), unloaded, loaded (but never in view), shown (its middle was in view) or "
    "enlarged"
)
SYSTEM = Column("system", TEXT, "the retrieval system of the set", null="systems were not named")

QUESTION_ID = Column("question_id", TEXT, "the question: `<participant>.<form>.<place>`")
PARTICIPANT_ID = Column(
    "participant_id", TEXT, "the annotator's pseudonym, the same in all tables of the release"
)
QUERY_ID = Column("query_id", TEXT, "the query", refers_to="queries.query_id")
IDS = (QUESTION_ID, PARTICIPANT_ID, QUERY_ID)

FORM = Column("form", TEXT, "the participant's form that has the question")
PLACE = Column("place", WHOLE, "of the question in its form, from 0", lowest=0)
SHOWN_TEXT = Column(
    "text", TEXT, "of the query, exactly as in its source; empty if the query is an image alone"
)
ITEM_ID = Column("item_id", TEXT, "what was judged: the same for everybody who judged it")

ASKED = (QUESTION_ID, PARTICIPANT_ID, FORM, PLACE, QUERY_ID, ITEM_ID, SHOWN_TEXT)
"""What the main table of each kind but `pair` has first."""

ANSWERED = (
    Column(
        "irrelevant",
        FLAG,
        "whether the question was flagged irrelevant",
        null="flags were not recorded",
    ),
    Column("revision", WHOLE, "of the answer: 1, or more if it was changed", lowest=0),
    Column("served_at", TIME, "when the question was shown", null="times were not recorded"),
    Column(
        "first_interaction_at",
        TIME,
        "when the participant first did something on the page",
        null="times were not recorded",
    ),
    Column("submitted_at", TIME, "when the answer was given", null="times were not recorded"),
    Column(
        "active_seconds",
        NUMBER,
        "the time with the page in use, of all revisions together",
        unit="seconds",
        null="times were not recorded",
        lowest=0,
    ),
    Column(
        "failed_checks",
        WHOLE,
        "how many attention checks of the question's form were failed",
        unit="checks",
        null="no check was answered",
        lowest=0,
    ),
    Column(
        "images_painted",
        FLAG,
        "whether every image was shown or enlarged before the answer",
        null=UNKNOWN,
    ),
    Column(
        "images_enlarged",
        WHOLE,
        "how many images were enlarged before the answer, the reference included",
        unit="images",
        null=UNKNOWN,
        lowest=0,
    ),
    Column(
        "reference_state",
        TEXT,
        f"how the reference image stood when the answer was given: {STATES}",
        null="it is unknown, or the query has no reference",
        values=IMAGE_STATES,
    ),
    Column(
        "text_version",
        WHOLE,
        "the version of the study's texts that the page showed, as in text_versions.json",
        null=UNKNOWN,
        lowest=1,
    ),
    Column("language", TEXT, "of the page, as a BCP 47 tag", null=UNKNOWN),
)
"""What the main table of every kind has last."""

SCORE = Column(
    "score", POINTS, "the Likert score of the set", unit="points", lowest=1, on_scale=True
)
SET_ID = Column("set_id", TEXT, "the set as judged: `<question_id>.<side>`")
IMAGE_STATES_COLUMN = Column(
    "image_states",
    TEXTS,
    f"how each image of image_ids stood when the answer was given: {STATES}",
    null=UNKNOWN,
    values=IMAGE_STATES,
)

SET_COLUMNS = (
    SET_ID,
    QUESTION_ID,
    Column("side", POINTS, "the place of the set in its question, from 1", lowest=1),
    PARTICIPANT_ID,
    QUERY_ID,
    SYSTEM,
    Column("image_ids", TEXTS, "the images of the set, best first"),
    Column(
        "shown_order",
        WHOLES,
        "the places of the images in image_ids, from 0, in the order in which they were shown",
        null="they were shown best first",
        lowest=0,
    ),
    IMAGE_STATES_COLUMN,
)
SETS = Table(
    "sets",
    "one row a retrieved set as judged: its images, best first, and its score",
    (*SET_COLUMNS, SCORE),
    key=("set_id",),
)
