"""Serving a ranker until a signal stops it."""

from __future__ import annotations

import socket
from contextlib import suppress
from functools import partial

import torch
import uvicorn

from hsfiq.http_server import server_settings, stop
from hsfiq.model.serving.app import build_app
from hsfiq.model.serving.ranker import CorpusRanker
from hsfiq.signals import Signals


def serve(
    ranker: CorpusRanker, listener: socket.socket, token: str | None, threads: int = 1
) -> None:
    """Answer requests at a bound socket until a signal; requests being answered are finished.

    `threads` are PyTorch's, for each request on a CPU.
    """
    torch.set_num_threads(threads)
    host, port = listener.getsockname()[:2]
    with suppress(KeyboardInterrupt), Signals() as signals:
        server = uvicorn.Server(server_settings(build_app(ranker, token), host, port))
        signals.call(partial(stop, server))
        server.run(sockets=[listener])
