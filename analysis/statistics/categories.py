"""The main figures of each category on its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hsfiq.analysis.data.ids import looked_up
from hsfiq.analysis.data.metrics import MetricValues
from hsfiq.analysis.data.release import Release
from hsfiq.analysis.json_values import JsonRecord, json_value
from hsfiq.analysis.resampling.bootstrap import Bootstrap
from hsfiq.analysis.statistics.correlation import Correlation, spearman
from hsfiq.analysis.statistics.position import PositionBias, position_bias
from hsfiq.analysis.statistics.preference import PreferenceRates, preference_rates

BETWEEN = "each participant judged one category, so differences may be between people"
WITHIN = "participants judged several categories, so these are compared within people too"


@dataclass(frozen=True)
class CategoryFigures(JsonRecord):
    """The figures of one category; the coverage of a rate is of this category's questions."""

    n_questions: int
    n_participants: int
    position_bias: PositionBias
    spearman: Mapping[str, Correlation]
    preference: Mapping[str, PreferenceRates]

    def to_json(self) -> dict[str, object]:
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
class Categories(JsonRecord):
    """The categories; `note`: whether the same people judged several, None for fewer than two."""

    figures: Mapping[str, CategoryFigures]
    note: str | None = None
    reason: str | None = None

    def to_json(self) -> dict[str, object]:
        if self.reason is not None:
            return {"categories": None, "reason": self.reason}
        fields = {"categories": json_value(self.figures)}
        return fields if self.note is None else {**fields, "note": self.note}


def categories(release: Release, values: MetricValues, bootstrap: Bootstrap) -> Categories:
    """Measure each category of a release on its own; each resamples its own clusters."""
    if "category" not in release.queries:
        return Categories({}, reason="the release names no categories")
    of_query = release.queries.set_index("query_id")["category"]
    of_question = looked_up(release.preferences["query_id"], of_query).replace("", None)
    names = sorted(str(name) for name in of_question.dropna().unique())
    if not names:
        return Categories({}, reason="no question has a category")
    n_judged = of_question.groupby(release.preferences["participant_id"]).nunique()
    note = BETWEEN if (n_judged <= 1).all() else WITHIN
    return Categories(
        {name: _figures(release.subset(of_question == name), values, bootstrap) for name in names},
        note if len(names) > 1 else None,
    )


def _figures(category: Release, values: MetricValues, settings: Bootstrap) -> CategoryFigures:
    bootstrap = settings.for_release(category)
    preferences = category.preferences
    return CategoryFigures(
        n_questions=len(preferences),
        n_participants=category.n_participants,
        position_bias=position_bias(preferences, bootstrap),
        spearman={name: spearman(category.sets, each, bootstrap) for name, each in values.items()},
        preference={
            name: preference_rates(preferences, each, bootstrap) for name, each in values.items()
        },
    )
