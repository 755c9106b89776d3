"""`hsfiq import release`: study -> release -> import -> release is the same release."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from sqlalchemy import select

from hsfiq.annotate.leaderboard import standings_of
from hsfiq.answer_rules import ImageStates
from hsfiq.collect.studies import list_studies
from hsfiq.db.engine import Database, open_database
from hsfiq.db.search_tables import SearchTurn, SearchUpload
from hsfiq.errors import NothingToDo
from hsfiq.releases.filters import Filters
from hsfiq.releases.restore import open_valid, restore
from hsfiq.study.config import Checks, Design, Questionnaire
from hsfiq.study.design import draw_study
from hsfiq.study.instrument import ExtraQuestion
from tests.databases import ReusedPostgres, migrated_sqlite
from tests.hsfiq.imported_answers import write_imported_answers
from tests.hsfiq.releases.random_searches import random_searches
from tests.hsfiq.releases.small_releases import small_release, small_study_at, write_release
from tests.hsfiq.samples import HPFIQ, hsfiq
from tests.studies import Seat, config, make_queries, pair_answer, set_status

KINDS = {"pair": "hp", "single": "single", "ranking": "ranking", "images": "images",
         "query": "query", "search": "search", "arena": "arena"}  # fmt: skip
ASKED = (
    ExtraQuestion("sure", "scale", "How sure are you?", ("not at all", "very")),
    ExtraQuestion("why", "choices", "What decided?", ("colour", "shape", "logo"), other=True),
    ExtraQuestion("seconds", "number", "How long did it feel?", min=0, max=60),
    ExtraQuestion("words", "text", "Anything else?"),
)


def new_database(folder: Path, name: str) -> Database:
    path = folder / name
    path.write_bytes(migrated_sqlite())
    return open_database(f"sqlite:///{path}")


def released_again(before: Path, database: Database, folder: Path, filters: Filters) -> Path:
    """Import a release, and export the study."""
    opened = open_valid(before)
    with database.writing() as session:
        restore(session, opened)
    with database.reading() as session:
        (study,) = list_studies(session)
        key = study.id
    return write_release(database, key, opened.kind.name, folder, filters=filters)


def require_same(before: Path, after: Path) -> None:
    """All files have the same bytes, and the manifest says only where the study comes from."""
    names = sorted(path.name for path in before.iterdir())
    assert sorted(path.name for path in after.iterdir()) == names
    for name in names:
        if name != "manifest.json":
            assert (before / name).read_bytes() == (after / name).read_bytes(), name
    first, second = (
        json.loads((folder / "manifest.json").read_text()) for folder in (before, after)
    )
    source = second.pop("imported_from")
    assert source == {name: first[name] for name in source}
    assert first == second


@pytest.mark.parametrize("question_kind", KINDS)
def test_every_kind_comes_back(question_kind: str, database: Database, tmp_path: Path) -> None:
    own, study = small_study_at(tmp_path / "own.db", question_kind)
    before = write_release(own, study, KINDS[question_kind], tmp_path / "before")
    own.close()
    require_same(before, released_again(before, database, tmp_path / "after", Filters()))


@pytest.mark.parametrize("kind", ["search", "arena"])
@settings(max_examples=4)
@given(data=st.data())
def test_random_searches_come_back(kind: str, data: st.DataObject) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        own = new_database(folder, "own.db")
        study = random_searches(own, kind, data)
        try:
            before = write_release(own, study, kind, folder / "before")
        except NothingToDo:  # nobody has begun a search
            reject()
        finally:
            own.close()
        target = new_database(folder, "other.db")
        after = released_again(before, target, folder / "after", Filters())
        target.close()
        require_same(before, after)


def rich_study(database: Database) -> int:
    """Of pairs with shuffled images, sums, repeated questions and extra questions; ties allowed."""
    queries = make_queries(database, {"shirt": 12, "dress": 12}, length=4, separate=True)
    design = Design(
        k=3, questions_per_form=3, forms_per_participant=2, annotators_per_query=2,
        image_order="shuffled", preference_ties=True, seed=3,
    )  # fmt: skip
    wanted = replace(
        config(design, checks=Checks(arithmetic=True, repeated=1)),
        questionnaire=Questionnaire(after_each=ASKED),
    )
    with database.writing() as session:
        return draw_study(session, wanted, queries).id


ANSWERS = st.fixed_dictionaries(
    {
        "score_1": st.integers(1, 5),
        "score_2": st.integers(1, 5),
        "preferred": st.integers(0, 2),
        "irrelevant": st.booleans(),
        "reason": st.none()
        | st.text(
            st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=3, max_size=9
        ),
    }
)
STATES = st.sampled_from(["unloaded", "loaded", "shown", "enlarged"])


def answer_at_random(data: st.DataObject, database: Database) -> int:
    """A study that two people have answered; its key."""
    study = rich_study(database)
    for _ in range(2):
        seat = Seat.taken(database, study)
        while (step := seat.standing().current) is not None:
            if step.check_id is not None:
                for _ in range(data.draw(st.integers(0, 2))):
                    seat.try_check(step.check_id, "wrong")
                seat.pass_check(step.check_id)
                continue
            states = [data.draw(STATES) for _ in range(7)]
            images = ImageStates(states[0], (tuple(states[1:4]), tuple(states[4:7])))
            extra = {"sure": data.draw(st.sampled_from([1, 2, None])), "why": [1, "price"],
                     "seconds": 2.5, "words": "fine"}  # fmt: skip
            answer = pair_answer(**data.draw(ANSWERS), images=images, extra=extra)
            seat.submit(step.question_id, answer)
    set_status(database, study, "closed")
    return study


def require_that_it_comes_back(
    data: st.DataObject, opened: Callable[[str], AbstractContextManager[Database]]
) -> None:
    """`opened` opens an empty database; its argument is a name."""
    filters = Filters(invalid=data.draw(st.booleans()), failed_checks=data.draw(st.booleans()))
    with TemporaryDirectory() as name:
        folder = Path(name)
        with opened("own") as own:
            study = answer_at_random(data, own)
            try:
                before = write_release(own, study, "hp", folder / "before", filters=filters)
            except NothingToDo:  # every question was dropped
                reject()
        with opened("other") as target:
            after = released_again(before, target, folder / "after", filters)
        require_same(before, after)


@settings(max_examples=6)
@given(data=st.data())
def test_random_answers_come_back(data: st.DataObject) -> None:
    with TemporaryDirectory() as name:

        def opened(database: str) -> closing[Database]:
            return closing(new_database(Path(name), f"{database}.db"))

        require_that_it_comes_back(data, opened)


@pytest.mark.postgres
@settings(max_examples=2)
@given(data=st.data())
def test_random_answers_come_back_in_postgresql(
    reused_postgres: ReusedPostgres, data: st.DataObject
) -> None:
    """The study, and the one that its release is imported as, are both in PostgreSQL."""

    @contextmanager
    def opened(_name: str) -> Iterator[Database]:
        try:
            yield Database(reused_postgres.engine)
        finally:
            reused_postgres.clean()

    require_that_it_comes_back(data, opened)


def test_an_imported_arena_is_finished_and_has_its_leaderboard(tmp_path: Path) -> None:
    own, study_of_arena = small_study_at(tmp_path / "own.db", "arena")
    other, studies = new_database(tmp_path, "other.db"), [study_of_arena]
    before = write_release(own, studies[0], "arena", tmp_path / "before")
    with other.writing() as session:
        restore(session, open_valid(before))
    with other.reading() as session:
        (study,) = list_studies(session)
        studies.append(study.id)
        assert set(session.scalars(select(SearchTurn.language))) == {None}
        assert session.scalars(select(SearchUpload)).all() == []
    first, second = map(standings_of, (own, other), studies)
    assert first.arena is not None
    assert str(first.arena) == str(second.arena)  # NaN is not NaN
    own.close()
    other.close()
    opened = hsfiq("study", "open", "--study", "arena", "--database",
                   f"sqlite:///{tmp_path / 'other.db'}")  # fmt: skip
    assert opened.code != 0
    assert "cannot take more" in opened.err


def test_the_published_file_comes_back_by_command(database: Database, tmp_path: Path) -> None:
    write_imported_answers(tmp_path / "own.db")
    url = f"sqlite:///{tmp_path / 'own.db'}"
    other = f"sqlite:///{tmp_path / 'other.db'}"
    before, after = tmp_path / "before", tmp_path / "after"
    assert hsfiq("export", "--database", url, "--release", "hp", "--out", before).code == 0
    imported = hsfiq("import", "release", before, "--database", other)
    assert imported.code == 0, imported.err
    assert hsfiq("export", "--database", other, "--release", "hp", "--out", after).code == 0
    require_same(before, after)
    assert (after / "hpfiq.json").read_bytes() == HPFIQ.read_bytes()
    again = hsfiq("import", "release", before, "--database", other, "--json")
    assert again.code == 0
    refused = hsfiq("import", "release", before, "--database", url)
    assert refused.code == 2
    assert "already exists with other answers" in refused.err


def test_broken_and_older_releases_are_refused(tmp_path: Path) -> None:
    query = small_release("query", tmp_path / "query")
    arena = small_release("arena", tmp_path / "arena")
    (query.folder / "queries.jsonl").unlink()
    url = f"sqlite:///{tmp_path / 'new.db'}"
    broken = hsfiq("import", "release", query.folder, "--database", url)
    assert (broken.code, "queries.jsonl: is missing" in broken.err) == (1, True)
    arena.json("manifest.json", lambda manifest: manifest.pop("retrievers"))
    refused = hsfiq("import", "release", arena.folder, "--database", url)
    assert (refused.code, "does not say what the retrievers were" in refused.err) == (2, True)
    assert not (tmp_path / "new.db").exists()
