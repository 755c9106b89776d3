"""Debian's nginx over TLS, in front of a server of the test."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from tests.conftest import do_without
from tests.studies import ROOT

TOOLS = ("nginx", "openssl")

SETTINGS = """
daemon off; pid {folder}/pid; error_log {folder}/error.log;
events {{ }}
http {{
    access_log off;
    client_body_temp_path {folder}/t1; proxy_temp_path {folder}/t2; fastcgi_temp_path {folder}/t3;
    uwsgi_temp_path {folder}/t4; scgi_temp_path {folder}/t5;
{server}
}}
"""

SERVER = """
server {{
    listen 443 ssl;
    ssl_certificate /etc/ssl/study.pem;
    ssl_certificate_key /etc/ssl/study.key;
    {location}
}}
"""


def tool(name: str) -> str:
    path = shutil.which(name, path="/usr/local/sbin:/usr/sbin:/usr/bin:/bin")
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
    settings = folder / "nginx.conf"
    settings.write_text(SETTINGS.format(folder=folder, server=server))
    process = subprocess.Popen([tool("nginx"), "-c", settings, "-e", folder / "error.log"])
    try:
        while True:
            assert process.poll() is None, (folder / "error.log").read_text()
            with closing(socket.socket()) as tried:
                if tried.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.02)
        yield f"https://localhost:{port}"
    finally:
        process.terminate()
        process.wait()
