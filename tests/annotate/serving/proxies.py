"""Debian's nginx over TLS, or Caddy, in front of a server of the test."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from benchmarks.nginx import accepts, installed
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

CADDY = """
{{
    admin off
    auto_https off
    log {{
        output file {folder}/caddy.log
    }}
}}
{site}
"""

WITHOUT_TLS = """
server {{
    listen 127.0.0.1:{port};
    location / {{ proxy_pass {upstream}; proxy_set_header Host $http_host; }}
}}
"""


def tool(name: str, packages: str = "nginx-light openssl") -> str:
    path = installed(name)
    if path is None:
        do_without(f"{name} is not installed: apt-get install {packages}")
    return path


def documented(program: str = "nginx") -> list[str]:
    """The configurations of a proxy in docs/hosting/proxy.md."""
    blocks = (ROOT / "docs" / "hosting" / "proxy.md").read_text().split(f"```{program}\n")[1:]
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
def caddy(folder: Path, site: str, upstream: str, port: int) -> Iterator[None]:
    """Run Caddy with this site, whose address and upstream are replaced, without TLS."""
    name = site.split(maxsplit=1)[0]
    for old, new in {name: f"http://127.0.0.1:{port}", "127.0.0.1:7860": upstream[7:]}.items():
        assert old in site
        site = site.replace(old, new)
    settings = folder / "Caddyfile"
    settings.write_text(CADDY.format(folder=folder, site=site))
    program, output = tool("caddy", "caddy"), folder / "caddy.out"
    own = {"HOME": str(folder), "XDG_DATA_HOME": str(folder), "XDG_CONFIG_HOME": str(folder)}
    with output.open("w") as log:
        process = subprocess.Popen(
            [program, "run", "--config", settings, "--adapter", "caddyfile"],
            env=own,
            stdout=log,
            stderr=log,
        )
    try:
        while not accepts(port):
            assert process.poll() is None, output.read_text()
            time.sleep(0.02)
        yield
    finally:
        process.terminate()
        process.wait()


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
