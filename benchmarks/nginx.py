"""nginx in front of a server, for benchmarks and tests."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

INSTALL = "nginx is not installed: apt-get install nginx-light"

SETTINGS = """
daemon off; pid {folder}/pid; error_log {folder}/error.log;
worker_processes 1;
events {{ worker_connections 2048; }}
http {{
    access_log off;
    client_body_temp_path {folder}/t1; proxy_temp_path {folder}/t2; fastcgi_temp_path {folder}/t3;
    uwsgi_temp_path {folder}/t4; scgi_temp_path {folder}/t5;
{blocks}
}}
"""


def installed(name: str = "nginx") -> str | None:
    """The program's path, None if it is not installed."""
    return shutil.which(name, path="/usr/local/sbin:/usr/sbin:/usr/bin:/bin")


@contextmanager
def nginx(program: str, folder: Path, blocks: str, port: int) -> Iterator[None]:
    """Run nginx with these blocks of its part `http`, which listen at the port."""
    settings, errors = folder / "nginx.conf", folder / "error.log"
    settings.write_text(SETTINGS.format(folder=folder, blocks=blocks))
    process = subprocess.Popen([program, "-p", folder, "-c", settings, "-e", errors])
    try:
        while not accepts(port):
            if process.poll() is not None:
                raise RuntimeError(errors.read_text())
            time.sleep(0.02)
        yield
    finally:
        process.terminate()
        process.wait()


def accepts(port: int) -> bool:
    """Whether somebody accepts connections at a port of this machine."""
    with closing(socket.socket()) as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0
