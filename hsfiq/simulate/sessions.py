"""The cookies of simulated participants in a file, so that a later run can continue."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from threading import Lock

from hsfiq.atomic_files import write_whole
from hsfiq.errors import UnreadableInput


class Sessions:
    """A file of cookies by annotator, for one address and one seed."""

    def __init__(self, path: Path, address: str, seed: int) -> None:
        """Read the file, if it exists; `UnreadableInput` if it is not of this address and seed."""
        self._path = path
        self._lock = Lock()
        self._cookies: dict[str, dict[str, str]] = {}
        self._facts = {"address": address, "seed": seed}
        if path.exists():
            self._cookies = self._read()

    def cookies_of(self, name: str) -> dict[str, str]:
        return dict(self._cookies.get(name, {}))

    def keep(self, name: str, cookies: Mapping[str, str]) -> None:
        with self._lock:
            self._cookies[name] = dict(cookies)
            content = self._facts | {"cookies": self._cookies}
            write_whole(self._path, (json.dumps(content, indent=2) + "\n").encode())

    def _read(self) -> dict[str, dict[str, str]]:
        where = str(self._path)
        try:
            content = json.loads(self._path.read_text(encoding="utf-8"))
            facts = {key: content[key] for key in self._facts}
            cookies = {name: dict(values) for name, values in content["cookies"].items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise UnreadableInput(where, "is not a file of sessions", "choose another") from error
        if facts != self._facts:
            raise UnreadableInput(
                where,
                f"belongs to {facts['address']} and seed {facts['seed']}",
                "give the same address and --seed, or choose another file",
            )
        return cookies
