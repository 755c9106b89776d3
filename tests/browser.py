"""Contexts of a real browser whose actions wait as long as a machine under load needs."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import Browser, BrowserContext

TIMEOUT_MS = 180_000
"""How long an action or an expectation may take. Only a test that fails waits for so long."""


def new_context_of(browser: Browser, **options: Any) -> BrowserContext:
    """A new context, with cookies of its own, whose pages wait for so long."""
    context = browser.new_context(**options)
    context.set_default_timeout(TIMEOUT_MS)
    return context
