"""The question page as Gradio Blocks with one custom component, and mounting Gradio safely."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from functools import cached_property, partial
from hashlib import sha256
from threading import Lock
from typing import Any

import gradio as gr
from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from gradio import blocks as gradio_blocks
from gradio.block_function import BlockFunction
from gradio.routes import App
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import MutableHeaders
from starlette.routing import Mount
from starlette.types import Message, Receive, Scope, Send

from hsfiq.annotate.cookies import UnknownParticipant
from hsfiq.annotate.pages import FOLDER, render
from hsfiq.annotate.texts import language_for
from hsfiq.collect.protocol import FailedOpening, Opening
from hsfiq.errors import Refused
from hsfiq.study.languages import standard_texts

STATIC = FOLDER / "static"
MODULES = {path.name: path.read_bytes() for path in sorted((STATIC / "page").glob("*.js"))}
VERSION = sha256(b"\0".join(MODULES.values())).hexdigest()[:16]
"""Part of the modules' addresses, so that browsers can keep them until they change."""

CACHED = {"Cache-Control": "public, max-age=31536000, immutable"}

HEAD = render("question_head.html", version=VERSION, modules=MODULES)

LOADER = f"""
import(new URL("../page/{VERSION}/page.js", document.baseURI))
  .then((page) => page.start(element, props, watch))
  .catch((error) => {{
    console.error(error);
    element.querySelector(".loading").innerHTML = '<a href="">↻</a>';
  }});
"""
"""Gradio runs this script when it has built the component. If it fails, no texts are loaded yet."""


def static(name: str) -> str:
    return (STATIC / name).read_text(encoding="utf-8")


def add_page_modules(app: FastAPI, root: str = "") -> None:
    @app.get(f"{root}/page/{{version}}/{{name}}")
    async def page_module(version: str, name: str) -> Response:
        if version != VERSION or name not in MODULES:
            return Response(status_code=404)
        return Response(MODULES[name], media_type="text/javascript", headers=CACHED)


def failed_opening(headers: Mapping[str, str], error: Refused) -> FailedOpening:
    """What the page shows instead of the study; Gradio would hide the message."""
    language = language_for(headers)
    return {
        "error": str(error),
        "participant_unknown": isinstance(error, UnknownParticipant),
        "language": language,
        "texts": standard_texts(language)["page"],
    }


def question_page(opening: Callable[[gr.Request], Opening | FailedOpening]) -> gr.Blocks:
    """A participant's page; `opening` returns its first view when it is loaded.

    There is no gr.State: the participant is in the cookie and their progress in the database.
    """
    # A parameter rather than the environment variable: other code may share the process.
    blocks: gr.Blocks = gr.Blocks(title="Study", analytics_enabled=False)
    with blocks:
        component = gr.HTML(
            value=None,
            html_template=static("question.html"),
            css_template=static("question.css") + static("search.css"),
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


def question_page_style() -> dict[str, Any]:
    """The style around the component, as arguments of `mount_gradio`."""
    paper = "var(--paper)"
    theme = base_theme().set(body_background_fill=paper, body_background_fill_dark=paper)
    return {"theme": theme, "css": static("gradio.css")}


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
    *,
    at_start: bool = False,
) -> None:
    """Mount a Gradio page with everything switched off that the app does not use.

    `username` returns the name of a request's user, None to refuse it. Gradio writes this name into
    the page, where scripts can read it, so it must not identify anybody. `at_start` makes the page
    when the server starts, not at its first request.
    """

    async def make() -> FastAPI:
        parent = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
        with without_own_apps():
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

    def make_in_a_thread() -> FastAPI:
        # If no event loop is running, Gradio's Blocks create one and never close it.
        with ThreadPoolExecutor(max_workers=1) as thread:
            return thread.submit(asyncio.run, make()).result()

    mounted = GradioPage(make_in_a_thread)
    app.mount(path, HeadMiddleware(CheckedEvents(mounted), head))
    app_lifespan = app.router.lifespan_context

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[Any]:
        async with app_lifespan(app) as state, mounted.lifespan(at_start=at_start):
            yield state

    app.router.lifespan_context = lifespan


class GradioPage:
    """A Gradio page as an ASGI app, which is made when it is first needed.

    To make one takes a twentieth of a second, and most servers show few of the app's pages.
    `make_parent` returns an app with nothing but Gradio's, mounted.
    """

    def __init__(self, make_parent: Callable[[], FastAPI]) -> None:
        self._make_parent = make_parent
        self._turn = asyncio.Lock()
        self._started: AsyncExitStack | None = None
        self._is_ready = False

    @asynccontextmanager
    async def lifespan(self, *, at_start: bool) -> AsyncIterator[None]:
        """Within the block, what Gradio runs beside requests is running once the page is made."""
        self._is_ready = False
        async with AsyncExitStack() as self._started:
            if at_start:
                await self._prepare()
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


class NoApp:
    @staticmethod
    def create_app(*_: object, **_options: object) -> None:
        """Make no app."""


MAKING = Lock()


@contextmanager
def without_own_apps() -> Iterator[None]:
    """Within the block, which one thread enters at a time, Gradio's Blocks make no apps.

    Each makes two, with all of Gradio's routes, and mounting makes a third, the only one that is
    served: without this, a page is there half a second later.
    """
    with MAKING:
        vars(gradio_blocks)["App"] = NoApp
        try:
            yield
        finally:
            vars(gradio_blocks)["App"] = App


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
