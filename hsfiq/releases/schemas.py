"""The tables of pairs and those of all releases: their columns and their descriptions."""

from __future__ import annotations

import pyarrow as pa

from hsfiq.answer_rules import CONFIRMED_DIFFERENCE

TEXT, TEXTS = pa.string(), pa.list_(pa.string())
TIME = pa.timestamp("us", tz="UTC")

COLUMNS: dict[str, dict[str, pa.DataType]] = {
    "preferences": {
        "question_id": TEXT,
        "participant_id": TEXT,
        "form": TEXT,
        "place": pa.int32(),
        "query_id": TEXT,
        "pair_id": TEXT,
        "swapped": pa.bool_(),
        "text": TEXT,
        "set_1": TEXT,
        "set_2": TEXT,
        "system_1": TEXT,
        "system_2": TEXT,
        "score_1": pa.int8(),
        "score_2": pa.int8(),
        "preferred": pa.int8(),
        "confirmed": pa.bool_(),
        "irrelevant": pa.bool_(),
        "reason": TEXT,
        "revision": pa.int32(),
        "served_at": TIME,
        "first_interaction_at": TIME,
        "submitted_at": TIME,
        "active_seconds": pa.float64(),
        "failed_checks": pa.int32(),
        "images_painted": pa.bool_(),
        "images_enlarged": pa.int32(),
        "reference_state": TEXT,
        "text_version": pa.int32(),
        "language": TEXT,
    },
    "sets": {
        "set_id": TEXT,
        "question_id": TEXT,
        "side": pa.int8(),
        "participant_id": TEXT,
        "query_id": TEXT,
        "system": TEXT,
        "image_ids": TEXTS,
        "shown_order": pa.list_(pa.int32()),
        "image_states": TEXTS,
        "score": pa.int8(),
    },
    "repeats": {
        "question_id": TEXT,
        "repeated_id": TEXT,
        "participant_id": TEXT,
        "query_id": TEXT,
        "score_1": pa.int8(),
        "score_2": pa.int8(),
        "preferred": pa.int8(),
        "active_seconds": pa.float64(),
    },
    "queries": {
        "query_id": TEXT,
        "triplet_id": TEXT,
        "dataset": TEXT,
        "category": TEXT,
        "split": TEXT,
        "reference_id": TEXT,
        "target_id": TEXT,
        "text": TEXT,
        "text_shown": TEXT,
        "captions": TEXTS,
    },
    "exclusions": {
        "question_id": TEXT,
        "participant_id": TEXT,
        "query_id": TEXT,
        "rule": TEXT,
        "value": TEXT,
    },
    "splits": {"question_id": TEXT, "part": TEXT},
    "fields": {
        "field": TEXT,
        "asked": TEXT,
        "type": TEXT,
        "wording": TEXT,
        "options": TEXTS,
        "required": pa.bool_(),
    },
    "extra_answers": {
        "question_id": TEXT,
        "participant_id": TEXT,
        "field": TEXT,
        "number": pa.float64(),
        "value": TEXT,
    },
    "participant_answers": {
        "participant_id": TEXT,
        "field": TEXT,
        "number": pa.float64(),
        "value": TEXT,
    },
}
SHARED = ("queries", "exclusions", "splits", "fields", "extra_answers", "participant_answers")
"""The tables that releases of every kind have.

`splits` only if asked for, the last three only if the owner has extra questions of that kind.
"""

DESCRIPTIONS = {
    "preferences": "one row a question: both scores, the preferred set (0 = tie), flags and times",
    "sets": "one row a retrieved set as judged: its images, best first, and its score, from 1",
    "repeats": "one row a repeated question (an attention check): the second answer, with the "
    "sides of the first",
    "queries": "one row a query: reference, target and text; each may be absent",
    "exclusions": "one row a dropped question, with the rule and the value that dropped it",
    "splits": "one row a question: its part, train, test or unused (in neither)",
    "fields": "one row an extra question of the study's owner: its type, wording and options",
    "extra_answers": "one row an answer to an extra question: each chosen option has its row, and "
    "without an answer number and value are null",
    "participant_answers": "one row an answer to a question at the end, as in extra_answers; none "
    "of participants who did not reach the end",
}

_STATES = (
    "missing (no file), unloaded, loaded (but never in view), shown (its middle was in view) or "
    "enlarged; null if unknown"
)
_ANSWER = {
    "number": "the number itself, or that of the option, from 1; null for texts",
    "value": "the option's wording, or the text; null for numbers",
}
TEXT_VERSION = (
    "the version of the study's texts that the page showed, as in text_versions.json; null if "
    "unknown"
)
COLUMN_DESCRIPTIONS = {
    "queries": {
        "reference_id": "null if the query is a text alone",
        "target_id": "null if it is unknown",
        "text": "exactly as in its source; empty if the query is an image alone",
    },
    "preferences": {
        "confirmed": "true if the participant was asked whether the preference for the set scored "
        f"{CONFIRMED_DIFFERENCE} or more points lower is meant, and kept it; null if not asked, or "
        "unknown",
        "irrelevant": "whether the question was flagged irrelevant; null if flags were not "
        "recorded",
        "active_seconds": "of all revisions together; null if times were not recorded",
        "failed_checks": "of the question's form; null if no check was answered",
        "images_painted": "whether every image was shown or enlarged before the answer; null if "
        "unknown",
        "images_enlarged": "how many images were enlarged before the answer, the reference "
        "included; null if unknown",
        "reference_state": "how the reference image, if there is one, stood when the answer was "
        f"given: {_STATES}",
    },
    "repeats": {
        "question_id": "of the repeated question, which is not in preferences",
        "repeated_id": "the question_id of the first answer, in preferences",
        "score_1": "of set 1 of the first question, on whichever side it was shown again",
        "preferred": "1, 2 (sets of the first question) or 0 for a tie",
    },
    "fields": {
        "field": "the name of the question, as in the tables of answers",
        "asked": "after each question; or once, at the end",
        "type": "choice (one option), choices (any options), scale (ordered options), number or "
        "text",
        "wording": "as annotators read it",
        "options": "in the order shown; null for numbers and texts",
    },
    "extra_answers": _ANSWER,
    "participant_answers": _ANSWER,
    "sets": {
        "shown_order": "the places of the images in image_ids, in the order in which they were "
        "shown; null if shown best first",
        "image_states": "how each image of image_ids stood when the answer was given: " + _STATES,
    },
}
"""Of the columns whose names do not say all, by table."""
