"""The question page: Gradio Blocks with one custom component, and the component's modules."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import gradio as gr
from fastapi import FastAPI, Response

from hsfiq.collect.protocol import FailedOpening, Opening

STATIC = Path(__file__).parent / "static"
MODULES = {path.name: path.read_bytes() for path in sorted((STATIC / "page").glob("*.js"))}
VERSION = sha256(b"\0".join(MODULES.values())).hexdigest()[:16]
"""Part of the modules' addresses, so that browsers can keep them until they change."""

CACHED = {"Cache-Control": "public, max-age=31536000, immutable"}

PRELOADS = "".join(
    f'<link rel="modulepreload" href="../page/{VERSION}/{name}">' for name in MODULES
)
"""All modules at once, instead of one import after the other."""

LOADER = f"""
import(new URL("../page/{VERSION}/page.js", document.baseURI))
  .then((page) => page.start(element, props, watch))
  .catch((error) => {{
    console.error(error);
    element.querySelector(".loading").innerHTML = '<a href="">↻</a>';
  }});
"""
"""What Gradio runs once it has built the component. If it fails, the page has no texts yet."""

PAPER, PAPER_DARK = "#f6f5f2", "#171716"


def static(name: str) -> str:
    """One of the page's own files."""
    return (STATIC / name).read_text(encoding="utf-8")


def add_page_modules(app: FastAPI) -> None:
    """Add the route that serves the component's JavaScript modules."""

    @app.get("/page/{version}/{name}")
    async def page_module(version: str, name: str) -> Response:
        if version != VERSION or name not in MODULES:
            return Response(status_code=404)
        return Response(MODULES[name], media_type="text/javascript", headers=CACHED)


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
            js_on_load=LOADER,
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
    return {"theme": theme, "css": static("gradio.css"), "head": PRELOADS}
