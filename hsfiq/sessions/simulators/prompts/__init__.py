"""Prompts of the `llm` simulator: one TOML file each.

`compare` asks for the text. With `describe`, both images are described first, and `compare` gets
the descriptions as {reference} and {target}; without it, `compare` gets both images.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import files
from pathlib import Path

from hsfiq.errors import UnreadableInput
from hsfiq.readers.files import read_text

NAMES = ("fashioniq", "cirr", "pair")
SLOTS = ("{reference}", "{target}")


@dataclass(frozen=True, slots=True)
class Prompt:
    """What a language model is asked; `sha256` is that of the file."""

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
        text = (files(__name__) / f"{name}.toml").read_text(encoding="utf-8")
    elif name.endswith(".toml"):
        text = read_text(Path(name))
    else:
        raise UnreadableInput(
            "--prompt", f"{name!r} is not known", f"use {', '.join(NAMES)}, or a .toml file"
        )
    try:
        values = tomllib.loads(text)
    except ValueError as error:  # also numbers that are too long
        raise UnreadableInput(name, f"broken TOML ({error})") from error
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
