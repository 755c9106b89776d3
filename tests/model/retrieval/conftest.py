"""The batch that the systems' tests share."""

from __future__ import annotations

import pytest

from hsfiq.model.retrieval.system import Batch
from tests.model.retrieval.small_systems import BATCH


@pytest.fixture
def batch() -> Batch:
    return BATCH
