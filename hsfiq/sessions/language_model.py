"""The `llm` simulator: a language model says how the target differs from the candidate."""

from __future__ import annotations

import json
import tomllib
from base64 import b64encode
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from importlib.resources import files
from mimetypes import guess_type
from pathlib import Path
from threading import Lock
from typing import Any, cast

import openai
from openai.types.chat import ChatCompletionMessageParam

from hsfiq.atomic_files import explained_write_errors, write_whole
from hsfiq.errors import HsfiqError, UnreadableInput
from hsfiq.images.folder import ImageFolder
from hsfiq.live.protocol import LONGEST_TEXT
from hsfiq.readers.files import read_text
from hsfiq.sessions.play import Progress
from hsfiq.sessions.simulators import Simulator

# One question to an OpenAI-compatible endpoint, through its official client.

LONGEST_ANSWER = 300
"""Tokens of an answer."""

RETRIES = 3
"""By the client, with growing pauses, if the endpoint is busy or cannot be reached."""


class EndpointFailed(HsfiqError):
    """No usable answer; repeat the command to continue."""

    exit_code = 1


class QuestionRefused(EndpointFailed):
    """The endpoint rejects this question, but possibly not others."""


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
                f"returned no answer ({first_line(error)})",
                where=self.url,
                remedy="repeat the command to continue",
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


# Asking an OpenAI-compatible endpoint, with every answer kept and every token counted.


@dataclass(slots=True)
class Costs:
    """The number of questions, and the tokens that the endpoint counted."""

    requests: int = 0
    from_cache: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    _lock: Lock = field(default_factory=Lock, repr=False)

    def add(self, **counts: int) -> None:
        with self._lock:
            for name, count in counts.items():
                setattr(self, name, getattr(self, name) + count)

    def to_json(self) -> dict[str, int]:
        names = ("requests", "from_cache", "prompt_tokens", "completion_tokens")
        return {name: getattr(self, name) for name in names}


class Endpoint:
    """Chat completions of an endpoint at temperature 0. Threads may share it.

    An answer is cached in `cache` under the digest of the complete request, so that the same
    question is asked and paid only once.
    """

    def __init__(self, url: str, key: str | None, cache: Path) -> None:
        self._chat = Chat(url, key)
        self._url, self._cache = url, cache
        self.costs = Costs()
        self._asking: defaultdict[str, Lock] = defaultdict(Lock)

    def answer(self, model: str, content: str | Sequence[Mapping[str, Any]]) -> str:
        """The model's answer to one message, on one line.

        Raises:
            EndpointFailed: the endpoint cannot be reached, refuses, or returns an empty answer.
        """
        request = {"model": model, "content": content, "url": self._url}
        key = sha256(json.dumps(request, sort_keys=True).encode()).hexdigest()
        path = self._cache / f"{key}.json"
        with self._asking[key]:  # two threads never ask the same
            if path.is_file():
                self.costs.add(from_cache=1)
                return str(json.loads(path.read_bytes())["answer"])
            answer, usage = self._ask(model, content)
            self.costs.add(requests=1, **usage)
            with explained_write_errors(self._cache):
                self._cache.mkdir(parents=True, exist_ok=True)
                kept = {"model": model, "answer": answer, **usage}
                write_whole(path, json.dumps(kept, ensure_ascii=False).encode())
        return answer

    def _ask(
        self, model: str, content: str | Sequence[Mapping[str, Any]]
    ) -> tuple[str, Mapping[str, int]]:
        reply = self._chat.ask(model, content)
        if not reply.text:
            raise EndpointFailed(f"{model} returned an empty answer", where=self._url)
        return reply.text, reply.usage


# Prompts of the `llm` simulator: one TOML file each.
#
# `compare` asks for the text. With `describe`, both images are described first, and `compare` gets
# the descriptions as {reference} and {target}; without it, `compare` gets both images.

NAMES = ("fashioniq", "cirr", "pair")
SLOTS = ("{reference}", "{target}")


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt for a language model; `sha256` is that of the file."""

    describe: str | None
    compare: str
    sha256: str

    def filled(self, reference: str, target: str) -> str:
        """`compare` with both descriptions."""
        first, second = SLOTS
        return self.compare.replace(first, reference).replace(second, target)


def read_prompt(name: str) -> Prompt:
    """One of our prompts by its name, or a file of the same form.

    Raises:
        UnreadableInput: there is none, or it lacks a key or a slot.
    """
    if name in NAMES:
        text = (files("hsfiq.sessions") / "prompts" / f"{name}.toml").read_text(encoding="utf-8")
    elif name.endswith(".toml"):
        text = read_text(Path(name))
    else:
        raise UnreadableInput(
            "--prompt", f"{name!r} is not known", f"use {', '.join(NAMES)}, or a .toml file"
        )
    try:
        values = tomllib.loads(text)
    except ValueError as error:  # also numbers that are too long
        raise UnreadableInput(name, f"invalid TOML ({error})") from error
    return checked(name, values, sha256(text.encode()).hexdigest())


def checked(name: str, values: dict[str, object], digest: str) -> Prompt:
    describe, compare = values.get("describe"), values.get("compare")
    if values.keys() - {"describe", "compare"} or not isinstance(compare, str):
        raise UnreadableInput(name, "needs the key compare, and may have describe alone beside it")
    if describe is None:
        return Prompt(None, compare.strip(), digest)
    if not isinstance(describe, str) or any(slot not in compare for slot in SLOTS):
        raise UnreadableInput(
            name, "describes both images, but does not compare them", "put both slots, "
            f"{SLOTS[0]} and {SLOTS[1]}, in compare",
        )  # fmt: skip
    return Prompt(describe.strip(), compare.strip(), digest)


class LanguageModel(Simulator):
    """FISD's simulator (section 4.1): one model describes images, another compares descriptions."""

    name = "llm"

    def __init__(
        self,
        endpoint: Endpoint,
        prompt: Prompt,
        images: ImageFolder,
        model: str,
        describing_model: str | None = None,
        parallel: int = 4,
    ) -> None:
        self._endpoint, self._prompt, self._images = endpoint, prompt, images
        self._model, self._describing_model = model, describing_model or model
        self.parallel = parallel
        models = "+".join(dict.fromkeys((self._describing_model, model)))
        self.version = f"{models}, prompt {prompt.sha256}"

    def text(self, progress: Progress, candidate: str) -> str:
        target, prompt = progress.query.targets[0], self._prompt
        if prompt.describe is None:
            parts = [text_part(prompt.compare), self._picture(candidate), self._picture(target)]
            answer = self._endpoint.answer(self._model, parts)
        else:
            texts = [self._described(prompt.describe, image) for image in (candidate, target)]
            answer = self._endpoint.answer(self._model, prompt.filled(*texts))
        return answer[:LONGEST_TEXT]

    def costs(self) -> dict[str, int]:
        return self._endpoint.costs.to_json()

    def _described(self, describe: str, image: str) -> str:
        parts = [text_part(describe), self._picture(image)]
        return self._endpoint.answer(self._describing_model, parts)

    def _picture(self, image: str) -> Mapping[str, object]:
        path = self._images.find(image)
        if path is None:
            raise UnreadableInput(
                str(self._images.root), f"has no file of image {image}", "name --images"
            )
        return picture_part(path)
