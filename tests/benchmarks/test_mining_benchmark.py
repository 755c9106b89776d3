"""The benchmark `mining` on a small corpus: both methods give the same sets."""

from __future__ import annotations

import pytest
import torch

from benchmarks import mining


def test_both_methods_give_the_same_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mining, "VECTORS", 2)
    result = mining.mine(seed=5, queries=60, images=80, part=40, scored_part=20)
    assert result["equal"]
    assert result["theirs_measured_on"] == 40
    assert result["ratio"] == result["cases"][0]["ratio"]
    assert [case["case"] for case in result["cases"]] == [
        "qure-code, from scores",
        "qure, from scores",
        "qure-code, with scoring",
    ]


def test_sets_of_another_rule_are_not_equal() -> None:
    scores, targets = mining.realistic_scores(60, 80, torch.Generator().manual_seed(5))
    chosen, names = torch.arange(60), [str(image) for image in range(80)]
    drawn = mining.draw_in_chunks(scores, targets, mining.PAPER, torch.rand(60, 6))
    for rule, agree in ((mining.PAPER, True), (mining.PUBLISHED, False)):
        sets = [
            mining.published_set(scores[query], int(targets[query]), names, rule.threshold or 0)
            for query in range(60)
        ]
        assert mining.equal(scores, targets, chosen, mining.PAPER, sets, drawn, names) is agree
