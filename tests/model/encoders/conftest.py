"""BLIP-2's small reference, converted for transformers."""

from __future__ import annotations

from pathlib import Path

import pytest

from hsfiq.model.encoders.hf import Blip2Hf, load
from hsfiq.model.encoders.hf_conversion import lavis_to_hf
from tests.model.encoders.lavis_reference import SMALL, Reference, read_reference, write_reference


@pytest.fixture(scope="session")
def reference() -> Reference:
    return read_reference()


@pytest.fixture(scope="session")
def converted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the small model, in transformers' layout."""
    folder = tmp_path_factory.mktemp("weights")
    lavis_to_hf(SMALL, write_reference(folder / "lavis"), folder / "hf")
    return folder / "hf"


@pytest.fixture
def folder(converted: Path, tmp_path: Path) -> Path:
    """A copy of that folder for one test."""
    copy = tmp_path / "own"
    copy.mkdir()
    for path in converted.iterdir():
        (copy / path.name).write_bytes(path.read_bytes())
    return copy


@pytest.fixture
def encoder(converted: Path) -> Blip2Hf:
    return load(converted).eval()


@pytest.fixture
def texts(reference: Reference) -> list[str]:
    reference_texts: list[str] = reference.about["texts"]
    return reference_texts
