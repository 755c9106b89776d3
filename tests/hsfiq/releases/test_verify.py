"""`hsfiq release verify`: releases of every kind are valid, and broken ones name the row."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hsfiq.kinds import RELEASE_KINDS
from hsfiq.releases import untrusted
from tests.hsfiq.releases.small_releases import OnDisk, Rows
from tests.hsfiq.samples import hsfiq

Change = Callable[[OnDisk], object]


@pytest.mark.parametrize("rows_at_once", [None, 2])
@pytest.mark.parametrize("kind", RELEASE_KINDS)
def test_what_we_export_is_valid(
    sound: Path, kind: str, rows_at_once: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if rows_at_once:
        monkeypatch.setattr(untrusted, "ROWS_AT_ONCE", rows_at_once)
    verified = hsfiq("release", "verify", sound / kind, "--json")
    assert verified.result["findings"] == []
    assert (verified.code, verified.result["valid"], verified.result["notes"]) == (0, True, [])


def test_the_name_of_the_folder_may_have_any_characters(sound: Path, tmp_path: Path) -> None:
    folder = tmp_path / 'it\'s [a] *"release"?'
    shutil.copytree(sound / "hp", folder)
    link = tmp_path / "link"
    link.symlink_to(folder)
    for name in (folder, link):
        verified = hsfiq("release", "verify", name)
        assert (verified.code, verified.out, verified.err) == (0, f"{name}: valid\n", "")


def put(table: str, row: int, column: str, value: object) -> Change:
    """Write a value into a row, counted from 1."""
    return lambda release: release.change(table, lambda rows: rows[row - 1].update({column: value}))


def swap(table: str, row: int, other: int, column: str) -> Change:
    def change(rows: Rows) -> None:
        first, second = rows[row - 1], rows[other - 1]
        first[column], second[column] = second[column], first[column]

    return lambda release: release.change(table, change)


def drop(table: str, place: int = 0) -> Change:
    return lambda release: release.change(table, lambda rows: rows.pop(place))


def move(table: str, place: int, to: int) -> Change:
    return lambda release: release.change(table, lambda rows: rows.insert(to, rows.pop(place)))


def leak(release: OnDisk) -> None:
    """Move a question from train to test; `n` in the manifest follows."""
    parts = [row["part"] for row in release.rows("splits")]
    put("splits", parts.index("train") + 1, "part", "test")(release)

    def follow(manifest: Any) -> None:
        manifest["split"]["n"]["train"] -= 1
        manifest["split"]["n"]["test"] += 1

    release.json("manifest.json", follow)


def retype_scores(release: OnDisk) -> None:
    values = [str(row["score_1"]) for row in release.rows("preferences")]
    release.retype("preferences", "score_1", pa.string(), ["five", *values[1:]])


def huge_score(release: OnDisk) -> None:
    values = [row["score"] for row in release.rows("sets")]
    release.retype("sets", "score", pa.int64(), [*values[:2], 10**15, *values[3:]])


def text_edit(name: str, old: str, new: str) -> Change:
    def change(release: OnDisk) -> None:
        path = release.folder / name
        text = path.read_text(encoding="utf-8")
        assert old in text
        path.write_text(text.replace(old, new, 1), encoding="utf-8")

    return change


def manifest(change: Callable[[Any], object]) -> Change:
    return lambda release: release.json("manifest.json", change)


def croissant(change: Callable[[Any], object]) -> Change:
    return lambda release: release.json("croissant.json", change)


def cut(name: str, *, last: int) -> Change:
    """Remove the last bytes of a file, or its last line."""

    def change(release: OnDisk) -> None:
        path = release.folder / name
        content = path.read_bytes()
        end = -last or content.rstrip(b"\r\n").rindex(b"\n") + 1
        path.write_bytes(content[:end])

    return change


def prefer_the_other_set(release: OnDisk) -> None:
    def change(layout: Any) -> None:
        form = next(iter(next(iter(layout.values())).values()))
        form["preferred set"][0] = {"1": "2", "2": "1"}[form["preferred set"][0]]

    release.json("hpfiq.json", change)


def exclude_a_kept_question(release: OnDisk) -> None:
    kept = {"question_id": release.rows("preferences")[0]["question_id"], "participant_id": "p1"}
    row = {**kept, "query_id": "x", "value": "x", "rule": "skipped"}
    release.change("exclusions", lambda rows: rows.append(row))


def leak_into_test(release: OnDisk) -> None:
    """A question of the training part in the test part's file."""
    train, test = (release.folder / f"preferences-{part}.parquet" for part in ("train", "test"))
    rows = pa.concat_tables([pq.read_table(test), pq.read_table(train).slice(0, 1)])
    pq.write_table(rows, test)


def reverse_choice(release: OnDisk) -> None:
    path = release.folder / "trl-train.parquet"
    table = pq.read_table(path)
    rows: list[Any] = table.to_pylist()
    rows[0]["chosen"], rows[0]["rejected"] = rows[0]["rejected"], rows[0]["chosen"]
    pq.write_table(pa.Table.from_pylist(rows, table.schema), path)


N_KEPT = 19
"""The questions of the small study of pairs; there are 2 sets each."""

BREAKS: dict[str, tuple[str, Change, str]] = {
    "edited score": ("hp", put("preferences", 3, "score_1", 5), "row 3, score_1: is 5, and in"),
    "score out of range": ("hs", put("preferences", 2, "score_2", 6), "row 2, score_2: is 6"),
    "score 10^15": ("hs", huge_score, "sets.parquet, row 3, score: is 1000000000000000 (int64)"),
    "wrong type": ("hs", retype_scores, "preferences.parquet, row 1, score_1: is 'five' (string)"),
    "null where forbidden": ("hs", put("preferences", 4, "preferred", None), "row 4, preferred:"),
    "preference of 3": ("hs", put("preferences", 4, "preferred", 3), "row 4, preferred: is 3"),
    "swapped ids": ("hs", swap("preferences", 1, 2, "question_id"), "row 1, question_id: is p1."),
    "swapped sets": ("hs", swap("sets", 1, 3, "set_id"), "sets.parquet, row 1, set_id: is p1."),
    "foreign participant": (
        "hs", put("sets", 5, "participant_id", "p99"),
        "sets.parquet, row 5, participant_id: is p99, and in preferences.parquet p1",
    ),
    "set not in sets": ("hs", drop("sets", 6), "preferences.parquet, row 4, set_1: "),
    "query not in queries": ("hs", drop("queries"), "query_id: shirt.val."),
    "unused query": (
        "hs", lambda release: release.change(
            "queries", lambda rows: rows.append({**rows[0], "query_id": "new"})
        ),
        f"queries.parquet, row {N_KEPT + 1}, query_id: no question is about new",
    ),
    "duplicated question": (
        "hs", lambda release: release.change("preferences", lambda rows: rows.insert(3, rows[2])),
        "preferences.parquet, row 4, question_id: p1.",
    ),
    "row order": ("hs", move("preferences", 0, 1), "row 2, place: place 0 comes after place 1"),
    "row order of sets": ("hs", move("sets", 0, 2 * N_KEPT), f"row {2 * N_KEPT}, question_id: "),
    "shown order": ("hs", put("sets", 2, "shown_order", [0, 0, 1, 2, 3]), "row 2, shown_order:"),
    "image state": ("hs", put("sets", 1, "image_states", ["seen"] * 5), "row 1, image_states: is"),
    "negative time": ("hs", put("preferences", 7, "active_seconds", -1.0), "active_seconds: is"),
    "not a number": ("hs", put("preferences", 7, "active_seconds", math.nan), "active_seconds: is"),
    "leak between splits": ("hp", leak, "leaks: "),
    "unknown part": ("hp", put("splits", 2, "part", "dev"), "splits.parquet, row 2, part: is"),
    "question without part": ("hp", drop("splits", -1), f"row {N_KEPT}, question_id: has no part"),
    "funnel off by one": (
        "hs", manifest(lambda value: value["funnel"]["steps"][0].update(left=18)),
        "manifest.json, funnel.steps[0]: 19 - 0 is not 18",
    ),
    "kept question excluded": ("hs", exclude_a_kept_question, "exclusions.parquet, row 1,"),
    "counts": (
        "hs", manifest(lambda value: value["counts"].update(sets=41)),
        "manifest.json, counts.sets: is 41, and the tables have 38",
    ),
    "jsonl and parquet differ": (
        "hs", text_edit("preferences.jsonl", '"preferred": 2', '"preferred": 1'),
        "preferences.jsonl, row 1, preferred: is 1, and in preferences.parquet 2",
    ),
    "a line is missing": ("hs", cut("sets.jsonl", last=0), f"row {2 * N_KEPT}: is missing"),
    "truncated json": ("hs", text_edit("sets.jsonl", "}\n", "\n"), "sets.jsonl, row 1: is not"),
    "reason of another question": (
        "hs", put("reasons", 1, "question_id", "p1.x.0"),
        "reasons.parquet, row 1, question_id: p1.x.0 is not in preferences.parquet",
    ),
    "missing file": (
        "hs", lambda release: (release.folder / "sets.parquet").unlink(), "sets.parquet: is missing"
    ),
    "extra file": (
        "hs", lambda release: (release.folder / "notes.txt").write_text("mine"),
        "notes.txt: is in the folder",
    ),
    "truncated parquet": ("hs", cut("sets.parquet", last=9), "sets.parquet: cannot be read ("),
    "croissant lacks a column": (
        "hs", croissant(lambda value: value["recordSet"][0]["field"].pop()),
        "croissant.json, preferences/language: ",
    ),
    "croissant of another version": (
        "hs", croissant(lambda value: value.update(version="9.0.0")),
        "croissant.json, version: is '9.0.0', and manifest.json says '1.0.0'",
    ),
    "published layout differs": ("hp", prefer_the_other_set, "hpfiq.json, row 1, preferred set:"),
    "text version": ("hs", put("preferences", 1, "text_version", 7), "row 1, text_version: 7 is"),
    "csv: edited score": (
        "hp", text_edit("preferences.csv", ",2,3,2,", ",1,3,2,"),
        "preferences.csv, row 2, score_1: is '1', and '2' by the tables",
    ),
    "csv: cut": ("hp", cut("sets.csv", last=0), "sets.csv, row "),
    "part: leak": ("hp", leak_into_test, "preferences-test.parquet, row "),
    "trl: reversed choice": ("hp", reverse_choice, "trl-train.parquet, row 1, chosen: is "),
    "single: edited score": ("single", put("scores", 1, "score", 5), "row 1, score: is 5, and in"),
    "ranking: edited rank": ("ranking", put("rankings", 2, "ranks", [1, 2, 3]), "row 2, ranks: "),
    "images: another image": ("images", put("relevance", 1, "image_id", "x"), "row 1, image_id:"),
    "images: edited level": ("images", put("relevance", 2, "relevance", 0), "qrels.txt, row 2: is"),
    "query: unknown verdict": (
        "query", put("query_ratings", 2, "verdict", "FINE"), "row 2, verdict: is 'FINE', not"
    ),
    "search: a turn is missing": ("search", drop("turns"), "row 1, turn: is 2, and the turn"),
    "search: records differ": (
        "search", text_edit("session_records.jsonl", '"participant": "p1"', '"participant": "p2"'),
        "session_records.jsonl, row 1, participant: is p2, and in the tables p1",
    ),
    "search: other settings": (
        "search", manifest(lambda value: value["searches"].update(rounds=9)),
        "sessions.parquet, row 1, max_rounds: is 5, and in manifest.json 9",
    ),
    "arena: unknown system": (
        "arena", manifest(lambda value: value["retrievers"].clear()),
        "sessions.parquet, row 1, system_1: alpha is no retriever",
    ),
    "arena: edited vote": (
        "arena", put("votes", 1, "preference", 2),
        "votes.parquet, row 1, preference: (2, False) is not the vote in turns.parquet",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BREAKS)
def test_a_broken_release_names_the_row(copied: Callable[[str], OnDisk], name: str) -> None:
    kind, change, expected = BREAKS[name]
    release = copied(kind)
    change(release)
    release.agree()
    verified = hsfiq("release", "verify", release.folder)
    assert verified.code == 1
    assert expected in verified.out
    assert "sha256" not in verified.out


@pytest.mark.parametrize(
    ("kind", "change", "place"),
    [
        ("hs", lambda value: value.update(content_sha256="0" * 64), "content_sha256"),
        (
            "hs",
            lambda value: value["filters"].append({"name": "unseen", "parameters": {}}),
            "conte",
        ),
        ("hp", lambda value: value["split"].update(seed=2), "content_sha256"),
        ("query", lambda value: value["publication"].update(licence="MIT"), "content_sha256"),
        ("query", lambda value: value.pop("filters"), "content_sha256"),
        ("query", lambda value: value["files"]["queries.jsonl"].update(sha256="0" * 64), ""),
    ],
)
def test_digests_that_are_not_those_of_the_content_are_found(
    copied: Callable[[str], OnDisk], kind: str, change: Callable[[Any], object], place: str
) -> None:
    release = copied(kind)
    manifest(change)(release)
    verified = hsfiq("release", "verify", release.folder)
    assert verified.code == 1
    of_file = "queries.jsonl: differs from the file that manifest.json lists"
    assert verified.out.startswith(f"manifest.json, {place}" if place else of_file)


def test_an_older_release_verifies_as_far_as_it_can(copied: Callable[[str], OnDisk]) -> None:
    """Without a column of a newer hsfiq, digests and counts."""
    release = copied("hs")
    path = release.folder / "preferences.parquet"
    schema, rows = pq.read_schema(path), release.rows("preferences")
    for row in rows:
        del row["language"]
    release.write("preferences", rows, schema.remove(schema.get_field_index("language")))

    def without(value: Any) -> None:
        fields = value["recordSet"][0]["field"]
        fields[:] = [field for field in fields if field["name"] != "language"]

    croissant(without)(release)
    release.agree()
    manifest(lambda value: [value.pop(key) for key in ("files", "counts")])(release)
    verified = hsfiq("release", "verify", release.folder, "--json")
    assert (verified.code, verified.result["findings"]) == (0, [])
    assert len(verified.result["notes"]) == 4


def test_what_is_no_release_is_refused(sound: Path, tmp_path: Path) -> None:
    a_file = f"is a file; name the release's folder, {sound / 'hs'}\n"
    for place, what in (
        (tmp_path, "manifest"),
        (tmp_path / "none", "no such folder"),
        (sound / "hs" / "manifest.json", a_file),
        (sound / "hs" / "sets.parquet", a_file),
        (
            sound,
            f"contains 8: arena, hp, hs and 5 more; name one of them, such as {sound / 'arena'}\n",
        ),
    ):
        refused = hsfiq("release", "verify", place)
        assert (refused.code, refused.err.count("\n")) == (2, 1)
        assert refused.err.startswith(f"hsfiq: {place}")
        assert what in refused.err
