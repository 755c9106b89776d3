"""The practice question: a worked example with drawn garments; its answer is never stored."""

from __future__ import annotations

import io
import re
from functools import cache
from typing import Any, Final, Literal

from hsfiq.collect.protocol import ImageView
from hsfiq.drawn import Garment
from hsfiq.drawn.garments import Colour, Logo, Neckline, Pattern, Sleeve
from hsfiq.drawn.pictures import draw
from hsfiq.kinds import KindName, Rules
from hsfiq.kinds.query import VERDICTS
from hsfiq.study.query_form import QueryForm

TOKEN = re.compile(r"practice-(\d{1,2})")

_Attributes = tuple[Colour, Sleeve, Pattern, Neckline, Logo]

_DRESSES: tuple[_Attributes, ...] = (
    ("white", "short", "plain", "round", "none"),  # the reference
    ("red", "long", "plain", "round", "none"),
    ("red", "long", "plain", "v", "none"),
    ("red", "long", "dotted", "round", "none"),
    ("red", "long", "plain", "collar", "none"),
    ("red", "three-quarter", "plain", "round", "none"),
    ("white", "short", "plain", "v", "none"),
    ("white", "none", "plain", "round", "none"),
    ("blue", "short", "plain", "round", "none"),
    ("white", "short", "striped", "round", "none"),
    ("grey", "none", "plain", "collar", "none"),
)

_IMAGES: list[ImageView] = [
    {"token": f"practice-{n}", "missing": False} for n in range(len(_DRESSES))
]
REFERENCE, SETS = _IMAGES[0], [_IMAGES[1:6], _IMAGES[6:11]]


BETTER: Final[dict[QueryForm, Literal[1, 2]]] = {"composed": 1, "text": 1, "image": 2}
"""The set that matches: the first has what the text asks for, the second resembles the image."""


def lowest_good_score(points: int) -> int:
    """The lowest score, on a scale of so many points, that suits a set that matches well."""
    return points // 2 + 2


def expected_of(kind: KindName, form: QueryForm, rules: Rules) -> dict[str, Any]:
    """What is right at the practice question, as `hsfiq.kinds` reads it for questions of owners."""
    answers: dict[KindName, dict[str, Any]] = {
        "pair": {"better": BETTER[form]},
        "single": {"lowest": lowest_good_score(rules.points), "highest": rules.points},
        "images": {"fitting": [n + 1 for n in range(min(rules.k, len(SETS[0])))]},
        "ranking": {"order": [BETTER[form]]},
        "query": {"verdict": VERDICTS[0]},
    }
    return answers[kind]


def sets_of(form: QueryForm, n_sets: int, k: int) -> list[list[ImageView]]:
    """So many sets; one alone is the better one, of at most k images, and a third mixes the two."""
    if n_sets == 1:
        return [SETS[BETTER[form] - 1][:k]]
    mixed = [SETS[0][:fewer] + SETS[1][fewer:] for fewer in (3, 2, 1)]
    return [*SETS, *mixed][:n_sets]


def image_content(token: str) -> bytes | None:
    """A practice image as WebP, None if the token is not of a practice image."""
    match = TOKEN.fullmatch(token)
    number = int(match[1]) if match else len(_DRESSES)
    return drawn(number) if number < len(_DRESSES) else None


@cache
def drawn(number: int) -> bytes:
    colour, sleeve, pattern, neckline, logo = _DRESSES[number]
    file = io.BytesIO()
    draw(Garment("dress", colour, sleeve, pattern, neckline, logo)).save(file, "WEBP", quality=85)
    return file.getvalue()
