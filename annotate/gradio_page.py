"""The app in Gradio's server mode: its pages have their own HTML and scripts."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import gradio as gr
from starlette.types import Lifespan


def gradio_server(lifespan: Lifespan[Any]) -> gr.Server:
    """An app in Gradio's server mode.

    It is made while an event loop runs: else Gradio creates one and never closes it.
    """

    async def make() -> gr.Server:
        return gr.Server(lifespan=lifespan, docs_url=None, redoc_url=None, openapi_url=None)

    with ThreadPoolExecutor(max_workers=1) as thread:
        return thread.submit(asyncio.run, make()).result()
