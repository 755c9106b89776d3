"""One served catalogue for the tests of all kinds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.question_kinds.drawn_catalogue import Catalogue


@pytest.fixture(scope="session")
def catalogue(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Catalogue]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hsfiq.demo.study.GARMENTS_PER_CATEGORY", 16)
        made = Catalogue.made(tmp_path_factory.mktemp("catalogue"))
    yield made
    made.server.stop()
