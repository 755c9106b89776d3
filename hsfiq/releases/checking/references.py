"""Keys, references between tables, whose the rows are, and their order."""

from __future__ import annotations

import json
from typing import Any

from hsfiq.ids import question_id
from hsfiq.releases.checking.findings import Findings
from hsfiq.releases.checking.scratch import SEPARATOR, Scratch
from hsfiq.releases.checking.tables import Batch, ReleaseFolder
from hsfiq.releases.schemas import Table

FACTS_OF_SETS = ("side", "system", "score", "rank", "image_ids")
IN_ANY_ORDER = ("exclusions", "repeats")
"""Tables about questions that the main table does not have."""


def index_keys(release: ReleaseFolder, table: Table, ids: Scratch, findings: Findings) -> None:
    """Keep the keys of a table, and what the main table and the sets say; refuse keys twice."""
    if not table.key or not release.has(table.name, *table.key):
        return
    is_main = table.name == release.kind.main
    extra = ("participant_id", "query_id")
    columns = [*table.key, *(extra if is_main else ())]
    if table.name == "sets":
        columns += ["question_id", *extra, *FACTS_OF_SETS]
    for batch in release.batches(table.name, *dict.fromkeys(columns)):
        rows = list(batch.numbered(*dict.fromkeys(columns)))
        keys = (
            (number, SEPARATOR.join(str(row[name]) for name in table.key)) for number, row in rows
        )
        for number, key, first in ids.add_keys(table.name, keys):
            what = f"{key.replace(SEPARATOR, ' ')} is in row {first:,}, too"
            findings.add(f"{table.name}.parquet", what, row=number, column=", ".join(table.key))
        if is_main:
            ids.add_questions(
                (row["question_id"], number, row["participant_id"], row["query_id"])
                for number, row in rows
            )
        if table.name == "sets":
            ids.add_sets(set_facts(number, row) for number, row in rows)


def set_facts(number: int, row: dict[str, Any]) -> tuple[Any, ...]:
    facts = json.dumps({name: row[name] for name in FACTS_OF_SETS})
    return (
        row["set_id"], number, row["question_id"], row["participant_id"], row["query_id"], facts
    )  # fmt: skip


def check_references(
    release: ReleaseFolder, table: Table, ids: Scratch, findings: Findings
) -> None:
    """What a column refers to is there."""
    for column in table:
        if column.refers_to is None or not release.has(table.name, column.name):
            continue
        target, _, name = column.refers_to.partition(".")
        if not release.has(target, name):
            continue
        for batch in release.batches(table.name, column.name):
            values = batch.column(column.name) or []
            wanted = {each for value in values for each in as_list(value)}
            if unknown := ids.unknown(target, sorted(wanted)):
                for place, value in enumerate(values):
                    for each in as_list(value):
                        if each in unknown:
                            findings.add(
                                f"{table.name}.parquet",
                                f"{each} is not in {target}.parquet ({name})",
                                row=batch.start + place, column=column.name,
                            )  # fmt: skip


def as_list(value: Any) -> list[str]:
    if value is None:
        return []
    return [each for each in value if each is not None] if isinstance(value, list) else [value]


class RowOwners:
    """Whose the rows of a table are, and whether they are in the order of the main table.

    The rows of a participant come together, as do those of a form, whose places ascend. Other
    tables have the order of the main one.
    """

    def __init__(
        self, release: ReleaseFolder, table: Table, ids: Scratch, findings: Findings
    ) -> None:
        self.release, self.table, self.ids, self.findings = release, table, ids, findings
        self.file = f"{table.name}.parquet"
        self.is_main = table.name == release.kind.main
        self.forms_seen: set[tuple[str, str]] = set()
        self.people_seen: set[str] = set()
        self.last: dict[str, Any] = {}
        self.last_row = 0

    def check(self) -> None:
        columns = [name for name in ("question_id", "participant_id", "query_id", "form", "place")
                   if name in self.table.names]  # fmt: skip
        if not self.release.has(self.table.name, columns[0]):
            return
        for batch in self.release.batches(self.table.name, *columns):
            if self.is_main:
                self.check_main(batch)
            elif "question_id" in columns:
                self.check_other(batch)
            else:
                self.check_people(batch)

    def wrong(self, row: int, column: str, what: str) -> None:
        self.findings.add(self.file, what, row=row, column=column)

    def check_main(self, batch: Batch) -> None:
        for number, row in batch.numbered():
            if not {"form", "place", "question_id", "participant_id"} <= row.keys():
                return
            person, form, place = row["participant_id"], row["form"], row["place"]
            expected = question_id(person, form, place)
            if row["question_id"] != expected:
                self.wrong(number, "question_id", f"is {row['question_id']}, not {expected}")
            if self.last.get("participant_id") != person:
                if person in self.people_seen:
                    what = f"the rows of {person} do not come together"
                    self.wrong(number, "participant_id", what)
                self.people_seen.add(person)
            if (self.last.get("participant_id"), self.last.get("form")) != (person, form):
                if (person, form) in self.forms_seen:
                    self.wrong(number, "form", f"the rows of form {form} do not come together")
                self.forms_seen.add((person, form))
            elif is_not_after(place, self.last["place"]):
                what = f"place {place} comes after place {self.last['place']} of the form"
                self.wrong(number, "place", what)
            self.last = row

    def check_other(self, batch: Batch) -> None:
        asked = self.ids.asked(batch.column("question_id") or ())
        is_out = self.table.name in IN_ANY_ORDER
        for number, row in batch.numbered():
            known = asked.get(row["question_id"])
            if is_out:
                continue
            if known is None:
                what = f"{row['question_id']} is not in {self.release.kind.main}.parquet"
                self.wrong(number, "question_id", what)
                continue
            for name, own in (("participant_id", known.participant), ("query_id", known.query)):
                if name in row and row[name] != own:
                    what = f"is {row[name]}, and in {self.release.kind.main}.parquet {own}"
                    self.wrong(number, name, what)
            if known.row < self.last_row:
                what = f"{row['question_id']} is not in the order of {self.release.kind.main}"
                self.wrong(number, "question_id", what)
            self.last_row = known.row

    def check_people(self, batch: Batch) -> None:
        """Rows about participants, such as answers at the end."""
        for number, row in batch.numbered():
            person = row["participant_id"]
            if not self.ids.has_participant(person):
                what = f"{person} has no row in {self.release.kind.main}.parquet"
                self.wrong(number, "participant_id", what)


def is_not_after(place: object, last: object) -> bool:
    return isinstance(place, int) and isinstance(last, int) and place <= last
