"""The least that a durable answer can take: one row inserted, and a reply that is ready.

`python -m benchmarks.limit URL PORT` serves it, with the app's server, database settings and
threads, but none of its middleware, pages or checks.
"""

from __future__ import annotations

import json
import sys
from typing import Annotated

import uvicorn
from fastapi import Depends, FastAPI
from fastapi.responses import JSONResponse
from sqlalchemy import Column, Integer, MetaData, Table, Text, insert

from benchmarks.browsing import Browser
from hsfiq.annotate.payloads import limited_body
from hsfiq.db.engine import Database, open_database
from hsfiq.db.rows import execute
from hsfiq.http_server import server_settings

ANSWER_BYTES, REPLY_BYTES = 600, 1500
"""About those of an answer to a pair of sets of five images, and of the reply to it."""

ANSWER = json.dumps({"answer": "x" * ANSWER_BYTES}).encode()

ANSWERS = Table(
    "answers", MetaData(), Column("id", Integer, primary_key=True), Column("body", Text)
)


class LimitUser:
    """Sends the same answer again and again."""

    def __init__(self, port: int) -> None:
        self._browser = Browser(port)

    def cycle(self) -> None:
        """Store an answer; the reply has what a page would show next."""
        json.loads(self._browser.send("POST", "/submit", ANSWER, "application/json"))


def limit_app(database: Database) -> FastAPI:
    """An app that stores what it is sent."""
    ANSWERS.create(database.engine, checkfirst=True)
    statement, ready = insert(ANSWERS), {"view": "x" * REPLY_BYTES}
    app = FastAPI()

    @app.get("/healthz")
    def health() -> JSONResponse:
        return JSONResponse({})

    @app.post("/submit")
    def submit(body: Annotated[bytes, Depends(limited_body)]) -> JSONResponse:
        with database.writing() as session:
            execute(session, statement, {"body": body.decode()})
        return JSONResponse(ready)

    return app


def main(url: str, port: int) -> None:
    """Serve the app until the process is killed."""
    uvicorn.Server(server_settings(limit_app(open_database(url)), "127.0.0.1", port)).run()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
