"""Playing sessions: a ranker answers, and a simulated user asks the next round.

The sessions of a batch advance together, so that the ranker gets one request per round for all of
them.
"""

from __future__ import annotations

import json
import re
import shutil
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from random import Random
from time import perf_counter
from typing import Any

from pydantic import ValidationError

from hsfiq.atomic_files import explained_write_errors, sync, write_whole
from hsfiq.drawn.garments import generator
from hsfiq.errors import UnreadableInput
from hsfiq.live.protocol import History, RankedList, Ranker, Search, SystemDescription, Turn
from hsfiq.sessions import record
from hsfiq.sessions.record import Corpus, Round, Session, Stop, StopReason, references


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """The start of a session.

    Attributes:
        session_id: of the session; None for the query's id with the seed.
        excluded: images that are no candidates in any round.
        is_simulated: the script is known to be simulated.
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
    """The settings of played sessions.

    Attributes:
        rounds: the most of a session; None for as many as there are texts.
        k: the images that are shown.
        stop_at: a session ends when the rank is this or better; None to go on.
        batch: the number of sessions that advance together.
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
    """The simulated user, who gives the reference and the text of each round.

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
        """The cost of questions so far; empty if free."""
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
                "its target is unknown" if not query.targets else "its target is excluded",
                "sessions need queries with a target among the candidates",
            )


# Which image of a list the next text is about.

Chooser = Callable[[Progress], str]
"""Chooses from the images that the last round shows."""

Distance = Callable[[str, str], float]
"""How different two images are."""

RANDOM = re.compile(r"random-([1-9]\d{0,3})")


def top1(progress: Progress) -> str:
    """The first image, as in FISD."""
    return progress.rounds[-1].shown[0]


def unseen(progress: Progress) -> str:
    """The first image that no text was about; the first one if there is none."""
    shown, seen = progress.rounds[-1].shown, set(references(progress.rounds))
    return next((image for image in shown if image not in seen), shown[0])


def random_of(n: int) -> Chooser:
    """One of the first n images, as in FISD's table 6."""
    return lambda progress: progress.rng.choice(progress.rounds[-1].shown[:n])


def nearest(distance: Distance) -> Chooser:
    """The image most similar to the target, as in CIRCLED; the first of several."""

    def choose(progress: Progress) -> str:
        target = progress.query.targets[0]
        return min(progress.rounds[-1].shown, key=lambda image: distance(image, target))

    return choose


def chooser_of(name: str, distance: Distance | None = None) -> tuple[Chooser, int]:
    """The chooser of a name, and how many images it needs to be shown.

    Raises:
        UnreadableInput: there is no such chooser, or `nearest` has no distance.
    """
    if match := RANDOM.fullmatch(name):
        return random_of(int(match[1])), int(match[1])
    if name == "nearest" and distance is None:
        raise UnreadableInput(
            "--choose",
            "nearest needs the similarity of images, which is known only for drawn garments",
            "use top1, unseen or random-10",
        )
    if name == "nearest" and distance is not None:
        return nearest(distance), 1
    if name in ("top1", "unseen"):
        return {"top1": top1, "unseen": unseen}[name], 1
    raise UnreadableInput(
        "--choose", f"{name!r} is not known", "use top1, unseen, nearest or random-K"
    )


# A play that goes on after it was stopped: its sessions are kept beside the output.
#
# Every batch is on the disk before the next one is played. The output is written at the end.


@dataclass(frozen=True, slots=True)
class Unfinished:
    """The folder of a play whose output does not exist yet."""

    out: Path
    done: dict[str, Session]

    @classmethod
    def open(cls, out: Path, identity: Mapping[str, object]) -> Unfinished:
        """Begin a play, or resume a stopped one.

        Raises:
            UnreadableInput: the output exists, cannot be written, or the play that was stopped had
                another identity.
        """
        if out.exists():
            raise UnreadableInput(str(out), "exists already", "name another file with --out")
        unfinished = cls(out, {})
        about = unfinished.folder / "play.json"
        with explained_write_errors(out, "name another with --out"):
            unfinished.folder.mkdir(exist_ok=True)
            if not about.exists():
                write_whole(about, json.dumps(identity, indent=2).encode())
        before = json.loads(about.read_text(encoding="utf-8"))
        if differing := [key for key in identity if before.get(key) != identity[key]]:
            raise UnreadableInput(
                str(unfinished.folder),
                f"holds sessions of a play with another {differing[0]}",
                "remove it, or name another --out",
            )
        unfinished._read()
        return unfinished

    @property
    def folder(self) -> Path:
        return self.out.with_name(f".{self.out.name}.play")

    @property
    def _lines(self) -> Path:
        return self.folder / "sessions.jsonl"

    def _read(self) -> None:
        """Read what is complete; a line that a kill has cut off is removed."""
        if not self._lines.exists():
            return
        content = self._lines.read_bytes()
        complete = content[: content.rfind(b"\n") + 1]
        if complete != content:
            write_whole(self._lines, complete)
        if complete:
            self.done.update((each.session_id, each) for each in record.read(self._lines))

    def add(self, sessions: Sequence[Session]) -> None:
        """Append the sessions that are new, and wait until they are on the disk."""
        new = [each for each in sessions if each.session_id not in self.done]
        with explained_write_errors(self.out), self._lines.open("ab") as file:
            file.write("".join(map(record.line_of, new)).encode())
        sync(self._lines)
        self.done.update((each.session_id, each) for each in new)

    def finish(self, session_ids: Sequence[str]) -> tuple[Session, ...]:
        """Write the output in this order, and remove the folder."""
        sessions = tuple(self.done[each] for each in session_ids)
        record.write(self.out, sessions)
        shutil.rmtree(self.folder)
        return sessions


# Playing all queries of a benchmark's parts, in batches that survive a stop.

Track = Callable[
    [Sequence[tuple["Part", Sequence[Query]]]], Iterable[tuple["Part", Sequence[Query]]]
]


@dataclass(frozen=True, slots=True)
class Part:
    """Queries that are searched in one corpus."""

    ranker: Ranker
    queries: tuple[Query, ...]


def play_parts(
    parts: Sequence[Part], user: User, settings: Settings, out: Path, track: Track
) -> tuple[Session, ...]:
    """Play every query and write the sessions; `track` iterates over batches.

    Raises:
        UnreadableInput: a query cannot be played, the system does not know the history, or the
            output exists or belongs to another play.
    """
    ids = [settings.session_id(query) for part in parts for query in part.queries]
    if len(set(ids)) < len(ids):
        twice = Counter(ids).most_common(1)[0][0]
        raise UnreadableInput("--data", f"session {twice!r} would be played twice")
    for part in parts:
        require_candidates(part.ranker, part.queries)
        require_history(part.ranker, settings)
    unfinished = Unfinished.open(out, identity(parts, user, settings))
    batches = [
        (part, part.queries[start : start + settings.batch])
        for part in parts
        for start in range(0, len(part.queries), settings.batch)
    ]
    for part, queries in track(batches):
        if not all(settings.session_id(query) in unfinished.done for query in queries):
            unfinished.add(play(part.ranker, queries, user, settings))
    return unfinished.finish(ids)


def require_history(ranker: Ranker, settings: Settings) -> None:
    system = ranker.system()
    if settings.history not in system.histories:
        raise UnreadableInput(
            "--history",
            f"{system.name} does not support {settings.history}",
            f"use {', '.join(system.histories)}",
        )


def identity(parts: Sequence[Part], user: User, settings: Settings) -> dict[str, Any]:
    """The identity of a play; a play with another identity cannot resume its sessions."""
    systems = [part.ranker.system() for part in parts]
    queries = json.dumps([asdict(query) for part in parts for query in part.queries])
    return {
        "system": [[each.name, each.version, each.corpus.sha256] for each in systems],
        "queries": sha256(queries.encode()).hexdigest(),
        "simulator": [user.simulator, user.version],
        "chooser": user.chooser,
        **asdict(settings),
    }


def summary(sessions: Sequence[Session]) -> dict[str, Any]:
    """The summary of a play, for the command's output."""
    first = sessions[0]
    stops = Counter(each.stop.reason for each in sessions if each.stop is not None)
    return {
        "n_sessions": len(sessions),
        "n_rounds": sum(len(each.rounds) for each in sessions),
        "system": first.system,
        "simulator": first.simulator,
        "history": first.history,
        "chooser": first.chooser,
        "stops": dict(stops.most_common()),
    }
