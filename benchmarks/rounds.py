"""Retrieval systems in searches over several rounds with simulated users, on the drawn catalogue.

Every system plays its validation queries with two simulators and a floor, with each history, five
rounds, without a stop. The weakest one, and SPRC as in FISD, also play FISD's ablations (its table
6) and the rules that it leaves open, each compared with FISD's own protocol on the same queries.
The texts are those of the catalogue's writers: nothing here says how people would search.

`pretrained` is the normalised sum of the image and the text vector of the pre-trained towers: stage
I of CLIP4CIR with a learning rate of 1e-12. The others are trained as in `systems`, and kept in
runs/systems. Without --full: two hardly trained systems on a small catalogue.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import process_time
from typing import Any

import torch

from benchmarks.trained_systems import CPU, FOLDER, SYSTEMS, TrainedSystems
from hsfiq.analysis.sessions.measure import SessionAnalysis, measure_rows
from hsfiq.analysis.sessions.ranks import Rules
from hsfiq.live.protocol import History
from hsfiq.model.evaluation.drawn import drawn
from hsfiq.model.ranker import CorpusRanker, part_rankers
from hsfiq.model.scorer.job import Callback
from hsfiq.model.scorer.loading import ScorerPaths
from hsfiq.model.system_recipes import SystemName
from hsfiq.sessions.play import Query, Settings, chooser_of, play
from hsfiq.sessions.record import Session
from hsfiq.sessions.simulators import (
    DrawnSimulator,
    SameText,
    SimulatedUser,
    Simulator,
    attribute_distance,
)
from hsfiq.sessions.tables import round_row, session_row

PRETRAINED = "pretrained"
UNTRAINED = {"lr": "1e-12", "epochs": "1"}
SIMULATORS: dict[str, Simulator] = {
    "full": DrawnSimulator("full"),
    "brief": DrawnSimulator("brief"),
    "same text": SameText(),
}
HISTORIES: tuple[History, ...] = ("mean", "last", "rocchio")
KS = (1, 10)
PRINTED = (1, 3, 5)


@dataclass(frozen=True)
class Way:
    """One way to play: FISD's, unless it says otherwise."""

    simulator: str = "full"
    history: History = "mean"
    choose: str = "top1"
    stop_at: int | None = None


FISD = "FISD's protocol"
WAYS: dict[str, Way] = {
    FISD: Way(),
    "no history": Way(history="last"),
    "caption unchanged": Way(simulator="same text"),
    "candidate at random from 10": Way(choose="random-10"),
    "Rocchio": Way(history="rocchio"),
    "brief texts": Way(simulator="brief"),
    "no candidate twice": Way(choose="unseen"),
    "candidate most like the target": Way(choose="nearest"),
    "stop at rank 10": Way(stop_at=10),
}
"""FISD's protocol, the ablations of its table 6, and rules that it leaves open."""

TABLE_6 = {
    "no history": (2.93, 2.39),
    "caption unchanged": (8.56, 9.64),
    "candidate at random from 10": (1.86, 1.70),
}
"""FISD's mean ranks after rounds 3 and 5 (SPRC on CIRR); its protocol has 1.79 and 1.45."""


@dataclass(frozen=True)
class Plan:
    """The sizes of a run.

    Attributes:
        systems: trained ones, beside `pretrained`.
        limit: approximate number of training triplets; None for all.
        queries: of each category at most.
        ablated: the systems that also play FISD's ablations.
        changes: values of each training stage that differ from the recipes'.
    """

    systems: tuple[SystemName, ...]
    limit: int | None
    queries: int
    resamples: int
    ablated: tuple[str, ...]
    changes: Mapping[str, str] = field(default_factory=dict)


QUICK = Plan(
    ("clip4cir",),
    limit=300,
    queries=20,
    resamples=200,
    ablated=(PRETRAINED,),
    changes={"epochs": "2"},
)
FULL = Plan(SYSTEMS, limit=None, queries=200, resamples=1000, ablated=(PRETRAINED, "sprc"))


def run(seed: int, full: bool) -> dict[str, Any]:
    """Train, play and measure."""
    torch.set_num_threads(1)
    result = measure(seed, FULL if full else QUICK, FOLDER)
    if not full:
        result["note"] = "short: systems hardly trained, few queries; --full is the benchmark"
    return result


def measure(seed: int, plan: Plan, folder: Path) -> dict[str, Any]:
    """The systems' table, and the ablations."""
    trained = TrainedSystems(folder, seed, plan.limit, plan.changes)
    started = process_time()
    every_way = {
        f"{simulator}, {history}": Way(simulator, history)
        for simulator in SIMULATORS
        for history in HISTORIES
    }
    cases: list[dict[str, Any]] = []
    ablations: list[dict[str, Any]] = []
    compared: list[dict[str, Any]] = []
    for name, path in checkpoints(trained, plan).items():
        searcher = Searcher(path, trained, plan)
        cases += cases_of(searcher.measured(every_way, seed), name)
        if name in plan.ablated:
            analysis = searcher.measured(WAYS, seed)
            ablations += cases_of(analysis, name)
            compared += findings(analysis, name)
    return {
        "name": "rounds",
        "simulated": True,
        "texts_by": "the writers of the drawn catalogue: nothing here says how people would search",
        "queries": searcher.n_queries,
        "candidates": [ranker.system().corpus.size for ranker in searcher.rankers],
        "rounds": Settings().rounds,
        "intervals": "95%, bootstrap over queries",
        "sessions": (len(cases) + len(ablations)) * searcher.n_queries,
        "cpu_seconds": process_time() - started,
        "cases": cases,
        "ablations": ablations,
        "findings": compared,
    }


def checkpoints(trained: TrainedSystems, plan: Plan) -> dict[str, Path]:
    """The checkpoints of all systems, the weakest first."""
    untrained = TrainedSystems(trained.folder, trained.seed, trained.limit, UNTRAINED)
    paths = {PRETRAINED: untrained.trained("clip4cir").run / "stage-1"}
    return paths | {name: trained.trained(name).run for name in plan.systems}


class Searcher:
    """A system with its corpora and validation queries."""

    def __init__(self, path: Path, trained: TrainedSystems, plan: Plan) -> None:
        benchmark = drawn(trained.catalogue, "val")
        paths = ScorerPaths(path, trained.pictures, cache=trained.cache)
        self._resamples = plan.resamples
        self.rankers: list[CorpusRanker] = part_rankers(paths, benchmark, CPU, Callback())
        self._by_part = [
            [
                Query(
                    query_id=each.query_id,
                    reference=each.reference,
                    text=each.text,
                    targets=(each.target,) if each.target else (),
                )
                for each in part.queries[: plan.queries]
            ]
            for part in benchmark.parts
        ]

    @property
    def n_queries(self) -> int:
        return sum(map(len, self._by_part))

    def played(self, way: Way, seed: int) -> Iterable[Session]:
        chooser, _ = chooser_of(way.choose, attribute_distance)
        user = SimulatedUser(SIMULATORS[way.simulator], chooser, way.choose)
        settings = Settings(history=way.history, stop_at=way.stop_at, seed=seed)
        for ranker, queries in zip(self.rankers, self._by_part, strict=True):
            yield from play(ranker, queries, user, settings)

    def measured(self, ways: Mapping[str, Way], seed: int) -> SessionAnalysis:
        """Every way's figures, and its differences to the first one on the same queries.

        A stop censors Hits@1: it is measured all the same, to show how much.
        """
        sessions = [(name, each) for name, way in ways.items() for each in self.played(way, seed)]
        return measure_rows(
            [{**session_row(name, each), "stop_at": None} for name, each in sessions],
            [round_row(name, each, part) for name, each in sessions for part in each.rounds],
            Rules(ks=KS),
            {},
            n_resamples=self._resamples,
            simulated=True,
        )


# ------------------------------------------------------------------------------------- the figures

COLUMNS = {
    "Hits@1": ("hits@1", PRINTED),
    "Recall@1": ("recall@1", PRINTED[-1:]),
    "Hits@10": ("hits@10", PRINTED[-1:]),
    "mean rank": ("mean_rank_current", PRINTED),
    "best rank": ("mean_rank_best", PRINTED[-1:]),
}
"""By title: the figure, and the rounds that are printed."""


def cases_of(analysis: SessionAnalysis, system: str) -> list[dict[str, Any]]:
    """A row for each way, with each figure as {value, ci} by round."""
    rows = []
    for way, measures in analysis.systems.items():
        row: dict[str, Any] = {"system": system, "way": way}
        for title, (figure, rounds) in COLUMNS.items():
            estimates = measures.by_round[figure]
            row[title] = {n: estimates[n - 1].to_json() for n in rounds}
        row["BRI"] = measures.of_sessions["bri"].to_json()
        row["unsolved that repeat"] = measures.of_sessions["repeats_without_hit@1"].to_json()
        rows.append(row)
    return rows


def findings(analysis: SessionAnalysis, system: str) -> list[dict[str, Any]]:
    """Each way against FISD's protocol after the last round, and what FISD's table 6 says."""
    lines = []
    for way, difference in analysis.differences.items():
        line: dict[str, Any] = {"system": system, "way": way, "fisd": TABLE_6.get(way)}
        for figure in ("mean_rank_current", "mean_rank_best", "hits@1", "bri"):
            line[figure] = difference.figures[figure].to_json()
        if way in TABLE_6:  # FISD's mean rank is worse in each of its ablations
            low, high = line["mean_rank_current"]["ci"]
            is_known = low is not None
            line["as in FISD"] = (
                "yes" if is_known and low > 0 else "no" if is_known and high < 0 else "not settled"
            )
        lines.append(line)
    return lines


# ------------------------------------------------------------------------------------ as Markdown


def markdown(result: dict[str, Any]) -> str:
    sizes = ", ".join(map(str, result["candidates"]))
    about = (
        f"{result['queries']} queries among {sizes} images, {result['rounds']} rounds, no stop; "
        f"{result['intervals']}; {result['sessions']:,} sessions in {result['cpu_seconds']:.0f} "
        "CPU s, training included. Texts by simulated users."
    )
    blocks = [
        ["# Searches over several rounds, on the drawn catalogue"],
        [about],
        case_table(result["cases"]),
        ["Ways to play:"],
        case_table(result["ablations"]),
        ["Minus FISD's protocol, after the last round, on the same queries:"],
        finding_table(result["findings"]),
    ]
    if "note" in result:
        blocks.insert(1, [result["note"]])
    return "\n\n".join("\n".join(block) for block in blocks)


def case_table(cases: Sequence[Mapping[str, Any]]) -> list[str]:
    titles = [f"{title}, {'/'.join(map(str, n))}" for title, (_, n) in COLUMNS.items()]
    header = ["system", "way", *titles, "BRI", "unsolved that repeat"]
    rows = []
    for case in cases:
        cells = [case["system"], case["way"]]
        cells += [" / ".join(map(shown, case[title].values())) for title in COLUMNS]
        rows.append([*cells, shown(case["BRI"]), shown(case["unsolved that repeat"])])
    return table(header, rows)


def finding_table(lines: Sequence[Mapping[str, Any]]) -> list[str]:
    header = ["system", "way", "mean rank", "best rank", "Hits@1", "BRI"]
    header += ["FISD, rounds 3/5", "as in FISD"]
    rows = []
    for line in lines:
        figures = ("mean_rank_current", "mean_rank_best", "hits@1", "bri")
        fisd = " / ".join(map(str, line["fisd"] or ()))
        cells = [shown(line[figure], sign="+") for figure in figures]
        rows.append([line["system"], line["way"], *cells, fisd, line.get("as in FISD", "")])
    return table(header, rows)


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [header, ["---"] * len(header), *rows]
    return [f"| {' | '.join(line)} |" for line in lines]


def shown(figure: Mapping[str, Any], sign: str = "") -> str:
    if figure["value"] is None:
        return "-"
    low, high = figure["ci"]
    if low is None:
        return f"{figure['value']:{sign}.3f}"
    return f"{figure['value']:{sign}.3f} [{low:{sign}.3f}, {high:{sign}.3f}]"
