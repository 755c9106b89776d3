"""Whether an open page rests: a page that asks for frame after frame keeps a processor busy."""

from __future__ import annotations

from playwright.sync_api import Page

NOTE_FRAMES = """
window.lastFrame = performance.now();
const ask = window.requestAnimationFrame;
window.requestAnimationFrame = (draw) => {
  window.lastFrame = performance.now();
  return ask.call(window, draw);
};
"""

IS_AT_REST = "performance.now() - window.lastFrame > 1000"


def note_frames(page: Page) -> None:
    """Note from the next address on when the page asks for a frame."""
    page.add_init_script(f"{{{NOTE_FRAMES}}}")


def wait_until_at_rest(page: Page) -> None:
    """Wait until the page has asked for no frame for a second."""
    page.wait_for_function(IS_AT_REST, polling=100)
