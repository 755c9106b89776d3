"""The caveats that the report derives from the data."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from hsfiq import analysis
from hsfiq.analysis.data.release import Release
from tests.analysis.reports.helpers import quick_bootstrap
from tests.analysis.studies import bootstrap_of, make_release
from tests.analysis.test_published import ANSWERS, read_published


def test_caveats_describe_release(overlapping: tuple[Release, pd.Series], tmp_path: Path) -> None:
    preferences = overlapping[0].preferences.copy()
    preferences.loc[0, "preferred"] = 0
    release = replace(overlapping[0], simulated=False, folder=tmp_path, preferences=preferences)
    funnel = {"steps": [{"rule": "irrelevant", "dropped": 7}, {"rule": "skipped", "dropped": 0}]}
    funnel["steps"].append({"rule": "failed-checks", "dropped": None})
    (tmp_path / "manifest.json").write_text(json.dumps({"funnel": funnel}), encoding="utf-8")
    path = tmp_path / "half.csv"
    half = release.sets["set_id"].iloc[::2]
    half.to_frame().assign(score=range(len(half))).to_csv(path, index=False)
    report = analysis.report(release, ["half"], [path], quick_bootstrap(release))
    caveats = dict(report.document.caveats)
    assert "24 people compared" in caveats["The data"]
    assert "only 24 participants" in caveats["Few participants"]
    assert report.document.answer is not None
    excluded, unknown = report.document.answer.excluded.split(". ")
    assert "7 flagged irrelevant" in excluded
    assert "a failed check" in unknown
    assert "In 1 question neither" in caveats["Human ties"]
    (notice,) = report.document.answer.notices
    assert "half has no value for 720 sets" in notice[1]
    assert "1,440 of 1,440 sets" in caveats["Overlap between annotators"]
    assert "Inter-annotator agreement is unknown" not in caveats


@pytest.mark.shared
@pytest.mark.skipif(not ANSWERS.is_file(), reason=f"no {ANSWERS}; set HSFIQ_SHARED")
def test_caveats_and_captions_of_the_published_answers() -> None:
    release = make_release(read_published(ANSWERS))
    report = analysis.report(release, ["recall@5"], (), bootstrap_of(release, 500))
    caveats = dict(report.document.caveats)
    dependence = caveats["Preferences and scores are not independent evidence"]
    assert "Set 1 was preferred in 0.540" in caveats["The base rate is not 0.5"]
    assert "recall@5 from 0.508 to 0.812" in caveats["Preference rates depend on the rule"]
    assert "98.7% prefer the higher score" in dependence
    assert "None of 4,000 sets" in caveats["Inter-annotator agreement is unknown"]
    captions = {chart.name: chart.caption for chart in report.document.charts()}
    assert "from 0.508 (ge, labels swapped) to 0.812 (gt)" in captions["rules"]
    assert "rho = 0.155" in captions["spearman"]
