"""Putting the owner's part into the app: door, export, board."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import gradio as gr
from fastapi import FastAPI, Request

from hsfiq.annotate.owner.dashboard import Board
from hsfiq.annotate.owner.export import add_export
from hsfiq.annotate.owner.identity import is_owner
from hsfiq.annotate.owner.login import BOARD, add_door, password_in
from hsfiq.annotate.owner.page import board_page, look
from hsfiq.annotate.signing import Signer
from hsfiq.db.engine import Database


def add_owner(app: FastAPI, database: Database, signer: Signer) -> None:
    """Add everything under /owner, behind its wall."""
    add_door(app, database, signer)
    add_export(app, database, signer)
    mount_board(app, database, signer)


def mount_board(app: FastAPI, database: Database, signer: Signer) -> None:
    """Mount Gradio with everything shut off that the board does not use."""

    def identity(request: Request) -> str | None:
        # Gradio writes this name into the page.
        return "owner" if is_owner(request.cookies, signer, password_in(database)) else None

    async def mount() -> None:
        gr.mount_gradio_app(
            app,
            board_page(Board(database, signer)),
            path=BOARD,
            auth_dependency=identity,
            run_history=False,
            footer_links=[],
            allowed_paths=[],
            max_file_size="1kb",
            show_error=False,
            ssr_mode=False,
            enable_monitoring=False,
            mcp_server=False,
            pwa=False,
            **look(),
        )

    # Where no event loop runs, Gradio makes one, leaves it to this thread and never closes it.
    with ThreadPoolExecutor(max_workers=1) as apart:
        apart.submit(asyncio.run, mount()).result()
