"""What the page of a search sends, without a browser."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

import httpx

from hsfiq.db.source_tables import Image
from hsfiq.live.client import certificates
from hsfiq.live.protocol import RankRequest
from tests.annotate.page_requests import begin_form
from tests.drawn_retriever import DrawnRetriever
from tests.question_kinds.drawn_catalogue import Catalogue

SEARCHES = """\
categories = ["dress"]
sample = 2
[searches]
task = "{task}"
rounds = 3
{more}
[[searches.retrievers]]
name = "telltale-system"
url = "{url}"
"""


ARENA = """\
categories = ["dress"]
sample = 2
[searches]
task = "own-wish"
rounds = 3
leaderboard = "public"
"""
RIVAL = """\
[[searches.retrievers]]
name = "telltale-{number}"
url = "{url}"
"""


class Listener(DrawnRetriever):
    """Remembers what it is asked."""

    def rank(self, body: bytes) -> dict[str, object]:
        self.last = RankRequest.model_validate_json(body)
        return super().rank(body)


def arena_queries(retrievers: Sequence[DrawnRetriever]) -> str:
    """`[queries]` and the rest of an arena of these systems."""
    rivals = [
        RIVAL.format(number=number, url=retriever.url)
        for number, retriever in enumerate(retrievers, start=1)
    ]
    return ARENA + "".join(rivals)


def create_arena(
    catalogue: Catalogue, retrievers: Sequence[DrawnRetriever], name: str, k: int = 3
) -> str:
    return catalogue.create("arena", name=name, queries=arena_queries(retrievers), k=k)


def image_names(catalogue: Catalogue) -> list[str]:
    with catalogue.database.reading() as session:
        return sorted(image.name for image in session.query(Image))


def create_search(
    catalogue: Catalogue,
    retriever: DrawnRetriever,
    name: str,
    task: str = "target-shown",
    more: str = "",
) -> str:
    queries = SEARCHES.format(task=task, url=retriever.url, more=more)
    return catalogue.create("search", name=name, queries=queries)


def at(place: int | None, side: int = 1) -> dict[str, int] | None:
    """An image by its list and its place, as the page sends it."""
    return None if place is None else {"list": side, "place": place}


def in_base64(content: bytes) -> str:
    return base64.b64encode(content).decode()


class SearchPage:
    """One participant's page: it keeps the current view."""

    def __init__(self, catalogue: Catalogue, study: str) -> None:
        self.http = httpx.Client(base_url=catalogue.server.url, timeout=20, verify=certificates())
        with catalogue.database.reading() as session:
            key = catalogue.study(session, study).id
        assert self.http.post("/enrol", data=begin_form(self.http, key)).status_code == 303
        self.view = self.post("/consent", {"agrees": True})
        self.keys = 0

    def close(self) -> None:
        self.http.close()

    def post(self, path: str, payload: object, status: int = 200) -> dict[str, Any]:
        answer = self.http.post(path, json=payload)
        assert answer.status_code == status, answer.text
        content: dict[str, Any] = answer.json()
        return content

    def current(self) -> dict[str, Any]:
        content: dict[str, Any] = self.http.get("/question").json()
        return content

    def list(self) -> dict[str, Any]:
        self.view = self.post("/search/list", {"assignment": self.view["assignment"]})
        return self.view

    def opinion(
        self, nearest: int | None = 1, satisfaction: int = 3, *, side: int = 1, vote: int = 2
    ) -> dict[str, Any] | None:
        """The feedback on the last lists; on two, the vote, which may be for neither."""
        lists = self.view["turns"][-1]["lists"] if self.view["turns"] else None
        if lists is None:
            return None
        is_vote = len(lists) > 1
        return {
            "satisfaction": None if is_vote else satisfaction,
            "vote": {"preference": vote, "both_bad": False} if is_vote else None,
            "nearest": at(nearest, side),
            "images": [["shown"] * len(images) for images in lists],
            "painted_seconds": 0.1,
            "active_seconds": 2.5,
        }

    def turn(self, text: str, **changes: Any) -> dict[str, Any]:
        """The payload of a turn."""
        self.keys += 1
        typed = {"text": text, "pasted": False, "first_key_seconds": 0.5, "last_key_seconds": 1.5}
        payload = {
            "assignment": self.view["assignment"],
            "submit_key": f"key-of-this-press-{self.keys}",
            "opinion": self.opinion(),
            "typed": typed,
        }
        return payload | changes

    def ask(self, text: str, **changes: Any) -> dict[str, Any]:
        """Send a text, and get its list."""
        self.view = self.post("/search/turn", self.turn(text, **changes))
        return self.list()

    def upload(self, content: bytes, status: int = 200, **changes: Any) -> dict[str, Any]:
        """Send a picture; the view, which is kept, or the error."""
        self.keys += 1
        payload = {
            "assignment": self.view["assignment"],
            "submit_key": f"key-of-this-press-{self.keys}",
            "picture": in_base64(content),
        }
        reply = self.post("/search/upload", payload | changes, status)
        if status == 200:
            self.view = reply
        return reply

    def stop(self, declared: int | None = None, side: int = 1) -> dict[str, Any]:
        self.keys += 1
        payload = {
            "assignment": self.view["assignment"],
            "submit_key": f"key-of-this-press-{self.keys}",
            "opinion": self.opinion(nearest=declared, side=side),
            "declared": at(declared, side),
        }
        self.view = self.post("/search/stop", payload)
        return self.view

    def judgement(self, **changes: Any) -> dict[str, Any]:
        self.keys += 1
        judgement = {"success": 4, "ease": 2, "would_go_on": False, "why": None} | changes
        return {
            "assignment": self.view["assignment"],
            "submit_key": f"key-of-this-press-{self.keys}",
            "answer": {
                "judgement": judgement,
                "irrelevant": False,
                "reason": None,
                "active_seconds": 1.0,
                "seconds_since_first_interaction": None,
            },
            "images": {"reference": "shown", "sets": []},
        }

    def judge(self, **changes: Any) -> dict[str, Any]:
        self.view = self.post("/submit", self.judgement(**changes))["view"]
        return self.view
