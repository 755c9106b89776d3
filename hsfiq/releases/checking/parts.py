"""The split: each question has a part, and no triplet or participant is in train and in test."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from hsfiq.releases.checking.findings import Findings
from hsfiq.releases.checking.scratch import Asked, Scratch
from hsfiq.releases.checking.tables import ReleaseFolder
from hsfiq.releases.manifest import MANIFEST
from hsfiq.releases.splits import SPLITS_BY, SplitBy, triplet_of


def check_split(release: ReleaseFolder, ids: Scratch, findings: Findings) -> None:
    split = release.manifest.get("split")
    if "splits" not in release.tables:
        if split is not None and "splits" not in release.broken:
            findings.add("splits.parquet", f"is missing, and {MANIFEST} has a split")
        return
    by = split.get("by") if isinstance(split, Mapping) else None
    if not isinstance(split, Mapping) or by not in SPLITS_BY:
        findings.add(MANIFEST, "does not say by what splits.parquet splits", column="split")
        return
    if not release.has("splits", "question_id", "part"):
        return
    members = Members(release, ids, by)
    counts = members.check(findings)
    check_part_counts(release, ids, split.get("n"), counts, findings)


class Members:
    """The triplets and participants of each part, of which what is held out is in one only."""

    def __init__(self, release: ReleaseFolder, ids: Scratch, by: SplitBy) -> None:
        self.release, self.ids = release, ids
        self.triplets = triplets_of(release) if by != "participant" else {}
        self.holds_people = by != "triplet"
        self.first: dict[tuple[str, str], dict[str, tuple[int, str]]] = {}

    def check(self, findings: Findings) -> Counter[str]:
        """Find what leaks; the number of questions of each part."""
        counts: Counter[str] = Counter()
        for batch in self.release.batches("splits", "question_id", "part"):
            asked = self.ids.asked(batch.column("question_id") or ())
            for number, row in batch.numbered("question_id", "part"):
                counts[row["part"]] += 1
                own = asked.get(row["question_id"])
                if own is not None and row["part"] in ("train", "test"):
                    for what in self.leaks(number, row["question_id"], row["part"], own):
                        findings.add("splits.parquet", what, row=number, column="part")
        return counts

    def leaks(self, number: int, question: str, part: str, own: Asked) -> Iterator[str]:
        held = [("triplet", id_) for id_ in sorted(self.triplets.get(own.query, ()))]
        held += [("participant", own.participant)] if self.holds_people else []
        for noun, id_ in held:
            seen = self.first.setdefault((noun, id_), {})
            seen.setdefault(part, (number, question))
            other = "test" if part == "train" else "train"
            if other in seen:
                row, first = seen[other]
                parts = f"{question} is in {part}, {first} (row {row:,}) in {other}"
                yield f"{noun} {id_} leaks: {parts}"


def check_part_counts(
    release: ReleaseFolder, ids: Scratch, stated: object, counts: Counter[str], findings: Findings
) -> None:
    """Each question has a part, and the manifest says how many are in each."""
    main = release.kind.main
    for batch in release.batches(main, "question_id"):
        questions = batch.column("question_id") or []
        without = ids.unknown("splits", questions)
        for place, question in enumerate(questions):
            if question in without:
                what = "has no part in splits.parquet"
                findings.add(f"{main}.parquet", what, row=batch.start + place, column="question_id")
    for part, number in stated.items() if isinstance(stated, Mapping) else ():
        if counts[part] != number:
            what = f"is {number}, and splits.parquet has {counts[part]:,}"
            findings.add(MANIFEST, what, column=f"split.n.{part}")


def triplets_of(release: ReleaseFolder) -> dict[str, set[str]]:
    """The triplets of each query: that of its own id, and the one that the table names."""
    if not release.has("queries", "query_id", "triplet_id"):
        return {}
    named: dict[str, str] = {}
    for batch in release.batches("queries", "query_id", "triplet_id"):
        for _, row in batch.numbered("query_id", "triplet_id"):
            named[row["query_id"]] = row["triplet_id"]
    known = {*named, *named.values()}
    return {
        query: {triplet_of(query, known), triplet_of(triplet, known)}
        for query, triplet in named.items()
    }
