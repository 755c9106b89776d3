"""Asking a live retriever for the list of a turn.

The text of the turn is stored before, and the list afterwards, each in a transaction of its own, so
that no transaction lasts as long as the retriever takes.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import datetime
from threading import Lock

from sqlalchemy import select
from sqlalchemy.orm import Session

from hsfiq.collect.searching.sessions import SearchState, images_by_key
from hsfiq.db.searches.tables import SearchItem, SearchList
from hsfiq.db.tables import Image, System
from hsfiq.live.client import LiveRetriever
from hsfiq.live.protocol import (
    RankReply,
    RankRequest,
    RetrieverUnavailable,
    Search,
    TargetRank,
    Turn,
)
from hsfiq.study.config import config_of
from hsfiq.study.searching.config import Retriever
from hsfiq.study.searching.retrievers import connected

TIMEOUT = 8.0
"""Seconds after which participants are told that the search does not answer."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """What a retriever is asked, and for which turn."""

    turn_id: int
    retriever: Retriever
    request: RankRequest


@dataclass(frozen=True, slots=True)
class Answered:
    """The retriever's reply, and how long it took."""

    reply: RankReply
    seconds: float


@dataclass(frozen=True, slots=True)
class Retrievers:
    """The clients of all retrievers, which keep their connections."""

    _clients: dict[Retriever, LiveRetriever] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def ask(self, prepared: Prepared) -> Answered:
        """The list of a turn; `HsfiqError` if the retriever does not give it."""
        begun = time.monotonic()
        reply = self.client(prepared.retriever).rank_once(prepared.request)
        return Answered(reply, round(time.monotonic() - begun, 4))

    def close(self) -> None:
        with self._lock:
            for client in self._clients.values():
                client.close()
            self._clients.clear()

    def client(self, retriever: Retriever) -> LiveRetriever:
        with self._lock:
            if retriever not in self._clients:
                self._clients[retriever] = connected(retriever, TIMEOUT)
            return self._clients[retriever]


def prepare(session: Session, state: SearchState) -> Prepared:
    """The request for the last turn of a search."""
    config = config_of(state.question.pair.study)
    item = select(System.name).join(SearchItem, SearchItem.system_id == System.id)
    name = session.scalars(item.where(SearchItem.pair_id == state.question.pair_id)).one()
    retriever = next(each for each in config.searches.retrievers if each.name == name)
    keys = {turn.asked.reference_id for turn in state.turns}
    for turn in state.turns:
        keys.update(turn.listed.image_ids if turn.listed else ())
    images = images_by_key(session, keys)
    turns = [
        Turn(
            reference=images[turn.asked.reference_id].name,
            text=turn.asked.text,
            shown=tuple(images[key].name for key in turn.listed.image_ids) if turn.listed else (),
        )
        for turn in state.turns
    ]
    target = None if config.searches.task == "own-wish" else state.triplet.target
    targets = () if target is None else (target.name,)
    search = Search(turns=tuple(turns), targets=targets)
    request = RankRequest(searches=(search,), history=config.searches.history, k=config.design.k)
    return Prepared(state.turns[-1].asked.id, retriever, request)


def store_list(
    session: Session, state: SearchState, prepared: Prepared, answered: Answered, now: datetime
) -> None:
    """Store a turn's list, unless a request of another tab has done so.

    `RetrieverUnavailable` if it names an image that the study does not have.
    """
    if not state.awaits_list or state.turns[-1].asked.id != prepared.turn_id:
        return
    (ranked,) = answered.reply.lists
    dataset = state.triplet.dataset_id
    named = select(Image.name, Image.id).where(
        Image.dataset_id == dataset, Image.name.in_(ranked.image_ids)
    )
    keys = dict(session.execute(named).all())
    unknown = [name for name in ranked.image_ids if name not in keys]
    if unknown or not ranked.image_ids:
        what = f"lists {unknown[0]!r}, which the study lacks" if unknown else "lists no image"
        raise RetrieverUnavailable(prepared.retriever.url, what)
    target: TargetRank | None = next(iter(ranked.targets), None)
    session.add(
        SearchList(
            turn_id=prepared.turn_id,
            side=1,
            listed_at=now,
            seconds=answered.seconds,
            image_ids=[keys[name] for name in ranked.image_ids],
            scores=list(ranked.scores),
            rank=target and target.rank,
            ties=target and target.ties,
            system_version=answered.reply.version,
            corpus_sha256=answered.reply.corpus_sha256,
        )
    )
    session.flush()
