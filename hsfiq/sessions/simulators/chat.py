"""One question to an OpenAI-compatible endpoint, through its official client."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from mimetypes import guess_type
from pathlib import Path
from typing import Any, cast

import openai
from openai.types.chat import ChatCompletionMessageParam

from hsfiq.errors import HsfiqError

LONGEST_ANSWER = 300
"""Tokens of an answer."""

RETRIES = 3
"""By the client, with growing pauses, if the endpoint is busy or cannot be reached."""


class EndpointFailed(HsfiqError):
    """No usable answer; the same command goes on."""

    exit_code = 1


class QuestionRefused(EndpointFailed):
    """The endpoint does not accept this question; others it may."""


@dataclass(frozen=True, slots=True)
class Reply:
    """The text on one line, perhaps empty, a refusal, and the tokens that the endpoint counted."""

    text: str
    refusal: str | None
    usage: Mapping[str, int]


class Chat:
    """Chat completions at temperature 0. Threads may share it."""

    def __init__(self, url: str, key: str | None) -> None:
        # Local servers want no key, but the client insists on one.
        self._client = openai.OpenAI(base_url=url, api_key=key or "none", max_retries=RETRIES)
        self.url = url

    def close(self) -> None:
        self._client.close()

    def ask(
        self, model: str, content: str | Sequence[Mapping[str, Any]], *, seed: int = 0
    ) -> Reply:
        """The model's reply to one message.

        Raises:
            QuestionRefused: the endpoint calls this request invalid (HTTP 400, 413 or 422).
            EndpointFailed: it cannot be reached, or refuses every request.
        """
        message = cast("ChatCompletionMessageParam", {"role": "user", "content": content})
        try:
            reply = self._client.chat.completions.create(
                model=model,
                messages=[message],
                temperature=0,
                seed=seed,
                max_tokens=LONGEST_ANSWER,
            )
        except openai.OpenAIError as error:
            refused = isinstance(error, openai.APIStatusError) and error.status_code in {
                *(400, 413, 422)
            }
            raise (QuestionRefused if refused else EndpointFailed)(
                f"gives no answer ({first_line(error)})",
                where=self.url,
                remedy="the same command goes on where this one stopped",
            ) from error
        usage = {}
        if reply.usage is not None:
            usage = {
                "prompt_tokens": reply.usage.prompt_tokens,
                "completion_tokens": reply.usage.completion_tokens,
            }
        if not reply.choices:
            return Reply("", None, usage)
        choice = reply.choices[0]
        refusal = getattr(choice.message, "refusal", None)
        if choice.finish_reason == "content_filter":
            refusal = refusal or "content filter"
        return Reply(" ".join((choice.message.content or "").split()), refusal, usage)


def text_part(text: str) -> Mapping[str, object]:
    return {"type": "text", "text": text}


def picture_part(path: Path) -> Mapping[str, object]:
    """An image's file as a data URI."""
    kind = guess_type(path.name)[0] or "image/jpeg"
    uri = f"data:{kind};base64,{b64encode(path.read_bytes()).decode()}"
    return {"type": "image_url", "image_url": {"url": uri}}


def first_line(error: Exception) -> str:
    return str(error).partition("\n")[0][:200]
