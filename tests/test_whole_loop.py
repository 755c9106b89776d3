"""The whole loop of `hsfiq demo --full`: each step runs the command that it shows."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import typer
from sqlalchemy import func, select

from benchmarks.browsing import free_port
from hsfiq import cli
from hsfiq.db.engine import open_database
from hsfiq.db.tables import Form, Pair, Participant, Response, Study
from hsfiq.demo import processes
from hsfiq.demo.folder import database_url
from hsfiq.demo.loop import StepFailed, run_loop, run_step, run_steps, start_server, wrap
from hsfiq.demo.processes import Server, run_to_end
from hsfiq.demo.signals import Signals
from hsfiq.demo.steps import METRICS, Sizes, Step, address_of, loop_steps
from hsfiq.demo.study import make_study, served_design
from hsfiq.releases.splits import verify_no_leak

ROOT = Path(__file__).parent.parent
FOLDER = "the team's demo? 50%41"
"""A folder whose name means something else in a shell, and in a database's URL."""

SEED = 1
PARTICIPANTS, QUESTIONS = 3, 8
write, warn = typer.echo, partial(typer.echo, err=True)
TINY = Sizes(
    participants=PARTICIPANTS,
    limit=20,
    training=("epochs=2", "n_def=1"),
    retraining=("epochs=1",),
    next_pairs=3,
)

FOREVER = 1e6

ONE_WORKER = pytest.mark.xdist_group("whole loop")
"""Tests of the one small loop, which one worker runs once."""


@dataclass(frozen=True)
class SmallRun:
    """The small loop after its end: its folder, its process group and its output."""

    folder: Path
    port: int
    group: int
    out: str

    @property
    def results(self) -> Any:
        return read_json(self.folder / "report/results.json")

    def rows(self, table: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = pq.read_table(
            self.folder / f"release/{table}.parquet"
        ).to_pylist()
        return rows


def read_json(path: Path) -> Any:
    return json.loads(path.read_bytes())


def make_small_study(folder: Path) -> None:
    """Make the study of `hsfiq demo --simulated`, but smaller."""
    folder.mkdir()
    database = open_database(database_url(folder))
    design = replace(served_design(SEED), questions_per_form=QUESTIONS // 2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hsfiq.demo.study.GARMENTS_PER_CATEGORY", 16)
        make_study(database, folder, design, PARTICIPANTS, simulated=True)
    database.close()


def small_loop(folder: Path, port: int) -> list[Step]:
    """Return the loop's steps; the server uses the small study that the folder holds."""
    option = ("--participants", str(PARTICIPANTS))
    return [
        replace(step, words=tuple(word for word in step.words if word not in option))
        if step.serves
        else step
        for step in loop_steps(folder, port, SEED, TINY)
    ]


# ------------------------------------------------------------------------- processes of the tests

ENDS_SLOWLY = """
import http.server, pathlib, signal, sys, time

def end(*_):
    pathlib.Path(name + ".signalled").touch()
    while not pathlib.Path(name + ".may-end").exists():
        time.sleep(0.02)
    pathlib.Path(name + ".ended").touch()
    sys.exit()

name, port = sys.argv[1:]
signal.signal(signal.SIGTERM, end)
signal.signal(signal.SIGINT, end)
pathlib.Path(name + ".began").touch()
if int(port):
    http.server.test(http.server.SimpleHTTPRequestHandler, port=int(port), bind="127.0.0.1")
while True:
    signal.pause()
"""
"""A command, or with a port a server, that ends only when it is allowed to."""


def run_slow_processes() -> None:
    """Run such a command beside such a server, and wait for both as long as they take."""
    folder, port = Path(sys.argv[1]), int(sys.argv[2])
    processes.INTERRUPT_SECONDS = processes.TERMINATE_SECONDS = FOREVER
    command = [sys.executable, "-c", ENDS_SLOWLY]
    with (
        Signals() as signals,
        Server(address_of(port), folder / "server.log", signals) as server,
    ):
        assert server.start([*command, str(folder / "server"), str(port)]) is None
        run_to_end([*command, str(folder / "command"), "0"], signals)


def run_small_loop() -> None:
    """Run the small loop; with the argument `slowly`, only until its endless third step."""
    folder, port = Path(sys.argv[1]), int(sys.argv[2])
    steps = small_loop(folder, port)
    if sys.argv[3:] == ["slowly"]:
        served, answered = steps[1:3]
        steps = [served, replace(answered, words=(*answered.words, "--speed", "600"))]
    run_loop(steps, folder, port, write, warn)


def start_process(log: Path, function: str, *arguments: str | Path) -> subprocess.Popen[bytes]:
    """Start a function above as a process in a group of its own, with the default signal handlers.

    A suite that was started with `nohup` or in the background ignores some signals, and its
    processes would inherit that.
    """
    code = (
        "import signal\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "for number in (signal.SIGHUP, signal.SIGTERM):\n"
        "    signal.signal(number, signal.SIG_DFL)\n"
        f"from tests import test_whole_loop\ntest_whole_loop.{function}()"
    )
    with log.open("wb") as out:
        return subprocess.Popen(
            [sys.executable, "-c", code, *arguments],
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
            stdout=out,
            stderr=out,
            start_new_session=True,
        )


def wait_until(condition: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    """Wait until the condition is met or the process has small_run."""
    while not condition() and process.poll() is None:
        time.sleep(0.05)


def count(folder: Path, table: type) -> int:
    """How many rows the demo's database holds."""
    database = open_database(database_url(folder))
    with closing(database), database.reading() as session:
        return session.scalar(select(func.count()).select_from(table)) or 0


def is_alive(group: int) -> bool:
    """Whether any process of the group is left."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.fixture(scope="module")
def small_run(tmp_path_factory: pytest.TempPathFactory) -> SmallRun:
    """The small loop, run once."""
    folder, port = tmp_path_factory.mktemp("loop") / FOLDER, free_port()
    make_small_study(folder)
    log = folder.parent / "out.txt"
    process = start_process(log, "run_small_loop", folder, str(port))
    code = process.wait()
    out = log.read_text()
    assert code == 0, out
    return SmallRun(folder, port, process.pid, out)


# ----------------------------------------------------------------------------------- the whole loop


@ONE_WORKER
@pytest.mark.slow
def test_each_step_is_announced_with_its_command(small_run: SmallRun) -> None:
    steps = small_loop(small_run.folder, small_run.port)
    announced = [line for line in small_run.out.splitlines() if line.startswith(("[", "$ "))]
    assert announced == [
        line
        for number, step in enumerate(steps, start=1)
        for line in (f"[{number} of {len(steps)}] {step.title}", f"$ {step.command}")
    ]
    assert {step.words[0] for step in steps} == {
        *("train", "demo", "simulate", "export", "score", "analyze", "study")
    }


@ONE_WORKER
@pytest.mark.slow
def test_every_acknowledged_answer_arrives(small_run: SmallRun) -> None:
    acknowledged = re.search(
        r"(\d+) questions answered, 0 skipped, 0 answers refused", small_run.out
    )
    assert acknowledged is not None
    stored = count(small_run.folder, Response)
    kept, dropped = small_run.rows("preferences"), small_run.rows("exclusions")
    assert int(acknowledged[1]) == stored == len(kept) + len(dropped) == PARTICIPANTS * QUESTIONS
    assert count(small_run.folder, Participant) == PARTICIPANTS
    assert {row["participant_id"] for row in kept} == {f"p{n + 1}" for n in range(PARTICIPANTS)}


@ONE_WORKER
@pytest.mark.slow
def test_every_output_says_that_it_is_simulated(small_run: SmallRun) -> None:
    database = open_database(database_url(small_run.folder))
    with closing(database), database.reading() as session:
        assert set(session.scalars(select(Study.origin))) == {"simulated"}
    assert read_json(small_run.folder / "release/manifest.json")["simulated"] is True
    assert read_json(small_run.folder / "retrained/report.json")["simulated"] is True
    assert small_run.results["release"]["simulated"] is True
    assert "imulated annotators" in (small_run.folder / "report/report.html").read_text()
    assert "All answers are simulated annotators'" in small_run.out


@ONE_WORKER
@pytest.mark.slow
def test_only_held_out_answers_are_analysed(small_run: SmallRun) -> None:
    from scipy.stats import spearmanr  # `main` does without

    held_out = [
        question
        for question, part in verify_no_leak(small_run.folder / "release").items()
        if part == "test"
    ]
    queries = {row["query_id"]: row["target_id"] for row in small_run.rows("queries")}
    sets = [row for row in small_run.rows("sets") if row["question_id"] in held_out]
    results = small_run.results
    assert results["release"]["n_questions"] == len(held_out)
    for name in METRICS:
        assert results["metrics"][name]["spearman"]["n"] == len(sets) == 2 * len(held_out)
    hits = [queries[row["query_id"]] in row["image_ids"][:5] for row in sets]
    rho = spearmanr(hits, [row["score"] for row in sets]).statistic
    assert results["metrics"]["recall@5"]["spearman"]["rho"] == pytest.approx(rho, abs=1e-12)


@ONE_WORKER
@pytest.mark.slow
def test_each_output_names_its_origin(small_run: SmallRun) -> None:
    manifest = read_json(small_run.folder / "release/manifest.json")
    first = read_json(small_run.folder / "scorer/best.json")
    retrained = read_json(small_run.folder / "retrained/last.json")
    sha256s = [provenance["files"]["scorer"]["sha256"] for provenance in (first, retrained)]
    assert sha256s[0] != sha256s[1]
    assert retrained["init_sha256"] == sha256s[0]
    assert retrained["release"]["content_sha256"] == manifest["content_sha256"]
    for name, sha256 in zip(("before", "after"), sha256s, strict=True):
        provenance = read_json(small_run.folder / f"release.scores/{name}.json")
        assert provenance["checkpoint_sha256"] == sha256


@ONE_WORKER
@pytest.mark.slow
def test_the_summary_repeats_the_analysis(small_run: SmallRun) -> None:
    summary = small_run.out.partition("Results")[2]
    for name in METRICS:
        result = small_run.results["metrics"][name]["spearman"]
        assert f"  {name:<20}{result['rho']:.3f}{interval(result, '.3f')}\n" in summary
    (result,) = (
        pair["spearman"] for pair in small_run.results["comparisons"] if pair["metric"] == "before"
    )
    reverse = {"ci": [-end for end in reversed(result["ci"])]}
    assert (
        f"  after minus before  {-result['difference']:+.3f}{interval(reverse, '+.3f')}\n"
        in summary
    )
    outputs = summary.partition(f"Files in {small_run.folder}\n")[2].splitlines()
    assert outputs
    for line in outputs:
        assert (small_run.folder / line.split()[0]).exists()


def interval(result: Any, form: str) -> str:
    """Format the interval as the summary does; so few answers may give none."""
    low, high = result["ci"]
    if low is None:
        return f", its interval undefined: {result['reason']}"
    return f" [{low:{form}}, {high:{form}}]"


@ONE_WORKER
@pytest.mark.slow
def test_the_follow_up_study_has_new_pairs(small_run: SmallRun) -> None:
    held_out = {
        row["query_id"].rstrip("~")
        for row in small_run.rows("preferences")
        if verify_no_leak(small_run.folder / "release")[row["question_id"]] == "test"
    }
    database = open_database(database_url(small_run.folder))
    with closing(database), database.reading() as session:
        first, following = session.scalars(select(Study).order_by(Study.id)).all()
        pairs = {
            study.name: {
                (pair.query.triplet.external_id, pair.first.system_id, pair.second.system_id)
                for pair in session.scalars(select(Pair).where(Pair.study_id == study.id))
            }
            for study in (first, following)
        }
        chosen_by = following.design["chosen_by"]
    assert (following.name, following.status, following.origin) == ("drawn-2", "open", "simulated")
    assert len(pairs["drawn-2"]) == TINY.next_pairs
    assert pairs["drawn-2"].isdisjoint(pairs["drawn"])
    assert held_out.isdisjoint(name for name, _, _ in pairs["drawn-2"])
    retrained = read_json(small_run.folder / "retrained/last.json")
    assert chosen_by["strategy"] == "information"
    assert chosen_by["scorers"] == [retrained["files"]["scorer"]["sha256"]]


@ONE_WORKER
@pytest.mark.slow
def test_the_server_has_ended(small_run: SmallRun) -> None:
    assert "the demo is at" in (small_run.folder / "server.log").read_text()
    assert not is_alive(small_run.group)
    log = small_run.folder / "server.log"
    assert not Server(address_of(small_run.port), log, Signals()).answers()


# --------------------------------------------------------------------------------------- failures


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow the machine is, a page that takes long is no missing page."""
    monkeypatch.setattr(processes, "PAGE_SECONDS", FOREVER)
    monkeypatch.setattr(processes, "START_SECONDS", FOREVER)


@pytest.mark.slow
@pytest.mark.usefixtures("patient")
def test_a_killed_server_is_noticed(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder, port = tmp_path / "demo", free_port()
    steps = loop_steps(folder, port, SEED, replace(TINY, participants=4))
    with Server(address_of(port), folder / "server.log", Signals()) as server:
        start_server(steps[1], "2 of 9", server, warn)
        assert server._process is not None
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


@ONE_WORKER
@pytest.mark.slow
@pytest.mark.usefixtures("patient")
def test_a_server_that_does_not_start_says_why(
    small_run: SmallRun, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    port = free_port()
    steps = loop_steps(small_run.folder, port, SEED, TINY)[1:3]
    with Server(address_of(port), tmp_path / "server.log", Signals()) as server:
        with pytest.raises(StepFailed) as failure:
            run_steps(steps, server, Signals(), write, warn)
        assert not server.answers()
    assert failure.value.exit_code == 2
    assert failure.value.where == "step 1 of 2 (Serve a study)"
    out, err = capfd.readouterr()
    assert f"--participants: the study in {small_run.folder} has its size already" in err
    assert "[2 of 2]" not in out


@pytest.mark.usefixtures("patient")
def test_another_program_at_the_address_is_not_taken_for_the_study(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    port = free_port()
    steps = loop_steps(tmp_path / "demo", port, SEED, TINY)
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
    process = start_process(log, "run_small_loop", folder, str(free_port()), "slowly")
    wait_until(lambda: count(folder, Participant) > 0, process)
    process.terminate()
    assert process.wait() == -signal.SIGINT, log.read_text()
    assert "the demo is at" in (folder / "server.log").read_text()
    assert not is_alive(process.pid)


@pytest.mark.parametrize("first", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_further_signals_do_not_keep_processes_from_being_ended(
    first: signal.Signals, tmp_path: Path
) -> None:
    log = tmp_path / "out.txt"
    process = start_process(log, "run_slow_processes", tmp_path, str(free_port()))
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
    """Handle a signal in this way, however the suite was started."""
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


def test_a_signal_that_was_not_heeded_ends_the_block() -> None:
    with handled(signal.SIGTERM, signal.SIG_DFL):
        with pytest.raises(KeyboardInterrupt), Signals() as signals:
            os.kill(os.getpid(), signal.SIGTERM)
        assert signals.received is signal.SIGTERM
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


# -------------------------------------------------------------------------------------- wrong usage


@pytest.mark.parametrize(
    "words", [("--answers", "10"), ("--simulated",), ("--participants", "3"), ("--split", "test")]
)
def test_options_that_do_not_go_with_it(
    words: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert_refused(
        ["--dir", str(tmp_path / "demo"), *words],
        f"{words[0]}: does not go with --full; leave one out",
        capsys,
    )
    assert not (tmp_path / "demo").exists()


def test_a_folder_that_is_not_empty(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mine.txt"
    file.touch()
    assert_refused(
        ["--dir", str(tmp_path)], f"{tmp_path}: is not empty; name another --dir", capsys
    )
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
    message = f"{file}: exists and is not a folder; name another --dir"
    assert_refused(["--dir", str(file)], message, capsys)


def test_a_taken_port_is_reported_before_any_step(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert_refused(
            ["--dir", str(tmp_path / "demo"), "--port", str(port)],
            f"127.0.0.1:{port}: cannot be listened on (Address already in use); "
            "choose another --port",
            capsys,
        )
    assert not (tmp_path / "demo").exists()


@pytest.mark.parametrize("seed", [-4, 2**63])
def test_a_seed_that_training_refuses_is_reported_before_any_step(
    seed: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert_refused(
        ["--dir", str(tmp_path / "demo"), "--seed", str(seed)],
        f"--seed: {seed} is not from 0 to {2**63 - 1}, as training needs; name another",
        capsys,
    )
    assert not (tmp_path / "demo").exists()


def test_a_missing_package_is_reported_before_any_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    assert_refused(
        ["--dir", str(tmp_path / "demo")],
        "torch is not installed, and this command needs it; pip install 'hsfiq[model]'",
        capsys,
    )
    assert not (tmp_path / "demo").exists()


def test_paths_are_not_broken_into_lines() -> None:
    for path in ("a-folder/with-hyphens" * n for n in range(1, 10)):
        assert path in wrap(f"Some words before it, and then {path} and more.").split()


def assert_refused(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Require that the command prints this one line, and nothing else."""
    assert cli.run(["demo", "--full", "--no-open", *words]) == 2
    assert capsys.readouterr() == ("", f"hsfiq: {message}\n")
