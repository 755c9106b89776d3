"""Practice questions that owners mark among their own queries, for every question kind."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import select

from hsfiq.annotate.app import plain_app
from hsfiq.annotate.handlers import Services
from hsfiq.annotate.texts import standard_texts
from hsfiq.collect.studies import find_study
from hsfiq.db.engine import Database, open_database
from hsfiq.db.source_tables import Dataset, Image, Query, RankedList, System, Triplet
from hsfiq.db.tables import Pair, Question
from hsfiq.study.practice import practice_pair, sets_of
from tests.annotate.page_requests import begin_form, token_of
from tests.hsfiq.samples import hsfiq
from tests.question_kinds.drawn_catalogue import FOUR_DRESSES, STUDY, Catalogue

SYSTEMS = ["sharp", "blurred", "text-heavy"]
EXPLANATION = "This is what the text asks for.\\n\\nThe rest is not."
EXPECTED: dict[str, tuple[int, str, dict[str, Any], str]] = {
    "pair": (2, "1", {"better": 1}, "Shopping Mall 1 matches better"),
    "single": (1, "4-5", {"lowest": 4, "highest": 5}, "4 \N{EN DASH} 5"),
    "images": (1, "3 1", {"fitting": [1, 3]}, "1, 3"),
    "ranking": (3, "2 1 3", {"order": [2, 1, 3]}, "Search results 2, Search results 1"),
    "query": (0, "VALIDATED", {"verdict": "VALIDATED"}, "Well formed"),
}
"""For each kind the number of systems, `expected`, what the page gets, and words explaining it."""


def marked(
    query: str, kind: str, *, systems: list[str] | None = None, explanation: str = ""
) -> str:
    n_systems, expected, *_ = EXPECTED[kind]
    names = SYSTEMS[:n_systems] if systems is None else systems
    return (
        f'\n[practice]\nquery = "{query}"\nsystems = {names}\nexpected = "{expected}"\n'
        f'explanation = "{explanation}"\n'
    )


def a_query(database: Database) -> Query:
    """A query of the category that the studies are about."""
    with database.reading() as session:
        return session.scalars(
            select(Query).join(Triplet).where(Triplet.category == "dress").order_by(Query.id)
        ).first()  # type: ignore[return-value]


def id_of(database: Database, query: Query) -> str:
    with database.reading() as session:
        triplet = session.get_one(Triplet, query.triplet_id)
        return triplet.external_id + query.suffix


@contextmanager
def at_practice(catalogue: Catalogue, study: str) -> Iterator[tuple[TestClient, dict[str, Any]]]:
    """A participant who has agreed, and the view that they are shown."""
    app = plain_app(Services.of(catalogue.database))
    with catalogue.database.reading() as session:
        row = find_study(session, study)
        assert row is not None
        key = row.id
    with TestClient(app, follow_redirects=False) as client:
        assert client.post("/enrol", data=begin_form(client, key)).status_code == 303
        yield client, client.post("/consent", json={"agrees": True}).json()


@pytest.mark.parametrize("kind", EXPECTED)
def test_the_marked_query_is_practised_and_not_asked(catalogue: Catalogue, kind: str) -> None:
    query = a_query(catalogue.database)
    n_systems, _, expected, standard = EXPECTED[kind]
    queries = FOUR_DRESSES + marked(id_of(catalogue.database, query), kind, explanation=EXPLANATION)
    name = catalogue.create(kind, name=f"practice-{kind}", queries=queries)
    with at_practice(catalogue, name) as (client, view):
        assert (view["step"], view["assignment"]) == ("practice", "practice")
        assert view["text"] == query.text
        assert view["expected"] == expected
        assert view["explanation"] == ["This is what the text asks for.", "The rest is not."]
        images = [image for shown in view["sets"] for image in shown]
        tokens = [token_of(image) for image in images]
        assert len(tokens) == (n_systems * 3 or 1)
        assert tokens == tokens_of_lists(catalogue.database, query, n_systems) or kind == "query"
        for image in (view["reference"], *images):
            assert client.get(f"/image/{image['token']}").status_code == 200
        assert client.post("/practice", json={}).json()["step"] == "question"
    with catalogue.database.reading() as session:
        study = find_study(session, name)
        assert study is not None
        practised = practice_pair(session, study)
        assert practised is not None
        assert len(sets_of(practised)) == max(n_systems, kind == "query")
        asked = select(Query.triplet_id).join(Pair).join(Question)
        assert query.triplet_id not in session.scalars(asked.where(Pair.study_id == study.id)).all()
    catalogue.hsfiq("study", "close", "--study", name)

    queries = FOUR_DRESSES + marked(id_of(catalogue.database, query), kind)
    name = catalogue.create(kind, name=f"standard-{kind}", queries=queries)
    with at_practice(catalogue, name) as (_, view):
        assert standard in " ".join(view["explanation"])
    catalogue.hsfiq("study", "close", "--study", name)


def tokens_of_lists(database: Database, query: Query, n_systems: int) -> list[str]:
    with database.reading() as session:
        of_query = (
            select(System.name, RankedList.image_ids)
            .join(System, RankedList.system_id == System.id)
            .where(RankedList.query_id == query.id)
        )
        lists = dict(session.execute(of_query).all())
        return [
            session.get_one(Image, key).token
            for system in SYSTEMS[:n_systems]
            for key in lists[system][:3]
        ]


@pytest.mark.parametrize("kind", EXPECTED)
def test_the_drawn_practice_has_a_right_answer_for_every_kind(
    catalogue: Catalogue, kind: str
) -> None:
    name = catalogue.create(kind, name=f"drawn-{kind}")
    with at_practice(catalogue, name) as (_, view):
        assert set(view["expected"]) == set(EXPECTED[kind][2])
        assert view["explanation"]
        assert "{" not in " ".join(view["explanation"])
    catalogue.hsfiq("study", "close", "--study", name)


@pytest.mark.parametrize("language", ["en", "ko"])
def test_the_standard_explanations_have_their_placeholders(language: str) -> None:
    assert "{sets}" in standard_texts(language)["page"]["practice_expected"]


def test_what_is_not_there_is_refused_with_its_line(catalogue: Catalogue, tmp_path: Path) -> None:
    query = a_query(catalogue.database)
    known = id_of(catalogue.database, query)
    cases = {
        marked(
            "dress.none.0", "pair"
        ): "practice.query: dataset 'drawn' has no query 'dress.none.0'",
        marked(known, "pair", systems=["sharp", "dull"]): "practice.systems: 'dull' has no list",
    }
    for practice, message in cases.items():
        assert message in refused(catalogue, tmp_path, practice)

    other = Catalogue(tmp_path, catalogue.place, catalogue.server, catalogue.database)
    url = f"sqlite:///{tmp_path / 'copy.db'}"
    shutil.copyfile(catalogue.place.file, tmp_path / "copy.db")
    database = open_database(url)
    with database.writing() as session:
        dataset = session.scalars(select(Dataset).where(Dataset.name == "drawn")).one()
        dataset.image_root = str(tmp_path / "nowhere")
    database.close()
    assert "is missing" in refused(other, tmp_path, marked(known, "pair"), url)


def refused(catalogue: Catalogue, folder: Path, practice: str, url: str = "") -> str:
    text = STUDY.format(
        name="refused", kind="pair", design="", queries=FOUR_DRESSES + practice, k=3
    )
    path = folder / "refused.toml"
    path.write_text(text, encoding="utf-8")
    command = hsfiq("study", "create", path, "--database", url or catalogue.place.url)
    assert command.code == 2
    assert "refused.toml: line " in command.err
    return command.err
