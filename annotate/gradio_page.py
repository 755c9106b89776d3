"""The question page: Gradio Blocks that hold one custom component of our own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import gradio as gr

from hsfiq.collect.protocol import FailedOpening, Opening

STATIC = Path(__file__).parent / "static"
SCRIPTS = ("text.js", "show.js", "stages.js", "answer.js", "send.js", "dialogs.js", "keys.js")
"""In this order they make up the body of one function, and share its names."""

PAPER, PAPER_DARK = "#f6f5f2", "#171716"


def static(name: str) -> str:
    """One of the page's own files."""
    return (STATIC / name).read_text(encoding="utf-8")


def question_page(opening: Callable[[gr.Request], Opening | FailedOpening]) -> gr.Blocks:
    """The page of a participant; `opening` gives it its first view when it is loaded.

    No gr.State: who asks is in the cookie and where they stand is in the database.
    """
    # The parameter, not the environment variable: the process may not be ours alone.
    blocks: gr.Blocks = gr.Blocks(title="Study", analytics_enabled=False)
    with blocks:
        component = gr.HTML(
            value=None,
            html_template=static("question.html"),
            css_template=static("question.css"),
            js_on_load="\n".join(static(name) for name in SCRIPTS),
            apply_default_css=False,
        )
        blocks.load(
            opening,
            outputs=component,
            queue=False,
            show_progress="hidden",
            api_visibility="private",
        )
    return blocks


def look() -> dict[str, Any]:
    """How the page around the component looks: system fonts, nothing fetched from elsewhere."""
    fonts = ["system-ui", "sans-serif"]
    theme = gr.themes.Base(font=fonts, font_mono=["ui-monospace", "monospace"]).set(
        body_background_fill=PAPER, body_background_fill_dark=PAPER_DARK
    )
    return {"theme": theme, "css": static("gradio.css")}
