"""The messages of a live retriever, version 1, and the interface that every ranker has.

docs/guides/live-retrievers.md describes them with an example of each request.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Annotated, Literal, Protocol, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    field_validator,
)
from pydantic_core import PydanticCustomError

from hsfiq.errors import HsfiqError
from hsfiq.text import one_line

M = TypeVar("M", bound=BaseModel)

VERSION: Literal[1] = 1

LONGEST_TEXT = 2_000
"""Characters of a turn's text."""

LONGEST_ID = 400
"""Characters of an image id."""

LONGEST_NAME = 200
"""Characters of a version, and of the name of a system or a corpus."""

LONGEST_MESSAGE = 300
"""Characters of each part of an error; what a server says beyond them is cut off."""

MOST = 2**31 - 1
"""The largest whole number that databases store."""

LONGEST_RETRY = 60.0
"""Seconds to wait at a server's wish."""

SMALLEST_LIMIT = 64 * 2**10
"""Bytes that any answer may have; those with images or numbers may have more."""

BYTES_OF_IMAGE = 5_000
"""Bytes of an image in an answer: the longest id, with every character escaped, and its score."""

BYTES_OF_VECTOR = 2**20
"""Bytes of a vector in an answer."""

LARGEST_CORPUS = 64 * 2**20
"""Bytes of the answer with the corpus."""

MOST_IMAGES = 1
"""Images that a search may bring along."""

LARGEST_IMAGE = 2 * 2**20
"""Bytes of the file of an image that a search brings along."""

History = Literal["mean", "last", "rocchio"]
"""How the turns of a search make its query vector: formulas in docs/guides/live-retrievers.md."""

ImageId = Annotated[str, Field(min_length=1, max_length=LONGEST_ID)]
Text = Annotated[str, Field(max_length=LONGEST_TEXT)]
Plain = Annotated[str, Field(pattern=r"^[^\p{Cc}\u2028\u2029]*$")]
"""A text without line breaks and other control characters, so that every database can store it."""

Name = Annotated[Plain, Field(max_length=LONGEST_NAME)]
AnsweredId = Annotated[Plain, Field(min_length=1, max_length=LONGEST_ID)]
ANSWERED_ID: TypeAdapter[str] = TypeAdapter(AnsweredId)
Count = Annotated[int, Field(ge=0, le=MOST)]
Positive = Annotated[int, Field(ge=1, le=MOST)]
Sha256 = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
Base64 = Annotated[str, Field(min_length=1, max_length=(LARGEST_IMAGE + 2) // 3 * 4)]


class Request(BaseModel):
    """What a client sends: exact types, no unknown keys. Errors do not repeat what was sent."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid", hide_input_in_errors=True)


class Reply(BaseModel):
    """What a server sends: exact types; keys that this version does not know are ignored.

    Whatever is kept or shown has a limit: nobody vouches for a server.
    """

    model_config = ConfigDict(strict=True, frozen=True, extra="ignore", allow_inf_nan=False)


class Turn(Request):
    """A composed query: the reference, and the text about it.

    The reference is a candidate, or an image that the search brings along. `shown` is the list that
    answered this turn; the next turn's reference was chosen from it.
    """

    reference: ImageId
    text: Text
    shown: tuple[ImageId, ...] = ()


class Search(Request):
    """A search so far. `exclude` are no candidates; `targets` are images whose ranks are wanted.

    `images` are JPEG or PNG files that the search brings along, by an id of the client's own, which
    is the reference of a turn. Without any, the key is not written: older servers refuse it.
    """

    turns: Annotated[tuple[Turn, ...], Field(min_length=1)]
    exclude: tuple[ImageId, ...] = ()
    targets: tuple[ImageId, ...] = ()
    images: Mapping[ImageId, Base64] = Field(
        default_factory=dict,
        max_length=MOST_IMAGES,
        repr=False,  # so that no log has a picture of somebody's own
        exclude_if=lambda images: not images,
    )

    @field_validator("images")
    @classmethod
    def _check_images(cls, images: Mapping[str, str], info: ValidationInfo) -> Mapping[str, str]:
        references = {turn.reference for turn in info.data.get("turns", ())}
        for image_id, content in images.items():
            if image_id not in references:
                raise wrong_image(image_id, "is no turn's reference", "name it in a turn")
            if len(file_content(image_id, content)) > LARGEST_IMAGE:
                raise wrong_image(
                    image_id, f"has more than {LARGEST_IMAGE:,} bytes", "make it smaller"
                )
        return images

    def files(self) -> dict[str, bytes]:
        """The content of the image files that the search brings along, by id."""
        return {image_id: file_content(image_id, text) for image_id, text in self.images.items()}


class RankRequest(Request):
    searches: Annotated[tuple[Search, ...], Field(min_length=1)]
    history: History = "mean"
    k: Annotated[int, Field(ge=1)]


class ComposedQuery(Request):
    reference: ImageId
    text: Text


class ComposeRequest(Request):
    queries: Annotated[tuple[ComposedQuery, ...], Field(min_length=1)]


class Corpus(Reply):
    """The candidates. `sha256` is of their ids in order, each followed by a newline, in UTF-8."""

    name: Name
    size: Positive
    sha256: Sha256


class SystemDescription(Reply):
    """`version` changes whenever answers may change; ours is the sha256 of the checkpoint.

    `accepts_images` says whether searches may bring images along; older servers do not send it.
    """

    protocol: Literal[1]
    name: Annotated[Name, Field(min_length=1)]
    version: Annotated[Name, Field(min_length=1)]
    corpus: Corpus
    histories: Annotated[tuple[History, ...], Field(min_length=1)]
    max_k: Positive
    max_batch: Positive
    accepts_images: bool = False


class CorpusReply(Reply):
    image_ids: tuple[AnsweredId, ...]


class TargetRank(Reply):
    """The place of an image among all candidates of a search.

    `rank` counts from 1: images scored above it, those of its score earlier in the corpus, plus 1.
    `ties` counts the other images of its score.
    """

    image_id: AnsweredId
    rank: Positive
    ties: Count


class RankedList(Reply):
    """The answer to a search: the best images, best first, and the ranks that were asked for."""

    image_ids: tuple[AnsweredId, ...]
    scores: tuple[float, ...]
    targets: tuple[TargetRank, ...] = ()


class RankReply(Reply):
    """`version` and `corpus_sha256` say what ranked; `seconds` is the server's own time."""

    lists: tuple[RankedList, ...]
    version: Name
    corpus_sha256: Sha256
    seconds: Annotated[float, Field(ge=0)]


class ComposeReply(Reply):
    vectors: tuple[tuple[float, ...], ...]


class Problem(Reply):
    """Where in the request, what is wrong, and how to fix it."""

    where: str
    what: str
    remedy: str = ""


class ErrorReply(Reply):
    error: Problem


class RetrieverUnavailable(HsfiqError):
    """No usable answer now: down, slow, still loading, or an answer that breaks the protocol.

    `retry_after` is the server's wish, in seconds. The parts of the message may be the server's
    words; they are made harmless here.
    """

    exit_code = 1

    def __init__(self, where: str, what: str, remedy: str = "", *, retry_after: float = 0) -> None:
        super().__init__(harmless(what), where=harmless(where), remedy=harmless(remedy))
        self.retry_after = retry_after


class RetrieverFaulty(RetrieverUnavailable):
    """The answer is late or breaks the protocol; an immediate retry would not help."""


class RetrieverRefused(HsfiqError):
    """A request that the retriever does not accept; `status` is that of HTTP."""

    def __init__(self, where: str, what: str, remedy: str = "", *, status: int = 422) -> None:
        super().__init__(harmless(what), where=harmless(where), remedy=harmless(remedy))
        self.status = status


def harmless(text: str) -> str:
    """What a server said, for logs, terminals and pages: one short line, and nothing hidden."""
    line = one_line(text[: 2 * LONGEST_MESSAGE])
    return line if len(line) <= LONGEST_MESSAGE else f"{line[: LONGEST_MESSAGE - 3]}..."


class Ranker(Protocol):
    """Ranks a corpus for searches: in this process, or over HTTP.

    Every method raises `RetrieverUnavailable` or `RetrieverRefused`.
    """

    def system(self) -> SystemDescription: ...

    def corpus(self) -> tuple[str, ...]:
        """The candidates, in the order that decides between equal scores."""
        ...

    def rank(self, searches: Sequence[Search], history: History, k: int) -> list[RankedList]:
        """The best k candidates of each search; fewer where fewer are left."""
        ...


def is_image_id(text: str) -> bool:
    """Whether an answer may use this text as the id of an image."""
    try:
        ANSWERED_ID.validate_python(text, strict=True)
    except ValidationError:
        return False
    return True


def corpus_sha256(image_ids: Iterable[str]) -> str:
    digest = sha256()
    for image_id in image_ids:
        digest.update(f"{image_id}\n".encode())
    return digest.hexdigest()


def read_request(kind: type[M], body: bytes) -> M:
    """The message in a request's body; `RetrieverRefused` with 400 if it is no JSON, or 422."""
    try:
        return kind.model_validate_json(body)
    except ValidationError as error:
        where, what = first_error(error)
        first = error.errors()[0]
        status = 400 if first["type"] == "json_invalid" else 422
        remedy = first.get("ctx", {}).get("remedy", "")
        raise RetrieverRefused(where, what, remedy, status=status) from error


def first_error(error: ValidationError) -> tuple[str, str]:
    """The place of a message's first error, and what is wrong."""
    first = error.errors(include_url=False, include_input=False)[0]
    return ".".join(map(str, first["loc"])) or "body", first["msg"]


def as_base64(content: bytes) -> str:
    """The content of an image file as `Search.images` has it."""
    return base64.b64encode(content).decode()


def file_content(image_id: str, text: str) -> bytes:
    """What an image's base64 holds; `wrong_image` if it is none."""
    try:
        return base64.b64decode(text, validate=True)
    except ValueError as error:
        raise wrong_image(
            image_id, "is not base64", "send the content of the file as base64"
        ) from error


def wrong_image(image_id: str, what: str, remedy: str) -> PydanticCustomError:
    """The error of a message whose image cannot be used."""
    context = {"image": repr(image_id), "what": what, "remedy": remedy}
    return PydanticCustomError("image", "{image}: {what}", context)
