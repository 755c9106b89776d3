"""What stands in a release folder: the same database state and options give the same bytes.

So no file holds the time of the export or a path of the machine; rows are in the study's order.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from sqlalchemy.orm import Session

import hsfiq
from hsfiq.db.tables import Study
from hsfiq.errors import NothingToDo
from hsfiq.ids import set_id
from hsfiq.releases.card import croissant, readme
from hsfiq.releases.filters import Exclusion, Filters, Kind, Sifted, sift
from hsfiq.releases.manifest import MANIFEST
from hsfiq.releases.published import layout_obstacle, published
from hsfiq.releases.rows import QueryRow, QuestionRow, read_questions
from hsfiq.releases.schemas import SCHEMAS
from hsfiq.releases.splits import DrawnSplit, Split, draw_split
from hsfiq.study.config import CHOSEN_BY
from hsfiq.text import shown

FIRST_VERSION = "1.0.0"


@dataclass(frozen=True, slots=True)
class Release:
    """A release as bytes, not yet on disk.

    `content_sha256` covers the data, the filters and what split was asked for, but neither the
    version nor the tool, so that unchanged content is known across both. `notes` says what the
    release lacks and why.
    """

    name: str
    version: str
    kind: Kind
    sifted: Sifted
    split: DrawnSplit | None
    files: dict[str, bytes]
    content_sha256: str
    notes: tuple[str, ...]


def build(
    session: Session,
    study: Study,
    kind: Kind,
    filters: Filters,
    split: Split | None = None,
    *,
    schema_revision: str,
    version: str = FIRST_VERSION,
) -> Release:
    """Make a release of the study; what the filters leave is split, if that is asked for.

    Raises:
        NothingToDo: no answered question is left, or too little to split.
    """
    sifted = sift(read_questions(session, study), kind, filters)
    if not sifted.kept:
        steps = ", ".join(f"{step.rule} -{step.dropped}" for step in sifted.funnel)
        raise NothingToDo(
            f"study {study.name}: nothing to export ({sifted.n_assigned} questions: {steps})"
        )
    drawn = draw_split(sifted.kept, split) if split else None
    tables = make_tables(sifted) | ({"splits": drawn.rows()} if drawn else {})
    schemas = {name: SCHEMAS[name] for name in tables}
    files = {}
    for name, rows in tables.items():
        files[f"{name}.parquet"] = parquet(rows, schemas[name])
        files[f"{name}.jsonl"] = jsonl(rows)
    notes = []
    if kind == "hp":
        obstacle = layout_obstacle(study, sifted.kept)
        if obstacle:
            notes.append(f"no hpfiq.json: {obstacle}")
        else:
            files["hpfiq.json"] = published(session, study, sifted.kept)
    name = f"{study.name}-{kind}"
    manifest: dict[str, Any] = {
        "name": name,
        "version": version,
        "kind": kind,
        "study": study.name,
        "title": study.title,
        "origin": study.origin,
        "simulated": study.origin == "simulated",
        "filters": asdict(filters),
        "funnel": {
            "assigned": sifted.n_assigned,
            "steps": [asdict(step) for step in sifted.funnel],
            "kept": len(sifted.kept),
        },
        "counts": {
            "questions": len(sifted.kept),
            "sets": 2 * len(sifted.kept),
            "queries": len(tables["queries"]),
            "participants": len({question.participant_id for question in sifted.kept}),
        },
        **({"split": drawn.facts()} if drawn else {}),
        **({CHOSEN_BY: study.design[CHOSEN_BY]} if CHOSEN_BY in study.design else {}),
        "notes": notes,
        "content_sha256": content_digest(files, name, filters, split),
        "tool": {"name": "hsfiq", "version": hsfiq.__version__},
        "schema_revision": schema_revision,
    }
    files["croissant.json"] = pretty(croissant(manifest, files, schemas))
    files["README.md"] = readme(manifest, schemas).encode()
    manifest["files"] = {
        path: {"sha256": sha256(data), "bytes": len(data)} for path, data in sorted(files.items())
    }
    files[MANIFEST] = pretty(manifest)
    return Release(
        name, version, kind, sifted, drawn, files, str(manifest["content_sha256"]), tuple(notes)
    )


# ------------------------------------------------------------------------------------------ tables


def make_tables(sifted: Sifted) -> dict[str, list[dict[str, Any]]]:
    """The rows of each table."""
    queries = {question.query.query_id: question.query for question in sifted.kept}
    return {
        "queries": [query_row(query) for query in sorted(queries.values(), key=lambda q: q.key)],
        "sets": [row for question in sifted.kept for row in set_rows(question)],
        "preferences": [preference_row(question) for question in sifted.kept],
        "exclusions": [exclusion_row(exclusion) for exclusion in sifted.excluded],
    }


def query_row(query: QueryRow) -> dict[str, Any]:
    """A row of `queries`."""
    row = asdict(query)
    del row["key"]
    return row | {"text_shown": shown(query.text)}


def set_rows(question: QuestionRow) -> Iterable[dict[str, Any]]:
    """The two rows of `sets` that a question gives."""
    answer = question.given
    for side, (retrieved, score) in enumerate(
        zip(question.sets, (answer.score_1, answer.score_2), strict=True), start=1
    ):
        yield {
            "set_id": set_id(question.question_id, side),
            "question_id": question.question_id,
            "side": side,
            "participant_id": question.participant_id,
            "query_id": question.query.query_id,
            "system": retrieved.system,
            "image_ids": retrieved.image_ids,
            "shown_order": question.orders[side - 1],
            "score": score,
        }


def preference_row(question: QuestionRow) -> dict[str, Any]:
    """The row of `preferences` that a question gives."""
    answer = question.given
    return {
        "question_id": question.question_id,
        "participant_id": question.participant_id,
        "form": question.form,
        "place": question.place,
        "query_id": question.query.query_id,
        "pair_id": question.pair_id,
        "swapped": question.swapped,
        "text": question.text,
        "set_1": set_id(question.question_id, 1),
        "set_2": set_id(question.question_id, 2),
        "system_1": question.sets[0].system,
        "system_2": question.sets[1].system,
        "score_1": answer.score_1,
        "score_2": answer.score_2,
        "preferred": answer.preferred,
        "irrelevant": answer.irrelevant,
        "reason": answer.reason,
        "revision": question.revision,
        **asdict(answer.times),
        "failed_checks": question.failed_checks,
    }


def exclusion_row(exclusion: Exclusion) -> dict[str, Any]:
    """A row of `exclusions`."""
    question = exclusion.question
    return {
        "question_id": question.question_id,
        "participant_id": question.participant_id,
        "query_id": question.query.query_id,
        "rule": exclusion.rule,
        "value": exclusion.value,
    }


# ------------------------------------------------------------------------------------------- bytes


def parquet(rows: list[dict[str, Any]], schema: pa.Schema) -> bytes:
    """The rows as a Parquet file."""
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), sink, compression="zstd")
    return sink.getvalue()


def jsonl(rows: Iterable[dict[str, Any]]) -> bytes:
    """The rows as JSON lines; moments in ISO 8601."""
    return "".join(
        json.dumps(row, ensure_ascii=False, default=lambda moment: moment.isoformat()) + "\n"
        for row in rows
    ).encode()


def pretty(value: object) -> bytes:
    """JSON that a person reads too."""
    return (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode()


def sha256(data: bytes) -> str:
    """The digest by which a manifest names a file's content."""
    return hashlib.sha256(data).hexdigest()


def content_digest(
    files: dict[str, bytes], name: str, filters: Filters, split: Split | None
) -> str:
    """A digest of data and options; of the text files, since Parquet's bytes are pyarrow's."""
    parts = {path: sha256(data) for path, data in files.items() if not path.endswith(".parquet")}
    # A release without a split keeps the digest that it had before there were any.
    options = [asdict(filters), *([asdict(split)] if split else [])]
    return sha256(json.dumps([name, *options, parts], sort_keys=True).encode())
