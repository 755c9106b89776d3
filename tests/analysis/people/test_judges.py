from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsfiq.analysis.analyze import analyze
from hsfiq.analysis.data.metrics import ScoreColumn
from hsfiq.analysis.data.release import Release
from hsfiq.analysis.people import agreement
from hsfiq.analysis.people.judges import judge_agreement
from hsfiq.analysis.reports.report import analysis_text
from tests.analysis.studies import Question, bootstrap_of, few, make_release, values_of

Answer = tuple[str, str, bool, int, int]

answers = st.lists(
    st.tuples(
        st.sampled_from("pqr"),
        st.sampled_from(["abcde", "bcdef", "cdefg"]),
        st.booleans(),
        st.integers(0, 2),
        st.integers(-1, 1),
    ),
    max_size=15,
    unique_by=lambda row: row[:2],
)


def study_of(rows: list[Answer]) -> list[Question]:
    """Questions about one of three pairs, on either side; the judge's values are the pair's own."""
    judge: dict[str, int] = {}
    questions = []
    for person, images, swapped, preferred, value in rows:
        own = judge.setdefault(images, value)
        pair = (images, "habcd")
        values = (float(own), 0.0)
        questions.append(
            Question(
                preferred,
                images=pair[::-1] if swapped else pair,
                participant=person,
                values=values[::-1] if swapped else values,
            )
        )
    return questions


@few
@given(answers)
def test_agreement_by_hand(rows: list[Answer]) -> None:
    study = study_of(rows)
    release = make_release(study)
    release = replace(release, queries=release.queries.assign(triplet_id="t"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(agreement, "MIN_UNITS", 1)
        result = judge_agreement(release, values_of(study)).overall
    by_pair: dict[str, list[tuple[float, float]]] = {}
    for question, (_, images, swapped, _, _) in zip(study, rows, strict=True):
        sign = -1 if swapped else 1
        person = sign * {0: 0.0, 1: 0.5, 2: -0.5}[question.preferred]
        first, second = question.values
        assert first is not None
        assert second is not None
        judge = sign * 0.5 * float(np.sign(first - second))
        by_pair.setdefault(images, []).append((person, judge))
    people, judged = [], []
    for both in by_pair.values():
        for place, (own, judge) in enumerate(both):
            others = [each for k, (each, _) in enumerate(both) if k != place]
            if others:
                people.append(np.mean([1 - abs(own - each) for each in others]))
                judged.append(np.mean([1 - abs(judge - each) for each in others]))
    assert result.n == len(people)
    if people:
        assert result.people == pytest.approx(np.mean(people))
        assert result.judge == pytest.approx(np.mean(judged))
        assert result.difference == pytest.approx(result.judge - result.people)
    else:
        assert result.reason == "no unit has been judged by two people"
        assert np.isnan(result.difference)


def test_truth_agrees_better_than_people_noise_less(overlapping: tuple[Release, pd.Series]) -> None:
    release, utilities = overlapping
    truth = judge_agreement(release, utilities)
    assert truth.overall.verdict == "better than people"
    assert truth.overall.ci.low < truth.overall.difference < truth.overall.ci.high
    assert set(truth.by_category) == set(release.queries["category"])
    assert sum(part.n for part in truth.by_category.values()) == truth.overall.n
    noise = pd.Series(np.random.default_rng(0).normal(size=len(utilities)), utilities.index)
    assert judge_agreement(release, noise).overall.verdict == "less well than people"


def test_without_overlap_the_reason_is_given(drawn: tuple[Release, pd.Series]) -> None:
    release, utilities = drawn
    result = judge_agreement(release, utilities).overall
    assert result.verdict == "undecided"
    assert result.to_json()["difference"] is None
    assert "judged by two people" in str(result.reason)


def test_analyze_names_judges_alone(overlapping: tuple[Release, pd.Series], tmp_path: Path) -> None:
    release, utilities = overlapping
    files = {}
    for name in ("judge", "scorer"):
        files[name] = tmp_path / f"{name}.csv"
        table = pd.DataFrame({"set_id": utilities.index, "score": utilities.to_numpy()})
        table.to_csv(files[name], index=False)
    (tmp_path / "judge.json").write_text(json.dumps({"judge": {"asks": "pairs"}}))
    (tmp_path / "scorer.json").write_text(json.dumps({"metric": "scorer"}))
    release = replace(release, scores=files)
    result = analyze(release, [ScoreColumn(name) for name in files], bootstrap_of(release, 20))
    assert list(result.judges) == ["judge"]
    assert list(result.to_json()["judges"]) == ["judge"]  # type: ignore[call-overload]
    text = analysis_text(result, tables=True)
    assert "better than people" in text
    assert "lies above -0.1" in text
    (note,) = result.notes
    assert note.startswith('metric "judge" has a judge\'s preferences')
    assert max(map(len, text.splitlines())) <= 100
