from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from hsfiq.analysis.analyze import analyze
from hsfiq.analysis.data.metrics import ScoreColumn
from hsfiq.analysis.data.scores import find_scores, read_scores, read_scores_by_row, scores_folder
from hsfiq.errors import UnreadableInput
from tests.analysis.studies import Question, make_release

RELEASE = make_release([Question(1), Question(2, participant="p2")])
IDS = ["p1.form_1.0.1", "p1.form_1.0.2", "p2.form_1.1.1", "p2.form_1.1.2"]


def write(path: Path, rows: list[dict[str, object]]) -> Path:
    path.parent.mkdir(exist_ok=True)
    if path.suffix == ".parquet":
        pd.DataFrame(rows).to_parquet(path, index=False)
    elif path.suffix == ".csv":
        pd.DataFrame(rows).to_csv(path, index=False)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def per_set(*scores: float | None) -> list[dict[str, object]]:
    return [{"set_id": name, "score": score} for name, score in zip(IDS, scores, strict=False)]


@pytest.mark.parametrize("ending", ["parquet", "csv", "jsonl"])
def test_scores_per_set(tmp_path: Path, ending: str) -> None:
    path = write(tmp_path / f"mine.{ending}", per_set(0.1, 0.2, None, 1e-300)[::-1])
    values = read_scores(path, RELEASE.sets)
    assert values.index.tolist() == IDS
    assert values.drop(IDS[2]).tolist() == [0.1, 0.2, 1e-300]
    assert math.isnan(values[IDS[2]])


@pytest.mark.parametrize("ending", ["parquet", "csv", "jsonl"])
def test_an_empty_file_is_an_error(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"mine.{ending}"
    path.touch()
    with pytest.raises(UnreadableInput) as error_info:
        read_scores(path, RELEASE.sets)
    assert (error_info.value.where, error_info.value.what) == (str(path), "is empty")
    assert "\n" not in str(error_info.value)


def test_columns_read_at_once_are_those_read_by_row(tmp_path: Path) -> None:
    path = write(tmp_path / "mine.parquet", per_set(0.1, None, 0.3)[::-1])
    at_once, by_row = read_scores(path, RELEASE.sets), read_scores_by_row(path, RELEASE.sets)
    pd.testing.assert_series_equal(at_once, by_row, check_index_type=False)


@pytest.mark.parametrize("ending", ["parquet", "csv", "jsonl"])
def test_the_score_of_a_set_is_the_mean_over_its_images(tmp_path: Path, ending: str) -> None:
    rows: list[dict[str, object]] = [
        {"set_id": IDS[0], "image_id": image, "score": score}
        for image, score in zip("edcba", [0.1, 0.2, 0.3, 0.4, 0.7], strict=True)
    ]
    rows += [{"set_id": IDS[1], "image_id": image, "score": 9.0} for image in "fgha"]
    values = read_scores(write(tmp_path / f"mine.{ending}", rows), RELEASE.sets)
    assert values[IDS[0]] == pytest.approx(0.34, rel=1e-15)
    assert values[IDS[1:]].isna().all(), "set 2 lacks the score of image b"


def test_the_mean_does_not_depend_on_the_order_of_the_images(tmp_path: Path) -> None:
    """Two sets of the same images tie exactly, whatever their ranks."""
    release = make_release([Question(1, images=("abcde", "edcba"))])
    scores = dict(zip("abcde", [0.1, 0.7, 1e16, -1e16, 0.3], strict=True))
    rows: list[dict[str, object]] = [
        {"set_id": name, "image_id": image, "score": score}
        for name in IDS[:2]
        for image, score in scores.items()
    ]
    values = read_scores(write(tmp_path / "mine.csv", rows), release.sets)
    assert values.iloc[0] == values.iloc[1]
    assert values.iloc[0] == pytest.approx(0.22)


def test_ids_that_look_like_numbers_stay_text(tmp_path: Path) -> None:
    release = make_release([Question(1, images=("12345", "67812"))])
    path = tmp_path / "mine.csv"
    lines = [f"{IDS[0]},{image},{image}" for image in "12345"]
    path.write_text("\n".join(["set_id,image_id,score", *lines]), encoding="utf-8-sig")
    assert read_scores(path, release.sets)[IDS[0]] == 3


@pytest.mark.parametrize("separator", [";", "\t"])
def test_a_spreadsheets_separator_and_decimal_comma_are_read(
    tmp_path: Path, separator: str
) -> None:
    path = tmp_path / "mine.csv"
    rows = [("set_id", "score"), (IDS[0], "0,25"), (IDS[1], "1"), (IDS[2], "")]
    lines = [separator.join(row) for row in rows]
    path.write_text("\r\n".join(lines), encoding="utf-8-sig")
    values = read_scores(path, RELEASE.sets)
    assert values[list(IDS[:2])].tolist() == [0.25, 1.0]
    assert np.isnan(values[IDS[2]])


def test_scores_are_read_from_the_scores_folder_and_extra_files(tmp_path: Path) -> None:
    folder = tmp_path / "small-hp-1.0.0"
    folder_scores = scores_folder(folder)
    assert folder_scores == tmp_path / "small-hp-1.0.0.scores"
    assert find_scores(folder) == {}
    kept = write(folder_scores / "cirqrs.parquet", per_set(1.0))
    write(folder_scores / "cirqrs.images.parquet", per_set(1.0))
    extra = write(tmp_path / "mine.images.csv", per_set(1.0))
    assert find_scores(folder, [extra, kept]) == {"cirqrs": kept, "mine": extra}


def test_trailing_dot_still_matches_scores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "small"
    folder.mkdir()
    monkeypatch.chdir(folder)
    assert scores_folder(Path()) == tmp_path / "small.scores"


def test_invalid_scores_files_are_errors(tmp_path: Path) -> None:
    with pytest.raises(UnreadableInput, match=r"must end in \.parquet, \.csv, \.jsonl"):
        find_scores(tmp_path, [tmp_path / "mine.txt"])
    with pytest.raises(UnreadableInput, match=r"mine\.csv: no such file"):
        find_scores(tmp_path, [tmp_path / "mine.csv"])
    paths = [write(tmp_path / name, per_set(1.0)) for name in ("mine.csv", "mine.jsonl")]
    with pytest.raises(UnreadableInput, match=r"mine\.csv already gives mine; rename one"):
        find_scores(tmp_path, paths)
    with pytest.raises(UnreadableInput, match=r"recall@5 is computed from the sets"):
        find_scores(tmp_path, [write(tmp_path / "recall@5.csv", per_set(1.0))])


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.csv", f"set_id,score\n{IDS[0]},1\nx.1,2\n", "a.csv, line 3: unknown set_id x.1"),
        ("a.csv", f"set_id,score\n{IDS[0]},1\n{IDS[0]},2\n", f"line 3: {IDS[0]} occurs twice"),
        ("a.csv", f"set_id,score\n\n{IDS[0]},high\n", 'line 3: score "high" is not a finite'),
        ("a.csv", f"set_id,score\n{IDS[0]},inf\n", 'line 2: score "inf" is not a finite number'),
        ("a.csv", f"set_id,score\n{IDS[0]},1,2\n", "line 2: more fields than the header"),
        ("a.csv", f"set_id,value\n{IDS[0]},1\n", "line 2: no score; columns are set_id, score"),
        ("a.csv", f"set_id,image_id,score\n{IDS[0]},z,1\n", "has no image z; its images are a, b"),
        ("a.csv", "set_id,score\n\xff", "a.csv: cannot be read"),
        ("a.jsonl", f'{{"set_id": "{IDS[0]}", "score": 1}}\n\n{{', "a.jsonl, line 3: is not JSON"),
        ("a.jsonl", "[1]", "line 1: is not a JSON object"),
        ("a.jsonl", '{"set_id": 7, "score": 1}', "line 1: unknown set_id 7"),
        ("a.jsonl", f'{{"set_id": "{IDS[0]}", "score": true}}', 'score "True" is not a finite'),
        ("a.jsonl", f'{{"set_id": "{IDS[0]}", "score": [1]}}', "is not a finite number"),
        (
            "a.jsonl",
            f'{{"set_id": "{IDS[0]}", "score": 1}}\n{{"set_id": "p", "image_id": "a", "score": 1}}',
            "line 2: image_id, which",
        ),
        (
            "a.jsonl",
            f'{{"set_id": "{IDS[0]}", "image_id": "a", "score": 1}}\n{{"set_id": "p", "score": 1}}',
            "line 2: no image_id",
        ),
        ("a.parquet", "no parquet", "a.parquet: cannot be read"),
    ],
)
def test_errors_name_the_place(tmp_path: Path, name: str, text: str, message: str) -> None:
    path = tmp_path / name
    path.write_text(text, encoding="latin-1")
    with pytest.raises(UnreadableInput) as error_info:
        read_scores(path, RELEASE.sets)
    assert message in str(error_info.value)
    assert "\n" not in str(error_info.value)


def test_an_unknown_set_in_parquet_names_the_row(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", [*per_set(1.0), {"set_id": "x.1", "score": 1.0}])
    with pytest.raises(UnreadableInput, match=r"a\.parquet, row 2: unknown set_id x\.1"):
        read_scores(path, RELEASE.sets)


def test_sets_without_a_score_are_counted_and_named(tmp_path: Path) -> None:
    path = write(tmp_path / "mine.csv", per_set(0.5, None))
    release = make_release(
        [Question(1), Question(2, participant="p2")], scores=find_scores(tmp_path / "r", [path])
    )
    result = analyze(release, [ScoreColumn("mine")]).to_json()["metrics"]
    assert isinstance(result, dict)
    assert result["mine"]["missing"] == {"n": 3, "first": IDS[1:]}
    assert result["mine"]["pairs"] == {"n": 0, "metric_ties": 0, "human_ties": 0, "missing": 2}
