"""What the tables of a kind say of the same answer: ids, scores, systems, images and counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from hsfiq.ids import set_id
from hsfiq.releases.checking.findings import Findings
from hsfiq.releases.checking.scratch import Scratch
from hsfiq.releases.checking.tables import Batch, ReleaseFolder

Row = dict[str, Any]
Sets = dict[str, dict[str, Any]]
Wrong = Iterator[tuple[str, str]]
"""Columns, and what is wrong in them."""


def check_answers(release: ReleaseFolder, ids: Scratch, findings: Findings) -> None:
    for table, check in CHECKS.get(release.kind.name, {}).items():
        if table not in release.tables:
            continue
        file = f"{table}.parquet"
        for batch in release.batches(table):
            sets = ids.sets(ids_of_sets(batch))
            for number, row in batch.numbered():
                # A null, a type or a column that is wrong has a finding of its own.
                with suppress(TypeError, KeyError, AttributeError):
                    for column, what in check(row, sets):
                        findings.add(file, what, row=number, column=column)
    if "turns" in release.tables and release.has("sessions", "question_id", "turns"):
        check_turns(release, findings)


def ids_of_sets(batch: Batch) -> Iterator[str]:
    for name in ("set_id", "set_1", "set_2"):
        yield from (value for value in batch.column(name) or () if value is not None)
    for values in batch.column("set_ids") or ():
        yield from values or ()


def same(row: Row, column: str, value: object, other: str) -> Wrong:
    """The row's value is that of another table."""
    if column in row and row[column] != value:
        yield column, f"is {row[column]}, and {other} {value}"


def pair(row: Row, sets: Sets) -> Wrong:
    for side in (1, 2):
        name, expected = row[f"set_{side}"], set_id(row["question_id"], side)
        if name != expected:
            yield f"set_{side}", f"is {name}, not {expected}"
        if (own := sets.get(name)) is not None:
            yield from same(row, f"score_{side}", own["score"], f"in sets.parquet ({name})")
            yield from same(row, f"system_{side}", own["system"], f"in sets.parquet ({name})")
    yield from item(row, "pair_id")


def item(row: Row, column: str = "item_id") -> Wrong:
    """An item's id is that of its query and a number."""
    value = row.get(column)
    if value is not None and value.rpartition("/")[0] != row["query_id"]:
        yield column, f"{value} is not of query {row['query_id']}"


def one_set(row: Row, sets: Sets) -> Wrong:
    name, expected = row["set_id"], set_id(row["question_id"], 1)
    if name != expected:
        yield "set_id", f"is {name}, not {expected}"
    if (own := sets.get(name)) is not None:
        for column in ("score", "system"):
            yield from same(row, column, own[column], f"in sets.parquet ({name})")
    yield from item(row)


def ranked(row: Row, sets: Sets) -> Wrong:
    names, ranks, systems = row["set_ids"] or [], row["ranks"] or [], row["systems"] or []
    if not len(names) == len(ranks) == len(systems):
        yield "ranks", f"are {len(ranks)}, of {len(names)} sets and {len(systems)} systems"
        return
    for side, (name, rank, system) in enumerate(zip(names, ranks, systems, strict=True), start=1):
        expected = set_id(row["question_id"], side)
        if name != expected:
            yield "set_ids", f"has {name}, not {expected}"
        if (own := sets.get(name)) is not None and own["rank"] != rank:
            yield "ranks", f"{name} has {rank}, and in sets.parquet {own['rank']}"
        if own is not None and own["system"] != system:
            yield "systems", f"{name} is of {system}, and in sets.parquet of {own['system']}"
    yield from item(row)


def image(row: Row, sets: Sets) -> Wrong:
    own = sets.get(row["set_id"])
    if own is None:
        return
    place = row["rank"] - 1
    if not 0 <= place < len(own["image_ids"]):
        yield "rank", f"is {row['rank']}, and {row['set_id']} has {len(own['image_ids'])} images"
    elif own["image_ids"][place] != row["image_id"]:
        what = f"is {row['image_id']}, and in sets.parquet {own['image_ids'][place]}"
        yield "image_id", what


def retrieved(row: Row, _sets: Sets) -> Wrong:
    expected = set_id(row["question_id"], row["side"])
    if row["set_id"] != expected:
        yield "set_id", f"is {row['set_id']}, not {expected}"
    yield from as_many_as_images(row, "image_states")
    order, images = row.get("shown_order"), row["image_ids"] or []
    if order is not None and sorted(order) != list(range(len(images))):
        yield "shown_order", f"{order} is no order of {len(images)} images"


def as_many_as_images(row: Row, column: str, images: str = "image_ids") -> Wrong:
    values = row.get(column)
    if values is not None and row.get(images) and len(values) != len(row[images]):
        yield column, f"has {len(values)} values, of {len(row[images])} images"


def turn(row: Row, _sets: Sets) -> Wrong:
    yield from as_many_as_images(row, "scores")
    yield from as_many_as_images(row, "image_states")
    images, place = row["image_ids"] or [], row["nearest_place"]
    if place is not None and images[place - 1 : place] != [row["nearest_id"]]:
        yield "nearest_id", f"{row['nearest_id']} is not image {place} of the list"
    if row["struck"] and row["text"] is not None:
        yield "text", "is there, and was struck"


def turn_of_two(row: Row, _sets: Sets) -> Wrong:
    for side in (1, 2):
        yield from as_many_as_images(row, f"scores_{side}", f"image_ids_{side}")
        yield from as_many_as_images(row, f"image_states_{side}", f"image_ids_{side}")
    if row["both_bad"] and row["preference"]:
        yield "both_bad", f"is true, with preference {row['preference']}"
    place, side = row["nearest_place"], row["nearest_list"]
    if place is not None and side in (1, 2):
        images = row[f"image_ids_{side}"] or []
        if images[place - 1 : place] != [row["nearest_id"]]:
            yield "nearest_id", f"{row['nearest_id']} is not image {place} of list {side}"
    if row["struck"] and row["text"] is not None:
        yield "text", "is there, and was struck"


def about_item(row: Row, _sets: Sets) -> Wrong:
    yield from item(row)


Check = Callable[[Row, Sets], Wrong]
OF_PAIRS: dict[str, Check] = {"preferences": pair, "sets": retrieved}
CHECKS: dict[str, dict[str, Check]] = {
    "hs": OF_PAIRS,
    "hp": OF_PAIRS,
    "single": {"scores": one_set, "sets": retrieved},
    "ranking": {"rankings": ranked, "sets": retrieved},
    "images": {"judgements": one_set, "relevance": image, "sets": retrieved},
    "query": {"query_ratings": about_item},
    "search": {"sessions": about_item, "turns": turn},
    "arena": {"sessions": about_item, "turns": turn_of_two},
}


def check_turns(release: ReleaseFolder, findings: Findings) -> None:
    """Turns count from 1, and a search has as many as it says; votes are those of the turns."""
    counts: Counter[str] = Counter()
    voted: dict[tuple[str, int], tuple[Any, Any]] = {}
    for batch in release.batches("turns", "question_id", "turn", "preference", "both_bad"):
        for number, row in batch.numbered("question_id", "turn", "preference", "both_bad"):
            counts[row["question_id"]] += 1
            if row["turn"] != counts[row["question_id"]]:
                what = f"is {row['turn']}, and the turn before {counts[row['question_id']] - 1}"
                findings.add("turns.parquet", what, row=number, column="turn")
            if row["preference"] is not None:
                voted[row["question_id"], row["turn"]] = (row["preference"], row["both_bad"])
    for batch in release.batches("sessions", "question_id", "turns"):
        for number, row in batch.numbered("question_id", "turns"):
            if row["turns"] != counts[row["question_id"]]:
                what = f"is {row['turns']}, and turns.parquet has {counts[row['question_id']]}"
                findings.add("sessions.parquet", what, row=number, column="turns")
    if "votes" in release.tables:
        check_votes(release, voted, findings)


def check_votes(
    release: ReleaseFolder, voted: dict[tuple[str, int], tuple[Any, Any]], findings: Findings
) -> None:
    names = ("question_id", "turn", "preference", "both_bad")
    for batch in release.batches("votes", *names):
        for number, row in batch.numbered(*names):
            own = voted.pop((row["question_id"], row["turn"]), None)
            vote = (row["preference"], row["both_bad"])
            if own != vote:
                what = f"{vote} is not the vote in turns.parquet ({own})"
                findings.add("votes.parquet", what, row=number, column="preference")
    for question, number in list(voted)[:1]:
        findings.add("votes.parquet", f"lacks the vote in turn {number} of {question}")
