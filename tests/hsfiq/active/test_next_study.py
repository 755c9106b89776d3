"""`hsfiq study next`: the study that it creates."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Barrier

import pytest
from sqlalchemy import select

from hsfiq.actors import OWNER
from hsfiq.collect.studies import list_studies
from hsfiq.db import engine as engine_module
from hsfiq.db.engine import Database, open_database
from hsfiq.db.tables import Study
from hsfiq.errors import UnreadableInput
from hsfiq.next_study import NOTHING, Wanted, after, possibilities, store_study
from tests.hsfiq.active.chosen_pairs import pairs_of, study_of
from tests.hsfiq.samples import hsfiq, on_sqlite
from tests.studies import SYSTEMS, config, draw, make_queries

pytestmark = pytest.mark.usefixtures("database")


def test_a_random_study_has_the_design_of_its_predecessor(study_database: Database) -> None:
    before = pairs_of(study_database, "small")
    command = hsfiq("study", "next", "--n", "6", "--strategy", "random", "--json")
    assert command.code == 0
    result = command.result
    assert (result["study"], result["status"], result["questions"]) == ("small-2", "open", 6)
    assert result["categories"] == {"dress": 3, "shirt": 3}
    assert result["systems"] == {"alpha": 4, "beta": 4, "gamma": 4}
    assert result["expected_information"] is None
    assert result["asked_before"] == 12
    fresh = pairs_of(study_database, "small-2")
    all_pairs = [(name, frozenset(systems)) for name, systems in before + fresh]
    assert len(set(all_pairs)) == 18
    old, new = study_of(study_database, "small"), study_of(study_database, "small-2")
    assert new.design.pop("chosen_by") == {"strategy": "random", "seed": 0}
    assert new.design.pop("study") == old.design.pop("study") | {"name": "small-2"}
    assert new.design["queries"].pop("systems") == list(SYSTEMS)
    assert old.design["queries"].pop("systems") == []
    assert new.design == old.design
    assert (new.title, new.guidelines, new.k) == (old.title, old.guidelines, old.k)


def test_the_seed_makes_the_choice(study_database: Database) -> None:
    words = ("study", "next", "--study", "small", "--n", "4", "--strategy", "random")
    for name, seed in (("one", 1), ("two", 2)):
        assert hsfiq(*words, "--name", name, "--seed", str(seed), "--draft").code == 0
    assert pairs_of(study_database, "one") != pairs_of(study_database, "two")
    assert study_of(study_database, "one").status == "draft"
    third = hsfiq(*words)
    assert third.out.startswith("study small-2: 4 questions about 4 of 16 possible pairs")


@on_sqlite
def test_the_study_may_be_configured_in_a_file(study_database: Database) -> None:
    Path("new.toml").write_text(
        '[study]\nname = "new"\ntitle = "And these?"\n'
        "[design]\nk = 2\nquestions_per_form = 2\n"
        '[queries]\ndataset = "small"\ncategories = ["dress"]\n',
        encoding="utf-8",
    )
    command = hsfiq("study", "next", "new.toml", "--n", "3", "--strategy", "random", "--json")
    assert command.code == 0
    assert command.result["categories"] == {"dress": 3}
    assert study_of(study_database, "new").title == "And these?"
    assert study_of(study_database, "new").origin == "collected"
    simulated = hsfiq(
        "study", "next", "new.toml", "--n", "2", "--strategy", "random", "--name", "more",
        "--simulated",
    )  # fmt: skip
    assert simulated.code == 0
    assert study_of(study_database, "more").origin == "simulated"
    repeated = hsfiq("study", "next", "new.toml", "--n", "3", "--strategy", "random")
    assert repeated.code == 2
    assert repeated.err.startswith("hsfiq: new.toml: line 2: study.name: a study called 'new'")


def test_a_file_cannot_ask_for_more_participants_than_there_are_forms(
    study_database: Database,
) -> None:
    Path("new.toml").write_text(
        '[study]\nname = "new"\ntitle = "And these?"\n'
        "[design]\nk = 2\nquestions_per_form = 2\n"
        '[queries]\ndataset = "small"\n[recruitment]\nparticipants = 3\n',
        encoding="utf-8",
    )
    command = hsfiq("study", "next", "new.toml", "--n", "4", "--strategy", "random")
    assert (command.code, command.out) == (2, "")
    assert command.err.startswith(
        "hsfiq: new.toml: line 10: recruitment.participants: 3 participants, but there are "
        "questions for 2; "
    )
    with study_database.reading() as session:
        assert len(session.scalars(select(Study)).all()) == 1


@pytest.mark.parametrize(("n", "participants"), [(4, 2), (12, 3)])
def test_the_predecessors_cap_is_no_more_than_the_new_forms_allow(
    study_database: Database, n: int, participants: int
) -> None:
    with study_database.writing() as session:
        study = session.scalars(select(Study)).one()
        recruitment = study.design["recruitment"] | {"participants": 3}
        study.design = study.design | {"recruitment": recruitment}
    assert hsfiq("study", "next", "--n", str(n), "--strategy", "random").code == 0
    new = study_of(study_database, "small-2")
    assert new.design["recruitment"]["participants"] == participants


def test_the_new_study_has_the_same_kind_of_annotators(study_database: Database) -> None:
    with study_database.writing() as session:
        session.scalars(select(Study)).one().origin = "simulated"
    assert hsfiq("study", "next", "--n", "2", "--strategy", "random").code == 0
    assert study_of(study_database, "small-2").origin == "simulated"


@on_sqlite
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--n", "2"), "hsfiq: --scorer: is missing; name one, or use --strategy random\n"),
        (("--n", "2", "--strategy", "best"), "'best' is unknown; name one of information, random"),
        (
            ("--n", "99", "--strategy", "random"),
            "--n: 99 pairs are requested, but only 12",
        ),
        (("--n", "2", "--strategy", "random", "--name", "a b"), "--name: 'a b' cannot be the name"),
        (("--n", "2", "--strategy", "random", "--name", "small"), "a study called 'small' already"),
        (("--n", "2", "--strategy", "random", "--release", "nowhere"), "no such folder"),
        (("--n", "2", "--strategy", "random", "--study", "x"), "no study is called 'x'"),
        (("nowhere.toml", "--n", "2", "--strategy", "random"), "nowhere.toml"),
        (("new.toml", "--n", "2", "--strategy", "random", "--study", "small"), "--study: cannot"),
        (("new.toml", "--n", "2", "--strategy", "random"), "line 6: queries.sample: cannot"),
        (("--n", "2", "--strategy", "random", "--simulated"), "--simulated: can only"),
    ],
)
def test_invalid_options_change_nothing(
    study_database: Database, words: tuple[str, ...], message: str
) -> None:
    Path("new.toml").write_text(
        '[study]\nname = "new"\ntitle = "And these?"\n[queries]\ndataset = "small"\nsample = 2\n',
        encoding="utf-8",
    )
    before = pairs_of(study_database, "small")
    command = hsfiq("study", "next", *words)
    assert (command.code, command.out) == (2, "")
    assert message in command.err
    assert len(command.err.splitlines()) == 1
    with study_database.reading() as session:
        assert len(session.scalars(select(Study)).all()) == 1
    assert pairs_of(study_database, "small") == before


@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
def test_a_database_that_may_only_be_read(study_database: Database, database_url: str) -> None:
    read_only = f"{database_url}?options=-c%20default_transaction_read_only%3Don"
    words = ("--n", "2", "--strategy", "random", "--database", read_only)
    command = hsfiq("study", "next", *words)
    assert (command.code, command.out) == (2, "")
    assert "the database cannot be used (cannot execute" in command.err
    assert len(command.err.splitlines()) == 1


@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
def test_two_concurrent_commands_choose_different_pairs(
    study_database: Database, database_url: str
) -> None:
    """Both choose before either stores: the second fails, and no pair is asked twice."""

    def ask(name: str) -> int:
        with database_of(database_url) as database:
            with database.reading() as session:
                next_study = after(session, session.scalars(select(Study)).one(), name)
                available = possibilities(session, next_study, NOTHING).candidates
            both_have_chosen.wait(timeout=30)
            try:
                store_study(
                    database,
                    next_study,
                    available.pairs[:1],
                    available.sets,
                    {},
                    actor=OWNER,
                    status="open",
                )
            except UnreadableInput:
                return 0
            return 1

    both_have_chosen = Barrier(2)
    with ThreadPoolExecutor(2) as pool:
        assert sum(pool.map(ask, ("one", "two"))) == 1


@contextmanager
def database_of(url: str) -> Iterator[Database]:
    database = open_database(url)
    try:
        yield database
    finally:
        database.close()


def test_an_imported_study_has_no_design_to_continue(study_database: Database) -> None:
    with study_database.writing() as session:
        study = session.scalars(select(Study)).one()
        study.origin, study.design = "imported", {}
    command = hsfiq("study", "next", "--n", "2", "--strategy", "random")
    assert command.code == 2
    assert "was imported and has no design; name a CONFIG.toml" in command.err


def test_another_study_created_meanwhile(database: Database) -> None:
    draw(database, make_queries(database, {"shirt": 4}))
    with database.reading() as session:
        next_study = after(session, session.scalars(select(Study)).one(), "mine")
        available = possibilities(session, next_study, NOTHING).candidates
    chosen = available.pairs[:1]
    theirs = replace_name(next_study, "theirs")
    store_study(database, theirs, chosen, available.sets, {}, actor=OWNER, status="open")
    with pytest.raises(UnreadableInput, match="another study has shown one of its pairs"):
        store_study(database, next_study, chosen, available.sets, {}, actor=OWNER, status="open")
    with database.reading() as session:
        assert {study.name for study in session.scalars(select(Study))} == {"small", "theirs"}


def replace_name(next_study: Wanted, name: str) -> Wanted:
    return Wanted(config(name=name), next_study.origin)


def test_the_study_is_stored_in_short_transactions(
    database: Database, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others write in between; a study of the same pair that appears then makes it end."""
    draw(database, make_queries(database, {"shirt": 4}))
    with database.reading() as session:
        next_study = after(session, session.scalars(select(Study)).one(), "mine")
        available = possibilities(session, next_study, NOTHING).candidates
    chosen = available.pairs[:1]
    seen: list[set[str]] = []

    def store_theirs() -> None:
        seen.append(names())
        if len(seen) == 2:
            with database_of(database_url) as other:
                theirs = replace_name(next_study, "theirs")
                store_study(other, theirs, chosen, available.sets, {}, actor=OWNER, status="open")

    def names() -> set[str]:
        with database.reading() as session:
            return {study.name for study in list_studies(session)}

    monkeypatch.setattr(engine_module, "PART_SECONDS", 0.0)
    monkeypatch.setattr(engine_module, "sleep", lambda _seconds: store_theirs())
    with pytest.raises(UnreadableInput, match="another study has shown one of its pairs"):
        store_study(database, next_study, chosen, available.sets, {}, actor=OWNER, status="open")
    assert names() == {"small", "theirs"}
    assert seen[:2] == [{"small"}, {"small"}]
    with database.reading() as session:
        assert len(session.scalars(select(Study)).all()) == 2
