"""The arena of `hsfiq demo --arena`: its systems, its catalogue, its study and its password."""

from __future__ import annotations

import secrets
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path
from urllib.parse import urlsplit

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from hsfiq.access import matches, new_hash, owner_password, set_owner_password
from hsfiq.actors import Action, command_line
from hsfiq.atomic_files import new_private_file
from hsfiq.audit import record
from hsfiq.collect.retrievers import describe_retrievers
from hsfiq.collect.studies import find_study
from hsfiq.db.engine import Database
from hsfiq.db.tables import Form, Study
from hsfiq.demo import loop
from hsfiq.demo.study import (
    FEATURE_FOLDER,
    IMAGE_FOLDER,
    SPLIT,
    database_url,
    draw_catalogue,
    draw_queries,
    store_queries,
)
from hsfiq.demo.study import NAME as DATASET
from hsfiq.drawn import pictures
from hsfiq.drawn.garments import CATEGORIES
from hsfiq.errors import HsfiqError, UnreadableInput
from hsfiq.http_server import listening
from hsfiq.kinds.search_rows import Retriever, Searches
from hsfiq.signals import Signals
from hsfiq.study.config import Checks, Design, Presentation, Queries, StudyConfig, config_of
from hsfiq.study.design import draw_study

NAME = "arena"
TITLE, SIMULATED_TITLE = (
    "Which search finds what you want?",
    "Arena of the drawn catalogue, with simulated participants",
)
PASSWORD_FILE = "owner-password.txt"  # noqa: S105 (the name of a file)

TRAINED = "trained"
"""A file in the folder of a training that has ended."""

SEARCHES = 3
"""Of a participant: each of the three pairs of systems once."""
PER_QUERY = 3
"""Participants who search from the same reference."""


@dataclass(frozen=True, slots=True)
class ArenaSizes:
    """How much the arena trains and holds.

    Attributes:
        systems: the recipes of the systems, by their names.
        training: further options of their training.
        queries: of each category; each is the start of `PER_QUERY` searches.
    """

    systems: tuple[tuple[str, str], ...] = (
        ("CLIP4CIR in miniature", "clip4cir"),
        ("SPRC in miniature", "sprc"),
        ("CoVR-BLIP in miniature", "covr-blip"),
    )
    training: tuple[str, ...] = ()
    queries: int = 40


def training_steps(folder: Path, seed: int, sizes: ArenaSizes) -> dict[Path, loop.Step]:
    """The trainings that have not ended yet, by the files that will say so; each can resume."""
    recipes = tuple(recipe for _, recipe in sizes.systems)
    small = replace(loop.STANDARD, systems=recipes, system_training=sizes.training)
    steps = {
        folder / loop.SYSTEMS / recipe / TRAINED: loop.train_system(recipe, folder, seed, small)
        for recipe in recipes
    }
    return {mark: step for mark, step in steps.items() if not mark.is_file()}


def retriever_process(folder: Path, recipe: str, port: int) -> list[str]:
    """The words of the command that serves a system."""
    return [
        *("retriever", "serve", "--checkpoint", str(folder / loop.SYSTEMS / recipe)),
        *("--images", str(folder / IMAGE_FOLDER), "--cache", str(folder / FEATURE_FOLDER)),
        *("--port", str(port)),
    ]


def ports_of(study: Study) -> list[int]:
    """Where the study expects its retrievers."""
    return [urlsplit(each.url).port or 0 for each in config_of(study).searches.retrievers]


def places_in(session: Session, study: Study) -> int:
    """How many participants the study has questions for."""
    return session.scalar(select(func.count(Form.id)).where(Form.study_id == study.id)) or 0


def queries_for(answers: int | None, sizes: ArenaSizes) -> int:
    """How many queries of each category the searches need."""
    return max(sizes.queries, ceil((answers or 0) / (PER_QUERY * len(CATEGORIES))) + 1)


def draw_pictures(folder: Path, seed: int, n_queries: int) -> None:
    """Draw the pictures of the catalogue in which the retrievers search."""
    pictures.write_images(draw_catalogue(seed, n_queries), folder / IMAGE_FOLDER)


def make_arena(
    database: Database,
    folder: Path,
    seed: int,
    retrievers: tuple[Retriever, ...],
    n_queries: int,
    origin: str,
) -> None:
    """Draw the study, open to all; its retrievers must be running."""
    garments = draw_catalogue(seed, n_queries)
    queries = draw_queries(seed, garments, n_queries, SPLIT)
    config = StudyConfig(
        study=Presentation(
            name=NAME,
            title=SIMULATED_TITLE if origin == "simulated" else TITLE,
            languages=("en", "ko"),
        ),
        design=Design(
            kind="arena",
            questions_per_form=SEARCHES,
            forms_per_participant=1,
            annotators_per_query=PER_QUERY,
            categories="mixed",
            seed=seed,
        ),
        checks=Checks(arithmetic=False),
        queries=Queries(dataset=DATASET),
        searches=Searches(task="own-wish", retrievers=retrievers),
    )
    described = describe_retrievers(config)
    with database.writing() as session:
        keys = store_queries(session, folder, garments, queries, ())
        draw_study(session, config, keys, origin=origin, retrievers=described)
        record(session, command_line(), Action.STUDY_CREATE, study=config.study.name)


def owners_password(database: Database, folder: Path) -> str | None:
    """The password of the studio, made once; None if the owner has set another one."""
    path = folder / PASSWORD_FILE
    with database.writing() as session:
        stored = owner_password(session)
        if stored is None:
            password = secrets.token_urlsafe(12)
            path.unlink(missing_ok=True)
            with new_private_file(path) as draft:
                draft.write_text(f"{password}\n", encoding="utf-8")
            set_owner_password(session, new_hash(password))
            record(session, command_line(), Action.PASSWORD_SET, about="owner")
            return password
    kept = path.read_text(encoding="utf-8").strip() if path.is_file() else ""
    return kept if matches(stored, kept) else None


# Running the arena: trainings, then its retrievers and the app, each in a process of its own.
#
# Started again, it continues where it stopped. All processes end with this one.

HOST = "127.0.0.1"
Write = Callable[[str], None]


@dataclass(frozen=True)
class ArenaRun:
    """One start of the arena.

    Attributes:
        port: the app's; those after it are the retrievers' of a new arena.
        answers: the least number of searches by simulated participants; None for people.
        write, warn: print a line of output, or of errors.
    """

    database: Database
    folder: Path
    port: int
    seed: int
    answers: int | None
    sizes: ArenaSizes
    write: Write
    warn: Write

    def run(self) -> None:
        """Serve the arena until a signal is received.

        Raises:
            KeyboardInterrupt: a signal was received before the arena was served.
            HsfiqError: it cannot be served.
        """
        is_served = False
        try:
            with Signals() as signals, ExitStack() as stack:
                ports, origin = self._ports_and_origin()
                self._require_free(ports, exists=origin is not None)
                app = stack.enter_context(
                    loop.Server(loop.address_of(self.port), self.folder / loop.SERVER_LOG, signals)
                )
                n_trained = self._train(app, signals)
                self.write("\ndrawing the catalogue and starting the retrievers ...")
                n_queries = queries_for(self.answers, self.sizes)
                draw_pictures(self.folder, self.seed, n_queries)
                servers = {loop.SERVER_LOG: app} | self._retrievers(ports, stack, signals)
                if origin is None:
                    retrievers = tuple(
                        Retriever(name, f"http://127.0.0.1:{port}")
                        for (name, _), port in zip(self.sizes.systems, ports, strict=True)
                    )
                    make_arena(
                        self.database, self.folder, self.seed, retrievers, n_queries,
                        self._new_origin,
                    )  # fmt: skip
                password = owners_password(self.database, self.folder)
                self.database.close()
                loop.run_steps(
                    self._serving(), app, signals, self.write, self.warn, before=n_trained
                )
                self._say_where(password, simulated=(origin or self._new_origin) == "simulated")
                is_served = True
                self._watch(servers, signals)
        except KeyboardInterrupt:
            if not is_served:
                raise

    @property
    def _new_origin(self) -> str:
        return "collected" if self.answers is None else "simulated"

    def _ports_and_origin(self) -> tuple[list[int], str | None]:
        """The ports of the retrievers, and whose answers the study has; None if there is none yet.

        UnreadableInput: the study is not for these answers.
        """
        last = self.port + len(self.sizes.systems)
        with self.database.reading() as session:
            study = find_study(session, NAME)
            if study is None:
                if last > 65535:
                    raise UnreadableInput("--port", "has no ports after it", "choose a lower one")
                return list(range(self.port + 1, last + 1)), None
            if self.answers is not None and study.origin != "simulated":
                raise UnreadableInput(
                    str(self.folder),
                    f"holds an arena whose answers are {study.origin}",
                    "name another with --dir",
                )
            places = places_in(session, study)
            if self.answers is not None and self._participants > places:
                raise UnreadableInput(
                    "--answers",
                    f"the arena in {self.folder} has {places * SEARCHES:,} searches",
                    "lower it, or name another --dir",
                )
            return ports_of(study), study.origin

    def _require_free(self, ports: Sequence[int], *, exists: bool) -> None:
        """UnreadableInput, with what can be done, if a port is in use."""
        listening(HOST, self.port).close()
        for port in ports:
            try:
                listening(HOST, port).close()
            except UnreadableInput as error:
                remedy = (
                    f"end the program that uses it: the arena in {self.folder} needs it"
                    if exists
                    else "choose another --port: the retrievers use the three after it"
                )
                raise UnreadableInput(error.where, error.what, remedy) from error

    def _train(self, app: loop.Server, signals: Signals) -> int:
        """Train the systems that are not trained yet; how many there were."""
        steps = training_steps(self.folder, self.seed, self.sizes)
        n_later = len(steps) + len(self._serving()) - 1
        for done, (mark, step) in enumerate(steps.items()):
            loop.run_steps(
                [step], app, signals, self.write, self.warn, before=done, after=n_later - done
            )
            mark.touch()
        return len(steps)

    def _retrievers(
        self, ports: Sequence[int], stack: ExitStack, signals: Signals
    ) -> dict[str, loop.Server]:
        """The servers of the systems, by their logs' names; they answer."""
        servers = {}
        for (name, recipe), port in zip(self.sizes.systems, ports, strict=True):
            log = f"{recipe}.log"
            server = loop.Server(f"{loop.address_of(port)}/v1/system", self.folder / log, signals)
            servers[log] = stack.enter_context(server)
            words = retriever_process(self.folder, recipe, port)
            reason = server.start([sys.executable, "-m", "hsfiq", *words])
            if reason is not None:
                raise HsfiqError(
                    f"does not start: {reason}",
                    where=f"the retriever of {name}",
                    remedy="end what uses its port; a new arena can have another --port",
                )
            self.write(f"{name} answers at {loop.address_of(port)}")
        return servers

    @property
    def _participants(self) -> int:
        return ceil((self.answers or 0) / SEARCHES)

    def _serving(self) -> list[loop.Step]:
        """Serving the arena and, if wanted, letting simulated participants take part."""
        steps = [
            loop.Step(
                "Serve the arena",
                f"The app asks the retrievers. Its output goes to {self.folder / loop.SERVER_LOG}.",
                ("serve", "--database", database_url(self.folder), "--port", str(self.port)),
                serves=True,
            )
        ]
        if self.answers is not None:
            sessions = str(self.folder / "simulated-participants.json")
            steps.append(
                loop.Step(
                    "Let simulated participants search and vote",
                    "They search for garments over HTTP, as browsers do, and prefer the list with "
                    "the garment nearest to their wish, with noise. They stand in for people.",
                    (
                        *("simulate", loop.address_of(self.port), "--speed", "0"),
                        *("--participants", str(self._participants), "--seed", str(self.seed)),
                        *("--sessions", sessions),
                    ),
                    is_served=True,
                )
            )
        return steps

    def _say_where(self, password: str | None, *, simulated: bool) -> None:
        if simulated:
            self.write("\nSIMULATED: the votes come from simulated participants, not from people.")
        address = loop.address_of(self.port)
        login = f"with the password {password}" if password else "with the password that you set"
        self.write(
            f"\nthe arena is at {address}\n"
            f"its leaderboard is at {address}/leaderboard/{NAME}; first log in at "
            f"{address}/owner {login}\n"
            f"its database is {database_url(self.folder)}; Ctrl-C stops everything"
        )

    def _watch(self, servers: dict[str, loop.Server], signals: Signals) -> None:
        """Wait for a signal; HsfiqError if a server ends before."""
        while True:
            signals.heed()
            for log, server in servers.items():
                if server.exit_code is not None:
                    time.sleep(loop.POLL_SECONDS)  # Ctrl-C ends the servers, too
                    signals.heed()
                    raise HsfiqError(server.output(), where=str(self.folder / log))
            time.sleep(loop.POLL_SECONDS)
