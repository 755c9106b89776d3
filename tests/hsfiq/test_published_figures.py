"""From the published answers to the papers' numbers with four commands."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest

from hsfiq.releases.splits import verify_no_leak
from tests.hsfiq.samples import CommandResult, hsfiq, imported

pytestmark = pytest.mark.shared


@pytest.fixture(scope="module")
def folder(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder whose database holds the published answers."""
    folder = tmp_path_factory.mktemp("published")
    answers = shared / "data" / "hpfiq" / "hpfiq_users_1_40.json"
    command = hsfiq("import", "hpfiq", answers, "--database", f"sqlite:///{folder / 'hsfiq.db'}")
    assert command.out == "study hpfiq: 2,000 questions added\n"
    return folder


@pytest.fixture(autouse=True)
def in_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HSFIQ_DATABASE_URL", raising=False)
    monkeypatch.chdir(folder)


def funnel(command: CommandResult, kind: str) -> list[tuple[str, int, int]]:
    (release,) = [release for release in command.result["releases"] if release["kind"] == kind]
    return [(step["rule"], step["dropped"], step["left"]) for step in release["funnel"]]


def test_the_unfiltered_export_is_byte_identical(shared: Path) -> None:
    assert hsfiq("export", "--release", "hp", "--out", "whole").code == 0
    answers = shared / "data" / "hpfiq" / "hpfiq_users_1_40.json"
    assert Path("whole/hpfiq.json").read_bytes() == answers.read_bytes()


def test_importing_it_again_changes_nothing(shared: Path) -> None:
    before = imported(Path("hsfiq.db"))
    repeated = hsfiq("import", "hpfiq", shared / "data" / "hpfiq" / "hpfiq_users_1_40.json")
    assert repeated.out == "study hpfiq: unchanged, all 2,000 questions existed\n"
    assert imported(Path("hsfiq.db")) == before


def test_filtering_drops_19_contradictions() -> None:
    command = hsfiq("export", "--filter-invalid", "--out", "filtered", "--json")
    assert funnel(command, "hp")[2:] == [("irrelevant", None, 2000), ("contradicts", 19, 1981)]
    assert funnel(command, "hs")[2:] == [("irrelevant", None, 2000)]


FEW = ("--resamples", "100")
"""Only the intervals depend on the number of resamples."""


def test_the_papers_figures(need: Callable[..., None]) -> None:
    need("pandas")
    assert hsfiq("export").code == 0
    command = hsfiq("analyze", "--metric", "recall@5", *FEW, "--json")
    assert command.err == "analyzing releases/hpfiq-hp-1.0.0\n"
    figures = command.result
    assert figures["release"]["n_questions"] == 2000
    assert figures["release"]["n_sets"] == 4000
    assert figures["release"]["n_participants"] == 40
    recall = figures["metrics"]["recall@5"]
    assert round(recall["spearman"]["rho"], 4) == 0.1554
    rates = {
        name: (round(rate["rate"], 4), rate["n"])
        for name, rate in recall["preference_rate"].items()
        if name in ("ge", "gt", "symmetric")
    }
    assert rates == {"ge": (0.5899, 1702), "gt": (0.8125, 304), "symmetric": (0.7774, 602)}
    assert round(figures["position_bias"]["rate"], 4) == 0.5405
    assert "rho 0.155" in hsfiq("analyze", "--metric", "recall@5", *FEW).out


def test_repeated_published_triplets_stay_in_one_part(shared: Path) -> None:
    source = shared / "data" / "hpfiq" / "hpfiq_users_1_40.json"
    assert hsfiq("export", "--release", "hp", "--split", "triplet", "--out", "split").code == 0
    parts = verify_no_leak(Path("split"))
    # By the file's own images and captions, knowing nothing of ids of triplets or queries.
    images, texts = defaultdict(list), defaultdict(set)
    for user, forms in json.loads(source.read_bytes()).items():
        for name, form in forms.items():
            for place, (reference, target, text) in enumerate(
                zip(form["ref_img_paths"], form["targ_img_paths"], form["sentences"], strict=True)
            ):
                part = parts[f"{user}.{name}.{place}"]
                images[reference, target].append(part)
                texts[reference, tuple(sorted(text.lower().split()))].add(part)
    repeated = [parts for parts in images.values() if len(parts) == 2]
    assert (len(images), len(repeated)) == (1710, 290)
    assert all(len(set(parts)) == 1 for parts in images.values())
    assert all(len(parts) == 1 for parts in texts.values())
    assert sum(parts[0] == "test" for parts in images.values()) == 342
