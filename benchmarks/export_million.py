"""`hsfiq export` of a large study against the same files by pandas (`benchmarks.export_pandas`).

`verify` is what `hsfiq release verify` of the release takes.

Each side is a process of its own, and they run in turn: with `--full` three times, of which the
medians count. `ratio` is that of the seconds on the clock; `cpu_ratio` that of the CPU seconds,
which other load on the machine hardly changes. `equal` is whether all Parquet tables have the same
values and all JSON lines are as many, the first ones equal. Both sides write each table as Parquet
(zstd) and as JSON lines; `only_ours` are the files that only the release has, whose manifest has
the SHA-256 of each file. With `--full` the study has 1,000,000 questions, without it 40,000.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from datetime import datetime
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.million_answers import STUDY, make_database

FULL_SIZE, SIZE = 1_000_000, 40_000
GOAL, GOAL_MB = 3.0, 500
TABLES = ("preferences", "sets", "queries", "exclusions", "reasons")
LINES = 2000
REPEATS = 3


def run(seed: int, full: bool) -> dict[str, Any]:
    return measure(seed, FULL_SIZE, REPEATS) if full else measure(seed, SIZE, 1)


def measure(seed: int, n_answers: int, repeats: int) -> dict[str, Any]:
    """Export a drawn study of so many questions on both sides, in turn."""
    cases: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        url = make_database(folder / "million.db", n_answers, seed)
        hsfiq = str(Path(sys.executable).parent / "hsfiq")
        ours_out, theirs_out = folder / "hsfiq", folder / "pandas"
        for number in range(repeats):
            if number:
                shutil.rmtree(ours_out)
                shutil.rmtree(theirs_out)
            theirs_out.mkdir()
            export = [hsfiq, "export", "--database", url, "--study", STUDY, "--release", "hs"]
            cases.append({"side": "hsfiq", **timed([*export, "--out", str(ours_out)])})
            pandas = [sys.executable, "-m", "benchmarks.export_pandas"]
            database = str(folder / "million.db")
            cases.append({"side": "pandas", **timed([*pandas, database, str(theirs_out)])})
        verified = timed([hsfiq, "release", "verify", str(ours_out)])
        differing = differences(ours_out, theirs_out)
        files, their_files = sizes(ours_out), sizes(theirs_out)
    ours, theirs = middle(cases, "hsfiq"), middle(cases, "pandas")
    return {
        "name": "export-million",
        "questions": n_answers,
        "ratio": round(theirs["seconds"] / ours["seconds"], 2),
        "ours": ours["seconds"],
        "theirs": theirs["seconds"],
        "unit": "s",
        "cpu_ratio": round(theirs["cpu_seconds"] / ours["cpu_seconds"], 2),
        "peak_mb": ours["peak_mb"],
        "their_peak_mb": theirs["peak_mb"],
        "verify": verified,
        "equal": not differing,
        "differing": differing,
        "within_goals": theirs["seconds"] >= GOAL * ours["seconds"] and ours["peak_mb"] < GOAL_MB,
        "written_mb": round(sum(files.values()) / 2**20),
        "their_written_mb": round(sum(their_files.values()) / 2**20),
        "only_ours": sorted(files.keys() - their_files.keys()),
        "cases": cases,
    }


def middle(cases: list[dict[str, Any]], side: str) -> dict[str, float]:
    """The medians of a side's times, and its highest peak."""
    own = [case for case in cases if case["side"] == side]
    medians = {name: median(case[name] for case in own) for name in ("seconds", "cpu_seconds")}
    return {**medians, "peak_mb": max(case["peak_mb"] for case in own)}


def sizes(folder: Path) -> dict[str, int]:
    """The bytes of each file of a folder, by its name."""
    return {path.name: path.stat().st_size for path in folder.iterdir()}


def timed(command: list[str]) -> dict[str, float]:
    """Seconds on the clock, CPU seconds and peak memory of a command.

    What was written before is on the disk first: otherwise the system would write it meanwhile.
    """
    os.sync()
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} exited with {process.returncode}")
    return {
        "seconds": round(seconds, 2),
        "cpu_seconds": round(usage.ru_utime + usage.ru_stime, 2),
        "peak_mb": round(usage.ru_maxrss / 1024),
    }


def differences(ours: Path, theirs: Path) -> list[str]:
    """The columns whose values differ between two folders of tables, and the files of lines."""
    differing = []
    for table in TABLES:
        name = f"{table}.parquet"
        schema = pq.read_schema(ours / name)
        differing += [
            f"{name}: {field.name}"
            for field in schema
            if not same_column(ours / name, theirs / name, field)
        ]
        lines = f"{table}.jsonl"
        if first_rows(ours / lines) != first_rows(theirs / lines):
            differing.append(lines)
    return differing


def same_column(ours: Path, theirs: Path, field: pa.Field[Any]) -> bool:
    first = pq.read_table(ours, columns=[field.name])[field.name].combine_chunks()
    second = pq.read_table(theirs, columns=[field.name])[field.name].combine_chunks()
    if pa.types.is_timestamp(field.type):
        first, second = first.cast(pa.timestamp("us")), second.cast(pa.timestamp("us"))
    return bool(first.equals(second.cast(first.type)))


def first_rows(path: Path) -> tuple[int, list[dict[str, Any]]]:
    """How many lines a file has, and the first ones, with their times as times."""
    with path.open(encoding="utf-8") as file:
        rows = [json.loads(line) for line in islice(file, LINES)]
        n_lines = len(rows) + sum(1 for _ in file)
    for row in rows:
        for name in row:
            if name.endswith("_at") and row[name] is not None:
                row[name] = datetime.fromisoformat(row[name]).replace(tzinfo=None)
    return n_lines, rows
