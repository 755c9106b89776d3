"""Playing sessions with a small ranker of drawn garments."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hsfiq.drawn.garments import differences, garment_of
from hsfiq.errors import UnreadableInput
from hsfiq.live.protocol import RetrieverUnavailable
from hsfiq.sessions import record, scripts
from hsfiq.sessions.play import Part, Settings, User, chooser_of, play, play_parts
from hsfiq.sessions.record import Round, Session, references
from hsfiq.sessions.scripts import ScriptedUser, script_queries
from hsfiq.sessions.simulators import (
    DrawnSimulator,
    SameText,
    SimulatedUser,
    Simulator,
    attribute_distance,
)
from tests.hsfiq.sessions.circled_files import write_circled
from tests.hsfiq.sessions.garment_ranker import QUERIES, GarmentRanker

Ranks = list[list[int | None]]


def user(simulator: Simulator | None = None, choose: str = "top1") -> User:
    chooser, _ = chooser_of(choose, attribute_distance)
    return SimulatedUser(simulator or DrawnSimulator("full"), chooser, choose)


def played(settings: Settings | None = None, user_played: User | None = None) -> list[Session]:
    return play(GarmentRanker(), QUERIES, user_played or user(), settings or Settings())


def timeless(sessions: list[Session] | tuple[Session, ...]) -> list[Session]:
    """The sessions without their seconds."""
    return [
        replace(each, rounds=tuple(replace(part, seconds=None) for part in each.rounds))
        for each in sessions
    ]


def ranks(sessions: list[Session] | tuple[Session, ...]) -> Ranks:
    return [[each.rank for each in session.rounds] for session in sessions]


def test_a_session_by_hand() -> None:
    session = played(Settings(rounds=3, k=4))[0]
    query = QUERIES[0]
    first, second, third = session.rounds
    assert (first.reference, first.text) == (query.reference, query.text)
    assert first.candidate == second.reference == first.shown[0]
    assert third.candidate is None
    assert len(third.shown) == len(third.scores) == 4
    assert (session.session_id, session.seed) == (f"{query.query_id}/0", 0)
    assert session.stop is not None
    assert (session.stop.reason, session.stop.round) == ("max-rounds", 3)
    assert session.corpus is not None
    assert session.corpus.size == len(GarmentRanker().corpus())


def test_feedback_brings_the_target_nearer() -> None:
    told = [session.final_rank or 0 for session in played()]
    untold = [session.final_rank or 0 for session in played(user_played=user(SameText()))]
    assert sum(told) < sum(untold)


def test_the_same_seed_gives_the_same_sessions_whatever_the_batches() -> None:
    everything = timeless(played(user_played=user(choose="random-5")))
    one_by_one = [
        session
        for query in reversed(QUERIES)
        for session in play(GarmentRanker(), [query], user(choose="random-5"), Settings())
    ]
    assert timeless(one_by_one)[::-1] == everything
    others = timeless(played(Settings(seed=1), user(choose="random-5")))
    assert ranks(others) != ranks(everything)


def test_a_found_target_leaves_nothing_to_say() -> None:
    sessions = played(Settings(rounds=5))
    sessions_with_target = [s for s in sessions if any(r.reference in s.targets for r in s.rounds)]
    assert sessions_with_target
    for session in sessions_with_target:
        for before, each in zip(session.rounds, session.rounds[1:], strict=False):
            assert each.is_repeated_text == (each.reference in session.targets)
            assert not each.is_repeated_text or each.text == before.text


def test_a_stop_ends_a_session_at_its_hit() -> None:
    for session in played(Settings(stop_at=3)):
        hits = [each.round for each in session.rounds if (each.rank or 0) <= 3]
        assert session.stop is not None
        assert (session.stop.reason == "found") == bool(hits)
        assert session.stop.round == (hits[0] if hits else 5)


def test_choosers() -> None:
    unseen = played(user_played=user(choose="unseen"))
    assert all(len(set(references(s.rounds))) == len(s.rounds) for s in unseen)
    for session in played(user_played=user(choose="nearest")):
        target = garment_of(session.targets[0])
        for each in session.rounds[:-1]:
            far = [len(differences(garment_of(image), target)) for image in each.shown]
            assert each.shown.index(each.candidate or "") == far.index(min(far))
    for session in played(user_played=user(choose="random-3")):
        assert all(each.candidate in each.shown[:3] for each in session.rounds[:-1])


def test_brief_texts_are_shorter() -> None:
    full, brief = (
        [r.text or "" for s in played(user_played=user(DrawnSimulator(v))) for r in s.rounds[1:2]]
        for v in ("full", "brief")
    )
    assert len(" ".join(brief)) < len(" ".join(full))


def test_excluded_references_are_never_shown() -> None:
    queries = [replace(query, excluded=(query.reference or "",)) for query in QUERIES]
    for session in play(GarmentRanker(), queries, user(), Settings()):
        assert all(session.rounds[0].reference not in each.shown for each in session.rounds)


def test_a_replay_gives_the_same_ranks(tmp_path: Path) -> None:
    sessions = played()
    record.write(tmp_path / "sessions.jsonl", sessions)
    write_circled(tmp_path / "circled.json", sessions)
    for name in ("sessions.jsonl", "circled.json"):
        script = scripts.read(tmp_path / name)
        replayed = play(
            GarmentRanker(), script_queries(script), ScriptedUser(script), Settings(rounds=None)
        )
        assert ranks(replayed) == ranks(sessions)
        assert [each.session_id for each in replayed] == [each.session_id for each in sessions]
        assert {each.stop.reason for each in replayed if each.stop} == {"no-feedback"}
        assert all(each.is_simulated for each in replayed)


@pytest.mark.parametrize("name", ["best", "random", "random-0"])
def test_unknown_choosers_and_scripts_without_references_are_refused(name: str) -> None:
    with pytest.raises(UnreadableInput, match="not known"):
        chooser_of(name)
    with pytest.raises(UnreadableInput, match="drawn garments"):
        chooser_of("nearest")
    script = [Session(session_id="c", query_id="c", rounds=(Round(round=1, text="a dress"),))]
    with pytest.raises(UnreadableInput, match="query c: round 1: has no reference image"):
        play(GarmentRanker(), script_queries(script), ScriptedUser(script), Settings())


# -------------------------------------------------------------------------------------- unfinished


def part(**options: Any) -> Part:
    return Part(GarmentRanker(**options), QUERIES)


def play_to(
    out: Path, played_part: Part, settings: Settings, user_played: User | None = None
) -> Ranks:
    return ranks(play_parts([played_part], user_played or user(), settings, out, list))


def test_a_stopped_play_goes_on(tmp_path: Path) -> None:
    settings, out = Settings(batch=3, rounds=3), tmp_path / "out.jsonl"
    with pytest.raises(RetrieverUnavailable):
        play_to(out, part(fails_after=7), settings)
    assert not out.exists()
    lines = tmp_path / ".out.jsonl.play" / "sessions.jsonl"
    assert lines.read_bytes().count(b"\n") == 6
    lines.write_bytes(lines.read_bytes()[:-40])  # as a kill leaves it
    rest = part()
    again = play_to(out, rest, settings)
    assert isinstance(rest.ranker, GarmentRanker)
    assert rest.ranker.sizes == [3] * 9  # the first batch is not played again
    assert again == play_to(tmp_path / "whole.jsonl", part(), settings)
    assert timeless(record.read(out)) == timeless(record.read(tmp_path / "whole.jsonl"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.jsonl", "whole.jsonl"]


@pytest.mark.parametrize("changed", ["seed", "system", "simulator", "chooser"])
def test_another_play_does_not_go_on(tmp_path: Path, changed: str) -> None:
    settings, out = Settings(batch=3), tmp_path / "out.jsonl"
    with pytest.raises(RetrieverUnavailable):
        play_to(out, part(fails_after=6), settings)
    other = {
        "seed": (part(), replace(settings, seed=1), user()),
        "system": (part(version="2"), settings, user()),
        "simulator": (part(), settings, user(SameText())),
        "chooser": (part(), settings, user(choose="unseen")),
    }[changed]
    with pytest.raises(UnreadableInput, match=f"a play with another {changed}; remove it"):
        play_to(out, *other)


def test_what_cannot_be_played_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    out, settings = tmp_path / "out.jsonl", Settings()
    unknown = replace(QUERIES[0], targets=("g0000x",))
    for queries, options, message in (
        ((unknown,), {}, "its target g0000x is not one of the"),
        ((replace(QUERIES[0], targets=()),), {}, "its target is unknown"),
        ((replace(QUERIES[0], excluded=QUERIES[0].targets),), {}, "its target is excluded"),
        ((QUERIES[0], QUERIES[0]), {}, "would be played twice"),
        (QUERIES, {"histories": ("last",)}, "attributes does not support mean; use last"),
    ):
        with pytest.raises(UnreadableInput, match=message):
            play_parts([replace(part(**options), queries=queries)], user(), settings, out, list)
    assert list(tmp_path.iterdir()) == []
    out.write_text("")
    with pytest.raises(UnreadableInput, match="exists already"):
        play_to(out, part(), settings)
