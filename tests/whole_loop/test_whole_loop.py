"""The whole loop of `hsfiq demo --full`: each step runs the command that it shows."""

from __future__ import annotations

import json
import re
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from sqlalchemy import select

from benchmarks.browsing import free_port
from hsfiq.db.engine import open_database
from hsfiq.db.tables import Pair, Participant, Response, Study
from hsfiq.demo.loop import METRICS, SESSIONS, Server, StepFailed, address_of, loop_steps, run_steps
from hsfiq.demo.study import database_url
from hsfiq.releases.splits import verify_no_leak
from hsfiq.sessions.record import read
from hsfiq.signals import Signals
from tests.processes import Fork
from tests.whole_loop.small_loop import (
    PARTICIPANTS,
    QUESTIONS,
    SEED,
    TINY,
    count,
    is_alive,
    make_small_study,
    run_small_loop,
    serving,
    small_loop,
    warn,
    write,
)

FOLDER = "the team's demo? 50%41"
"""A folder name with special characters of shells and of database URLs."""


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


@pytest.fixture(scope="module")
def small_run(tmp_path_factory: pytest.TempPathFactory) -> SmallRun:
    """The small loop, run once."""
    folder, port = tmp_path_factory.mktemp("loop") / FOLDER, free_port()
    make_small_study(folder)
    log = folder.parent / "out.txt"
    process = Fork(run_small_loop, [folder, str(port)], log)
    code = process.wait()
    out = log.read_text()
    assert code == 0, out
    return SmallRun(folder, port, process.pid, out)


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
        *("train", "demo", "simulate", "export", "score", "analyze", "study", "sessions")
    }


@pytest.mark.slow
def test_a_simulated_user_searches_over_three_rounds(small_run: SmallRun) -> None:
    sessions = read(small_run.folder / SESSIONS)
    assert len(sessions) == 3 * TINY.searches  # of each category
    assert {(len(each.rounds), each.simulator) for each in sessions} == {(3, "drawn-full")}
    assert "hits@10" in small_run.out
    assert "The texts come from simulators" in small_run.out


@pytest.mark.slow
def test_every_acknowledged_answer_is_stored(small_run: SmallRun) -> None:
    acknowledged = re.search(
        r"(\d+) questions answered, 0 skipped, 0 answers refused", small_run.out
    )
    stored = count(small_run.folder, Response)
    kept, dropped = small_run.rows("preferences"), small_run.rows("exclusions")
    assert int(acknowledged[1]) == stored == len(kept) + len(dropped) == PARTICIPANTS * QUESTIONS
    assert count(small_run.folder, Participant) == PARTICIPANTS
    assert {row["participant_id"] for row in kept} == {f"p{n + 1}" for n in range(PARTICIPANTS)}


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


@pytest.mark.slow
def test_only_held_out_answers_are_analyzed(small_run: SmallRun) -> None:
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


@pytest.mark.slow
def test_the_server_has_ended(small_run: SmallRun) -> None:
    assert "the demo is at" in (small_run.folder / "server.log").read_text()
    assert not is_alive(small_run.group)
    log = small_run.folder / "server.log"
    assert not Server(address_of(small_run.port), log, Signals()).answers()


@pytest.mark.slow
@pytest.mark.usefixtures("patient", "forked_commands")
def test_a_server_that_does_not_start_says_why(
    small_run: SmallRun, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    port = free_port()
    steps = serving(loop_steps(small_run.folder, port, SEED, TINY))
    with Server(address_of(port), tmp_path / "server.log", Signals()) as server:
        with pytest.raises(StepFailed) as failure:
            run_steps(steps, server, Signals(), write, warn)
        assert not server.answers()
    assert failure.value.exit_code == 2
    assert failure.value.where == "step 1 of 2 (Serve a study)"
    out, err = capfd.readouterr()
    assert f"--participants: the size of the study in {small_run.folder} is already fixed" in err
    assert "[2 of 2]" not in out
