"""The whole loop, as `hsfiq demo --full` takes it: each step the command that it says it is."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from sqlalchemy import func, select

from benchmarks.browsing import free_port
from hsfiq import cli, demo
from hsfiq.cli.full_demo import run as full_demo
from hsfiq.cli.full_demo.processes import Server, run_to_end
from hsfiq.cli.full_demo.signals import Signals
from hsfiq.cli.full_demo.steps import METRICS, Sizes, Step, address_of, whole_loop
from hsfiq.db.engine import open_database
from hsfiq.db.tables import Form, Pair, Participant, Response, Study
from hsfiq.releases.splits import verify_no_leak

ROOT = Path(__file__).parent.parent
FOLDER = "the team's demo? 50%41"
"""A folder whose name means something else in a shell, and in a database's URL."""

SEED = 1
PEOPLE, QUESTIONS = 3, 8
TINY = Sizes(
    participants=PEOPLE,
    limit=20,
    training=("epochs=2", "n_def=1"),
    retraining=("epochs=1",),
    ask=3,
)

ONE_WORKER = pytest.mark.xdist_group("whole loop")
"""The loop is gone through once."""


@dataclass(frozen=True)
class Ended:
    """The loop when it has ended: its folder, its processes' group, and what they printed."""

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
    """What `hsfiq demo --simulated` would draw, but fewer and smaller."""
    folder.mkdir()
    database = open_database(demo.database_url(folder))
    design = replace(demo.served_design(SEED), questions_per_form=QUESTIONS // 2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo, "GARMENTS_PER_CATEGORY", 16)
        demo.make_study(database, folder, design, PEOPLE, simulated=True)
    database.close()


def small_loop(folder: Path, port: int) -> list[Step]:
    """The loop's steps, their server finding the small study there."""
    steps = whole_loop(folder, port, SEED, TINY)
    room = ("--participants", str(PEOPLE))
    return [
        replace(step, words=tuple(word for word in step.words if word not in room))
        if step.serves
        else step
        for step in steps
    ]


SLOW_TO_END = """
import http.server, pathlib, signal, sys, time

def end(*_):
    pathlib.Path(name + ".told").touch()
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
time.sleep(60)
"""
"""A command, and with a port a server, that takes its time to put its things in order."""


def follow_slow_ones() -> None:
    """What the tests start as a process of its own: such a command beside such a server."""
    folder, port = Path(sys.argv[1]), int(sys.argv[2])
    words = [sys.executable, "-c", SLOW_TO_END]
    with (
        Signals() as signals,
        Server(address_of(port), folder / "server.log", signals) as server,
    ):
        assert server.start([*words, str(folder / "server"), str(port)]) is None
        run_to_end([*words, str(folder / "command"), "0"], signals)


def main() -> None:
    """What the tests start as a process of its own: the small loop, or one that takes its time."""
    folder, port = Path(sys.argv[1]), int(sys.argv[2])
    steps = small_loop(folder, port)
    if sys.argv[3:] == ["slowly"]:
        served, answered = steps[1:3]
        steps = [served, replace(answered, words=(*answered.words, "--speed", "600"))]
    full_demo.follow(steps, folder, port)


def started(log: Path, *arguments: str | Path, what: str = "main") -> subprocess.Popen[bytes]:
    """Start one of the above in a group of its own."""
    with log.open("wb") as out:
        return subprocess.Popen(
            [sys.executable, "-c", f"import tests.test_whole_loop as it; it.{what}()", *arguments],
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
            stdout=out,
            stderr=out,
            start_new_session=True,
        )


def count(folder: Path, table: type) -> int:
    """How many rows the demo's database holds."""
    database = open_database(demo.database_url(folder))
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
def ended(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    """The small loop, gone through once."""
    folder, port = tmp_path_factory.mktemp("loop") / FOLDER, free_port()
    make_small_study(folder)
    log = folder.parent / "out.txt"
    process = started(log, folder, str(port))
    code = process.wait()
    out = log.read_text()
    assert code == 0, out
    return Ended(folder, port, process.pid, out)


# ------------------------------------------------------------------------------------ the whole way


@ONE_WORKER
def test_each_step_is_announced_with_its_command(ended: Ended) -> None:
    steps = small_loop(ended.folder, ended.port)
    told = [line for line in ended.out.splitlines() if line.startswith(("[", "$ "))]
    assert told == [
        line
        for number, step in enumerate(steps, start=1)
        for line in (f"[{number} of {len(steps)}] {step.title}", f"$ {step.command}")
    ]
    assert {step.words[0] for step in steps} == {
        *("train", "demo", "simulate", "export", "score", "analyze", "study")
    }


@ONE_WORKER
def test_every_acknowledged_answer_arrives(ended: Ended) -> None:
    acknowledged = re.search(r"(\d+) questions answered, 0 skipped, 0 answers refused", ended.out)
    assert acknowledged is not None
    stored = count(ended.folder, Response)
    kept, dropped = ended.rows("preferences"), ended.rows("exclusions")
    assert int(acknowledged[1]) == stored == len(kept) + len(dropped) == PEOPLE * QUESTIONS
    assert count(ended.folder, Participant) == PEOPLE
    assert {row["participant_id"] for row in kept} == {f"p{n + 1}" for n in range(PEOPLE)}


@ONE_WORKER
def test_all_that_is_made_says_that_it_is_simulated(ended: Ended) -> None:
    database = open_database(demo.database_url(ended.folder))
    with closing(database), database.reading() as session:
        assert set(session.scalars(select(Study.origin))) == {"simulated"}
    assert read_json(ended.folder / "release/manifest.json")["simulated"] is True
    assert read_json(ended.folder / "retrained/report.json")["simulated"] is True
    assert ended.results["release"]["simulated"] is True
    assert "imulated annotators" in (ended.folder / "report/report.html").read_text()
    assert "All answers are simulated annotators'" in ended.out


@ONE_WORKER
def test_only_what_is_held_out_is_analysed(ended: Ended) -> None:
    from scipy.stats import spearmanr  # `main` does without

    held_out = [
        question
        for question, part in verify_no_leak(ended.folder / "release").items()
        if part == "test"
    ]
    queries = {row["query_id"]: row["target_id"] for row in ended.rows("queries")}
    sets = [row for row in ended.rows("sets") if row["question_id"] in held_out]
    results = ended.results
    assert results["release"]["n_questions"] == len(held_out)
    for name in METRICS:
        assert results["metrics"][name]["spearman"]["n"] == len(sets) == 2 * len(held_out)
    hits = [queries[row["query_id"]] in row["image_ids"][:5] for row in sets]
    rho = spearmanr(hits, [row["score"] for row in sets]).statistic
    assert results["metrics"]["recall@5"]["spearman"]["rho"] == pytest.approx(rho, abs=1e-12)


@ONE_WORKER
def test_everything_says_where_it_comes_from(ended: Ended) -> None:
    manifest = read_json(ended.folder / "release/manifest.json")
    first = read_json(ended.folder / "scorer/best.json")
    retrained = read_json(ended.folder / "retrained/last.json")
    sha256s = [about["files"]["scorer"]["sha256"] for about in (first, retrained)]
    assert sha256s[0] != sha256s[1]
    assert retrained["init_sha256"] == sha256s[0]
    assert retrained["release"]["content_sha256"] == manifest["content_sha256"]
    for name, sha256 in zip(("before", "after"), sha256s, strict=True):
        said = read_json(ended.folder / f"release.scores/{name}.json")
        assert said["checkpoint_sha256"] == sha256


@ONE_WORKER
def test_what_came_out_is_what_the_analysis_says(ended: Ended) -> None:
    told = ended.out.partition("What came out")[2]
    for name in METRICS:
        found = ended.results["metrics"][name]["spearman"]
        assert f"  {name:<20}{found['rho']:.3f}{within(found, '.3f')}\n" in told
    (pair,) = (it["spearman"] for it in ended.results["comparisons"] if it["metric"] == "before")
    turned = {"ci": [-end for end in reversed(pair["ci"])]}
    assert f"  after less before   {-pair['difference']:+.3f}{within(turned, '+.3f')}\n" in told
    made = told.partition(f"Where it lies, in {ended.folder}\n")[2].splitlines()
    assert made
    for line in made:
        assert (ended.folder / line.split()[0]).exists()


def within(found: Any, form: str) -> str:
    """The interval as it stands behind the figure; so few answers may give none."""
    low, high = found["ci"]
    if low is None:
        return f", its interval undefined: {found['reason']}"
    return f" [{low:{form}}, {high:{form}}]"


@ONE_WORKER
def test_the_next_study_asks_what_is_new(ended: Ended) -> None:
    held_out = {
        row["query_id"].rstrip("~")
        for row in ended.rows("preferences")
        if verify_no_leak(ended.folder / "release")[row["question_id"]] == "test"
    }
    database = open_database(demo.database_url(ended.folder))
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
    assert len(pairs["drawn-2"]) == TINY.ask
    assert pairs["drawn-2"].isdisjoint(pairs["drawn"])
    assert held_out.isdisjoint(name for name, _, _ in pairs["drawn-2"])
    retrained = read_json(ended.folder / "retrained/last.json")
    assert chosen_by["strategy"] == "information"
    assert chosen_by["scorers"] == [retrained["files"]["scorer"]["sha256"]]


@ONE_WORKER
def test_the_server_is_gone(ended: Ended) -> None:
    assert "the demo is at" in (ended.folder / "server.log").read_text()
    assert not is_alive(ended.group)
    log = ended.folder / "server.log"
    assert not Server(address_of(ended.port), log, Signals()).answers()


# ---------------------------------------------------------------------------------- what goes wrong


def test_a_server_that_is_killed_is_missed(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder, port = tmp_path / "demo", free_port()
    steps = whole_loop(folder, port, SEED, replace(TINY, participants=4))
    with Server(address_of(port), folder / "server.log", Signals()) as server:
        full_demo.serve(steps[1], "2 of 9", server)
        assert server._process is not None
        server._process.kill()
        server._process.wait()
        with pytest.raises(full_demo.StepFailed) as failure:
            full_demo.perform(steps[2], "3 of 9", server, Signals())
    assert failure.value.exit_code == 2
    assert str(failure.value) == (
        "step 3 of 9 (Let annotators answer it): `hsfiq simulate` failed with exit code 2"
    )
    err = capfd.readouterr().err
    assert "the server has ended with exit code -9 and said:\n" in err
    assert "the demo is at" in err
    # The study that it drew has room for as many as were asked for, and for whole categories.
    assert count(folder, Form) == 2 * 6


@ONE_WORKER
def test_a_server_that_does_not_start_says_why(
    ended: Ended, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    port = free_port()
    steps = whole_loop(ended.folder, port, SEED, TINY)[1:3]
    with Server(address_of(port), tmp_path / "server.log", Signals()) as server:
        with pytest.raises(full_demo.StepFailed) as failure:
            full_demo.go(steps, server, Signals())
        assert not server.answers()
    assert failure.value.exit_code == 2
    assert str(failure.value).startswith("step 1 of 2 (Serve a study): `hsfiq demo` failed")
    out, err = capfd.readouterr()
    assert f"--participants: the study in {ended.folder} has its room already" in err
    assert "[2 of 2]" not in out


def test_what_something_else_serves_is_not_taken_for_the_study(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    port = free_port()
    steps = whole_loop(tmp_path / "demo", port, SEED, TINY)
    other = subprocess.Popen(
        [sys.executable, "-m", "http.server", str(port), "--bind", "127.0.0.1"],
        cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    log = tmp_path / "demo/server.log"
    with other, Server(address_of(port), log, Signals()) as server:
        wait_until(server.answers)
        with pytest.raises(full_demo.StepFailed) as failure:
            full_demo.go(steps[1:2], server, Signals())
        other.kill()
    assert failure.value.exit_code == 1
    assert f"http://127.0.0.1:{port} is served by something else\n" in capfd.readouterr().err
    assert not (tmp_path / "demo").exists()


def test_whoever_is_told_to_end_leaves_no_server(tmp_path: Path) -> None:
    folder, log = tmp_path / "demo", tmp_path / "out.txt"
    make_small_study(folder)
    process = started(log, folder, str(free_port()), "slowly")
    wait_until(lambda: count(folder, Participant) > 0 or process.poll() is not None)
    process.terminate()
    assert process.wait() == -signal.SIGINT, log.read_text()
    assert "the demo is at" in (folder / "server.log").read_text()
    assert not is_alive(process.pid)


@pytest.mark.parametrize("first", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_whoever_is_told_again_while_ending_ends_all_the_same(
    first: signal.Signals, tmp_path: Path
) -> None:
    log = tmp_path / "out.txt"
    process = started(log, tmp_path, str(free_port()), what="follow_slow_ones")

    def wait_for(name: str) -> None:
        wait_until(lambda: (tmp_path / name).exists() or process.poll() is not None)

    wait_for("command.began")
    if first is signal.SIGINT:
        os.killpg(process.pid, first)  # as Ctrl-C does
    else:
        process.send_signal(first)
    for name in ("command", "server"):
        wait_for(f"{name}.told")
        for again in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            process.send_signal(again)
        (tmp_path / f"{name}.may-end").touch()
    assert process.wait() == -signal.SIGINT, log.read_text()
    assert (tmp_path / "command.ended").exists()
    assert (tmp_path / "server.ended").exists()
    assert not is_alive(process.pid)


def test_a_signal_that_is_ignored_stays_so() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Signals() as signals:
            os.kill(os.getpid(), signal.SIGHUP)
        assert signals.came is None
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_signal_that_nothing_heeded_is_heeded_in_the_end() -> None:
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with pytest.raises(KeyboardInterrupt), Signals() as signals:
        os.kill(os.getpid(), signal.SIGTERM)
    assert signals.came is signal.SIGTERM
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == handlers


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not is_so():
        if time.monotonic() > deadline:
            pytest.fail("waited for a minute")
        time.sleep(0.1)


# -------------------------------------------------------------------------------------- wrong usage


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--answers", "10"), "--answers: does not go with --full; leave one out"),
        (("--simulated",), "--simulated: does not go with --full; leave one out"),
        (("--participants", "3"), "--participants: does not go with --full; leave one out"),
        (("--split", "test"), "--split: does not go with --full; leave one out"),
    ],
)
def test_options_that_do_not_go_with_it(
    words: tuple[str, ...], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    refused(["--dir", str(tmp_path / "demo"), *words], said, capsys)
    assert not (tmp_path / "demo").exists()


def test_a_folder_that_holds_something(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.txt").touch()
    refused(
        ["--dir", str(tmp_path)], f"{tmp_path}: is there and not empty; name another --dir", capsys
    )
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
    file = tmp_path / "mine.txt"
    refused(["--dir", str(file)], f"{file}: is there and is no folder; name another --dir", capsys)


def test_a_taken_port_is_said_before_anything_is_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        refused(
            ["--dir", str(tmp_path / "demo"), "--port", str(port)],
            f"127.0.0.1:{port}: cannot be listened on (Address already in use); "
            "choose another --port",
            capsys,
        )
    assert not (tmp_path / "demo").exists()


@pytest.mark.parametrize("seed", [-4, 2**63])
def test_a_seed_that_training_refuses_is_said_before_anything_is_run(
    seed: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    refused(
        ["--dir", str(tmp_path / "demo"), "--seed", str(seed)],
        f"--seed: {seed} is not from 0 to {2**63 - 1}, as training needs it; give another",
        capsys,
    )
    assert not (tmp_path / "demo").exists()


def test_what_is_not_installed_is_said_before_anything_is_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    refused(
        ["--dir", str(tmp_path / "demo")],
        "torch is not installed, and this command needs it: pip install 'hsfiq[model]'",
        capsys,
    )
    assert not (tmp_path / "demo").exists()


def test_a_path_in_what_is_told_stays_in_one_piece() -> None:
    for path in ("a-folder/with-hyphens" * n for n in range(1, 10)):
        assert path in full_demo.wrapped(f"Some words before it, and then {path} and more.").split()


def refused(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The command says this one line, and nothing else."""
    assert cli.run(["demo", "--full", "--no-open", *words]) == 2
    assert capsys.readouterr() == ("", f"hsfiq: {said}\n")
