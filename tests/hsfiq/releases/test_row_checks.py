"""The queries with which kinds check rows find what slow and obvious loops find."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

from hsfiq.kinds import RELEASE_KINDS
from hsfiq.releases import verify_rows
from hsfiq.releases.folder import open_release
from hsfiq.releases.verify_rows import Findings, check_rows, relations
from tests.hsfiq.releases.small_releases import OnDisk, small_release

Row = dict[str, Any]
Sets = Mapping[str, Row]
Wrong = Iterator[tuple[str, str]]
"""Columns, and what is wrong in them."""


def same(row: Row, column: str, own: object, name: str) -> Wrong:
    if row[column] != own:
        yield column, f"is {row[column]}, and in sets.parquet ({name}) {own}"


def of_item(row: Row, column: str = "item_id") -> Wrong:
    if row[column] is not None and row[column].rpartition("/")[0] != row["query_id"]:
        yield column, f"{row[column]} is not of query {row['query_id']}"


def of_pair(row: Row, sets: Sets) -> Wrong:
    for side in (1, 2):
        name, expected = row[f"set_{side}"], f"{row['question_id']}.{side}"
        if name != expected:
            yield f"set_{side}", f"is {name}, not {expected}"
        if name in sets:
            yield from same(row, f"score_{side}", sets[name]["score"], name)
            yield from same(row, f"system_{side}", sets[name]["system"], name)
    yield from of_item(row, "pair_id")


def of_one_set(*columns: str) -> Callable[[Row, Sets], Wrong]:
    def check(row: Row, sets: Sets) -> Wrong:
        name, expected = row["set_id"], f"{row['question_id']}.1"
        if name != expected:
            yield "set_id", f"is {name}, not {expected}"
        for column in columns if name in sets else ():
            yield from same(row, column, sets[name][column], name)
        yield from of_item(row)

    return check


def of_ranking(row: Row, sets: Sets) -> Wrong:
    names, ranks, systems = row["set_ids"], row["ranks"], row["systems"]
    yield from of_item(row)
    if not len(names) == len(ranks) == len(systems):
        yield "ranks", f"are {len(ranks)}, of {len(names)} sets and {len(systems)} systems"
        return
    for side, (name, rank, system) in enumerate(zip(names, ranks, systems, strict=True), start=1):
        expected = f"{row['question_id']}.{side}"
        if name != expected:
            yield "set_ids", f"has {name}, not {expected}"
        if name in sets and sets[name]["rank"] != rank:
            yield "ranks", f"{name} has {rank}, and in sets.parquet {sets[name]['rank']}"
        if name in sets and sets[name]["system"] != system:
            own = sets[name]["system"]
            yield "systems", f"{name} is of {system}, and in sets.parquet of {own}"


def of_image(row: Row, sets: Sets) -> Wrong:
    if row["set_id"] not in sets:
        return
    images, place = sets[row["set_id"]]["image_ids"], row["rank"] - 1
    if not 0 <= place < len(images):
        yield "rank", f"is {row['rank']}, and {row['set_id']} has {len(images)} images"
    elif images[place] != row["image_id"]:
        yield "image_id", f"is {row['image_id']}, and in sets.parquet {images[place]}"


def of_set(row: Row, _sets: Sets) -> Wrong:
    expected = f"{row['question_id']}.{row['side']}"
    if row["set_id"] != expected:
        yield "set_id", f"is {row['set_id']}, not {expected}"
    yield from as_many(row, "image_states")
    order, images = row["shown_order"], row["image_ids"]
    if order is not None and sorted(order) != list(range(len(images))):
        yield "shown_order", f"{order} is not an order of {len(images)} images"


def as_many(row: Row, column: str, images: str = "image_ids") -> Wrong:
    if row[column] is not None and row[images] and len(row[column]) != len(row[images]):
        yield column, f"has {len(row[column])} values, of {len(row[images])} images"


def of_turn(row: Row, _sets: Sets) -> Wrong:
    yield from as_many(row, "scores")
    yield from as_many(row, "image_states")
    images, place = row["image_ids"], row["nearest_place"]
    if place is not None and images[place - 1 : place] != [row["nearest_id"]]:
        yield "nearest_id", f"{row['nearest_id']} is not image {place} of the list"
    if row["struck"] and row["text"] is not None:
        yield "text", "is there, and was struck"


def of_two_lists(row: Row, _sets: Sets) -> Wrong:
    for side in (1, 2):
        yield from as_many(row, f"scores_{side}", f"image_ids_{side}")
        yield from as_many(row, f"image_states_{side}", f"image_ids_{side}")
    if row["both_bad"] and row["preference"]:
        yield "both_bad", f"is true, with preference {row['preference']}"
    place, side = row["nearest_place"], row["nearest_list"]
    if place is not None and side in (1, 2):
        images = row[f"image_ids_{side}"] or []
        if images[place - 1 : place] != [row["nearest_id"]]:
            yield "nearest_id", f"{row['nearest_id']} is not image {place} of list {side}"
    if row["struck"] and row["text"] is not None:
        yield "text", "is there, and was struck"


def of_item_alone(row: Row, _sets: Sets) -> Wrong:
    yield from of_item(row)


OF_PAIRS = {"preferences": of_pair, "sets": of_set}
SLOW: dict[str, dict[str, Callable[[Row, Sets], Wrong]]] = {
    "hs": OF_PAIRS,
    "hp": OF_PAIRS,
    "single": {"scores": of_one_set("score", "system"), "sets": of_set},
    "images": {"judgements": of_one_set("system"), "relevance": of_image, "sets": of_set},
    "ranking": {"rankings": of_ranking, "sets": of_set},
    "query": {"query_ratings": of_item_alone},
    "search": {"sessions": of_item_alone, "turns": of_turn},
    "arena": {"sessions": of_item_alone, "turns": of_two_lists},
}


def spoil(rows: list[Row], names: list[str], rng: Random) -> None:
    """Alter some values, so that most are still of the right kind."""
    for _ in range(12):
        row, name = rng.choice(rows), rng.choice(names)
        value, other = row[name], rng.choice(rows)[name]
        if isinstance(value, list) and value and rng.random() < 0.5:
            row[name] = rng.choice([value[:-1], value[::-1], [*value, value[0]]])
        elif isinstance(value, bool):
            row[name] = not value
        elif isinstance(value, int) and rng.random() < 0.5:
            row[name] = value + rng.choice([-1, 1, 2])
        elif isinstance(value, str) and rng.random() < 0.5:
            row[name] = rng.choice([f"{value}/1", value[:-1], f"é{value}"])
        else:
            row[name] = other


def altered_columns(kind: str, table: str) -> list[str]:
    """Those with a type that queries compare; a set that is there twice has another finding."""
    columns = RELEASE_KINDS[kind].all_tables()[table]
    return [each.name for each in columns if each.type != "time" and each.name != "set_id"]


def found_slowly(release: OnDisk, table: str, check: Callable[[Row, Sets], Wrong]) -> set[Any]:
    has_sets = (release.folder / "sets.parquet").is_file()
    sets = {row["set_id"]: row for row in release.rows("sets")} if has_sets else {}
    found = set()
    for number, row in enumerate(release.rows(table), start=1):
        with suppress(TypeError):  # a null
            found |= {(number, column, what) for column, what in check(row, sets)}
    return found


@pytest.mark.parametrize("kind", RELEASE_KINDS)
def test_queries_find_what_loops_find(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verify_rows, "FIRST", 10_000)
    monkeypatch.setattr(verify_rows, "MOST", 10_000)
    assert SLOW[kind].keys() == RELEASE_KINDS[kind].checks.keys()
    n_found = 0
    for seed in range(6):
        release, rng = small_release(kind, tmp_path / str(seed)), Random(seed)
        for table in SLOW[kind]:
            names = altered_columns(kind, table)
            release.change(table, partial(spoil, names=names, rng=rng))
        opened = open_release(release.folder)
        for table, check in SLOW[kind].items():
            findings = Findings()
            with relations(opened) as tables:
                for each in opened.kind.checks[table]:
                    check_rows(tables, table, each, findings)
            found = {(each.row, each.column, each.what) for each in findings.first}
            assert found == found_slowly(release, table, check)
            n_found += len(found)
    assert n_found > 2
