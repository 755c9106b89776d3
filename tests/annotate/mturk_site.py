"""A site that behaves as Mechanical Turk does: it frames a task, and takes its form at the end."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs

FRAME = """<!doctype html><title>worker</title>
<iframe src="{url}" width="1200" height="900" style="border:0"></iframe>"""

SENT = '<!doctype html><p id="sent">sent</p>'


class Site(ThreadingHTTPServer):
    """`frames` is the address that it frames, `received` what was sent to it, by host and path."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.framed = ""
        self.received: list[tuple[str, dict[str, list[str]]]] = []
        self.referrers: list[str | None] = []


class Handler(BaseHTTPRequestHandler):
    server: Site

    def do_GET(self) -> None:
        is_task = self.path == "/task"
        self.answer(200, FRAME.format(url=escape(self.server.framed)) if is_task else SENT)

    def do_POST(self) -> None:
        """Store the form, and lead the worker on, on the site for workers."""
        body = self.rfile.read(int(self.headers["content-length"])).decode()
        address = f"{self.headers['host']}{self.path}"
        self.server.received.append((address, parse_qs(body)))
        self.server.referrers.append(self.headers["referer"])
        self.answer(302, "", location="https://worker.mturk.com/next")

    def answer(self, status: int, page: str, **headers: str) -> None:
        content = page.encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("content-type", "text/html")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_words: object) -> None:
        pass


@contextmanager
def mechanical_turk(certificate: Path) -> Iterator[Site]:
    """The site over TLS, on a port of this machine."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate / "study.pem", certificate / "study.key")
    with Site() as site:
        site.socket = context.wrap_socket(site.socket, server_side=True)
        thread = threading.Thread(target=site.serve_forever)
        thread.start()
        try:
            yield site
        finally:
            site.shutdown()
            thread.join()
