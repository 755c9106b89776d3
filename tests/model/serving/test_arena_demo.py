"""`hsfiq demo --arena`: it serves three systems, votes come in, and it continues when restarted."""

from __future__ import annotations

import re
import shutil
import signal
import time
from contextlib import closing
from pathlib import Path
from socket import socket

import httpx
import pytest

from benchmarks.browsing import free_port
from hsfiq.cli import run
from hsfiq.collect.searches import read_votes
from hsfiq.collect.studies import find_study
from hsfiq.db.engine import open_database
from hsfiq.demo.arena import NAME, TRAINED, ports_of
from hsfiq.demo.study import database_url
from hsfiq.errors import UnreadableInput
from hsfiq.http_server import accept_connections, listening
from tests.model.serving.small_arena import SIZES, arena_of, run_small_arena
from tests.processes import Fork
from tests.whole_loop.small_loop import is_alive

ANSWERS = 6


def trained(folder: Path, clip4cir: Path) -> None:
    """The folder as it is after the trainings: all three systems are the same small one."""
    for _, recipe in SIZES.systems:
        shutil.copytree(clip4cir, folder / "systems" / recipe)
        (folder / "systems" / recipe / TRAINED).touch()


def wait_for(text: str, log: Path, process: Fork) -> str:
    while text not in (out := log.read_text() if log.exists() else ""):
        assert process.poll() is None, out
        time.sleep(0.05)
    return out


def votes_in(folder: Path) -> tuple[int, list[int], str]:
    database = open_database(database_url(folder))
    with closing(database), database.reading() as session:
        study = find_study(session, NAME)
        return len(read_votes(session, study)), ports_of(study), study.origin


@pytest.mark.slow
def test_it_serves_is_voted_in_and_continues(clip4cir: Path, tmp_path: Path) -> None:
    folder, port, log = tmp_path / "arena", free_port(), tmp_path / "out.txt"
    trained(folder, clip4cir)
    process = Fork(run_small_arena, [folder, str(port), str(ANSWERS)], log)
    out = wait_for("Ctrl-C stops everything", log, process)
    assert "SIMULATED: the votes come from simulated participants, not from people." in out
    assert "2 finished, 0 turned away, 0 failed" in out
    n_votes, ports, origin = votes_in(folder)
    assert (n_votes >= ANSWERS, origin) == (True, "simulated")
    address = f"http://127.0.0.1:{port}"
    password = re.search(r"with the password (\S+)", out)
    with httpx.Client(base_url=address, follow_redirects=True) as browser:
        assert browser.get("/").status_code == 200
        assert browser.get("/leaderboard/arena").status_code == 404
        login = {"Sec-Fetch-Site": "same-origin"}
        browser.post("/owner/login", data={"password": password[1]}, headers=login)
        board = browser.get("/leaderboard/arena")
        assert board.status_code == 200
        assert "simulated participants" in board.text
        assert "There is no ranking yet" in board.text
    process.send_signal(signal.SIGINT)
    assert process.wait() == 0
    assert not is_alive(process.pid)

    other, again = free_port(), tmp_path / "again.txt"
    process = Fork(run_small_arena, [folder, str(other)], again)
    out = wait_for("Ctrl-C stops everything", again, process)
    assert "Train the retrieval system" not in out
    assert f"with the password {password[1]}" in out
    assert "SIMULATED" in out
    assert votes_in(folder) == (n_votes, ports, origin)
    assert httpx.get(f"http://127.0.0.1:{other}/").status_code == 200
    process.send_signal(signal.SIGTERM)
    assert process.wait() == 0
    assert not is_alive(process.pid)

    with pytest.raises(UnreadableInput, match="has 18 searches"):
        arena_of(folder, other, 100).run()
    with closing(listening("127.0.0.1", ports[1])) as taken:
        accept_connections(taken)
        with pytest.raises(UnreadableInput) as refused:
            arena_of(folder, other, None).run()
    assert str(refused.value) == (
        f"127.0.0.1:{ports[1]}: cannot be used (Address already in use); end the program that "
        f"uses it: the arena in {folder} needs it"
    )


def test_a_port_in_use_is_named_before_anything_is_trained(tmp_path: Path) -> None:
    with closing(taken_after_a_free_port()) as taken:
        port = taken.getsockname()[1]
        for first, ports, remedy in (
            (port, [port], "choose another --port"),
            # Other programs may use the port between the two.
            (
                port - 2,
                [port - 1, port],
                "choose another --port: the retrievers use the three after it",
            ),
        ):
            with pytest.raises(UnreadableInput) as refused:
                arena_of(tmp_path / "arena", first, None).run()
            reason = f"cannot be used (Address already in use); {remedy}"
            assert str(refused.value).endswith(tuple(f"{used}: {reason}" for used in ports))
    assert not (tmp_path / "arena" / "systems").exists()


def taken_after_a_free_port() -> socket:
    """Take a port; the second one before it is free."""
    while True:
        taken = listening("127.0.0.1", 0)
        accept_connections(taken)
        try:
            listening("127.0.0.1", taken.getsockname()[1] - 2).close()
        except UnreadableInput:
            taken.close()
        else:
            return taken


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--full",), "--full: cannot be used with --arena"),
        (("--participants", "3"), "--participants: cannot be used with --arena"),
        (("--port", "65534"), "--port: has no ports after it"),
    ],
)
def test_options_that_do_not_fit_are_refused(
    words: tuple[str, ...], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["demo", "--arena", "--dir", str(tmp_path / "arena"), *words]) == 2
    assert message in capsys.readouterr().err
