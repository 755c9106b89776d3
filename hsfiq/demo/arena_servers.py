"""Running the arena: trainings, then its retrievers and the app, each in a process of its own.

Started again, it continues where it stopped. All processes end with this one.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from math import ceil
from pathlib import Path

from hsfiq.db.engine import Database
from hsfiq.demo.arena import (
    NAME,
    SEARCHES,
    ArenaSizes,
    draw_pictures,
    find_arena,
    make_arena,
    owners_password,
    places_in,
    ports_of,
    queries_for,
    retriever_process,
    retrievers_on,
    training_steps,
)
from hsfiq.demo.folder import database_url
from hsfiq.demo.loop import run_steps
from hsfiq.demo.processes import POLL_SECONDS, Server
from hsfiq.demo.steps import SERVER_LOG, Step, address_of
from hsfiq.errors import HsfiqError, UnreadableInput
from hsfiq.http_server import listening
from hsfiq.signals import Signals

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
                    Server(address_of(self.port), self.folder / SERVER_LOG, signals)
                )
                n_trained = self._train(app, signals)
                self.write("\ndrawing the catalogue and starting the retrievers ...")
                n_queries = queries_for(self.answers, self.sizes)
                draw_pictures(self.folder, self.seed, n_queries)
                servers = {SERVER_LOG: app} | self._retrievers(ports, stack, signals)
                if origin is None:
                    retrievers = retrievers_on(ports, self.sizes)
                    make_arena(
                        self.database, self.folder, self.seed, retrievers, n_queries,
                        self._new_origin,
                    )  # fmt: skip
                password = owners_password(self.database, self.folder)
                self.database.close()
                run_steps(self._serving(), app, signals, self.write, self.warn, before=n_trained)
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
            study = find_arena(session)
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

    def _train(self, app: Server, signals: Signals) -> int:
        """Train the systems that are not trained yet; how many there were."""
        steps = training_steps(self.folder, self.seed, self.sizes)
        n_later = len(steps) + len(self._serving()) - 1
        for done, (mark, step) in enumerate(steps.items()):
            run_steps(
                [step], app, signals, self.write, self.warn, before=done, after=n_later - done
            )
            mark.touch()
        return len(steps)

    def _retrievers(
        self, ports: Sequence[int], stack: ExitStack, signals: Signals
    ) -> dict[str, Server]:
        """The servers of the systems, by their logs' names; they answer."""
        servers = {}
        for (name, recipe), port in zip(self.sizes.systems, ports, strict=True):
            log = f"{recipe}.log"
            server = Server(f"{address_of(port)}/v1/system", self.folder / log, signals)
            servers[log] = stack.enter_context(server)
            words = retriever_process(self.folder, recipe, port)
            reason = server.start([sys.executable, "-m", "hsfiq", *words])
            if reason is not None:
                raise HsfiqError(
                    f"does not start: {reason}",
                    where=f"the retriever of {name}",
                    remedy="end what uses its port; a new arena can have another --port",
                )
            self.write(f"{name} answers at {address_of(port)}")
        return servers

    @property
    def _participants(self) -> int:
        return ceil((self.answers or 0) / SEARCHES)

    def _serving(self) -> list[Step]:
        """Serving the arena and, if wanted, letting simulated participants take part."""
        steps = [
            Step(
                "Serve the arena",
                f"The app asks the retrievers. Its output goes to {self.folder / SERVER_LOG}.",
                ("serve", "--database", database_url(self.folder), "--port", str(self.port)),
                serves=True,
            )
        ]
        if self.answers is not None:
            sessions = str(self.folder / "simulated-participants.json")
            steps.append(
                Step(
                    "Let simulated participants search and vote",
                    "They search for garments over HTTP, as browsers do, and prefer the list with "
                    "the garment nearest to their wish, with noise. They stand in for people.",
                    (
                        *("simulate", address_of(self.port), "--speed", "0"),
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
        address = address_of(self.port)
        login = f"with the password {password}" if password else "with the password that you set"
        self.write(
            f"\nthe arena is at {address}\n"
            f"its leaderboard is at {address}/leaderboard/{NAME}; first log in at "
            f"{address}/owner {login}\n"
            f"its database is {database_url(self.folder)}; Ctrl-C stops everything"
        )

    def _watch(self, servers: dict[str, Server], signals: Signals) -> None:
        """Wait for a signal; HsfiqError if a server ends before."""
        while True:
            signals.heed()
            for log, server in servers.items():
                if server.exit_code is not None:
                    time.sleep(POLL_SECONDS)  # Ctrl-C ends the servers, too
                    signals.heed()
                    raise HsfiqError(server.output(), where=str(self.folder / log))
            time.sleep(POLL_SECONDS)
