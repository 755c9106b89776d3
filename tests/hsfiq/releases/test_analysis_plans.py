"""The plan that a study declares: in the study, its releases, and what is made of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from hsfiq.actors import OWNER
from hsfiq.analysis.data.release import Plan, read_release
from hsfiq.collect.owner import perform, prepare
from hsfiq.collect.studies import find_study
from hsfiq.db.engine import Database
from hsfiq.db.tables import Study
from hsfiq.errors import ConfigError
from hsfiq.study.creation import create_study
from hsfiq.study.publication import OPENED_AT, AnalysisPlan
from tests.hsfiq.releases.small_releases import OnDisk, small_study_at, write_release
from tests.hsfiq.samples import hsfiq, on_sqlite
from tests.studies import SMALL, config, make_queries

PLAN = AnalysisPlan("systems", ("alpha", "beta"), margin=0.1, exclusions=("unseen",))
OPENED = "2026-03-01T09:00:00+00:00"


def create(database: Database, plan: AnalysisPlan, **options: str) -> None:
    queries = make_queries(database)
    wanted = replace(config(SMALL), analysis=plan)
    create_study(database, wanted, queries, actor=OWNER, require=lambda *_: None, **options)


def change_status(database: Database, action: str) -> None:
    with database.writing() as session:
        study = find_study(session, "small")
        assert study is not None
        perform(session, prepare(study, action), OWNER)


def opened_at(database: Database) -> str | None:
    with database.reading() as session:
        study = find_study(session, "small")
        assert study is not None
        opened: str | None = study.design.get(OPENED_AT)
        return opened


@on_sqlite
def test_the_first_opening_of_a_draft_counts(database: Database) -> None:
    create(database, PLAN, status="draft")
    assert opened_at(database) is None
    change_status(database, "open")
    first = opened_at(database)
    assert first is not None
    assert datetime.now(UTC) - datetime.fromisoformat(first) < timedelta(minutes=10)
    with database.writing() as session:
        study = find_study(session, "small")
        assert study is not None
        study.design = study.design | {OPENED_AT: OPENED}
    change_status(database, "pause")
    change_status(database, "open")
    assert opened_at(database) == OPENED


@on_sqlite
@pytest.mark.parametrize(("origin", "is_known"), [("collected", True), ("simulated", False)])
def test_a_study_may_open_at_once(database: Database, origin: str, is_known: bool) -> None:
    create(database, PLAN, origin=origin)
    assert (opened_at(database) is not None) is is_known


@on_sqlite
def test_the_systems_are_those_that_the_study_shows(database: Database) -> None:
    with pytest.raises(ConfigError, match="no lists of 'mine'; the study shows") as error:
        create(database, replace(PLAN, pair=("alpha", "mine")))
    assert error.value.where == "analysis.pair"


# ---------------------------------------------------------------------------------- releases

Exported = Callable[..., OnDisk]


@pytest.fixture
def exported(tmp_path: Path) -> Exported:
    """The release of the small study of pairs with this plan, and of when it opened."""

    def make(name: str, plan: AnalysisPlan = PLAN, opened: str | None = OPENED) -> OnDisk:
        database, key = small_study_at(tmp_path / f"{name}.db", "pair")
        with database.writing() as session:
            study = session.get_one(Study, key)
            study.design = study.design | {"analysis": asdict(plan), OPENED_AT: opened}
        write_release(database, key, "hp", tmp_path / name)
        database.close()
        return OnDisk(tmp_path / name)

    return make


def manifest_of(release: OnDisk) -> Any:
    return json.loads((release.folder / "manifest.json").read_text("utf-8"))


def card_of(release: OnDisk) -> str:
    return (release.folder / "README.md").read_text("utf-8")


def test_a_release_says_what_was_declared(exported: Exported) -> None:
    release = exported("a")
    assert manifest_of(release)["analysis"] == {
        "question": "systems",
        "pair": ["alpha", "beta"],
        "statistic": "win_rate",
        "margin": 0.1,
        "alpha": 0.05,
        "exclusions": ["unseen"],
        "opened_at": OPENED,
    }
    pair = ("alpha", "beta")
    plan = Plan("systems", pair, "win_rate", 0.1, 0.05, ("unseen",), OPENED)
    assert read_release(release.folder).plan == plan
    assert f"before the study opened at {OPENED}" in card_of(release)
    assert "which of two systems people prefer: `alpha` or `beta`" in card_of(release)
    assert hsfiq("release", "verify", release.folder).code == 0


def test_a_release_without_a_plan_does_not_speak_of_one(exported: Exported) -> None:
    release = exported("a", AnalysisPlan())
    assert "analysis" not in manifest_of(release)
    assert "Analysis plan" not in card_of(release)


def test_what_was_not_declared_is_null(exported: Exported) -> None:
    release = exported("a", AnalysisPlan("metrics"), None)
    declared = manifest_of(release)["analysis"]
    assert [declared[name] for name in ("pair", "margin", OPENED_AT)] == [None] * 3
    assert declared["statistic"] == "tie_half"
    assert "before the study opened. The question" in card_of(release)
    assert "No equivalence margin was declared" in card_of(release)


def test_a_plan_that_was_changed_afterwards_is_found(exported: Exported) -> None:
    release = exported("a")
    release.json("manifest.json", lambda known: known["analysis"].update(margin=0.2))
    verified = hsfiq("release", "verify", release.folder)
    assert (verified.code, "content_sha256" in verified.out) == (1, True)


def test_an_imported_release_keeps_its_plan(exported: Exported, tmp_path: Path) -> None:
    before = exported("a")
    url = f"sqlite:///{tmp_path / 'new.db'}"
    assert hsfiq("--database", url, "db", "upgrade").code == 0
    assert hsfiq("--database", url, "import", "release", before.folder).code == 0
    out = tmp_path / "after"
    assert hsfiq("--database", url, "export", "--release", "hp", "--out", out).code == 0
    assert manifest_of(OnDisk(out))["analysis"] == manifest_of(before)["analysis"]
    assert card_of(OnDisk(out)) == card_of(before)


@pytest.mark.parametrize(
    ("plan", "opened", "expected"),
    [
        (PLAN, OPENED, (0.1, OPENED)),
        (PLAN, "2026-04-01T09:00:00+00:00", (0.1, None)),
        (replace(PLAN, margin=0.2), OPENED, None),
        (AnalysisPlan(), OPENED, None),
    ],
)
def test_merged_releases_keep_a_plan_that_all_declared(
    exported: Exported, plan: AnalysisPlan, opened: str, expected: object, tmp_path: Path
) -> None:
    first, second = exported("a"), exported("b", plan, opened)
    for file in ("manifest.json", "croissant.json"):
        second.json(file, lambda value: value.update(name="other"))
    second.agree()
    merge = hsfiq("release", "merge", first.folder, second.folder, "--out", tmp_path / "both")
    assert merge.code == 0, merge.err
    both = OnDisk(tmp_path / "both")
    declared = manifest_of(both).get("analysis")
    assert (declared and (declared["margin"], declared[OPENED_AT])) == expected
    is_dropped = expected is None
    assert ("declared different analysis plans" in merge.out) is is_dropped
    assert ("declared different analysis plans" in card_of(both)) is is_dropped
    assert hsfiq("release", "verify", both.folder).code == 0


def test_plans_that_differ_are_compared(exported: Exported) -> None:
    first, second = exported("a"), exported("b", replace(PLAN, alpha=0.01))
    facts = hsfiq("release", "diff", first.folder, second.folder, "--json").result["facts"]
    assert [each["alpha"] for each in facts["analysis"]] == [0.05, 0.01]
