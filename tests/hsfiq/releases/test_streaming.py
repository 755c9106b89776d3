"""Releases are written part by part, from one state of the database, and always the same."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from errno import ENOSPC
from pathlib import Path
from random import Random
from time import monotonic, sleep
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import select

from hsfiq import cli
from hsfiq.arrow_columns import json_lines
from hsfiq.collect.studies import list_studies
from hsfiq.db.engine import Database
from hsfiq.db.tables import Response
from hsfiq.releases import questions
from hsfiq.releases.content import Source
from hsfiq.releases.export import content_of
from hsfiq.releases.questions import FormRow
from hsfiq.releases.table_files import TableFiles, TableWriter
from hsfiq.study.filters import Filters
from tests.hsfiq.imported_answers import write_imported_answers
from tests.hsfiq.samples import CommandResult, hsfiq, import_hpfiq, release_of
from tests.processes import Fork
from tests.studies import NOW

# ------------------------------------------------------------------------------------- JSON lines

texts = st.none() | st.text(st.characters(codec="utf-8"), max_size=8)
times = st.none() | st.builds(
    lambda seconds, microseconds: NOW + timedelta(seconds=seconds, microseconds=microseconds),
    st.integers(-(10**9), 10**9),
    st.sampled_from([0, 0, 1, 500_000, 999_999]),
)
floats = st.none() | st.floats(allow_nan=False, allow_infinity=False)
seconds = st.none() | st.floats(0, 1e10) | st.floats(0, 1e3).map(lambda each: round(each, 3))
COLUMNS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "text": (pa.string(), texts),
    'a "name"': (pa.int8(), st.none() | st.integers(-128, 127)),
    "flag": (pa.bool_(), st.none() | st.booleans()),
    "number": (pa.float64(), floats),
    "seconds": (pa.float64(), seconds),
    "time": (pa.timestamp("us", tz="UTC"), times),
    "texts": (pa.list_(pa.string()), st.none() | st.lists(texts, max_size=3)),
    "places": (pa.list_(pa.int32()), st.none() | st.lists(st.integers(0, 9), max_size=3)),
    "numbers": (pa.list_(pa.float64()), st.none() | st.lists(floats, max_size=3)),
}
SCHEMA = pa.schema({name: type_ for name, (type_, _) in COLUMNS.items()})
rows = st.fixed_dictionaries({name: values for name, (_, values) in COLUMNS.items()})


@given(st.lists(rows, max_size=6), st.integers(0, 3))
def test_lines_are_those_of_python(drawn: list[dict[str, Any]], start: int) -> None:
    table = pa.Table.from_pylist(drawn, schema=SCHEMA).slice(start)
    in_order = [{name: row[name] for name in COLUMNS} for row in drawn[start:]]
    lines = [
        json.dumps(row, ensure_ascii=False, default=lambda time: time.isoformat()) + "\n"
        for row in in_order
    ]
    assert json_lines(table).to_pybytes().decode() == "".join(lines)


# ------------------------------------------------------------------------------------------- parts


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 30)), max_size=40))
def test_parts_have_whole_participants_and_a_bounded_size(drawn: list[tuple[bool, int]]) -> None:
    person, all_forms = 0, []
    for key, (is_next, n_questions) in enumerate(drawn):
        person += is_next
        all_forms.append(FormRow(key, person, f"p{person}", "active", "form", "", n_questions))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(questions, "QUESTIONS_AT_ONCE", 40)
        parts = list(questions.forms_together(all_forms))
    assert [form for part in parts for form in part] == all_forms
    people = [{form.participant_key for form in part} for part in parts]
    assert sum(map(len, people)) == len({form.participant_key for form in all_forms})
    for part in parts:
        last = part[-1].participant_key
        others = [form.n_questions for form in part if form.participant_key != last]
        assert sum(others) < 40  # the last participant came in before the part was full


def test_the_size_of_the_parts_does_not_matter(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    import_hpfiq(database)
    whole = release_of(database, "hp", Filters(invalid=True)).files
    monkeypatch.setattr(questions, "QUESTIONS_AT_ONCE", 1)
    in_parts = release_of(database, "hp", Filters(invalid=True)).files
    assert in_parts.keys() == whole.keys()
    for name, content in whole.items():
        # Parquet files have a row group for each part.
        if not name.endswith(".parquet") and name not in ("manifest.json", "croissant.json"):
            assert in_parts[name] == content
    digests = [json.loads(files["manifest.json"])["content_sha256"] for files in (in_parts, whole)]
    assert digests[0] == digests[1]


def test_answers_given_meanwhile_are_not_in_it(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every score is changed after the first part has been read."""
    import_hpfiq(database)
    before = release_of(database, "hs").files
    monkeypatch.setattr(questions, "QUESTIONS_AT_ONCE", 1)
    with database.reading() as session:
        (study,) = list_studies(session)
        source = Source(session, study, "hs", Filters())
        sifted = source.sifted(source.sieve())
        first, *_ = next(sifted)
        with database.writing() as writing:
            for response in writing.scalars(select(Response)):
                response.score_1 = 6 - (response.score_1 or 0)
        kept = [*first, *(question for part, *_ in sifted for question in part)]
    scores = [json.loads(line)["score_1"] for line in before["preferences.jsonl"].splitlines()]
    assert [question.score_1 for question in kept] == scores
    assert release_of(database, "hs").files["preferences.jsonl"] != before["preferences.jsonl"]


@pytest.mark.parametrize("fails", ["write_rows", "write_lines"])
def test_an_error_of_a_thread_ends_the_export(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    def full(*_: object) -> None:
        raise OSError(ENOSPC, "No space left on device")

    monkeypatch.setattr(TableFiles, fails, full)
    schema = pa.schema({"place": pa.int64()})
    with pytest.raises(OSError, match="No space left"), TableWriter(tmp_path, {"t": schema}) as to:
        to.add({"t": [{"place": 1}]})


# ---------------------------------------------------------------------------------------- kill -9


def export() -> None:
    sys.exit(cli.run(["export", *sys.argv[1:]]))


def test_an_export_killed_at_random_moments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No folder or a whole one remains, and the next export clears away what was left."""
    monkeypatch.chdir(tmp_path)
    url = f"sqlite:///{tmp_path / 'study.db'}"
    write_imported_answers(tmp_path / "study.db")
    arguments = ["--database", url, "--release", "hp", "--out", "releases/hp"]
    start = monotonic()
    assert Fork(export, arguments, Path("log.txt")).wait() == 0
    duration = monotonic() - start
    whole = content_of(Path("releases/hp"))
    rng = Random(7)
    for arguments_of_run in (arguments, [*arguments, "--filter-invalid", "--force"]):
        for _ in range(3):
            process = Fork(export, arguments_of_run, Path("log.txt"))
            sleep(rng.uniform(0, duration))
            with suppress(ProcessLookupError):  # it may have ended before
                os.kill(process.pid, signal.SIGKILL)
            process.wait()
            if Path("releases/hp").exists():
                assert content_of(Path("releases/hp")) is not None
    assert hsfiq("export", *arguments, "--force").code == 0
    assert content_of(Path("releases/hp")) == whole
    assert [path.name for path in Path("releases").iterdir()] == ["hp"]


@pytest.fixture
def export_to_hp(tmp_path: Path) -> Callable[[], CommandResult]:
    write_imported_answers(tmp_path / "study.db")
    words = ("--database", f"sqlite:///{tmp_path / 'study.db'}", "--release", "hp")
    return lambda: hsfiq("export", *words, "--out", tmp_path / "hp")


def abandon(folder: Path) -> Path:
    """Make a folder as a killed export leaves it."""
    folder.mkdir()
    (folder / "sets.jsonl").touch()
    return folder


def test_what_was_being_replaced_comes_back(
    export_to_hp: Callable[[], CommandResult], tmp_path: Path
) -> None:
    """A process was killed between the two renamings of a folder that replaces another."""
    assert export_to_hp().code == 0
    (tmp_path / "hp").rename(tmp_path / ".hp-abcdefgh.draft-old")
    abandon(tmp_path / ".hp-abcdefgh.draft")
    assert export_to_hp().out.count("unchanged; nothing was written") == 1
    assert content_of(tmp_path / "hp") is not None
    assert not list(tmp_path.glob(".hp-*"))


def test_drafts_of_killed_exports_are_cleared_away_and_other_hidden_folders_stay(
    export_to_hp: Callable[[], CommandResult], tmp_path: Path
) -> None:
    names = (".hp-mine", ".hp-abcdefgh", ".hp2-abcdefgh.draft")
    others = {abandon(tmp_path / name) for name in names}
    abandon(tmp_path / ".hp-abcdefgh.draft")
    (tmp_path / ".hp-ijklmnop.draft").mkdir()  # killed before it wrote its first file
    assert export_to_hp().code == 0
    assert set(tmp_path.glob(".hp*")) == others
