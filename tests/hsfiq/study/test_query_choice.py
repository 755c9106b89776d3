"""The queries that a study uses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import select

from hsfiq.db.engine import Database
from hsfiq.db.source_tables import RankedList, System
from hsfiq.errors import ConfigError
from hsfiq.study.config import Queries
from hsfiq.study.design import chosen_queries
from tests.hsfiq.samples import on_sqlite
from tests.studies import SMALL, SYSTEMS, config, make_queries


def chosen(database: Database, **options: Any) -> list[int]:
    with database.reading() as session:
        queries = Queries(**({"dataset": "small"} | options))
        return chosen_queries(session, config(queries=queries))


def test_all_queries_are_used_by_default(database: Database) -> None:
    queries = make_queries(database, {"dress": 4, "shirt": 4})
    assert chosen(database) == queries
    assert chosen(database, categories=("shirt",)) == queries[4:]
    assert chosen(database, splits=("val",)) == queries
    assert chosen(database, systems=("alpha", "beta")) == queries


def test_a_sample_is_drawn_by_the_seed(database: Database) -> None:
    queries = make_queries(database, {"shirt": 40})
    sample = chosen(database, sample=8)
    assert sample == chosen(database, sample=8) == sorted(sample)
    assert len(set(sample)) == 8
    assert set(sample) <= set(queries)
    with database.reading() as session:
        other_config = config(replace(SMALL, seed=7), queries=Queries(dataset="small", sample=8))
        assert chosen_queries(session, other_config) != sample


def test_only_queries_with_a_list_of_every_system_are_used(database: Database) -> None:
    queries = make_queries(database)
    with database.writing() as session:
        new_system = System(name="late")
        session.add(new_system)
        session.flush()
        images = session.scalars(select(RankedList.image_ids)).first()
        session.add(RankedList(system_id=new_system.id, query_id=queries[3], image_ids=images))
    assert chosen(database) == [queries[3]]
    assert chosen(database, systems=SYSTEMS) == queries


def test_systems_of_other_datasets_are_not_used(database: Database) -> None:
    queries = make_queries(database)
    other_queries = make_queries(database, systems=("delta", "epsilon"), dataset="other")
    assert chosen(database) == queries
    assert chosen(database, dataset="other") == other_queries


@on_sqlite
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dataset": "big"}, "queries.dataset: no dataset is called 'big'; there are small"),
        ({"systems": ("alpha", "omega")}, "queries.systems: no system is called 'omega'; there"),
        ({"categories": ("shirt", "hat")}, "queries.categories: no triplet of the dataset has 'h"),
        ({"splits": ("val", "dev")}, "queries.splits: no triplet of the dataset has 'dev'; there"),
        ({"sample": 9}, "queries.sample: 9 queries requested, but only 8 exist"),
    ],
)
def test_impossible_choices_are_named(
    database: Database, options: dict[str, Any], message: str
) -> None:
    make_queries(database)
    with pytest.raises(ConfigError) as error_info:
        chosen(database, **options)
    assert str(error_info.value).startswith(message)
    assert message.startswith(error_info.value.where)


@on_sqlite
@pytest.mark.parametrize("systems", [(), ("alone",)])
def test_a_choice_needs_two_systems(database: Database, systems: tuple[str, ...]) -> None:
    make_queries(database, systems=systems)
    with pytest.raises(ConfigError, match=r"queries\.systems: a question needs the ranked lists"):
        chosen(database)
