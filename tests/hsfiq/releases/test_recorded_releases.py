"""The database remembers which answers went into which release."""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import func, select
from sqlalchemy.engine import make_url

from hsfiq.actors import OWNER
from hsfiq.collect.owner import perform, prepare
from hsfiq.collect.question_history import ReleaseRecord, records_of, revision_at
from hsfiq.collect.studies import list_studies
from hsfiq.db.engine import Database, open_database
from hsfiq.db.tables import ExportedForm, ExportedRelease, Form, Participant, Response, Study
from hsfiq.ids import question_id
from hsfiq.kinds import KIND_OF_RELEASE, RELEASE_KINDS
from hsfiq.releases.content import Source
from hsfiq.releases.export import Outcome, Recorder, export_releases
from hsfiq.releases.folder import read_rows
from hsfiq.study.config import Checks, Design
from hsfiq.study.filters import Filters
from tests.databases import PostgresServer
from tests.hsfiq.releases.slow_questions import runs_of
from tests.hsfiq.releases.small_releases import WITHOUT_SUMS, small_study_of
from tests.hsfiq.samples import CommandResult, hsfiq, import_hpfiq, on_sqlite
from tests.studies import OTHER, SKIP, Seat, draw, make_queries, pair_answer, small_study

# -------------------------------------------------------------------------------------------- runs


@given(st.dictionaries(st.integers(0, 12), st.integers(0, 2)))
def test_runs_hold_the_revision_at_each_place(answers: dict[int, int]) -> None:
    runs = runs_of(sorted(answers.items()))
    assert {place: revision_at(runs, place) for place in range(14)} == {
        place: answers.get(place) for place in range(14)
    }
    for (_, last, revision), (first, _, other) in pairwise(runs):
        assert last + 1 < first or revision != other  # as few as possible


# --------------------------------------------------------------------------------------- recording


def export(
    database: Database, folder: Path, kind: str = "hp", filters: Filters | None = None
) -> Recorder:
    """Export the only study, as `hsfiq export` does."""
    recorder = Recorder(database, OWNER)
    with database.reading() as session:
        (study,) = list_studies(session)
        export_releases(
            session, study, [kind], filters or Filters(), folder=folder, force=True,
            in_place=recorder,
        )  # fmt: skip
    return recorder


def records(database: Database) -> list[ReleaseRecord]:
    with database.reading() as session:
        return [record for study in list_studies(session) for record in records_of(session, study)]


def record(database: Database) -> ReleaseRecord:
    (only,) = records(database)
    return only


@dataclass(frozen=True)
class Remembered:
    """What the database says of the only release: revisions by question id."""

    kept: dict[str, int]
    dropped: dict[str, int]

    @classmethod
    def of(cls, database: Database) -> Remembered:
        with database.reading() as session:
            rows = session.execute(
                select(Participant.name, Form.name, ExportedForm.kept, ExportedForm.dropped)
                .join(Form, ExportedForm.form_id == Form.id)
                .join(Participant, Form.participant_id == Participant.id)
            ).all()
        remembered = cls({}, {})
        for name, form, *parts in rows:
            for ids, runs in zip((remembered.kept, remembered.dropped), parts, strict=True):
                for first, last, revision in runs:
                    places = range(first, last + 1)
                    ids.update({question_id(name, str(form), each): revision for each in places})
        return remembered


@on_sqlite
@pytest.mark.parametrize("release_kind", RELEASE_KINDS)
def test_the_answers_of_every_kind_are_recorded(
    database: Database, release_kind: str, tmp_path: Path
) -> None:
    release = RELEASE_KINDS[release_kind]
    small_study_of(database, KIND_OF_RELEASE[release.name].name)
    assert export(database, tmp_path / "release", release_kind).notes() == []
    rows = read_rows(tmp_path / "release" / f"{release.main}.parquet", ("question_id",))
    remembered = Remembered.of(database)
    assert remembered.kept.keys() == {row["question_id"] for row in rows}
    # The small searches were left.
    assert set(remembered.kept.values()) == {0 if KIND_OF_RELEASE[release_kind].is_live else 1}
    assert remembered.dropped == {}
    manifest = json.loads((tmp_path / "release" / "manifest.json").read_text())
    recorded = record(database)
    for name in ("name", "kind", "version", "content_sha256", "filters"):
        assert getattr(recorded, name) == manifest[name]
    assert recorded.hsfiq_version == manifest["tool"]["version"]
    assert recorded.n_answers == manifest["counts"]["questions"] == len(remembered.kept)
    assert (recorded.n_new, recorded.n_changes, recorded.n_forgotten) == (0, 0, 0)


def revised_study(database: Database) -> tuple[Seat, Seat]:
    """Two participants with four questions each; some are revised, dropped, skipped or open."""
    study = draw(database, make_queries(database), checks=WITHOUT_SUMS)
    first, second = (Seat.taken(database, study) for _ in range(2))
    first.answer_all()
    first.submit(first.question_ids[1], OTHER, revision=1)  # flagged
    first.submit(first.question_ids[2], pair_answer(5, 1, 1), revision=1)
    second.submit(second.question_ids[0])
    second.submit(second.question_ids[1], SKIP)
    return first, second


def test_what_the_rules_dropped_is_recorded_too(database: Database, tmp_path: Path) -> None:
    revised_study(database)
    export(database, tmp_path / "release", filters=Filters(invalid=True))
    remembered = Remembered.of(database)
    assert remembered.kept == {
        "p1.form_1.0": 1, "p1.form_2.0": 2, "p1.form_2.1": 1, "p2.form_1.0": 1,
    }  # fmt: skip
    assert remembered.dropped == {"p1.form_1.1": 2, "p2.form_1.1": 1}
    rows = read_rows(tmp_path / "release" / "exclusions.parquet", ("question_id", "rule"))
    dropped = {row["question_id"] for row in rows if row["rule"] != "unanswered"}
    assert remembered.dropped.keys() == dropped
    assert record(database).filters == [{"name": "invalid", "parameters": {}}]


def test_attention_checks_do_not_count(database: Database, tmp_path: Path) -> None:
    queries = make_queries(database, {"shirt": 8})
    design = Design(k=2, questions_per_form=3, forms_per_participant=1, seed=1)
    key = draw(database, queries, design, checks=Checks(arithmetic=False, repeated=1))
    Seat.taken(database, key).answer_all()
    with database.reading() as session:
        assert session.scalar(select(func.count(Response.id))) == 4  # one question was repeated
    export(database, tmp_path / "release")
    remembered = Remembered.of(database)
    assert (len(remembered.kept), remembered.dropped) == (3, {})
    assert (record(database).n_new, record(database).n_changes) == (0, 0)


def test_answers_that_have_arrived_since_are_counted(database: Database, tmp_path: Path) -> None:
    first, second = revised_study(database)
    export(database, tmp_path / "release")
    assert record(database).since == "0 new answers and 0 changes"
    second.submit(second.question_ids[2])
    second.submit(second.question_ids[3])
    second.submit(second.question_ids[3], OTHER, revision=1)
    first.submit(first.question_ids[0], OTHER, revision=1)
    first.set_status("excluded")  # no answer arrives or leaves
    assert record(database).since == "2 new answers and 2 changes"
    export(database, tmp_path / "next")
    assert [each.since for each in records(database)] == [
        "2 new answers and 2 changes", "0 new answers and 0 changes",
    ]  # fmt: skip


def test_the_same_content_is_recorded_once_with_both_times(
    database: Database, tmp_path: Path
) -> None:
    import_hpfiq(database)
    export(database, tmp_path / "one")
    before = record(database)
    assert before.first_exported_at == before.last_exported_at
    export(database, tmp_path / "one")  # unchanged, nothing is written
    assert record(database) == before
    export(database, tmp_path / "other")
    after = record(database)
    assert after.first_exported_at == before.first_exported_at < after.last_exported_at
    export(database, tmp_path / "filtered", filters=Filters(invalid=True))
    assert [each.n_answers for each in records(database)] == [5, 4]


# ---------------------------------------------------------------------- databases for reading only


def require_one_note(url: str, out: Path, reason: str) -> None:
    command = hsfiq("export", "--database", url, "--out", out)
    assert (command.code, command.err) == (0, "")
    (note,) = (line for line in command.out.splitlines() if line.startswith("note: "))
    assert note == f"note: hpfiq-hs and hpfiq-hp not recorded in the database ({reason})"
    assert len(list(out.iterdir())) == 2


@pytest.mark.parametrize("kind", [pytest.param("postgresql", marks=pytest.mark.postgres)])
def test_a_server_that_only_reads_is_exported(
    database: Database, database_url: str, postgres_server: PostgresServer, tmp_path: Path
) -> None:
    import_hpfiq(database)
    role = f"hsfiq_test_{secrets.token_hex(6)}"
    with database.engine.begin() as connection:
        connection.exec_driver_sql(f"CREATE ROLE {role}")
        connection.exec_driver_sql(f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {role}")
    url = make_url(database_url)

    def with_option(option: str) -> str:
        return url.set(query={"options": f"-c {option}"}).render_as_string(hide_password=False)

    standby, reader = with_option("default_transaction_read_only=on"), with_option(f"role={role}")
    try:
        require_one_note(standby, tmp_path / "standby", "the database can only be read")
        require_one_note(reader, tmp_path / "reader", "its user may only read it")
    finally:
        with database.engine.begin() as connection:
            connection.exec_driver_sql(f"DROP OWNED BY {role}")
            connection.exec_driver_sql(f"DROP ROLE {role}")
    assert records(database) == []
    # It is unchanged, but not recorded yet.
    assert hsfiq("export", "--database", database_url, "--out", tmp_path / "reader").code == 0
    assert [each.name for each in records(database)] == ["hpfiq-hs", "hpfiq-hp"]


# --------------------------------------------------------------------------------------- forgetting


def forget(database: Database, seat: Seat) -> list[str]:
    """Delete a participant's data as commands do; the releases that have answers of theirs."""
    with database.reading() as session:
        person = session.get_one(Participant, seat.participant_id)
        action = prepare(session.get_one(Study, person.study_id), "forget", person)
    with database.writing() as session:
        return [release.version for release in perform(session, action, OWNER).releases]


def test_forgetting_leaves_no_record_and_names_the_releases(
    database: Database, tmp_path: Path
) -> None:
    first, second = revised_study(database)
    export(database, tmp_path / "release")
    with database.reading() as session:
        n_forms = session.scalar(select(func.count()).select_from(ExportedForm))
    assert n_forms == 3
    first.submit(first.question_ids[0], OTHER, revision=1)
    assert forget(database, first) == ["1.0.0"]
    assert Remembered.of(database).kept == {"p2.form_1.0": 1}
    after = record(database)
    assert (after.n_answers, after.n_forgotten) == (5, 1)
    assert after.since == "0 new answers and 0 changes"
    assert forget(database, first) == []
    second.submit(second.question_ids[2])
    assert record(database).since == "1 new answer and 0 changes"


def test_a_participant_whose_answers_were_all_dropped_is_in_the_release(
    database: Database, tmp_path: Path
) -> None:
    _, second = revised_study(database)
    second.set_status("excluded")
    export(database, tmp_path / "release")
    assert Remembered.of(database).dropped == {"p2.form_1.0": 1, "p2.form_1.1": 1}
    assert forget(database, second) == ["1.0.0"]
    third = Seat.taken(database, 1)
    assert forget(database, third) == []


def test_data_deleted_while_the_release_is_written_are_not_recorded(
    database: Database, tmp_path: Path
) -> None:
    first, _ = revised_study(database)
    recorder = Recorder(database, OWNER)

    def forget_first(source: Source, outcome: Outcome) -> None:
        assert forget(database, first) == []
        recorder(source, outcome)

    with database.reading() as session:
        (study,) = list_studies(session)
        folder = tmp_path / "release"
        export_releases(session, study, ["hp"], Filters(), folder=folder, in_place=forget_first)
    (note,) = recorder.notes()
    assert note.startswith(f"{folder} has answers of p1, whose data were deleted while it was")
    assert Remembered.of(database).kept == {"p2.form_1.0": 1}
    assert record(database).n_forgotten == 1


# ---------------------------------------------------------------------------------------- the list


def listed(*arguments: str) -> CommandResult:
    command = hsfiq("release", "list", *arguments)
    assert (command.code, command.err) == (0, "")
    return command


def test_releases_are_listed(
    database: Database, database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HSFIQ_DATABASE_URL", database_url)
    _, second = revised_study(database)
    assert listed().out.startswith("no release yet: write one")
    assert listed("--study", "small").out.startswith("no release of study small yet: write one")
    assert hsfiq("export", "--release", "hs", "--filter", "too-fast(seconds=0)").code == 0
    second.submit(second.question_ids[2])
    assert hsfiq("export", "--release", "hp", "--filter-invalid", "--split", "triplet").code == 0
    for line, kind, filters, n_new in zip(
        listed().out.splitlines()[1:], ("hs", "hp"), ("too-fast(seconds=0)", "invalid"),
        ("1 new answer", "0 new answers"), strict=True,
    ):  # fmt: skip
        assert line.split()[:2] == [f"small-{kind}", "1.0.0"]
        assert line.split()[4:6] == [filters, "5"]
        assert line.endswith(f"  {n_new} and 0 changes")
    results = listed("--study", "small", "--json").result["releases"]
    assert [each["n_new"] for each in results] == [1, 0]
    assert results[1]["options"] == {"split": {"by": "triplet", "seed": 0, "test_share": 0.2}}
    of_question = listed("--question", "p1.form_1.1").out.splitlines()
    assert [line.rpartition("  ")[2] for line in of_question] == [
        "answer", "has revision 2", "dropped revision 2",
    ]  # fmt: skip
    (only,) = listed("--question", "p2.form_2.0", "--json").result["releases"]
    assert only["name"] == "small-hp"
    assert listed("--participant", "p2").out.count("\n") == 3
    assert hsfiq("participant", "forget", "p2", "--yes").code == 0
    assert listed("--participant", "p2").out == "no release of study small has answers of p2\n"
    assert "has an answer to p2.form_2.1\n" in listed("--question", "p2.form_2.1").out
    assert listed().out.count("; has answers of 1 participant whose data were deleted\n") == 2


@on_sqlite
@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--study", "other"), "--study: no study is called 'other'"),
        (("--participant", "p9"), "no participant 'p9'"),
        (("--question", "p1.form_1.9"), "--question: study small has no 'p1.form_1.9'"),
        (
            ("--question", "p1.form_1.1", "--participant", "p1"),
            "cannot be combined with --question",
        ),
    ],
)
def test_what_cannot_be_listed_is_refused(
    database: Database, database_url: str, arguments: tuple[str, ...], complaint: str
) -> None:
    Seat.taken(database, small_study(database))
    command = hsfiq("release", "list", *arguments, "--database", database_url)
    assert (command.code, command.out, complaint in command.err) == (2, "", True)


# ------------------------------------------------------------------------------ copies and backups


def test_copies_and_backups_have_the_records(
    database: Database, database_url: str, empty_postgres: str, tmp_path: Path
) -> None:
    revised_study(database)
    export(database, tmp_path / "release")
    backup, is_sqlite = tmp_path / "backup", database_url.startswith("sqlite")
    restored = f"sqlite:///{tmp_path / 'restored.db'}" if is_sqlite else empty_postgres
    copied = f"sqlite:///{tmp_path / 'copied.db'}"
    for command in (
        ("backup", backup, "--database", database_url),
        ("restore", backup, "--database", restored),
        ("copy", restored, copied),
    ):
        ran = hsfiq("db", *command)
        assert ran.code == 0, ran.err
    for url in (restored, copied):
        opened = open_database(url)
        assert records(opened) == records(database)
        assert Remembered.of(opened) == Remembered.of(database)
        with opened.writing() as session:  # the next record gets a key of its own
            row = session.scalars(select(ExportedRelease)).one()
            values = {c.key: getattr(row, c.key) for c in ExportedRelease.__table__.columns}
            session.add(ExportedRelease(**values | {"id": None, "version": "9.9.9"}))
        opened.close()
