"""Which image of a list the next text is about."""

from __future__ import annotations

import re
from collections.abc import Callable

from hsfiq.errors import UnreadableInput
from hsfiq.sessions.play import Progress
from hsfiq.sessions.record import references

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
    """The image most like the target, as CIRCLED chooses; the first of several."""

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
            "nearest needs to know how alike images are, which only drawn garments tell",
            "use top1, unseen or random-10",
        )
    if name == "nearest" and distance is not None:
        return nearest(distance), 1
    if name in ("top1", "unseen"):
        return {"top1": top1, "unseen": unseen}[name], 1
    raise UnreadableInput(
        "--choose", f"{name!r} is not known", "use top1, unseen, nearest or random-K"
    )
