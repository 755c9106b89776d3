"""Releases of every kind, and results of commands as JSON, stay what they were.

`python -m tests.hsfiq.test_golden` writes the golden files anew, after a change that is meant.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from hsfiq.kinds import KIND_OF_RELEASE, KINDS, RELEASE_KINDS
from hsfiq.kinds.search import RECORDS_FILE
from tests.hsfiq.releases.small_releases import OnDisk, small_release, small_study_file
from tests.hsfiq.samples import hsfiq

pytestmark = pytest.mark.xdist_group("golden files")  # all of them from one run of the commands

GOLDEN = Path(__file__).parent / "golden"
DIGESTS = GOLDEN / "releases.json"
"""Release folder -> file -> SHA-256. Parquet files depend on the pinned release of pyarrow."""

ABOUT = """\
[release]
licence = "CC-BY-4.0"
citation = "@misc{small, title = {A small study}}"
authors = ["Kim Minji", "Lee Jun"]
contact = "kim@example.org"
url = "https://example.org/small"
date = "2026-03-01"
"""
FILTERS = (
    "--filter-invalid", "--filter", "failed-checks", "--filter", "unseen",
    "--filter", "too-fast(seconds=1.5)",
)  # fmt: skip
STRAIGHT_LINING = ("--filter", "straight-lining(run=4)")
SEARCHES = ("search", "arena")
WITHOUT_METRICS = ("images", "query", *SEARCHES)


def commands() -> Iterator[tuple[str, tuple[str, ...]]]:
    """The name and the arguments of every command; later ones read what earlier ones wrote."""
    for kind in RELEASE_KINDS:
        question_kind = KIND_OF_RELEASE[kind].name
        yield from commands_of(kind, f"sqlite:///{question_kind}.db", f"small-{kind}")
    for kind in ("hs", "hp"):
        database = "sqlite:///demo/hsfiq.db"
        yield from commands_of(kind, database, f"demo-{kind}")
        analyze = ("analyze", f"demo-{kind}", "--resamples", "49", "--json")
        yield f"demo-{kind}-systems", analyze
        yield f"demo-{kind}-metrics", (*analyze, "--metric", "recall@2", "--metric", "recall@1")
        pictures = ("--with-images", "--layout", "webdataset", "--about", "about.toml")
        yield f"demo-{kind}-images", export(kind, database, f"demo-{kind}-images", *pictures)
    hpfiq = ("--layout", "hpfiq", "--layout", "trl", "--split", "triplet")
    yield "small-hp-layouts", export("hp", "sqlite:///pair.db", "small-hp-layouts", *hpfiq)
    for kind in RELEASE_KINDS:
        both = (f"small-{kind}", f"other-{kind}")
        yield f"merged-{kind}", ("release", "merge", *both, "--out", f"merged-{kind}", "--json")
    records = f"small-search/{RECORDS_FILE}"
    yield "sessions-measured", ("sessions", "measure", records, "--k", "1", "--json")


def commands_of(kind: str, database: str, name: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Export all and the filtered answers, verify, compare, and analyse them."""
    yield name, export(kind, database, name)
    by = "triplet" if kind in SEARCHES else "both"
    filtered = ("--split", by, "--test-share", "0.4", "--split-seed", "3", "--layout", "csv")
    filters = FILTERS if kind in SEARCHES else (*FILTERS, *STRAIGHT_LINING)
    more = ("--about", "about.toml", *filters, *filtered)
    yield f"{name}-filtered", export(kind, database, f"{name}-filtered", *more)
    yield f"{name}-explained", export(kind, database, f"{name}-x", *filters, "--explain")
    yield f"{name}-verified", ("release", "verify", name, "--json")
    yield f"{name}-compared", ("release", "diff", name, f"{name}-filtered", "--json")
    metric = () if kind in WITHOUT_METRICS else ("--metric", "recall@2")
    yield f"{name}-analyzed", ("analyze", name, *metric, "--resamples", "49", "--json")


def export(kind: str, database: str, out: str, *options: str) -> tuple[str, ...]:
    return ("export", "--release", kind, "--database", database, "--out", out, *options, "--json")


def run_all(folder: Path) -> dict[str, Any]:
    """Run the commands in a folder; what each printed, as JSON, and its exit code."""
    (folder / "about.toml").write_text(ABOUT, encoding="utf-8")
    for kind in KINDS:
        (folder / f"{kind}.db").write_bytes(small_study_file(kind)[0])
    for kind in RELEASE_KINDS:
        other_group(small_release(kind, folder / f"other-{kind}"))
    printed = {}
    with chdir(folder):
        assert hsfiq("demo", "--answers", "60", "--seed", "1", "--dir", "demo").code == 0
        for name, arguments in commands():
            command = hsfiq(*arguments)
            is_json = command.out.startswith("{") and "--json" in arguments
            output = json.loads(command.out) if is_json else command.out.splitlines()
            errors = command.err.splitlines()
            printed[name] = {"exit": command.code, "errors": errors, "output": output}
    return printed


def other_group(release: OnDisk) -> None:
    """Make the release that of a second study, with the same instrument."""
    for file in ("manifest.json", "croissant.json"):
        release.json(file, lambda value: value.update(name="other"))
    release.agree()


def digests_of(folder: Path) -> dict[str, dict[str, str]]:
    """The digest of every file of every release folder."""
    found: dict[str, dict[str, str]] = {}
    for manifest in sorted(folder.glob("*/manifest.json")):
        release = manifest.parent
        files = sorted(path for path in release.rglob("*") if path.is_file())
        found[release.name] = {
            path.relative_to(release).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in files
        }
    return found


def cards_of(folder: Path) -> dict[str, str]:
    return {path.parent.name: path.read_text("utf-8") for path in folder.glob("*/README.md")}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Path]:
    folder = tmp_path_factory.mktemp("golden")
    return run_all(folder), folder


def test_release_cards_stay(results: tuple[dict[str, Any], Path]) -> None:
    expected = {path.stem: path.read_text("utf-8") for path in GOLDEN.glob("*.md")}
    assert cards_of(results[1]) == expected


def test_release_folders_stay(results: tuple[dict[str, Any], Path]) -> None:
    assert digests_of(results[1]) == json.loads(DIGESTS.read_text("utf-8"))


def test_results_stay(results: tuple[dict[str, Any], Path]) -> None:
    """Numbers may differ in their last digits, because processors add in different orders."""
    expected = json.loads((GOLDEN / "results.json").read_text("utf-8"))
    assert list(results[0]) == list(expected)
    for name, result in json.loads(json.dumps(results[0])).items():
        assert list(differences(result, expected[name], name)) == []


def differences(value: Any, expected: Any, place: str) -> Iterator[str]:
    """Where two JSON values differ, in the order of keys, too."""
    if isinstance(value, dict) and isinstance(expected, dict) and list(value) == list(expected):
        for key in value:
            yield from differences(value[key], expected[key], f"{place}.{key}")
    elif isinstance(value, list) and isinstance(expected, list) and len(value) == len(expected):
        for number, (one, other) in enumerate(zip(value, expected, strict=True)):
            yield from differences(one, other, f"{place}[{number}]")
    elif isinstance(value, float) and isinstance(expected, float):
        if not math.isclose(value, expected, rel_tol=1e-9, abs_tol=1e-12):
            yield f"{place}: {value} instead of {expected}"
    elif type(value) is not type(expected) or value != expected:
        yield f"{place}: {value!r} instead of {expected!r}"


def write_golden_files() -> None:
    os.environ["OMP_NUM_THREADS"] = "1"
    with TemporaryDirectory() as name:
        folder = Path(name)
        results = run_all(folder)
        DIGESTS.write_text(json.dumps(digests_of(folder), indent=1) + "\n", "utf-8")
        for release, card in cards_of(folder).items():
            (GOLDEN / f"{release}.md").write_text(card, "utf-8")
    (GOLDEN / "results.json").write_text(json.dumps(results, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    write_golden_files()
