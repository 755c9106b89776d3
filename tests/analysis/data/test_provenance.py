"""Parts of a split: their figures equal those of a release with only that part."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hsfiq import analysis
from hsfiq.analysis.analyze import analyze
from hsfiq.analysis.data.metrics import parse_metric
from hsfiq.analysis.data.provenance import take_part, training_notes
from hsfiq.analysis.data.release import Release, read_release
from hsfiq.analysis.reports.report import analysis_text
from hsfiq.analysis.resampling.bootstrap import UNITS, Bootstrap, Unit
from hsfiq.cli import run
from hsfiq.errors import NothingToDo, UnreadableInput
from tests.analysis.studies import Question, bootstrap_of, make_release, write_release

METRICS = ("recall@5", "mine")
SYSTEM = "alpha"
OF_PARTICIPANTS = {"p0": "test", "p1": "test", "p2": "unused", "p3": "test"}
"""The other participants train. Parts are drawn by participant, so some are in no resample."""


def study() -> list[Question]:
    rng = np.random.default_rng(4)
    return [
        Question(
            preferred=int(rng.integers(0, 3)),
            scores=(int(rng.integers(1, 6)), int(rng.integers(1, 6))),
            images=("".join(rng.permutation(list("abcdefgh"))[:5]), "abcde"),
            target="a" if rng.random() < 0.8 else None,
            participant=f"p{person}",
        )
        for person in range(8)
        for _ in range(6)
    ]


def part_of(question: str) -> str:
    return OF_PARTICIPANTS.get(question.partition(".")[0], "train")


def write_parts(folder: Path, parts: Mapping[str, str | None]) -> None:
    rows = [{"question_id": question, "part": part} for question, part in parts.items()]
    schema = pa.schema([("question_id", pa.string()), ("part", pa.string())])
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), folder / "splits.parquet")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release with systems, a split, and two scores files, one lacking a score."""
    release = make_release(study())
    release = replace(
        release,
        preferences=release.preferences.assign(system_1=SYSTEM, system_2="beta"),
        sets=release.sets.assign(system=release.sets["side"].map({1: SYSTEM, 2: "beta"})),
        content_sha256="of this release",
    )
    folder = write_release(release, tmp_path_factory.mktemp("whole") / "small-hp-1.0.0")
    write_parts(folder, {name: part_of(name) for name in release.preferences["question_id"]})
    scores = folder.with_name(f"{folder.name}.scores")
    scores.mkdir()
    rng = np.random.default_rng(5)
    for name in ("mine", SYSTEM):
        values = release.sets[["set_id"]].assign(score=rng.normal(size=96).round(1))
        values.drop(index=7).to_parquet(scores / f"{name}.parquet")
    return folder


def filtered(folder: Path, part: str, copy: Path) -> Path:
    """The release with only these questions, filtered row by row, without the split."""
    copy.mkdir()
    (copy / "manifest.json").write_bytes((folder / "manifest.json").read_bytes())
    scores = copy.with_name(f"{copy.name}.scores")
    scores.mkdir()
    written = (*folder.glob("*.parquet"), *folder.with_name(f"{folder.name}.scores").iterdir())
    for path in sorted(written):
        table = pq.read_table(path)
        kept = [
            row
            for row in table.to_pylist()
            if part_of(row.get("question_id") or row.get("set_id") or row["query_id"][6:]) == part
        ]
        if path.name != "splits.parquet":
            destination = copy if path.parent == folder else scores
            pq.write_table(pa.Table.from_pylist(kept, schema=table.schema), destination / path.name)
    return copy


def analyzed(release: Release, unit: Unit = "participant") -> dict[str, Any]:
    bootstrap = Bootstrap.of_release(release, unit=unit, n_resamples=30)
    result = analyze(release, [parse_metric(name) for name in METRICS], bootstrap, in_detail=True)
    written: dict[str, Any] = json.loads(json.dumps(result.to_json(), allow_nan=False))
    return written


@pytest.mark.parametrize(
    ("part", "unit"),
    [*(("test", unit) for unit in UNITS), ("train", "participant"), ("unused", "triplet")],
)
def test_a_part_equals_filtered_tables(folder: Path, tmp_path: Path, part: str, unit: Unit) -> None:
    ours = analyzed(take_part(read_release(folder), part), unit)
    theirs = analyzed(read_release(filtered(folder, part, tmp_path / "part")), unit)
    n = {"train": 24, "test": 18, "unused": 6}[part]
    expected = {"part": part, "n_questions_in_all": 48, "n_questions": n}
    assert {key: ours["release"].pop(key) for key in expected} == expected
    assert theirs["release"].pop("part") is None
    assert theirs["release"].pop("n_questions_in_all") == theirs["release"].pop("n_questions") == n
    assert ours == theirs
    assert ours["systems"]["systems"][SYSTEM]["own_similarity"]["n"] > 0


def test_the_order_of_the_splits_rows_does_not_matter(folder: Path, tmp_path: Path) -> None:
    before = analyzed(take_part(read_release(folder), "test"))
    release = replace(read_release(folder), folder=tmp_path)
    split = pq.read_table(folder / "splits.parquet")
    pq.write_table(split.take(list(range(len(split)))[::-1]), tmp_path / "splits.parquet")
    assert analyzed(take_part(release, "test")) == before


def test_outputs_name_the_part(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = "eld-out part (test) of the release: 18 of 48 questions"
    command = ["analyze", str(folder), "--metric", "mine", "--part", "test", "--resamples", "20"]
    assert run([*command, "--report", str(tmp_path / "report")]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert (
        f"18 questions, 3 people, 18 triplets (none judged by several people), h{expected}" in text
    )
    page = (tmp_path / "report" / "report.html").read_text(encoding="utf-8")
    assert page.count(f"h{expected}") == 1
    assert page.count(f"H{expected}.") == 1  # in the limits of the data
    results = json.loads((tmp_path / "report" / "results.json").read_text(encoding="utf-8"))
    assert results["release"]["part"] == "test"
    assert run([*command[:4], "--resamples", "20"]) == 0
    assert "of the release" not in capsys.readouterr().out


def test_empty_parts_exit_1(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    release = replace(read_release(folder), folder=tmp_path)
    write_parts(tmp_path, dict.fromkeys(release.preferences["question_id"], "train"))
    with pytest.raises(NothingToDo, match=r"splits\.parquet: no question is in part test$"):
        take_part(release, "test")
    copy = filtered(folder, "test", tmp_path / "hp")
    questions = pd.read_parquet(copy / "preferences.parquet")["question_id"]
    write_parts(copy, dict.fromkeys(questions, "test"))
    assert run(["analyze", str(copy), "--metric", "recall@5", "--part", "unused"]) == 1
    printed = capsys.readouterr()
    assert (printed.out, len(printed.err.splitlines())) == ("", 1)


ODD = "p1.form_1.6"
LACKING = "lacks the question"
UNKNOWN = "references the question absent from other tables: x; export the"


def with_part(split: pd.DataFrame, part: str | None) -> pd.DataFrame:
    """The split with another part for one question."""
    parts = split["part"].astype(object)
    return split.assign(part=parts.where(split["question_id"] != ODD, part))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda split: with_part(split, None), "column part is null in row 7"),
        (lambda split: with_part(split, "dev"), f"part is dev in question {ODD}, not train,"),
        (lambda split: pd.concat([split, split.head(1)]), "question_id occurs twice: p0.form_1.0"),
        (lambda split: pd.concat([split, split.head(1).replace("p0.form_1.0", "x")]), UNKNOWN),
        (lambda split: split[split["question_id"] != ODD], f"{LACKING} referenced by other tables"),
        (lambda split: split.assign(question_id=range(len(split))), LACKING),
        (lambda split: split.drop(columns="part"), "column part is missing; export the release"),
        (lambda split: split.assign(part=[["test"]] * len(split)), "part is ['test'] in question"),
    ],
)
def test_an_invalid_split_is_an_error(
    folder: Path, tmp_path: Path, change: Callable[[pd.DataFrame], pd.DataFrame], message: str
) -> None:
    change(pd.read_parquet(folder / "splits.parquet")).to_parquet(tmp_path / "splits.parquet")
    assert_told(replace(read_release(folder), folder=tmp_path), message)


def test_a_missing_or_unreadable_split_is_an_error(folder: Path, tmp_path: Path) -> None:
    release = replace(read_release(folder), folder=tmp_path)
    assert_told(release, "there is no such file; export the release again, with --split")
    (tmp_path / "splits.parquet").write_bytes(b"PAR1 no")
    assert_told(release, "cannot be read (")
    with pytest.raises(UnreadableInput, match="no such part: dev; use one of train, test, unused"):
        take_part(release, "dev")


def assert_told(release: Release, message: str) -> None:
    with pytest.raises(UnreadableInput) as error_info:
        take_part(release, "test")
    assert str(error_info.value).startswith(f"{release.folder / 'splits.parquet'}: {message}")
    assert error_info.value.exit_code == 2
    assert "\n" not in str(error_info.value)


SOURCE = {"name": "small", "version": "1.0.0", "content_sha256": "of this release"}
OLDER = {"name": "small", "version": "0.9.0", "content_sha256": "another"}
FOREIGN = {"name": "big", "version": "1.0.0", "content_sha256": "of another study"}


def with_provenance(folder: Path, destination: Path, provenance: object) -> Release:
    """The release with scores `mine` in a separate folder, and this provenance file."""
    scores = destination / "mine.csv"
    pd.read_parquet(folder.with_name(f"{folder.name}.scores") / "mine.parquet").to_csv(scores)
    (destination / "mine.json").write_text(json.dumps(provenance), encoding="utf-8")
    return replace(read_release(folder), scores={"mine": scores})


def test_a_scorer_retrained_on_these_answers_is_noted(folder: Path, tmp_path: Path) -> None:
    release = with_provenance(folder, tmp_path, {"metric": "mine", "trained_on": [SOURCE]})
    (expected,) = training_notes(release, METRICS)
    assert expected.startswith('metric "mine" comes from a scorer that was retrained on answers of')
    assert expected.endswith("over all questions are too high: use --part test")
    assert training_notes(release, ["recall@5"]) == ()
    assert training_notes(take_part(release, "test"), METRICS) == ()
    for part in ("train", "unused"):
        (note,) = training_notes(take_part(release, part), METRICS)
        assert note == expected.replace("all questions", "this part")
    retrained = replace(release, folder=tmp_path)
    (note,) = training_notes(retrained, METRICS)
    assert "and no question was held out: its figures are too high; export the" in note


@pytest.mark.parametrize("part", [None, "test"])
def test_a_release_of_the_same_name_may_hold_the_same_answers(
    folder: Path, tmp_path: Path, part: str | None
) -> None:
    release = with_provenance(folder, tmp_path, {"metric": "mine", "trained_on": [OLDER]})
    (note,) = training_notes(release if part is None else take_part(release, part), METRICS)
    assert "retrained on small 0.9.0, not on this release; if the releases share triplets" in note


@pytest.mark.parametrize("sources", [[SOURCE, FOREIGN], [FOREIGN, SOURCE], [SOURCE, SOURCE]])
def test_every_release_that_a_scorer_was_retrained_on_is_checked(
    folder: Path, tmp_path: Path, sources: list[object]
) -> None:
    release = with_provenance(folder, tmp_path, {"metric": "mine", "trained_on": sources})
    note, *other_notes = training_notes(release, METRICS)
    assert note.endswith("use --part test")
    assert len(other_notes) == (FOREIGN in sources)
    assert all("not on this release" in note for note in other_notes)
    assert training_notes(take_part(release, "test"), METRICS) == tuple(other_notes)


def test_held_out_questions_may_be_in_an_older_release(folder: Path, tmp_path: Path) -> None:
    oldest = {**OLDER, "version": "0.8.0", "content_sha256": "a third"}
    sources = [oldest, OLDER, FOREIGN, SOURCE, {**OLDER, "content_sha256": "a fourth"}]
    release = with_provenance(folder, tmp_path, {"metric": "mine", "trained_on": sources})
    own_note, other_notes = training_notes(release, METRICS)
    assert own_note.endswith("use --part test")
    assert "small 0.8.0, small 0.9.0" in other_notes
    assert "not on this release" in other_notes
    assert training_notes(take_part(release, "test"), METRICS) == (other_notes,)


@pytest.mark.parametrize(
    "provenance",
    [
        {"metric": "mine"},
        {"metric": "mine", "trained_on": []},
        {"metric": "mine", "trained_on": ["small", None]},
        {"metric": "mine", "trained_on": SOURCE},
        {"metric": "mine", "trained_on": "small"},
        ["mine"],
    ],
)
def test_other_provenances_give_no_note(folder: Path, tmp_path: Path, provenance: object) -> None:
    release = with_provenance(folder, tmp_path, provenance)
    assert training_notes(release, METRICS) == ()
    assert training_notes(replace(release, content_sha256=None), METRICS) == ()
    (tmp_path / "mine.json").write_bytes(b"\xff{")
    assert training_notes(release, METRICS) == ()


def test_the_note_is_in_every_output(folder: Path, tmp_path: Path) -> None:
    release = with_provenance(folder, tmp_path, {"metric": "mine", "trained_on": [SOURCE]})
    for source, n in ((release, 1), (take_part(release, "test"), 0)):
        report = analysis.report(source, METRICS, (), bootstrap_of(source, 20))
        results = json.loads(json.dumps(report.to_json()))
        assert len(results["notes"]) == n
        text = analysis_text(report.analysis)
        assert text.count('NOTE: Metric "mine" comes from a scorer') == n
        assert " ".join(text.split()).count("use --part test") == n
        assert max(map(len, text.splitlines())) <= 100
        assert report.to_html().count("use --part test.") == n
