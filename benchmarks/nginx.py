"""nginx in front of a server, for benchmarks and tests."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
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


class Nginx:
    """nginx with these blocks of its part `http`, which listen at the port."""

    def __init__(self, program: str, folder: Path, blocks: str, port: int) -> None:
        self.port, self._errors = port, folder / "error.log"
        settings = folder / "nginx.conf"
        settings.write_text(SETTINGS.format(folder=folder, blocks=blocks))
        self._command: list[str | Path] = [program, "-p", folder, "-c", settings]
        self._command += ["-e", self._errors]

    def start(self) -> None:
        self._process = subprocess.Popen(self._command, start_new_session=True)
        while not accepts(self.port):
            if self._process.poll() is not None:
                raise RuntimeError(self._errors.read_text())
            time.sleep(0.02)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Send all its processes a signal that ends them."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)
        self._process.wait()
        while accepts(self.port):  # its worker may end later
            time.sleep(0.02)


@contextmanager
def nginx(program: str, folder: Path, blocks: str, port: int) -> Iterator[Nginx]:
    """Run nginx with these blocks of its part `http`, which listen at the port."""
    running = Nginx(program, folder, blocks, port)
    try:
        running.start()
        yield running
    finally:
        running.stop()


def accepts(port: int) -> bool:
    """Whether somebody accepts connections at a port of this machine."""
    with closing(socket.socket()) as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0
