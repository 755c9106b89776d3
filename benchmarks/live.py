"""How long a live retriever takes to rank, while ten people search at once.

A system of the small size is served on 6,000 images by a process of its own, and asked over HTTP by
another with a thread for each person. Its weights and the images' tokens are random: they do not
change the time. `pause` is how long each person waits between two requests, on average; without
one, ten requests are always waiting. Every search has three turns, and asks for a target's rank.
"""

from __future__ import annotations

import multiprocessing
import random
import statistics
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from hsfiq.http_server import listening
from hsfiq.live.client import LiveRetriever
from hsfiq.live.protocol import Search, Turn
from hsfiq.model.checkpoints import Checkpoint
from hsfiq.model.evaluation.rankings import PreparedScorer
from hsfiq.model.ranker import CorpusRanker
from hsfiq.model.retrieval.loading import LoadedRetriever, new_system
from hsfiq.model.retriever_server import serve
from hsfiq.model.runtime import Distributed
from hsfiq.model.scorer.inference import Inference
from hsfiq.model.system_recipes import system_on_drawn, system_recipe

PEOPLE = 10
IMAGES = 6_000
SYSTEM = "sprc"
PAUSES = (1.0, 0.0)
K = 10
CPU = torch.device("cpu")
GOAL_MS = 30
"""Of the p95 with a pause: what is left of 300 ms from a text to its list is the page's."""


class RandomTokens:
    """Random tokens for numbered images: [N, P, W] in fp16, as the cache keeps them."""

    def __init__(self, n: int, shape: tuple[int, int], seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        self._tokens = torch.randn(n, *shape, generator=generator).half()

    def tokens(self, image_ids: Sequence[str]) -> Tensor:
        return self._tokens[[int(image_id) for image_id in image_ids]].float()


def run(seed: int, full: bool) -> dict[str, Any]:
    """The times of requests in seconds, seen by clients, and of ranking, seen by the server."""
    requests = 100 if full else 20
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    server = context.Process(target=serve_random, args=(theirs, seed), daemon=True)
    server.start()
    theirs.close()  # so that `recv` ends if the server does
    try:
        url = ours.recv()
        cases = [ask(url, seed, pause, requests) for pause in PAUSES]
    finally:
        server.terminate()
        server.join()
    return {
        "name": "live",
        "system": f"{SYSTEM}, small",
        "images": IMAGES,
        "people": PEOPLE,
        "goal_p95_ms": GOAL_MS,
        "met": cases[0]["p95_ms"] < GOAL_MS,
        "cases": cases,
    }


def serve_random(connection: Connection, seed: int, port: int = 0) -> None:
    """Serve random vectors of images named 0, 1, ...; the address is sent when it answers."""
    recipe = system_on_drawn(system_recipe(f"{SYSTEM}-fashioniq"))
    system = new_system(recipe, None)
    system.train(mode=False)
    image_ids = [str(i) for i in range(IMAGES)]
    tokens = RandomTokens(IMAGES, system.tokens_shape, seed)
    checkpoint = Checkpoint(Path("untrained"), {"files": {"scorer": {"sha256": "untrained"}}})
    prepared = PreparedScorer(
        LoadedRetriever(system, system.backbone, recipe, checkpoint),
        Inference(system, tokens, Distributed(CPU)),
        frozenset(image_ids),
        frozenset(image_ids),
    )
    ranker = CorpusRanker(prepared, "random", image_ids)
    with closing(listening("127.0.0.1", port)) as listener:
        listener.listen()
        connection.send(f"http://127.0.0.1:{listener.getsockname()[1]}")
        serve(ranker, listener, None)


def ask(url: str, seed: int, pause: float, requests: int) -> dict[str, Any]:
    """Ten people who each send so many requests."""
    with LiveRetriever(url) as retriever, ThreadPoolExecutor(PEOPLE) as people:
        warm_up(retriever)
        generators = [random.Random(seed * PEOPLE + i) for i in range(PEOPLE)]
        times = people.map(lambda rng: person(retriever, rng, pause, requests), generators)
        seconds = sorted(second for each in times for second in each)
    cuts = statistics.quantiles(seconds, n=20)
    return {
        "pause_s": pause,
        "requests": len(seconds),
        "p50_ms": round(statistics.median(seconds) * 1000, 1),
        "p95_ms": round(cuts[-1] * 1000, 1),
        "max_ms": round(seconds[-1] * 1000, 1),
    }


def person(
    retriever: LiveRetriever, rng: random.Random, pause: float, requests: int
) -> list[float]:
    seconds = []
    for _ in range(requests):
        time.sleep(rng.uniform(0, 2 * pause))
        turns = tuple(
            Turn(reference=str(rng.randrange(IMAGES)), text=f"is red and has {n} buttons")
            for n in range(3)
        )
        search = Search(turns=turns, targets=(str(rng.randrange(IMAGES)),))
        began = time.perf_counter()
        retriever.rank([search], "mean", K)
        seconds.append(time.perf_counter() - began)
    return seconds


def warm_up(retriever: LiveRetriever) -> None:
    """The first requests are slower."""
    search = Search(turns=(Turn(reference="0", text="is red"),))
    for _ in range(5):
        retriever.rank([search], "mean", K)
