"""`hsfiq study next`: pairs to choose from, the choice, the study, and releases around it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from random import Random
from threading import Barrier
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import select

from hsfiq.actors import OWNER
from hsfiq.collect.studies import list_studies
from hsfiq.db import engine as engine_module
from hsfiq.db.engine import Database, open_database
from hsfiq.db.source_tables import Dataset, Image, RankedList, System
from hsfiq.db.tables import Pair, RetrievedSet, Study
from hsfiq.errors import UnreadableInput
from hsfiq.next_study import (
    NOTHING,
    Candidate,
    Candidates,
    HeldOut,
    Wanted,
    after,
    balanced,
    candidates,
    pairs_asked,
    possibilities,
    store_study,
)
from tests.hsfiq.samples import hsfiq, on_sqlite
from tests.studies import SMALL, SYSTEMS, Seat, config, draw, make_queries

pytestmark = pytest.mark.usefixtures("database")


def study_of(database: Database, name: str) -> Study:
    with database.reading() as session:
        return session.scalars(select(Study).where(Study.name == name)).one()


def pairs_of(database: Database, name: str) -> list[tuple[str, tuple[str, str]]]:
    """(triplet, systems) of each pair of a study."""
    with database.reading() as session:
        rows = session.scalars(select(Pair).join(Study).where(Study.name == name)).all()
        return [
            (row.query.triplet.external_id, (name_of(row.first), name_of(row.second)))
            for row in rows
        ]


def name_of(retrieved_set: RetrievedSet) -> str:
    assert retrieved_set.system is not None
    return retrieved_set.system.name


CONFIG = '[study]\nname = "new"\ntitle = "And these?"\n'
DESIGN = "[design]\nk = 2\nquestions_per_form = 2\n"
QUERIES = '[queries]\ndataset = "small"\n'
RANDOM = ("study", "next", "--strategy", "random")


@pytest.fixture
def study_database(
    database: Database, database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Database:
    """A study of twelve queries, six of each category, open in the command's database."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HSFIQ_DATABASE_URL", database_url)
    draw(database, make_queries(database, {"shirt": 6, "dress": 6}, separate=True))
    return database


def n_studies(database: Database) -> int:
    with database.reading() as session:
        return len(session.scalars(select(Study)).all())


def split_release(database: Database, by: str, share: str, n_people: int = 1) -> Path:
    """Export the answers of so many people with a split."""
    for _ in range(n_people):
        Seat.taken(database, 1).answer_all()
    words = ("export", "--release", "hp", "--out", "hp", "--split", by, "--test-share", share)
    assert hsfiq(*words).code == 0
    return Path("hp")


def rows_of(release: Path, table: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(release / f"{table}.parquet").to_pylist()
    return rows


def test_all_pairs_except_those_shown_and_those_held_out(database: Database) -> None:
    queries = make_queries(database, {"shirt": 4})
    draw(database, queries)
    shown_pairs = {(name, frozenset(systems)) for name, systems in pairs_of(database, "small")}
    with database.reading() as session:
        available = candidates(
            session, queries, k=2, systems=(), held_out=held_out_triplet("shirt", 2)
        )
        names = {key: f"shirt.val.{place}" for place, key in enumerate(queries)}
        possible = {
            (
                names[candidate.query_id],
                frozenset(available.systems[system] for system in candidate.systems),
            )
            for candidate in available.pairs
        }
    all_pairs = {
        (f"shirt.val.{number}", frozenset(systems))
        for number in range(4)
        for systems in combinations(SYSTEMS, 2)
        if number != 2
    }
    assert possible == all_pairs - shown_pairs
    assert (available.n_asked, available.n_held_out) == (3, 1)


def test_a_study_of_the_candidates_shows_their_sets(database: Database) -> None:
    queries = make_queries(database, {"shirt": 2})
    next_study = Wanted(config(), "collected")
    with database.reading() as session:
        available = candidates(session, queries, k=2, systems=SYSTEMS[:2], held_out=NOTHING)
    store_study(
        database, next_study, available.pairs, available.sets, {}, actor=OWNER, status="open"
    )
    with database.reading() as session:
        sets_of_study = [
            (pair.query.triplet.reference.name, tuple(row.image.name for row in side.images))
            for pair in session.scalars(select(Pair).order_by(Pair.id))
            for side in (pair.first, pair.second)
        ]
    possible = [available.sets[place] for candidate in available.pairs for place in candidate.sets]
    assert sets_of_study == [
        (candidate_set.reference, candidate_set.images) for candidate_set in possible
    ]


def held_out_triplet(category: str, number: int) -> HeldOut:
    """A triplet that a release holds out."""
    images = (f"image-{number % 8}", f"image-{(number + 1) % 8}")
    return HeldOut(frozenset({"small"}), frozenset({("small", *images)}))


def test_pairs_shown_in_any_study_are_excluded(database: Database) -> None:
    queries = make_queries(database, {"shirt": 3})
    draw(database, queries)
    draw(database, queries, name="other", design=replace(SMALL, seed=9))
    with database.reading() as session:
        pairs = pairs_asked(session)
        expected = {
            (
                pair.query_id,
                frozenset(
                    tuple(member.image.name for member in side.images)
                    for side in (pair.first, pair.second)
                ),
            )
            for pair in session.scalars(select(Pair))
        }
    assert pairs == expected


def test_sets_without_a_system_count_as_shown(database: Database) -> None:
    """The published answers do not say which systems they compare."""
    queries = make_queries(database, {"shirt": 4})
    draw(database, queries)
    with database.writing() as session:
        for retrieved_set in session.scalars(select(RetrievedSet)):
            retrieved_set.system_id = None
    with database.reading() as session:
        available = candidates(session, queries, k=2, systems=())
    assert (len(available.pairs), available.n_asked) == (8, 4)


# ----------------------------------------------------------------------------------------- balance


def made_pairs(shape: Sequence[tuple[int, int]]) -> list[Candidate]:
    """Candidate pairs of triplets; `shape` has the category and number of systems of each."""
    return [
        Candidate(triplet, triplet, f"category-{category}", pair, (0, 0))
        for triplet, (category, systems) in enumerate(shape)
        for pair in combinations(range(systems), 2)
    ]


@given(
    shape=st.lists(st.tuples(st.integers(0, 2), st.integers(2, 4)), min_size=1, max_size=30),
    share=st.floats(0.1, 1),
    seed=st.integers(0, 99),
)
def test_each_triplet_is_chosen_at_most_once(
    shape: list[tuple[int, int]], share: float, seed: int
) -> None:
    pairs, n = made_pairs(shape), max(1, int(share * len(shape)))
    rng = Random(seed)
    places = balanced(pairs, n, rng.choice, rng)
    triplets = [pairs[place].triplet_id for place in places]
    assert len(triplets) == len(set(triplets)) == n


@pytest.mark.parametrize("seed", range(5))
def test_the_choice_is_balanced_over_categories_and_systems(seed: int) -> None:
    """Also of few pairs, over systems within each category."""
    pairs = made_pairs([(category, 4) for category in range(3) for _ in range(40)])
    favourite = lambda places: max(places, key=lambda place: pairs[place].systems == (0, 1))  # noqa: E731
    rng = Random(seed)
    for pick in (favourite, rng.choice, min):
        chosen = [pairs[place] for place in balanced(pairs, 36, pick, Random(seed))]
        cells = Counter((pair.category, pair.systems) for pair in chosen)
        assert list(cells.values()) == [2] * 18
        assert set(Counter(pair.category for pair in chosen).values()) == {12}
        assert set(Counter(pair.systems for pair in chosen).values()) == {6}
    few = [pairs[place] for place in balanced(pairs, 12, rng.choice, rng)]
    assert set(Counter(pair.category for pair in few).values()) == {4}
    assert set(Counter((pair.category, pair.systems) for pair in few).values()) == {1}
    of_systems = Counter(pair.systems for pair in few).values()
    assert (len(of_systems), max(of_systems) - min(of_systems) <= 2) == (6, True)
    with pytest.raises(UnreadableInput, match="3 pairs are requested, but only 2 triplets"):
        balanced(made_pairs([(0, 4), (0, 4)]), 3, min, rng)


def test_a_random_study_has_the_design_of_its_predecessor(study_database: Database) -> None:
    before = pairs_of(study_database, "small")
    result = hsfiq(*RANDOM, "--n", "6", "--json").result
    assert (result["study"], result["status"], result["questions"]) == ("small-2", "open", 6)
    assert result["categories"] == {"dress": 3, "shirt": 3}
    assert result["systems"] == {"alpha": 4, "beta": 4, "gamma": 4}
    assert (result["expected_information"], result["asked_before"]) == (None, 12)
    every = before + pairs_of(study_database, "small-2")
    assert len({(name, frozenset(systems)) for name, systems in every}) == 18
    old, new = study_of(study_database, "small"), study_of(study_database, "small-2")
    assert new.design.pop("chosen_by") == {"strategy": "random", "seed": 0}
    assert new.design.pop("opened_at") is not None
    assert new.design.pop("study") == old.design.pop("study") | {"name": "small-2"}
    assert new.design["queries"].pop("systems") == list(SYSTEMS)
    assert old.design["queries"].pop("systems") == []
    assert new.design == old.design
    assert (new.title, new.guidelines, new.k) == (old.title, old.guidelines, old.k)


def test_the_seed_makes_the_choice(study_database: Database) -> None:
    words = (*RANDOM, "--study", "small", "--n", "4")
    for name, seed in (("one", 1), ("two", 2)):
        assert hsfiq(*words, "--name", name, "--seed", str(seed), "--draft").code == 0
    assert pairs_of(study_database, "one") != pairs_of(study_database, "two")
    assert study_of(study_database, "one").status == "draft"
    third = hsfiq(*words)
    assert third.out.startswith("study small-2: 4 questions about 4 of 16 possible pairs")


@on_sqlite
def test_the_study_may_be_configured_in_a_file(study_database: Database) -> None:
    config = Path("new.toml")
    config.write_text(f'{CONFIG}{DESIGN}{QUERIES}categories = ["dress"]\n', encoding="utf-8")
    command = hsfiq(*RANDOM, config, "--n", "3", "--json")
    assert (command.code, command.result["categories"]) == (0, {"dress": 3})
    new = study_of(study_database, "new")
    assert (new.title, new.origin) == ("And these?", "collected")
    assert hsfiq(*RANDOM, config, "--n", "2", "--name", "more", "--simulated").code == 0
    assert study_of(study_database, "more").origin == "simulated"
    repeated = hsfiq(*RANDOM, config, "--n", "3")
    assert (repeated.code, "new.toml: line 2: study.name: a study called" in repeated.err) == (
        2,
        True,
    )
    # It cannot ask for more participants than there are forms.
    many = f"{CONFIG}{DESIGN}{QUERIES}[recruitment]\nparticipants = 3\n".replace('"new"', '"many"')
    config.write_text(many, encoding="utf-8")
    command = hsfiq(*RANDOM, config, "--n", "4")
    assert (command.code, command.out) == (2, "")
    assert "new.toml: line 10: recruitment.participants: 3 participants" in command.err
    assert n_studies(study_database) == 3


@pytest.mark.parametrize(("n", "participants"), [(4, 2), (12, 3)])
def test_the_predecessors_cap_is_no_more_than_the_new_forms_allow(
    study_database: Database, n: int, participants: int
) -> None:
    """The new study has the same kind of annotators, too."""
    with study_database.writing() as session:
        study = session.scalars(select(Study)).one()
        recruitment = study.design["recruitment"] | {"participants": 3}
        study.design, study.origin = study.design | {"recruitment": recruitment}, "simulated"
    assert hsfiq(*RANDOM, "--n", str(n)).code == 0
    new = study_of(study_database, "small-2")
    assert new.design["recruitment"]["participants"] == participants
    assert new.origin == "simulated"


@on_sqlite
@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--n 2", "hsfiq: --checkpoint: is missing; name one, or use --strategy random\n"),
        ("--n 2 --strategy best", "'best' is not one of 'information', 'random'"),
        ("--n 99 --strategy random", "--n: 99 pairs are requested, but only 12"),
        ("--n 2 --strategy random --name a;b", "--name: 'a;b' cannot be the name"),
        ("--n 2 --strategy random --name small", "a study called 'small' already"),
        ("--n 2 --strategy random --release nowhere", "no such folder"),
        ("--n 2 --strategy random --study x", "no study is called 'x'"),
        ("nowhere.toml --n 2 --strategy random", "nowhere.toml"),
        ("new.toml --n 2 --strategy random --study small", "--study: cannot"),
        ("new.toml --n 2 --strategy random", "line 6: queries.sample: cannot"),
        ("--n 2 --strategy random --simulated", "--simulated: can only"),
    ],
)
def test_invalid_options_change_nothing(study_database: Database, words: str, message: str) -> None:
    Path("new.toml").write_text(f"{CONFIG}{QUERIES}sample = 2\n", encoding="utf-8")
    before = pairs_of(study_database, "small")
    command = hsfiq("study", "next", *words.split())
    assert (command.code, command.out) == (2, "")
    assert message in command.err
    assert len(command.err.splitlines()) == 1
    assert n_studies(study_database) == 1
    assert pairs_of(study_database, "small") == before


@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
def test_a_database_that_may_only_be_read(study_database: Database, database_url: str) -> None:
    read_only = f"{database_url}?options=-c%20default_transaction_read_only%3Don"
    command = hsfiq(*RANDOM, "--n", "2", "--database", read_only)
    assert (command.code, command.out) == (2, "")
    assert "the database cannot be used (cannot execute" in command.err
    assert len(command.err.splitlines()) == 1


@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
def test_two_concurrent_commands_choose_different_pairs(
    study_database: Database, database_url: str
) -> None:
    """Both choose before either stores: the second fails, and no pair is asked twice."""

    def ask(name: str) -> int:
        with closing(open_database(database_url)) as database:
            chosen = chosen_for(database, name)
            both_have_chosen.wait(timeout=30)
            try:
                chosen.store(database)
            except UnreadableInput:
                return 0
            return 1

    both_have_chosen = Barrier(2)
    with ThreadPoolExecutor(2) as pool:
        assert sum(pool.map(ask, ("one", "two"))) == 1


@dataclass(frozen=True)
class Chosen:
    """A study of one pair, which has been chosen and is not stored yet."""

    wanted: Wanted
    candidates: Candidates

    def store(self, database: Database, name: str | None = None) -> None:
        wanted = Wanted(config(name=name), self.wanted.origin) if name else self.wanted
        pairs, sets = self.candidates.pairs[:1], self.candidates.sets
        store_study(database, wanted, pairs, sets, {}, actor=OWNER, status="open")


def chosen_for(database: Database, name: str) -> Chosen:
    with database.reading() as session:
        wanted = after(session, session.scalars(select(Study)).one(), name)
        return Chosen(wanted, possibilities(session, wanted, NOTHING).candidates)


def test_an_imported_study_has_no_design_to_continue(study_database: Database) -> None:
    with study_database.writing() as session:
        study = session.scalars(select(Study)).one()
        study.origin, study.design = "imported", {}
    command = hsfiq(*RANDOM, "--n", "2")
    assert (command.code, "name a CONFIG.toml" in command.err) == (2, True)


def test_another_study_created_meanwhile(database: Database) -> None:
    draw(database, make_queries(database, {"shirt": 4}))
    chosen = chosen_for(database, "mine")
    chosen.store(database, "theirs")
    with pytest.raises(UnreadableInput, match="another study has used one of its pairs"):
        chosen.store(database)
    with database.reading() as session:
        assert {study.name for study in session.scalars(select(Study))} == {"small", "theirs"}


def test_the_study_is_stored_in_short_transactions(
    database: Database, other: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others write in between; a study of the same pair that appears then makes it end."""
    draw(database, make_queries(database, {"shirt": 4}))
    chosen, seen = chosen_for(database, "mine"), list[set[str]]()

    def store_theirs() -> None:
        seen.append(names())
        if len(seen) == 2:
            chosen.store(other, "theirs")

    def names() -> set[str]:
        with database.reading() as session:
            return {study.name for study in list_studies(session)}

    monkeypatch.setattr(engine_module, "PART_SECONDS", 0.0)
    monkeypatch.setattr(engine_module, "sleep", lambda _seconds: store_theirs())
    with pytest.raises(UnreadableInput, match="another study has used one of its pairs"):
        chosen.store(database)
    assert names() == {"small", "theirs"}
    assert seen[:2] == [{"small"}, {"small"}]
    assert n_studies(database) == 2


def test_a_release_says_how_its_pairs_were_chosen(study_database: Database) -> None:
    assert hsfiq(*RANDOM, "--n", "4", "--seed", "3").code == 0
    Seat.taken(study_database, study_of(study_database, "small-2").id).answer_all()
    assert hsfiq("export", "--study", "small-2", "--release", "hp", "--out", "hp").code == 0
    manifest = json.loads(Path("hp/manifest.json").read_text())
    assert manifest["chosen_by"] == {"strategy": "random", "seed": 3}
    card = Path("hp/README.md").read_text()
    assert "## How the pairs were chosen" in card
    assert "no random sample" not in card


@on_sqlite
def test_triplets_held_out_by_a_release_are_not_chosen(study_database: Database) -> None:
    release = split_release(study_database, "triplet", "0.5", n_people=2)
    parts = {row["question_id"]: row["part"] for row in rows_of(release, "splits")}
    held_out = {
        row["query_id"]
        for row in rows_of(release, "preferences")
        if parts[row["question_id"]] == "test"
    }
    assert held_out
    words = ("--study", "small", "--n", str(12 - len(held_out)), "--release", release, "--json")
    command = hsfiq(*RANDOM, *words)
    assert (command.code, command.result["held_out_triplets"]) == (0, len(held_out))
    assert {name for name, _ in pairs_of(study_database, "small-2")}.isdisjoint(held_out)


@on_sqlite
def test_a_split_by_participant_holds_out_no_triplet(study_database: Database) -> None:
    release = split_release(study_database, "participant", "0.4", n_people=3)
    command = hsfiq(*RANDOM, "--n", "2", "--release", release)
    assert (command.code, "leave --release out" in command.err) == (2, True)


@on_sqlite
def test_with_split_by_both_no_held_out_triplet_is_chosen(study_database: Database) -> None:
    """Including triplets that only participants in the training part have judged."""
    release = split_release(study_database, "both", "0.5", n_people=3)
    rows = rows_of(release, "splits")
    n_train = sum(row["part"] == "train" for row in rows)
    split = json.loads((release / "manifest.json").read_text())["split"]
    command = hsfiq(*RANDOM, "--release", release, "--n", str(n_train), "--json")
    assert command.code == 0
    assert command.result["held_out_triplets"] == len(rows) - n_train >= split["held_out_triplets"]


@on_sqlite
def test_releases_of_another_dataset_and_that_leak_are_refused(study_database: Database) -> None:
    release = split_release(study_database, "triplet", "0.5")
    path = release / "splits.parquet"
    whole = path.read_bytes()
    kept = rows_of(release, "splits")[1:]
    pq.write_table(pa.Table.from_pylist(kept, schema=pq.read_schema(path)), path)
    command = hsfiq(*RANDOM, "--n", "2", "--release", release)
    assert (command.code, "splits.parquet" in command.err) == (2, True)
    path.write_bytes(whole)
    with study_database.writing() as session:
        session.scalars(select(Dataset)).one().name = "renamed"
        study = session.scalars(select(Study)).one()
        study.design = study.design | {"queries": study.design["queries"] | {"dataset": "renamed"}}
    command = hsfiq(*RANDOM, "--n", "2", "--release", release)
    assert (command.code, "--release: asks about small, not renamed" in command.err) == (2, True)


@on_sqlite
def test_runs_imported_later_are_not_compared(study_database: Database) -> None:
    with study_database.writing() as session:
        system = System(name="delta")
        session.add(system)
        session.flush()
        query = session.scalars(select(Pair.query_id)).first()
        images = session.scalars(select(Image.id)).all()[:3]
        session.add(RankedList(system_id=system.id, query_id=query, image_ids=list(images)))
    command = hsfiq(*RANDOM, "--n", "12", "--json")
    assert command.code == 0
    assert set(command.result["systems"]) == set(SYSTEMS)
