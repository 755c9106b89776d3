"""Systems' ranked lists in every format, including the test servers' files."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path

import pytest
from sqlalchemy import select

from hsfiq.db.engine import Database
from hsfiq.db.source_tables import Image, Query, RankedList, System
from hsfiq.errors import UnreadableInput
from hsfiq.importing import Imported, existing_dataset, import_runs
from hsfiq.readers import runs
from tests.hsfiq.samples import RUNS, import_fashioniq

LISTS = {"shirt.val.0": ("tgt_a", "s1", "s2"), "shirt.val.1~": ("s5", "tgt_b", "s9")}


@pytest.mark.parametrize("name", ["sprc.json", "sprc.jsonl", "sprc.trec"])
def test_the_three_formats_are_equivalent(name: str) -> None:
    """The option overrides the file, and a plain object needs it."""
    lists = runs.read(RUNS / name, "mine")
    assert {ranked.query_id: ranked.images for _, ranked in lists} == LISTS
    assert {ranked.system for _, ranked in lists} == {"mine"}
    scores = None if name == "sprc.json" else (0.9, 0.5, 0.25)
    assert {ranked.scores for _, ranked in lists} == {scores}
    if name != "sprc.json":
        assert {ranked.system for _, ranked in runs.read(RUNS / name)} == {"SPRC"}


def test_ids_may_be_whole_numbers_and_hold_line_separators(tmp_path: Path) -> None:
    (tmp_path / "it.json").write_text('{"0": [57413, "8"]}', encoding="utf-8")
    (tmp_path / "it.jsonl").write_text('{"query_id": 0, "images": [57413, 8]}', encoding="utf-8")
    for name in ("it.json", "it.jsonl"):
        path = tmp_path / name
        ((_, ranked),) = runs.lists_in_text(path.read_text(encoding="utf-8"), path)
        assert (ranked.query_id, ranked.system, ranked.images) == ("0", "", ("57413", "8"))
    line = {"query_id": "a\N{LINE SEPARATOR}b", "images": ["x"], "system": "S"}
    path.write_text(json.dumps(line, ensure_ascii=False) + "\n", encoding="utf-8")
    assert [ranked.query_id for _, ranked in runs.read(path)] == ["a\N{LINE SEPARATOR}b"]


def jsonl(**values: object) -> str:
    return json.dumps({"query_id": "q", "images": ["a", "b"], "system": "S"} | values)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the run is empty"),
        (" \n\n", "the run is empty"),
        ("q Q0 a 1 0.9 S\nq Q0 b 2 0.8\n", "line 2: 5 columns, but a TREC run has 6"),
        ("q Q0 a b 1 0.9 S\n", "line 1: 7 columns"),
        ("q Q0 a first 0.9 S\n", "line 1: rank 'first' is not a whole number"),
        ("q Q0 a 1 nan S\n", "line 1: nan is not a number"),
        ("q Q0 a 1 1e999 S\n", "line 1: inf is too large to be stored"),
        ("q Q0 a 1 0.9 S\nq Q0 b 1 0.9 S\n", "line 2: query q has rank 1 twice"),
        ("q Q0 a 1 0.9 S\nq Q0 a 2 0.9 S\n", "line 1: the list of query q contains image a twice"),
        (f"q Q0 a 1 0.9 {'S' * 201}\n", "line 1: an id must have 1 to 200 characters"),
        ("query_id,system,rank,image_id,score\nq,S,1,a,NaN\n", "line 2: nan is not a number"),
        ('["a", "b"]', "use a TREC run, JSONL, CSV with column names or {query id: [image ids]}"),
        ("\ufeff" + jsonl(rank=1), "line 1: unknown key 'rank'"),
        ('{"q": "a"}', "q: expected a list, found 'a'"),
        ('{"q": []}', "q: the list of query q is empty"),
        ('{"q": ["a"], "q": ["b"]}', "the key 'q' occurs twice"),
        ('{"q": ["a", "a"]}', "q: the list of query q contains image a twice"),
        (jsonl(scores=[math.nan, 0]), "line 1: NaN is not a JSON value"),
        (jsonl() + "\n{\n", "line 2, column 2: invalid JSON"),
        (jsonl() + "\n" + jsonl(images=["c"]), "line 2: query q occurs twice for S"),
        (jsonl(rank=1), "line 1: unknown key 'rank'"),
        (jsonl(scores=[1]), "line 1: the list of query q has 2 images but 1 scores"),
        (jsonl(scores=[1, "2"]), "line 1.scores[1]: expected a number, found '2'"),
        (jsonl(scores=[1, 10**400]), "line 1.scores[1]: 1000"),
        (jsonl(system=None), "line 1: the run does not name its system"),
        (jsonl(system=3), "line 1.system: expected text, found 3"),
        (jsonl(images=["a", 4.0]), "line 1.images[1]: expected text, found 4.0"),
        (jsonl(images=["a", True]), "line 1.images[1]: expected an integer, found true"),
        (jsonl(images=["4", 4]), "line 1: the list of query q contains image 4 twice"),
        (jsonl() + "\n3", "line 2: expected an object, found 3"),
    ],
)
def test_broken_runs(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "run"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UnreadableInput) as error:
        runs.read(path, "mine" if text.startswith('{"q":') else None)
    assert str(error.value).startswith(str(path))
    assert message in str(error.value)


# ----------------------------------------------------------------------------------------- import


def import_run(database: Database, path: Path, system: str | None = None) -> Imported:
    lists = runs.read(path, system)
    with database.writing() as session:
        return import_runs(session, existing_dataset(session, "fashioniq"), lists)


def stored(database: Database) -> dict[tuple[str, str], list[str]]:
    with database.reading() as session:
        names = dict(session.execute(select(Image.id, Image.name)).all())
        lists = session.execute(
            select(System.name, Query, RankedList.image_ids)
            .join(RankedList, RankedList.system_id == System.id)
            .join(Query, RankedList.query_id == Query.id)
        )
        return {
            (system, query.triplet.external_id + query.suffix): [names[key] for key in keys]
            for system, query, keys in lists
        }


def test_reversed_queries_are_created_on_demand(database: Database) -> None:
    """The same run in another format adds nothing."""
    import_fashioniq(database)
    assert import_run(database, RUNS / "sprc.trec") == Imported(2, 0)
    lists = {("SPRC", query): list(images) for query, images in LISTS.items()}
    assert stored(database) == lists
    with database.reading() as session:
        texts = set(session.scalars(select(Query.text)))
    assert texts == {"is red and has no collar", "is it darker? and is longer."}
    assert import_run(database, RUNS / "sprc.jsonl") == Imported(0, 2)
    assert import_run(database, RUNS / "sprc.json", "SPRC") == Imported(0, 2)
    assert stored(database) == lists


@pytest.mark.parametrize("name", ["a\nb", "a\x1b[31mb", "a\x85b", "a\u2028b"])
def test_names_of_systems_have_no_control_characters(tmp_path: Path, name: str) -> None:
    path = tmp_path / "run.jsonl"
    path.write_text(json.dumps({"query_id": "q1", "images": ["a"], "system": name}))
    for system in (None, name):
        with pytest.raises(UnreadableInput, match="control character"):
            runs.read(path, system)


CIRR = {"version": "rc2", "metric": "recall", "12": ["a", "b"]}


def write(path: Path, value: object) -> Path:
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


@pytest.mark.parametrize("metric", runs.METRICS)
def test_a_file_for_cirrs_server(metric: runs.CirrMetric, tmp_path: Path) -> None:
    run = runs.read_run(write(tmp_path / "it.json", CIRR | {"metric": metric}))
    assert (run.form, run.metric) == ("object", metric)
    ((location, ranked),) = run.lists
    assert location == f"{tmp_path / 'it.json'}: 12"
    assert (ranked.query_id, ranked.images) == ("12", ("a", "b"))


@pytest.mark.parametrize(
    ("name", "form"), [("sprc.json", "object"), ("sprc.jsonl", "other"), ("sprc.trec", "other")]
)
def test_other_runs_need_no_system(name: str, form: str) -> None:
    run = runs.read_run(RUNS / name)
    assert (run.form, run.metric) == (form, None)
    assert {ranked.system for _, ranked in run.lists} == ({""} if form == "object" else {"SPRC"})


def test_a_run_may_come_through_a_pipe() -> None:
    reader, writer = os.pipe()
    os.write(writer, b'{"query_id": "12", "images": ["a"]}\n')
    os.close(writer)
    try:
        ((_, ranked),) = runs.read_run(Path(f"/dev/fd/{reader}")).lists
    finally:
        os.close(reader)
    assert (ranked.query_id, ranked.images) == ("12", ("a",))


def test_a_query_may_be_called_version(tmp_path: Path) -> None:
    run = runs.read_run(write(tmp_path / "it.json", {"version": ["a"], "metric": ["b"]}))
    assert [ranked.query_id for _, ranked in run.lists] == ["version", "metric"]
    assert run.metric is None


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"version": "rc2", "12": ["a"]}, "the key 'metric' is missing"),
        ({"metric": "recall", "12": ["a"]}, "the key 'version' is missing"),
        (CIRR | {"version": "rc1"}, "version: 'rc1' is not 'rc2'"),
        (CIRR | {"version": 2}, "version: 2 is not 'rc2'"),
        (CIRR | {"metric": "map"}, "metric: 'map' is not one of recall, recall_subset"),
        (CIRR | {"metric": {}}, "metric: an object is not one of recall"),
        (CIRR | {"12": ["a", "a"]}, "12: the list of query 12 contains image a twice"),
        (CIRR | {"12": []}, "12: the list of query 12 is empty"),
        ({}, "the run is empty"),
        ({"version": "rc2", "metric": "recall"}, "the run is empty"),
    ],
)
def test_broken_files_for_cirrs_server(value: object, message: str, tmp_path: Path) -> None:
    with pytest.raises(UnreadableInput) as error:
        runs.read_run(write(tmp_path / "it.json", value))
    assert message in str(error.value)
    assert str(tmp_path / "it.json") in str(error.value)


def test_written_files_are_read_back(tmp_path: Path) -> None:
    path = tmp_path / "it.json"
    path.write_bytes(runs.write_cirr("recall_subset", {"12": ("a", "b", "c")}))
    run = runs.read_run(path)
    assert run.metric == "recall_subset"
    assert [ranked.images for _, ranked in run.lists] == [("a", "b", "c")]
    path.write_bytes(runs.write_circo({"0": ("57413", "8")}))
    assert path.read_text() == '{"0":[57413,8]}'
    assert [ranked.images for _, ranked in runs.read_run(path).lists] == [("57413", "8")]
