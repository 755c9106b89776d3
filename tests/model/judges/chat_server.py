"""A server of our own that speaks the protocol of OpenAI's chat completions."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from tests.live_servers import serving

Parts = list[dict[str, Any]]


def says(number: int, parts: Parts) -> str:
    return "first"


@dataclass
class ChatServer:
    """`says` answers from the number of the request and its parts; a number is an HTTP status.

    The server answers no further request once it has answered `most`.
    """

    says: Callable[[int, Parts], str | int | dict[str, Any]] = says
    most: int | None = None
    asked: list[dict[str, Any]] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    async def complete(self, request: Request) -> JSONResponse:
        body = await request.json()
        with self.lock:
            self.asked.append(body)
            number = len(self.asked)
        while self.most is not None and number > self.most:
            await asyncio.sleep(0.01)
        answer = self.says(number, body["messages"][0]["content"])
        if isinstance(answer, int):
            return JSONResponse({"error": {"message": "not accepted"}}, answer)
        message = answer if isinstance(answer, dict) else {"content": answer}
        return JSONResponse(
            {
                "id": "1", "object": "chat.completion", "created": 1, "model": body["model"],
                "choices": [{"index": 0, "finish_reason": "stop",
                             "message": {"role": "assistant", **message}}],
                "usage": {"prompt_tokens": 1000, "completion_tokens": 2, "total_tokens": 1002},
            }
        )  # fmt: skip

    @contextmanager
    def running(self) -> Iterator[str]:
        routes = [Route("/v1/chat/completions", self.complete, methods=["POST"])]
        with serving(Starlette(routes=routes)) as address:
            try:
                yield f"{address}/v1"
            finally:
                self.most = None


def texts_of(parts: Parts) -> list[str]:
    return [part["text"] for part in parts if part["type"] == "text"]


def pictures_of(parts: Parts) -> list[str]:
    return [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]
