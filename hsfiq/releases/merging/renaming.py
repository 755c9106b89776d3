"""New ids for the rows of releases that become one: no two groups share a participant.

Queries with the same id, text and images are the same query, pairs with the same sets (searches:
the same systems) the same pair, and retrievers with the same version and corpus the same system;
others that have one id get new ids.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

from hsfiq.releases.checking.further import OF_SYSTEMS, text_versions
from hsfiq.releases.checking.tables import ReleaseFolder
from hsfiq.releases.kinds.shared_tables import IMAGES
from hsfiq.releases.restoring.rows import Row, RowsOfQuestions, rows_of
from hsfiq.releases.writing.tables import TableWriter

OF_QUESTIONS = ("question_id", "repeated_id", "set_id", "set_1", "set_2")
"""Columns whose ids begin with the participant's."""
OF_TRIPLETS = ("dataset", "reference_id", "target_id", "captions")
ROWS_AT_ONCE = 5_000


@dataclass(slots=True)
class Renaming:
    """The new ids of one release's rows, by the old ones; what is missing keeps its id."""

    people: dict[str, str]
    queries: dict[str, str] = field(default_factory=dict)
    triplets: dict[str, str] = field(default_factory=dict)
    items: dict[str, str] = field(default_factory=dict)
    versions: dict[int, int] = field(default_factory=dict)
    systems: dict[str, str] = field(default_factory=dict)

    def renamed(self, row: Row) -> Row:
        new = dict(row)
        person = row.get("participant_id")
        if person is not None:
            new["participant_id"] = self.people[person]
            for name in OF_QUESTIONS:
                if name in row:
                    new[name] = self.of_participant(row[name], person)
            if "set_ids" in row:
                new["set_ids"] = [self.of_participant(each, person) for each in row["set_ids"]]
        ids: tuple[tuple[str, Mapping[Any, Any]], ...] = (
            ("query_id", self.queries),
            ("triplet_id", self.triplets),
            ("item_id", self.items),
            ("pair_id", self.items),
            ("text_version", self.versions),
            *((name, self.systems) for name in OF_SYSTEMS),
        )
        for name, known in ids:
            if row.get(name) is not None:
                new[name] = known.get(row[name], row[name])
        return new

    def of_participant(self, id_: str, person: str) -> str:
        return f"{self.people[person]}{id_.removeprefix(person)}"


@dataclass(slots=True)
class Taken:
    """The ids of the releases that have been renamed so far, with what they stand for."""

    queries: dict[str, Row] = field(default_factory=dict)
    triplets: dict[str, Row] = field(default_factory=dict)
    items: dict[str, str] = field(default_factory=dict)
    texts: dict[int, Any] = field(default_factory=dict)
    retrievers: dict[str, Any] = field(default_factory=dict)

    def rename(self, release: ReleaseFolder, people: dict[str, str]) -> Renaming:
        renaming = Renaming(people)
        for row in rows_of(release, "queries"):
            self.rename_query(row, renaming)
        for entry in release.manifest.get("retrievers", ()):
            self.rename_retriever(entry, renaming)
        self.rename_items(release, renaming)
        for number, texts in text_versions(release.path):
            same = [each for each, known in self.texts.items() if known == texts]
            new = same[0] if same else max(self.texts, default=0) + 1
            renaming.versions[number] = new
            self.texts[new] = texts
        return renaming

    def rename_query(self, row: Row, renaming: Renaming) -> None:
        triplet = row["triplet_id"]
        if triplet not in renaming.triplets:
            facts = {name: row[name] for name in OF_TRIPLETS}
            new = unused(triplet, "@", lambda id_: self.triplets.get(id_, facts) != facts)
            renaming.triplets[triplet] = new
            self.triplets[new] = facts
        owner = renaming.triplets[triplet]
        wanted = f"{owner}{row['query_id'].removeprefix(triplet)}"
        text = {"text": row["text"]}
        if self.queries.get(wanted, text) != text:
            wanted = unused(owner, "#", lambda id_: self.queries.get(id_, text) != text)
        renaming.queries[row["query_id"]] = wanted
        self.queries[wanted] = text

    def rename_retriever(self, entry: Mapping[str, Any], renaming: Renaming) -> None:
        """Systems of one name that differ in what they say of themselves are different ones."""
        facts = {name: entry[name] for name in ("version", "corpus")}
        new = unused(entry["system"], "@", lambda id_: self.retrievers.get(id_, facts) != facts)
        renaming.systems[entry["system"]] = new
        self.retrievers[new] = facts

    def rename_items(self, release: ReleaseFolder, renaming: Renaming) -> None:
        """Pairs of the same sets, or searched with the same systems, have the same id.

        The others have the next numbers of their query.
        """
        known = {(item.rpartition("/")[0], digest): item for item, digest in self.items.items()}
        for item, digest in items_of(release, renaming.systems):
            if item in renaming.items:
                continue
            old, _, number = item.rpartition("/")
            query = renaming.queries[old]
            same = known.get((query, digest))
            new = same or unused_item(query, int(number), self.items)
            renaming.items[item] = new
            self.items[new] = digest


def unused(id_: str, mark: str, is_other: Any) -> str:
    """The id itself, or with a mark and the first number from 2 that stands for nothing else."""
    number, new = 1, id_
    while is_other(new):
        number += 1
        new = f"{id_}{mark}{number}"
    return new


def unused_item(query: str, number: int, taken: Mapping[str, str]) -> str:
    while f"{query}/{number}" in taken:
        number += 1
    return f"{query}/{number}"


def items_of(release: ReleaseFolder, systems: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The item of each question, with a digest of its sets in an order of their own.

    Of searches, that of their systems with these new names, in the order of the sides.
    """
    sets = RowsOfQuestions(rows_of(release, "sets"))
    for row in rows_of(release, release.kind.main):
        own = [systems[row[name]] for name in OF_SYSTEMS if systems and name in row] or sorted(
            json.dumps([each["system"], each["image_ids"]]) for each in sets.of(row["question_id"])
        )
        digest = hashlib.sha256("\n".join(own).encode()).hexdigest()
        yield row["pair_id"] if "pair_id" in row else row["item_id"], digest


def participants_in(release: ReleaseFolder) -> list[str]:
    """Those of questions that were kept or dropped, in the order of the tables."""
    people: dict[str, None] = {}
    for table in (release.kind.main, "exclusions"):
        for batch in release.batches(table, "participant_id"):
            people.update(dict.fromkeys(batch.column("participant_id") or ()))
    return list(people)


def new_pseudonyms(groups: Sequence[Sequence[str]], seed: int) -> list[dict[str, str]]:
    """p1, p2, ... in a random order, for the participants of each group."""
    places = [(group, name) for group, names in enumerate(groups) for name in names]
    Random(f"merge:{seed}").shuffle(places)  # noqa: S311 (a seeded draw)
    new: list[dict[str, str]] = [{} for _ in groups]
    for number, (group, name) in enumerate(places, start=1):
        new[group][name] = f"p{number}"
    return new


def write_renamed(release: ReleaseFolder, renaming: Renaming, folder: Path) -> ReleaseFolder:
    """Write the tables with their new ids into an empty folder, without packed images."""
    tables = {name: table for name, table in release.tables.items() if name != IMAGES.name}
    schemas = {name: table.arrow() for name, table in tables.items()}
    with TableWriter(folder, schemas) as writer:
        for name in tables:
            for batch in release.batches(name):
                rows = [renaming.renamed(row) for _, row in batch.numbered()]
                writer.add({name: rows})
            writer.add({name: []})
    retrievers = [
        {**entry, "system": renaming.systems[entry["system"]]}
        for entry in release.manifest.get("retrievers", ())
    ]
    manifest = {**release.manifest, **({"retrievers": retrievers} if retrievers else {})}
    return replace(release, path=folder, tables=tables, manifest=manifest)
