"""The tables that releases of every kind have."""

from __future__ import annotations

from hsfiq.releases.kinds.columns import PARTICIPANT_ID, QUESTION_ID
from hsfiq.releases.schemas import CONTENT, FLAG, NUMBER, TEXT, TEXTS, UNKNOWN, WHOLE, Column, Table

QUERIES = Table(
    "queries",
    "one row a query: reference, target and text; each may be absent",
    (
        Column("query_id", TEXT, "the id of the triplet, with a suffix for other texts than its"),
        Column("triplet_id", TEXT, "the pair of reference and target that the query is of"),
        Column("dataset", TEXT, "where the query comes from"),
        Column("category", TEXT, "of the garment, or the like; empty if the dataset has none"),
        Column("split", TEXT, "of the dataset, such as val", null="the dataset has none"),
        Column("reference_id", TEXT, "the reference image", null="the query is a text alone"),
        Column("target_id", TEXT, "the labelled target image", null=UNKNOWN),
        Column(
            "text", TEXT, "exactly as in its source; empty if the query is an image alone"
        ),
        Column("text_shown", TEXT, "the text as annotators read it"),
        Column("captions", TEXTS, "of the triplet, in the dataset's order; the text is made of it"),
    ),
    key=("query_id",),
)  # fmt: skip
EXCLUSIONS = Table(
    "exclusions",
    "one row a dropped question, with the rule and the value that dropped it, and with all rules "
    "that it broke",
    (
        QUESTION_ID,
        PARTICIPANT_ID,
        Column("query_id", TEXT, "the query, which `queries` has if a kept question is about it"),
        Column(
            "rule",
            TEXT,
            "the rule that dropped it: the first that it broke, in the order of the funnel",
        ),
        Column("value", TEXT, "what the rule dropped it for"),
        Column("rules", TEXTS, "all rules that it broke, in the order of the funnel"),
        Column("values", TEXTS, "for each of the rules, what it broke the rule for"),
    ),
)
SPLITS = Table(
    "splits",
    "one row a question: its part, train, test or unused (in neither)",
    (
        QUESTION_ID,
        Column("part", TEXT, "the part of the question", values=("train", "test", "unused")),
    ),
    key=("question_id",),
    present="a split was asked for",
)

FIELD = Column("field", TEXT, "the name of the extra question", refers_to="fields.field")
_ANSWER = (
    FIELD,
    Column(
        "number",
        NUMBER,
        'the number itself, or that of the option, from 1; "Other" comes after the options',
        null="the answer is a text, or there is none",
    ),
    Column(
        "value",
        TEXT,
        'the option\'s wording, or the text, also that of "Other"',
        null="the answer is a number, there is none, or texts were left out",
    ),
)
NO_BOUND = "there was no such bound"
FIELDS = Table(
    "fields",
    "one row an extra question of the study's owner: its type, wording, options and bounds",
    (
        Column("field", TEXT, "the name of the question, as in the tables of answers"),
        Column("asked", TEXT, "after each question; or once, at the end"),
        Column(
            "type",
            TEXT,
            "choice (one option), choices (any options), scale (ordered options), number or text",
            values=("choice", "choices", "scale", "number", "text"),
        ),
        Column("wording", TEXT, "as annotators read it"),
        Column("options", TEXTS, "in the order shown", null="it asks for a number or a text"),
        Column("required", FLAG, "whether it had to be answered"),
        Column("min", NUMBER, "the least number that was accepted", null=NO_BOUND),
        Column("max", NUMBER, "the greatest number that was accepted", null=NO_BOUND),
        Column("other", FLAG, 'whether "Other", with a text, came after the options'),
    ),
    key=("field",),
    present="the owner asked extra questions",
)
EXTRA_ANSWERS = Table(
    "extra_answers",
    "one row an answer to an extra question: each chosen option has its row, and without an answer "
    "number and value are null",
    (QUESTION_ID, PARTICIPANT_ID, *_ANSWER),
    present="the owner asked extra questions after each question",
)
PARTICIPANT_ANSWERS = Table(
    "participant_answers",
    "one row an answer to a question at the end, as in extra_answers; none of participants who did "
    "not reach the end",
    (PARTICIPANT_ID, *_ANSWER),
    present="the owner asked extra questions at the end",
)

REASONS = Table(
    "reasons",
    "one row a reason that a participant wrote for a flag or an answer",
    (QUESTION_ID, PARTICIPANT_ID, Column("reason", TEXT, "as written, without outer blanks")),
    key=("question_id",),
    present="a kept answer has a reason, unless they were left out (`--without texts`)",
)
ABSENT = "the file is absent or cannot be decoded"
IMAGES = Table(
    "images",
    "one row an image that queries, sets and turns name, with its file",
    (
        Column("dataset", TEXT, "the dataset of the image"),
        Column("image_id", TEXT, "the image"),
        Column(
            "file_name", TEXT, "the last part of the id, with the file's extension", null=ABSENT
        ),
        Column("width", WHOLE, "of the image as stored", "pixels", null=ABSENT, lowest=1),
        Column("height", WHOLE, "of the image as stored", "pixels", null=ABSENT, lowest=1),
        Column("bytes", WHOLE, "the size of the file", "bytes", null=ABSENT, lowest=1),
        Column("sha256", TEXT, "the digest of the file", null=ABSENT),
        Column("image", CONTENT, "the file", null=ABSENT),
    ),
    key=("dataset", "image_id"),
    present="images were asked for (`--with-images`)",
)

SHARED_TABLES = (
    QUERIES,
    EXCLUSIONS,
    SPLITS,
    REASONS,
    FIELDS,
    EXTRA_ANSWERS,
    PARTICIPANT_ANSWERS,
    IMAGES,
)
"""In the order of the dataset card, after the kind's own tables."""
