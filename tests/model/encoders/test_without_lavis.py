"""The message for BLIP-2 if LAVIS is not installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from hsfiq.errors import HsfiqError
from hsfiq.model.encoders.blip2_weights import ARCHITECTURES, urls
from hsfiq.model.encoders.lavis import load


def test_a_missing_package_is_reported_in_one_line(tmp_path: Path) -> None:
    for file in urls(ARCHITECTURES["blip2-vitL"]):
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).touch()
    with pytest.raises(
        HsfiqError, match=r"\(lavis is not installed\).*'hsfiq\[lavis\]'.*3\.11"
    ) as e:
        load("blip2-vitL", tmp_path)
    assert "\n" not in str(e.value)
