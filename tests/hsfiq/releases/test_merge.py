"""`hsfiq release merge`: the answers of several groups become one release, which is valid."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hsfiq.kinds import RELEASE_KINDS
from tests.hsfiq.releases.small_releases import OnDisk, Rows, small_release
from tests.hsfiq.samples import hsfiq

Groups = Callable[[str], tuple[OnDisk, OnDisk]]


@pytest.fixture
def groups(tmp_path: Path) -> Groups:
    """The releases of two groups that use the same ids; the second is called another release."""

    def make(kind: str) -> tuple[OnDisk, OnDisk]:
        other = small_release(kind, tmp_path / "b")
        for file in ("manifest.json", "croissant.json"):
            other.json(file, lambda value: value.update(name="other"))
        other.agree()
        return small_release(kind, tmp_path / "a"), other

    return make


def merged(first: OnDisk, second: OnDisk, *options: str, to: str = "merged") -> OnDisk:
    out = first.folder.parent / to
    command = hsfiq("release", "merge", first.folder, second.folder, "--out", out, *options)
    assert command.code == 0, command.err
    verified = hsfiq("release", "verify", out)
    assert verified.code == 0, verified.out
    return OnDisk(out)


@pytest.mark.parametrize("kind", RELEASE_KINDS)
def test_every_kind_is_merged(groups: Groups, kind: str) -> None:
    first, second = groups(kind)
    both = merged(first, second)
    rows, own = (release.rows(RELEASE_KINDS[kind].main) for release in (both, first))
    people = {row["participant_id"] for row in own}
    assert {row["participant_id"] for row in rows} == {f"p{n + 1}" for n in range(2 * len(people))}
    # The same queries and pairs, and each answer twice.
    assert len(both.rows("queries")) == len(first.rows("queries"))
    names = ("text", "score_1", "score", "ranks", "verdict")
    values, twice = (
        sorted(str([row.get(name) for name in names]) for row in table) for table in (rows, own * 2)
    )
    assert values == twice


def test_queries_that_differ_get_other_ids(groups: Groups) -> None:
    """One has another text, another one another target: neither is the first group's query."""
    first, second = groups("hs")
    known = {row["query_id"]: row for row in first.rows("queries")}

    def edit(rows: Rows) -> None:
        rows[0]["text"] = rows[0]["text_shown"] = "is green"
        assert rows[0]["triplet_id"] != rows[2]["triplet_id"]
        for row in rows:
            if row["triplet_id"] == rows[2]["triplet_id"]:
                row["target_id"] = "another"

    second.change("queries", edit)
    second.agree()
    named = {row["query_id"]: row for row in merged(first, second).rows("queries")}
    new = [row for id_, row in named.items() if id_ not in known]
    assert "is green" in {row["text"] for row in new}
    assert "another" in {row["target_id"] for row in new}
    assert {id_: named[id_] for id_ in known} == known


def test_the_funnel_is_the_sum_and_the_seed_draws_the_pseudonyms(groups: Groups) -> None:
    first, second = groups("hs")
    both = merged(first, second, "--name", "both", "--title", "Both groups")
    manifests: list[Any] = []
    for release in (first, both):
        release.json("manifest.json", manifests.append)
    before, after = manifests
    assert after["funnel"]["assigned"] == 2 * before["funnel"]["assigned"]
    assert after["funnel"]["kept"] == 2 * before["funnel"]["kept"]
    assert (after["name"], after["title"]) == ("both-hs", "Both groups")
    assert [source["name"] for source in after["imported_from"]["merged"]] == ["small-hs", "other"]
    again = merged(first, second, "--name", "both", "--title", "Both groups", to="again")
    other = merged(first, second, "--seed", "1", to="other")
    assert again.rows("preferences") == both.rows("preferences")
    assert other.rows("preferences") != both.rows("preferences")


def test_systems_that_differ_get_other_names(groups: Groups) -> None:
    first, second = groups("arena")
    retrievers: list[Any] = []
    second.json("manifest.json", lambda value: value["retrievers"][0].update(version="2"))
    both = merged(first, second)
    both.json("manifest.json", lambda value: retrievers.extend(value["retrievers"]))
    named = {each["system"]: each["version"] for each in retrievers}
    (other,) = (name for name, version in named.items() if version == "2")
    changed = other.removesuffix("@2")
    assert named[changed] == "1"
    sessions, turns, votes = (both.rows(name) for name in ("sessions", "turns", "votes"))
    own = {row["question_id"]: (row["system_1"], row["system_2"]) for row in sessions}
    assert len(own) == len(sessions) == 2 * len(first.rows("sessions"))
    for table, rows in (("turns", turns), ("votes", votes)):
        assert len(rows) == 2 * len(first.rows(table))
        assert all((row["system_1"], row["system_2"]) == own[row["question_id"]] for row in rows)
    # Searches with the other version are about items of their own.
    items = [
        {row["item_id"] for row in sessions if name in own[row["question_id"]]}
        for name in (changed, other)
    ]
    assert items[0]
    assert items[1]
    assert not items[0] & items[1]


def refusal(first: OnDisk, second: OnDisk) -> str:
    out = first.folder.parent / "merged"
    refused = hsfiq("release", "merge", first.folder, second.folder, "--out", out)
    assert refused.code in (1, 2)
    assert not out.exists()
    return refused.err


def test_other_instruments_are_refused(groups: Groups) -> None:
    first, second = groups("hs")
    assert "is repeated" in refusal(first, first)
    second.json("manifest.json", lambda manifest: manifest["scale"].update(points=7))
    assert "scale is {'points': 7" in refusal(first, second)
    second.json("manifest.json", lambda manifest: manifest.update(kind="hp"))
    assert "kind is hp, but hs in" in refusal(first, second)
    (second.folder / "queries.jsonl").unlink()
    assert "queries.jsonl: is missing" in refusal(first, second)


def test_other_settings_of_searches_are_refused(groups: Groups) -> None:
    first, second = groups("search")
    second.json("manifest.json", lambda value: value["searches"].update(k=9))
    assert "searches is {'k': 9" in refusal(first, second)
