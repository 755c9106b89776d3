"""Several simulated participants at once, each before a page of their own.

They come one after the other, in their order, and then answer side by side: so who gets which form
does not depend on how many answer at once, and the same seed gives a new study the same answers.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Any

from hsfiq.drawn import SimulatedAnnotator
from hsfiq.errors import UnreadableInput
from hsfiq.simulate.browser import Refusal
from hsfiq.simulate.client import PATIENCE, Page, Stopped, Stuck
from hsfiq.simulate.entry import Destination, study_to_join
from hsfiq.simulate.participant import Eyes, Outcome, Visitor, refusal_as_text
from hsfiq.simulate.sessions import Sessions

Told = Callable[[int, int], None]
"""Hears how many questions are done, and how many there are as far as is known."""

AT_THE_DOOR = 2.0
"""Seconds for which a server that does not answer at all is waited for at first."""


FULL = 410
"""The status by which a study says that it takes nobody more."""

TOLD_EVERY = 0.2
"""Seconds between two reports of how far all are."""


@dataclass(frozen=True, slots=True)
class Tally:
    """What became of all participants."""

    outcomes: Sequence[Outcome]

    @property
    def is_well(self) -> bool:
        """Whether somebody got to the end and nobody failed."""
        states = {outcome.state for outcome in self.outcomes}
        return "finished" in states and "failed" not in states

    def facts(self) -> dict[str, Any]:
        """The counts, and each participant's facts."""
        states = [outcome.state for outcome in self.outcomes]
        return {
            "simulated": True,
            "participants": len(self.outcomes),
            "finished": states.count("finished"),
            "turned_away": states.count("turned away"),
            "failed": states.count("failed"),
            "answered": sum(outcome.answered for outcome in self.outcomes),
            "skipped": sum(outcome.skipped for outcome in self.outcomes),
            "refused": sum(outcome.refused for outcome in self.outcomes),
            "people": [outcome.facts() for outcome in self.outcomes],
        }


@dataclass(slots=True)
class Crowd:
    """Annotators and where each of them goes.

    Attributes:
        annotators: in the order in which they come.
        destinations: as many, all on one server.
        seed: draws the answers.
        at_once: so many answer at the same time.
        sessions: remembers who is who for a later run, if wanted.
        patience: seconds for which a server that falls silent is asked again.
    """

    annotators: Sequence[SimulatedAnnotator]
    destinations: Sequence[Destination]
    seed: int
    at_once: int = 1
    sessions: Sessions | None = None
    patience: float = PATIENCE
    _eyes: Eyes = field(default_factory=Eyes)
    _stop: threading.Event = field(default_factory=threading.Event)

    def run(self, told: Told) -> Tally:
        """Let everybody answer until nothing is left.

        Raises:
            UnreadableInput: no server answers there; the study is for people, or none on the
                drawn catalogue.
        """
        study = self._study_at_the_door()
        visitors = [
            Visitor(
                annotator, Page(there.address, self._stop, self.patience), self._eyes, self.seed
            )
            for annotator, there in zip(self.annotators, self.destinations, strict=True)
        ]
        have_come = [threading.Event() for _ in visitors]

        def work(place: int) -> None:
            try:
                if place:
                    have_come[place - 1].wait()
                self._live(visitors[place], self.destinations[place], study, have_come[place])
            except BaseException:
                self._stop.set()  # what stops one for good stops all
                raise
            finally:
                have_come[place].set()

        with ThreadPoolExecutor(self.at_once) as pool:
            futures = [pool.submit(work, place) for place in range(len(visitors))]
            try:
                while wait(futures, TOLD_EVERY).not_done:
                    told(*_progress(visitors))
            except BaseException:
                self._stop.set()
                raise
        self._raise_first(futures)
        return Tally([visitor.outcome for visitor in visitors])

    def _study_at_the_door(self) -> str:
        """The study that is open to all, where somebody comes without a link."""
        address = self.destinations[0].address
        page = Page(address, self._stop, AT_THE_DOOR)
        try:
            welcome = page.fetch("/")
        except (Refusal, Stuck) as error:
            raise UnreadableInput(address, str(error), "is the study served there?") from error
        finally:
            page.browser.close()
        has_link = all(destination.link for destination in self.destinations)
        return "" if has_link else study_to_join(welcome, address)

    def _live(
        self, visitor: Visitor, destination: Destination, study: str, has_come: threading.Event
    ) -> None:
        """Let one participant come and answer; the outcome says how that ended."""
        page, outcome = visitor.page, visitor.outcome
        name = outcome.annotator.name
        try:
            if self.sessions is not None:
                page.browser.cookies = self.sessions.cookies_of(name)
            visitor.arrive(destination, study)
            if self.sessions is not None:
                self.sessions.keep(name, page.browser.cookies)
            has_come.set()
            visitor.answer_all(destination)
        except Refusal as refusal:
            if refusal.status == FULL and not has_come.is_set():
                outcome.state = "turned away"
            outcome.why = refusal_as_text(refusal)
        except Stuck as stuck:
            outcome.why = str(stuck)
        finally:
            page.browser.close()

    @staticmethod
    def _raise_first(futures: Sequence[Future[None]]) -> None:
        """Raise what has ended the simulation, if anything has."""
        errors = [error for future in futures if (error := future.exception()) is not None]
        causes = [error for error in errors if not isinstance(error, Stopped)]
        if causes:
            raise causes[0]


def _progress(visitors: Sequence[Visitor]) -> tuple[int, int]:
    """How many questions are done, and how many there are if all have as many as the first."""
    done = sum(visitor.outcome.answered + visitor.outcome.skipped for visitor in visitors)
    return done, len(visitors) * max(visitor.total for visitor in visitors)
