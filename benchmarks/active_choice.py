"""Which pairs to ask next: the most informative by an ensemble or by dropout, or random ones.

For each seed: simulated annotators answer some random pairs of four systems of known, different
quality, three scorers are retrained on their answers, and as many further pairs are chosen in each
way. Two annotators answer each of these; ties are allowed. The first scorer is retrained on the
first answers and those of each way, and compared with other annotators' answers about other
triplets. The seeds differ in triplets, systems' noise, annotators and answers; the scorers before
are the same. Differences from random pairs are paired, with Student's interval over the seeds.
"""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import torch
from scipy import stats

from hsfiq.demo.study import draw_catalogue, draw_queries
from hsfiq.drawn import (
    SYSTEMS,
    Garment,
    SimulatedAnnotator,
    corpus,
    draw_annotators,
    garment_of,
    generator,
    set_utility,
)
from hsfiq.drawn.garments import CATEGORIES
from hsfiq.model.data import draw_pictures, drawn, drawn_size
from hsfiq.model.image_tokens import FeatureCache
from hsfiq.model.informative_pairs import (
    FITTED,
    AnswerPrior,
    ExpectedAnswers,
    Uncertainty,
    choose_pairs,
    latents_of_answers,
    opinions,
)
from hsfiq.model.preference.answer_model import AnswerModel
from hsfiq.model.preference.answers import Question, answer_tensors
from hsfiq.model.preference.training import Retraining, Settings, set_scores
from hsfiq.model.recipes import Recipe, on_drawn, recipe
from hsfiq.model.release_scores import indexed
from hsfiq.model.runtime import Distributed
from hsfiq.model.runtime import generator as torch_generator
from hsfiq.model.scorer.inference import Inference
from hsfiq.model.scorer.job import Callback, TrainingJob
from hsfiq.model.scorer.loading import ScorerPaths, load_scorer
from hsfiq.model.scorer.run import run as train
from hsfiq.model.scorer.scorer import Scorer
from hsfiq.next_study import Candidate, Candidates, PossibleSet
from hsfiq.releases.folder import ReleasedSet

CPU = Distributed(torch.device("cpu"))
STRATEGIES = ("random", "dropout", "ensemble")
ENSEMBLE = 3
K = 5
EXPECTED = ExpectedAnswers(per_pair=2.0, has_ties=True)


@dataclass(frozen=True)
class Size:
    """Triplets to train on, seeds, and queries and pairs of a seed."""

    triplets: int
    epochs: int
    seeds: int
    first: int
    pool: int
    held_out: int
    chosen: int

    @property
    def per_category(self) -> int:
        return -(-(self.first + self.pool + self.held_out) // len(CATEGORIES))


SMALL = Size(triplets=120, epochs=2, seeds=2, first=30, pool=60, held_out=30, chosen=15)
FULL = Size(triplets=2500, epochs=6, seeds=20, first=150, pool=330, held_out=240, chosen=100)


@dataclass(frozen=True)
class Scorers:
    """The scorers before any answer, their recipe, and the tokens of the catalogue's images."""

    scorers: list[Scorer]
    recipe: Recipe
    cache: FeatureCache


@dataclass(frozen=True)
class Pool:
    """One seed's queries: systems' sets, possible pairs, and what the annotators see in a set."""

    sets: list[PossibleSet]
    pairs: list[Candidate]
    utilities: list[float]


def run(seed: int, full: bool) -> dict[str, Any]:
    size = FULL if full else SMALL
    garments = draw_catalogue(seed, size.per_category)
    with tempfile.TemporaryDirectory() as name:
        before = scorers_before(Path(name), garments, size, seed)
        cases = [case_of(before, garments, size, seed + 1 + number) for number in range(size.seeds)]
    return {
        "name": "active-choice",
        "simulated": True,
        "seeds": size.seeds,
        "first_answers": size.first,
        "further_answers": round(size.chosen * EXPECTED.per_pair),
        "held_out_sets": 2 * size.held_out,
        "rho_before": float(np.mean([case["before"] for case in cases])),
        "cases": [summary(cases, strategy) for strategy in STRATEGIES],
    }


def summary(cases: Sequence[Mapping[str, float]], strategy: str) -> dict[str, Any]:
    """Spearman's rho, the mean over seeds, and its difference from that of random pairs."""
    rhos = np.array([case[strategy] for case in cases])
    differences = rhos - np.array([case["random"] for case in cases])
    result: dict[str, Any] = {"strategy": strategy, "rho": float(rhos.mean())}
    if strategy != "random":
        half = stats.t.ppf(0.975, len(cases) - 1) * stats.sem(differences)
        mean = differences.mean()
        result |= {"above_random": float(mean), "ci": [float(mean - half), float(mean + half)]}
    return result


def scorers_before(folder: Path, garments: Sequence[Garment], size: Size, seed: int) -> Scorers:
    data = drawn(folder / "images", seed, *drawn_size(size.triplets), "corpus")
    paths = ScorerPaths(cache=folder / "cache")
    stated = replace(on_drawn(recipe("cirqrs-fashioniq")), epochs=size.epochs, n_def=2)
    scorers = []
    for number in range(ENSEMBLE):
        out = folder / str(number)
        train(replace(stated, seed=seed + number), TrainingJob(data, out, paths, CPU, Callback()))
        scorers.append(load_scorer(out, None, CPU.device).scorer)
    draw_pictures(garments, folder / "images")
    cache = FeatureCache.open(folder / "cache", scorers[0].encoder)
    cache.fill({path.stem: path for path in (folder / "images").iterdir()}, device=CPU.device)
    return Scorers(scorers, stated, cache)


def case_of(
    before: Scorers, garments: Sequence[Garment], size: Size, seed: int
) -> dict[str, float]:
    """Spearman's rho with the held-out scores: before, and after each way of choosing."""
    pool = pool_of(garments, size, seed)
    rng = generator(seed, "pairs")
    queries = list(indexed(pair.query_id for pair in pool.pairs))
    rng.shuffle(queries)
    parts = {
        "first": set(queries[: size.first]),
        "held_out": set(queries[-size.held_out :]),
        "pool": set(queries[size.first : size.first + size.pool]),
    }
    pairs = {
        name: [pair for pair in pool.pairs if pair.query_id in part] for name, part in parts.items()
    }
    people = draw_annotators(generator(seed, "annotators"), 12)
    first = answered(pool, one_each(pairs["first"], rng), people[:3], rng)
    held_out = answered(pool, one_each(pairs["held_out"], rng), people[6:], rng)
    retrained, models = [], []
    for number, scorer in enumerate(before.scorers):
        own, model = retrain(before, scorer, first, seed + number)
        retrained.append(own)
        models.append(model)
    candidates = Candidates(tuple(pool.sets), tuple(pairs["pool"]), {}, 0, 0)
    result = {"before": rho(before, before.scorers[0], held_out)}
    for strategy in STRATEGIES:
        chosen = chosen_pairs(strategy, before, retrained, models, candidates, size.chosen, seed)
        further = [
            question
            for people_of_one in (people[3:4], people[4:5])
            for question in answered(pool, chosen, people_of_one, generator(seed, strategy))
        ]
        scorer, _ = retrain(before, before.scorers[0], [*first, *further], seed)
        result[strategy] = rho(before, scorer, held_out)
    return result


def pool_of(garments: Sequence[Garment], size: Size, seed: int) -> Pool:
    sets: list[PossibleSet] = []
    pairs: list[Candidate] = []
    utilities: list[float] = []
    for number, query in enumerate(draw_queries(seed, garments, size.per_category)):
        triplet, start = query.triplet, len(sets)
        for system in SYSTEMS:
            images = system.rank(triplet, corpus(garments, triplet.category), seed, depth=K).images
            sets.append(
                PossibleSet(triplet.reference.image_id, " and ".join(triplet.captions), images)
            )
            utilities.append(set_utility(triplet, [garment_of(image) for image in images]))
        pairs += [
            Candidate(number, number, triplet.category, (i, j), (start + i, start + j))
            for i, j in combinations(range(len(SYSTEMS)), 2)
            if sets[start + i].images != sets[start + j].images
        ]
    return Pool(sets, pairs, utilities)


def one_each(pairs: Sequence[Candidate], rng: Random) -> list[Candidate]:
    """A random pair of each query."""
    by_query: dict[int, list[Candidate]] = {}
    for pair in pairs:
        by_query.setdefault(pair.query_id, []).append(pair)
    return [rng.choice(of_query) for of_query in by_query.values()]


def answered(
    pool: Pool, pairs: Sequence[Candidate], people: Sequence[SimulatedAnnotator], rng: Random
) -> list[Question]:
    """The answers to pairs, each by one of these annotators, in a random order of the two sets."""
    questions = []
    for number, pair in enumerate(pairs):
        person = people[number % len(people)]
        first, second = rng.sample(pair.sets, 2)
        answer = person.answer(
            rng, pool.utilities[first], pool.utilities[second], ties_allowed=True
        )
        questions.append(
            Question(
                question_id=f"{person.name}-{number}",
                participant=person.name,
                sets=(released(pool, first), released(pool, second)),
                preferred=answer.values["preferred"],
                scores=(answer.values["score_1"], answer.values["score_2"]),
                part="train",
            )
        )
    return questions


def released(pool: Pool, place: int) -> ReleasedSet:
    shown = pool.sets[place]
    reference, text = shown.scorer_query
    return ReleasedSet(str(place), f"{reference} {text}", reference, text, shown.images)


def retrain(
    before: Scorers, scorer: Scorer, questions: Sequence[Question], seed: int
) -> tuple[Scorer, AnswerModel]:
    own = copy.deepcopy(scorer)
    weights = {question.participant: 1.0 for question in questions}
    settings = replace(Settings.for_encoder("tiny"), folds=0, seed=seed)
    retraining = Retraining(
        own,
        before.recipe,
        settings,
        questions,
        answer_tensors(questions, weights),
        before.cache,
        CPU,
        torch.float32,
    )
    return own, retraining.train().final


def chosen_pairs(
    strategy: str,
    before: Scorers,
    scorers: Sequence[Scorer],
    models: Sequence[AnswerModel],
    candidates: Candidates,
    n: int,
    seed: int,
) -> list[Candidate]:
    if strategy == "random":
        return list(choose_pairs(candidates, None, n, "random", seed).pairs)
    members = 1 if strategy == "dropout" else len(scorers)
    dropout = torch_generator(seed, "dropout") if strategy == "dropout" else None
    views = []
    for scorer, model in list(zip(scorers, models, strict=True))[:members]:
        inference = Inference(scorer.encoder, before.cache, CPU)
        views.append(
            (opinions(candidates.sets, dropout, scorer.pooling, inference), prior_of(model))
        )
    places = torch.tensor([pair.sets for pair in candidates.pairs])  # [P, 2]
    latents, weights = latents_of_answers(views, places, EXPECTED)
    uncertainty = Uncertainty(candidates.pairs, candidates.sets, (), latents, weights, {})
    return list(choose_pairs(candidates, uncertainty, n, "information", seed).pairs)


def prior_of(model: AnswerModel) -> AnswerPrior:
    fitted = model.to_json()
    log_tie = fitted["log_tie"]
    return AnswerPrior(
        FITTED,
        slope=fitted["slope"]["value"],
        side_bias=model.side_bias,
        score_slope=fitted["score_slope"]["value"],
        thresholds=tuple(model.thresholds.tolist()),
        log_tie=None if log_tie is None else log_tie["value"],
    )


def rho(before: Scorers, scorer: Scorer, questions: Sequence[Question]) -> float:
    """Spearman's, of the scores of all sets with people's."""
    inference = Inference(scorer.encoder, before.cache, CPU)
    own = set_scores(questions, scorer, inference).flatten().numpy()  # [2 Q]
    people = np.array([question.scores for question in questions]).flatten()
    return float(stats.spearmanr(own, people).statistic)
