"""Extensions: what they add is exactly what was asked for, and nothing else changes."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from hsfiq.collect import participants
from hsfiq.collect.owner import extend
from hsfiq.collect.progress import progress_of
from hsfiq.db.engine import Database, open_database
from hsfiq.db.source_tables import Image, RankedList, System
from hsfiq.db.tables import Check, Extension, Form, Pair, Question, Study
from hsfiq.db.types import Base
from hsfiq.errors import ConfigError, FileErrors, NotOpen, Refused, UnreadableInput
from hsfiq.study.capacity import capacity_of, planned_judgements
from hsfiq.study.config import Checks
from hsfiq.study.extension import Added, MoreAnnotators, NewQueries
from hsfiq.study.recruiting import Recruitment
from tests.arenas import draw_arena
from tests.hsfiq.samples import hsfiq, on_sqlite, release_of
from tests.hsfiq.study.drawn_studies import systems_of
from tests.hsfiq.study.parts import questions_of
from tests.studies import NOW, SMALL, Seat, draw, make_queries, small_study

pytestmark = pytest.mark.usefixtures("database")

DESIGN = replace(SMALL, annotators_per_query=2, overlap_share=0.25)
KINDS: tuple[dict[str, Any], ...] = (
    {"kind": "pair", "image_order": "shuffled"},
    {"kind": "single"},
    {"kind": "images", "levels": 3},
    {"kind": "ranking", "sets": 3},
    {"kind": "query"},
)


def extended(database: Database, study_id: int, wanted: MoreAnnotators | NewQueries) -> Added:
    with database.writing() as session:
        return extend(session, session.get_one(Study, study_id), wanted, NOW)


def rows(session: Session) -> dict[str, set[str]]:
    """Every row of every table, as text."""
    return {
        table.name: {repr(tuple(row)) for row in session.execute(select(table))}
        for table in Base.metadata.sorted_tables
    }


def judgements(session: Session, study_id: int) -> Counter[int]:
    """How many participants judge, or will, each query, without checks."""
    is_check = select(Check.id).where(Check.question_id == Question.id).exists()
    return Counter(
        session.scalars(
            select(Pair.query_id)
            .join(Question, Question.pair_id == Pair.id)
            .join(Form, Question.form_id == Form.id)
            .where(Form.study_id == study_id, ~Question.reassigned, ~is_check)
        )
    )


def check_batches(session: Session, study_id: int, size: int) -> None:
    """A participant: one category, no triplet twice, not more questions than planned."""
    batches: dict[int, list[Any]] = defaultdict(list)
    for form, pair in session.execute(
        select(Form, Pair)
        .join(Question, Question.form_id == Form.id)
        .join(Pair, Question.pair_id == Pair.id)
        .outerjoin(Check, Check.question_id == Question.id)
        .where(Form.study_id == study_id, Check.id.is_(None))
    ):
        batches[form.batch].append((form.category, pair.query.triplet_id))
    assert sorted(batches) == list(range(len(batches)))
    for asked in batches.values():
        assert len(asked) <= size
        assert len({category for category, _ in asked}) == 1
        assert len({triplet for _, triplet in asked}) == len(asked)


# -------------------------------------------------------------------------------- more annotators


@pytest.mark.parametrize("options", KINDS, ids=lambda options: options["kind"])
def test_further_forms_raise_the_overlap_and_change_no_row(
    database: Database, options: dict[str, Any]
) -> None:
    is_pair = options["kind"] == "pair"
    queries = make_queries(database, {"dress": 7, "shirt": 6}, both_orders=True, separate=True)
    checks = Checks(gold=1, repeated=1) if is_pair else Checks()
    study_id = draw(database, queries, replace(DESIGN, **options), checks=checks)
    seat = Seat.taken(database, study_id)
    if is_pair:
        seat.answer_until(3)
    with database.reading() as session:
        before = rows(session)
        pairs_before = set(session.scalars(select(Pair.id)))
    added = extended(database, study_id, MoreAnnotators(3))
    with database.reading() as session:
        after = rows(session)
        assert all(kept <= after[table] for table, kept in before.items())
        changed = {table for table in before if before[table] != after[table]}
        own = {"extensions", "forms", "questions", "checks"}
        gold = {"pairs", "retrieved_sets", "retrieved_images"} if is_pair else set()
        assert changed == own | gold
        assert judgements(session, study_id) == dict.fromkeys(queries, 3)
        check_batches(session, study_id, 4)
        # 26 queries: 7 of them (4 and 3) were judged twice, the others once.
        assert added.questions == 26 * 3 - (26 + 7)
        new = session.scalars(select(Form).where(Form.number >= added.first_form)).all()
        assert len(new) == added.forms
        assert all(form.participant_id is None for form in new)
        kinds = Counter(
            session.scalars(select(Check.kind).join(Form).where(Form.number >= added.first_form))
        )
        assert kinds["arithmetic"] == added.forms
        assert kinds["gold"] == kinds["repeat"] == (added.forms if is_pair else 0)
        assert set(planned_judgements(session, session.get_one(Study, study_id))) <= pairs_before


def test_an_extension_is_recorded_and_its_seed_makes_the_draws(database: Database) -> None:
    queries = make_queries(database, {"shirt": 9})
    for name in ("one", "two"):
        study_id = draw(database, queries, DESIGN, name=name)
        extended(database, study_id, MoreAnnotators(2))
        extended(database, study_id, MoreAnnotators(3))
        with database.reading() as session:
            own = select(Extension).where(Extension.study_id == study_id)
            records = session.scalars(own.order_by(Extension.number)).all()
            assert [record.number for record in records] == [1, 2]
            assert {record.seed for record in records} == {1}
            assert records[0].created_at == NOW
            assert records[1].request == {"annotators_per_query": 3}
            assert records[1].added["questions"] == 9
    assert questions_of(database, "one") == questions_of(database, "two")


def test_what_cannot_be_extended(database: Database) -> None:
    """Nothing is left to add, or the study is imported or an arena."""
    arena = draw_arena(database)
    for wanted in (MoreAnnotators(5), NewQueries(sample=1)):
        with pytest.raises(ConfigError, match="drawn at once"):
            extended(database, arena, wanted)
    queries = make_queries(database, dataset="pairs", systems=("one", "two"))
    study_id = draw(database, queries, replace(SMALL, annotators_per_query=2))
    with database.writing() as session:
        study = session.get_one(Study, study_id)
        study.design = study.design | {"queries": study.design["queries"] | {"dataset": "pairs"}}
    with pytest.raises(Refused, match="each query already has 2 or more judges"):
        extended(database, study_id, MoreAnnotators(2))
    with pytest.raises(Refused, match="all queries that match"):
        extended(database, study_id, NewQueries())
    with database.writing() as session:
        session.get_one(Study, study_id).origin = "imported"
    with pytest.raises(Refused, match="cannot accept more"):
        extended(database, study_id, MoreAnnotators(3))
    with database.reading() as session:
        assert session.scalars(select(Extension)).all() == []


def test_reassigned_questions_count_once(database: Database) -> None:
    study_id = small_study(database)
    seat = Seat.taken(database, study_id)
    seat.answer_until(3)
    seat.set_status("returned")
    Seat.taken(database, study_id)
    Seat.taken(database, study_id)  # gets the two questions that were left
    extended(database, study_id, MoreAnnotators(2))
    with database.reading() as session:
        assert set(judgements(session, study_id).values()) == {2}


# ------------------------------------------------------------------------------------ new queries


@on_sqlite
@pytest.mark.parametrize("options", KINDS, ids=lambda options: options["kind"])
def test_all_new_queries_get_the_studys_design(database: Database, options: dict[str, Any]) -> None:
    queries = make_queries(database, {"dress": 8, "shirt": 8}, separate=True)
    study_id = draw(database, queries[:12], replace(DESIGN, **options))
    with database.reading() as session:
        before = rows(session)
    added = extended(database, study_id, NewQueries())
    with database.reading() as session:
        after = rows(session)
        assert all(kept <= after[table] for table, kept in before.items())
        times = judgements(session, study_id)
        assert set(times) == set(queries)
        assert Counter(times[query] for query in queries[12:]) == {1: 3, 2: 1}
        check_batches(session, study_id, 4)
        assert (added.queries, added.questions, added.capacity.places) == (4, 5, 2)
        progress = progress_of(session, session.get_one(Study, study_id))
        assert progress.questions == times.total()


def test_each_two_systems_stay_equally_frequent(database: Database) -> None:
    queries = make_queries(database, {"shirt": 12})
    study_id = draw(database, queries[:4])
    for size in (4, 4):
        extended(database, study_id, NewQueries(sample=size))
    used = Counter(frozenset(pair) for pair in systems_of(database, study_id))
    assert list(used.values()) == [4, 4, 4]


def test_systems_imported_later_stay_out(database: Database) -> None:
    queries = make_queries(database, {"shirt": 8})
    study_id = draw(database, queries[:4])
    with database.writing() as session:
        images = list(session.scalars(select(Image.id).limit(3)))
        late = System(name="late")
        session.add(late)
        session.flush()
        lists = [RankedList(system_id=late.id, query_id=q, image_ids=images) for q in queries[:6]]
        session.add_all(lists)
    extended(database, study_id, NewQueries())
    used = {system for pair in systems_of(database, study_id) for system in pair}
    assert used == {"alpha", "beta", "gamma"}
    with database.reading() as session:
        assert len(judgements(session, study_id)) == 8


def test_a_file_names_the_new_queries(database: Database, tmp_path: Path) -> None:
    queries = make_queries(database, {"shirt": 6})
    study_id = draw(database, queries[:3])
    file = tmp_path / "ids.txt"
    file.write_text("shirt.val.5\n\nshirt.val.3\n", encoding="utf-8")
    assert extended(database, study_id, NewQueries(file=file)).queries == 2
    with database.reading() as session:
        assert set(judgements(session, study_id)) == {*queries[:4], queries[5]}
    file.write_text("shirt.val.4\nshirt.val.4\nshirt.val.0\nhat.val.0\n", encoding="utf-8")
    with pytest.raises(FileErrors) as raised:
        extended(database, study_id, NewQueries(file=file))
    assert [line.removeprefix(f"{file}: ").partition(";")[0] for line in raised.value.lines] == [
        "line 2: 'shirt.val.4' is listed twice",
        "line 3: 'shirt.val.0' is already in the study",
        "line 4: no query 'hat.val.0' matches the study's [queries]",
    ]
    file.write_text("\n", encoding="utf-8")
    with pytest.raises(UnreadableInput, match="lists no query"):
        extended(database, study_id, NewQueries(file=file))
    with pytest.raises(
        UnreadableInput, match="--sample: 2 new queries requested, but only 1 exist"
    ):
        extended(database, study_id, NewQueries(sample=2))


# --------------------------------------------------------------------------- while it is running


def test_a_full_study_takes_as_many_more_as_were_added(database: Database) -> None:
    recruitment = Recruitment(participants=2)
    queries = make_queries(database, {"shirt": 8})
    study_id = draw(database, queries, recruitment=recruitment)
    later = NOW + timedelta(minutes=1)
    for _ in range(2):
        Seat.taken(database, study_id)
    with pytest.raises(NotOpen):
        Seat.taken(database, study_id)
    added = extended(database, study_id, MoreAnnotators(2))
    assert (added.capacity.places, added.cap) == (2, 4)
    with database.reading() as session:
        study = session.get_one(Study, study_id)
        assert participants.has_free_place(session, study, later)
        capacity = capacity_of(session, study)
        assert (capacity.places, capacity.unassigned) == (4, {"shirt": 2})
    for _ in range(2):
        Seat.taken(database, study_id).answer_all()
    with pytest.raises(NotOpen):
        Seat.taken(database, study_id)


def test_two_concurrent_extensions_are_made_one_after_the_other(
    database: Database, database_url: str
) -> None:
    queries = make_queries(database, {"shirt": 9})
    study_id = draw(database, queries[:3])

    def add(_: int) -> int:
        own = open_database(database_url)
        try:
            return extended(own, study_id, NewQueries(sample=3)).queries
        finally:
            own.close()

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(add, range(2))) == [3, 3]
    with database.reading() as session:
        assert session.scalars(select(Extension.number).order_by(Extension.number)).all() == [1, 2]
        assert judgements(session, study_id) == dict.fromkeys(queries, 1)


# ------------------------------------------------------------------------------------- the command


def run(database_url: str, *words: str) -> Any:
    return hsfiq("study", "extend", "small", *words, "--database", database_url)


def test_a_dry_run_stores_nothing(database: Database, database_url: str) -> None:
    study_id = small_study(database)
    with database.reading() as session:
        before = rows(session)
    words = ("--annotators", "3", "--dry-run", "--pay-per-hour", "12")
    printed = run(database_url, *words, "--json")
    assert printed.code == 0
    expected = {"participants": 4, "questions_each": 4, "minutes_each": 5, "cost": 4.0}
    expected |= {"questions": 16, "queries": 8, "forms": 8, "overlap": 3.0}
    assert {key: printed.result[key] for key in expected} == expected
    text = run(database_url, *words).out
    assert text.startswith(
        "study small: 16 questions about 8 queries in 8 forms for 4 more participants\n"
        "study small: nothing was stored\nparticipants: 4\n"
    )
    with database.reading() as session:
        assert rows(session) == before
    assert run(database_url, "--annotators", "3").code == 0
    with database.reading() as session:
        assert set(judgements(session, study_id).values()) == {3}


@on_sqlite
def test_what_the_command_refuses_is_one_line(database: Database, database_url: str) -> None:
    small_study(database)
    for words, message in (
        ("", "study extend: nothing to add was named; give one of --annotators"),
        ("--annotators 2 --all-queries", "cannot combine these options"),
        ("--annotators 2 --pay-per-hour 9", "--pay-per-hour: needs --dry-run"),
        ("--annotators 1", "study small: each query already has 1 or more judges"),
        ("--all-queries", "study small: all queries that match [queries]"),
        ("--query-ids nowhere.txt", "study small: all queries that match [queries]"),
    ):
        printed = run(database_url, *words.split())
        assert (printed.code, printed.out) == (2, "")
        assert message in printed.err
        assert len(printed.err.splitlines()) == 1


def test_releases_name_the_extensions(database: Database) -> None:
    study_id = small_study(database)
    Seat.taken(database, study_id).answer_all()
    assert "extensions" not in json.loads(release_of(database).files["manifest.json"])
    extended(database, study_id, MoreAnnotators(2))
    manifest = json.loads(release_of(database).files["manifest.json"])
    assert manifest["extensions"] == [
        {
            "number": 1, "seed": 1, "created_at": "2026-03-01T12:00:00+00:00",
            "request": {"annotators_per_query": 2},
            "added": {
                "queries": 8, "questions": 8, "forms": 4, "first_form": 4, "cap": 0,
                "quotas": {}, "participants": 2,
            },
        }
    ]  # fmt: skip
