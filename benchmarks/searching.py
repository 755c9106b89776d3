"""People who search, for load tests: a study on numbered images, its retriever, and participants.

The retriever is a system of the small size with random weights, so its lists are arbitrary; the
files of the images are links to a few drawn garments.
"""

from __future__ import annotations

import multiprocessing
import os
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain
from random import Random
from typing import Any, Protocol

from benchmarks.live import IMAGES, serve_random
from benchmarks.serving import IMAGE_FOLDER, Annotator, Place
from hsfiq.collect import participants
from hsfiq.collect.protocol import SearchView
from hsfiq.collect.retrievers import describe_retrievers
from hsfiq.db.source_tables import Dataset, Image, Query, Triplet
from hsfiq.drawn import catalogue, generator
from hsfiq.drawn.pictures import write_images
from hsfiq.kinds.search_rows import Retriever, Searches
from hsfiq.study.config import Checks, Design, Presentation, Queries, StudyConfig
from hsfiq.study.design import draw_study

GARMENTS = 20
K = 5
ROUNDS = 5
SEARCHES = 40
"""Of each participant: more than a run lasts for."""

CONTEXT = multiprocessing.get_context("spawn")


class Killable(Protocol):
    def start(self) -> None: ...
    def kill(self) -> None: ...


class Addressed(Killable, Protocol):
    """A retriever at an address, which stays the same after a new start."""

    @property
    def url(self) -> str: ...


class RetrieverProcess:
    """A retriever that can be killed and started again at its address."""

    def __init__(self, seed: int) -> None:
        self.seed, self.port = seed, 0
        self.start()

    def start(self) -> None:
        ours, theirs = CONTEXT.Pipe()
        self.process = CONTEXT.Process(
            target=serve_random, args=(theirs, self.seed, self.port), daemon=True
        )
        self.process.start()
        theirs.close()
        self.port = int(ours.recv().rpartition(":")[2])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def kill(self) -> None:
        self.process.kill()
        self.process.join()


def make_searches(place: Place, urls: Sequence[str], n_people: int, seed: int) -> list[str]:
    """A study in which so many people search; the tokens of their invitations.

    With two retrievers or more, it is an arena.

    Texts are random words: what they mean makes no difference to the time.
    """
    folder = place.folder / IMAGE_FOLDER
    garments = catalogue(generator(seed, "catalogue"), GARMENTS)
    write_images(garments, folder)
    files = sorted(folder.iterdir())
    for number in range(IMAGES):
        os.link(files[number % len(files)], folder / f"{number}{files[0].suffix}")
    is_arena = len(urls) > 1
    retrievers = tuple(Retriever(f"random-{number}", url) for number, url in enumerate(urls))
    config = StudyConfig(
        study=Presentation(name="searches", title="Find the image"),
        design=Design(
            kind="arena" if is_arena else "search", k=K,
            questions_per_form=SEARCHES, forms_per_participant=1,
            annotators_per_query=n_people, categories="mixed", seed=seed,
        ),
        checks=Checks(arithmetic=False),
        queries=Queries(dataset="numbered"),
        searches=Searches(
            task="own-wish" if is_arena else "target-shown", rounds=ROUNDS, retrievers=retrievers
        ),
    )  # fmt: skip
    described = describe_retrievers(config)
    database = place.database()
    with database.writing() as session:
        dataset = Dataset(name="numbered", image_root=str(folder))
        session.add(dataset)
        session.flush()
        images = [Image(dataset_id=dataset.id, name=str(number)) for number in range(IMAGES)]
        session.add_all(images)
        session.flush()
        queries = []
        for number in range(SEARCHES):
            triplet = Triplet(
                dataset_id=dataset.id, external_id=str(number), category="", split="val",
                reference_id=images[2 * number].id, target_id=images[2 * number + 1].id,
                captions=["is red"],
            )  # fmt: skip
            queries.append(Query(triplet=triplet, suffix="", text="is red"))
        session.add_all(queries)
        session.flush()
        keys = [query.id for query in queries]
        study = draw_study(session, config, keys, retrievers=described)
        people = participants.invite(session, study.id, n_people, now=datetime.now(UTC))
        tokens = [person.token for person in people]
    database.close()
    return tokens


@dataclass(slots=True)
class Searcher(Annotator):
    """A participant who writes random texts, and stops at a list at random."""

    def payload(self) -> tuple[str, dict[str, Any]]:
        """The next request: its path and body; a new press of a button has a key of its own."""
        view: Any = self.view
        if view["awaits_list"]:
            return "/search/list", {"assignment": view["assignment"]}
        body = {"assignment": view["assignment"], "submit_key": secrets.token_hex(16)}
        if view["ending"] is not None:
            return "/submit", body | judgement(view)
        opinion = self.opinion(view)
        if len(view["turns"]) == view["rounds"] or self.rng.random() < 0.1:
            declared = opinion and opinion["nearest"]
            return "/search/stop", body | {"opinion": opinion, "declared": declared}
        typed = {
            "text": f"is {self.rng.choice(['red', 'blue', 'long'])} {self.rng.randrange(1000)}",
            "pasted": False,
            "first_key_seconds": 0.5,
            "last_key_seconds": 1.0,
        }
        return "/search/turn", body | {"opinion": opinion, "typed": typed}

    def opinion(self, view: SearchView) -> dict[str, Any] | None:
        if not view["turns"]:
            return None
        lists = view["turns"][-1]["lists"] or []
        is_vote = len(lists) > 1
        side = self.rng.randint(1, len(lists))
        place = self.rng.randint(1, len(lists[side - 1]))
        vote = {"preference": self.rng.randint(0, 2), "both_bad": False}
        return {
            "satisfaction": None if is_vote else self.rng.randint(1, 5),
            "vote": vote if is_vote else None,
            "nearest": {"list": side, "place": place},
            "images": [["shown"] * len(images) for images in lists],
            "painted_seconds": 0.1,
            "active_seconds": 1.0,
        }

    def send(self, path: str, body: Mapping[str, Any]) -> None:
        reply = self.post(path, body)
        self.view = reply["view"] if path == "/submit" else reply
        if self.view["step"] == "search" and self.view["is_unavailable"]:
            time.sleep(0.2)

    def fetch_images(self) -> int:
        """Fetch the images of the last lists that this browser does not have yet; how many."""
        view: Any = self.view
        return self.fetch(
            image["token"] for image in chain.from_iterable(view["turns"][-1]["lists"])
        )


def judgement(view: SearchView) -> dict[str, Any]:
    """What is said after a search."""
    why = "gave-up" if view["ending"] == "stopped" else None
    return {
        "answer": {
            "judgement": {"success": 3, "ease": 3, "would_go_on": False, "why": why},
            "irrelevant": False,
            "reason": None,
            "active_seconds": 1.0,
            "seconds_since_first_interaction": None,
        },
        "images": {"reference": "shown", "sets": []},
    }


def new_searchers(port: int, tokens: list[str]) -> list[Searcher]:
    return [Searcher(port, token, Random(n)) for n, token in enumerate(tokens)]
