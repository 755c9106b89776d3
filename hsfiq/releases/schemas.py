"""The tables of a release and their columns."""

from __future__ import annotations

import pyarrow as pa


def columns(**types: pa.DataType) -> pa.Schema:
    """A schema of these columns, in this order."""
    return pa.schema([pa.field(name, type_) for name, type_ in types.items()])


_TEXT = pa.string()
_TEXTS = pa.list_(_TEXT)
_MOMENT = pa.timestamp("us", tz="UTC")

SCHEMAS: dict[str, pa.Schema] = {
    "queries": columns(
        query_id=_TEXT,
        triplet_id=_TEXT,
        dataset=_TEXT,
        category=_TEXT,
        split=_TEXT,
        reference_id=_TEXT,
        target_id=_TEXT,
        text=_TEXT,
        text_shown=_TEXT,
        captions=_TEXTS,
    ),
    "sets": columns(
        set_id=_TEXT,
        question_id=_TEXT,
        side=pa.int8(),
        participant_id=_TEXT,
        query_id=_TEXT,
        system=_TEXT,
        image_ids=_TEXTS,
        shown_order=pa.list_(pa.int32()),
        score=pa.int8(),
    ),
    "preferences": columns(
        question_id=_TEXT,
        participant_id=_TEXT,
        form=_TEXT,
        place=pa.int32(),
        query_id=_TEXT,
        pair_id=_TEXT,
        swapped=pa.bool_(),
        text=_TEXT,
        set_1=_TEXT,
        set_2=_TEXT,
        system_1=_TEXT,
        system_2=_TEXT,
        score_1=pa.int8(),
        score_2=pa.int8(),
        preferred=pa.int8(),
        irrelevant=pa.bool_(),
        reason=_TEXT,
        revision=pa.int32(),
        served_at=_MOMENT,
        first_interaction_at=_MOMENT,
        submitted_at=_MOMENT,
        active_seconds=pa.float64(),
        failed_checks=pa.int32(),
    ),
    "exclusions": columns(
        question_id=_TEXT,
        participant_id=_TEXT,
        query_id=_TEXT,
        rule=_TEXT,
        value=_TEXT,
    ),
    "splits": columns(
        question_id=_TEXT,
        part=_TEXT,
    ),
}
