"""Starting the server on an address that cannot be used."""

import socket

import pytest

from hsfiq.cli import run
from tests.annotate.served_studies import Place


def test_a_taken_port_is_reported_in_one_line(
    copied: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        assert run(["serve", "--port", str(port), "--database", copied.url]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert lines[-1].startswith(f"hsfiq: 127.0.0.1:{port}: cannot be used (Address already")
    assert len(lines) == 2  # the other says where it is going to be


def test_an_address_of_another_machine_is_reported_in_one_line(
    copied: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["serve", "--host", "192.0.2.1", "--database", copied.url]) == 2
    assert "192.0.2.1:7860: cannot be used" in capsys.readouterr().err
