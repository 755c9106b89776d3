from __future__ import annotations

import pandas as pd
import pytest

from hsfiq import analysis
from hsfiq.analysis.data.release import Release
from hsfiq.analysis.reports.report import Report
from tests.analysis.reports.helpers import quick_bootstrap


@pytest.fixture(scope="package")
def full_report(
    drawn: tuple[Release, pd.Series], tmp_path_factory: pytest.TempPathFactory
) -> Report:
    """A report with all sections, of two metrics, one of them from a scores file."""
    release, utility = drawn
    path = tmp_path_factory.mktemp("scores") / "oracle.jsonl"
    utility.rename("score").rename_axis("set_id").reset_index().to_json(
        path, orient="records", lines=True
    )
    bootstrap = quick_bootstrap(release)
    return analysis.report(release, ["recall@5", "oracle"], [path], bootstrap, margin=0.05)


@pytest.fixture(scope="package")
def files(full_report: Report) -> dict[str, bytes]:
    return full_report.files()
