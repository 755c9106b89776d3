"""Mounting a page of Gradio with everything switched off that the app does not use."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from functools import cached_property, partial
from typing import Any, TypeVar

import gradio as gr
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from gradio import blocks as gradio_blocks
from gradio.block_function import BlockFunction
from gradio.routes import App
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import MutableHeaders
from starlette.middleware.gzip import GZipMiddleware
from starlette.routing import Mount
from starlette.types import Lifespan, Message, Receive, Scope, Send

T = TypeVar("T")


def in_event_loop(make: Callable[[], T]) -> T:
    """What `make` returns while an event loop runs: else Gradio creates one and never closes it."""

    async def run() -> T:
        return make()

    with ThreadPoolExecutor(max_workers=1) as thread:
        return thread.submit(asyncio.run, run()).result()


def gradio_server(lifespan: Lifespan[Any]) -> gr.Server:
    """An app in Gradio's server mode: its pages have their own HTML and scripts."""
    return in_event_loop(
        lambda: gr.Server(lifespan=lifespan, docs_url=None, redoc_url=None, openapi_url=None)
    )


def base_theme() -> gr.themes.Base:
    """System fonts; nothing is loaded from other sites."""
    return gr.themes.Base(font=["system-ui", "sans-serif"], font_mono=["ui-monospace", "monospace"])


def mount_gradio(
    app: FastAPI,
    page: Callable[[], gr.Blocks],
    path: str,
    username: Callable[[Request], str | None],
    style: dict[str, Any],
    head: str,
) -> None:
    """Mount a Gradio page with everything switched off that the app does not use.

    `username` returns the name of a request's user, None to refuse it. Gradio writes this name into
    the page, where scripts can read it, so it must not identify anybody.
    """

    def make() -> FastAPI:
        parent = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
        blocks = page()
        blocks.extra_startup_events.append(partial(stop_queue, blocks))
        gr.mount_gradio_app(
            parent,
            blocks,
            path=path,
            auth_dependency=username,
            run_history=False,
            footer_links=[],
            allowed_paths=[],
            max_file_size="1kb",
            show_error=False,
            ssr_mode=False,
            enable_monitoring=False,
            mcp_server=False,
            pwa=False,
            **style,
        )
        return parent

    mounted = GradioPage(partial(in_event_loop, make))
    app.mount(path, GZipMiddleware(HeadMiddleware(CheckedEvents(mounted), head)))
    app_lifespan = app.router.lifespan_context

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[Any]:
        async with app_lifespan(app) as state, mounted.lifespan():
            yield state

    app.router.lifespan_context = lifespan


class GradioPage:
    """A Gradio page as an ASGI app, which is made when it is first needed.

    Making one takes a while, which delays no start of the server. `make_parent` returns an app with
    nothing but Gradio's, mounted.
    """

    def __init__(self, make_parent: Callable[[], FastAPI]) -> None:
        self._make_parent = make_parent
        self._turn = asyncio.Lock()
        self._started: AsyncExitStack | None = None
        self._is_ready = False

    @asynccontextmanager
    async def lifespan(self) -> AsyncIterator[None]:
        """Within the block, what Gradio runs beside requests is running once the page is made."""
        self._is_ready = False
        async with AsyncExitStack() as self._started:
            yield
        self._is_ready, self._started = False, None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._ready()
        await self.app(scope, receive, send)

    async def events(self) -> Mapping[int, BlockFunction]:
        """The events of the page, by the number with which browsers send them."""
        await self._ready()
        return self.app.get_blocks().fns

    async def _ready(self) -> None:
        if not self._is_ready:
            async with self._turn:
                await self._prepare()

    async def _prepare(self) -> None:
        if self._is_ready:
            return
        parent = await run_in_threadpool(lambda: self._parent)
        if self._started is not None:
            await self._started.enter_async_context(parent.router.lifespan_context(parent))
        self._is_ready = True

    @property
    def app(self) -> App:
        """The app that Gradio has made."""
        apps = (route.app for route in self._parent.routes if isinstance(route, Mount))
        (app,) = (app for app in apps if isinstance(app, App))
        return app

    @cached_property
    def _parent(self) -> FastAPI:
        return self._make_parent()


async def stop_queue(blocks: gr.Blocks) -> None:
    """End the tasks of Gradio's queue, which holds nothing: no event of our pages is queued.

    They look for events a thousand times a second, which slows down everything else.
    """
    blocks._queue.close()  # type: ignore[no-untyped-call]  # noqa: SLF001 (there is no option)


class CheckedEvents:
    """Refuses events that no page of ours sends, for which Gradio would log a traceback."""

    def __init__(self, page: GradioPage) -> None:
        self.page = page

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            await self.page(scope, receive, send)
            return
        body = await Request(scope, receive).body()
        events = await self.page.events()
        if not is_event(body, events):
            await JSONResponse({"error": "this event is not valid"}, 422)(scope, receive, send)
            return
        is_sent = False

        async def receive_again() -> Message:
            nonlocal is_sent
            if is_sent:
                return await receive()
            is_sent = True
            return {"type": "http.request", "body": body, "more_body": False}

        await self.page(scope, receive_again, send)


def is_event(body: bytes, events: Mapping[int, BlockFunction]) -> bool:
    """Whether a body is an event of the page, with as many values as its inputs."""
    try:
        sent = json.loads(body)
        json.dumps(sent, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, RecursionError):  # also half of a character's pair
        return False
    if not isinstance(sent, dict) or type(sent.get("fn_index")) is not int:
        return False
    event, data = events.get(sent["fn_index"]), sent.get("data")
    if event is None or not isinstance(data, list) or len(data) != len(event.inputs):
        return False
    if not all(map(is_accepted, event.inputs, data)):
        return False
    needs_details = any(trigger == "select" for _, trigger in event.targets)
    return not needs_details or isinstance(sent.get("event_data"), dict)


def is_accepted(component: gradio_blocks.Block, value: object) -> bool:
    """Whether Gradio can hand a component's value to its handler: it rounds what a number has."""
    return not isinstance(component, gr.Number) or isinstance(value, float | int | None)


class HeadMiddleware:
    """Writes the head of a Gradio page into its HTML.

    Gradio itself adds what it is given as `head` only when its scripts have loaded: too late for
    colours, for a sign of loading, and for fetching our scripts at the same time.
    """

    def __init__(self, app: CheckedEvents, head: str) -> None:
        self.app, self._head = app, head.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "GET" or not self._is_page(scope):
            await self.app(scope, receive, send)
            return
        start: Message = {}
        body = bytearray()

        async def send_with_head(message: Message) -> None:
            if message["type"] == "http.response.start":
                start.update(message)
            elif message["type"] != "http.response.body":
                await send(message)
            else:
                await send_body(message)

        async def send_body(message: Message) -> None:
            body.extend(message.get("body", b""))
            if message.get("more_body", False):
                return
            headers = MutableHeaders(scope=start)
            content = bytes(body)
            if headers.get("content-type", "").startswith("text/html"):
                content = content.replace(b"</head>", self._head + b"</head>", 1)
                headers["content-length"] = str(len(content))
            await send(start)
            await send({"type": "http.response.body", "body": content})

        await self.app(scope, receive, send_with_head)

    @staticmethod
    def _is_page(scope: Scope) -> bool:
        path: str = scope["path"]
        return path.removeprefix(scope.get("root_path", "")) == "/"
