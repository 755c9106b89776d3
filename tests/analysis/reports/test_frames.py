"""Results as DataFrames, and DataFrames as scores and releases."""

from __future__ import annotations

import math
from pathlib import Path

import pandas as pd
import pytest

from hsfiq import analysis
from hsfiq.analysis.statistics.preference import preference_rates
from hsfiq.errors import UnreadableInput
from tests.analysis.reports.helpers import quick_bootstrap
from tests.analysis.studies import Question, make_release

STUDY = [
    Question(1, (4, 2), participant="p1"),
    Question(2, (1, 3), participant="p2"),
    Question(1, (5, 1), participant="p3"),
    Question(2, (2, 2), participant="p3", target=None),
]
RELEASE = make_release(STUDY)
SCORES = RELEASE.sets[["set_id", "score"]]


def test_a_result_has_a_row_for_each_figure() -> None:
    bootstrap = quick_bootstrap(RELEASE)
    rates = preference_rates(RELEASE.preferences, pd.Series(dtype="float64"), bootstrap)
    frame = rates.to_frame()
    assert list(frame.index) == list(rates.to_json())
    assert math.isnan(frame.loc["ge", "rate"])
    assert frame.loc["ge", "reason"] == rates.ge.reason
    values = SCORES.set_index("set_id")["score"].astype("float64")
    frame = preference_rates(RELEASE.preferences, values, bootstrap).to_frame()
    assert frame.loc["symmetric", "rate"] == 1.0
    assert {"low", "high", "n", "coverage"} <= set(frame.columns)
    assert "symmetric" in preference_rates(RELEASE.preferences, values)._repr_html_()


def test_a_report_of_data_frames_is_that_of_files(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    SCORES.to_csv(path, index=False)
    tables = {name: RELEASE.tables[name] for name in ("preferences", "sets", "queries")}
    ours = analysis.report(tables, "mine", {"mine": SCORES}, n_resamples=20, seed=3)
    theirs = analysis.report(RELEASE, ["mine"], [path], n_resamples=20, seed=3)
    assert ours.analysis.to_json()["metrics"] == theirs.analysis.to_json()["metrics"]
    ci = ours.analysis.metrics["mine"].spearman.ci
    assert (ci.n_resamples, ci.seed) == (20, 3)
    frame = ours.to_frame()
    assert frame.loc["mine", "rho"] == ours.analysis.metrics["mine"].spearman.rho
    assert "mine" in ours._repr_html_()
    assert set(ours.tables) == {table.name for table in ours.document.tables()}
    assert ours.tables["table2_spearman"]["metric"].tolist() == ["mine"]


def test_wrong_tables_are_refused() -> None:
    with pytest.raises(UnreadableInput, match="no table queries"):
        analysis.release_of_tables({"preferences": RELEASE.preferences, "sets": RELEASE.sets})
    with pytest.raises(UnreadableInput, match="no column score"):
        analysis.report(RELEASE, "mine", {"mine": SCORES[["set_id"]]})
    unknown = pd.DataFrame({"set_id": ["x"], "score": [1.0]})
    with pytest.raises(UnreadableInput, match="scores mine, row 1"):
        analysis.report(RELEASE, "mine", {"mine": unknown})


def test_a_release_opens_as_tidy_tables() -> None:
    tables = RELEASE.tables
    images = tables["images"]
    assert list(images.columns) == ["set_id", "query_id", "rank", "image_id"]
    assert len(images) == sum(map(len, RELEASE.sets["image_ids"]))
    first = images[images["set_id"] == RELEASE.sets["set_id"].iloc[0]]
    assert first["rank"].tolist() == [1, 2, 3, 4, 5]
    assert first["image_id"].tolist() == list(RELEASE.sets["image_ids"].iloc[0])
    tables["sets"]["score"] = 0
    assert (RELEASE.sets["score"] != 0).any()
