"""Whether recall orders the five retrieval systems as annotators do, on the drawn catalogue.

Each system is trained in miniature (`hsfiq train SYSTEM-fashioniq --data drawn`); its lists for the
validation and test triplets give recall. Simulated annotators then compare the top-5 sets of two
systems at a time, without the reference, as studies do; their preferences give win rates, and
strengths by Bradley-Terry and by Davidson's model, which takes account of the side. Kendall's tau
compares the order by strength with the order by each recall; its interval resamples annotators,
not triplets of the training or the recall. The annotators are simulated: they judge by the
garments' attributes, and nothing here says what people would prefer.

Trained systems are kept in runs/systems. Without --full, the systems are hardly trained.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pandas as pd
import torch

from benchmarks.trained_systems import CPU, FOLDER, SYSTEMS, TrainedSystems
from hsfiq.analysis.resampling.bootstrap import Bootstrap
from hsfiq.analysis.systems.ranks import rank_ranges
from hsfiq.analysis.systems.strengths import (
    Strengths,
    order_agreement,
    strengths,
    strengths_and_side,
)
from hsfiq.analysis.systems.systems import win_rates
from hsfiq.drawn import DrawnTriplet, draw_annotators, garment_of, generator, set_utility
from hsfiq.model.evaluation.drawn import Split, drawn
from hsfiq.model.evaluation.metrics import target_of
from hsfiq.model.evaluation.rankings import rank_with_scorer
from hsfiq.model.scorer.job import Callback
from hsfiq.model.scorer.loading import ScorerPaths
from hsfiq.model.system_recipes import SystemName

SPLITS: tuple[Split, ...] = ("val", "test")
KS = (1, 5, 10, 50)
SET_SIZE = 5
QUESTIONS = 50
RESAMPLES = 1000

Lists = Mapping[str, tuple[str, ...]]
"""Ranked images by query."""


@dataclass(frozen=True)
class Plan:
    """The sizes of a run.

    Attributes:
        seeds: how many; each has its own catalogue, pre-training, systems and annotators.
        limit: approximate number of training triplets; None for all.
        annotators: of each split, with `QUESTIONS` each.
        changes: values of each training stage that differ from the recipes'.
    """

    seeds: int
    limit: int | None
    annotators: int
    changes: Mapping[str, str] = field(default_factory=dict)


QUICK = Plan(seeds=1, limit=300, annotators=20, changes={"epochs": "2"})
FULL = Plan(seeds=3, limit=None, annotators=60)


def run(seed: int, full: bool) -> dict[str, Any]:
    """Train, rank, let annotators compare."""
    torch.set_num_threads(1)
    result = measure(seed, FULL if full else QUICK, FOLDER)
    if not full:
        result["note"] = "short: systems hardly trained; --full is the benchmark"
    return result


def measure(seed: int, plan: Plan, folder: Path) -> dict[str, Any]:
    """Every seed's figures for each split, and their means."""
    by_seed = [
        measure_seed(TrainedSystems(folder, number, plan.limit, plan.changes), plan.annotators)
        for number in range(seed, seed + plan.seeds)
    ]
    return {
        "name": "systems",
        "simulated": True,
        "answers_by": "simulated annotators: nothing here says what people would prefer",
        "seeds": plan.seeds,
        "annotators": plan.annotators,
        "questions": QUESTIONS,
        "cpu_minutes": {
            key: fmean(sum(each["seconds"][name][key] for name in SYSTEMS) for each in by_seed) / 60
            for key in ("pretraining", "training")
        },
        "summary": [case for split in SPLITS for case in summary(split, by_seed)],
        "tau": {
            split: {
                f"recall@{k}": fmean(
                    each["splits"][split]["tau"][f"recall@{k}"] for each in by_seed
                )
                for k in KS
            }
            for split in SPLITS
        },
        "cases": by_seed,
    }


def summary(split: Split, by_seed: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The mean figures of each system over seeds."""
    rows = []
    for name in SYSTEMS:
        figures = [each["splits"][split]["systems"][name] for each in by_seed]
        means = {key: fmean(each[key] for each in figures) for key in figures[0]}
        seconds = fmean(each["seconds"][name]["training"] for each in by_seed)
        rows.append({"split": split, "system": name, **means, "training_s": seconds})
    return rows


def measure_seed(trained_systems: TrainedSystems, annotators: int) -> dict[str, Any]:
    """Train the five systems of one seed, and compare them on both splits."""
    runs = {name: trained_systems.trained(name) for name in SYSTEMS}
    paths = {
        name: ScorerPaths(trained.run, trained_systems.pictures, cache=trained_systems.cache)
        for name, trained in runs.items()
    }
    return {
        "seed": trained_systems.seed,
        "seconds": {
            name: {"training": trained.training, "pretraining": trained.pretraining}
            for name, trained in runs.items()
        },
        "splits": {
            split: measure_split(trained_systems, split, paths, annotators) for split in SPLITS
        },
    }


def measure_split(
    trained_systems: TrainedSystems,
    split: Split,
    paths: Mapping[SystemName, ScorerPaths],
    annotators: int,
) -> dict[str, Any]:
    """Recall, and what simulated annotators prefer."""
    benchmark = drawn(trained_systems.catalogue, split)
    queries = {query.query_id: query for part in benchmark.parts for query in part.queries}
    lists: dict[str, Lists] = {}
    for name, of_system in paths.items():
        answers = rank_with_scorer(benchmark, of_system, CPU, Callback()).answers
        lists[name] = {key: each for own in answers.values() for key, each in own.lists.items()}
    recall = {
        name: {
            k: fmean(
                target_of(query) in ranked[query_id][:k] for query_id, query in queries.items()
            )
            for k in KS
        }
        for name, ranked in lists.items()
    }
    triplets = {each.external_id: each for each in trained_systems.catalogue.triplets}
    asked = [triplets[query_id] for query_id in queries]
    rows = answered(trained_systems.seed, split, asked, lists, annotators)
    return {"n_queries": len(queries), **compared(rows, recall, trained_systems.seed)}


def answered(
    seed: int,
    split: Split,
    triplets: Sequence[DrawnTriplet],
    lists: Mapping[str, Lists],
    n_annotators: int,
) -> pd.DataFrame:
    """Each annotator's answers about random triplets and two random systems on random sides."""
    numbers = {name: number for number, name in enumerate(lists)}
    rows = []
    for annotator in draw_annotators(generator(seed, f"annotators {split}"), n_annotators):
        rng = generator(seed, f"answers {split}", annotator.name)
        for triplet in rng.sample(triplets, min(QUESTIONS, len(triplets))):
            names = rng.sample(list(lists), 2)
            worth = [worth_of(triplet, lists[name][triplet.external_id]) for name in names]
            answer = annotator.answer(rng, worth[0], worth[1])
            rows.append(
                {
                    "participant_id": annotator.name,
                    "query_id": triplet.external_id,
                    "system_1": names[0],
                    "system_2": names[1],
                    "first": numbers[names[0]],
                    "second": numbers[names[1]],
                    "preferred": answer.values["preferred"],
                }
            )
    return pd.DataFrame(rows)


def worth_of(triplet: DrawnTriplet, ranked: Sequence[str]) -> float:
    """The utility of the set that a study shows: the first images besides the reference."""
    reference = triplet.reference.image_id
    shown = [image for image in ranked if image != reference][:SET_SIZE]
    return set_utility(triplet, [garment_of(image) for image in shown])


def compared(
    rows: pd.DataFrame, recall: Mapping[str, Mapping[int, float]], seed: int
) -> dict[str, Any]:
    """Win rates and strengths by the answers, and whether each recall gives the same order."""
    names = list(recall)
    bootstrap = Bootstrap.of_rows(rows, n_resamples=RESAMPLES, seed=seed)
    share = np.choose(rows["preferred"].to_numpy(), (0.5, 1.0, 0.0))
    human = strengths(rows, share, names, bootstrap)
    won = win_rates(rows, names, bootstrap)
    model = strengths_and_side(rows, names, bootstrap)
    orders = {
        k: order_agreement(human, by_recall(recall, k, bootstrap), names, bootstrap) for k in KS
    }
    return {
        "systems": {
            name: {
                **{f"recall@{k}": recall[name][k] for k in KS},
                "win_rate": won[name].value,
                "bradley_terry": human.estimates[name].value,
                "davidson": model.strength[name].value if name in model.strength else float("nan"),
            }
            for name in names
        },
        "n_answers": len(rows),
        "rank_ranges": rank_ranges(human, names, bootstrap).text(),
        "tau": {f"recall@{k}": order.tau for k, order in orders.items()},
        "tau_ci": {
            f"recall@{k}": None if order.ci is None else [order.ci.low, order.ci.high]
            for k, order in orders.items()
        },
        "swapped": {f"recall@{k}": order.swapped for k, order in orders.items()},
    }


def by_recall(recall: Mapping[str, Mapping[int, float]], k: int, bootstrap: Bootstrap) -> Strengths:
    """Recall@k in the place of strengths; resampling annotators does not change it."""
    values = np.array([by_k[k] for by_k in recall.values()])
    return Strengths({}, values, np.tile(values, (bootstrap.length, 1)), None)


def markdown(result: dict[str, Any]) -> str:
    """The table of docs/reference/systems.md."""
    columns = [*(f"recall@{k}" for k in KS), "win_rate", "bradley_terry", "davidson"]
    lines = [
        "| split | system | R@1 | R@5 | R@10 | R@50 | wins | Bradley-Terry | Davidson | CPU s |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for case in result["summary"]:
        cells = " | ".join(f"{case[column]:.3f}" for column in columns)
        lines.append(f"| {case['split']} | {case['system']} | {cells} | {case['training_s']:.0f} |")
    lines.append("")
    for case in result["cases"]:
        for split, figures in case["splits"].items():
            taus = ", ".join(
                f"{name} {tau:.2f}" + shown_interval(figures["tau_ci"][name])
                for name, tau in figures["tau"].items()
            )
            lines.append(f"seed {case['seed']}, {split}, {figures['n_answers']:,} answers: {taus}")
            lines.append(f"  ranks by the answers: {figures['rank_ranges']}")
    minutes = result["cpu_minutes"]
    lines.append(
        f"CPU minutes a seed: pre-training {minutes['pretraining']:.1f}, "
        f"training {minutes['training']:.1f}. Answers by {result['answers_by']}."
    )
    return "\n".join([*lines, *([result["note"]] if "note" in result else [])])


def shown_interval(ci: Sequence[float] | None) -> str:
    return "" if ci is None else f" [{ci[0]:.2f}, {ci[1]:.2f}]"
