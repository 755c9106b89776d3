"""The tables of a release: their columns and their descriptions."""

from __future__ import annotations

import pyarrow as pa

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
}
SCHEMAS = {table: pa.schema(columns) for table, columns in COLUMNS.items()}
"""In the order of the dataset card and of the Croissant metadata."""

DESCRIPTIONS = {
    "preferences": "one row a question: both scores, the preferred set (0 = tie), flags and times",
    "sets": "one row a retrieved set as judged: its images, best first, and its score from 1 to 5",
    "queries": "one row a query: reference, target and text",
    "exclusions": "one row a dropped question, with the rule and the value that dropped it",
    "splits": "one row a question: its part, train, test or unused (in neither)",
}

_STATES = (
    "missing (no file), unloaded, loaded (but never in view), shown (its middle was in view) or "
    "enlarged; null if unknown"
)
COLUMN_DESCRIPTIONS = {
    "preferences": {
        "active_seconds": "of all revisions together",
        "failed_checks": "of the question's form",
        "images_painted": "whether every image was shown or enlarged before the answer; null if "
        "unknown",
        "images_enlarged": "how many images were enlarged before the answer, the reference "
        "included; null if unknown",
        "reference_state": f"how the reference image stood when the answer was given: {_STATES}",
    },
    "sets": {
        "shown_order": "the places of the images in image_ids, in the order in which they were "
        "shown; null if shown best first",
        "image_states": "how each image of image_ids stood when the answer was given: " + _STATES,
    },
}
"""Of the columns whose names do not say all, by table."""
