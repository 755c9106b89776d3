"""The benchmarks `five-million` and `participants`, small: valid databases, and work on them."""

from __future__ import annotations

import json
import shutil
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select, text

from benchmarks import participants
from benchmarks.drawn_rows import drawn_number
from benchmarks.five_million import markdown, measure_database
from benchmarks.many_answers import Part, make_database, parts_of
from hsfiq.collect.studies import find_study, list_studies
from hsfiq.db.engine import Database, open_database
from hsfiq.db.tables import Response
from hsfiq.db.types import Base
from tests.hsfiq.collect.slow_progress import assert_counts
from tests.processes import Fork

N_ANSWERS = 4000


@pytest.fixture(scope="module")
def filled_sqlite(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Part]]:
    """A filled file, which tests copy before they change it, and its studies."""
    path = tmp_path_factory.mktemp("filled") / "answers.db"
    return path, make_database(f"sqlite:///{path}", N_ANSWERS, seed=1)


@pytest.fixture
def filled(kind: str, request: pytest.FixtureRequest) -> tuple[str, list[Part]]:
    """The URL of a filled database of each kind, which is only read, and its studies."""
    if kind == "sqlite":
        path, parts = request.getfixturevalue("filled_sqlite")
        return f"sqlite:///{path}", parts
    url = str(request.getfixturevalue("empty_postgres"))
    return url, make_database(url, N_ANSWERS, seed=1)


def test_a_filled_database(filled: tuple[str, list[Part]]) -> None:
    url, parts = filled
    with closing(open_database(url)) as database:
        assert broken_references(database) == {}
        with database.reading() as session:
            studies = {study.name: study for study in list_studies(session)}
            assert list(studies) == [part.name for part in parts]
            progress = assert_counts(session, studies["full"])
            assert progress.forms == progress.forms_taken
            assert min(progress.images_painted, progress.images_not_painted) > 100
            revisions = session.scalars(select(Response.revision)).all()
            assert set(revisions) == {1, 2}
            assert 0.03 < revisions.count(2) / revisions.count(1) < 0.07
            scores = set(session.scalars(select(Response.score_1)))
            assert scores == {1, 2, 3, 4, 5}
            earliest, latest = session.execute(
                select(func.min(Response.submitted_at), func.max(Response.submitted_at))
            ).one()
            assert earliest < latest
    with closing(open_database(url)) as database, database.reading() as session:
        first = session.scalars(select(Response).order_by(Response.id).limit(1)).one()
        assert first.submitted_at is not None
        assert first.served_at is not None
        spent = (first.submitted_at - first.served_at).total_seconds()
        assert spent == pytest.approx(first.active_seconds, abs=0.002)


def broken_references(database: Database) -> dict[str, int]:
    """How many rows of each column refer to a row that is not there."""
    broken = {}
    with database.engine.connect() as connection:
        for table in Base.metadata.sorted_tables:
            for column in table.columns:
                for key in column.foreign_keys:
                    other = key.column.table.alias()
                    missing = (
                        select(func.count())
                        .select_from(table.outerjoin(other, column == other.c[key.column.name]))
                        .where(column.is_not(None), other.c[key.column.name].is_(None))
                    )
                    if n := connection.scalar(missing):
                        broken[str(column)] = n
    return broken


def test_drawn_numbers_are_spread_evenly_in_both_databases(database: Database) -> None:
    with database.engine.connect() as connection:
        number = drawn_number("id", 3, "pair")
        of_keys = text(
            "with recursive keys (id) as"
            " (select 1 union all select id + 1 from keys where id < 2000)"
            f" select {number} from keys"
        )
        numbers = connection.scalars(of_keys).all()
        (last,) = connection.scalars(text(f"select {drawn_number('16000000', 3, 'pair')}"))
    assert all(0 <= each < 2**22 for each in (*numbers, last))
    for parts in (2, 5, 7, 20):
        counts = [sum(each % parts == place for each in numbers) for place in range(parts)]
        assert max(counts) < 1.4 * 2000 / parts
    assert len(set(numbers)) > 1900


@pytest.mark.slow
def test_what_is_timed(filled_sqlite: tuple[Path, list[Part]], tmp_path: Path) -> None:
    path, parts = filled_sqlite
    url = f"sqlite:///{shutil.copy(path, tmp_path)}"
    rows = measure_database(url, tmp_path, {part.name: part for part in parts})
    works = [row["work"] for row in rows]
    assert "watch, large study" in works
    cases = [{"database": "sqlite", "first_ms": row["ms"], "growth": 1.0, **row} for row in rows]
    table = markdown({"sizes": [N_ANSWERS], "load": 0.0, "cases": cases})
    assert "hsfiq db backup" in table
    assert len(parts_of(N_ANSWERS)) == 4


def test_both_ways_find_the_same(tmp_path: Path) -> None:
    url = participants.make_database(f"sqlite:///{tmp_path}/study.db", 150, seed=1)
    with closing(open_database(url)) as database, database.reading() as session:
        assert broken_references(database) == {}
        study = find_study(session, participants.STUDY)
        assert study is not None
        assert assert_counts(session, study).answered == 150 * participants.ANSWERS
    ours = participants.follow_in_blocks(url)
    assert ours == participants.keep_everything(url)
    assert "150" in str(participants.show_watch(url))


def test_people_of_a_varied_study_have_every_state(tmp_path: Path) -> None:
    url = participants.make_database(f"sqlite:///{tmp_path}/study.db", 150, seed=1)
    participants.vary(url)
    with closing(open_database(url)) as database:
        assert broken_references(database) == {}
        shown = participants.watch_page(database, participants.STUDY, "show=to+decide")
    for state in ("To decide", "Stopped", "Finished", "Left out", "Gave up", "Failed a check"):
        assert f">{state} <span>" in shown


def work_alone() -> None:
    participants.work_alone(*sys.argv[1:])


@pytest.mark.slow
def test_what_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def forked(work: str, url: str) -> Any:
        printed = tmp_path / f"{work}-{len([*tmp_path.iterdir()])}"
        process = Fork(work_alone, [work, url], printed, tmp_path / "errors")
        assert process.wait() == 0
        return json.loads(printed.read_text())

    monkeypatch.setattr(participants, "in_own_process", forked)
    result = participants.measure(seed=0, sizes=(50,), n_compared=40)
    assert result["equal"]
    assert [case["work"] for case in result["cases"]] == ["study status", "watch"]
    assert min(case["peak_mb"] for case in result["cases"]) > 0
    assert {"sqlite"} <= {case["database"] for case in result["pages"]}
    assert all(case["pages"].keys() == participants.PAGES.keys() for case in result["pages"])
