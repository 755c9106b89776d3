"""The files of a release: the same database state and options give the same bytes.

So no file contains the time of the export or a path on this machine. Rows are in the study's order.
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
from hsfiq.collect.checks import MIRRORED
from hsfiq.collect.outcomes.questionnaire import answers_by_participant
from hsfiq.db.tables import Study
from hsfiq.errors import NothingToDo
from hsfiq.releases.card import card
from hsfiq.releases.croissant import croissant
from hsfiq.releases.filters import FilteredQuestions, Filters, Kind, filter_questions
from hsfiq.releases.instrument.extra_answers import extra_tables
from hsfiq.releases.instrument.words import instrument_of
from hsfiq.releases.kinds import RELEASE_KINDS, ReleaseKind
from hsfiq.releases.manifest import MANIFEST
from hsfiq.releases.rows import read_questions
from hsfiq.releases.splits import DrawnSplit, Split, draw_split
from hsfiq.study.config import CHOSEN_BY, config_of
from hsfiq.study.editing.text_versions import published_versions
from hsfiq.study.extensions.extension import extensions_of

FIRST_VERSION = "1.0.0"

TEXT_VERSIONS = "text_versions.json"
"""The texts that participants read, by version; studies without recorded versions have none."""


@dataclass(frozen=True, slots=True)
class Release:
    """A release that is not on disk yet.

    `content_sha256` digests the data, the filters and the split's options, independent of the
    versions of the release and of hsfiq. `notes` say what the release lacks, and why.
    """

    name: str
    version: str
    kind: Kind
    questions: FilteredQuestions
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
    """Make a release of the study. The split, if any, is drawn from the questions kept.

    Raises:
        NothingToDo: no answered question is kept, or too few to split.
    """
    release_kind = RELEASE_KINDS[kind]
    questions = filter_questions(read_questions(session, study), kind, filters)
    kept = questions.kept
    if not kept:
        steps = ", ".join(f"{step.rule} -{step.dropped or 0}" for step in questions.funnel)
        raise NothingToDo(
            f"nothing to export ({questions.n_assigned} questions: {steps})",
            where=f"study {study.name}",
        )
    drawn = draw_split(kept, split) if split else None
    tables = make_tables(questions, release_kind) | ({"splits": drawn.rows()} if drawn else {})
    if "repeats" in release_kind.columns and (repeats := repeat_rows(questions)):
        tables["repeats"] = repeats
    at_end = answers_by_participant(session, study)
    tables |= extra_tables(config_of(study).questionnaire, kept, at_end)
    schemas = {table: schema for table, schema in release_kind.schemas().items() if table in tables}
    files = {}
    for table, rows in tables.items():
        files[f"{table}.parquet"] = parquet(rows, schemas[table])
        files[f"{table}.jsonl"] = jsonl(rows)
    further, notes = release_kind.files(session, study, kept)
    files |= further
    if versions := published_versions(session, study):
        files[TEXT_VERSIONS] = indented_json(versions)
    name = f"{study.name}-{kind}"
    content_sha256 = digest_content(files, name, filters, split)
    manifest: dict[str, Any] = {
        "name": name,
        "version": version,
        "kind": kind,
        "study": study.name,
        "title": study.title,
        "origin": study.origin,
        **instrument_of(study),
        "simulated": study.origin == "simulated",
        "filters": asdict(filters),
        "funnel": {
            "assigned": questions.n_assigned,
            "steps": [asdict(step) for step in questions.funnel],
            "kept": len(kept),
        },
        "counts": {
            "questions": len(kept),
            "sets": len(tables.get("sets", ())),
            "queries": len(tables["queries"]),
            "participants": len({question.participant_id for question in kept}),
        },
        **({"split": drawn.summary()} if drawn else {}),
        **({CHOSEN_BY: study.design[CHOSEN_BY]} if CHOSEN_BY in study.design else {}),
        **({"extensions": extensions} if (extensions := extensions_of(session, study)) else {}),
        "notes": notes,
        "content_sha256": content_sha256,
        "tool": {"name": "hsfiq", "version": hsfiq.__version__},
        "schema_revision": schema_revision,
    }
    files["croissant.json"] = indented_json(croissant(manifest, files, schemas, release_kind))
    files["README.md"] = card(manifest, schemas, release_kind).encode()
    manifest["files"] = {
        path: {"sha256": sha256(data), "bytes": len(data)} for path, data in sorted(files.items())
    }
    files[MANIFEST] = indented_json(manifest)
    return Release(name, version, kind, questions, drawn, files, content_sha256, tuple(notes))


# ------------------------------------------------------------------------------------------ tables


def make_tables(questions: FilteredQuestions, kind: ReleaseKind) -> dict[str, list[dict[str, Any]]]:
    queries = {question.query_id: question.query for question in questions.kept}
    return {
        "queries": [
            {name: value for name, value in asdict(query).items() if name != "key"}
            for query in sorted(queries.values(), key=lambda query: query.key)
        ],
        **kind.tables(questions.kept),
        "exclusions": [
            *(exclusion.row() for exclusion in questions.excluded),
            *kind.struck(questions.kept),
        ],
    }


# ------------------------------------------------------------------------------------------- bytes


def parquet(rows: list[dict[str, Any]], schema: pa.Schema) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), sink, compression="zstd")
    return sink.getvalue()


def jsonl(rows: Iterable[dict[str, Any]]) -> bytes:
    """Return the rows as JSON lines, times in ISO 8601."""
    return "".join(
        json.dumps(row, ensure_ascii=False, default=lambda time: time.isoformat()) + "\n"
        for row in rows
    ).encode()


def indented_json(value: object) -> bytes:
    return (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode()


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def digest_content(
    files: dict[str, bytes], name: str, filters: Filters, split: Split | None
) -> str:
    """Digest the options and the text files; Parquet files differ between versions of pyarrow."""
    digests = {path: sha256(data) for path, data in files.items() if not path.endswith(".parquet")}
    # Without a split nothing is added, so that releases older than splits keep their digest.
    options = [asdict(filters), *([asdict(split)] if split else [])]
    return sha256(json.dumps([name, *options, digests], sort_keys=True).encode())


def repeat_rows(questions: FilteredQuestions) -> list[dict[str, Any]]:
    """The rows of `repeats`: answered repeated questions, with the sides of the first question."""
    kept = {question.question_id: question for question in questions.kept}
    rows = []
    for exclusion in questions.excluded:
        again = exclusion.question
        if again.repeats not in kept or again.preferred is None:
            continue
        scores, preferred = (again.score_1, again.score_2), again.preferred
        if again.swapped != kept[again.repeats].swapped:
            scores, preferred = scores[::-1], MIRRORED[preferred]
        rows.append(
            {
                "question_id": again.question_id,
                "repeated_id": again.repeats,
                "participant_id": again.participant_id,
                "query_id": again.query_id,
                "score_1": scores[0],
                "score_2": scores[1],
                "preferred": preferred,
                "active_seconds": again.active_seconds,
            }
        )
    return rows
