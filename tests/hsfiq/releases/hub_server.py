"""A server that speaks the part of the Hugging Face hub's HTTP protocol that uploads use."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

TOKEN = "hf_of_the_test"


@dataclass
class Hub:
    """What the server has: repositories, objects by their digest, and files by repository."""

    address: str = ""
    private: dict[str, bool] = field(default_factory=dict)
    objects: dict[str, bytes] = field(default_factory=dict)
    files: dict[str, dict[str, bytes]] = field(default_factory=dict)
    commits: list[dict[str, Any]] = field(default_factory=list)
    refuses: bool = False

    def create(self, body: dict[str, Any]) -> tuple[int, Any]:
        name = f"{body['organization']}/{body['name']}"
        url = f"{self.address}/datasets/{name}"
        if name in self.private:
            return 409, {"error": "You already created this dataset repo", "url": url}
        self.private[name] = bool(body.get("private") or body.get("visibility") == "private")
        self.files[name] = {}
        return 200, {"url": url, "name": name}

    def modes(self, body: dict[str, Any]) -> tuple[int, Any]:
        """Parquet files are large files, others are parts of the commit."""
        return 200, {
            "files": [
                {
                    "path": each["path"],
                    "uploadMode": "lfs" if each["path"].endswith(".parquet") else "regular",
                    "shouldIgnore": False,
                }
                for each in body["files"]
            ]
        }

    def batch(self, body: dict[str, Any]) -> tuple[int, Any]:
        objects = [
            each
            if each["oid"] in self.objects
            else each
            | {"actions": {"upload": {"href": f"{self.address}/objects/{each['oid']}"},
                           "verify": {"href": f"{self.address}/verify"}}}
            for each in body["objects"]
        ]  # fmt: skip
        return 200, {"transfer": "basic", "objects": objects}

    def verify(self, body: dict[str, Any]) -> tuple[int, Any]:
        stored = self.objects.get(body["oid"])
        return (200 if stored is not None and len(stored) == body["size"] else 404), {}

    def commit(self, repo: str, lines: list[dict[str, Any]]) -> tuple[int, Any]:
        for line in lines:
            value = line["value"]
            if line["key"] == "header":
                self.commits.append(value)
            elif line["key"] == "file":
                self.files[repo][value["path"]] = base64.b64decode(value["content"])
            elif line["key"] == "lfsFile":
                self.files[repo][value["path"]] = self.objects[value["oid"]]
        oid = f"{len(self.commits):040x}"
        return 200, {
            "commitOid": oid,
            "commitUrl": f"{self.address}/datasets/{repo}/commit/{oid}",
            "hookOutput": "",
        }

    def put(self, path: str, content: bytes) -> tuple[int, Any]:
        oid = path.rpartition("/")[2]
        if hashlib.sha256(content).hexdigest() != oid:
            return 400, {"error": "another digest"}
        self.objects[oid] = content
        return 200, {}

    def post(self, path: str, content: bytes) -> tuple[int, Any]:
        if "/commit/" in path:
            repo = path.removeprefix("/api/datasets/").partition("/commit/")[0]
            return self.commit(repo, list(map(json.loads, content.splitlines())))
        actions: dict[str, Callable[[dict[str, Any]], tuple[int, Any]]] = {
            "create": self.create,
            "main": self.modes,
            "batch": self.batch,
            "verify": self.verify,
            "validate-yaml": lambda _: (200, {"errors": [], "warnings": []}),
        }
        return actions[path.rpartition("/")[2]](json.loads(content))


class Handler(BaseHTTPRequestHandler):
    hub: Hub

    def reply(self, status: int, value: Any) -> None:
        content = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def do_PUT(self) -> None:
        self.reply(*self.hub.put(self.path, self.body()))

    def do_POST(self) -> None:
        content = self.body()
        if self.hub.refuses or self.headers.get("Authorization") != f"Bearer {TOKEN}":
            self.reply(401, {"error": "Invalid username or password."})
        else:
            self.reply(*self.hub.post(self.path.partition("?")[0], content))

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (the base class's name)
        """Nothing is logged."""


def handler_of(hub: Hub) -> type[Handler]:
    return type("HandlerOfHub", (Handler,), {"hub": hub})


@contextmanager
def served_hub() -> Iterator[Hub]:
    hub = Hub()
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler_of(hub))
    hub.address = f"http://127.0.0.1:{server.server_port}"
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
