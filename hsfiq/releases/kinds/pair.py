"""`hs` and `hp`: the scores and the preferences of a study of pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlalchemy.orm import Session

from hsfiq.db.tables import Study
from hsfiq.releases.kinds.kind import Files, ReleaseKind, Rows, set_rows
from hsfiq.releases.layouts.hpfiq import layout_obstacle, to_hpfiq
from hsfiq.releases.rows import QuestionRow
from hsfiq.releases.schemas import COLUMNS


def tables(kept: Sequence[QuestionRow]) -> dict[str, Rows]:
    return {
        "preferences": [
            {name: getattr(question, name) for name in COLUMNS["preferences"]} for question in kept
        ],
        "sets": [
            row
            for question in kept
            for row in set_rows(question, (question.score_1, question.score_2))
        ],
    }


def published_layout(session: Session, study: Study, kept: Sequence[QuestionRow]) -> Files:
    files: dict[str, bytes] = {}
    notes = []
    obstacle = layout_obstacle(study, kept)
    if obstacle:
        notes.append(f"no hpfiq.json: {obstacle}")
    else:
        files["hpfiq.json"] = to_hpfiq(session, study, kept)
    return files, notes


HS = ReleaseKind(
    name="hs",
    question_kind="pair",
    about="human judgements of paired retrieved sets",
    main="preferences",
    columns={table: COLUMNS[table] for table in ("preferences", "sets", "repeats")},
    descriptions={},
    tables=tables,
)
HP = replace(HS, name="hp", files=published_layout)
