"""Judges by a specification `NAME:ARGUMENT`, ours and those of installed packages.

A package adds one with an entry point of the group `hsfiq.judges`, whose object takes the argument
and returns a `hsfiq.model.judges.judge.Judge`; docs/judges.md has an example.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import Final

import torch

from hsfiq.errors import UnreadableInput
from hsfiq.model.judges.clip_score import ClipScore
from hsfiq.model.judges.judge import Judge
from hsfiq.model.judges.prompts import read_judge_prompt
from hsfiq.model.judges.yes_probability import YesProbability
from hsfiq.text import first_few

GROUP: Final = "hsfiq.judges"


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeSettings:
    """Options of our own judges; `prompt` None is each judge's usual one."""

    device: torch.device
    prompt: str | None = None
    endpoint: str | None = None
    parallel: int = 4


def _clip_score(argument: str, settings: JudgeSettings) -> Judge:
    if settings.prompt is not None:
        raise UnreadableInput("--prompt", "clipscore has none", "leave it out")
    return ClipScore(Path(argument).expanduser(), settings.device)


def _yes_probability(argument: str, settings: JudgeSettings) -> Judge:
    prompt = read_judge_prompt(settings.prompt or "change")
    return YesProbability(Path(argument).expanduser(), prompt, settings.device)


def _chat(argument: str, settings: JudgeSettings) -> Judge:
    try:
        from hsfiq.model.judges.chat_judge import ChatJudge  # noqa: PLC0415 (an extra)
        from hsfiq.sessions.simulators.chat import Chat  # noqa: PLC0415 (an extra)
    except ImportError:
        what = f"chat:{argument}"
        raise UnreadableInput(what, "needs openai", "pip install 'hsfiq[llm]'") from None
    url = settings.endpoint or os.environ.get("OPENAI_BASE_URL")
    if not url:
        raise UnreadableInput("--endpoint", "is missing", "such as http://127.0.0.1:8000/v1")
    prompt = read_judge_prompt(settings.prompt or "preference")
    chat = Chat(url, os.environ.get("OPENAI_API_KEY"))
    return ChatJudge(chat, argument, prompt, settings.parallel)


OURS: Final[dict[str, Callable[[str, JudgeSettings], Judge]]] = {
    "chat": _chat,
    "clipscore": _clip_score,
    "vqascore": _yes_probability,
}


def build_judge(specification: str, settings: JudgeSettings) -> Judge:
    """The judge; UnreadableInput if there is none of this name, and as its maker raises."""
    name, colon, argument = specification.partition(":")
    installed = {entry.name: entry for entry in entry_points(group=GROUP)}
    if not colon or not argument:
        raise UnreadableInput(f"--judge {specification}", "is not NAME:ARGUMENT")
    if name in OURS:
        return OURS[name](argument, settings)
    if name not in installed:
        known = first_few(sorted({*OURS, *installed}))
        what = f"no installed judge is called {name}"
        raise UnreadableInput(f"--judge {specification}", what, f"there are: {known}")
    judge: Judge = installed[name].load()(argument)
    return judge
