"""What axe-core finds wrong on a page: in each window and colour scheme."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from importlib.resources import files
from typing import Any

from playwright.sync_api import Page

WIDE, NARROW = {"width": 1280, "height": 720}, {"width": 390, "height": 844}
LOOKS = [(WIDE, "light"), (NARROW, "dark"), (WIDE, "dark")]
"""Each window once with every rule, and the wide one in the other scheme for its contrast."""

EXPERIMENTAL = {"label-content-name-mismatch": {"enabled": True}}
"""A rule of WCAG that axe does not run by itself: the name of a link contains its visible text."""


@cache
def script() -> str:
    return (files("axe_playwright_python") / "axe.min.js").read_text("utf-8")


NEXT_FRAME = "new Promise((go) => requestAnimationFrame(() => requestAnimationFrame(() => go(1))))"
"""Waits until the page has been laid out, and what observes its sizes has run."""


VIOLATIONS = "async (options) => (await axe.run(document, options)).violations"


def faults(
    page: Page, looks: Iterable[tuple[dict[str, int], str]] = LOOKS, forced: str = "none"
) -> Iterator[str]:
    """The violations in each window and colour scheme; the scheme changes only the contrast.

    With `forced`, "active", the colours are those of a contrast theme, and only the contrast is
    checked: a contrast theme changes nothing else.
    """
    if not page.evaluate("typeof axe === 'object'"):
        page.evaluate(script())
    widths = set()
    for size, scheme in looks:
        page.set_viewport_size(size)  # type: ignore[arg-type]
        page.emulate_media(
            color_scheme=scheme,  # type: ignore[arg-type]
            reduced_motion="reduce",
            forced_colors=forced,  # type: ignore[arg-type]
        )
        page.evaluate(NEXT_FRAME)
        options: dict[str, Any] = {"resultTypes": ["violations"], "rules": EXPERIMENTAL}
        if size["width"] in widths or forced == "active":
            options["runOnly"] = {"type": "rule", "values": ["color-contrast"]}
        widths.add(size["width"])
        for violation in page.evaluate(VIOLATIONS, options):
            for node in violation["nodes"]:
                html = node["html"][:160]
                yield f"{scheme} {size['width']}: {violation['id']}: {html}"
    page.set_viewport_size(WIDE)  # type: ignore[arg-type]
