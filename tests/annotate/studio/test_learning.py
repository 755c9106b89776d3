"""Scoring a release and retraining on it, from the page "Results" to the end of the jobs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from threading import Event, Thread
from typing import Any

import pytest

from benchmarks.browsing import wait_until
from hsfiq.annotate.app import build_app
from hsfiq.annotate.cookies import signer_of
from hsfiq.db.engine import open_database
from hsfiq.db.studio_tables import Job
from hsfiq.demo.study import database_url
from hsfiq.jobs import Worker, job_folder
from hsfiq.model.data import drawn as draw
from tests.annotate.owner.studies_in_progress import log_in, set_owner
from tests.annotate.served_studies import browser_of
from tests.annotate.studio.conftest import StudioClient
from tests.annotate.studio.test_results import RESULTS, jobs, made_release, run_jobs
from tests.hsfiq.samples import hsfiq
from tests.model.preference.helpers import Answered, make_answered
from tests.model.scorer.helpers import Drawn
from tests.processes import forked_jobs

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def answered(tmp_path_factory: pytest.TempPathFactory) -> Answered:
    folder = tmp_path_factory.mktemp("learning")
    data = draw(folder / "pictures", seed=7, per_category=40, n=120, rule="corpus")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hsfiq.demo.study.GARMENTS_PER_CATEGORY", 80)
        return make_answered(folder, Drawn(data, folder / "pictures", folder / "cache"))


@pytest.fixture
def learning(answered: Answered, monkeypatch: pytest.MonkeyPatch) -> Iterator[StudioClient]:
    """The studio of the study that has been answered."""
    monkeypatch.setenv("HSFIQ_CACHE", str(answered.cache))
    database = open_database(database_url(answered.pictures.parent))
    signer_of(database)
    set_owner(database)
    app = build_app(database)
    client = browser_of(app)
    assert log_in(client).status_code == 303
    with forked_jobs():
        yield StudioClient(client, database, app)
    database.close()


def log_of(studio: StudioClient, job: Job) -> str:
    file = job_folder(studio.database, job.id) / "log.txt"
    return " ".join(file.read_text().split()) if file.exists() else ""


def said(studio: StudioClient) -> str:
    """What the page says first of the newest job, which is about learning."""
    job = jobs(studio.database)[-1]
    assert job.state == "done", log_of(studio, job)
    row = studio.get(RESULTS).text.split(f'data-key="job-{job.id}"')[1].split("</li>")[0]
    found = re.search(r'<small class="soft">(.*?)</small>', row, re.DOTALL)
    assert found is not None
    assert "/report.html" in row
    return found[1].strip()


def learn(studio: StudioClient, **given: Any) -> None:
    reply = studio.act(RESULTS, "learn", **given)
    assert reply.status_code == 200, reply.text


def interrupt(studio: StudioClient, text: str) -> None:
    """Run jobs until the log of the newest one has a text, and end the server then."""
    ended = Event()
    worker = Thread(target=Worker(studio.database, ended).run)
    worker.start()
    job = jobs(studio.database)[-1]
    wait_until(lambda: text in log_of(studio, job), text, timeout=600)
    ended.set()
    worker.join()


def test_a_scorer_is_compared_retrained_and_compared_again(
    answered: Answered, learning: StudioClient
) -> None:
    release = made_release(learning)
    given = {"release": release.name, "folder": str(answered.init)}
    learn(learning, **given)
    run_jobs(learning.database)
    printed = " ".join(hsfiq("analyze", release, "--metric", "scorer").out.split())
    assert said(learning).lower() in printed.lower()
    assert "scorer agrees" in said(learning)

    learn(learning, **given, further="1")
    interrupt(learning, "hsfiq train preference")
    assert jobs(learning.database)[-1].state == "waiting"
    assert "continues after a restart" in learning.get(RESULTS).text
    run_jobs(learning.database)
    compared = ("--metric", "before", "--metric", "retrained", "--part", "test")
    printed = " ".join(hsfiq("analyze", release, *compared).out.split())
    assert said(learning).lower() in printed.lower()
    assert "retrained agrees" in said(learning)

    # The retrained scorer can be chosen; what it was trained on is not counted.
    retrained = jobs(learning.database)[-1]
    folder = job_folder(learning.database, retrained.id).resolve() / "run"
    assert f'<option value="{folder}">' in learning.get(RESULTS).text
    learn(learning, release=release.name, checkpoint=str(folder))
    run_jobs(learning.database)
    log = log_of(learning, jobs(learning.database)[-1])
    assert "so only its test part is analyzed" in log
    assert "held-out part (test)" in log
