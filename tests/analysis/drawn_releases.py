"""Releases of the drawn catalogue in memory: systems in a known order, annotators of known bias."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import pandas as pd

from hsfiq.analysis.data.release import Release
from hsfiq.drawn import (
    SYSTEMS,
    DrawnTriplet,
    Garment,
    Population,
    catalogue,
    corpus,
    draw_annotators,
    draw_split,
    garment_of,
    generator,
    set_utility,
)
from hsfiq.drawn.garments import CATEGORIES

BEST_FIRST = [system.name for system in SYSTEMS]
PAIRS = list(combinations(SYSTEMS, 2))


def draw_release(
    n_participants: int,
    n_questions: int,
    seed: int,
    *,
    overlap: int = 1,
    population: Population | None = None,
) -> tuple[Release, pd.Series]:
    """A study of one category per participant, and each set's utility by set_id.

    `overlap` participants of a category in a row answer the same questions, sides drawn anew.
    """
    garments = catalogue(generator(seed, "catalogue"), 60)
    annotators = draw_annotators(
        generator(seed, "annotators"), n_participants, population or Population()
    )
    preferences, sets, queries, utilities = [], [], {}, {}
    groups = -(-n_participants // overlap)
    for group in range(groups):
        category = CATEGORIES[group % len(CATEGORIES)]
        rng = generator(seed, "group", str(group))
        triplets = draw_split(rng, garments, category, "val", n_questions)
        candidates = corpus(garments, category)
        drawn_pairs = [(triplet, rng.choice(PAIRS)) for triplet in triplets]
        for annotator in annotators[group * overlap : (group + 1) * overlap]:
            answering = generator(seed, "answers", annotator.name)
            for place, (triplet, pair) in enumerate(drawn_pairs):
                question = f"{annotator.name}.form_1.{place}"
                query = f"{group}.{triplet.external_id}"
                queries[query] = {
                    "query_id": query,
                    "triplet_id": query,
                    "target_id": triplet.target.image_id,
                    "category": category,
                }
                sides = answering.sample(pair, 2)
                images = [shown(system.rank(triplet, candidates, seed).images) for system in sides]
                worth = [worth_of(triplet, image_list) for image_list in images]
                answer = annotator.answer(answering, worth[0], worth[1])
                preferences.append(
                    {
                        "question_id": question,
                        "participant_id": annotator.name,
                        "form": "form_1",
                        "query_id": query,
                        "set_1": f"{question}.1",
                        "set_2": f"{question}.2",
                        "system_1": sides[0].name,
                        "system_2": sides[1].name,
                        "score_1": answer.values["score_1"],
                        "score_2": answer.values["score_2"],
                        "preferred": answer.values["preferred"],
                        "irrelevant": answer.irrelevant,
                        "active_seconds": answer.times.active_seconds,
                        "failed_checks": int(annotator == annotators[0]),
                    }
                )
                for side in (0, 1):
                    name = f"{question}.{side + 1}"
                    utilities[name] = worth[side]
                    sets.append(
                        {
                            "set_id": name,
                            "question_id": question,
                            "participant_id": annotator.name,
                            "query_id": query,
                            "system": sides[side].name,
                            "image_ids": images[side],
                            "score": answer.values[f"score_{side + 1}"],
                        }
                    )
    release = Release(
        folder=Path("drawn-hp-1.0.0"),
        name="drawn-hp",
        version="1.0.0",
        kind="hp",
        study="drawn",
        simulated=True,
        preferences=pd.DataFrame(preferences),
        sets=pd.DataFrame(sets),
        queries=pd.DataFrame(list(queries.values())),
    )
    return release, pd.Series(utilities)


def shown(images: tuple[str, ...]) -> list[str]:
    return list(images[:5])


def worth_of(triplet: DrawnTriplet, images: list[str]) -> float:
    result: list[Garment] = [garment_of(image) for image in images]
    return set_utility(triplet, result)
