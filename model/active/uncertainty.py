"""The uncertainty of scorers: from checkpoints and candidate pairs to latents and weights."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from hsfiq.active.candidates import Candidate, Candidates, PossibleSet
from hsfiq.errors import UnreadableInput
from hsfiq.model.active.information import Information, preference_information, score_information
from hsfiq.model.active.opinions import RATE, opinions
from hsfiq.model.active.priors import ONE_ANSWER, AnswerPrior, ExpectedAnswers, prior_of
from hsfiq.model.release_scores.encoded_images import encode_images, find_images
from hsfiq.model.retrieval.loading import retriever_of
from hsfiq.model.runtime.seeds import generator
from hsfiq.model.scorer.loading import Loaded, load_scorer
from hsfiq.model.scorer.paths import ScorerPaths
from hsfiq.model.training.callbacks import Callback


@dataclass(frozen=True, slots=True)
class Uncertainty:
    """Scorers' opinions on the candidate pairs all of whose images are available.

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
    """The sets all of whose images are available, and the pairs of these sets."""
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
                f"uses {prior.source}, and {scorers[0].checkpoint.path} {priors[0].source}",
                "retrain all scorers of an ensemble, or none",
            )
