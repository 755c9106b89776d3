"""The published HP-FashionIQ answers give the known figures."""

from __future__ import annotations

import json
import os
from pathlib import Path, PurePosixPath

import pytest

from hsfiq.analysis.analyze import Analysis, analyze
from hsfiq.analysis.data.metrics import Recall
from tests.analysis.studies import Question, make_release

ROOT = Path(__file__).resolve().parents[2]
SHARED = Path(os.environ.get("HSFIQ_SHARED", ROOT / ".." / "shared"))
ANSWERS = SHARED / "data" / "hpfiq" / "hpfiq_users_1_40.json"

pytestmark = [
    pytest.mark.shared,
    pytest.mark.skipif(
        not ANSWERS.is_file(), reason=f"no {ANSWERS}; set HSFIQ_SHARED to the folder that has data/"
    ),
]


def read_published(path: Path) -> list[Question]:
    study = []
    for user, forms in json.loads(path.read_text(encoding="utf-8")).items():
        for form in forms.values():
            for target, set_1, set_2, preferred in zip(
                form["targ_img_paths"],
                form["retrieved_set1"],
                form["retrieved_set2"],
                form["preferred set"],
                strict=True,
            ):
                images = [
                    tuple(map(image_id, set_image["img_path"])) for set_image in (set_1, set_2)
                ]
                scores = (int(set_1["user_score"]), int(set_2["user_score"]))
                study.append(
                    Question(int(preferred), scores, (images[0], images[1]), image_id(target), user)
                )
    return study


def image_id(path: str) -> str:
    return PurePosixPath(path).stem


@pytest.fixture(scope="module")
def analysis() -> Analysis:
    return analyze(make_release(read_published(ANSWERS)), [Recall(5), Recall(1)])


def test_recall_at_5(analysis: Analysis) -> None:
    metric = analysis.metrics["recall@5"]
    rates = metric.preference
    assert round(metric.spearman.rho, 4) == 0.1554
    assert (metric.spearman.n, metric.spearman.n_clusters) == (4_000, 40)
    assert (round(rates.ge.rate, 4), rates.ge.n) == (0.5899, 1_702)
    assert (round(rates.gt.rate, 4), rates.gt.n) == (0.8125, 304)
    assert (round(rates.symmetric.rate, 4), rates.symmetric.n) == (0.7774, 602)
    assert rates.ge.coverage == 1_702 / 2_000
    assert metric.missing.n == 0


def test_position_bias(analysis: Analysis) -> None:
    assert round(analysis.position_bias.rate, 4) == 0.5405
    assert analysis.position_bias.n == 2_000
    assert analysis.position_bias.p < 0.001
    assert analysis.metrics["recall@5"].preference.base_rate.rate == analysis.position_bias.rate


def test_the_intervals_resample_participants(analysis: Analysis) -> None:
    metric = analysis.metrics["recall@5"]
    result = metric.spearman
    assert (result.ci.n_clusters, result.ci.n_resamples, result.ci.note) == (40, 2_000, None)
    assert (result.ci.low, result.ci.high) == pytest.approx((0.1186, 0.1919), abs=0.003)
    low, high = result.independent_ci
    assert result.ci.high - result.ci.low > 1.1 * (high - low)
    assert result.ci.low < metric.within.mean < result.ci.high
    assert metric.within.n_participants == 40
    rates = metric.preference
    for rate, ends in (
        (rates.ge, (0.559, 0.621)),
        (rates.gt, (0.765, 0.851)),
        (rates.symmetric, (0.746, 0.808)),
        (rates.tie_half, (0.573, 0.594)),
    ):
        assert (rate.ci.low, rate.ci.high) == pytest.approx(ends, abs=0.008)


def test_position_bias_is_significant_over_participants(analysis: Analysis) -> None:
    bias = analysis.position_bias
    assert bias.ci.low > 0.5
    assert bias.p < bias.p_clustered < 0.01
