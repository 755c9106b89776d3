"""The figures of one system on judged queries: means over queries, with their reasons."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import fsum
from typing import Any

from hsfiq.model.evaluation.judged.match import Lists
from hsfiq.model.evaluation.judged.measures import AP_ICIR, Values, values_by_query
from hsfiq.model.evaluation.metrics import Figure
from hsfiq.readers.judged.judged_set import JudgedSet
from hsfiq.text import count_text


@dataclass(frozen=True, slots=True)
class JudgedFigures:
    """The figures of one system.

    Attributes:
        figures: means over the queries that have a value.
        group_means: means over the groups' means; empty if there is one group.
        n_counted: the queries in each figure, by figure.
    """

    system: str
    figures: dict[str, Figure]
    group_means: dict[str, Figure]
    n_counted: dict[str, int]
    n_missing: int
    values: Mapping[str, Values]

    def to_json(self) -> dict[str, Any]:
        result: dict[str, Any] = {name: each.value for name, each in self.figures.items()}
        reasons = {name: each.reason for name, each in self.figures.items() if each.reason}
        if reasons:
            result["reason"] = reasons
        result["n_counted"] = self.n_counted
        if self.group_means:
            result["group_means"] = {name: each.value for name, each in self.group_means.items()}
        if self.n_missing:
            result["missing"] = {"queries": self.n_missing}
        return result


def figure_names(judged: JudgedSet, ks: Sequence[int]) -> list[str]:
    """The figures in the order of the table."""
    is_icir = judged.protocol == "icir"
    kinds = ["ndcg", "ap", "p"] + ([] if is_icir else ["wrong", "judged"])
    return ["ap", *([AP_ICIR] if is_icir else []), *(f"{kind}@{k}" for kind in kinds for k in ks)]


def judged_figures(
    judged: JudgedSet, system: str, lists: Lists, ks: Sequence[int]
) -> JudgedFigures:
    values = values_by_query(judged, lists, ks)
    groups = {query.query_id: query.group for query in judged.queries}
    names = figure_names(judged, ks)
    of_figure = {
        name: {query_id: own[name] for query_id, own in values.items() if name in own}
        for name in names
    }
    has_groups = len(set(groups.values())) > 1
    return JudgedFigures(
        system,
        {name: mean_over_queries(own) for name, own in of_figure.items()},
        {name: mean_over_groups(own, groups) for name, own in of_figure.items()}
        if has_groups
        else {},
        {name: len(own) for name, own in of_figure.items()},
        len(judged.queries) - len(lists),
        values,
    )


def mean_over_queries(values: Mapping[str, float | None]) -> Figure:
    """The mean; undefined without a value, or if a list does not determine its value."""
    known = [value for value in values.values() if value is not None]
    if not values:
        return Figure(None, "no query has an image that counts for it")
    if short := len(values) - len(known):
        lists = count_text(len(values), "list")
        return Figure(None, f"{short:,} of {lists} are too short; give longer ones")
    return Figure(fsum(known) / len(known))


def mean_over_groups(values: Mapping[str, float | None], groups: Mapping[str, str]) -> Figure:
    by_group: defaultdict[str, dict[str, float | None]] = defaultdict(dict)
    for query_id, value in values.items():
        by_group[groups[query_id]][query_id] = value
    means = [mean_over_queries(own) for own in by_group.values()]
    known = [mean.value for mean in means if mean.value is not None]
    if not known or len(known) < len(means):
        return Figure(None, "a group has no such figure")
    return Figure(fsum(known) / len(known))
