"""A small FashionIQ that the tests of the command share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.model.evaluation.helpers import write_fashioniq


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_fashioniq(tmp_path_factory.mktemp("fashioniq"))
