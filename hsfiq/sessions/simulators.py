"""Simulators without a model: of drawn garments, and the floor that repeats its text."""

from __future__ import annotations

import importlib
import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, Protocol

from hsfiq.drawn.garments import ATTRIBUTES, differences, garment_of
from hsfiq.drawn.triplets import describe, write_captions
from hsfiq.errors import UnreadableInput
from hsfiq.images.folder import ImageFolder
from hsfiq.sessions.play import Chooser, Progress, User
from hsfiq.sessions.record import Round
from hsfiq.text import joined

# A simulated user: a chooser takes an image of the list, a simulator says what it lacks.


class Simulator(ABC):
    """Gives texts. `version` is that of a model with its prompts; the rest is as in `User`."""

    name: str
    version: str | None = None
    parallel: int = 1

    @abstractmethod
    def text(self, progress: Progress, candidate: str) -> str | None:
        """A text on how the first target differs from the candidate; None if none is possible."""

    def costs(self) -> dict[str, int]:
        return {}


class SimulatedUser(User):
    """Asks the query's own text first, then the simulator's texts about the chosen image."""

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


# Your own captioner as a simulator, such as a relative captioner of FashionIQ.


class Captioner(Protocol):
    """What `--captioner MODULE:NAME` names: an object with this method."""

    def describe_difference(
        self, candidate: Path, target: Path, texts: Sequence[str]
    ) -> str | None:
        """How the target differs from the candidate; None ends the session.

        Args:
            candidate, target: the files of the two images.
            texts: what has been said in this session, the query's own text first.
        """
        ...


class CaptionerSimulator(Simulator):
    """Gives the texts of a captioner; its name in records is that of `MODULE:NAME`."""

    def __init__(self, captioner: Captioner, name: str, images: ImageFolder) -> None:
        self.name = f"captioner {name}"
        self._captioner, self._images = captioner, images

    def text(self, progress: Progress, candidate: str) -> str | None:
        texts = [each.text for each in progress.rounds if each.text is not None]
        target = self._file(progress.query.targets[0])
        return self._captioner.describe_difference(self._file(candidate), target, texts)

    def _file(self, image: str) -> Path:
        path = self._images.find(image)
        if path is None:
            raise UnreadableInput(
                str(self._images.root), f"has no file of image {image}", "name --images"
            )
        return path


def load_captioner(name: str) -> Captioner:
    """Import the object that `MODULE:NAME` names; the working folder is searched, too.

    Raises:
        UnreadableInput: there is none, or it has no method `describe_difference`.
    """
    module_name, _, attribute = name.partition(":")
    sys.path.insert(0, str(Path.cwd()))
    try:
        captioner: Captioner = getattr(importlib.import_module(module_name), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise UnreadableInput(
            "--captioner", f"{name!r} cannot be imported ({error})", "name MODULE:NAME"
        ) from error
    finally:
        sys.path.pop(0)
    if not callable(getattr(captioner, "describe_difference", None)):
        raise UnreadableInput(
            "--captioner",
            f"{name} has no method describe_difference",
            "see docs/reference/sessions.md",
        )
    return captioner


Voices = Literal["full", "brief"]
"""Both writers of a caption, or the second alone, who mentions less."""


class DrawnSimulator(Simulator):
    """Reads the attributes off both garments' ids: true texts that leave something out."""

    def __init__(self, voices: Voices) -> None:
        self.name = f"drawn-{voices}"
        self._voices = voices

    def text(self, progress: Progress, candidate: str) -> str:
        garment, target = garment_of(candidate), garment_of(progress.query.targets[0])
        if garment.category != target.category:
            return describe(progress.rng, target)
        captions = write_captions(progress.rng, garment, target).texts
        return joined(captions) if self._voices == "full" else captions[1]


class SameText(Simulator):
    """Repeats the query's text, whatever the candidate: the baseline without feedback."""

    name = "same-text"

    def text(self, progress: Progress, candidate: str) -> str:  # noqa: ARG002 (the protocol's)
        return progress.query.text


def attribute_distance(image: str, other: str) -> float:
    """In how many attributes two drawn garments differ, the category counting more than all."""
    garment, target = garment_of(image), garment_of(other)
    other_category = garment.category != target.category
    return len(differences(garment, target)) + (len(ATTRIBUTES) + 1) * other_category
