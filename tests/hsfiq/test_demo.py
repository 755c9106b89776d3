"""The demo's studies: ready to serve, or answered by simulation, and the same by seed."""

from __future__ import annotations

import json
import socket
import stat
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import URL, func, make_url, select

from hsfiq.collect import participants
from hsfiq.collect.asked_questions import load_first_questions, load_question, shown_sets, steps_of
from hsfiq.collect.studies import find_study
from hsfiq.db.engine import Database, open_database
from hsfiq.db.schema import head_revision
from hsfiq.db.source_tables import Triplet
from hsfiq.db.sqlite import sqlite_url
from hsfiq.db.tables import Check, CheckAnswer, Form, Participant, Question, Response, Study
from hsfiq.demo.study import (
    DATABASE_FILE,
    IMAGE_FOLDER,
    NAME,
    database_url,
    make_answered_study,
    make_study,
    served_design,
)
from hsfiq.drawn import SYSTEMS, garment_of
from hsfiq.drawn.triplets import SPLITS, Split, target_split
from hsfiq.rehearsal import START
from hsfiq.releases.content import Release, build
from hsfiq.study.filters import Filters
from tests.hsfiq.samples import dump, hsfiq


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test here may use the network; PostgreSQL's driver opens its own sockets."""

    def refuse(*_: object) -> None:
        raise AssertionError("the demo reached for the network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


@pytest.fixture
def unseen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A small catalogue, whose pictures are not drawn."""
    monkeypatch.setattr("hsfiq.demo.study.GARMENTS_PER_CATEGORY", 40)
    monkeypatch.setattr("hsfiq.drawn.pictures.write_images", lambda *_: None)


def study_of(database: Database) -> Study:
    with database.reading() as session:
        study = find_study(session, NAME)
    assert study is not None
    return study


def count(database: Database, table: type) -> int:
    with database.reading() as session:
        return session.scalar(select(func.count()).select_from(table)) or 0


def release_of(database: Database, kind: str = "hp") -> Release:
    with database.reading() as session:
        study = find_study(session, NAME)
        assert study is not None
        return build(session, study, kind, Filters(), schema_revision=head_revision())  # type: ignore[arg-type]


@pytest.fixture(scope="session")
def answered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """Five hundred answers by simulated annotators, their pictures undrawn."""
    folder = tmp_path_factory.mktemp("answered")
    database = open_database(database_url(folder))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hsfiq.drawn.pictures.write_images", lambda *_: None)
        patch.setattr("hsfiq.demo.study.GARMENTS_PER_CATEGORY", 40)
        make_answered_study(database, folder, 500, 3)
    yield database
    database.close()


# --------------------------------------------------------------------------------- served studies


def test_the_served_study_has_open_places_and_images(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("hsfiq.demo.study.GARMENTS_PER_CATEGORY", 20)
    database = open_database(database_url(tmp_path))
    design = replace(served_design(4), questions_per_form=2)
    truth = make_study(database, tmp_path, design, 3, simulated=False)
    study = study_of(database)
    assert (study.status, study.origin, study.k) == ("open", "collected", 5)
    with database.writing() as session:
        participant = participants.enrol(session, study.id, now=START)
        question = load_question(session, steps_of(session, participant.id).steps[0].question_id)
        assert question.pair.query_id in truth
        images = [
            member.image
            for retrieved_set in shown_sets(question)
            for member in retrieved_set.images
        ]
        names = [image.name for image in (*images, question.pair.query.triplet.reference)]
    for name in names:
        (picture,) = (tmp_path / IMAGE_FOLDER).rglob(f"{name}.*")
        assert picture.stat().st_size > 500
    database.close()


ODD_NAMES = (
    *("q?x", "?mode=memory", "p%41x", "50%", "%3F", "a b", 'it\'s "it"', "ü#@:&+=;", "file:x"),
)
"""Names of folders; some have another meaning in a URL."""


def test_a_url_opens_the_file_it_was_made_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HSFIQ_DATABASE_URL", "sqlite:////elsewhere/other.db")
    assert database_url(tmp_path) == f"sqlite:///{tmp_path / 'hsfiq.db'}"
    for name in ODD_NAMES:
        file = tmp_path / name / DATABASE_FILE
        assert make_url(sqlite_url(file)) == URL.create("sqlite", database=str(file))


@pytest.mark.usefixtures("unseen")
def test_the_database_is_in_the_folder_for_any_folder_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    names = ("q?x", "p%41x", 'it\'s "it" ü')
    for name in names:
        command = hsfiq("demo", "--answers", "1", "--seed", "-4", "--dir", name)
        assert (command.code, command.err) == (0, "")
        url = command.out.partition(": 1 answer ")[0]
        assert "drawn" in hsfiq("study", "list", "--database", url).out
        assert (tmp_path / name / DATABASE_FILE).stat().st_size > 0
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o700
    assert {path.name for path in tmp_path.iterdir()} == set(names)


@pytest.mark.usefixtures("unseen")
def test_an_existing_study_keeps_its_size(tmp_path: Path) -> None:
    database = open_database(database_url(tmp_path))
    make_study(database, tmp_path, served_design(4), 3, simulated=False)
    database.close()
    before = dump(tmp_path / DATABASE_FILE)
    command = hsfiq("demo", "--dir", tmp_path, "--participants", "5")
    assert (command.code, command.out) == (2, "")
    assert command.err.startswith(
        f"hsfiq: --participants: the size of the study in {tmp_path} is already"
    )
    assert dump(tmp_path / DATABASE_FILE) == before


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--participants 5 --answers 3", "--participants: cannot be used with --answers"),
        ("--no-open", "--no-open: needs --full"),
        ("--answers 3 --split tset", "--split: no split is called 'tset'; name train, val, test"),
        ("--split test", "--split: the served study has split val; add --answers N"),
    ],
)
def test_incompatible_options_are_refused(tmp_path: Path, words: str, message: str) -> None:
    command = hsfiq("demo", "--dir", tmp_path / "demo", *words.split())
    assert (command.code, command.out) == (2, "")
    assert command.err.startswith(f"hsfiq: {message}")
    assert not (tmp_path / "demo").exists()


# ------------------------------------------------------------------------------- answered studies


@pytest.mark.parametrize("n_answers", [1, 50, 51])
@pytest.mark.usefixtures("unseen")
def test_the_number_of_answers_is_exact(tmp_path: Path, n_answers: int) -> None:
    with closing(open_database(database_url(tmp_path))) as database:
        make_answered_study(database, tmp_path, n_answers, seed=1)
        assert count(database, Response) == n_answers
        assert count(database, Participant) == -(-n_answers // 50)
        assert study_of(database).status == "closed"


def test_five_hundred_answers_come_from_ten_complete_participants(answered: Database) -> None:
    assert count(answered, Response) == 500
    assert count(answered, Participant) == 10
    with answered.reading() as session:
        sizes = session.execute(
            select(Form.participant_id, func.count())
            .join(Question.form)
            .join(Response, Response.question_id == Question.id)
            .group_by(Form.participant_id)
        )
        assert [number for _, number in sizes] == [50] * 10


@pytest.mark.usefixtures("unseen")
def test_a_seed_gives_the_same_rows_on_any_database(database: Database, tmp_path: Path) -> None:
    make_answered_study(database, tmp_path / "one", 60, seed=7)
    for seed in (7, 8):
        with closing(open_database(f"sqlite:///{tmp_path / f'{seed}.db'}")) as other:
            make_answered_study(other, tmp_path / f"other-{seed}", 60, seed=seed)
            for kind in ("hs", "hp"):
                first, second = release_of(database, kind), release_of(other, kind)
                assert (first.files == second.files) is (seed == 7)
                assert (first.content_sha256 == second.content_sha256) is (seed == 7)


def test_simulated_studies_are_marked(answered: Database) -> None:
    study = study_of(answered)
    assert study.origin == "simulated"
    assert "simulated annotators" in study.title
    files = release_of(answered).files
    assert json.loads(files["manifest.json"])["simulated"] is True
    assert "simulated" in files["README.md"].decode()


def test_the_annotators_side_bias_is_visible(answered: Database) -> None:
    """They favour set 1, as the published annotators do: 0.54 of their answers.

    Of 500 answers that share lies within 0.07 of it, three standard errors.
    """
    with answered.reading() as session:
        preferred = Counter(session.scalars(select(Response.preferred)))
    assert set(preferred) == {1, 2}
    assert 0.50 < preferred[1] / 500 < 0.61


@pytest.mark.parametrize("most", [0, 3, 25, 60])
def test_first_questions_are_those_that_are_loaded_one_by_one(
    answered: Database, most: int
) -> None:
    def shown(question: Question) -> tuple[int, list[list[str]]]:
        names = [[each.image.name for each in part.images] for part in shown_sets(question)]
        return question.pair.query_id, names

    with answered.reading() as session:
        participant = session.scalars(select(Participant).order_by(Participant.id)).first()
        assert participant is not None
        loaded = load_first_questions(session, participant.id, most)
        content = {key: shown(question) for key, question in loaded.items()}
    with answered.reading() as session:
        steps = steps_of(session, participant.id).steps
        keys = [step.question_id for step in steps if step.check_id is None][:most]
        assert content == {key: shown(load_question(session, key)) for key in keys}
        assert list(content) == keys


def test_better_systems_are_preferred(answered: Database) -> None:
    """The annotators know the quality of a system only through the catalogue's attributes."""
    wins: Counter[str] = Counter()
    n_shown: Counter[str] = Counter()
    with answered.reading() as session:
        for response in session.scalars(select(Response)):
            sets = shown_sets(session.get_one(Question, response.question_id))
            names = [each.system.name for each in sets if each.system is not None]
            assert len(set(names)) == 2
            n_shown.update(names)
            wins[names[(response.preferred or 0) - 1]] += 1
    assert set(n_shown) == {system.name for system in SYSTEMS}
    shares = [wins[name] / n_shown[name] for name in n_shown]
    assert min(shares) < 0.4
    assert max(shares) > 0.6
    assert max(n_shown.values()) - min(n_shown.values()) < 50


def test_simulated_answers_are_stored_like_those_of_people(answered: Database) -> None:
    with answered.reading() as session:
        checks = session.scalars(select(CheckAnswer)).all()
        asked = session.scalars(select(Check.id).join(Check.form).where(Form.position > 1)).all()
        rows = session.scalars(select(Response)).all()
    assert {answer.check_id for answer in checks} == set(asked)
    assert all(answer.passed for answer in checks)
    for row in rows:
        assert row.revision == 1
        times = [row.served_at, row.first_interaction_at, row.submitted_at]
        known = [time for time in times if time is not None]
        assert len(known) == 3
        assert START <= known[0] < known[1] < known[2]
        assert (row.active_seconds or 0) > 0
    assert 0 < sum(row.irrelevant for row in rows) < 150


# ----------------------------------------------------------------------------------------- splits


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.usefixtures("unseen")
def test_splits_do_not_share_targets(tmp_path: Path, split: Split) -> None:
    with closing(open_database(database_url(tmp_path))) as database:
        make_answered_study(database, tmp_path, 55, seed=2, split=split)
        with database.reading() as session:
            triplets = session.scalars(select(Triplet)).all()
            targets = {each.target.name for each in triplets if each.target is not None}
            assert {triplet.split for triplet in triplets} == {split}
            assert all(f".{split}." in triplet.external_id for triplet in triplets)
    assert {target_split(garment_of(target)) for target in targets} == {split}
    assert {garment_of(target).held_out for target in targets} == {split == "test"}


@pytest.mark.usefixtures("unseen")
def test_the_command_uses_held_out_combinations(tmp_path: Path) -> None:
    words = ("--answers", "3", "--seed", "2", "--split", "test", "--dir", tmp_path / "it")
    command = hsfiq("demo", *words)
    assert (command.code, command.err) == (0, "")
    with closing(open_database(database_url(tmp_path / "it"))) as database:
        with database.reading() as session:
            targets = [triplet.target for triplet in session.scalars(select(Triplet))]
            assert all(each is not None and garment_of(each.name).held_out for each in targets)
        assert count(database, Response) == 3
