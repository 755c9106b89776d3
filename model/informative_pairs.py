"""The pairs whose answers are most informative, for the next study."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import torch
from torch import Tensor

from hsfiq.errors import UnreadableInput
from hsfiq.model.checkpoints import ANSWER_MODEL
from hsfiq.model.preference.answer_model import N_THRESHOLDS
from hsfiq.model.recipes import Pooling
from hsfiq.model.release_scores import encode_images, find_images, indexed
from hsfiq.model.retrieval.loading import retriever_of
from hsfiq.model.runtime import generator
from hsfiq.model.scorer.inference import Inference
from hsfiq.model.scorer.job import Callback
from hsfiq.model.scorer.loading import Loaded, ScorerPaths, load_scorer
from hsfiq.model.scorer.scorer import paired_relevance, scores_of_sets
from hsfiq.next_study import Candidate, Candidates, PossibleSet, balanced
from hsfiq.study.config import Design

# The information that answers to pairs give about a scorer, in nats.
#
# An answer depends on latent quantities (`hsfiq.model.preference.answer_model`): the margin between
# two sets, and the latent of each Likert score. Their prior is a normal distribution with the mean
# and covariance of the scorer's opinions; an answer is weighted by its Fisher information at the
# mean. The information of the answers to some pairs is then
#
#     1/2 log det(I + W^(1/2) C W^(1/2))
#
# (Lindley 1956; Chaloner and Verdinelli 1995, Bayesian D-optimality), with C the covariance of
# their latents and W their Fisher information. So if the scorer is unsure about two pairs in the
# same way, the second adds little. A greedy choice reaches at least 1 - 1/e of the best choice's
# information (Nemhauser et al. 1978), if only the number of pairs is constrained. Several answers
# to a pair are about the same latents: their Fisher information adds up.


class Information:
    """The information that each pair would add to the pairs taken so far."""

    def __init__(self, latents: Tensor, weights: Tensor) -> None:
        """Start with no pair taken; see `Uncertainty`."""
        deviations = (latents - latents.mean(dim=0)) / (len(latents) - 1) ** 0.5  # [J, P, A]
        self._rows = deviations.permute(1, 2, 0) * weights.sqrt().unsqueeze(2)  # [P, A, J]
        self._posterior = torch.eye(len(latents), dtype=latents.dtype)  # [J, J]
        self._identity = torch.eye(latents.shape[2], dtype=latents.dtype)  # [A, A]
        self.total = 0.0

    def gains(self, places: Sequence[int]) -> Tensor:
        """The information that each of these pairs would add: [n]."""
        rows = self._rows[list(places)]  # [n, A, J]
        gains: Tensor = torch.logdet(self._identity + rows @ self._posterior @ rows.mT) / 2
        return gains

    def take(self, place: int) -> None:
        self.total += float(self.gains([place]))
        rows = self._rows[place]  # [A, J]
        known = self._posterior @ rows.T  # [J, A]
        self._posterior = self._posterior - known @ torch.linalg.solve(
            self._identity + rows @ known, known.T
        )

    def take_best(self, places: Sequence[int]) -> int:
        """Take the pair that adds most, the first of equals, and return its place."""
        best = places[int(self.gains(places).argmax())]
        self.take(best)
        return best


def preference_information(
    margins: Tensor, side_bias: float, log_tie: float | None = None
) -> Tensor:
    """Information of a preference about its margin, for a random order of sets: [P] -> [P].

    The logits of set 1, set 2 and a tie are m / 2, -m / 2 and log nu, so the information is the
    variance of 1/2, -1/2 and 0 under their shares. Without ties (None) it is p (1 - p).
    """
    both = torch.stack([margins + side_bias, margins - side_bias])  # [2, P]
    tie = torch.full_like(both, -torch.inf if log_tie is None else log_tie)
    shares = torch.stack([both / 2, -both / 2, tie]).softmax(dim=0)  # [3, 2, P]
    first, second = shares[0], shares[1]
    return ((first + second) / 4 - ((first - second) / 2).square()).mean(dim=0)


def score_information(latents: Tensor, thresholds: Tensor) -> Tensor:
    """Information of a Likert score about its latent (cumulative logit model, McCullagh 1980).

    For latents [P] and rising thresholds [K - 1]: [P] sums over levels of (dP / d latent)^2 / P.
    """
    below = (thresholds - latents.unsqueeze(1)).sigmoid()  # [P, K - 1]
    ends = below.new_zeros(len(latents), 1), below.new_ones(len(latents), 1)
    edges = torch.cat([ends[0], below, ends[1]], dim=1)  # [P, K + 1]
    shares = edges.diff(dim=1)  # [P, K]
    # d below / d latent is -below (1 - below), and shares are differences of edges.
    slopes = -(edges * (1 - edges)).diff(dim=1)  # [P, K]
    # This is finite: in the logistic model a level's slope falls with its share.
    return (slopes.square() / shares.clamp_min(torch.finfo(shares.dtype).tiny)).sum(dim=1)


# A scorer's uncertainty, as several opinions on the same sets.
#
# The opinions are those of several checkpoints, an ensemble (Lakshminarayanan et al. 2017), or of
# one checkpoint with MC-dropout (Gal and Ghahramani 2016) of entries of the query vectors. An
# opinion thus costs a few products with any encoder, even one that was trained without dropout.

SAMPLES = 16
"""Opinions of one scorer."""
RATE = 0.3
"""Mean share of the entries that dropout removes."""
CHUNK = 1024
"""Sets scored at a time, to bound the memory for their images' vectors."""


def dropout_masks(width: int, generator: torch.Generator) -> Tensor:
    """Factors of the queries' entries, one row per opinion: [SAMPLES, width]."""
    kept = torch.rand(SAMPLES, width, generator=generator) >= RATE
    return kept.float() / (1 - RATE)


def opinions(
    sets: Sequence[PossibleSet],
    dropout: torch.Generator | None,
    pooling: Pooling,
    inference: Inference,
) -> Tensor:
    """[J, S] float64 on the CPU: scores of sets, the mean over a set's images (CIRQRS eq. 7).

    `dropout` draws the masks of J = SAMPLES opinions; None for no dropout, J = 1.
    """
    column = indexed(image for possible in sets for image in possible.images)
    row = indexed(possible.scorer_query for possible in sets)
    gallery = inference.gallery(list(column))  # [N, L, D]
    queries = inference.queries(
        [reference for reference, _ in row], [text for _, text in row]
    )  # [Q, D]
    images = torch.tensor([[column[image] for image in entry.images] for entry in sets])  # [S, k]
    query_of = torch.tensor([row[entry.scorer_query] for entry in sets])  # [S]
    variants = [queries]
    if dropout is not None:
        masks = dropout_masks(queries.shape[1], dropout)
        variants = [queries * mask.to(queries) for mask in masks]
    scores = torch.empty(len(variants), len(sets), dtype=torch.float64)
    for start in range(0, len(sets), CHUNK):
        part = slice(start, start + CHUNK)
        vectors = gallery[images[part].flatten()]  # [s k, L, D]
        rows = query_of[part].repeat_interleave(images.shape[1])  # [s k]
        for opinion, variant in enumerate(variants):
            relevances = paired_relevance(variant[rows], vectors, pooling)  # [s k]
            sets_of_part = relevances.view(-1, images.shape[1])  # [s, k]
            scores[opinion, part] = scores_of_sets(sets_of_part).cpu()  # [s]
    return scores


# The answer model that is expected of future participants, for a given scorer.

OWN = "its own temperature, since it has no fitted answer model"
FITTED = "the answer model fitted to the answers that it was retrained on"


@dataclass(frozen=True, slots=True)
class AnswerPrior:
    """The parameters of `hsfiq.model.preference.answer_model` that predict an answer.

    A new participant's offset is ignored here: some tens of answers determine it.
    """

    source: str
    slope: float  # logits of preference by difference of set scores
    side_bias: float = 0.0  # logits
    score_slope: float = 0.0  # logits of a Likert score by set score
    thresholds: tuple[float, ...] | None = None
    log_tie: float | None = None  # log nu; None if no answer was a tie


@dataclass(frozen=True, slots=True)
class ExpectedAnswers:
    """The answers that the next study asks for: to each pair on average, and whether ties occur."""

    per_pair: float = 1.0
    has_ties: bool = False

    @classmethod
    def of(cls, design: Design) -> ExpectedAnswers:
        further = design.overlap_share * (design.annotators_per_query - 1)
        return cls(1 + further, design.preference_ties)


ONE_ANSWER = ExpectedAnswers()


def prior_of(loaded: Loaded) -> AnswerPrior:
    """The prior of a checkpoint, from its answer model if it was retrained."""
    if "preference" not in loaded.checkpoint.about:
        return AnswerPrior(OWN, 1 / float(loaded.scorer.encoder.temperature))
    path = loaded.checkpoint.path.with_name(ANSWER_MODEL)
    try:
        fitted = json.loads(path.read_bytes())["after"]
        return AnswerPrior(
            FITTED,
            slope=number(fitted["slope"]),
            side_bias=number(fitted["side_bias"]),
            score_slope=number(fitted["score_slope"]),
            thresholds=rising([number(entry) for entry in fitted["thresholds"]]),
            log_tie=None if fitted["log_tie"] is None else number(fitted["log_tie"]),
        )
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise UnreadableInput(
            str(path), "is not the answer model of a retraining", "copy the complete folder"
        ) from error


def number(entry: Any) -> float:
    """The finite value of a parameter that is stored with its standard error."""
    value = float(entry["value"])
    if not math.isfinite(value):
        raise ValueError(value)
    return value


def rising(values: list[float]) -> tuple[float, ...]:
    """The thresholds; `ValueError` if their number is wrong, or they do not rise."""
    if len(values) != N_THRESHOLDS or values != sorted(set(values)):
        raise ValueError(values)
    return tuple(values)


# The uncertainty of scorers: from checkpoints and candidate pairs to latents and weights.


@dataclass(frozen=True, slots=True)
class Uncertainty:
    """Scorers' opinions on the candidate pairs without missing images.

    Attributes:
        missing: the images that are missing or unreadable, sorted.
        about: the scorers, the source of the opinions, and that of the answer model.
    """

    pairs: tuple[Candidate, ...]
    sets: tuple[PossibleSet, ...]
    missing: tuple[str, ...]
    latents: Tensor  # [J, P, A] J opinions on the A latents of each pair's answer, in logits
    weights: Tensor  # [P, A] the answers' Fisher information about them
    about: Mapping[str, Any]

    def information(self) -> Information:
        return Information(self.latents, self.weights)


def uncertainty(
    checkpoints: Sequence[Path],
    paths: ScorerPaths,
    candidates: Candidates,
    expected: ExpectedAnswers,
    seed: int,
    device: torch.device,
    callback: Callback,
) -> Uncertainty:
    """Collect opinions on all candidates, of one scorer or of several as an ensemble.

    Refuses a checkpoint named twice, and an ensemble of retrained and other scorers.
    """
    scorers = [load_scorer(path, paths.weights, device) for path in checkpoints]
    require_distinct(scorers)
    priors = [prior_of(loaded) for loaded in scorers]
    require_same_source(scorers, priors)
    wanted = {
        image
        for possible in candidates.sets
        for image in (possible.scorer_query[0], *possible.images)
    }
    unknown = ("images", "the database does not record their folder")
    with find_images(paths.images, wanted, unknown) as files:
        encoded = [
            encode_images(retriever_of(loaded), files, paths.cache, device, callback)
            for loaded in scorers
        ]
    available = wanted.intersection(*(readable for _, readable in encoded))
    sets, pairs = with_images(candidates, available)
    if not pairs:
        raise UnreadableInput(
            "images", "no pair has all of its images", "name their folder with --images"
        )
    dropout = generator(seed, "dropout") if len(scorers) == 1 else None
    views = [
        (opinions(sets, dropout, loaded.recipe.pooling, inference), prior)
        for loaded, prior, (inference, _) in zip(scorers, priors, encoded, strict=True)
    ]
    places = torch.tensor([pair.sets for pair in pairs])  # [P, 2]
    latents, weights = latents_of_answers(views, places, expected)
    return Uncertainty(
        pairs=tuple(pairs),
        sets=tuple(sets),
        missing=tuple(sorted(wanted - available)),
        latents=latents,
        weights=weights,
        about={
            "scorers": [loaded.checkpoint.sha256 for loaded in scorers],
            "uncertainty": "ensemble" if dropout is None else f"MC-dropout, rate {RATE}",
            "opinions": len(latents),
            "answer_model": priors[0].source,
            "answers_per_pair": expected.per_pair,
            "ties": "counted" if log_tie_of(priors, expected) is not None else "not counted",
        },
    )


def latents_of_answers(
    views: Sequence[tuple[Tensor, AnswerPrior]],
    places: Tensor,
    expected: ExpectedAnswers = ONE_ANSWER,
) -> tuple[Tensor, Tensor]:
    """The opinions on the latents of each pair's answer, and the answer's information about them.

    `views` has each scorer's opinions on the sets, [j, S], and its answer model; `places`, [P, 2],
    are the pairs' sets. Gives [J, P, A] and [P, A]: A is 3, the margin and the two Likert scores;
    or 1, the margin, if the scorers have no model of the Likert scores.
    """
    parts, thresholds = [], []
    for scores, prior in views:
        both = scores[:, places]  # [j, P, 2]
        margins = prior.slope * (both[..., 0] - both[..., 1])  # [j, P]
        columns = [margins.unsqueeze(2)]
        if prior.thresholds is not None:
            # Scorers whose levels and thresholds differ by the same constant agree.
            edges = torch.tensor(prior.thresholds, dtype=scores.dtype)  # [K - 1]
            columns.append(prior.score_slope * both - edges.mean())
            thresholds.append(edges - edges.mean())
        parts.append(torch.cat(columns, dim=2))  # [j, P, A]
    latents = torch.cat(parts)  # [J, P, A]
    mean = latents.mean(dim=0)  # [P, A]
    side_bias = sum(prior.side_bias for _, prior in views) / len(views)
    log_tie = log_tie_of([prior for _, prior in views], expected)
    weights = [preference_information(mean[:, 0], side_bias, log_tie)]
    if thresholds:
        edges = torch.stack(thresholds).mean(dim=0)
        weights += [score_information(mean[:, i], edges) for i in (1, 2)]
    return latents, expected.per_pair * torch.stack(weights, dim=1)


def log_tie_of(priors: Sequence[AnswerPrior], expected: ExpectedAnswers) -> float | None:
    """The mean log nu of scorers; None if the study has no ties, or one of them never met any."""
    if not expected.has_ties:
        return None
    values = [prior.log_tie for prior in priors if prior.log_tie is not None]
    return sum(values) / len(values) if len(values) == len(priors) else None


def with_images(
    candidates: Candidates, available: Collection[str]
) -> tuple[list[PossibleSet], list[Candidate]]:
    """The sets without missing images, and the pairs of these sets."""
    place: dict[int, int] = {}
    sets: list[PossibleSet] = []
    for i, possible in enumerate(candidates.sets):
        if {possible.scorer_query[0], *possible.images}.issubset(available):
            place[i] = len(sets)
            sets.append(possible)
    pairs = [
        pair.with_sets(place[pair.sets[0]], place[pair.sets[1]])
        for pair in candidates.pairs
        if pair.sets[0] in place and pair.sets[1] in place
    ]
    return sets, pairs


def require_distinct(scorers: Sequence[Loaded]) -> None:
    """Refuse a scorer named twice: the ensemble would look more certain than it is."""
    known: dict[str, Path] = {}
    for loaded in scorers:
        path = loaded.checkpoint.path
        first = known.setdefault(loaded.checkpoint.sha256, path)
        if first is not path:
            raise UnreadableInput(str(path), f"is the same scorer as {first}", "name each once")


def require_same_source(scorers: Sequence[Loaded], priors: Sequence[AnswerPrior]) -> None:
    """Refuse an ensemble of retrained and other scorers: their logits are not comparable."""
    for loaded, prior in zip(scorers, priors, strict=True):
        if prior.source != priors[0].source:
            raise UnreadableInput(
                str(loaded.checkpoint.path),
                f"uses {prior.source}, but {scorers[0].checkpoint.path} uses {priors[0].source}",
                "retrain all scorers of an ensemble, or none",
            )


# Choosing pairs from the candidates, balanced over categories and systems.
#
# torch is needed only if a scorer's uncertainty is estimated.


@dataclass(frozen=True, slots=True)
class Choice:
    """The chosen pairs, in the order in which they were chosen.

    Attributes:
        about: how they were chosen, for the releases of the new study.
        expected: information of the answers to them, and to as many random pairs, in nats; None
            without a scorer.
    """

    pairs: tuple[Candidate, ...]
    sets: tuple[PossibleSet, ...]
    about: dict[str, Any]
    expected: tuple[float, float] | None
    missing: tuple[str, ...]  # images without which pairs could not be considered
    uncertainty: Mapping[str, Any] | None = None  # its source; None without a scorer

    def to_json(self, candidates: Candidates) -> dict[str, Any]:
        systems = Counter(candidates.systems[key] for pair in self.pairs for key in pair.systems)
        expected, expected_of_random = self.expected or (None, None)
        return {
            "chosen_by": self.about,
            "pairs": len(self.pairs),
            "candidates": len(candidates.pairs),
            "asked_before": candidates.n_asked,
            "held_out_triplets": candidates.n_held_out,
            "categories": dict(sorted(Counter(pair.category for pair in self.pairs).items())),
            "systems": dict(sorted(systems.items())),
            "expected_information": expected,
            "expected_information_of_random": expected_of_random,
            "uncertainty": self.uncertainty,
            "missing_images": list(self.missing),
        }


def require_enough(candidates: Candidates, n: int, seed: int) -> None:
    """Raise `NothingToDo` if there are fewer candidates, before hours of encoding."""
    balanced(candidates.pairs, n, min, rng_of(seed))


def choose_pairs(
    candidates: Candidates, uncertainty: Uncertainty | None, n: int, strategy: str, seed: int
) -> Choice:
    """Choose n pairs by "information" or at "random"; at random if there is no scorer."""
    about: dict[str, Any] = {"strategy": strategy, "seed": seed}
    rng = rng_of(seed)
    if uncertainty is None:
        places = balanced(candidates.pairs, n, rng.choice, rng)
        pairs = tuple(candidates.pairs[place] for place in places)
        return Choice(pairs, candidates.sets, about, None, ())
    information = at_random = uncertainty.information()
    places = balanced(uncertainty.pairs, n, rng.choice, rng)
    for place in places:
        at_random.take(place)
    if strategy == "information":
        about |= uncertainty.about
        information = uncertainty.information()
        places = balanced(uncertainty.pairs, n, information.take_best, rng_of(seed))
    return Choice(
        pairs=tuple(uncertainty.pairs[place] for place in places),
        sets=uncertainty.sets,
        about=about,
        expected=(information.total, at_random.total),
        missing=uncertainty.missing,
        uncertainty=uncertainty.about,
    )


def rng_of(seed: int) -> Random:
    return Random(f"next:{seed}")  # noqa: S311 (a seeded draw, not a secret)
