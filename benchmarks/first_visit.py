"""Time until a first visitor on a slow line reads the consent page, compared with a page of Gradio.

Both are opened in a new browser at 90 kB/s and 300 ms for each request, as Chromium slows them
down. The other side is the least that a page of Gradio can be: one component with the same text.
"""

from __future__ import annotations

import tempfile
import time
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import Any

import gradio as gr
from playwright.sync_api import Browser, sync_playwright

from benchmarks.browsing import free_port
from benchmarks.painted_turns import TIMEOUT_MS, installed_chromium
from benchmarks.serving import Place, Server, make_study

BYTES_PER_SECOND = 90_000
LATENCY_MS = 300
SHOWN = '.page[data-step="consent"] .agree'
VISITS, FULL_VISITS = 3, 9

Visit = tuple[float, int, float]
"""Seconds, requests and kilobytes of a visit."""


def run(seed: int, full: bool) -> dict[str, Any]:
    n_visits = FULL_VISITS if full else VISITS
    with (
        tempfile.TemporaryDirectory() as name,
        sync_playwright() as playwright,
        closing(playwright.chromium.launch(executable_path=installed_chromium())) as chromium,
    ):
        place = Place(Path(name))
        tokens = make_study(place, n_visits + 1, 6, seed)
        server = Server(place, free_port())
        server.start()
        try:
            address = f"http://127.0.0.1:{server.port}/start/"
            text = consent_text(chromium, address + tokens.pop())
            ours = [visit(chromium, address + token, SHOWN) for token in tokens]
        finally:
            server.kill()
        with gr.Blocks(analytics_enabled=False) as page:
            gr.HTML(f"<div class='consent'>{text}</div>")
        _, address, _ = page.launch(prevent_thread_lock=True, quiet=True, ssr_mode=False)
        try:
            theirs = [visit(chromium, address, "div.consent") for _ in tokens]
        finally:
            page.close()
    own, other = (median(seconds for seconds, _, _ in visits) for visits in (ours, theirs))
    return {
        "name": "first-visit",
        "ratio": round(other / own, 2),
        "ours": round(own, 2),
        "theirs": round(other, 2),
        "unit": "s until the consent text is shown, median of the visits",
        "cases": [
            {"side": side, "seconds": [round(each[0], 2) for each in visits],
             "requests": visits[0][1], "kB": visits[0][2]}
            for side, visits in (("ours", ours), ("theirs", theirs))
        ],
    }  # fmt: skip


def consent_text(chromium: Browser, address: str) -> str:
    """The consent page's text as HTML."""
    with closing(chromium.new_page()) as page:
        page.goto(address)
        page.locator(SHOWN).wait_for()
        return page.locator(".consent").inner_html()


def visit(chromium: Browser, address: str, awaited: str) -> Visit:
    """Visit an address with an empty cache until an element is visible."""
    sizes: list[float] = []
    with closing(chromium.new_context()) as context:
        page = context.new_page()
        tools = context.new_cdp_session(page)
        tools.send("Network.enable")
        tools.on("Network.loadingFinished", lambda event: sizes.append(event["encodedDataLength"]))
        speed = {"downloadThroughput": BYTES_PER_SECOND, "uploadThroughput": BYTES_PER_SECOND}
        conditions = {"offline": False, "latency": LATENCY_MS, **speed}
        tools.send("Network.emulateNetworkConditions", conditions)
        begun = time.perf_counter()
        page.goto(address, wait_until="commit")
        page.locator(awaited).first.wait_for(timeout=TIMEOUT_MS)
        seconds = time.perf_counter() - begun
    return seconds, len(sizes), round(sum(sizes) / 1000)
