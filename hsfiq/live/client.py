"""Asking a live retriever over HTTP."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Self, TypeVar

import httpx
from pydantic import BaseModel, ValidationError

from hsfiq.errors import UnreadableInput
from hsfiq.live.certificates import certificates
from hsfiq.live.protocol import (
    ComposedQuery,
    ComposeReply,
    ComposeRequest,
    CorpusReply,
    ErrorReply,
    History,
    RankedList,
    RankReply,
    RankRequest,
    RetrieverRefused,
    RetrieverUnavailable,
    Search,
    SystemDescription,
    first_error,
)

R = TypeVar("R", bound=BaseModel)

CONNECT_TIMEOUT = 2.0
"""Seconds to wait for a connection."""

TIMEOUT = 10.0
"""Seconds to wait for an answer."""

ATTEMPTS = 2
"""A request is repeated once if its connection fails, as a kept one does when a server restarts.

Every request is safe to repeat, since servers keep nothing. One that timed out is not repeated:
the participant or simulator who waits should see the failure at once.
"""


class LiveRetriever:
    """A `Ranker` over HTTP. Threads may share it."""

    def __init__(self, url: str, token: str | None = None, timeout: float = TIMEOUT) -> None:
        """Prepare requests to a server; nothing is sent yet.

        Raises:
            UnreadableInput: an address that is not http or https.
        """
        self.url = checked_url(url)
        self.has_token = bool(token)
        self._max_batch: int | None = None
        self._http = httpx.Client(
            base_url=self.url,
            headers={"Content-Type": "application/json"}
            | ({"Authorization": f"Bearer {token}"} if token else {}),
            timeout=httpx.Timeout(timeout, connect=min(timeout, CONNECT_TIMEOUT)),
            trust_env=False,  # a proxy of the environment would get the token and the texts
            verify=certificates(),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def system(self) -> SystemDescription:
        description = self._ask(SystemDescription, "GET", "/v1/system")
        self._max_batch = description.max_batch
        return description

    def corpus(self) -> tuple[str, ...]:
        return self._ask(CorpusReply, "GET", "/v1/corpus").image_ids

    def rank(self, searches: Sequence[Search], history: History, k: int) -> list[RankedList]:
        """As `Ranker.rank`; more searches than a request may hold are sent in several."""
        lists: list[RankedList] = []
        for batch in batches(searches, self._batch_size(len(searches))):
            lists += self.rank_once(RankRequest(searches=batch, history=history, k=k)).lists
        return lists

    def rank_once(self, request: RankRequest) -> RankReply:
        """One request, with what the server says of itself in its reply."""
        reply = self._ask(RankReply, "POST", "/v1/rank", request)
        for problem in contradictions(request, reply):
            raise self._broken("/v1/rank", problem)
        return reply

    def compose(self, queries: Sequence[ComposedQuery]) -> list[tuple[float, ...]] | None:
        """The query vectors; None if the server does not give any."""
        size = self._batch_size(len(queries))
        vectors: list[tuple[float, ...]] = []
        for start in range(0, len(queries), size):
            request = ComposeRequest(queries=tuple(queries[start : start + size]))
            try:
                reply = self._ask(ComposeReply, "POST", "/v1/compose", request)
            except RetrieverRefused as error:
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

    def _ask(self, reply: type[R], method: str, path: str, body: BaseModel | None = None) -> R:
        response = self.request(method, path, body.model_dump_json() if body else None)
        if not response.is_success:
            raise self._error_of(path, response)
        try:
            return reply.model_validate_json(response.content)
        except ValidationError as error:
            raise self._broken(path, ": ".join(first_error(error))) from error

    def request(
        self,
        method: str,
        path: str,
        content: str | bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        """Send any request, and repeat it once if the connection fails."""
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return self._http.request(method, path, content=content, headers=headers)
            except httpx.TimeoutException as error:
                raise RetrieverUnavailable(
                    self.url, "did not answer in time", "is the server overloaded?"
                ) from error
            except httpx.TransportError as error:
                if attempt == ATTEMPTS:
                    raise RetrieverUnavailable(
                        self.url, f"cannot be reached ({error})", "is the server running?"
                    ) from error
        raise AssertionError

    def _error_of(
        self, path: str, response: httpx.Response
    ) -> RetrieverUnavailable | RetrieverRefused:
        """The exception for an answer that is not a success."""
        where, what, remedy = path, f"answered {response.status_code}", ""
        with suppress(ValidationError):
            problem = ErrorReply.model_validate_json(response.content).error
            where = f"{path}: {problem.where}" if problem.where else path
            what, remedy = f"{problem.what} ({response.status_code})", problem.remedy
        where = f"{self.url}{where}"
        if response.is_client_error:
            return RetrieverRefused(where, what, remedy, status=response.status_code)
        return RetrieverUnavailable(where, what, remedy, retry_after=retry_after(response))

    def _broken(self, path: str, what: str) -> RetrieverUnavailable:
        return RetrieverUnavailable(
            f"{self.url}{path}", f"its answer breaks the protocol: {what}", "hsfiq retrieve check"
        )


def batches(searches: Sequence[Search], size: int) -> Iterator[tuple[Search, ...]]:
    """At most `size` searches each; one with an image alone, since servers limit the bytes."""
    batch: tuple[Search, ...] = ()
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
    """The header's seconds; 0 without it, or if it is a date."""
    try:
        return max(float(response.headers.get("Retry-After", "")), 0.0)
    except ValueError:
        return 0.0


def contradictions(request: RankRequest, reply: RankReply) -> Iterator[str]:
    """How a reply contradicts its request."""
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
            yield f"{place}: an image twice"
        if excluded := set(search.exclude).intersection(ranked.image_ids):
            yield f"{place}: the excluded image {min(excluded)}"
        if tuple(target.image_id for target in ranked.targets) != search.targets:
            yield f"{place}: other targets than asked for"
