"""The protocol of judges: questions about a query and images, answered with a number or nothing."""

from __future__ import annotations

import re
import tomllib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import Any, ClassVar, Literal, get_args

from hsfiq.errors import HsfiqError, UnreadableInput
from hsfiq.readers.files import read_text

Asks = Literal["images", "sets", "pairs"]
"""The subject of a question: a single image, a retrieved set, or two sets of one query."""


class JudgeFailed(HsfiqError):
    """The judge cannot be asked now; its earlier answers are stored."""

    exit_code = 1


@dataclass(frozen=True, slots=True)
class Question:
    """A query and its judged sets.

    Attributes:
        reference: the reference image's file; None if the judge does not look at it.
        sets: one set of one image, one set, or two sets in the order in which they are shown.
        attempt: 1, or more if earlier answers could not be read.
    """

    reference: Path | None
    text: str
    sets: tuple[tuple[Path, ...], ...]
    attempt: int = 1


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer of a judge.

    Attributes:
        value: the number, higher is better; of a pair the preference for the set that was shown
            first, from 0 to 1, where 0.5 is a tie. None if there is none.
        reason: why there is no value.
        raw: the model's output, as JSON.
        usage: the cost of the answer, such as `prompt_tokens`.
        is_final: whether asking again in this run would not help.
        is_kept: whether it is stored; else the question is asked again by the next run.
    """

    value: float | None
    reason: str | None = None
    raw: Any = None
    usage: Mapping[str, int] = field(default_factory=dict)
    is_final: bool = True
    is_kept: bool = True


class Judge(ABC):
    """A judge of retrieved sets.

    Attributes:
        asks: what it is asked about.
        reads_reference: whether the reference image is shown; else only the text is the query.
        batch: the most questions that `answer` receives.
        parallel: how many threads may call `answer` at the same time.
    """

    asks: Asks = "images"
    reads_reference: bool = True
    batch: int = 1
    parallel: int = 1
    name: str
    method: ClassVar[str] = "as the judge says"
    """How an answer is computed, with its source."""

    @abstractmethod
    def identity(self) -> Mapping[str, Any]:
        """Everything that the answers depend on besides the question, as JSON.

        A stored answer counts only for a judge of the same identity.
        """

    @abstractmethod
    def answer(self, questions: Sequence[Question]) -> Sequence[Answer]:
        """One answer for each question, in their order.

        Raises:
            JudgeFailed: the judge cannot be asked now.
        """

    def close(self) -> None:  # noqa: B027 -- most judges hold nothing open
        """Release the judge's open resources."""


# What judges are asked: one TOML file for each prompt.
#
# `asks` is "images", "sets" or "pairs", `question` the question, with {text} for the query's text.
# `reference` and `set` are put before the images: `reference` before the reference image, which is
# not shown without this key, and `set`, with {number}, before each set. A prompt for sets has the
# `lowest` and the `highest` number of its scale, one for pairs the words that answer it: `first`,
# `second` and `tie`.

NAMES = ("change", "likert", "preference", "vqascore")
_TEXTS = ("asks", "question", "reference", "set", "first", "second", "tie")
_NUMBERS = ("version", "lowest", "highest")
_REQUIRED: dict[Asks, set[str]] = {
    "images": set(),
    "sets": {"lowest", "highest"},
    "pairs": {"first", "second", "tie"},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgePrompt:
    """A prompt; `sha256` is that of its file, `name` the name or the path it was asked for by."""

    name: str
    sha256: str
    asks: Asks
    question: str
    version: int = 1
    reference: str | None = None
    set: str | None = None
    lowest: int = 0
    highest: int = 0
    first: str = ""
    second: str = ""
    tie: str = ""

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "version": self.version, "sha256": self.sha256}

    def filled(self, text: str) -> str:
        return self.question.replace("{text}", text)

    def value_of(self, answer: str) -> float | None:
        """The number or the preference in an answer; None if it has none, or several."""
        if self.asks == "sets":
            numbers = set(re.findall(r"(?<![\d./-])\d+(?:\.\d+)?(?![\d/])", answer))
            value = float(numbers.pop()) if len(numbers) == 1 else None
            return value if value is not None and self.lowest <= value <= self.highest else None
        values = {self.first: 1.0, self.second: 0.0, self.tie: 0.5}
        named = [word for word in values if re.search(rf"(?i)\b{re.escape(word)}\b", answer)]
        return values[named[0]] if len(named) == 1 else None


def read_judge_prompt(name: str) -> JudgePrompt:
    """One of our prompts by its name, or a file of the same form.

    Raises:
        UnreadableInput: there is none, or a key is missing, unknown or of the wrong type.
    """
    if name in NAMES:
        file = files("hsfiq.model.judges") / "prompts" / f"{name}.toml"
        text = file.read_text(encoding="utf-8")
    elif name.endswith(".toml"):
        text = read_text(Path(name))
    else:
        what = f"{name!r} is not known"
        raise UnreadableInput("--prompt", what, f"use {', '.join(NAMES)}, or a .toml file")
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UnreadableInput(name, f"broken TOML ({error})") from error
    check(name, values)
    return JudgePrompt(name=name, sha256=sha256(text.encode()).hexdigest(), **values)


def check(name: str, values: dict[str, Any]) -> None:
    for key, value in values.items():
        if key not in (*_TEXTS, *_NUMBERS):
            raise UnreadableInput(name, f"{key} is not a key of a prompt", "remove it")
        kind, wanted = (str, "a text") if key in _TEXTS else (int, "a whole number")
        if type(value) is not kind or value == "":
            raise UnreadableInput(name, f"{key} is {value!r}", f"write {wanted}")
    asks: Any = values.get("asks")
    if asks not in get_args(Asks):
        what = f"asks is {asks!r}" if asks is not None else "lacks the key asks"
        raise UnreadableInput(name, what, f"write one of {', '.join(get_args(Asks))}")
    missing = sorted(({"question"} | _REQUIRED[asks]) - values.keys())
    if missing:
        raise UnreadableInput(name, f"has no {missing[0]}", f"a prompt for {asks} needs it")
    if "{text}" not in values["question"]:
        raise UnreadableInput(name, "question has no {text}", "insert it in the place of the text")
    if asks == "sets" and values["lowest"] >= values["highest"]:
        raise UnreadableInput(name, "lowest must be below highest", "swap them")
