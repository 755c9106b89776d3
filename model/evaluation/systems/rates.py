"""Preference rates of systems as metrics, by their own scores of a release's sets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hsfiq.analysis.data.metrics import ScoreColumn
from hsfiq.analysis.data.release import read_release
from hsfiq.analysis.resampling.bootstrap import Bootstrap
from hsfiq.analysis.statistics.preference import PreferenceRates, preference_rates

RULES = ("ge", "gt")
"""CIRQRS section 5.4 (eq. 8) and QuRe Table 4 (eq. 9)."""


@dataclass(frozen=True, slots=True)
class SystemRates:
    """The rates of the systems whose scores the release has.

    Attributes:
        missing: systems without scores.
    """

    release: str
    simulated: bool
    n_questions: int
    rates: dict[str, PreferenceRates]
    missing: tuple[str, ...]


def rates_of(folder: Path, systems: Sequence[str], *, intervals: bool, seed: int) -> SystemRates:
    """The rates by `RELEASE.scores/SYSTEM.parquet`; AnalysisError for an unreadable release."""
    release = read_release(folder)
    bootstrap = Bootstrap.of_release(release, seed=seed) if intervals else None
    rates = {
        system: preference_rates(
            release.preferences, ScoreColumn(system).values(release), bootstrap
        )
        for system in systems
        if system in release.scores
    }
    return SystemRates(
        f"{release.name} {release.version}",
        release.simulated,
        len(release.preferences),
        rates,
        tuple(system for system in systems if system not in release.scores),
    )
