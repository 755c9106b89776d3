"""Asking live retrievers for the lists of a turn.

The text of the turn is stored before, and its lists afterwards, in transactions of their own, so
that no transaction lasts as long as the retrievers take. Two retrievers are asked at the same time,
and both lists are stored together: how fast a system is does not show.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from threading import Lock

from sqlalchemy import select
from sqlalchemy.orm import Session

from hsfiq.collect.searching.state import SearchState, images_by_key
from hsfiq.db.searches.tables import SearchItem, SearchList
from hsfiq.db.tables import Image, System
from hsfiq.live.client import LiveRetriever
from hsfiq.live.protocol import (
    RankReply,
    RankRequest,
    RetrieverUnavailable,
    Search,
    Turn,
    as_base64,
)
from hsfiq.study.config import config_of
from hsfiq.study.searching.config import Retriever
from hsfiq.study.searching.retrievers import connected

TIMEOUT = 8.0
"""Seconds after which participants are told that the search does not answer."""


UPLOAD = "upload"
"""Begins the id of an uploaded picture in a request; its digest follows, as ids of images may be
any text."""

AT_ONCE = 40
"""Lists that are awaited at the same time, besides the first ones of their turns."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """What retrievers are asked, that of side 1 first, and for which turn."""

    turn_id: int
    retrievers: tuple[Retriever, ...]
    request: RankRequest


@dataclass(frozen=True, slots=True)
class Answered:
    """A retriever's reply, and how long it took."""

    reply: RankReply
    seconds: float


@dataclass(frozen=True, slots=True)
class Retrievers:
    """The clients of all retrievers, which keep their connections."""

    _clients: dict[Retriever, LiveRetriever] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)
    _pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(AT_ONCE))

    def ask(self, prepared: Prepared) -> list[Answered]:
        """The lists of a turn, of each side; `HsfiqError` unless every retriever gives its own."""
        first, *others = prepared.retrievers
        awaited = [self._pool.submit(self._ask, other, prepared.request) for other in others]
        return [
            self._ask(first, prepared.request),
            *(answered.result() for answered in awaited),
        ]

    def _ask(self, retriever: Retriever, request: RankRequest) -> Answered:
        begun = time.monotonic()
        reply = self.client(retriever).rank_once(request)
        return Answered(reply, round(time.monotonic() - begun, 4))

    def close(self) -> None:
        with self._lock:
            for client in self._clients.values():
                client.close()
            self._clients.clear()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def client(self, retriever: Retriever) -> LiveRetriever:
        with self._lock:
            if retriever not in self._clients:
                self._clients[retriever] = connected(retriever, TIMEOUT)
            return self._clients[retriever]


def prepare(session: Session, state: SearchState) -> Prepared:
    """The request for the last turn of a search."""
    config = config_of(state.question.pair.study)
    by_name = {retriever.name: retriever for retriever in config.searches.retrievers}
    names = session.scalars(
        select(System.name)
        .join(SearchItem, SearchItem.system_id == System.id)
        .where(SearchItem.pair_id == state.question.pair_id)
        .order_by(SearchItem.side)
    )
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
    request = RankRequest(searches=(search,), history=config.searches.history, k=config.design.k)
    retrievers = tuple(by_name[name] for name in names)
    return Prepared(state.turns[-1].asked.id, retrievers, request)


def pictures_of(state: SearchState) -> dict[str, str]:
    """The uploaded picture that a text is about, under an id that no image of the study has."""
    upload = state.upload
    if upload is None or all(turn.asked.reference_id is not None for turn in state.turns):
        return {}
    return {f"{UPLOAD}-{upload.sha256}": as_base64(upload.content)}


def store_lists(
    session: Session,
    state: SearchState,
    prepared: Prepared,
    answered: Sequence[Answered],
    now: datetime,
) -> None:
    """Store a turn's lists, unless another tab has done so or has stopped the search.

    `RetrieverUnavailable` if one names an image that the study does not have.
    """
    if not state.awaits_list or state.turns[-1].asked.id != prepared.turn_id:
        return
    sides = zip(prepared.retrievers, answered, strict=True)
    for side, (retriever, answer) in enumerate(sides, start=1):
        (ranked,) = answer.reply.lists
        target = next(iter(ranked.targets), None)
        session.add(
            SearchList(
                turn_id=prepared.turn_id,
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
        what = f"lists {unknown[0]!r}, which the study lacks" if unknown else "lists no image"
        raise RetrieverUnavailable(retriever.url, what)
    return [keys[name] for name in names]
