"""`hsfiq release diff`: rows by their keys, and the figures that moved."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.hsfiq.releases.small_releases import OnDisk, Rows, small_release
from tests.hsfiq.samples import hsfiq

Releases = tuple[OnDisk, OnDisk]


@pytest.fixture
def releases(tmp_path: Path) -> Releases:
    """A release of pairs, and a copy."""
    return small_release("hs", tmp_path / "a"), small_release("hs", tmp_path / "b")


def compared(before: OnDisk, after: OnDisk, *options: str) -> Any:
    command = hsfiq("release", "diff", before.folder, after.folder, "--json", *options)
    assert command.code == 0, command.err
    return command.result


def test_a_copy_does_not_differ(releases: Releases) -> None:
    result = compared(*releases, "--metric", "recall@5")
    assert (result["differs"], result["facts"], result["figures"]) == (False, {}, {})
    text = hsfiq("release", "diff", releases[0].folder, releases[1].folder).out
    assert text == "the tables have the same rows\n"


def test_rows_are_added_gone_and_changed(releases: Releases) -> None:
    before, after = releases
    first, second, third = (row["question_id"] for row in before.rows("preferences")[:3])

    def edit(rows: Rows) -> None:
        rows.append({**rows[2], "question_id": "new", "place": 9})
        rows[0]["score_1"], rows[0]["language"] = 5, "en"
        rows[2]["active_seconds"] = 77.0
        del rows[1]

    after.change("preferences", edit)
    table = compared(before, after)["tables"]["preferences"]
    assert (table["n_added"], table["n_gone"], table["n_changed"]) == (1, 1, 2)
    assert (table["added"], table["gone"]) == (["new"], [second])
    assert list(table["changed"]) == [first, third]
    assert table["changed"][first]["language"] == [None, "en"]
    text = hsfiq("release", "diff", before.folder, after.folder).out
    assert f"  + new\n  - {second}\n  ~ {first}: " in text
    assert "language None -> en" in text


def test_figures_that_moved_have_n_and_an_interval(releases: Releases) -> None:
    before, after = releases
    gone = {row["question_id"] for row in before.rows("preferences")[:4]}
    for table in ("preferences", "sets"):
        after.change(table, lambda rows: rows.__setitem__(
            slice(None), [row for row in rows if row["question_id"] not in gone]
        ))  # fmt: skip
    after.agree()
    figures = compared(before, after, "--metric", "recall@5")["figures"]
    rate = figures["metrics.recall@5.preference_rate.tie_half"]
    assert (rate["a"]["n"], rate["b"]["n"]) == (19, 15)
    assert {"rate", "low", "high"} <= rate["a"].keys()


def test_other_kinds_and_other_folders_are_refused(releases: Releases, tmp_path: Path) -> None:
    before, after = releases
    after.json("manifest.json", lambda manifest: manifest.update(kind="hp"))
    refused = hsfiq("release", "diff", before.folder, after.folder)
    assert refused.code == 2
    assert "is of kind hp" in refused.err
    assert hsfiq("release", "diff", before.folder, tmp_path).code == 2
