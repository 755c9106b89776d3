from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pandas as pd
from hypothesis import example, given, settings

from hsfiq.analysis.analyze import analyze, details
from hsfiq.analysis.data.metrics import Recall
from hsfiq.analysis.data.release import Release
from hsfiq.analysis.reports.people import GROUP_FIGURES
from hsfiq.analysis.reports.report import analysis_text
from tests.analysis.drawn_releases import BEST_FIRST
from tests.analysis.studies import Question, bootstrap_of, few, make_release, studies

KEYS = {
    *("systems", "participants", "categories", "overlap", "place_and_time"),
    *("groups_of_people", "repeated_pairs", "sensitivity", "within_query"),
}


def strict(release: Release) -> dict[str, Any]:
    values = {f"recall@{k}": Recall(k).values(release) for k in (5, 1)}
    result = details(release, values, bootstrap_of(release, 20))
    written: dict[str, Any] = json.loads(json.dumps(result.to_json(), allow_nan=False))
    return written


def nulls_without_reason(value: object, path: str = "") -> list[str]:
    if not isinstance(value, dict):
        return []
    result = [f"{path}.{key}" for key in value if value[key] is None and not value.get("reason")]
    return result + [
        missing for key in value for missing in nulls_without_reason(value[key], f"{path}.{key}")
    ]


@settings(few, max_examples=15)
@given(studies)
@example([Question(1, (3, 3), values=(1, 1))] * 8)  # one participant
@example([Question(0, (1, 5), participant=f"p{number}") for number in range(4)])  # ties only
@example([Question(1, (4, 2), ("abcde", "bcdef"), target=None)] * 3)  # no target
def test_every_null_has_a_reason(study: list[Question]) -> None:
    written = strict(make_release(study))
    assert set(written) == KEYS
    for key in KEYS:
        assert nulls_without_reason(written[key], key) == []


def test_details_are_computed_on_request_only() -> None:
    result = analyze(make_release([Question(1)]), [Recall(5)])
    assert result.details is None
    assert not KEYS & set(result.to_json())


def test_a_complete_release(drawn: tuple[Release, pd.Series]) -> None:
    release, _ = drawn
    written = strict(release)
    assert [*written["systems"]["systems"]] == sorted(BEST_FIRST)
    assert written["participants"]["n"] == 30
    assert set(written["categories"]["categories"]) == {"dress", "shirt", "toptee"}
    assert written["overlap"]["n_sets"] == 0
    assert written["sensitivity"]["one_participant_left_out"]["n_participants"] == 30
    result = analyze(release, [Recall(5)], bootstrap_of(release, 20), in_detail=True)
    assert set(result.to_json()) >= KEYS
    text = analysis_text(result, tables=True)
    assert "Language: not recorded." in text
    lines = text.splitlines()
    assert max(map(len, lines)) <= 100
    start = lines.index("Systems")
    named = (
        line.split()[0] for line in lines[start:] if line.strip().startswith(tuple(BEST_FIRST))
    )
    assert list(dict.fromkeys(named)) == BEST_FIRST


def test_groups_of_people_are_printed(drawn: tuple[Release, pd.Series]) -> None:
    release, _ = drawn
    people = release.preferences["participant_id"]
    language = people.map(lambda name: ("en", "ko")[int(name[-1]) % 2])
    release = replace(release, preferences=release.preferences.assign(language=language))
    for metrics, figures in (([Recall(5)], ["tie_half of recall@5"]), ([], GROUP_FIGURES.values())):
        result = analyze(release, metrics, bootstrap_of(release, 20), in_detail=True)
        lines = [line.split() for line in analysis_text(result, tables=True).splitlines()]
        for figure in figures:
            for group in ("en", "ko"):
                start = ["Language", *figure.split(), group]
                assert any(line[: len(start)] == start for line in lines)
