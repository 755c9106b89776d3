"""What lies behind the main figures: systems, participants, categories, ceiling, sensitivity."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hsfiq.analysis.sensitivity.sensitivity import Sensitivity, sensitivity
from hsfiq.analysis.statistics.categories import Categories, categories
from hsfiq.analysis.statistics.ceiling import Ceiling, ceiling
from hsfiq.analysis.statistics.participants import Participants, participants
from hsfiq.analysis.systems.systems import Systems, systems

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pandas as pd

    from hsfiq.analysis.data.release import Release
    from hsfiq.analysis.resampling.draws import Draws


@dataclass(frozen=True)
class Details:
    """The details of a release.

    Attributes:
        systems: what people and metrics say of each system.
        participants: how each participant answered, and who stands apart.
        categories: the main figures of each category.
        ceiling: how well people foretell each other.
        sensitivity: whether the conclusions change without answers that one may doubt.
    """

    systems: Systems
    participants: Participants
    categories: Categories
    ceiling: Ceiling
    sensitivity: Sensitivity

    def to_json(self) -> dict[str, object]:
        """Return the five by their names."""
        return {
            "systems": self.systems.to_json(),
            "participants": self.participants.to_json(),
            "categories": self.categories.to_json(),
            "ceiling": self.ceiling.to_json(),
            "sensitivity": self.sensitivity.to_json(),
        }


def details(release: Release, values: Mapping[str, pd.Series[float]], draws: Draws) -> Details:
    """Look behind the main figures of a release.

    Args:
        release: a release; it may be empty.
        values: each metric's values by name, indexed by set_id, NaN where a set has none.
        draws: the resamples for all intervals.

    Returns:
        The details.

    Raises:
        AnalysisError: a scores file that bears a system's name does not fit the release.
    """
    return Details(
        systems=systems(release, values, draws),
        participants=participants(release, values),
        categories=categories(release, values, draws),
        ceiling=ceiling(release, values, draws),
        sensitivity=sensitivity(release, values, draws),
    )
