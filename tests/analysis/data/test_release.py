from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from hsfiq.analysis.analyze import analyze
from hsfiq.analysis.data.metrics import Recall
from hsfiq.analysis.data.release import Plan, read_release
from hsfiq.errors import UnreadableInput
from tests.analysis.studies import Question, make_release, write_release

STUDY = [
    Question(1, scores=(4, 2), target="a"),
    Question(2, scores=(1, 5), target=None, participant="p2"),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_release(make_release(STUDY), tmp_path / "small-hp-1.0.0")


@pytest.mark.parametrize("study", [[], STUDY])
def test_reading_returns_what_was_written(tmp_path: Path, study: list[Question]) -> None:
    release = make_release(study, simulated=True)
    read = read_release(write_release(release, tmp_path / "small"))
    names = ("name", "version", "kind", "study", "simulated")
    assert [getattr(read, name) for name in names] == [getattr(release, name) for name in names]
    assert analyze(read, [Recall(5)]).to_json() == analyze(release, [Recall(5)]).to_json()


def test_scores_are_read(folder: Path, tmp_path: Path) -> None:
    extra = tmp_path / "mine.csv"
    extra.write_text("set_id,score\n", encoding="utf-8")
    assert dict(read_release(folder, [extra]).scores) == {"mine": extra}


@pytest.mark.parametrize(
    "name", ["manifest.json", "preferences.parquet", "sets.parquet", "queries.parquet"]
)
def test_a_missing_or_broken_file_is_named(folder: Path, name: str) -> None:
    (folder / name).write_bytes(b"PAR1 \xff\n no")
    with pytest.raises(
        UnreadableInput, match=rf"{name}.*: (invalid JSON|this is not UTF-8|cannot be read \()"
    ) as error_info:
        read_release(folder)
    assert "\n" not in str(error_info.value)
    (folder / name).unlink()
    with pytest.raises(UnreadableInput, match=f"{name}: there is no such file; .+"):
        read_release(folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": None}, 'key "name" is missing or not of type str'),
        ({"simulated": "no"}, 'key "simulated" is missing or not of type bool'),
        ({"kind": "hq"}, 'kind is "hq", not "hs" or "hp"'),
        ({"scale": {"points": 3}}, r"score_\d is \d in question_id .*, not from 1 to 3"),
        (None, "is not a JSON object"),
    ],
)
def test_invalid_manifest_is_error(
    folder: Path, change: dict[str, object] | None, message: str
) -> None:
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text("utf-8"))
    path.write_text(json.dumps([] if change is None else {**manifest, **change}), "utf-8")
    with pytest.raises(UnreadableInput, match=message):
        read_release(folder)


@pytest.mark.parametrize(
    ("chosen_by", "is_chosen"),
    [
        ({"strategy": "information", "seed": 0}, True),
        ({"strategy": "random", "seed": 0}, False),
        (None, False),
        ("information", False),
    ],
)
def test_is_chosen_follows_the_manifest(folder: Path, chosen_by: object, is_chosen: bool) -> None:
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text(encoding="utf-8")) | {"chosen_by": chosen_by}
    path.write_text(json.dumps(manifest), encoding="utf-8")
    assert read_release(folder).is_chosen is is_chosen


PLAN: dict[str, object] = {
    "question": "systems", "pair": ["mine", "theirs"], "statistic": "win_rate", "margin": 0.05,
    "alpha": 0.05, "exclusions": ["too-fast(seconds=2)"], "opened_at": "2026-03-01T09:30:00+00:00",
}  # fmt: skip


def declare(folder: Path, plan: object) -> None:
    path = folder / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | {"analysis": plan}), "utf-8")


def test_the_declared_plan_is_read(folder: Path) -> None:
    assert read_release(folder).plan is None
    declare(folder, PLAN)
    assert read_release(folder).plan == Plan(
        "systems",
        ("mine", "theirs"),
        "win_rate",
        0.05,
        0.05,
        ("too-fast(seconds=2)",),
        "2026-03-01T09:30:00+00:00",
    )
    declare(folder, PLAN | {"pair": None, "margin": None, "exclusions": [], "opened_at": None})
    plan = read_release(folder).plan
    assert plan is not None
    assert (plan.pair, plan.margin, plan.exclusions, plan.opened_at) == (None, None, (), None)


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        ("systems", "analysis: expected an object"),
        ({"question": "systems"}, "analysis: the key 'pair' is missing"),
        (PLAN | {"question": "people"}, "analysis.question: 'people' is not one of"),
        (PLAN | {"question": ["systems"]}, "analysis.question: expected text"),
        (PLAN | {"pair": "mine"}, "analysis.pair: expected a list"),
        (PLAN | {"pair": ["mine"]}, "analysis.pair: must name two different systems"),
        (PLAN | {"pair": ["mine", "mine"]}, "analysis.pair: must name two different systems"),
        (PLAN | {"pair": ["mine", "x\ny"]}, "analysis.pair: has an empty name, or one with"),
        (PLAN | {"statistic": "spearman"}, "analysis.statistic: 'spearman' is not one of"),
        (PLAN | {"margin": 0.5}, "analysis.margin: 0.5 is not between 0 and 0.5"),
        (PLAN | {"margin": "small"}, "analysis.margin: expected a number"),
        (PLAN | {"alpha": 0}, "analysis.alpha: 0 is not between 0 and 0.5"),
        (PLAN | {"exclusions": [1]}, r"analysis.exclusions\[0\]: expected text"),
        (PLAN | {"opened_at": "at noon"}, "analysis.opened_at: expected a time"),
    ],
)
def test_an_impossible_plan_is_refused(folder: Path, plan: object, message: str) -> None:
    declare(folder, plan)
    with pytest.raises(UnreadableInput, match=rf"manifest\.json: {message}"):
        read_release(folder)


@pytest.mark.parametrize(
    ("table", "column"),
    [("preferences", "preferred"), ("sets", "image_ids"), ("queries", "target_id")],
)
def test_a_missing_column_is_named(folder: Path, table: str, column: str) -> None:
    path = folder / f"{table}.parquet"
    pd.read_parquet(path).drop(columns=column).to_parquet(path)
    with pytest.raises(UnreadableInput, match=rf"{table}\.parquet: column {column} is missing"):
        read_release(folder)


@pytest.mark.parametrize(
    ("table", "column", "values", "message"),
    [
        ("preferences", "preferred", [1, 3], "preferred is 3 in question p2.form_1.1, not 1, 2"),
        ("preferences", "preferred", ["1", "2"], "column preferred holds str, not whole numbers"),
        ("preferences", "participant_id", ["p1", None], "column participant_id is null in row 2"),
        ("preferences", "question_id", ["q", "q"], "question_id occurs twice: q"),
        (
            "preferences",
            "set_1",
            ["x.1", "y.1"],
            "lacks the set referenced by other tables: x",
        ),
        ("preferences", "set_2", ["p1.form_1.0.1", "p2.form_1.1.2"], "belongs to two questions"),
        ("sets", "score", [1.0, 2.5, 3.0, 4.0], "column score holds float64, not whole numbers"),
        ("sets", "score", [1, 2, 8, 4], "score is 8 in set_id p2.form_1.1.1, not from 1 to 7"),
        ("preferences", "score_2", [0, 3], "score_2 is 0 in question_id p1.form_1.0, not from 1"),
        ("preferences", "query_id", ["q", "q"], "queries.parquet: lacks the query referenced by"),
        (
            "sets",
            "question_id",
            list("xxyy"),
            "preferences.parquet: lacks the question referenced by",
        ),
        ("sets", "set_id", list("aabc"), "set_id occurs twice: a"),
        ("sets", "image_ids", ["abcde"] * 4, "image_ids does not hold lists"),
        ("queries", "query_id", ["x", "y"], "queries.parquet: lacks the query"),
    ],
)
def test_invalid_tables(table: str, column: str, values: list[object], message: str) -> None:
    release = make_release(STUDY)
    frame = getattr(release, table).assign(**{column: values})
    with pytest.raises(UnreadableInput) as error_info:
        replace(release, **{table: frame})
    assert message in str(error_info.value)


def test_a_set_without_its_question_is_an_error() -> None:
    release = make_release(STUDY)
    with pytest.raises(UnreadableInput, match=r"preferences.parquet: lacks the set .* p2.form_1.1"):
        replace(release, preferences=release.preferences.head(1))
