"""Conformance tests of a server: each rule of the protocol is tried and reported by name."""

from __future__ import annotations

import json
import math
import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import httpx
from pydantic import ValidationError

from hsfiq.live import protocol
from hsfiq.live.client import LiveRetriever

# A picture for the rules about images, drawn without Pillow, which checking does not need.

SIDE = 64

TRUE_COLOUR = 2


def png() -> bytes:
    """A PNG file of 11 kB: red, and darker towards the bottom right."""
    rows = bytearray()
    for y in range(SIDE):
        rows += b"\0"  # the row is not filtered
        rows += b"".join(bytes((255 - x - y, x, y)) for x in range(SIDE))
    header = struct.pack(">IIBBBBB", SIDE, SIDE, 8, TRUE_COLOUR, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(kind, data) for kind, data in chunks)


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


TOLERANCE = 1e-3
"""Scores that differ by less, as a share, are the same: batches may round differently."""

N_SEARCHES = 3

LARGEST_TRIED_BATCH = 1_000
"""A limit on batches is tried only if it is not above this."""

LONGEST_TRIED_LIST = 1_000

TEXTS = ("is red and has long sleeves", "is darker", "has no print")


class NotTried(Exception):
    """A rule that this server gives no occasion to try, and why."""


FileOf = Callable[[str], Path | None]
"""Finds the file of an image of the corpus."""

SENT_SUFFIXES = (".jpg", ".jpeg", ".png")


class Subject:
    """The server, its corpus, and a few searches that it can answer."""

    def __init__(
        self,
        retriever: LiveRetriever,
        system: protocol.SystemDescription,
        file_of: FileOf | None = None,
    ) -> None:
        self.retriever = retriever
        self.file_of = file_of
        self.system = system
        self.corpus = retriever.corpus()
        self.column = {image_id: i for i, image_id in enumerate(self.corpus)}
        step = max(len(self.corpus) // N_SEARCHES, 1)
        self.references = [self.corpus[i * step % len(self.corpus)] for i in range(N_SEARCHES)]
        self.searches = [
            protocol.Search(turns=(protocol.Turn(reference=reference, text=text),))
            for reference, text in zip(self.references, TEXTS, strict=True)
        ]
        self.k = min(5, system.max_k, len(self.corpus))
        self.history = system.histories[0]

    @property
    def several_turns(self) -> protocol.Search:
        return protocol.Search(
            turns=tuple(turn for search in self.searches for turn in search.turns)
        )

    def require_two(self) -> None:
        if self.k < 2:
            raise NotTried("lists of two images are not possible")

    def require_history(self, history: protocol.History) -> None:
        if history not in self.system.histories:
            raise NotTried(f"the server does not have the history {history}")

    def require_images(self) -> None:
        if not self.system.accepts_images:
            raise NotTried("the server accepts no images")

    def new_id(self, name: str) -> str:
        """An id that is not in the corpus."""
        while name in self.column:
            name += "_"
        return name

    def with_image(self, image_id: str, content: bytes) -> protocol.Search:
        """A search whose reference is an image that it brings along."""
        turn = protocol.Turn(reference=image_id, text=TEXTS[0])
        return protocol.Search(turns=(turn,), images={image_id: protocol.as_base64(content)})

    def corpus_file(self) -> tuple[str, bytes]:
        """An image of the corpus and its file's content, which a search may bring along."""
        if self.file_of is None:
            raise NotTried("the corpus' images were not given with --images")
        for image_id in self.corpus:
            path = self.file_of(image_id)
            if path is None or path.suffix.lower() not in SENT_SUFFIXES:
                continue
            if path.stat().st_size <= protocol.LARGEST_IMAGE:
                return image_id, path.read_bytes()
        raise NotTried(
            f"--images has no JPEG or PNG of it with {protocol.LARGEST_IMAGE:,} bytes or fewer"
        )

    def rank(self, *searches: protocol.Search, k: int | None = None) -> list[protocol.RankedList]:
        return self.retriever.rank(searches, self.history, k or self.k)

    def body(self, **changes: Any) -> dict[str, Any]:
        """A valid request as JSON values, with some keys changed."""
        search = self.searches[0].model_dump()
        return {"searches": [search], "history": self.history, "k": self.k, **changes}


Rule = Callable[[Subject], Iterator[str]]

RULES: list[tuple[str, str, Rule]] = []
"""Name, what is expected, and a function that yields what came instead."""


def rule(name: str, expected: str) -> Callable[[Rule], Rule]:
    def register(function: Rule) -> Rule:
        RULES.append((name, expected, function))
        return function

    return register


# --------------------------------------------------------------------------------- descriptions


@rule("corpus", "the ids are distinct, and their number and sha256 are those of /v1/system")
def _corpus(subject: Subject) -> Iterator[str]:
    corpus = subject.system.corpus
    if len(subject.column) < len(subject.corpus):
        yield "an id comes twice"
    if len(subject.corpus) != corpus.size:
        yield f"{len(subject.corpus):,} ids, not {corpus.size:,}"
    if protocol.corpus_sha256(subject.corpus) != corpus.sha256:
        yield f"the sha256 of the ids, each followed by a newline, is not {corpus.sha256[:12]}..."


@rule("token", "a request without the token, or with another, is answered 401")
def _token(subject: Subject) -> Iterator[str]:
    if not subject.retriever.has_token:
        raise NotTried("no token was given")
    for method, path in (("GET", "/v1/corpus"), ("POST", "/v1/rank")):
        for given in ("", "Bearer not-the-token"):
            response = subject.retriever.request(method, path, headers={"Authorization": given})
            yield from not_refused(response, 401)


# --------------------------------------------------------------------------------- lists


@rule("list", "k candidates, each once, by falling score; equal scores in the corpus' order")
def _list(subject: Subject) -> Iterator[str]:
    for ranked in subject.rank(*subject.searches):
        if len(ranked.image_ids) != subject.k:
            yield f"{len(ranked.image_ids)} images, not {subject.k}"
        if unknown := [image for image in ranked.image_ids if image not in subject.column]:
            yield f"{unknown[0]} is not in the corpus"
        columns = [subject.column[image] for image in ranked.image_ids]
        keys = [(-score, column) for score, column in zip(ranked.scores, columns, strict=True)]
        if keys != sorted(keys):
            yield f"the order {', '.join(ranked.image_ids)} with scores {list(ranked.scores)}"


@rule(
    "limits",
    "the longest list arrives in time, not compressed, in at most "
    f"{protocol.SMALLEST_LIMIT // 1024} KiB and {protocol.BYTES_OF_IMAGE:,} bytes more "
    "for each image",
)
def _limits(subject: Subject) -> Iterator[str]:
    k = min(subject.system.max_k, len(subject.corpus), LONGEST_TRIED_LIST)
    subject.rank(subject.searches[0], k=k)  # an error says which limit was exceeded
    yield from ()


@rule("same-again", "the same search gives the same list")
def _same_again(subject: Subject) -> Iterator[str]:
    first, again = (subject.rank(subject.several_turns)[0].image_ids for _ in range(2))
    if first != again:
        yield f"{', '.join(first)}, then {', '.join(again)}"


@rule("shorter", "the list for a smaller k is the beginning of a longer one")
def _shorter(subject: Subject) -> Iterator[str]:
    (longer,) = subject.rank(subject.searches[0])
    (shorter,) = subject.rank(subject.searches[0], k=1)
    if shorter.image_ids != longer.image_ids[:1]:
        yield f"{', '.join(shorter.image_ids)}, not {longer.image_ids[0]}"


@rule("batch", "searches in one request get the same scores as in separate requests")
def _batch(subject: Subject) -> Iterator[str]:
    together = subject.rank(*subject.searches)
    for search, ranked in zip(subject.searches, together, strict=True):
        (alone,) = subject.rank(search)
        if not are_alike(ranked.scores, alone.scores):
            yield f"{list(ranked.scores)} together, {list(alone.scores)} alone"


@rule("exclude", "excluded images are in no list, and the others move up")
def _exclude(subject: Subject) -> Iterator[str]:
    subject.require_two()
    search = subject.searches[0]
    (before,) = subject.rank(search)
    (after,) = subject.rank(search.model_copy(update={"exclude": before.image_ids[:1]}))
    if after.image_ids[: subject.k - 1] != before.image_ids[1:]:
        yield f"{', '.join(after.image_ids)} after {', '.join(before.image_ids)}"


# --------------------------------------------------------------------------------- ranks


@rule("ranks", "a target's rank is its place in the list; ties count the others of its score")
def _ranks(subject: Subject) -> Iterator[str]:
    search = subject.searches[0]
    (ranked,) = subject.rank(search)
    (asked,) = subject.rank(search.model_copy(update={"targets": ranked.image_ids}))
    for place, target in enumerate(asked.targets, 1):
        if target.rank != place:
            yield f"{target.image_id}, at place {place}, has rank {target.rank}"
        n_equal = asked.scores.count(asked.scores[place - 1]) - 1
        ends_inside = asked.scores[place - 1] != asked.scores[-1]
        if target.ties < n_equal or (ends_inside and target.ties != n_equal):
            yield f"{target.image_id} has {target.ties} ties, and {n_equal} others its score"


@rule("ranks-excluded", "ranks count no excluded image")
def _ranks_excluded(subject: Subject) -> Iterator[str]:
    subject.require_two()
    search = subject.searches[0]
    (ranked,) = subject.rank(search)
    first, second = ranked.image_ids[:2]
    changes = {"exclude": (first,), "targets": (second,)}
    (asked,) = subject.rank(search.model_copy(update=changes))
    if asked.targets[0].rank != 1:
        yield f"{second} has rank {asked.targets[0].rank} without {first}, not 1"


# --------------------------------------------------------------------------------- histories


@rule("histories", "with one turn every history gives the same order")
def _histories(subject: Subject) -> Iterator[str]:
    (expected,) = subject.rank(subject.searches[0])
    for history in subject.system.histories[1:]:
        (ranked,) = subject.retriever.rank(subject.searches[:1], history, subject.k)
        if ranked.image_ids != expected.image_ids:
            yield f"{', '.join(ranked.image_ids)} with {history}, {', '.join(expected.image_ids)}"


@rule("last", "with the history `last`, the turns before the last one change nothing")
def _last(subject: Subject) -> Iterator[str]:
    subject.require_history("last")
    several, alone = subject.retriever.rank(
        [subject.several_turns, subject.searches[-1]], "last", subject.k
    )
    if not are_alike(several.scores, alone.scores):
        yield f"{list(several.scores)} after other turns, {list(alone.scores)} without"


@rule("mean", "with the history `mean`, the order of the turns changes nothing")
def _mean(subject: Subject) -> Iterator[str]:
    subject.require_history("mean")
    forward = subject.several_turns
    backward = forward.model_copy(update={"turns": forward.turns[::-1]})
    lists = subject.retriever.rank([forward, backward], "mean", subject.k)
    if not are_alike(lists[0].scores, lists[1].scores):
        yield f"{list(lists[0].scores)} in order, {list(lists[1].scores)} reversed"


# --------------------------------------------------------------------------------- own images


@rule("images", "an uploaded image gets the same list under any id")
def _images(subject: Subject) -> Iterator[str]:
    subject.require_images()
    names = [subject.new_id("own"), subject.new_id("another")]
    first, second = (subject.rank(subject.with_image(name, png()))[0] for name in names)
    if len(first.image_ids) != subject.k or not subject.column.keys() >= set(first.image_ids):
        yield f"{', '.join(first.image_ids)}, not {subject.k} candidates"
    if not are_alike(first.scores, second.scores):
        yield f"{list(first.scores)} as {names[0]}, {list(second.scores)} as {names[1]}"


@rule("corpus-image", "an uploaded image of the corpus gets the same list as its id")
def _corpus_image(subject: Subject) -> Iterator[str]:
    subject.require_images()
    image_id, content = subject.corpus_file()
    by_id = protocol.Search(turns=(protocol.Turn(reference=image_id, text=TEXTS[0]),))
    expected, came = subject.rank(by_id, subject.with_image(subject.new_id("own"), content))
    if not are_alike(expected.scores, came.scores):
        yield f"{list(came.scores)} brought along, {list(expected.scores)} as {image_id}"


@rule("images-refused", "an image that is broken, no turn's reference, or in the corpus: 422")
def _images_refused(subject: Subject) -> Iterator[str]:
    subject.require_images()
    name, content = subject.new_id("own"), png()
    good = subject.with_image(name, content).model_dump()
    for wrong in (
        {"images": {name: protocol.as_base64(content[: len(content) // 2])}},
        {"images": {name: "no base64"}},
        {"turns": subject.searches[0].model_dump()["turns"]},
        subject.with_image(subject.corpus[0], content).model_dump(),
    ):
        yield from refusal(subject, 422, subject.body(searches=[good | wrong]))


@rule("no-images", "without accepts_images, a search that brings an image along is answered 422")
def _no_images(subject: Subject) -> Iterator[str]:
    if subject.system.accepts_images:
        raise NotTried("the server accepts images")
    search = subject.with_image(subject.new_id("own"), png()).model_dump()
    yield from refusal(subject, 422, subject.body(searches=[search]))


# --------------------------------------------------------------------------------- refusals


@rule("unknown-image", "a reference that the server does not know is answered 422")
def _unknown_image(subject: Subject) -> Iterator[str]:
    turn = {"reference": "no such image \u2603", "text": TEXTS[0]}
    yield from refusal(subject, 422, subject.body(searches=[{"turns": [turn]}]))


@rule("unknown-key", "a key that is not in the protocol is answered 422")
def _unknown_key(subject: Subject) -> Iterator[str]:
    yield from refusal(subject, 422, subject.body(excludes=[]))


@rule("k", "a k of 0, and one above max_k, is answered 422")
def _k(subject: Subject) -> Iterator[str]:
    for k in (0, subject.system.max_k + 1):
        yield from refusal(subject, 422, subject.body(k=k))


@rule("excluded-target", "a target that is excluded is answered 422")
def _excluded_target(subject: Subject) -> Iterator[str]:
    search = subject.searches[0].model_dump() | {
        "exclude": subject.corpus[:1],
        "targets": subject.corpus[:1],
    }
    yield from refusal(subject, 422, subject.body(searches=[search]))


@rule("large-batch", "more searches than max_batch are answered 413")
def _large_batch(subject: Subject) -> Iterator[str]:
    limit = subject.system.max_batch
    if limit > LARGEST_TRIED_BATCH:
        raise NotTried(f"max_batch is above {LARGEST_TRIED_BATCH:,}")
    searches = subject.body()["searches"] * (limit + 1)
    yield from refusal(subject, 413, subject.body(searches=searches))


@rule("no-json", "a body that is not JSON is answered 400")
def _no_json(subject: Subject) -> Iterator[str]:
    yield from not_refused(subject.retriever.request("POST", "/v1/rank", b"{"), 400)


@rule("other-path", "another path is answered 404")
def _other_path(subject: Subject) -> Iterator[str]:
    yield from not_refused(subject.retriever.request("GET", "/v1/no-such-path"), 404)


# --------------------------------------------------------------------------------- vectors


@rule("compose", "one vector for each query, all of one length")
def _compose(subject: Subject) -> Iterator[str]:
    queries = [
        protocol.ComposedQuery(reference=reference, text=text)
        for reference, text in zip(subject.references, TEXTS, strict=True)
    ]
    vectors = subject.retriever.compose(queries)
    if vectors is None:
        raise NotTried("the server does not have this operation (404)")
    if len({len(vector) for vector in vectors}) != 1:
        yield f"lengths {[len(vector) for vector in vectors]}"


# --------------------------------------------------------------------------------- comparisons


def refusal(subject: Subject, status: int, body: dict[str, Any]) -> Iterator[str]:
    yield from not_refused(subject.retriever.request("POST", "/v1/rank", json.dumps(body)), status)


def not_refused(response: httpx.Response, status: int) -> Iterator[str]:
    """The reply instead of a refusal with this status and an error of the protocol."""
    if response.status_code != status:
        yield f"{response.status_code}"
    try:
        protocol.ErrorReply.model_validate_json(response.content)
    except ValidationError:
        yield f'{response.status_code} without {{"error": {{"where", "what", "remedy"}}}}'


def are_alike(scores: Sequence[float], others: Sequence[float]) -> bool:
    return len(scores) == len(others) and all(
        math.isclose(score, other, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
        for score, other in zip(scores, others, strict=True)
    )


# Trying all rules.


@dataclass(frozen=True, slots=True)
class Result:
    """A rule with what it expects.

    Attributes:
        came: what the server did instead; empty if it complies.
        not_tried: why the rule was not tried; empty if it was.
    """

    name: str
    expected: str
    came: str = ""
    not_tried: str = ""

    @property
    def outcome(self) -> Literal["ok", "FAIL", "not tried"]:
        if self.not_tried:
            return "not tried"
        return "FAIL" if self.came else "ok"


@dataclass(frozen=True, slots=True)
class Conformance:
    url: str
    results: tuple[Result, ...]

    @property
    def failed(self) -> list[Result]:
        return [result for result in self.results if result.came]

    def to_json(self) -> dict[str, Any]:
        rules = [
            {
                "rule": each.name,
                "outcome": each.outcome.lower(),
                "expected": each.expected,
                "came": each.came or None,
                "reason": each.not_tried or None,
            }
            for each in self.results
        ]
        return {"url": self.url, "conforms": not self.failed, "rules": rules}

    def as_text(self) -> str:
        lines = []
        for each in self.results:
            lines.append(f"{each.outcome:9}  {each.name}: {each.expected}")
            if each.came:
                lines.append(f"{'':9}  came: {each.came}")
            if each.not_tried:
                lines.append(f"{'':9}  {each.not_tried}")
        return "\n".join(lines)


def check_conformance(retriever: LiveRetriever, file_of: FileOf | None = None) -> Conformance:
    """Try every rule; `RetrieverUnavailable` if the server cannot be reached.

    With `file_of`, an image of the corpus is also sent as one that the server does not have.
    """
    expected = (
        "GET /v1/system and /v1/corpus describe the system and its images; versions and names have "
        f"{protocol.LONGEST_NAME} characters or fewer, ids {protocol.LONGEST_ID}, "
        "and none is a control character"
    )
    try:
        reachable = retriever.request("GET", "/v1/system")
    except protocol.RetrieverFaulty as error:
        return Conformance(retriever.url, (Result("system", expected, str(error)),))
    if reachable.status_code == httpx.codes.SERVICE_UNAVAILABLE:
        raise protocol.RetrieverUnavailable(retriever.url, "is still loading", "check again later")
    try:
        subject = Subject(retriever, retriever.system(), file_of)
    except (protocol.RetrieverRefused, protocol.RetrieverUnavailable, IndexError) as error:
        return Conformance(retriever.url, (Result("system", expected, str(error)),))
    results = [Result("system", expected)]
    for name, expects, function in RULES:
        results.append(tried(name, expects, function, subject))
    return Conformance(retriever.url, tuple(results))


def tried(name: str, expected: str, function: Rule, subject: Subject) -> Result:
    try:
        return Result(name, expected, protocol.harmless(next(function(subject), "")))
    except NotTried as reason:
        return Result(name, expected, not_tried=str(reason))
    except (protocol.RetrieverRefused, protocol.RetrieverUnavailable) as error:
        return Result(name, expected, str(error))
