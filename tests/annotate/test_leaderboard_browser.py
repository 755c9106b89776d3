"""The leaderboard in Chromium: accessible, and as wide as a phone."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser

from hsfiq.db.engine import open_database
from tests.annotate.arenas_with_votes import app_of, arena_with_votes, change
from tests.annotate.axe import faults
from tests.browser import new_context_of
from tests.live_servers import serving

pytestmark = pytest.mark.browser


def test_it_is_accessible_and_fits_a_phone(tmp_path: Path, chromium: Browser) -> None:
    database = open_database(f"sqlite:///{tmp_path / 'hsfiq.db'}")
    change(database, arena_with_votes(database), "public", ("en", "ko"))
    context = new_context_of(chromium)
    page = context.new_page()
    errors: list[str] = []
    page.on("console", lambda message: errors.append(message.text))
    with serving(app_of(database)) as url:
        page.goto(f"{url}/leaderboard/arena")
        assert list(faults(page)) == []
        page.set_viewport_size({"width": 390, "height": 844})
        for language in ("en", "ko"):
            page.goto(f"{url}/leaderboard/arena?language={language}")
            assert page.evaluate("document.documentElement.scrollWidth") == 390
            for name in ("alpha <b>", "beta", "gamma"):
                cell = page.get_by_role("rowheader", name=name).first
                assert cell.bounding_box()["x"] < 390  # type: ignore[index]
    assert errors == []
    context.close()
    database.close()
