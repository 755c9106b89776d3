"""Pages that refresh themselves share one computation; who asks for it gets the newest."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hsfiq.actors import Role, User
from hsfiq.annotate.handlers import Services
from hsfiq.annotate.owner.dashboard import KEPT_SECONDS, MOST_KEPT, PAUSE, Dashboard, SharedOutputs
from hsfiq.annotate.owner.login import Identities
from hsfiq.collect.studies import list_studies
from tests.annotate.owner.studies_in_progress import watched_study
from tests.annotate.served_studies import Place


class Clock:
    def __init__(self) -> None:
        self.time = 1000.0

    def __call__(self) -> float:
        return self.time


class Work:
    """Computes its number, which takes `seconds`."""

    def __init__(self, clock: Clock, seconds: float = 0.0) -> None:
        self.clock, self.seconds, self.n = clock, seconds, 0

    def __call__(self) -> list[int]:
        self.n += 1
        self.clock.time += self.seconds
        return [self.n]


def test_a_timer_gets_what_was_computed_a_moment_ago() -> None:
    clock = Clock()
    outputs, work = SharedOutputs(clock), Work(clock)
    assert outputs.recent("study", work) == [1]
    clock.time += KEPT_SECONDS - 0.1
    assert outputs.recent("study", work) == [1]
    clock.time += 0.2
    assert outputs.recent("study", work) == [2]
    assert outputs.now("study", work) == [3]
    assert outputs.recent("study", work) == [3]
    assert outputs.recent("another", work) == [4]


def test_what_takes_long_is_computed_less_often() -> None:
    clock = Clock()
    outputs, work = SharedOutputs(clock), Work(clock, seconds=30)
    outputs.now("study", work)
    clock.time += PAUSE * 30 - 1
    assert outputs.recent("study", work) == [1]
    clock.time += 2
    assert outputs.recent("study", work) == [2]


def test_pages_wait_for_the_computation_under_way() -> None:
    outputs, clock = SharedOutputs(), Clock()
    work, begun, may_end = Work(clock), threading.Event(), threading.Event()

    def slow() -> list[int]:
        begun.set()
        may_end.wait()
        return work()

    with ThreadPoolExecutor(4) as pool:
        first = pool.submit(outputs.recent, "study", slow)
        begun.wait()
        others = [pool.submit(outputs.recent, "study", slow) for _ in range(3)]
        may_end.set()
        assert [each.result() for each in (first, *others)] == [[1]] * 4
    assert work.n == 1


def test_a_failed_computation_is_not_kept() -> None:
    clock = Clock()
    outputs = SharedOutputs(clock)

    def fail() -> list[int]:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        outputs.recent("study", fail)
    assert outputs.recent("study", Work(clock)) == [1]


def test_names_that_somebody_makes_up_take_no_memory() -> None:
    clock = Clock()
    outputs = SharedOutputs(clock)
    for number in range(3 * MOST_KEPT):
        outputs.now(f"study-{number}", Work(clock))
    assert len(outputs.latest) == MOST_KEPT


def test_no_role_gets_what_another_may_see(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    database = watched_study(Place(tmp_path))
    services = Services.of(database)
    dashboard = Dashboard(Identities(database, services.signer), services.images)
    with database.reading() as session:
        name = list_studies(session)[0].name
    users = [User(role.value, role, 1) for role in Role]
    asking: list[User] = []
    monkeypatch.setattr(Dashboard, "require", lambda *_: asking[-1])
    for user in users:
        asking.append(user)
        own = dashboard.computed(name, user)
        first, again = (
            dashboard.ticked(name, *("", False, 1), None)[: len(own)]  # type: ignore[arg-type]
            for _ in range(2)
        )
        assert list(map(id, first)) == list(map(id, again))
        shown = first
        # Numbers of the last hour may differ.
        assert [bool(each) for each in shown] == [bool(each) for each in own]
        assert shown[-1] == own[-1]
    database.close()
