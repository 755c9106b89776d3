"""Several simulated participants at the same time, each with a connection of their own.

They enrol one after the other, in order, and then answer in parallel. So the forms that they get do
not depend on how many answer at once, and the same seed gives a new study the same answers.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import asdict, dataclass, field
from typing import Any

from hsfiq.drawn import SimulatedAnnotator
from hsfiq.errors import NotOpen, UnreadableInput
from hsfiq.simulate import client
from hsfiq.simulate.participant import Outcome, RecognisedImages, SimulatedParticipant

ProgressCallback = Callable[[int, int], None]
"""Is given the number of questions done, and of all questions as far as it is known."""

RETRY_FIRST_FOR = 2.0
"""Seconds for which the first request is repeated while the server does not answer."""

REPORT_EVERY = 0.2
"""Seconds between two calls of the callback."""


@dataclass(frozen=True, slots=True)
class Summary:
    outcomes: Sequence[Outcome]

    @property
    def succeeded(self) -> bool:
        states = {outcome.state for outcome in self.outcomes}
        return "finished" in states and "failed" not in states

    def facts(self) -> dict[str, Any]:
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
            "people": [asdict(outcome) for outcome in self.outcomes],
        }


@dataclass(slots=True)
class Simulation:
    """Annotators and their destinations, one each, all on one server.

    Attributes:
        annotators: in the order in which they enrol.
        seed: of the answers.
        at_once: how many answer at the same time.
        sessions: keeps the participants' cookies for a later run, if given.
        retry_for: seconds for which requests without an answer are repeated.
    """

    annotators: Sequence[SimulatedAnnotator]
    destinations: Sequence[client.Destination]
    seed: int
    at_once: int = 1
    sessions: client.Sessions | None = None
    retry_for: float = client.RETRY_FOR
    _images: RecognisedImages = field(default_factory=RecognisedImages)
    _cancel: threading.Event = field(default_factory=threading.Event)

    def run(self, report: ProgressCallback) -> Summary:
        """Let all participants answer until nothing is left; `UnreadableInput` if they cannot."""
        study = self._find_study()
        participants = [
            SimulatedParticipant(
                annotator,
                client.StudyClient(destination.address, self._cancel, self.retry_for),
                self._images,
                self.seed,
            )
            for annotator, destination in zip(self.annotators, self.destinations, strict=True)
        ]
        have_entered = [threading.Event() for _ in participants]

        def work(index: int) -> None:
            try:
                if index:
                    have_entered[index - 1].wait()
                self._take_part(
                    participants[index], self.destinations[index], study, have_entered[index]
                )
            except BaseException:
                self._cancel.set()  # an unexpected error ends the simulation for all
                raise
            finally:
                have_entered[index].set()

        with ThreadPoolExecutor(self.at_once) as pool:
            futures = [pool.submit(work, index) for index in range(len(participants))]
            try:
                while wait(futures, REPORT_EVERY).not_done:
                    report(*_progress(participants))
            except BaseException:
                self._cancel.set()
                raise
        _raise_first(futures)
        return Summary([participant.outcome for participant in participants])

    def _find_study(self) -> str:
        """The id of the study that is open to all; empty if everybody has a personal link."""
        address = self.destinations[0].address
        connection = client.StudyClient(address, self._cancel, RETRY_FIRST_FOR)
        try:
            welcome = connection.get("/")
        except (client.RefusedRequest, client.CannotContinue) as error:
            raise UnreadableInput(address, str(error), "is the study served there?") from error
        finally:
            connection.close()
        have_links = all(destination.link for destination in self.destinations)
        return "" if have_links else client.study_to_join(welcome, address)

    def _take_part(
        self,
        participant: SimulatedParticipant,
        destination: client.Destination,
        study: str,
        has_entered: threading.Event,
    ) -> None:
        connection, outcome = participant.client, participant.outcome
        name = outcome.annotator.name
        try:
            if self.sessions is not None:
                connection.cookies = self.sessions.cookies_of(name)
            participant.enter(destination, study)
            if self.sessions is not None:
                self.sessions.keep(name, connection.cookies)
            has_entered.set()
            participant.answer_all(destination)
        except client.RefusedRequest as refusal:
            if refusal.status == NotOpen.status and not has_entered.is_set():
                outcome.state = "turned away"
            outcome.why = str(refusal)
        except client.CannotContinue as error:
            outcome.why = str(error)
        finally:
            connection.close()


def _raise_first(futures: Sequence[Future[None]]) -> None:
    for future in futures:
        error = future.exception()
        if error is not None and not isinstance(error, client.Cancelled):
            raise error


def _progress(participants: Sequence[SimulatedParticipant]) -> tuple[int, int]:
    """How many questions are done, and how many there are if all have as many as the first."""
    done = sum(person.outcome.answered + person.outcome.skipped for person in participants)
    return done, len(participants) * max(person.total for person in participants)
