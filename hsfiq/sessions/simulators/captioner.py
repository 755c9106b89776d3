"""Your own captioner as a simulator, such as a relative captioner of FashionIQ."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from hsfiq.errors import UnreadableInput
from hsfiq.images.folder import ImageFolder
from hsfiq.sessions.play import Progress
from hsfiq.sessions.simulators.simulated_user import Simulator


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
            "--captioner", f"{name} has no method describe_difference", "see docs/sessions.md"
        )
    return captioner
