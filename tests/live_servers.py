"""Live retrievers, served by a thread of the test's process."""

from __future__ import annotations

import runpy
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import uvicorn

from hsfiq.http_server import listening, server_settings
from tests.studies import ROOT


@contextmanager
def serving(app: Any, port: int = 0) -> Iterator[str]:
    """The address of an ASGI app; on a free port unless one is given."""
    with closing(listening("127.0.0.1", port)) as listener:
        port = listener.getsockname()[1]
        server = uvicorn.Server(server_settings(app, "127.0.0.1", port))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        while not server.started:
            assert thread.is_alive(), "the server did not start"
            time.sleep(0.01)
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            server.should_exit = True
            thread.join()


def example_app() -> Any:
    """The app of examples/live_retriever.py."""
    return runpy.run_path(str(ROOT / "examples" / "live_retriever.py"))["app"]
