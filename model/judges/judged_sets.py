"""Scores of retrieved sets from a judge's answers about images, sets or pairs of sets."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from hsfiq.atomic_files import sha256_of
from hsfiq.errors import UnreadableInput
from hsfiq.model.image_tokens import open_image
from hsfiq.model.judges.asking import AskedQuestion, Digests, Pace, ask_all, opened
from hsfiq.model.judges.judge import Answer, Judge, Question
from hsfiq.model.release_scores import SetScores
from hsfiq.releases.folder import ReleasedSet

# Whether a judge prefers the set that is shown first, from pairs asked in both orders.


@dataclass(frozen=True, slots=True)
class BothOrders:
    """A pair's two answers: the preference for what was shown first, each time; 0.5 is a tie."""

    cluster: str
    as_given: float
    swapped: float

    @property
    def preference(self) -> float:
        """For the pair's first set, averaged over the orders."""
        return (self.as_given + 1 - self.swapped) / 2


def position_bias(pairs: Sequence[BothOrders], seed: int = 0) -> dict[str, Any]:
    """The share of askings in which the set shown first is preferred, and how often orders agree.

    Without bias `first` is 0.5. Intervals resample clusters, the triplets of the pairs; both
    figures are null with a reason if there is no pair.
    """
    import numpy as np  # noqa: PLC0415 (with analysis, an extra)
    import pandas as pd  # noqa: PLC0415 (an extra)

    from hsfiq.analysis.resampling.bootstrap import (  # noqa: PLC0415 (an extra)
        Bootstrap,
        group_means,
    )
    from hsfiq.analysis.resampling.intervals import RATE  # noqa: PLC0415 (an extra)

    clusters = [pair.cluster for pair in pairs]
    rows = pd.DataFrame({"participant_id": clusters, "query_id": clusters})
    bootstrap = Bootstrap.of_rows(rows, unit="triplet", seed=seed)
    figures = {
        "first": [(pair.as_given + pair.swapped) / 2 for pair in pairs],
        "same_in_both_orders": [float(pair.as_given == 1 - pair.swapped) for pair in pairs],
    }
    everything = np.zeros(len(rows), dtype=np.intp)
    return {
        name: group_means(
            rows, np.array(values, dtype=np.float64), everything, [0], bootstrap, RATE
        )[0].to_json()
        for name, values in figures.items()
    }


SCORES = {
    "images": "mean over the set's images of the judge's number",
    "sets": "the judge's number for the set",
    "pairs": "the share of askings, both orders, in which the judge preferred the set; a tie is "
    "one half",
}
"""The definition of a set's score, by the subject of the judge's questions."""


@dataclass(frozen=True, slots=True)
class Sets:
    """The judged sets.

    Attributes:
        pairs: the ids of sets that are compared with each other.
        clusters: the triplet of each query.
    """

    sets: Sequence[ReleasedSet]
    pairs: Sequence[tuple[str, str]]
    clusters: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """How a judge is asked; `prices` is money for a million prompt and completion tokens."""

    pace: Pace
    prices: tuple[float, float] | None
    progress: Callable[[int, int], None]

    def costs(self, usage: Mapping[str, int]) -> dict[str, float]:
        costs: dict[str, float] = dict(usage)
        if self.prices is not None:
            names = ("prompt_tokens", "completion_tokens")
            tokens = (usage.get(name, 0) for name in names)
            costs["money"] = sum(
                n * price / 1e6 for n, price in zip(tokens, self.prices, strict=True)
            )
        return costs


@dataclass(frozen=True, slots=True)
class Judged:
    """Scores, and what the judge answered.

    Attributes:
        about: for the provenance: `answers`, `costs` since the first run, `position_bias`.
        costs: of this run.
    """

    scores: SetScores
    about: dict[str, Any]
    costs: dict[str, float]


def judge_sets(
    judged: Sets, files: Mapping[str, Path], judge: Judge, store: Path, run: Run
) -> Judged:
    """Ask a judge about sets; questions whose images are missing or unreadable are left out.

    Raises:
        JudgeFailed: the judge cannot be asked now; its answers are in the store.
    """
    contents = readable(files)
    asking = Asking(judge, judged, {name: files[name] for name in contents}, contents)
    with opened(store) as answers:
        result = ask_all(judge, asking.questions, answers, run.pace, run.progress)
    scores = asking.scores(result.of)
    about: dict[str, Any] = {
        "answers": {
            "questions": len(result.of),
            "null": dict(Counter(each.reason for each in result.of.values() if each.reason)),
        },
        "costs": run.costs(result.total),
    }
    if judge.asks == "pairs":
        about["position_bias"] = position_bias(asking.distinct_orders(result.of))
    return Judged(scores, about, run.costs(result.this_run))


def readable(files: Mapping[str, Path]) -> dict[str, str]:
    """The sha256 of the files that can be decoded, by image id."""

    def read(path: Path) -> str | None:
        try:
            with open_image(path):
                return sha256_of(path)
        except (UnreadableInput, OSError):
            return None

    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        digests = pool.map(read, files.values())
        return {name: each for name, each in zip(files, digests, strict=True) if each is not None}


class Asking:
    """The questions about sets, and what their answers mean."""

    def __init__(
        self, judge: Judge, judged: Sets, files: Mapping[str, Path], contents: Mapping[str, str]
    ) -> None:
        self._judge, self._judged, self._files = judge, judged, files
        self._digests = Digests(judge, {files[name]: digest for name, digest in contents.items()})
        self._by_id = {each.set_id: each for each in judged.sets}
        self.questions: dict[str, AskedQuestion] = {}
        self._of_images: dict[tuple[str, str], str] = {}
        self._of_sets: dict[str, str] = {}
        self._of_pairs: dict[tuple[str, str], tuple[str, str]] = {}
        if judge.asks == "pairs":
            self._ask_pairs()
        elif judge.asks == "sets":
            self._ask_sets()
        else:
            self._ask_images()

    def _ask_images(self) -> None:
        for each in self._judged.sets:
            for image in each.images:
                if (key := self._add(each, (image,))) is not None:
                    self._of_images[each.set_id, image] = key

    def _ask_sets(self) -> None:
        for each in self._judged.sets:
            if (key := self._add(each, each.images)) is not None:
                self._of_sets[each.set_id] = key

    def _ask_pairs(self) -> None:
        for first, second in self._judged.pairs:
            query = self._by_id[first]
            images = self._by_id[first].images, self._by_id[second].images
            as_given, swapped = self._add(query, *images), self._add(query, *images[::-1])
            if as_given is not None and swapped is not None:
                self._of_pairs[first, second] = as_given, swapped

    def _add(self, query: ReleasedSet, *sets: tuple[str, ...]) -> str | None:
        """The key of a question; None if one of its images is missing."""
        shown = {query.reference} if self._judge.reads_reference else set()
        if not (shown | {image for images in sets for image in images}) <= self._files.keys():
            return None
        reference = self._files[query.reference] if self._judge.reads_reference else None
        files = tuple(tuple(self._files[image] for image in images) for images in sets)
        question = Question(reference, query.text, files)
        key = self._digests.key(question)
        about = {
            "judge": self._judge.name,
            **({"reference": query.reference} if self._judge.reads_reference else {}),
            "text": query.text,
            "images": sets,
        }
        self.questions.setdefault(key, AskedQuestion(question, about))
        return key

    def both_orders(self, answers: Mapping[str, Answer]) -> dict[tuple[str, str], BothOrders]:
        """The pairs that have a readable answer in both orders."""
        orders = {}
        for pair, keys in self._of_pairs.items():
            as_given, swapped = (answers[key].value for key in keys)
            if as_given is not None and swapped is not None:
                query_id = self._by_id[pair[0]].query_id
                cluster = self._judged.clusters.get(query_id, query_id)
                orders[pair] = BothOrders(cluster, as_given, swapped)
        return orders

    def distinct_orders(self, answers: Mapping[str, Answer]) -> list[BothOrders]:
        """Of pairs of the same images that several questions have, one."""
        orders = self.both_orders(answers)
        return list({frozenset(self._of_pairs[pair]): orders[pair] for pair in orders}.values())

    def scores(self, answers: Mapping[str, Answer]) -> SetScores:
        images = [
            (set_id, image, value)
            for (set_id, image), key in self._of_images.items()
            if (value := answers[key].value) is not None
        ]
        sets = dict(self._set_scores(answers, images))
        wanted = set(wanted_images(self._judged.sets, with_reference=self._judge.reads_reference))
        return SetScores(
            images=images,
            sets=list(sets.items()),
            missing=sorted(wanted.difference(self._files)),
            unscored=[each.set_id for each in self._judged.sets if each.set_id not in sets],
        )

    def _set_scores(
        self, answers: Mapping[str, Answer], images: Sequence[tuple[str, str, float]]
    ) -> Iterator[tuple[str, float]]:
        for set_id, key in self._of_sets.items():
            if (value := answers[key].value) is not None:
                yield set_id, value
        by_image = {(set_id, image): value for set_id, image, value in images}
        if self._of_images:
            for each in self._judged.sets:
                values = [by_image.get((each.set_id, image)) for image in each.images]
                if None not in values:
                    yield each.set_id, fmean(value for value in values if value is not None)
        yield from self._shares(answers)

    def _shares(self, answers: Mapping[str, Answer]) -> Iterator[tuple[str, float]]:
        """The mean share over all pairs of each set; none if one of them has no answer."""
        orders = self.both_orders(answers)
        shares: dict[str, list[float | None]] = {}
        for first, second in self._judged.pairs:
            pair = orders.get((first, second))
            shares.setdefault(first, []).append(None if pair is None else pair.preference)
            shares.setdefault(second, []).append(None if pair is None else 1 - pair.preference)
        if self._judge.asks == "pairs":
            for set_id, values in shares.items():
                known = [value for value in values if value is not None]
                if len(known) == len(values):
                    yield set_id, fmean(known)


def wanted_images(sets: Collection[ReleasedSet], *, with_reference: bool) -> Iterator[str]:
    for each in sets:
        yield from each.images
        if with_reference:
            yield each.reference
