"""Bi-BLIP4CIR's own test in small, on the drawn catalogue: its tables 3, 4 and 5.

Table 5: without the reversed loss, a target and its text read backwards hardly find the reference.
Table 3 ablates the loss: its negatives, and the token of forward texts. Beside them CoVR-BLIP is
trained with HN-NCE by its formula, as its published code computes it, and without its weights.

All systems of a seed start from the same pre-trained towers. With --full the figures are means over
three seeds with Student's t intervals; else one seed of a few triplets, too few for most of the
differences, with bootstrap intervals over targets.
Pictures, features and pre-trained towers are kept in the cache (HSFIQ_CACHE).
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import torch
from scipy.stats import t as student
from torch import Tensor, nn

from benchmarks.ablation import recall
from benchmarks.ablation_trials import Lists, Sampled, one_thread
from benchmarks.agreement import interval
from benchmarks.trained_systems import prepare_backbone
from hsfiq.model import checkpoints
from hsfiq.model.data import Example, TrainingData, drawn, rows_by_pool
from hsfiq.model.encoders.encoder import Retriever
from hsfiq.model.image_tokens import TokenSource, default_root
from hsfiq.model.retrieval.bi_blip4cir import BiBlip4cir
from hsfiq.model.retrieval.loading import load_system
from hsfiq.model.retrieval.system import System
from hsfiq.model.retrieval.training import train_system
from hsfiq.model.runtime import Distributed
from hsfiq.model.scorer.inference import Inference, ranks
from hsfiq.model.scorer.job import Callback, TrainingJob
from hsfiq.model.scorer.loading import ScorerPaths
from hsfiq.model.scorer.run import tokens_of
from hsfiq.model.system_recipes import STAGED, SystemRecipe, system_on_drawn, system_recipe

CATALOGUE_SEED, GARMENTS, TRIPLETS = 1000, 600, 18_000
"""Of the drawn catalogue, the same for every seed: 9,000 training and 600 validation triplets."""
KS = (1, 10, 50)
CPU = torch.device("cpu")

BI_BLIP4CIR: dict[str, dict[str, Any]] = {
    "BLIP4CIR, no reversed loss": {"direction": "none", "alpha": 0.0},
    "negatives are references": {"negatives": "references"},
    "token backwards alone": {"direction": "backward-token"},
    "Bi-BLIP4CIR": {},
    "Bi-BLIP4CIR, strings of the code": {"direction": "code"},
}
"""What each row changes: first those of table 3. An `alpha` is of each stage."""
COVR_BLIP: dict[str, dict[str, Any]] = {
    "CoVR-BLIP, HN-NCE": {"loss": "hn-nce"},
    "CoVR-BLIP, HN-NCE of the code": {"loss": "hn-nce-code"},
    "CoVR-BLIP, InfoNCE": {"loss": "info-nce"},
}
FIRST, FULLY = "BLIP4CIR, no reversed loss", "Bi-BLIP4CIR"
FORMULA, CODE = "CoVR-BLIP, HN-NCE", "CoVR-BLIP, HN-NCE of the code"
BATCH = 32
"""Smaller than with all triplets, so that these few still give enough steps."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The sizes of a run.

    Attributes:
        triplets: for training, of the catalogue's 9,000.
        epochs: of each stage of Bi-BLIP4CIR; stage II is left out if there is one number.
        covr_epochs: of CoVR-BLIP.
        ablation: whether all rows are trained, or two of each system.
    """

    seeds: int
    triplets: int
    epochs: tuple[int, ...]
    covr_epochs: int
    ablation: bool = True


FULL = Plan(seeds=3, triplets=3000, epochs=(8, 4), covr_epochs=8)
QUICK = Plan(seeds=1, triplets=600, epochs=(6,), covr_epochs=4, ablation=False)


@dataclass(frozen=True, slots=True)
class Folders:
    """Where pictures are drawn, where features and towers are kept, and where runs write."""

    pictures: Path
    cache: Path
    runs: Path


@dataclass(frozen=True, slots=True)
class Trial:
    name: str
    recipe: SystemRecipe


@dataclass(frozen=True, slots=True)
class Trained:
    """The ranks of the goals after each stage: `forward`, and `reversed` where texts can be."""

    lists: list[dict[str, Lists]]
    cpu_seconds: float


def run(seed: int, full: bool) -> dict[str, Any]:
    """Train every row with each seed, and rank forward and reversed queries."""
    cache = default_root()
    with tempfile.TemporaryDirectory() as runs:
        folders = Folders(cache / f"drawn-{CATALOGUE_SEED}", cache, Path(runs))
        result = measure(seed, FULL if full else QUICK, folders)
    if not full:
        result["note"] = (
            "short: one seed, few triplets and rows, stage I alone; the differences that --full "
            "measures are too small for it"
        )
    return result


def measure(seed: int, plan: Plan, folders: Folders) -> dict[str, Any]:
    """Run a plan, as many trainings at a time as there are cores."""
    started = time.perf_counter()
    trials = planned(seed, plan)
    first_of_seed = {trial.recipe.seed: trial for trial in reversed(trials)}
    with ProcessPoolExecutor(mp_context=get_context("spawn"), initializer=one_thread) as pool:
        prepared = [pool.submit(prepare, trial, folders) for trial in first_of_seed.values()]
        for preparation in prepared:
            preparation.result()
        ready = time.perf_counter()
        jobs = [pool.submit(train, trial, folders) for trial in trials]
        trained = {}
        for trial, job in zip(trials, jobs, strict=True):
            trained[trial.name, trial.recipe.seed] = job.result()
            print(f"trained {trial.name}, seed {trial.recipe.seed}", file=sys.stderr)
    n_queries, n_candidates = sizes(folders)
    return {
        "name": "bi-directional",
        "simulated": True,
        "seeds": plan.seeds,
        "triplets": plan.triplets,
        "epochs": plan.epochs,
        "covr_epochs": plan.covr_epochs,
        "queries": n_queries,
        "candidates": n_candidates,
        "chance": [k / n_candidates for k in KS],
        "set_up_seconds": ready - started,
        "seconds": time.perf_counter() - ready,
        "intervals": "Student's t over seeds" if plan.seeds > 1 else "bootstrap over targets",
        "cases": cases(trained, seed),
    }


def planned(seed: int, plan: Plan) -> list[Trial]:
    """The trainings of each seed, those of Bi-BLIP4CIR first."""
    chosen = {**BI_BLIP4CIR, **COVR_BLIP} if plan.ablation else (FIRST, FULLY, FORMULA, CODE)
    return [
        Trial(name, row_recipe(name, plan, number))
        for number in range(seed, seed + plan.seeds)
        for name in chosen
    ]


def row_recipe(name: str, plan: Plan, seed: int) -> SystemRecipe:
    """A row's recipe on the drawn catalogue, with as many stages as numbers of epochs."""
    is_bi = name in BI_BLIP4CIR
    stated = system_on_drawn(system_recipe(f"{'bi-blip4cir' if is_bi else 'covr-blip'}-fashioniq"))
    epochs = plan.epochs if is_bi else (plan.covr_epochs,)
    staged = {key: getattr(stated, key)[: len(epochs)] for key in (*STAGED, *stated.STAGED_TOO)}
    changed = {**BI_BLIP4CIR, **COVR_BLIP}[name]
    values = staged | changed | {"epochs": epochs, "batch": (BATCH,) * len(epochs)}
    if "alpha" in changed:
        values["alpha"] = (changed["alpha"],) * len(epochs)
    return replace(stated, **values, triplets=plan.triplets, seed=seed)


def catalogue(folders: Folders) -> TrainingData:
    return drawn(folders.pictures, CATALOGUE_SEED, GARMENTS, TRIPLETS, "corpus")


def sizes(folders: Folders) -> tuple[int, float]:
    """Validation queries, and the mean number of candidates of a query."""
    data = catalogue(folders)
    return len(data.val), fmean(len(data.corpora[example.pool]) for example in data.val)


def prepare(trial: Trial, folders: Folders) -> None:
    """Draw pictures, cache their features and pre-train a seed's towers, if not done before."""
    prepare_backbone(trial.recipe, catalogue(folders), folders.cache)


def train(trial: Trial, folders: Folders) -> Trained:
    """Train a row, and rank the validation queries after each stage."""
    started = time.process_time()
    data, out = catalogue(folders), folders.runs / f"{trial.name}-{trial.recipe.seed}"
    paths = ScorerPaths(cache=folders.cache)
    train_system(trial.recipe, TrainingJob(data, out, paths, Distributed(CPU), Callback()))
    last = len(trial.recipe.stages)
    stage_folders = [out / f"stage-{number}" for number in range(1, last)] + [out]
    lists = [
        rank(load_system(checkpoints.read(folder), trial.recipe, None), data, folders.cache)
        for folder in stage_folders
    ]
    return Trained(lists, time.process_time() - started)


def rank(system: System, data: TrainingData, cache: Path) -> dict[str, Lists]:
    tokens, data = tokens_of(data, system.backbone, cache, Distributed(CPU), Callback())
    ranked = {"forward": lists_of(system, data, tokens)}
    if isinstance(system, BiBlip4cir):
        exchanged = replace(data, val=tuple(map(exchange, data.val)))
        ranked["reversed"] = lists_of(Reversed(system), exchanged, tokens)
    return ranked


def exchange(example: Example) -> Example:
    """The reversed query: the target and the text, whose goal is the reference."""
    return replace(example, reference=example.target, target=example.reference)


class Reversed(nn.Module):
    """A retriever that reads texts backwards."""

    def __init__(self, system: BiBlip4cir) -> None:
        super().__init__()
        self.system = system
        self.name = system.name
        self.preprocessing, self.tokens_shape = system.preprocessing, system.tokens_shape
        self.frozen_id, self.image_tokens = system.frozen_id, system.image_tokens
        self.image_modules = system.image_modules
        self.clean_text = system.clean_text

    def compose(self, tokens: Tensor, texts: Sequence[str]) -> Tensor:
        return self.system.compose_reversed(tokens, texts)

    def gallery(self, tokens: Tensor) -> Tensor:
        return self.system.gallery(tokens)


def lists_of(retriever: Retriever, data: TrainingData, tokens: TokenSource) -> Lists:
    """The goals of the validation queries, and their ranks among all images of their category."""
    inference = Inference(retriever, tokens, Distributed(CPU))
    by_corpus = ranks(data, inference, "max", without_reference=False)
    rows = [row for rows in rows_by_pool(data.val).values() for row in rows]
    values = [float(rank) for part in by_corpus.values() for rank in part]
    return Lists([data.val[row].target for row in rows], values)


# ------------------------------------------------------------------------------------ the figures


def cases(trained: dict[tuple[str, int], Trained], seed: int) -> list[dict[str, Any]]:
    """A row of each name and stage: recall@k, and the difference to the first row of its system."""
    names = list(dict.fromkeys(name for name, _ in trained))
    lines = []
    for name in names:
        by_seed = [result for (other, _), result in trained.items() if other == name]
        base_name = FIRST if name in BI_BLIP4CIR else FORMULA
        base = [result for (other, _), result in trained.items() if other == base_name]
        for stage in range(len(by_seed[0].lists)):
            line: dict[str, Any] = {"row": name, "stage": stage + 1}
            for way in by_seed[0].lists[stage]:
                line[way] = {
                    f"recall@{k}": figure(
                        [recall(result.lists[stage][way], k, seed) for result in by_seed],
                        [recall(result.lists[stage][way], k, seed) for result in base],
                    )
                    for k in KS
                }
            line["cpu_seconds"] = fmean(result.cpu_seconds for result in by_seed)
            lines.append(line)
    return lines


def figure(by_seed: Sequence[Sampled], base: Sequence[Sampled]) -> dict[str, Any]:
    """The mean over seeds, and its difference to the base's, with 95% intervals."""
    values = [each.value for each in by_seed]
    differences = [row.value - first.value for row, first in zip(by_seed, base, strict=True)]
    if len(values) > 1:
        ends = (t_interval(values), t_interval(differences))
    else:
        resamples = by_seed[0].resamples
        ends = (interval(resamples), interval(resamples - base[0].resamples))
    return {
        "value": fmean(values),
        "ci": ends[0],
        "above": fmean(differences),
        "above_ci": ends[1],
        "seeds": values,
    }


def t_interval(values: Sequence[float]) -> list[float]:
    """Student's 95% interval of the mean over seeds."""
    half = student.ppf(0.975, len(values) - 1) * stdev(values) / len(values) ** 0.5
    return [fmean(values) - half, fmean(values) + half]


# ------------------------------------------------------------------------------------ as Markdown


def markdown(result: dict[str, Any]) -> str:
    """The settings, a table of recall, and one of the differences."""
    epochs = " and ".join(map(str, result["epochs"]))
    about = (
        f"{result['triplets']:,} triplets, {epochs} epochs (CoVR-BLIP {result['covr_epochs']}), "
        f"{result['seeds']} seed(s), {result['queries']} validation queries among "
        f"{result['candidates']:.0f} images; 95% intervals: {result['intervals']}. By chance: "
        + ", ".join(f"R@{k} {chance:.3f}" for k, chance in zip(KS, result["chance"], strict=True))
        + f". {result['seconds']:.0f} s after {result['set_up_seconds']:.0f} s of set-up. "
        + result.get("note", "")
    )
    columns = [("forward", k) for k in KS] + [("reversed", k) for k in KS[1:]]
    header = [f"R@{k}" + (" reversed" if way == "reversed" else "") for way, k in columns]
    blocks = [
        ["# Bi-BLIP4CIR in miniature, on the drawn catalogue"],
        [about],
        table(["row", "stage", *header, "CPU s"], result["cases"], columns, shown_value),
        ["Above the first row of the same system and stage:"],
        table(["row", "stage", *header], result["cases"], columns, shown_difference),
    ]
    return "\n\n".join("\n".join(block) for block in blocks)


def table(
    header: list[str],
    lines: Sequence[dict[str, Any]],
    columns: Sequence[tuple[str, int]],
    cell: Callable[[dict[str, Any]], str],
) -> list[str]:
    rows = [f"| {' | '.join(header)} |", "|---" * len(header) + "|"]
    for line in lines:
        cells = [line["row"], "I" * line["stage"]]
        cells += [cell(line[way][f"recall@{k}"]) if way in line else "" for way, k in columns]
        if header[-1] == "CPU s":
            cells.append(f"{line['cpu_seconds']:.0f}")
        rows.append(f"| {' | '.join(cells)} |")
    return rows


def shown_value(figure: dict[str, Any]) -> str:
    low, high = figure["ci"]
    return f"{figure['value']:.3f} [{low:.3f}, {high:.3f}]"


def shown_difference(figure: dict[str, Any]) -> str:
    low, high = figure["above_ci"]
    return f"{figure['above']:+.3f} [{low:+.3f}, {high:+.3f}]"
