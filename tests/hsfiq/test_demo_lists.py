"""The retrieval systems' sets that the demo ships: made by this version, for its own queries."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import select

from benchmarks.demo_lists import SEED, K, as_json, served_queries
from benchmarks.trained_systems import SYSTEMS as RETRIEVAL_SYSTEMS
from benchmarks.trained_systems import drawn_recipe
from hsfiq.db.engine import Database, open_database
from hsfiq.db.source_tables import System
from hsfiq.demo import study
from hsfiq.demo.study import (
    FILE,
    SERVED_PARTICIPANTS,
    database_url,
    make_study,
    queries_sha256,
    read_shipped,
    served_design,
    shipped_lists,
    shipped_or_ruled,
)
from hsfiq.drawn import SYSTEMS, garment_of
from tests.hsfiq.samples import hsfiq


def test_the_file_is_of_this_versions_recipes() -> None:
    """If it is not, `python -m benchmarks.demo_lists` writes it anew."""
    recipes = [system["recipe"] for system in read_shipped()["systems"]]
    assert recipes == [drawn_recipe(name, 0, {}).to_json() for name in RETRIEVAL_SYSTEMS]


def test_the_file_is_of_the_served_queries() -> None:
    garments, queries = served_queries()
    shipped = read_shipped()
    assert shipped["queries_sha256"] == queries_sha256(garments, queries)
    assert (shipped["seed"], shipped["participants"]) == (SEED, SERVED_PARTICIPANTS)
    triplets = {query.query_id: query.triplet for query in queries}
    ranked = shipped_lists(shipped)
    assert len(ranked) == len(queries) * len(RETRIEVAL_SYSTEMS)
    for each in ranked:
        triplet = triplets[each.query_id]
        assert len(each.images) == K
        assert triplet.reference.image_id not in each.images
        assert {garment_of(image).category for image in each.images} == {triplet.category}
        assert {garment_of(image) for image in each.images} <= set(garments)


def test_the_file_is_written_as_it_is() -> None:
    path = Path(study.__file__).with_name(FILE)
    assert as_json(read_shipped()) == path.read_text()


def test_other_queries_are_ranked_by_rules() -> None:
    garments, queries = served_queries()
    served = shipped_or_ruled(SEED)(garments, queries)
    assert {each.system for each in served} == set(RETRIEVAL_SYSTEMS)
    fewer = shipped_or_ruled(SEED)(garments, queries[:-1])
    assert {each.system for each in fewer} == {system.name for system in SYSTEMS}


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Database]:
    """The study of `hsfiq demo`, its pictures undrawn."""
    monkeypatch.setattr("hsfiq.drawn.pictures.write_images", lambda *_: None)
    database = open_database(database_url(tmp_path))
    make_study(database, tmp_path, served_design(SEED), SERVED_PARTICIPANTS, simulated=False)
    yield database
    database.close()


def test_the_served_study_compares_the_retrieval_systems(served: Database) -> None:
    with served.reading() as session:
        assert set(session.scalars(select(System.name))) == set(RETRIEVAL_SYSTEMS)


def test_a_folder_without_trained_systems_is_refused(tmp_path: Path) -> None:
    for words, message in (
        (("--answers", "1"), f"{tmp_path}: holds 0 trained systems; a study compares at least 2; "),
        (("--full",), "--systems: cannot be used with --full"),
    ):
        refused = hsfiq("demo", *words, "--dir", tmp_path / "demo", "--systems", tmp_path)
        assert (refused.code, refused.out) == (2, "")
        assert message in refused.err
