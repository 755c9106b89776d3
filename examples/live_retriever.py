"""A live retriever of another kind: it ranks images by the words of their descriptions.

Any program that answers these requests can serve a study; docs/guides/live-retrievers.md describes
them. `python live_retriever.py` serves it; `hsfiq retriever check http://127.0.0.1:8101` checks it.
"""

from __future__ import annotations

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from hsfiq.live.protocol import (
    RankRequest,
    RetrieverRefused,
    Search,
    corpus_sha256,
    read_request,
)

IMAGES = {
    "d1": "red dress long sleeves",
    "d2": "red dress short sleeves",
    "d3": "blue dress long sleeves",
    "s1": "red shirt long sleeves striped",
    "s2": "white shirt short sleeves",
    "s3": "white shirt short sleeves",
}
VERSION, SHA256, MAX_BATCH = "1", corpus_sha256(IMAGES), 8


def scores(search: Search, history: str) -> dict[str, float]:
    """The mean over the turns of the words that an image shares with reference and text."""
    turns = search.turns[-1:] if history == "last" else search.turns
    wanted = [{*IMAGES[turn.reference].split(), *turn.text.split()} for turn in turns]
    return {
        image: sum(len(words.intersection(described.split())) for words in wanted) / len(turns)
        for image, described in IMAGES.items()
        if image not in search.exclude
    }


def answer(search: Search, history: str, k: int) -> dict[str, object]:
    known = {*search.targets, *(turn.reference for turn in search.turns)} <= IMAGES.keys()
    if not known or set(search.targets) & set(search.exclude):
        raise RetrieverRefused("searches", "an unknown image, or a target that is excluded")
    score_of = scores(search, history)
    order = sorted(
        score_of, key=lambda image: -score_of[image]
    )  # stable: ties in the corpus' order
    targets = [
        {
            "image_id": target,
            "rank": order.index(target) + 1,
            "ties": list(score_of.values()).count(score_of[target]) - 1,
        }
        for target in search.targets
    ]
    best = order[:k]
    return {"image_ids": best, "scores": [score_of[image] for image in best], "targets": targets}


async def rank(request: Request) -> JSONResponse:
    asked = read_request(RankRequest, await request.body())
    if len(asked.searches) > MAX_BATCH:
        raise RetrieverRefused("searches", f"more than {MAX_BATCH}", status=413)
    if asked.k > len(IMAGES) or asked.history == "rocchio":
        raise RetrieverRefused("k, history", f"more than {len(IMAGES)} images, or rocchio")
    lists = [answer(search, asked.history, asked.k) for search in asked.searches]
    return JSONResponse(
        {"lists": lists, "version": VERSION, "corpus_sha256": SHA256, "seconds": 0.0}
    )


async def system(_: Request) -> JSONResponse:
    return JSONResponse(
        {
            "protocol": 1,
            "name": "words",
            "version": VERSION,
            "corpus": {"name": "six garments", "size": len(IMAGES), "sha256": SHA256},
            "histories": ["mean", "last"],
            "max_k": len(IMAGES),
            "max_batch": MAX_BATCH,
        }
    )


async def corpus(_: Request) -> JSONResponse:
    return JSONResponse({"image_ids": list(IMAGES)})


async def refused(_: Request, error: Exception) -> JSONResponse:
    status = error.status if isinstance(error, RetrieverRefused) else 404
    return JSONResponse({"error": {"where": "request", "what": str(error)}}, status)


app = Starlette(
    routes=[
        Route("/v1/system", system),
        Route("/v1/corpus", corpus),
        Route("/v1/rank", rank, methods=["POST"]),
    ],
    exception_handlers={RetrieverRefused: refused, 404: refused},
)

if __name__ == "__main__":
    uvicorn.run(app, port=8101)
