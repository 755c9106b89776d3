"""A simulated user: a chooser takes an image of the list, a simulator says what it lacks."""

from __future__ import annotations

from abc import ABC, abstractmethod

from hsfiq.sessions.choosers import Chooser
from hsfiq.sessions.play import Progress, User
from hsfiq.sessions.record import Round


class Simulator(ABC):
    """Gives texts. `version` is that of a model with its prompts; the rest is as in `User`."""

    name: str
    version: str | None = None
    parallel: int = 1

    @abstractmethod
    def text(self, progress: Progress, candidate: str) -> str | None:
        """How the query's first target differs from the candidate; None if it cannot be said."""

    def costs(self) -> dict[str, int]:
        return {}


class SimulatedUser(User):
    """Asks the query's own text first, then what the simulator says about the chosen image."""

    def __init__(self, simulator: Simulator, chooser: Chooser, chooser_name: str) -> None:
        self._simulator, self._choose = simulator, chooser
        self.simulator, self.version = simulator.name, simulator.version
        self.chooser = chooser_name
        self.parallel = simulator.parallel

    def ask(self, progress: Progress) -> Round | None:
        query, number = progress.query, len(progress.rounds) + 1
        if not progress.rounds:
            return Round(round=number, reference=query.reference, text=query.text)
        candidate = self._choose(progress)
        if candidate in query.targets:  # nothing is wrong with it
            text = progress.rounds[-1].text
            return Round(round=number, reference=candidate, text=text, is_repeated_text=True)
        text = self._simulator.text(progress, candidate)
        if text is None:
            return None
        return Round(round=number, reference=candidate, text=text)

    def costs(self) -> dict[str, int]:
        return self._simulator.costs()
