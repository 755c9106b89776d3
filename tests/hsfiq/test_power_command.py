from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.hsfiq.imported_answers import write_imported_answers
from tests.hsfiq.samples import hsfiq

SMALL = ("--participants", "10", "--participants", "20", "--questions", "5")


@pytest.fixture(autouse=True)
def with_pandas(need: Callable[..., None]) -> None:
    need("pandas", "scipy")


def test_widths_and_required_participants() -> None:
    command = hsfiq("power", *SMALL, "--width", "0.1", "--json")
    assert command.code == 0
    sizes = [(size["participants"], size["questions"]) for size in command.result["sizes"]]
    assert sizes == [(10, 5), (20, 5)]
    assert command.result["width"] == 0.1
    assert command.result["needed"][0]["for_width"]["rho"] > 20
    assert "CIRQRS Tables 2 and 3" in command.result["population"]["source"]


def test_the_text_output_of_power() -> None:
    command = hsfiq("power", *SMALL, "--overlap", "2")
    assert "participants for each question: 2" in command.out
    assert "with 5 questions each, participants needed" in command.out
    assert max(map(len, command.out.splitlines())) <= 100


@pytest.fixture
def release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The release of the hand-made study in the current folder."""
    monkeypatch.delenv("HSFIQ_DATABASE_URL", raising=False)
    monkeypatch.chdir(tmp_path)
    write_imported_answers()
    assert hsfiq("export", "--release", "hp", "--out", "r").code == 0
    return "r"


def test_from_a_release(release: str) -> None:
    command = hsfiq("power", "--from", release, *SMALL, "--metric", "recall@5", "--json")
    assert command.code == 0
    assert command.result["population"]["source"] == "release hpfiq-hp 1.0.0"
    flat = hsfiq("power", "--from", release, *SMALL, "--metric", "recall@6")
    assert (flat.code, "recall@6: needs 6 images" in flat.err) == (2, True)


def test_the_details_of_an_analysis(release: str) -> None:
    analyze = ("analyze", release, "--metric", "recall@5")
    plain = hsfiq(*analyze, "--json").result
    details = hsfiq(*analyze, "--details", "--json").result
    assert set(details) - set(plain) == {
        "systems", "participants", "categories", "overlap", "place_and_time",
        "groups_of_people", "repeated_pairs", "sensitivity", "within_query",
    }  # fmt: skip
    assert details["systems"]["reason"] == "the release names no systems"
    assert details["metrics"] == plain["metrics"]
    assert "Categories" in hsfiq(*analyze, "--details").out.splitlines()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--participants", "1"), "participants"),
        (("--width", "0"), "width"),
        (("--metric", "recall@5"), "needs a release"),
        (("--from", "nowhere"), "no such folder"),
        (("--from", "x", "--metric", "a", "--metric", "b", "--metric", "c"), "name one or two"),
    ],
)
def test_impossible_simulations_are_refused(arguments: tuple[str, ...], message: str) -> None:
    command = hsfiq("power", *arguments)
    assert command.code == 2
    assert message in command.err
    assert len(command.err.splitlines()) == 1


def test_participants_until_a_preference_is_decided() -> None:
    options = ("--preference", "0.7", "--preference", "0.8", "--systems", "3")
    command = hsfiq("power", *SMALL, *options, "--json")
    plans = command.result["preference"]
    assert (plans["systems"], plans["spread_source"]) == (3, "assumed")
    assert [(plan["rate"], plan["questions"]) for plan in plans["plans"]] == [(0.7, 5), (0.8, 5)]
    assert plans["plans"][0]["fixed"] < plans["plans"][0]["expected"]
    text = hsfiq("power", *SMALL, *options).out
    assert "which of two systems people prefer" in text
    assert max(map(len, text.splitlines())) <= 100
    refused = hsfiq("power", *SMALL, "--preference", "0.4")
    assert (refused.code, "0.4 is not between 0.5 and 1" in refused.err) == (2, True)
