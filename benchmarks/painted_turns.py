"""A person in a real Chromium who searches, and how long until each list is painted."""

from __future__ import annotations

import shutil
import time
from contextlib import closing
from random import Random

from playwright.sync_api import Page, sync_playwright

from benchmarks.searching import ROUNDS

BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser")
TIMEOUT_MS = 60_000

WATCH = """number => {
  window.listPainted = new Promise((resolve, reject) => {
    addEventListener("keydown", () => {
      const begun = performance.now();
      setTimeout(() => reject(new Error("the list is not painted")), 60_000);
      const look = async () => {
        const list = document.querySelector(".search-lists");
        if (list?.dataset.painted !== String(number)) return requestAnimationFrame(look);
        await Promise.all([...list.querySelectorAll("img")].map(image => image.decode()));
        // The callback of the next frame runs once this frame is painted.
        requestAnimationFrame(() => requestAnimationFrame(
          () => resolve(performance.now() - begun)));
      };
      look();
    }, { capture: true, once: true });
  });
}"""
"""Measure from the next key until all images of this list are decoded and painted."""


def installed_chromium() -> str | None:
    """The system's Chromium; None for Playwright's own."""
    return next(filter(None, map(shutil.which, BROWSERS)), None)


def in_chromium(port: int, token: str, n_turns: int, pause: float, seed: int) -> list[float]:
    """`painted_turns` in a browser of its own."""
    with (
        sync_playwright() as playwright,
        closing(playwright.chromium.launch(executable_path=installed_chromium())) as chromium,
    ):
        page = chromium.new_page()
        page.set_default_timeout(TIMEOUT_MS)
        page.goto(f"http://127.0.0.1:{port}/start/{token}")
        return painted_turns(page, n_turns, ROUNDS, pause, Random(seed))


def painted_turns(page: Page, n_turns: int, rounds: int, pause: float, rng: Random) -> list[float]:
    """The seconds from the key that sends each text until its list is painted.

    The person thinks for `pause` seconds before each text, on average; a search has so many rounds.
    """
    page.locator(".agree").click()
    page.locator(".guidelines .close").click()
    seconds, number = [], 1
    for _ in range(n_turns):
        if number == rounds:
            judge(page, rng)
            end_search(page)
            number = 1
        seconds.append(next_turn(page, rng, number, pause))
        number += 1
    return seconds


def next_turn(page: Page, rng: Random, number: int, pause: float) -> float:
    """Judge the list of this number, write a text, and wait for the next list."""
    page.locator(f'.search-lists[data-painted="{number}"]').wait_for()
    judge(page, rng)
    time.sleep(rng.uniform(0, 2 * pause))
    page.keyboard.press("t")
    page.keyboard.type(f"is {rng.choice(['red', 'blue', 'long'])} {rng.randrange(1000)}")
    page.evaluate(WATCH, number + 1)
    page.keyboard.press("Enter")
    return float(page.evaluate("window.listPainted")) / 1000


def judge(page: Page, rng: Random) -> None:
    page.keyboard.press(str(rng.randint(1, 5)))
    page.keyboard.press("Shift+Digit1")


def end_search(page: Page) -> None:
    """Take the marked image, and answer the questions that follow."""
    page.keyboard.press("i")
    page.keyboard.press("i")  # the first press asks for the second
    page.locator('.page[data-search="end"]').wait_for()
    for name in ("search_success", "search_ease", "search_go_on"):
        page.locator(f'input[name="{name}"]').first.focus()
        page.keyboard.press("Space")
    page.locator(".search-next").focus()
    page.keyboard.press("Enter")
    page.locator('.page[data-search="end"]').wait_for(state="detached")
