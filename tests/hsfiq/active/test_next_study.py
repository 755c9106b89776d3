"""The next study: what it could ask, how evenly it asks, and what its releases say of that."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from random import Random
from threading import Barrier

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import select

from hsfiq.active.candidates import NOTHING, Candidate, HeldOut, candidates, pairs_asked
from hsfiq.active.next_study import Wanted, after, possibilities, store_study
from hsfiq.active.stratify import balanced
from hsfiq.db.engine import Database, open_database
from hsfiq.db.tables import Dataset, Image, Pair, RankedList, RetrievedSet, Study, System
from hsfiq.errors import UnreadableInput
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


def name_of(shown: RetrievedSet) -> str:
    assert shown.system is not None
    return shown.system.name


# -------------------------------------------------------------------------------------- candidates


def test_all_pairs_except_those_shown_and_those_held_out(database: Database) -> None:
    queries = make_queries(database, {"shirt": 4})
    draw(database, queries)
    asked = {(name, frozenset(systems)) for name, systems in pairs_of(database, "small")}
    with database.reading() as session:
        found = candidates(session, queries, k=2, systems=(), held_out=held("shirt", 2))
        names = {key: f"shirt.val.{place}" for place, key in enumerate(queries)}
        possible = {
            (names[it.query_id], frozenset(found.systems[system] for system in it.systems))
            for it in found.pairs
        }
    everything = {
        (f"shirt.val.{number}", frozenset(systems))
        for number in range(4)
        for systems in combinations(SYSTEMS, 2)
        if number != 2
    }
    assert possible == everything - asked
    assert (found.n_asked, found.n_held_out) == (3, 1)


def test_a_study_of_the_candidates_shows_their_sets(database: Database) -> None:
    queries = make_queries(database, {"shirt": 2})
    wanted = Wanted(config(), "collected")
    with database.reading() as session:
        found = candidates(session, queries, k=2, systems=SYSTEMS[:2], held_out=NOTHING)
    store_study(database, wanted, found.pairs, found.sets, {}, status="open")
    with database.reading() as session:
        shown = [
            (pair.query.triplet.reference.name, tuple(row.image.name for row in side.images))
            for pair in session.scalars(select(Pair).order_by(Pair.id))
            for side in (pair.first, pair.second)
        ]
    possible = [found.sets[place] for it in found.pairs for place in it.sets]
    assert shown == [(it.reference, it.images) for it in possible]


def held(category: str, number: int) -> HeldOut:
    """A triplet that a release holds out."""
    images = (f"image-{number % 8}", f"image-{(number + 1) % 8}")
    return HeldOut(frozenset({"small"}), frozenset({("small", *images)}))


def test_pairs_shown_in_any_study_are_excluded(database: Database) -> None:
    queries = make_queries(database, {"shirt": 3})
    draw(database, queries)
    draw(database, queries, name="other", design=replace(SMALL, seed=9))
    with database.reading() as session:
        asked = pairs_asked(session)
        expected = {
            (
                pair.query_id,
                frozenset(
                    tuple(shown.image.name for shown in side.images)
                    for side in (pair.first, pair.second)
                ),
            )
            for pair in session.scalars(select(Pair))
        }
    assert asked == expected


def test_sets_of_no_known_system_were_shown_too(database: Database) -> None:
    """As the published answers are imported: nobody knows which systems they compare."""
    queries = make_queries(database, {"shirt": 4})
    draw(database, queries)
    with database.writing() as session:
        for shown in session.scalars(select(RetrievedSet)):
            shown.system_id = None
    with database.reading() as session:
        found = candidates(session, queries, k=2, systems=())
    assert (len(found.pairs), found.n_asked) == (8, 4)


# ----------------------------------------------------------------------------------------- balance


def made_pairs(shape: Sequence[tuple[int, int]]) -> list[Candidate]:
    """For each triplet its category and how many systems have a list for it."""
    return [
        Candidate(triplet, triplet, f"category-{category}", pair, (0, 0))
        for triplet, (category, systems) in enumerate(shape)
        for pair in combinations(range(systems), 2)
    ]


@settings(deadline=None)
@given(
    shape=st.lists(st.tuples(st.integers(0, 2), st.integers(2, 4)), min_size=1, max_size=30),
    share=st.floats(0.1, 1),
    seed=st.integers(0, 99),
)
def test_no_triplet_twice_and_any_number_up_to_all_triplets(
    shape: list[tuple[int, int]], share: float, seed: int
) -> None:
    pairs, n = made_pairs(shape), max(1, int(share * len(shape)))
    rng = Random(seed)
    places = balanced(pairs, n, rng.choice, rng)
    triplets = [pairs[place].triplet_id for place in places]
    assert len(triplets) == len(set(triplets)) == n


@pytest.mark.parametrize("seed", range(5))
def test_the_choice_is_balanced_over_categories_and_systems(seed: int) -> None:
    pairs = made_pairs([(category, 4) for category in range(3) for _ in range(40)])
    favourite = lambda places: max(places, key=lambda it: pairs[it].systems == (0, 1))  # noqa: E731
    rng = Random(seed)
    for pick in (favourite, rng.choice, min):
        chosen = [pairs[it] for it in balanced(pairs, 36, pick, Random(seed))]
        cells = Counter((it.category, it.systems) for it in chosen)
        assert list(cells.values()) == [2] * 18
        assert set(Counter(it.category for it in chosen).values()) == {12}
        assert set(Counter(it.systems for it in chosen).values()) == {6}


def test_few_pairs_are_balanced_over_systems_within_category() -> None:
    pairs = made_pairs([(category, 4) for category in range(3) for _ in range(40)])
    for seed in range(5):
        rng = Random(seed)
        chosen = [pairs[it] for it in balanced(pairs, 12, rng.choice, rng)]
        assert set(Counter(it.category for it in chosen).values()) == {4}
        assert set(Counter((it.category, it.systems) for it in chosen).values()) == {1}
        of_systems = Counter(it.systems for it in chosen).values()
        assert (len(of_systems), max(of_systems) - min(of_systems) <= 2) == (6, True)


def test_too_few_triplets() -> None:
    pairs = made_pairs([(0, 4), (0, 4)])
    with pytest.raises(UnreadableInput, match="3 pairs are requested, but only 2 triplets"):
        balanced(pairs, 3, min, Random(0))


# ------------------------------------------------------------------------------------- the command


@pytest.fixture
def asked(
    database: Database, database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Database:
    """A study of twelve queries, six of each category, open in the command's database."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HSFIQ_DATABASE_URL", database_url)
    draw(database, make_queries(database, {"shirt": 6, "dress": 6}, separate=True))
    return database


def test_a_random_study_is_like_the_old_one(asked: Database) -> None:
    before = pairs_of(asked, "small")
    made = hsfiq("study", "next", "--n", "6", "--strategy", "random", "--json")
    assert made.code == 0
    result = made.result
    assert (result["study"], result["status"], result["questions"]) == ("small-2", "open", 6)
    assert result["categories"] == {"dress": 3, "shirt": 3}
    assert result["systems"] == {"alpha": 4, "beta": 4, "gamma": 4}
    assert result["expected_information"] is None
    assert result["asked_before"] == 12
    fresh = pairs_of(asked, "small-2")
    both = [(name, frozenset(systems)) for name, systems in before + fresh]
    assert len(set(both)) == 18
    old, new = study_of(asked, "small"), study_of(asked, "small-2")
    assert new.design.pop("chosen_by") == {"strategy": "random", "seed": 0}
    assert new.design.pop("study") == old.design.pop("study") | {"name": "small-2"}
    assert new.design["queries"].pop("systems") == list(SYSTEMS)
    assert old.design["queries"].pop("systems") == []
    assert new.design == old.design
    assert (new.title, new.guidelines, new.k) == (old.title, old.guidelines, old.k)


def test_the_seed_makes_the_choice(asked: Database) -> None:
    words = ("study", "next", "--study", "small", "--n", "4", "--strategy", "random")
    for name, seed in (("one", 1), ("two", 2)):
        assert hsfiq(*words, "--name", name, "--seed", str(seed), "--draft").code == 0
    assert pairs_of(asked, "one") != pairs_of(asked, "two")
    assert study_of(asked, "one").status == "draft"
    third = hsfiq(*words)
    assert third.out.startswith("study small-2: 4 questions about 4 of 16 possible pairs")


@on_sqlite
def test_a_file_may_describe_the_study(asked: Database) -> None:
    Path("new.toml").write_text(
        '[study]\nname = "new"\ntitle = "And these?"\n'
        "[design]\nk = 2\nquestions_per_form = 2\n"
        '[queries]\ndataset = "small"\ncategories = ["dress"]\n',
        encoding="utf-8",
    )
    made = hsfiq("study", "next", "new.toml", "--n", "3", "--strategy", "random", "--json")
    assert made.code == 0
    assert made.result["categories"] == {"dress": 3}
    assert study_of(asked, "new").title == "And these?"
    assert study_of(asked, "new").origin == "collected"
    simulated = hsfiq(
        "study", "next", "new.toml", "--n", "2", "--strategy", "random", "--name", "more",
        "--simulated",
    )  # fmt: skip
    assert simulated.code == 0
    assert study_of(asked, "more").origin == "simulated"
    again = hsfiq("study", "next", "new.toml", "--n", "3", "--strategy", "random")
    assert again.code == 2
    assert again.err.startswith("hsfiq: new.toml: line 2: study.name: a study called 'new'")


def test_the_new_study_has_the_same_kind_of_annotators(asked: Database) -> None:
    with asked.writing() as session:
        session.scalars(select(Study)).one().origin = "simulated"
    assert hsfiq("study", "next", "--n", "2", "--strategy", "random").code == 0
    assert study_of(asked, "small-2").origin == "simulated"


@on_sqlite
@pytest.mark.parametrize(
    ("words", "said"),
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
        (("new.toml", "--n", "2", "--strategy", "random", "--study", "small"), "--study: does no"),
        (("new.toml", "--n", "2", "--strategy", "random"), "line 6: queries.sample: does not go"),
        (("--n", "2", "--strategy", "random", "--simulated"), "--simulated: goes with CONFIG"),
    ],
)
def test_invalid_options_change_nothing(asked: Database, words: tuple[str, ...], said: str) -> None:
    Path("new.toml").write_text(
        '[study]\nname = "new"\ntitle = "And these?"\n[queries]\ndataset = "small"\nsample = 2\n',
        encoding="utf-8",
    )
    before = pairs_of(asked, "small")
    ran = hsfiq("study", "next", *words)
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err
    assert len(ran.err.splitlines()) == 1
    with asked.reading() as session:
        assert len(session.scalars(select(Study)).all()) == 1
    assert pairs_of(asked, "small") == before


@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
def test_a_database_that_may_only_be_read(asked: Database, database_url: str) -> None:
    read_only = f"{database_url}?options=-c%20default_transaction_read_only%3Don"
    words = ("--n", "2", "--strategy", "random", "--database", read_only)
    ran = hsfiq("study", "next", *words)
    assert (ran.code, ran.out) == (2, "")
    assert "the database cannot be used (cannot execute" in ran.err
    assert len(ran.err.splitlines()) == 1


@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
def test_two_concurrent_commands_choose_different_pairs(asked: Database, database_url: str) -> None:
    """Both choose before either stores: the second is told, and nothing is asked twice."""

    def ask(name: str) -> int:
        with database_of(database_url) as database:
            with database.reading() as session:
                wanted = after(session, session.scalars(select(Study)).one(), name)
                found = possibilities(session, wanted, NOTHING).candidates
            both_have_chosen.wait(timeout=30)
            try:
                store_study(database, wanted, found.pairs[:1], found.sets, {}, status="open")
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


def test_an_imported_study_has_no_design_to_continue(asked: Database) -> None:
    with asked.writing() as session:
        study = session.scalars(select(Study)).one()
        study.origin, study.design = "imported", {}
    ran = hsfiq("study", "next", "--n", "2", "--strategy", "random")
    assert ran.code == 2
    assert "was imported and has no design; name a CONFIG.toml" in ran.err


def test_another_study_created_meanwhile(database: Database) -> None:
    draw(database, make_queries(database, {"shirt": 4}))
    with database.reading() as session:
        wanted = after(session, session.scalars(select(Study)).one(), "mine")
        found = possibilities(session, wanted, NOTHING).candidates
    chosen = found.pairs[:1]
    theirs = replace_name(wanted, "theirs")
    store_study(database, theirs, chosen, found.sets, {}, status="open")
    with pytest.raises(UnreadableInput, match="another study has shown one of its pairs"):
        store_study(database, wanted, chosen, found.sets, {}, status="open")
    with database.reading() as session:
        assert {it.name for it in session.scalars(select(Study))} == {"small", "theirs"}


def replace_name(wanted: Wanted, name: str) -> Wanted:
    return Wanted(config(name=name), wanted.origin)


# ------------------------------------------------------------------------- what its releases tell


def test_a_release_says_how_its_pairs_were_chosen(asked: Database, tmp_path: Path) -> None:
    assert hsfiq("study", "next", "--n", "4", "--strategy", "random", "--seed", "3").code == 0
    study = study_of(asked, "small-2")
    Seat.taken(asked, study.id).answer_all()
    words = ("export", "--study", "small-2", "--release", "hp", "--out", tmp_path / "hp")
    assert hsfiq(*words).code == 0
    manifest = json.loads((tmp_path / "hp" / "manifest.json").read_text())
    assert manifest["chosen_by"] == {"strategy": "random", "seed": 3}
    card = (tmp_path / "hp" / "README.md").read_text()
    assert "## How the pairs were chosen" in card
    assert "no random sample" not in card


@on_sqlite
def test_triplets_held_out_by_a_release_are_not_chosen(asked: Database, tmp_path: Path) -> None:
    Seat.taken(asked, 1).answer_all()
    Seat.taken(asked, 1).answer_all()
    words = ("--split", "triplet", "--test-share", "0.5")
    assert hsfiq("export", "--release", "hp", "--out", tmp_path / "hp", *words).code == 0
    release = tmp_path / "hp"
    parts = {
        it["question_id"]: it["part"]
        for it in pq.read_table(release / "splits.parquet").to_pylist()
    }
    held_out = {
        it["query_id"]
        for it in pq.read_table(release / "preferences.parquet").to_pylist()
        if parts[it["question_id"]] == "test"
    }
    assert held_out
    n = 12 - len(held_out)
    random = ("--strategy", "random", "--release", release)
    made = hsfiq("study", "next", "--study", "small", "--n", str(n), *random, "--json")
    assert made.code == 0
    assert made.result["held_out_triplets"] == len(held_out)
    assert {name for name, _ in pairs_of(asked, "small-2")}.isdisjoint(held_out)


@on_sqlite
def test_a_split_by_participant_holds_out_no_triplet(asked: Database, tmp_path: Path) -> None:
    for _ in range(3):
        Seat.taken(asked, 1).answer_all()
    words = ("--split", "participant", "--test-share", "0.4")
    assert hsfiq("export", "--release", "hp", "--out", tmp_path / "hp", *words).code == 0
    ran = hsfiq("study", "next", "--n", "2", "--strategy", "random", "--release", tmp_path / "hp")
    assert ran.code == 2
    assert "holds out participants and no triplets; leave --release out" in ran.err


@on_sqlite
def test_with_split_by_both_no_held_out_triplet_is_chosen(asked: Database, tmp_path: Path) -> None:
    """Also those that only participants who are not held out have judged."""
    for _ in range(3):
        Seat.taken(asked, 1).answer_all()
    words = ("--split", "both", "--test-share", "0.5")
    assert hsfiq("export", "--release", "hp", "--out", tmp_path / "hp", *words).code == 0
    rows = pq.read_table(tmp_path / "hp" / "splits.parquet").to_pylist()
    n_train = sum(it["part"] == "train" for it in rows)
    split = json.loads((tmp_path / "hp" / "manifest.json").read_text())["split"]
    random = ("--strategy", "random", "--release", tmp_path / "hp")
    made = hsfiq("study", "next", "--n", str(n_train), *random, "--json")
    assert made.code == 0
    assert made.result["held_out_triplets"] == len(rows) - n_train >= split["held_out_triplets"]


@on_sqlite
def test_a_release_of_another_dataset(asked: Database, tmp_path: Path) -> None:
    Seat.taken(asked, 1).answer_all()
    words = ("--split", "triplet", "--test-share", "0.5")
    assert hsfiq("export", "--release", "hp", "--out", tmp_path / "hp", *words).code == 0
    with asked.writing() as session:
        session.scalars(select(Dataset)).one().name = "renamed"
        study = session.scalars(select(Study)).one()
        study.design = study.design | {"queries": study.design["queries"] | {"dataset": "renamed"}}
    ran = hsfiq("study", "next", "--n", "2", "--strategy", "random", "--release", tmp_path / "hp")
    assert ran.code == 2
    assert "--release: asks about small, not renamed" in ran.err


@on_sqlite
def test_runs_imported_later_are_not_compared(asked: Database) -> None:
    with asked.writing() as session:
        system = System(name="delta")
        session.add(system)
        session.flush()
        query = session.scalars(select(Pair.query_id)).first()
        images = session.scalars(select(Image.id)).all()[:3]
        session.add(RankedList(system_id=system.id, query_id=query, image_ids=list(images)))
    made = hsfiq("study", "next", "--n", "12", "--strategy", "random", "--json")
    assert made.code == 0
    assert set(made.result["systems"]) == set(SYSTEMS)


@on_sqlite
def test_a_release_that_leaks_is_refused(asked: Database, tmp_path: Path) -> None:
    Seat.taken(asked, 1).answer_all()
    words = ("--split", "triplet", "--test-share", "0.5")
    assert hsfiq("export", "--release", "hp", "--out", tmp_path / "hp", *words).code == 0
    path = tmp_path / "hp" / "splits.parquet"
    kept = pq.read_table(path).to_pylist()[1:]
    pq.write_table(pa.Table.from_pylist(kept, schema=pq.read_schema(path)), path)
    ran = hsfiq("study", "next", "--n", "2", "--strategy", "random", "--release", tmp_path / "hp")
    assert ran.code == 2
    assert "splits.parquet" in ran.err
