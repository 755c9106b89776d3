"""The benchmark `export-million` on a small study: both sides write the same tables."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from benchmarks import export_pandas, million_answers
from benchmarks.export_million import differences
from hsfiq import cli


def test_both_sides_write_the_same_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(million_answers, "QUERIES", 40)
    monkeypatch.setattr(million_answers, "IMAGES", 100)
    url = million_answers.make_database(tmp_path / "study.db", 500, seed=0)
    ours, theirs = tmp_path / "hsfiq", tmp_path / "pandas"
    theirs.mkdir()
    assert cli.run(["export", "--database", url, "--release", "hs", "--out", str(ours)]) == 0
    export_pandas.main(str(tmp_path / "study.db"), theirs)
    assert differences(ours, theirs) == []
    n_rows = {
        name: pq.read_metadata(ours / f"{name}.parquet").num_rows for name in ("sets", "exclusions")
    }
    assert n_rows["sets"] + 2 * n_rows["exclusions"] == 1000
    assert n_rows["exclusions"] > 0
