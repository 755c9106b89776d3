"""Asking a study's live retrievers what they are, and which images they search.

Only who talks to retrievers imports this module: the core install lacks what it needs.
"""

from __future__ import annotations

import os

from hsfiq.errors import ConfigError, HsfiqError
from hsfiq.live.client import TIMEOUT, LiveRetriever
from hsfiq.study.config import StudyConfig
from hsfiq.study.searching.config import Retriever
from hsfiq.study.searching.drawing import Described


def describe_retrievers(config: StudyConfig) -> dict[str, Described]:
    """Ask the study's retrievers; `ConfigError` unless each can serve the study."""
    return {
        retriever.name: describe(config, retriever, f"searches.retrievers.{number}")
        for number, retriever in enumerate(config.searches.retrievers, start=1)
    }


def describe(config: StudyConfig, retriever: Retriever, key: str) -> Described:
    try:
        with connected(retriever) as live:
            system, corpus = live.system(), live.corpus()
    except HsfiqError as error:
        what = f"{retriever.name} does not serve searches: {error.what}"
        raise ConfigError(
            f"{key}.url", what, error.remedy or "see `hsfiq retrieve check`"
        ) from error
    history, k = config.searches.history, config.design.k
    if history not in system.histories:
        known = ", ".join(system.histories)
        raise ConfigError(
            "searches.history", f"{retriever.name} has only {known}", "use one of them"
        )
    if k > min(system.max_k, system.corpus.size):
        most = min(system.max_k, system.corpus.size)
        raise ConfigError("design.k", f"{retriever.name} lists {most} images at most", "lower it")
    if config.searches.uploads and not system.accepts_images:
        raise ConfigError(
            "searches.uploads",
            f"{retriever.name} accepts no pictures of participants",
            "leave it out, or choose systems that accept them",
        )
    searched = system.corpus
    return Described(
        system.version, searched.name, searched.size, searched.sha256, frozenset(corpus)
    )


def connected(retriever: Retriever, timeout: float = TIMEOUT) -> LiveRetriever:
    """A client with the retriever's token; nothing is sent yet."""
    token = None
    if retriever.token_variable:
        token = os.environ.get(retriever.token_variable)
        if not token:
            raise HsfiqError(
                "is not set",
                where=f"the environment variable {retriever.token_variable}",
                remedy=f"set it to the token of {retriever.name}",
            )
    return LiveRetriever(retriever.url, token, timeout)
