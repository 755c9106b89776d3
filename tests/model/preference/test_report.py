"""The report of a retraining: its figures against slow references, and their order."""

from __future__ import annotations

from statistics import fmean

import numpy as np
import pytest

from hsfiq.analysis.data.release import Release
from hsfiq.analysis.resampling.bootstrap import Bootstrap
from hsfiq.model.preference.report import (
    figure_table,
    figures_worst_first,
    summary_lines,
    with_interval,
)
from hsfiq.model.preference.report_statistics import (
    BINS,
    Predictions,
    calibration,
    measure_recall,
    worst_first,
)
from tests.analysis.studies import Question, make_release

N = 60


@pytest.fixture(scope="module")
def release() -> Release:
    rng = np.random.default_rng(1)
    return make_release([Question(int(rng.integers(3)), participant=f"p{i % 4}") for i in range(N)])


def test_calibration_is_counted_over_answers_that_prefer(release: Release) -> None:
    rng = np.random.default_rng(2)
    predicted = dict(zip(release.preferences["question_id"], rng.random(N), strict=True))
    both = dict.fromkeys(("before", "after"), Predictions(scores={}, shares=predicted))
    result = calibration(release, both, Bootstrap.of_release(release))
    answers = [
        (predicted[row.question_id], float(row.preferred == 1))
        for row in release.preferences.itertuples()
        if row.preferred != 0
    ]
    assert result["n"] == len(answers) == N - result["human_ties"]
    brier, ece = result["figures"]
    assert brier["before"]["value"] == pytest.approx(fmean((p - y) ** 2 for p, y in answers))
    assert brier["difference"] == {"value": 0.0, "ci": [None, None]}
    bins = result["after"]["bins"]
    distances = [each["n"] * abs(each["said"] - each["preferred"]) for each in bins]
    assert ece["after"]["value"] == pytest.approx(sum(distances) / len(answers))
    low, high = ece["after"]["ci"]
    assert 0 <= low < high
    assert ece["difference"] == {"value": 0.0, "ci": [None, None]}
    assert sum(each["n"] for each in bins) == len(answers)
    for each in bins:
        inside = [(p, y) for p, y in answers if each["low"] <= p < each["high"]]
        assert each["n"] == len(inside)
        assert each["said"] == pytest.approx(fmean(p for p, _ in inside))
        assert each["preferred"] == pytest.approx(fmean(y for _, y in inside))
        assert round((each["high"] - each["low"]) * BINS) == 1


def test_a_probability_of_1_is_in_the_last_bin(release: Release) -> None:
    shares = dict.fromkeys(release.preferences["question_id"], 1.0)
    both = dict.fromkeys(("before", "after"), Predictions(scores={}, shares=shares))
    result = calibration(release, both, Bootstrap.of_release(release))
    (bin_,) = result["after"]["bins"]
    assert (bin_["low"], bin_["high"], bin_["said"]) == (0.9, 1.0, 1.0)


def test_recall_is_the_mean_over_corpora() -> None:
    before = {"dress": 5 * [1, 2, 9, 30], "shirt": 5 * [1, 100]}
    after = {"dress": 5 * [3, 12, 9, 30], "shirt": 5 * [1, 5]}
    result = measure_recall({"before": before, "after": after}, (1, 10), seed=0)
    assert result["n_triplets"] == 30
    figures = {figure["name"]: figure for figure in result["figures"]}
    assert figures["recall@1"]["before"]["value"] == pytest.approx((1 / 4 + 1 / 2) / 2)
    assert figures["recall@1"]["after"]["value"] == pytest.approx((0 + 1 / 2) / 2)
    assert figures["recall@10"]["before"]["value"] == pytest.approx((3 / 4 + 1 / 2) / 2)
    assert figures["recall@10"]["difference"]["value"] == pytest.approx((2 / 4 + 2 / 2) / 2 - 0.625)
    assert [figure["name"] for figure in result["figures"]] == ["recall@1", "recall@10"]
    low, high = figures["recall@10"]["difference"]["ci"]
    assert low <= 0.125 <= high


def entry(name: str, better: str, change: float | None) -> dict[str, object]:
    side = {"value": 0.5, "ci": [0.4, 0.6]}
    difference = {"value": change, "ci": [None, None] if change is None else [change, change]}
    return {"name": name, "better": better, "before": side, "after": side, "difference": difference}


def test_worse_figures_come_first() -> None:
    figures = [
        entry("gained", "higher", 0.2),
        entry("unknown", "higher", None),
        entry("lost", "higher", -0.1),
        entry("lost most", "lower", 0.3),
        entry("same", "lower", 0.0),
    ]
    names = [figure["name"] for figure in worst_first(figures)]
    assert names == ["lost most", "lost", "same", "gained", "unknown"]
    report = {
        "simulated": True,
        "notes": ["Take care."],
        "n_left_out": 2,
        "held_out": {"figures": worst_first(figures)},
        "retrieval": {"figures": [entry("recall@1", "higher", -0.01)]},
    }
    expected = ["lost most", "lost", "recall@1", "same", "gained", "unknown"]
    assert [figure["name"] for figure in figures_worst_first(report)] == expected
    predicted = list(summary_lines(report))
    assert predicted[0].startswith("The answers come from simulated annotators")
    assert predicted[1] == "Take care."
    assert predicted[2].startswith("lost most (lower is better): 0.500 [0.400, 0.600] -> 0.500")
    assert predicted[-1] == "2 questions lack an image and were left out"
    assert len(list(figure_table(report))) == 2 + len(expected)
    assert with_interval(figures[1]["difference"]) == "undefined [undefined, undefined]"  # type: ignore[arg-type]


def test_report_without_figures_gives_the_reason() -> None:
    """A report of an earlier version, without notes."""
    report = {
        "simulated": False, "n_left_out": 0, "held_out": None, "reason": "no split",
        "retrieval": None,
    }  # fmt: skip
    assert list(summary_lines(report)) == ["agreement is not measured: no split"]
    assert list(figure_table(report)) == ["Agreement is not measured: no split."]
