"""Asking a live retriever over HTTP."""

from __future__ import annotations

import ssl
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import cache, partial
from types import TracebackType
from typing import Self, TypeVar

import anyio
import httpx
from anyio.from_thread import start_blocking_portal
from pydantic import BaseModel, ValidationError

from hsfiq.errors import UnreadableInput
from hsfiq.live import protocol

# The certificates that HTTPS servers are checked with.


@cache
def certificates() -> ssl.SSLContext:
    """Httpx's usual ones, read once: each client would take 20 ms for them."""
    return httpx.create_ssl_context(trust_env=False)


R = TypeVar("R", bound=BaseModel)

CONNECT_TIMEOUT = 2.0
"""Seconds to wait for a connection."""

TIMEOUT = 10.0
"""The timeout of a complete answer, in seconds."""

CORPUS_TIMEOUT = 60.0
"""The same for the corpus, which is large."""

AT_ONCE = 64
"""Requests of a client that are sent at the same time; others wait for these, within their time."""

ATTEMPTS = 2
"""A request is repeated once if its connection fails, as a kept one does when a server restarts.

Every request is safe to repeat, since servers keep nothing. One that timed out is not repeated:
the participant or simulator who waits should see the failure at once.
"""


@dataclass(frozen=True, slots=True)
class Answered:
    """A retriever's reply, and how long it took."""

    reply: protocol.RankReply
    seconds: float


class LiveRetriever:
    """A `Ranker` over HTTP. Threads may share it.

    Requests run in an event loop of its own, because only there can a deadline end every kind of
    waiting. No cookie is kept, and no redirection followed.
    """

    def __init__(self, url: str, token: str | None = None, timeout: float = TIMEOUT) -> None:
        """Prepare requests to a server; nothing is sent yet.

        Raises:
            UnreadableInput: an address that is not http or https.
        """
        self.url = checked_url(url)
        self.has_token = bool(token)
        self._timeout = timeout
        self._max_batch: int | None = None
        self._headers = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
        if token:
            self._headers["Authorization"] = f"Bearer {token}"
        self._http = httpx.AsyncHTTPTransport(
            # Requests wait for `_slots`, not in httpcore, which loses the place of one that is
            # cancelled there.
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=AT_ONCE),
            trust_env=False,  # a proxy of the environment would get the token and the texts
            verify=certificates(),
        )
        self._slots = anyio.Semaphore(AT_ONCE)
        self._stack = ExitStack()
        self._loop = self._stack.enter_context(start_blocking_portal(name="retriever"))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the connections, and what is still awaited."""
        with suppress(RuntimeError):  # it has been closed before
            self._loop.call(self._close)
        self._stack.close()

    async def _close(self) -> None:
        await self._loop.stop(cancel_remaining=True)
        with anyio.CancelScope(shield=True):
            await self._http.aclose()

    def system(self) -> protocol.SystemDescription:
        description = self._loop.call(self._ask, protocol.SystemDescription, "GET", "/v1/system")
        self._max_batch = description.max_batch
        return description

    def corpus(self) -> tuple[str, ...]:
        timeout = max(self._timeout, CORPUS_TIMEOUT)
        ask = partial(self._ask, largest=protocol.LARGEST_CORPUS, timeout=timeout)
        reply: protocol.CorpusReply = self._loop.call(
            ask, protocol.CorpusReply, "GET", "/v1/corpus"
        )
        return reply.image_ids

    def rank(
        self, searches: Sequence[protocol.Search], history: protocol.History, k: int
    ) -> list[protocol.RankedList]:
        """As `Ranker.rank`; more searches than a request may hold are sent in several."""
        lists: list[protocol.RankedList] = []
        for batch in batches(searches, self._batch_size(len(searches))):
            lists += self.rank_once(
                protocol.RankRequest(searches=batch, history=history, k=k)
            ).lists
        return lists

    def rank_once(self, request: protocol.RankRequest) -> protocol.RankReply:
        """One request; the reply includes the server's self-description."""
        return self.ranking(request).result().reply

    def ranking(self, request: protocol.RankRequest) -> Future[Answered]:
        """One request, which is under way when this returns."""
        return self._loop.start_task_soon(self._rank, request)

    async def _rank(self, request: protocol.RankRequest) -> Answered:
        begun = time.monotonic()
        ask = partial(self._ask, largest=largest_reply(request))
        reply = await ask(protocol.RankReply, "POST", "/v1/rank", request)
        for problem in contradictions(request, reply):
            raise self._broken("/v1/rank", problem)
        return Answered(reply, round(time.monotonic() - begun, 4))

    def compose(self, queries: Sequence[protocol.ComposedQuery]) -> list[tuple[float, ...]] | None:
        """The query vectors; None if the server does not give any."""
        size = self._batch_size(len(queries))
        vectors: list[tuple[float, ...]] = []
        for start in range(0, len(queries), size):
            request = protocol.ComposeRequest(queries=tuple(queries[start : start + size]))
            largest = protocol.SMALLEST_LIMIT + protocol.BYTES_OF_VECTOR * len(request.queries)
            ask = partial(self._ask, largest=largest)
            try:
                reply = self._loop.call(ask, protocol.ComposeReply, "POST", "/v1/compose", request)
            except protocol.RetrieverRefused as error:
                if error.status == httpx.codes.NOT_FOUND:
                    return None
                raise
            if len(reply.vectors) != len(request.queries):
                raise self._broken("/v1/compose", "another number of vectors than of queries")
            vectors += reply.vectors
        return vectors

    def _batch_size(self, wanted: int) -> int:
        """How many searches one request may hold; the server is asked only if it matters."""
        if wanted <= 1:
            return 1
        if self._max_batch is None:
            self.system()
        return self._max_batch or 1

    async def _ask(
        self,
        reply: type[R],
        method: str,
        path: str,
        body: BaseModel | None = None,
        *,
        largest: int = protocol.SMALLEST_LIMIT,
        timeout: float | None = None,
    ) -> R:
        content = body.model_dump_json() if body else None
        response = await self._send(method, path, content, {}, largest, timeout or self._timeout)
        if not response.is_success:
            raise self._error_of(path, response)
        try:
            return reply.model_validate_json(response.content)
        except ValidationError as error:
            raise self._broken(path, ": ".join(protocol.first_error(error))) from error

    def request(
        self,
        method: str,
        path: str,
        content: str | bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        """Send any request whose answer may have as many bytes as an error."""
        arguments = (method, path, content, headers or {}, protocol.SMALLEST_LIMIT, self._timeout)
        return self._loop.call(self._send, *arguments)

    async def _send(
        self,
        method: str,
        path: str,
        content: str | bytes | None,
        headers: Mapping[str, str],
        largest: int,
        timeout: float,
    ) -> httpx.Response:
        """The whole answer; the request is repeated once if its connection fails."""
        request = httpx.Request(
            method,
            f"{self.url}{path}",
            content=content,
            headers=self._headers | dict(headers),
            extensions={"timeout": {"connect": CONNECT_TIMEOUT}},
        )
        try:
            with anyio.fail_after(timeout):
                async with self._slots:
                    for _ in range(1, ATTEMPTS):
                        with suppress(httpx.NetworkError, httpx.RemoteProtocolError):
                            return await self._answer(request, path, largest)
                    return await self._answer(request, path, largest)
        except (TimeoutError, httpx.TimeoutException) as error:
            raise protocol.RetrieverFaulty(
                self.url, "did not answer in time", "is the server overloaded?"
            ) from error
        except httpx.TransportError as error:
            raise protocol.RetrieverUnavailable(
                self.url, f"cannot be reached ({error})", "is the server running?"
            ) from error

    async def _answer(self, request: httpx.Request, path: str, largest: int) -> httpx.Response:
        """Send a request, and read its answer until it exceeds so many bytes."""
        response = await self._http.handle_async_request(request)
        try:
            encoding = response.headers.get("Content-Encoding", "identity")
            if encoding.strip().lower() != "identity":
                raise self._broken(path, "it is compressed, which was not requested")
            too_large = self._broken(path, f"it has more than {largest:,} bytes")
            if int(response.headers.get("Content-Length", 0)) > largest:
                raise too_large
            content = bytearray()
            async for part in response.aiter_raw():
                content += part
                if len(content) > largest:
                    raise too_large
        finally:
            await response.aclose()
        return httpx.Response(
            response.status_code, headers=response.headers, content=bytes(content)
        )

    def _error_of(
        self, path: str, response: httpx.Response
    ) -> protocol.RetrieverUnavailable | protocol.RetrieverRefused:
        """The exception for an answer that is not a success."""
        where, what, remedy = path, f"answered {response.status_code}", ""
        with suppress(ValidationError):
            problem = protocol.ErrorReply.model_validate_json(response.content).error
            where = f"{path}: {problem.where}" if problem.where else path
            what, remedy = f"{problem.what} ({response.status_code})", problem.remedy
        where = f"{self.url}{where}"
        if response.is_client_error:
            return protocol.RetrieverRefused(where, what, remedy, status=response.status_code)
        return protocol.RetrieverUnavailable(where, what, remedy, retry_after=retry_after(response))

    def _broken(self, path: str, what: str) -> protocol.RetrieverFaulty:
        return protocol.RetrieverFaulty(
            f"{self.url}{path}", f"its answer breaks the protocol: {what}", "hsfiq retriever check"
        )


def largest_reply(request: protocol.RankRequest) -> int:
    """Bytes that the answer to a request may have."""
    n_images = sum(request.k + len(search.targets) for search in request.searches)
    return protocol.SMALLEST_LIMIT + protocol.BYTES_OF_IMAGE * n_images


def batches(
    searches: Sequence[protocol.Search], size: int
) -> Iterator[tuple[protocol.Search, ...]]:
    """At most `size` searches each; one with an image alone, since servers limit the bytes."""
    batch: tuple[protocol.Search, ...] = ()
    for search in searches:
        if batch and (len(batch) == size or search.images or batch[-1].images):
            yield batch
            batch = ()
        batch += (search,)
    if batch:
        yield batch


def checked_url(url: str) -> str:
    """The address without a final slash, which paths are appended to."""
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL:
        parsed = httpx.URL("")
    if parsed.scheme not in ("http", "https") or not parsed.host or parsed.userinfo:
        raise UnreadableInput(
            url if "@" not in url else "the address",
            "is not an address of a live retriever",
            "such as http://127.0.0.1:8100, without a name or password",
        )
    return url.rstrip("/")


def retry_after(response: httpx.Response) -> float:
    """The header's seconds, within limits; 0 without it, or if it is a date."""
    seconds = response.headers.get("Retry-After", "")
    return min(float(seconds), protocol.LONGEST_RETRY) if seconds.isdecimal() else 0.0


def contradictions(request: protocol.RankRequest, reply: protocol.RankReply) -> Iterator[str]:
    """The contradiction between a reply and its request."""
    if len(reply.lists) != len(request.searches):
        yield f"{len(reply.lists)} lists for {len(request.searches)} searches"
        return
    for i, (search, ranked) in enumerate(zip(request.searches, reply.lists, strict=True)):
        place = f"lists.{i}"
        if len(ranked.scores) != len(ranked.image_ids):
            yield f"{place}: another number of scores than of images"
        if len(ranked.image_ids) > request.k:
            yield f"{place}: more than {request.k} images"
        if len(set(ranked.image_ids)) < len(ranked.image_ids):
            yield f"{place}: a repeated image"
        if excluded := set(search.exclude).intersection(ranked.image_ids):
            yield f"{place}: the excluded image {min(excluded)}"
        if tuple(target.image_id for target in ranked.targets) != search.targets:
            yield f"{place}: other targets than requested"
