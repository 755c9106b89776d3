"""Failures and signals during `hsfiq demo --full`: no process is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.browsing import free_port
from hsfiq.db.tables import Form, Participant
from hsfiq.demo.loop import (
    Server,
    Step,
    StepFailed,
    address_of,
    loop_steps,
    run_step,
    run_steps,
    start_server,
)
from hsfiq.signals import Signals
from tests.processes import Fork
from tests.whole_loop.small_loop import (
    SEED,
    TINY,
    count,
    is_alive,
    make_small_study,
    run_slow_processes,
    run_small_loop,
    wait_until,
    warn,
    write,
)


@pytest.mark.slow
@pytest.mark.usefixtures("patient", "forked_commands")
def test_a_killed_server_is_noticed(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder, port = tmp_path / "demo", free_port()
    steps = loop_steps(folder, port, SEED, replace(TINY, systems=(), participants=4))
    with Server(address_of(port), folder / "server.log", Signals()) as server:
        start_server(steps[1], "2 of 9", server, warn)
        server._process.kill()
        server._process.wait()
        with pytest.raises(StepFailed) as failure:
            run_step(steps[2], "3 of 9", server, Signals(), warn)
    assert failure.value.exit_code == 2
    assert failure.value.where == "step 3 of 9 (Let annotators answer it)"
    assert failure.value.what == "`hsfiq simulate` failed with exit code 2"
    err = capfd.readouterr().err
    assert "the server has ended with exit code -9" in err
    assert "the demo is at" in err
    # The study has forms for the participants asked for, rounded up to equal categories.
    assert count(folder, Form) == 2 * 6


@pytest.mark.usefixtures("patient")
def test_a_step_is_counted_among_all_of_the_whole(tmp_path: Path) -> None:
    lines: list[str] = []
    step = Step("Say the version", "It needs no server.", ("--version",))
    with Server(address_of(free_port()), tmp_path / "log", Signals()) as server:
        run_steps([step], server, Signals(), lines.append, warn, before=1, after=2)
    assert "[2 of 4] Say the version" in lines[0]


def test_another_program_is_detected(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    port = free_port()
    steps = loop_steps(tmp_path / "demo", port, SEED, replace(TINY, systems=()))
    other_program = subprocess.Popen(
        [sys.executable, "-m", "http.server", str(port), "--bind", "127.0.0.1"],
        cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    log = tmp_path / "demo/server.log"
    with other_program, Server(address_of(port), log, Signals()) as server:
        wait_until(server.answers, other_program)
        with pytest.raises(StepFailed) as failure:
            run_steps(steps[1:2], server, Signals(), write, warn)
        other_program.kill()
    assert failure.value.exit_code == 1
    assert f"another program answers at http://127.0.0.1:{port}" in capfd.readouterr().err
    assert not (tmp_path / "demo").exists()


@pytest.mark.slow
def test_a_terminated_loop_leaves_no_server(tmp_path: Path) -> None:
    folder, log = tmp_path / "demo", tmp_path / "out.txt"
    make_small_study(folder)
    process = Fork(run_small_loop, [folder, str(free_port()), "slowly"], log)
    wait_until(lambda: count(folder, Participant) > 0, process)
    process.send_signal(signal.SIGTERM)
    assert process.wait() == -signal.SIGINT, log.read_text()
    assert "the demo is at" in (folder / "server.log").read_text()
    assert not is_alive(process.pid)


@pytest.mark.parametrize("first", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_further_signals_do_not_interrupt_shutdown(first: signal.Signals, tmp_path: Path) -> None:
    log = tmp_path / "out.txt"
    process = Fork(run_slow_processes, [tmp_path, str(free_port())], log)
    wait_until((tmp_path / "command.began").exists, process)
    if first is signal.SIGINT:
        os.killpg(process.pid, first)  # as Ctrl-C does
    else:
        process.send_signal(first)
    for name in ("command", "server"):
        wait_until((tmp_path / f"{name}.signalled").exists, process)
        for next_signal in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            process.send_signal(next_signal)
        (tmp_path / f"{name}.may-end").touch()
    assert process.wait() == -signal.SIGINT, log.read_text()
    assert (tmp_path / "command.ended").exists()
    assert (tmp_path / "server.ended").exists()
    assert not is_alive(process.pid)


@contextmanager
def handled(number: signal.Signals, handler: signal.Handlers) -> Iterator[None]:
    """Set a signal's handler, independently of how the suite was started."""
    before = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, before)


def test_an_ignored_signal_stays_ignored() -> None:
    with handled(signal.SIGHUP, signal.SIG_IGN):
        with Signals() as signals:
            os.kill(os.getpid(), signal.SIGHUP)
        assert signals.received is None
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


def test_an_unhandled_signal_ends_the_block() -> None:
    with handled(signal.SIGTERM, signal.SIG_DFL):
        with pytest.raises(KeyboardInterrupt), Signals() as signals:
            os.kill(os.getpid(), signal.SIGTERM)
        assert signals.received is signal.SIGTERM
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
