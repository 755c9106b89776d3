"""The last lines of `hsfiq demo --full`: the metrics' correlations, and the output files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hsfiq.demo.steps import METRICS, REPORT

OUTPUTS = (
    ("hsfiq.db", "the study with all answers, and the follow-up study"),
    ("release", "the answers as a release"),
    ("release.scores", "the two scorers' scores of its sets"),
    ("systems", "the retrieval systems"),
    ("sessions.jsonl", "a simulated user's searches over three rounds"),
    ("scorer", "the first scorer"),
    ("retrained", "the retrained scorer"),
    (f"{REPORT}/report.html", "the report"),
)


def summarise(results: Mapping[str, Any], folder: Path) -> list[str]:
    """Return the lines for a report's `results.json` and the demo's folder."""
    rhos = {name: results["metrics"][name]["spearman"] for name in METRICS}
    (before_after,) = (
        pair["spearman"]
        for pair in results["comparisons"]
        if (pair["metric"], pair["other"]) == ("before", "after")
    )
    n_sets, n_participants = rhos["after"]["n"], rhos["after"]["n_clusters"]
    return [
        "",
        "Results",
        f"Spearman's rho with the scores of {n_sets:,} held-out sets, and its 95% interval over",
        f"the {n_participants:,} simulated annotators who gave them:",
        *(f"  {name:<20}{figure(result, 'rho')}" for name, result in rhos.items()),
        f"  {'after minus before':<20}{figure(reverse(before_after), 'difference')}",
        "All answers are simulated annotators': nothing here says what people would answer.",
        "",
        f"Files in {folder}",
        *(f"  {name:<20}{content}" for name, content in OUTPUTS),
    ]


def figure(result: Mapping[str, Any], key: str) -> str:
    """Format a value with its interval; if either is undefined, give the reason."""
    value, (low, high), reason = result[key], result["ci"], result.get("reason")
    sign = "+" if key == "difference" else ""
    if value is None:
        return f"undefined: {reason}"
    if low is None or high is None:
        return f"{value:{sign}.3f}, its interval undefined: {reason}"
    return f"{value:{sign}.3f} [{low:{sign}.3f}, {high:{sign}.3f}]"


def reverse(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return a difference with the opposite sign."""
    value, (low, high) = result["difference"], result["ci"]
    return {
        **result,
        "difference": None if value is None else -value,
        "ci": [None if end is None else -end for end in (high, low)],
    }
