"""`[searches]`: what participants of a study of searches look for, and with what."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

Task = Literal["target-shown", "target-remembered", "own-wish"]
Chooser = Literal["nearest", "top1"]

Leaderboard = Literal["owner", "after-end", "public"]

History = Literal["mean", "last", "rocchio"]
"""As in `hsfiq.live`, which the core install cannot import."""

LONGEST_NAME = 200
"""Characters of a system's name."""


@dataclass(frozen=True, slots=True)
class Retriever:
    """`[[searches.retrievers]]`: a system that answers at an address.

    `name` is the system's in releases. `token_variable` names the environment variable that holds
    the server's token, "" if it wants none.
    """

    name: str
    url: str
    token_variable: str = ""


@dataclass(frozen=True, slots=True)
class Searches:
    """`[searches]`: a search of several turns; `[design] k` images are in each list.

    A participant has `questions_per_form` searches in each form. In a study of kind `search`, each
    query is searched for with each retriever, by `annotators_per_query` participants each; in one
    of kind `arena`, by as many participants in all, each with two retrievers.

    Attributes:
        task: the participant sees the target all the time, or for `target_seconds` before the
            search, or has a wish of their own and starts from the query's reference.
        rounds: the most lists of a search.
        history: how a retriever combines the turns.
        chooser: the image that a text is about: the participant's `nearest`, or the first (`top1`).
        leaderboard: who sees that of an arena: its `owner`, everybody `after-end`, when the study
            is closed, or everybody at any time (`public`).
        uploads: whether the participant may start from a picture of their own, in `own-wish`.
    """

    task: Task = "target-shown"
    target_seconds: int = 10
    rounds: int = 5
    history: History = "mean"
    chooser: Chooser = "nearest"
    leaderboard: Leaderboard = "owner"
    uploads: bool = False
    retrievers: tuple[Retriever, ...] = ()


def retriever_errors(searches: Searches, n_live: int) -> Iterator[tuple[str, str]]:
    """What is wrong with the retrievers, by the key of study.toml; so many are needed."""
    if not searches.retrievers:
        yield "searches.retrievers", "is missing; a search needs a live retriever"
    elif len(searches.retrievers) < n_live:
        yield "searches.retrievers", f"an arena needs {n_live} live retrievers or more"
    counts = Counter(retriever.name for retriever in searches.retrievers)
    for number, retriever in enumerate(searches.retrievers, start=1):
        key = f"searches.retrievers.{number}"
        if not retriever.name.strip() or len(retriever.name) > LONGEST_NAME:
            yield f"{key}.name", f"must have 1 to {LONGEST_NAME} characters"
        elif counts[retriever.name] > 1:
            yield f"{key}.name", f"{retriever.name!r} is the name of another retriever, too"
        if not re.fullmatch(r"https?://[^\s/@]+\S*", retriever.url):
            yield f"{key}.url", f"{retriever.url!r} is not an http(s) address without a password"
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*|", retriever.token_variable):
            what = f"{retriever.token_variable!r} is not the name of an environment variable"
            yield f"{key}.token_variable", what
