"""The main figures of each category on its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hsfiq.analysis.data.answers import subset
from hsfiq.analysis.resampling.draws import Draws
from hsfiq.analysis.statistics.correlation import Correlation, spearman
from hsfiq.analysis.statistics.position import PositionBias, position_bias
from hsfiq.analysis.statistics.preference import PreferenceRates, preference_rates

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pandas as pd

    from hsfiq.analysis.data.release import Release

BETWEEN = "each participant judged one category: a difference may as well be one of people"
WITHIN = "participants judged several categories, so these are compared within people too"


@dataclass(frozen=True)
class CategoryFigures:
    """The figures of one category.

    Attributes:
        n_questions: how many questions it has.
        n_participants: how many participants answered them.
        position_bias: P(set 1 preferred).
        spearman: by metric, its correlation with the human scores.
        preference: by metric, its preference rates; their coverage is of this category's questions.
    """

    n_questions: int
    n_participants: int
    position_bias: PositionBias
    spearman: Mapping[str, Correlation]
    preference: Mapping[str, PreferenceRates]

    def to_json(self) -> dict[str, object]:
        """Return the counts, the bias and {"metrics": {name: {"spearman", "preference_rate"}}}."""
        return {
            "n_questions": self.n_questions,
            "n_participants": self.n_participants,
            "position_bias": self.position_bias.to_json(),
            "metrics": {
                name: {
                    "spearman": self.spearman[name].to_json(),
                    "preference_rate": self.preference[name].to_json(),
                }
                for name in self.spearman
            },
        }


@dataclass(frozen=True)
class Categories:
    """The categories of a release.

    Attributes:
        figures: by category, names sorted.
        note: whether the same people judged several; None where there are no two categories.
        reason: why there are no figures, where there are none.
    """

    figures: Mapping[str, CategoryFigures]
    note: str | None = None
    reason: str | None = None

    def to_json(self) -> dict[str, object]:
        """Return {"categories", "note"}, or null categories beside the reason."""
        if self.reason is not None:
            return {"categories": None, "reason": self.reason}
        found: dict[str, object] = {
            "categories": {name: each.to_json() for name, each in self.figures.items()}
        }
        return found if self.note is None else {**found, "note": self.note}


def categories(
    release: Release, values: Mapping[str, pd.Series[float]], draws: Draws
) -> Categories:
    """Measure each category of a release.

    Args:
        release: a release; its queries may have a `category`.
        values: each metric's values by name, indexed by set_id, NaN where a set has none.
        draws: the resamples' unit, number and seed; each category draws from its own clusters.

    Returns:
        The figures; none, with a reason, where the release names no categories.
    """
    if "category" not in release.queries:
        return Categories({}, reason="the release names no categories")
    named = release.queries.set_index("query_id")["category"]
    of_question = release.preferences["query_id"].map(named).replace("", None)
    names = sorted(str(name) for name in of_question.dropna().unique())
    if not names:
        return Categories({}, reason="no question has a category")
    judged = of_question.groupby(release.preferences["participant_id"]).nunique()
    note = BETWEEN if (judged <= 1).all() else WITHIN
    return Categories(
        {name: _figures(subset(release, of_question == name), values, draws) for name in names},
        note if len(names) > 1 else None,
    )


def _figures(
    part: Release, values: Mapping[str, pd.Series[float]], draws: Draws
) -> CategoryFigures:
    own = Draws.of(
        part,
        unit=draws.unit,
        n_resamples=draws.n_resamples,
        seed=draws.seed,
        correction=draws.correction,
    )
    return CategoryFigures(
        n_questions=len(part.preferences),
        n_participants=part.n_participants,
        position_bias=position_bias(part.preferences, own),
        spearman={name: spearman(part.sets, each, own) for name, each in values.items()},
        preference={
            name: preference_rates(part.preferences, each, own) for name, each in values.items()
        },
    )
