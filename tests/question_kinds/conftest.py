"""One served catalogue for the tests of all kinds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, ViewportSize

from tests.browser import new_context_of
from tests.drawn_retriever import DrawnRetriever
from tests.question_kinds.drawn_catalogue import Catalogue
from tests.question_kinds.search_pages import Listener, image_names

PHONE: ViewportSize = {"width": 390, "height": 844}


@pytest.fixture(scope="session")
def catalogue(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Catalogue]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hsfiq.demo.study.GARMENTS_PER_CATEGORY", 16)
        made = Catalogue.made(tmp_path_factory.mktemp("catalogue"))
    yield made
    made.server.stop()


@pytest.fixture
def phone(chromium: Browser) -> Iterator[BrowserContext]:
    with new_context_of(chromium, viewport=PHONE, has_touch=True) as context:
        yield context


@pytest.fixture(scope="module")
def retriever(catalogue: Catalogue) -> Iterator[DrawnRetriever]:
    made = DrawnRetriever(image_names(catalogue), accepts_images=True)
    yield made
    made.stop()


@pytest.fixture(scope="module")
def rivals(catalogue: Catalogue) -> Iterator[list[Listener]]:
    """Two retrievers, the second of which is less exact."""
    names = image_names(catalogue)
    made = [Listener(names, noise=noise, accepts_images=True) for noise in (0.0, 0.5)]
    yield made
    for each in made:
        each.stop()
