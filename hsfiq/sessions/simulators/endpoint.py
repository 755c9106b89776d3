"""Asking an OpenAI-compatible endpoint, with every answer kept and every token counted."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from threading import Lock
from typing import Any

from hsfiq.atomic_files import explained_write_errors, write_whole
from hsfiq.sessions.simulators.chat import Chat, EndpointFailed


@dataclass(slots=True)
class Costs:
    """What was asked, and the tokens that the endpoint counted."""

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

    An answer is kept in `cache` under the digest of everything that it was asked with, so that the
    same question is asked and paid once.
    """

    def __init__(self, url: str, key: str | None, cache: Path) -> None:
        self._chat = Chat(url, key)
        self._url, self._cache = url, cache
        self.costs = Costs()
        self._asking: defaultdict[str, Lock] = defaultdict(Lock)

    def answer(self, model: str, content: str | Sequence[Mapping[str, Any]]) -> str:
        """The model's answer to one message, on one line.

        Raises:
            EndpointFailed: the endpoint cannot be reached, refuses, or answers nothing.
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
            raise EndpointFailed(f"{model} answers nothing", where=self._url)
        return reply.text, reply.usage
