"""`hsfiq release verify`: releases of every kind are valid, and broken ones name the row."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hsfiq.db.engine import open_database
from hsfiq.kinds import KIND_OF_RELEASE, KINDS, RELEASE_KINDS
from hsfiq.releases import folder as tables
from hsfiq.releases.splits import Split
from tests.databases import migrated_sqlite
from tests.hsfiq.releases.small_releases import OnDisk, Rows, small_study_of, write_release
from tests.hsfiq.samples import hsfiq


@pytest.fixture(scope="module")
def releases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a release of every kind, under its name; `hp` has a split."""
    parent = tmp_path_factory.mktemp("releases")
    for question_kind in KINDS:
        path = parent / f"{question_kind}.db"
        path.write_bytes(migrated_sqlite())
        database = open_database(f"sqlite:///{path}")
        study = small_study_of(database, question_kind)
        for name, kind in RELEASE_KINDS.items():
            if KIND_OF_RELEASE[kind.name].name == question_kind:
                split = Split("both", seed=1, test_share=0.5) if name == "hp" else None
                write_release(database, study, name, parent / name, split)
        database.close()
    return parent


@pytest.fixture
def broken(releases: Path, tmp_path: Path) -> Callable[[str], OnDisk]:
    def copy(kind: str) -> OnDisk:
        shutil.copytree(releases / kind, tmp_path / kind)
        return OnDisk(tmp_path / kind)

    return copy


@pytest.mark.parametrize("kind", RELEASE_KINDS)
def test_what_we_export_is_valid(releases: Path, kind: str) -> None:
    verified = hsfiq("release", "verify", releases / kind, "--json")
    assert verified.result["findings"] == []
    assert (verified.code, verified.result["valid"], verified.result["notes"]) == (0, True, [])


@pytest.mark.parametrize("kind", RELEASE_KINDS)
def test_batches_of_few_rows_are_valid_too(
    releases: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "ROWS_AT_ONCE", 2)
    verified = hsfiq("release", "verify", releases / kind)
    assert (verified.code, verified.out) == (0, f"{releases / kind}: valid\n")


def test_the_name_of_the_folder_may_have_any_characters(releases: Path, tmp_path: Path) -> None:
    folder = tmp_path / 'it\'s [a] *"release"?'
    shutil.copytree(releases / "hp", folder)
    link = tmp_path / "link"
    link.symlink_to(folder)
    for name in (folder, link):
        verified = hsfiq("release", "verify", name)
        assert (verified.code, verified.err) == (0, "")


def put(row: int, column: str, value: object) -> Callable[[Rows], None]:
    """Write a value into a row, counted from 1."""

    def change(rows: Rows) -> None:
        rows[row - 1][column] = value

    return change


def swap(row: int, other: int, column: str) -> Callable[[Rows], None]:
    def change(rows: Rows) -> None:
        first, second = rows[row - 1], rows[other - 1]
        first[column], second[column] = second[column], first[column]

    return change


def exchange(rows: Rows) -> None:
    rows[0], rows[1] = rows[1], rows[0]


def leak(release: OnDisk) -> None:
    """Move a question from train to test; `n` in the manifest follows."""
    rows = release.rows("splits")
    place = next(n for n, row in enumerate(rows, start=1) if row["part"] == "train")
    release.change("splits", put(place, "part", "test"))

    def follow(manifest: Any) -> None:
        manifest["split"]["n"]["train"] -= 1
        manifest["split"]["n"]["test"] += 1

    release.json("manifest.json", follow)


def edit_funnel(manifest: Any) -> None:
    manifest["funnel"]["steps"][0]["left"] -= 1


def retype_scores(release: OnDisk) -> None:
    values = [str(row["score_1"]) for row in release.rows("preferences")]
    release.retype("preferences", "score_1", pa.string(), ["five", *values[1:]])


def huge_score(release: OnDisk) -> None:
    values = [row["score"] for row in release.rows("sets")]
    release.retype("sets", "score", pa.int64(), [*values[:2], 10**15, *values[3:]])


def on(table: str, change: Callable[[Rows], None]) -> Callable[[OnDisk], None]:
    return lambda release: release.change(table, change)


def text_edit(name: str, old: str, new: str) -> Callable[[OnDisk], None]:
    def change(release: OnDisk) -> None:
        path = release.folder / name
        text = path.read_text(encoding="utf-8")
        assert old in text
        path.write_text(text.replace(old, new, 1), encoding="utf-8")

    return change


def json_edit(name: str, change: Callable[[Any], None]) -> Callable[[OnDisk], None]:
    return lambda release: release.json(name, change)


def drop_lines(release: OnDisk) -> None:
    path = release.folder / "sets.jsonl"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))


def forget_column(croissant: Any) -> None:
    croissant["recordSet"][0]["field"].pop()


def remove(name: str) -> Callable[[OnDisk], None]:
    return lambda release: (release.folder / name).unlink()


def edit_hpfiq(layout: Any) -> None:
    form = next(iter(next(iter(layout.values())).values()))
    form["preferred set"][0] = {"1": "2", "2": "1"}[form["preferred set"][0]]


N_KEPT = 19
"""The questions of the small study of pairs; there are 2 sets each."""

BREAKS: dict[str, tuple[str, Callable[[OnDisk], object], str]] = {
    "edited score": (
        "hp",
        on("preferences", put(3, "score_1", 5)),
        "preferences.parquet, row 3, score_1: is 5, and in sets.parquet",
    ),
    "score out of range": (
        "hs",
        on("preferences", put(2, "score_2", 6)),
        "preferences.parquet, row 2, score_2: is 6, not from 1 to 5",
    ),
    "score 10^15": (
        "hs",
        huge_score,
        "sets.parquet, row 3, score: is 1000000000000000 (int64), and not of type int8",
    ),
    "wrong type": (
        "hs",
        retype_scores,
        "preferences.parquet, row 1, score_1: is 'five' (string), and not of type int8",
    ),
    "null where forbidden": (
        "hs",
        on("preferences", put(4, "preferred", None)),
        "preferences.parquet, row 4, preferred: is null",
    ),
    "preference of 3": (
        "hs",
        on("preferences", put(4, "preferred", 3)),
        "preferences.parquet, row 4, preferred: is 3, not 0, 1 or 2",
    ),
    "swapped ids": (
        "hs",
        on("preferences", swap(1, 2, "question_id")),
        "preferences.parquet, row 1, question_id: is p1.",
    ),
    "swapped sets": ("hs", on("sets", swap(1, 3, "set_id")), "sets.parquet, row 1, set_id: is p1."),
    "foreign participant": (
        "hs",
        on("sets", put(5, "participant_id", "p99")),
        "sets.parquet, row 5, participant_id: is p99, and in preferences.parquet p1",
    ),
    "set not in sets": (
        "hs",
        lambda release: release.change("sets", lambda rows: rows.pop(6)),
        "preferences.parquet, row 4, set_1: ",
    ),
    "query not in queries": (
        "hs",
        lambda release: release.change("queries", lambda rows: rows.pop(0)),
        "query_id: shirt.val.",
    ),
    "unused query": (
        "hs",
        lambda release: release.change(
            "queries", lambda rows: rows.append({**rows[0], "query_id": "new"})
        ),
        f"queries.parquet, row {N_KEPT + 1}, query_id: no question is about new",
    ),
    "duplicated question": (
        "hs",
        lambda release: release.change("preferences", lambda rows: rows.insert(3, rows[2])),
        "preferences.parquet, row 4, question_id: p1.",
    ),
    "row order": (
        "hs",
        on("preferences", exchange),
        "preferences.parquet, row 2, place: place 0 comes after place 1",
    ),
    "row order of sets": (
        "hs",
        lambda release: release.change("sets", lambda rows: rows.append(rows.pop(0))),
        f"sets.parquet, row {2 * N_KEPT}, question_id: ",
    ),
    "shown order": (
        "hs",
        on("sets", put(2, "shown_order", [0, 0, 1, 2, 3])),
        "sets.parquet, row 2, shown_order: [0, 0, 1, 2, 3] is no order of 5 images",
    ),
    "image state": (
        "hs",
        on("sets", put(1, "image_states", ["seen"] * 5)),
        "sets.parquet, row 1, image_states: is 'seen'",
    ),
    "negative time": (
        "hs",
        on("preferences", put(7, "active_seconds", -1.0)),
        "preferences.parquet, row 7, active_seconds: is -1.0, not 0 or more",
    ),
    "not a number": (
        "hs",
        on("preferences", put(7, "active_seconds", float("nan"))),
        "preferences.parquet, row 7, active_seconds: is nan",
    ),
    "leak between splits": ("hp", leak, "leaks: "),
    "unknown part": (
        "hp",
        on("splits", put(2, "part", "dev")),
        "splits.parquet, row 2, part: is 'dev', not train, test or unused",
    ),
    "question without part": (
        "hp",
        lambda release: release.change("splits", lambda rows: rows.pop()),
        f"preferences.parquet, row {N_KEPT}, question_id: has no part in splits.parquet",
    ),
    "funnel off by one": (
        "hs",
        json_edit("manifest.json", edit_funnel),
        "manifest.json, funnel.steps[0]: 19 - 0 is not 18, which are left after unanswered",
    ),
    "kept question excluded": (
        "hs",
        lambda release: release.change(
            "exclusions",
            lambda rows: rows.append(
                {
                    **dict.fromkeys(("query_id", "value"), "x"),
                    "question_id": release.rows("preferences")[0]["question_id"],
                    "participant_id": "p1",
                    "rule": "skipped",
                }
            ),
        ),
        "exclusions.parquet, row 1, question_id: p1.",
    ),
    "counts": (
        "hs",
        json_edit("manifest.json", lambda manifest: manifest["counts"].update(sets=41)),
        "manifest.json, counts.sets: is 41, and the tables have 38",
    ),
    "jsonl and parquet differ": (
        "hs",
        text_edit("preferences.jsonl", '"preferred": 2', '"preferred": 1'),
        "preferences.jsonl, row 1, preferred: is 1, and in preferences.parquet 2",
    ),
    "a line is missing": ("hs", drop_lines, f"sets.jsonl, row {2 * N_KEPT}: is missing"),
    "truncated json": (
        "hs",
        text_edit("sets.jsonl", "}\n", "\n"),
        "sets.jsonl, row 1: is not JSON",
    ),
    "reason of another question": (
        "hs",
        on("reasons", put(1, "question_id", "p1.x.0")),
        "reasons.parquet, row 1, question_id: p1.x.0 is not in preferences.parquet",
    ),
    "missing file": ("hs", remove("sets.parquet"), "sets.parquet: is missing"),
    "extra file": (
        "hs",
        lambda release: (release.folder / "notes.txt").write_text("mine"),
        "notes.txt: is in the folder, and manifest.json does not list it",
    ),
    "truncated parquet": (
        "hs",
        lambda release: (release.folder / "sets.parquet").write_bytes(
            (release.folder / "sets.parquet").read_bytes()[:-9]
        ),
        "sets.parquet: cannot be read (",
    ),
    "croissant lacks a column": (
        "hs",
        json_edit("croissant.json", forget_column),
        "croissant.json, preferences/language: does not describe this column",
    ),
    "croissant of another version": (
        "hs",
        json_edit("croissant.json", lambda croissant: croissant.update(version="9.0.0")),
        "croissant.json, version: is '9.0.0', and manifest.json says '1.0.0'",
    ),
    "published layout differs": (
        "hp",
        json_edit("hpfiq.json", edit_hpfiq),
        "hpfiq.json, row 1, preferred set: is 1 of",
    ),
    "text version": (
        "hs",
        on("preferences", put(1, "text_version", 7)),
        "preferences.parquet, row 1, text_version: 7 is not in text_versions.json",
    ),
    "single: edited score": (
        "single",
        on("scores", put(1, "score", 5)),
        "scores.parquet, row 1, score: is 5, and in sets.parquet",
    ),
    "ranking: edited rank": (
        "ranking",
        on("rankings", put(2, "ranks", [1, 2, 3])),
        "rankings.parquet, row 2, ranks: ",
    ),
    "images: another image": (
        "images",
        on("relevance", put(1, "image_id", "x")),
        "relevance.parquet, row 1, image_id: is x, and in sets.parquet image-",
    ),
    "images: edited level": (
        "images",
        on("relevance", put(2, "relevance", 0)),
        "qrels.txt, row 2: is ",
    ),
    "query: unknown verdict": (
        "query",
        on("query_ratings", put(2, "verdict", "FINE")),
        "query_ratings.parquet, row 2, verdict: is 'FINE', not VALIDATED",
    ),
    "search: a turn is missing": (
        "search",
        lambda release: release.change("turns", lambda rows: rows.pop(0)),
        "turns.parquet, row 1, turn: is 2, and the turn before 0",
    ),
    "search: records differ": (
        "search",
        text_edit("session_records.jsonl", '"participant": "p1"', '"participant": "p2"'),
        "session_records.jsonl, row 1, participant: is p2, and in the tables p1",
    ),
    "search: other settings": (
        "search",
        lambda release: release.json(
            "manifest.json", lambda manifest: manifest["searches"].update(rounds=9)
        ),
        "sessions.parquet, row 1, max_rounds: is 5, and in manifest.json 9",
    ),
    "arena: unknown system": (
        "arena",
        lambda release: release.json(
            "manifest.json", lambda manifest: manifest["retrievers"].clear()
        ),
        "sessions.parquet, row 1, system_1: alpha is no retriever of manifest.json",
    ),
    "arena: edited vote": (
        "arena",
        on("votes", put(1, "preference", 2)),
        "votes.parquet, row 1, preference: (2, False) is not the vote in turns.parquet",
    ),
}


@pytest.mark.parametrize("name", BREAKS)
def test_a_broken_release_names_the_row(broken: Callable[[str], OnDisk], name: str) -> None:
    kind, change, expected = BREAKS[name]
    release = broken(kind)
    change(release)
    release.agree()
    verified = hsfiq("release", "verify", release.folder)
    assert verified.code == 1
    assert expected in verified.out
    assert "sha256" not in verified.out


def test_a_digest_that_is_wrong_names_the_file(broken: Callable[[str], OnDisk]) -> None:
    release = broken("query")

    def edit(manifest: Any) -> None:
        manifest["files"]["queries.jsonl"]["sha256"] = "0" * 64

    release.json("manifest.json", edit)
    verified = hsfiq("release", "verify", release.folder)
    assert verified.code == 1
    assert verified.out.startswith("queries.jsonl: differs from the file that manifest.json lists")


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("hs", lambda manifest: manifest.update(content_sha256="0" * 64)),
        ("hs", lambda manifest: manifest["filters"].append({"name": "unseen", "parameters": {}})),
        ("hp", lambda manifest: manifest["split"].update(seed=2)),
        ("query", lambda manifest: manifest["publication"].update(licence="MIT")),
        ("query", lambda manifest: manifest.pop("filters")),
    ],
)
def test_options_that_are_not_those_of_the_content_digest_are_found(
    broken: Callable[[str], OnDisk], kind: str, change: Callable[[Any], None]
) -> None:
    release = broken(kind)
    release.json("manifest.json", change)
    verified = hsfiq("release", "verify", release.folder)
    assert verified.code == 1
    assert verified.out.startswith("manifest.json, content_sha256: ")


def test_what_is_no_release_is_refused(tmp_path: Path) -> None:
    for folder, what in ((tmp_path, "manifest"), (tmp_path / "none", "no such folder")):
        refused = hsfiq("release", "verify", folder)
        assert refused.code == 2
        assert what in refused.err


def test_an_older_release_verifies_as_far_as_it_can(broken: Callable[[str], OnDisk]) -> None:
    """Without a column of a newer hsfiq, digests and counts."""
    release = broken("hs")
    path = release.folder / "preferences.parquet"
    schema = pa.parquet.read_schema(path)
    rows = release.rows("preferences")
    for row in rows:
        del row["language"]
    release.write("preferences", rows, schema.remove(schema.get_field_index("language")))

    def without(croissant: Any) -> None:
        fields = croissant["recordSet"][0]["field"]
        fields[:] = [field for field in fields if field["name"] != "language"]

    release.json("croissant.json", without)
    release.agree()
    release.json(
        "manifest.json", lambda manifest: [manifest.pop(key) for key in ("files", "counts")]
    )
    verified = hsfiq("release", "verify", release.folder, "--json")
    assert (verified.code, verified.result["findings"]) == (0, [])
    assert len(verified.result["notes"]) == 4


@pytest.mark.parametrize("name", ["manifest.json", "sets.parquet"])
def test_a_file_of_a_release_names_its_folder(releases: Path, name: str) -> None:
    verified = hsfiq("release", "verify", releases / "hs" / name)
    what = f"is a file; name the release's folder, {releases / 'hs'}"
    assert (verified.code, verified.err) == (2, f"hsfiq: {releases / 'hs' / name}: {what}\n")


def test_a_folder_of_releases_names_them(releases: Path) -> None:
    verified = hsfiq("release", "verify", releases)
    names = "arena, hp, hs and 5 more"
    what = f"is no release; it has 8: {names}; name one of them, such as {releases / 'arena'}"
    assert (verified.code, verified.err) == (2, f"hsfiq: {releases}: {what}\n")
