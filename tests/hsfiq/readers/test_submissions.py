"""Runs in every format, including the test servers' files."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from hsfiq.errors import UnreadableInput
from hsfiq.readers import runs
from tests.hsfiq.samples import RUNS

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
        (CIRR | {"12": ["a", "a"]}, "12: the list of query 12 holds image a twice"),
        (CIRR | {"12": []}, "12: the list of query 12 is empty"),
        ({}, "the run is empty"),
        ({"version": "rc2", "metric": "recall"}, "the run is empty"),
    ],
)
def test_broken_files(value: object, message: str, tmp_path: Path) -> None:
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
