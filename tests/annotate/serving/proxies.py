"""Debian's nginx over TLS, in front of a server of the test."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from benchmarks.nginx import installed
from benchmarks.nginx import nginx as run_nginx
from tests.conftest import do_without
from tests.studies import ROOT

TOOLS = ("nginx", "openssl")

SERVER = """
server {{
    listen 443 ssl;
    ssl_certificate /etc/ssl/study.pem;
    ssl_certificate_key /etc/ssl/study.key;
    {location}
}}
"""


WITHOUT_TLS = """
server {{
    listen 127.0.0.1:{port};
    location / {{ proxy_pass {upstream}; proxy_set_header Host $http_host; }}
}}
"""


def tool(name: str) -> str:
    path = installed(name)
    if path is None:
        do_without(f"{name} is not installed: apt-get install nginx-light openssl")
    return path


def documented() -> list[str]:
    """The configurations of nginx in docs/proxy.md."""
    blocks = (ROOT / "docs" / "proxy.md").read_text().split("```nginx\n")[1:]
    return [block.partition("```")[0] for block in blocks]


def free_port() -> int:
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def make_certificate(folder: Path) -> None:
    words = (
        "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost"
    )
    names = ["-addext", "subjectAltName=DNS:localhost"]
    files = ["-keyout", folder / "study.key", "-out", folder / "study.pem"]
    command = [tool("openssl"), *words.split(), *names, *files]
    subprocess.run(command, check=True, capture_output=True)


@contextmanager
def nginx(folder: Path, certificate: Path, server: str, upstream: str, port: int) -> Iterator[str]:
    """The origin of nginx with this `server` block, whose ports and files are replaced."""
    for old, new in {
        "listen 443 ssl;": f"listen 127.0.0.1:{port} ssl;",
        "/etc/ssl": str(certificate),
        "http://127.0.0.1:7860": upstream,
    }.items():
        assert old in server
        server = server.replace(old, new)
    with run_nginx(tool("nginx"), folder, server, port):
        yield f"https://localhost:{port}"
