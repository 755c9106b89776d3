"""A live retriever of the drawn catalogue, by the exact reading of each text; it can be killed.

With noise it reads less exactly: systems of different quality, without any model.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Sequence
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from random import Random
from typing import Any

from hsfiq.drawn import Garment
from hsfiq.drawn.garments import garment_of
from hsfiq.drawn.utility import read, utility
from hsfiq.errors import UnreadableInput
from hsfiq.live.protocol import RankRequest, Search, corpus_sha256

VERSION = "telltale-version"


class DrawnRetriever:
    """Serves searches over these images at an address that stays the same after a restart."""

    def __init__(
        self,
        image_ids: Sequence[str],
        token: str = "",
        *,
        noise: float = 0.0,
        accepts_images: bool = False,
    ) -> None:
        self.image_ids, self.token = tuple(image_ids), token
        self.noise = noise
        self.accepts_images = accepts_images
        self.delay = 0.0
        self.asked = 0
        self.port = 0
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        self.server = ThreadingHTTPServer(("127.0.0.1", self.port), self.handler())
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def stop(self) -> None:
        self.server.shutdown()
        self.server.server_close()

    def system(self) -> dict[str, Any]:
        size, digest = len(self.image_ids), corpus_sha256(self.image_ids)
        return {
            "protocol": 1,
            "name": "drawn",
            "version": VERSION,
            "corpus": {"name": "drawn", "size": size, "sha256": digest},
            "histories": ["mean", "last"],
            "max_k": 20,
            "max_batch": 8,
            "accepts_images": self.accepts_images,
        }

    def rank(self, body: bytes) -> dict[str, Any]:
        request = RankRequest.model_validate_json(body)
        self.asked += len(request.searches)
        time.sleep(self.delay)
        lists = [self.ranked(search, request.k) for search in request.searches]
        system = self.system()
        digest = system["corpus"]["sha256"]
        return {"lists": lists, "version": VERSION, "corpus_sha256": digest, "seconds": 0.0}

    def ranked(self, search: Search, k: int) -> dict[str, Any]:
        # It cannot read a picture, and takes it for its first image.
        start = dict.fromkeys(search.images, self.image_ids[0])
        turns = [
            scores_of(start.get(turn.reference, turn.reference), turn.text, self.image_ids)
            for turn in search.turns
        ]
        rng = Random(f"{self.port} {search.turns[-1].text}")
        scores = [
            sum(values) / len(values) + rng.random() * self.noise
            for values in zip(*turns, strict=True)
        ]
        order = sorted(range(len(scores)), key=lambda place: -scores[place])
        targets = []
        for target in search.targets:
            place = self.image_ids.index(target)
            ties = sum(score == scores[place] for score in scores) - 1
            targets.append({"image_id": target, "rank": order.index(place) + 1, "ties": ties})
        best = order[:k]
        return {
            "image_ids": [self.image_ids[place] for place in best],
            "scores": [scores[place] for place in best],
            "targets": targets,
        }

    def handler(self) -> type[BaseHTTPRequestHandler]:
        retriever = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                bodies = {
                    "/v1/system": retriever.system,
                    "/v1/corpus": lambda: {"image_ids": retriever.image_ids},
                }
                self.reply(bodies[self.path]())

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                self.reply(retriever.rank(body))

            def reply(self, value: object) -> None:
                wanted = f"Bearer {retriever.token}"
                is_known = not retriever.token or self.headers["Authorization"] == wanted
                content = json.dumps(value if is_known else {}).encode()
                self.send_response(200 if is_known else 401)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: object) -> None:
                pass

        return Handler


@cache
def scores_of(reference: str, text: str, image_ids: tuple[str, ...]) -> list[float]:
    """How well each image follows the text; like the reference, if the text cannot be read."""
    garments: list[Garment] = [garment_of(image_id) for image_id in image_ids]
    start = garment_of(reference)
    try:
        readings = read(text, start)
    except UnreadableInput:
        readings = ()
    if not readings:
        return [float(garment == start) for garment in garments]
    return [
        sum(utility(reading, garment) for reading in readings) / len(readings)
        for garment in garments
    ]
