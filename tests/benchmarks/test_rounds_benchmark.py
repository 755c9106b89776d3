"""The figures of `rounds`, on sessions of two ways that are given by hand."""

from __future__ import annotations

from benchmarks.rounds import FISD, TABLE_6, WAYS, case_table, cases_of, finding_table, findings
from hsfiq.analysis.sessions.ranks import Rules
from tests.analysis.sessions.tables import Ranks, measured

QUERIES = [f"q{number}" for number in range(8)]


def ways(other: list[int]) -> dict[str, dict[str, Ranks]]:
    return {
        FISD: {query: [9, 3, 2, 2, 2] for query in QUERIES},
        "no history": {query: [9, *other] for query in QUERIES},
    }


def test_a_case_has_the_rounds_that_are_printed() -> None:
    first, _ = cases_of(measured(ways([3, 4, 4, 1]), Rules(ks=(1, 10))), "sprc")
    assert {n: each["value"] for n, each in first["mean rank"].items()} == {1: 9, 3: 2, 5: 2}
    assert first["Hits@10"].keys() == {5}
    assert "| sprc | FISD's protocol | 0.000" in case_table([first])[2]


def test_what_comes_out_otherwise_is_said() -> None:
    analyses = {
        "yes": measured(ways([3, 4, 4, 4]), Rules(ks=(1, 10))),
        "no": measured(ways([3, 1, 1, 1]), Rules(ks=(1, 10))),
        "not settled": measured(ways([3, 2, 2, 2]), Rules(ks=(1, 10))),
    }
    for expected, analysis in analyses.items():
        (line,) = findings(analysis, "sprc")
        assert line["as in FISD"] == expected
        assert finding_table([line])[2].endswith(f"| 2.93 / 2.39 | {expected} |")


def test_the_ablations_of_fisds_table_are_played() -> None:
    assert set(TABLE_6) < set(WAYS)
    assert next(iter(WAYS)) == FISD
