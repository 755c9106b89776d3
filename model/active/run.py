"""From checkpoints and candidates to what each pair's answers would tell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from hsfiq.active.candidates import Candidate, Candidates, PossibleSet
from hsfiq.errors import UnreadableInput
from hsfiq.model.active.information import Information, preference_information, score_information
from hsfiq.model.active.priors import Laws, laws_of
from hsfiq.model.active.uncertainty import RATE, opinions
from hsfiq.model.runtime.seeds import generator
from hsfiq.model.scorer.loading import Loaded, load_scorer
from hsfiq.model.scorer.paths import ScorerPaths
from hsfiq.model.scoring.run import encoded, pictures_in
from hsfiq.model.training.callbacks import Callback


@dataclass(frozen=True, slots=True)
class Uncertainty:
    """What scorers are unsure about.

    Attributes:
        pairs: the candidates all of whose images are there.
        sets: those that these name.
        missing: the images that are missing or unreadable, sorted.
        latents: [J, P, A] J opinions on the A latents of each pair's answer, in logits.
        weights: [P, A] the answers' Fisher information about them.
        about: the scorers, how their uncertainty was found, and the law of the answers.
    """

    pairs: tuple[Candidate, ...]
    sets: tuple[PossibleSet, ...]
    missing: tuple[str, ...]
    latents: Tensor
    weights: Tensor
    about: Mapping[str, Any]

    def information(self) -> Information:
        """Where nothing is chosen yet."""
        return Information(self.latents, self.weights)


def uncertainty(
    checkpoints: Sequence[Path],
    paths: ScorerPaths,
    found: Candidates,
    seed: int,
    device: torch.device,
    callback: Callback,
) -> Uncertainty:
    """Let the scorers say what they think of every candidate.

    Args:
        checkpoints: of one scorer, or of several as an ensemble.
        paths: of images, weights and cache.
        found: what could be asked.
        seed: of the dropout.
        device: computes.
        callback: is told of the images encoded.

    Raises:
        UnreadableInput: no checkpoint, no images, a checkpoint named twice, or scorers of which
            some were retrained on answers and some were not.
    """
    scorers = [load_scorer(path, paths.weights, device) for path in checkpoints]
    require_distinct(scorers)
    laws = [laws_of(it) for it in scorers]
    require_one_kind(scorers, laws)
    wanted = {image for it in found.sets for image in (it.reference, *it.images)}
    nowhere = ("images", "the database does not say where they are")
    there = set(wanted)
    with pictures_in(paths.images, wanted, nowhere) as files:
        at_work = [encoded(it, files, paths.cache, device, callback) for it in scorers]
        for _, readable in at_work:
            there &= readable
    sets, pairs = with_images(found, there)
    if not pairs:
        raise UnreadableInput(
            "images", "no pair has all of them", "name their folder with --images"
        )
    dropout = generator(seed, "dropout") if len(scorers) == 1 else None
    views = [
        (opinions(sets, dropout, it.recipe.pooling, inference), law)
        for it, law, (inference, _) in zip(scorers, laws, at_work, strict=True)
    ]
    places = torch.tensor([it.sets for it in pairs])  # [P, 2]
    latents, weights = answers(views, places)
    return Uncertainty(
        pairs=tuple(pairs),
        sets=tuple(sets),
        missing=tuple(sorted(wanted - there)),
        latents=latents,
        weights=weights,
        about={
            "scorers": [it.checkpoint.sha256 for it in scorers],
            "uncertainty": "ensemble" if dropout is None else f"MC-dropout, rate {RATE}",
            "opinions": len(latents),
            "law": views[0][1].source,
        },
    )


def answers(views: Sequence[tuple[Tensor, Laws]], places: Tensor) -> tuple[Tensor, Tensor]:
    """The opinions on the latents behind each pair's answer, and how much the answer tells of them.

    Args:
        views: of each scorer its opinions on the sets, [j, S], and the law of its answers.
        places: [P, 2] of the pairs' sets.

    Returns:
        [J, P, A] and [P, A]: A is 3, the margin and the two Likert scores; 1, the margin, where
        the scorers know no law of the scores.
    """
    parts, thresholds = [], []
    for scores, laws in views:
        both = scores[:, places]  # [j, P, 2]
        margins = laws.slope * (both[..., 0] - both[..., 1])  # [j, P]
        columns = [margins.unsqueeze(2)]
        if laws.thresholds is not None:
            # A scorer's level is its thresholds': two that differ in both alike are of one opinion.
            edges = torch.tensor(laws.thresholds, dtype=scores.dtype)  # [K - 1]
            columns.append(laws.score_slope * both - edges.mean())
            thresholds.append(edges - edges.mean())
        parts.append(torch.cat(columns, dim=2))  # [j, P, A]
    latents = torch.cat(parts)  # [J, P, A]
    mean = latents.mean(dim=0)  # [P, A]
    side_bias = sum(laws.side_bias for _, laws in views) / len(views)
    weights = [preference_information(mean[:, 0], side_bias)]
    if thresholds:
        edges = torch.stack(thresholds).mean(dim=0)
        weights += [score_information(mean[:, i], edges) for i in (1, 2)]
    return latents, torch.stack(weights, dim=1)


def with_images(found: Candidates, there: set[str]) -> tuple[list[PossibleSet], list[Candidate]]:
    """The sets and the pairs of them all of whose images are there."""
    place: dict[int, int] = {}
    sets: list[PossibleSet] = []
    for i, it in enumerate(found.sets):
        if it.reference in there and there.issuperset(it.images):
            place[i] = len(sets)
            sets.append(it)
    pairs = [
        it.with_sets(place[it.sets[0]], place[it.sets[1]])
        for it in found.pairs
        if it.sets[0] in place and it.sets[1] in place
    ]
    return sets, pairs


def require_distinct(scorers: Sequence[Loaded]) -> None:
    """Refuse a scorer that comes twice: it would look surer than it is.

    Raises:
        UnreadableInput: naming it.
    """
    known: dict[str, Path] = {}
    for it in scorers:
        before = known.setdefault(it.checkpoint.sha256, it.checkpoint.path)
        if before is not it.checkpoint.path:
            raise UnreadableInput(
                str(it.checkpoint.path), f"is the same scorer as {before}", "name each once"
            )


def require_one_kind(scorers: Sequence[Loaded], laws: Sequence[Laws]) -> None:
    """Refuse an ensemble of retrained scorers and others: their logits have no common measure.

    Raises:
        UnreadableInput: naming one of either.
    """
    first = laws[0]
    for it, law in zip(scorers, laws, strict=True):
        if law.source != first.source:
            raise UnreadableInput(
                str(it.checkpoint.path),
                f"answers by {law.source}, and {scorers[0].checkpoint.path} by {first.source}",
                "retrain all scorers of an ensemble, or none",
            )
