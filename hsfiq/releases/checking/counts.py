"""The manifest's figures: the funnel adds up, and its counts are those of the tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from hsfiq.releases.checking.findings import Findings
from hsfiq.releases.checking.scratch import Scratch
from hsfiq.releases.checking.tables import ReleaseFolder
from hsfiq.releases.instrument.extra_answers import ASKED
from hsfiq.releases.manifest import MANIFEST
from hsfiq.releases.privacy.uniqueness import ALIKE, TABLE, compared_fields, uniqueness
from hsfiq.text import count_text

STRUCK = "struck-text"
"""Rows of `exclusions` about a text that was struck; its question is kept."""


def check_funnel(release: ReleaseFolder, ids: Scratch, findings: Findings) -> None:
    funnel = release.manifest.get("funnel")
    if not isinstance(funnel, Mapping) or not isinstance(funnel.get("steps"), list):
        findings.add(MANIFEST, "has no funnel", column="funnel")
        return
    dropped = dropped_by_rule(release, ids, findings)
    left = funnel.get("assigned")
    for place, step in enumerate(funnel["steps"]):
        where = f"funnel.steps[{place}]"
        rule, counted, after = step.get("rule"), step.get("dropped") or 0, step.get("left")
        if isinstance(left, int) and left - counted != after:
            what = f"{left:,} - {counted:,} is not {after}, which are left after {rule}"
            findings.add(MANIFEST, what, column=where)
        left = after
        in_table = dropped.pop(rule, 0)
        if "exclusions" in release.tables and counted != in_table:
            rows = count_text(in_table, "row")
            what = f"{rule} dropped {counted:,}, and exclusions.parquet has {rows} of it"
            findings.add(MANIFEST, what, column=where)
    if left != funnel.get("kept"):
        what = f"is {funnel.get('kept')}, and {left} are left after the last step"
        findings.add(MANIFEST, what, column="funnel.kept")
    for rule in dropped:
        findings.add("exclusions.parquet", f"rule {rule} is not in the funnel", column="rule")


def dropped_by_rule(
    release: ReleaseFolder, ids: Scratch, findings: Findings
) -> Counter[str | None]:
    """Count the rows of `exclusions`; a question in it is not in the main table, nor twice."""
    counts: Counter[str | None] = Counter()
    if not release.has("exclusions", "question_id", "rule"):
        return counts
    file, main = "exclusions.parquet", release.kind.main
    for batch in release.batches("exclusions", "question_id", "rule"):
        asked = ids.asked(batch.column("question_id") or ())
        dropped = []
        for number, row in batch.numbered("question_id", "rule"):
            question = row["question_id"]
            if row["rule"] == STRUCK:
                if question not in asked:
                    what = f"{question} is not in {main}.parquet"
                    findings.add(file, what, row=number, column="question_id")
                continue
            counts[row["rule"]] += 1
            dropped.append((number, str(question)))
            if question in asked:
                row_in_main = asked[question].row
                what = f"{question} was dropped, and is in {main}.parquet (row {row_in_main:,})"
                findings.add(file, what, row=number, column="question_id")
        for number, key, first in ids.add_keys("exclusions", dropped):
            what = f"{key} is in row {first:,}, too"
            findings.add(file, what, row=number, column="question_id")
    return counts


def check_counts(release: ReleaseFolder, findings: Findings) -> None:
    counts = release.manifest.get("counts")
    if not isinstance(counts, Mapping):
        findings.note(f"{MANIFEST} has no counts")
        return
    actual: dict[str, int] = {}
    main = release.kind.main
    if release.has(main, "participant_id"):
        actual["questions"] = release.n_rows(main)
        actual["participants"] = n_participants(release, main)
        kept = (release.manifest.get("funnel") or {}).get("kept")
        if kept != actual["questions"]:
            what = f"is {kept}, and {main}.parquet has {count_text(actual['questions'], 'row')}"
            findings.add(MANIFEST, what, column="funnel.kept")
    for table in ("sets", "queries"):
        if table in release.tables:
            actual[table] = release.n_rows(table)
    for name, number in actual.items():
        if counts.get(name) != number:
            what = f"is {counts.get(name)}, and the tables have {number:,}"
            findings.add(MANIFEST, what, column=f"counts.{name}")


def n_participants(release: ReleaseFolder, table: str) -> int:
    people: set[Any] = set()
    for batch in release.batches(table, "participant_id"):
        people.update(batch.column("participant_id") or ())
    return len(people)


def check_alike(release: ReleaseFolder, findings: Findings) -> None:
    """How alike participants are, as the manifest says, is what their answers give."""
    asked = [
        (row["field"], row["type"])
        for _, row in rows_of(release, "fields", "field", "asked", "type")
        if row["asked"] == ASKED["at_end"]
    ]
    rows = (row for _, row in rows_of(release, TABLE, "participant_id", "field", "number", "value"))
    alike = uniqueness(rows, compared_fields(asked))
    expected, stated = alike.facts() if alike else None, release.manifest.get(ALIKE)
    if stated is None and expected is not None:
        findings.note(f"{MANIFEST} has no {ALIKE}, which this hsfiq writes")
    elif stated != expected:
        what = f"is {stated}, and {TABLE}.parquet gives {expected}"
        findings.add(MANIFEST, what, column=ALIKE)


def rows_of(
    release: ReleaseFolder, table: str, *columns: str
) -> Iterator[tuple[int, dict[str, Any]]]:
    """The rows of a table with their numbers; none if the release lacks a column."""
    if release.has(table, *columns):
        for batch in release.batches(table, *columns):
            yield from batch.numbered(*columns)


def check_queries_are_used(release: ReleaseFolder, ids: Scratch, findings: Findings) -> None:
    """Each query has a question."""
    if not release.has("queries", "query_id"):
        return
    used = {query for (query,) in ids.connection.execute("select distinct query from questions")}
    for batch in release.batches("queries", "query_id"):
        for number, row in batch.numbered("query_id"):
            if row["query_id"] not in used:
                what = f"no question is about {row['query_id']}"
                findings.add("queries.parquet", what, row=number, column="query_id")
