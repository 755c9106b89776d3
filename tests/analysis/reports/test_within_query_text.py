"""Correlations within queries and tests of equivalence, as text and on the command line."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import pytest

from hsfiq.analysis.data.release import Release
from hsfiq.analysis.equivalence import equivalences
from hsfiq.analysis.reports.correlation import NOTHING, equivalence_section
from hsfiq.analysis.reports.text import equivalence_lines, within_query_lines
from hsfiq.analysis.resampling.bootstrap import Bootstrap
from hsfiq.analysis.resampling.permutation import Swaps
from hsfiq.analysis.statistics.correlation import NO_GROUP, within_query
from hsfiq.analysis.systems.systems import duels_of
from hsfiq.cli import run

Drawn = tuple[Release, pd.Series]


def test_the_lines_of_correlations(drawn: Drawn) -> None:
    release, utility = drawn
    bootstrap = Bootstrap.of_release(release, n_resamples=40)
    values = {"oracle": utility, "reverse": -utility, "flat": utility * 0}
    within = within_query(release, values, bootstrap, Swaps(n=99))
    lines = list(within_query_lines(within))
    oracle = within.metrics["oracle"].spearman
    assert f"oracle: rho {oracle.value:.4f} [" in lines[1]
    assert f"{oracle.n:,} of " in lines[1]
    assert lines[3].startswith("  flat: undefined: in every query")
    assert "oracle minus reverse: " in lines[4]
    assert "p = 0.01, Holm p = 0.01" in lines[4]  # the only defined pair
    assert "oracle minus flat: undefined" in lines[5]
    nothing = within_query(release, {"m": utility * float("nan")}, bootstrap, Swaps(n=9))
    assert NO_GROUP in list(within_query_lines(nothing))[1]


def test_the_lines_of_equivalence(drawn: Drawn) -> None:
    release, _ = drawn
    duels = duels_of(release, Bootstrap.of_release(release, n_resamples=100))
    tested = equivalences(0.05, [], duels)
    tested[0] = replace(tested[0], is_equivalent=True)
    tested[1] = replace(tested[1], is_equivalent=None, reason="too few")
    lines = list(equivalence_lines(tested))
    assert "within 0.05" in lines[0]
    assert lines[1].endswith(": equivalent")
    assert lines[2].endswith("undefined: too few")
    assert lines[3].endswith("not shown to be equivalent")
    assert len(lines) == 1 + 6  # four systems
    assert "undefined" in next(equivalence_lines([]))
    assert equivalence_section([]).blocks == (NOTHING,)


def test_a_release_without_systems_has_no_duels(drawn: Drawn) -> None:
    release, _ = drawn
    unnamed = replace(release, sets=release.sets.assign(system=None))
    assert duels_of(unnamed, Bootstrap.of_release(release, n_resamples=10)) == []


def test_an_impossible_margin_is_refused_first(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["analyze", "nowhere", "--metric", "recall@5", "--equivalence", "0.7"]) == 2
    assert "0.7 is not between 0 and 0.5" in capsys.readouterr().err
