"""The live retrievers of a study: their descriptions, and requests for the lists of a turn."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import datetime
from functools import cache, partial
from threading import Lock

from sqlalchemy import select
from sqlalchemy.orm import Session

from hsfiq.collect.searches import SearchState, images_by_key
from hsfiq.db.search_tables import SearchItem, SearchList
from hsfiq.db.source_tables import Image, System
from hsfiq.errors import ConfigError, HsfiqError
from hsfiq.kinds.search_rows import Retriever
from hsfiq.live.client import TIMEOUT, Answered, LiveRetriever
from hsfiq.live.protocol import RankRequest, RetrieverUnavailable, Search, Turn, as_base64
from hsfiq.live.shared_retriever import SharedRetriever
from hsfiq.study.config import StudyConfig, config_of
from hsfiq.study.searches import Described

# Asking a study's live retrievers what they are, and which images they search.
#
# Only who talks to retrievers imports this module: the core install lacks what it needs.


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
        what = f"{retriever.name} cannot serve searches: {error.what}"
        raise ConfigError(
            f"{key}.url", what, error.remedy or "see `hsfiq retriever check`"
        ) from error
    history, k = config.searches.history, config.design.k
    if history not in system.histories:
        known = ", ".join(system.histories)
        raise ConfigError(
            "searches.history", f"{retriever.name} has only {known}", "use one of these methods"
        )
    if k > min(system.max_k, system.corpus.size):
        most = min(system.max_k, system.corpus.size)
        raise ConfigError("design.k", f"{retriever.name} lists {most} images at most", "lower it")
    if config.searches.uploads and not system.accepts_images:
        raise ConfigError(
            "searches.uploads",
            f"{retriever.name} does not accept participants' pictures",
            "leave it out, or choose systems that accept pictures",
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


# Asking live retrievers for the lists of a turn.
#
# The text of the turn is stored before, and its lists afterwards, in transactions of their own, so
# that no transaction lasts as long as the retrievers take, and no thread waits for them. Two
# retrievers are asked at the same time, and both lists are stored together: how fast a system is
# does not show.

TURN_TIMEOUT = 8.0
"""The timeout of a search, in seconds."""


UPLOAD = "upload"
"""Begins the id of an uploaded picture in a request; its digest follows, as ids of images may be
any text."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A turn with pending lists, each with its retriever, side 1 first."""

    turn_id: int
    retrievers: tuple[Retriever, ...]
    awaited: tuple[Future[Answered], ...] = ()

    async def lists(self) -> list[Answered]:
        """Those of each side; `HsfiqError` unless every retriever gives its own.

        No thread blocks, and several callers may wait for the same lists.
        """
        waiting = [asyncio.shield(asyncio.wrap_future(each)) for each in self.awaited]
        return await asyncio.gather(*waiting)


class Retrievers:
    """The clients of all retrievers, which keep their connections."""

    def __init__(self) -> None:
        self._shared: dict[Retriever, SharedRetriever] = {}
        self._lock = Lock()

    def ask(self, session: Session, state: SearchState) -> Asked:
        """Request the lists of a search's last turn, or join a pending request."""
        turn_id, person = state.turns[-1].asked.id, state.question.form.participant_id or 0
        retrievers = retrievers_of(session, state)
        shared = [self.shared(retriever) for retriever in retrievers]
        for each in shared:
            each.require_ready(turn_id)
        request = cache(partial(request_for, session, state))
        awaited = tuple(each.ranking(turn_id, person, request) for each in shared)
        return Asked(turn_id, retrievers, awaited)

    def close(self) -> None:
        with self._lock:
            for shared in self._shared.values():
                shared.close()
            self._shared.clear()

    def shared(self, retriever: Retriever) -> SharedRetriever:
        with self._lock:
            if retriever not in self._shared:
                self._shared[retriever] = SharedRetriever(connected(retriever, TURN_TIMEOUT))
            return self._shared[retriever]


def retrievers_of(session: Session, state: SearchState) -> tuple[Retriever, ...]:
    """Those of a search, that of side 1 first."""
    searches = config_of(state.question.pair.study).searches
    by_name = {retriever.name: retriever for retriever in searches.retrievers}
    names = session.scalars(
        select(System.name)
        .join(SearchItem, SearchItem.system_id == System.id)
        .where(SearchItem.pair_id == state.question.pair_id)
        .order_by(SearchItem.side)
    )
    return tuple(by_name[name] for name in names)


def request_for(session: Session, state: SearchState) -> RankRequest:
    """The request for the last turn of a search."""
    config = config_of(state.question.pair.study)
    keys = {key for turn in state.turns if (key := turn.asked.reference_id) is not None}
    for turn in state.turns:
        keys.update(turn.image_ids)
    images = images_by_key(session, keys)
    pictures = pictures_of(state)
    (picture,) = pictures or ("",)
    turns = [
        Turn(
            reference=(
                picture if turn.asked.reference_id is None else images[turn.asked.reference_id].name
            ),
            text=turn.asked.text or "",  # only imported searches, which are over, may lack it
            shown=tuple(dict.fromkeys(images[key].name for key in turn.image_ids)),
        )
        for turn in state.turns
    ]
    target = None if config.searches.task == "own-wish" else state.triplet.target
    targets = () if target is None else (target.name,)
    search = Search(turns=tuple(turns), targets=targets, images=pictures)
    return RankRequest(searches=(search,), history=config.searches.history, k=config.design.k)


def pictures_of(state: SearchState) -> dict[str, str]:
    """The uploaded picture that a text is about, under an id that no image of the study has."""
    upload = state.upload
    if upload is None or all(turn.asked.reference_id is not None for turn in state.turns):
        return {}
    return {f"{UPLOAD}-{upload.sha256}": as_base64(upload.content)}


def store_lists(
    session: Session,
    state: SearchState,
    asked: Asked,
    answered: Sequence[Answered],
    now: datetime,
) -> None:
    """Store a turn's lists, unless another tab has done so or has stopped the search.

    `RetrieverUnavailable` if one names an image that the study does not have.
    """
    if not state.awaits_list or state.turns[-1].asked.id != asked.turn_id:
        return
    sides = zip(asked.retrievers, answered, strict=True)
    for side, (retriever, answer) in enumerate(sides, start=1):
        (ranked,) = answer.reply.lists
        target = next(iter(ranked.targets), None)
        session.add(
            SearchList(
                turn_id=asked.turn_id,
                side=side,
                listed_at=now,
                seconds=answer.seconds,
                image_ids=image_keys(session, state, retriever, ranked.image_ids),
                scores=list(ranked.scores),
                rank=target and target.rank,
                ties=target and target.ties,
                system_version=answer.reply.version,
                corpus_sha256=answer.reply.corpus_sha256,
            )
        )
    session.flush()


def image_keys(
    session: Session, state: SearchState, retriever: Retriever, names: Sequence[str]
) -> list[int]:
    dataset = state.triplet.dataset_id
    named = select(Image.name, Image.id).where(Image.dataset_id == dataset, Image.name.in_(names))
    keys = dict(session.execute(named).all())
    unknown = [name for name in names if name not in keys]
    if unknown or not names:
        what = f"lists {unknown[0]!r}, which is not in the study" if unknown else "lists no image"
        raise RetrieverUnavailable(retriever.url, what)
    return [keys[name] for name in names]
