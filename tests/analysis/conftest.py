from __future__ import annotations

import pandas as pd
import pytest

from hsfiq.analysis.data.release import Release
from tests.analysis.drawn_releases import draw_release


@pytest.fixture(scope="session")
def drawn() -> tuple[Release, pd.Series]:
    """30 simulated annotators x 40 questions, each question judged once."""
    return draw_release(30, 40, seed=5)


@pytest.fixture(scope="session")
def overlapping() -> tuple[Release, pd.Series]:
    """24 simulated annotators x 30 questions, each question answered by three of them."""
    return draw_release(24, 30, seed=6, overlap=3)
