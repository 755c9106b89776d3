"""The definitions as plain loops over questions: slow, for comparison only."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tests.analysis.studies import Question

if TYPE_CHECKING:
    from collections.abc import Sequence

Figures = tuple[float, int]


def share(hits: float, n: int) -> Figures:
    return (hits / n if n else math.nan), n


def usable(study: Sequence[Question]) -> list[tuple[float, float, int]]:
    """(m(set 1), m(set 2), preferred) where there is a preference and both values."""
    pairs = []
    for question in study:
        first, second = question.values
        if question.preferred != 0 and first is not None and second is not None:
            pairs.append((first, second, question.preferred))
    return pairs


def ge(study: Sequence[Question]) -> Figures:
    hits = n = 0
    for first, second, preferred in usable(study):
        if first >= second:
            n += 1
            hits += preferred == 1
    return share(hits, n)


def gt(study: Sequence[Question]) -> Figures:
    hits = n = 0
    for first, second, preferred in usable(study):
        if first > second:
            n += 1
            hits += preferred == 1
    return share(hits, n)


def symmetric(study: Sequence[Question]) -> Figures:
    hits = n = 0
    for first, second, preferred in usable(study):
        if first != second:
            n += 1
            hits += preferred == (1 if first > second else 2)
    return share(hits, n)


def tie_half(study: Sequence[Question]) -> Figures:
    hits, n = 0.0, 0
    for first, second, preferred in usable(study):
        n += 1
        if first == second:
            hits += 0.5
        else:
            hits += preferred == (1 if first > second else 2)
    return share(hits, n)


def base_rate(study: Sequence[Question]) -> Figures:
    pairs = usable(study)
    return share(sum(preferred == 1 for _, _, preferred in pairs), len(pairs))


def given_recall_tie(study: Sequence[Question], k: int) -> Figures:
    hits = n = 0
    for question in study:
        for first, second, preferred in usable([question]):
            recalls = [recall(question, side, k) for side in (0, 1)]
            if first > second and recalls[0] is not None and recalls[0] == recalls[1]:
                n += 1
                hits += preferred == 1
    return share(hits, n)


def base_rate_given_recall_tie(study: Sequence[Question], k: int) -> Figures:
    hits = n = 0
    for question in study:
        for _, _, preferred in usable([question]):
            recalls = [recall(question, side, k) for side in (0, 1)]
            if recalls[0] is not None and recalls[0] == recalls[1]:
                n += 1
                hits += preferred == 1
    return share(hits, n)


def recall(question: Question, side: int, k: int) -> float | None:
    if question.target is None:
        return None
    for image in question.images[side][:k]:
        if image == question.target:
            return 1.0
    return 0.0


def midranks(values: Sequence[float]) -> list[float]:
    """1 + the number of smaller values + half the number of other equal values."""
    ranks = []
    for value in values:
        smaller = sum(other_value < value for other_value in values)
        equal = sum(other_value == value for other_value in values)
        ranks.append(smaller + (equal + 1) / 2)
    return ranks


def spearman(first: Sequence[float], second: Sequence[float]) -> float:
    """Pearson's correlation of the mid-ranks."""
    ranks_1, ranks_2 = midranks(first), midranks(second)
    mean = (len(first) + 1) / 2
    covariance = sum((x - mean) * (y - mean) for x, y in zip(ranks_1, ranks_2, strict=True))
    spread = math.sqrt(
        sum((x - mean) ** 2 for x in ranks_1) * sum((y - mean) ** 2 for y in ranks_2)
    )
    return covariance / spread if spread else math.nan


def binomial_p(hits: int, n: int) -> float:
    """Two-sided exact test of one half: sum over outcomes no likelier than the observed."""
    probabilities = [math.comb(n, k) for k in range(n + 1)]
    return sum(
        probability for probability in probabilities if probability <= probabilities[hits]
    ) / float(2**n)
