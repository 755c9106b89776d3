"""Playing sessions: a ranker answers, and a simulated user asks the next round.

The sessions of a batch go on together, so that the ranker is asked once a round for all of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from random import Random
from time import perf_counter

from pydantic import ValidationError

from hsfiq.drawn.garments import generator
from hsfiq.errors import UnreadableInput
from hsfiq.live.protocol import History, RankedList, Ranker, Search, SystemDescription, Turn
from hsfiq.sessions.record import Corpus, Round, Session, Stop, StopReason


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """What a session begins with.

    Attributes:
        session_id: of the session; None for the query's id with the seed.
        excluded: images that are no candidates in any round.
        is_simulated: the script that is asked is known not to be people's.
    """

    query_id: str
    reference: str | None
    text: str
    targets: tuple[str, ...]
    excluded: tuple[str, ...] = ()
    category: str | None = None
    session_id: str | None = None
    is_simulated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How sessions are played.

    Attributes:
        rounds: the most of a session; None for as many as there are texts.
        k: the images that are shown.
        stop_at: a session ends when the rank is this or better; None to go on.
        batch: the sessions that go on together.
    """

    history: History = "mean"
    rounds: int | None = 5
    k: int = 10
    stop_at: int | None = None
    seed: int = 0
    batch: int = 64

    def session_id(self, query: Query) -> str:
        return query.session_id or f"{query.query_id}/{self.seed}"


@dataclass(slots=True)
class Progress:
    """A session that is being played; `rng` depends on the seed and the query alone."""

    query: Query
    rng: Random
    rounds: list[Round] = field(default_factory=list)
    stop: Stop | None = None

    def end(self, reason: StopReason) -> None:
        self.stop = Stop(reason=reason, round=len(self.rounds))


class User(ABC):
    """Who asks: the reference and the text of each round.

    Attributes:
        simulator, version, chooser: as in the record of a session.
        parallel: how many sessions may be asked for at the same time.
    """

    simulator: str
    version: str | None = None
    chooser: str | None = None
    parallel: int = 1

    @abstractmethod
    def ask(self, progress: Progress) -> Round | None:
        """The next round without its list; None if there is nothing to ask."""

    def costs(self) -> dict[str, int]:
        """What asking has cost so far; empty if it costs nothing."""
        return {}


def play(ranker: Ranker, queries: Sequence[Query], user: User, settings: Settings) -> list[Session]:
    """Play one session for each query, as one batch.

    Raises:
        UnreadableInput: a round cannot be asked, as it has no reference or too long a text.
        RetrieverUnavailable, RetrieverRefused: the ranker does not answer.
    """
    sessions = [Progress(each, generator(settings.seed, each.query_id)) for each in queries]
    going_on = sessions
    while going_on:
        asked = ask_all(going_on, user)
        going_on = [each for each in going_on if each.stop is None]
        answer_all(ranker, going_on, asked, settings)
        going_on = [each for each in going_on if each.stop is None]
    description = ranker.system()
    return [record_of(each, description, user, settings) for each in sessions]


def ask_all(sessions: Sequence[Progress], user: User) -> list[Round]:
    """The next round of each session that goes on; a session without one ends."""
    if user.parallel > 1:
        with ThreadPoolExecutor(user.parallel) as pool:
            asked = list(pool.map(user.ask, sessions))
    else:
        asked = [user.ask(each) for each in sessions]
    for session, each in zip(sessions, asked, strict=True):
        if each is None:
            session.end("no-feedback")
        elif session.rounds and each.reference in session.rounds[-1].shown:
            session.rounds[-1] = replace(session.rounds[-1], candidate=each.reference)
    return [each for each in asked if each is not None]


def answer_all(
    ranker: Ranker, sessions: Sequence[Progress], asked: Sequence[Round], settings: Settings
) -> None:
    """Add each asked round with its list, and end the sessions that it completes."""
    if not sessions:
        return
    searches = [search_of(each, new) for each, new in zip(sessions, asked, strict=True)]
    started = perf_counter()
    lists = ranker.rank(searches, settings.history, settings.k)
    seconds = (perf_counter() - started) / len(searches)
    for session, new, ranked in zip(sessions, asked, lists, strict=True):
        answered = with_list(new, ranked, seconds)
        session.rounds.append(answered)
        if settings.stop_at is not None and (answered.rank or 0) <= settings.stop_at:
            session.end("found")
        elif settings.rounds is not None and len(session.rounds) == settings.rounds:
            session.end("max-rounds")


def search_of(progress: Progress, new: Round) -> Search:
    """All turns of a session so far, with the new one."""
    where = f"query {progress.query.query_id}: round {new.round}"
    turns = []
    for each in (*progress.rounds, new):
        if each.reference is None or each.text is None:
            missing = "reference image" if each.reference is None else "text"
            raise UnreadableInput(where, f"has no {missing}", "a live retriever needs both")
        try:
            turns.append(Turn(reference=each.reference, text=each.text, shown=each.shown))
        except ValidationError as error:
            raise UnreadableInput(where, error.errors()[0]["msg"]) from error
    query = progress.query
    return Search(turns=tuple(turns), exclude=query.excluded, targets=query.targets)


def with_list(new: Round, ranked: RankedList, seconds: float) -> Round:
    best = min(ranked.targets, key=lambda target: target.rank)
    return replace(
        new,
        shown=ranked.image_ids,
        scores=ranked.scores,
        rank=best.rank,
        ties=best.ties,
        seconds=round(seconds, 6),
    )


def record_of(
    progress: Progress, system: SystemDescription, user: User, settings: Settings
) -> Session:
    query, corpus = progress.query, system.corpus
    return Session(
        session_id=settings.session_id(query),
        query_id=query.query_id,
        system=system.name,
        system_version=system.version,
        simulator=user.simulator,
        simulator_version=user.version,
        history=settings.history,
        chooser=user.chooser,
        corpus=Corpus(name=corpus.name, size=corpus.size, sha256=corpus.sha256),
        category=query.category,
        is_simulated=query.is_simulated,
        seed=settings.seed,
        targets=query.targets,
        excluded=query.excluded,
        stop_at=settings.stop_at,
        max_rounds=settings.rounds,
        rounds=tuple(progress.rounds),
        stop=progress.stop,
    )


def require_candidates(ranker: Ranker, queries: Iterable[Query]) -> None:
    """Refuse queries whose reference or target is not in the corpus.

    Raises:
        UnreadableInput: naming the first one.
    """
    corpus = ranker.corpus()
    known = frozenset(corpus)
    for query in queries:
        for role, image in [
            ("reference", query.reference),
            *(("target", t) for t in query.targets),
        ]:
            if image is not None and image not in known:
                raise UnreadableInput(
                    f"query {query.query_id}",
                    f"its {role} {image} is not one of the {len(corpus):,} images of the corpus",
                    "let the system search in the images of --data",
                )
        if not query.targets or set(query.targets) & set(query.excluded):
            raise UnreadableInput(
                f"query {query.query_id}",
                "its target is not known" if not query.targets else "its target is excluded",
                "sessions need queries with a target among the candidates",
            )
