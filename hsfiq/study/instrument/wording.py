"""`[wording]`: the words of the question page that are part of the instrument."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from hsfiq.answer_rules import FEWEST_POINTS, HIGHEST_SCORE, MOST_POINTS

LONGEST_LABEL, LONGEST_PROMPT = 60, 300
"""Characters of an anchor and of any other text."""

LABELS = ("anchors", "levels")


@dataclass(frozen=True, slots=True)
class Wording:
    """`[wording]`: without a text of the owner's, the page shows its own in the study's language.

    Attributes:
        anchors: of the scale for sets, lowest first, one for each of its 3 to 7 points; those
            between the first and the last may be empty.
        levels: of the scale for images, lowest first, one for each of `design.levels`.
        score: above the scale for sets.
        image: about the level of an image.
        rank: above the ranks.
        query: about whether the query is well formed.
        preference: before the names of the sets, of which one is chosen.
        tie: the choice of neither set.
        reference: above the reference image.
        text: above the query's text.
        irrelevant: beside the flag for sets that fit neither reference nor text.
        reason: asks for the reason.
    """

    anchors: tuple[str, ...] = ()
    levels: tuple[str, ...] = ()
    score: str = ""
    image: str = ""
    rank: str = ""
    query: str = ""
    preference: str = ""
    tie: str = ""
    reference: str = ""
    text: str = ""
    irrelevant: str = ""
    reason: str = ""

    @property
    def points(self) -> int:
        """Of the scale for sets; its scores are the numbers from 1 to this one."""
        return len(self.anchors) or HIGHEST_SCORE


def wording_errors(wording: Wording, n_levels: int) -> Iterator[tuple[str, str]]:
    """What is wrong with the texts, by the key of study.toml."""
    anchors, levels = wording.anchors, wording.levels
    if anchors and not FEWEST_POINTS <= len(anchors) <= MOST_POINTS:
        what = f"names {len(anchors)} points; name {FEWEST_POINTS} to {MOST_POINTS}"
        yield "wording.anchors", what
    elif anchors and not (anchors[0].strip() and anchors[-1].strip()):
        yield "wording.anchors", "the first and the last point need a text"
    if levels and len(levels) != n_levels:
        yield "wording.levels", f"names {len(levels)} levels; name {n_levels}, as design.levels"
    elif not all(level.strip() for level in levels):
        yield "wording.levels", "each level needs a text"
    for name in LABELS:
        labels = getattr(wording, name)
        worded = [label.strip() for label in labels if label.strip()]
        if len(set(worded)) < len(worded):
            yield f"wording.{name}", "two of them have the same text"
        if any(not is_line(label, LONGEST_LABEL) for label in worded):
            yield f"wording.{name}", f"each must be one line of at most {LONGEST_LABEL} characters"
    for name, text in asdict(wording).items():
        if name not in LABELS and text and not is_line(text, LONGEST_PROMPT):
            what = f"must be one line of at most {LONGEST_PROMPT} characters, not blank"
            yield f"wording.{name}", what


def is_line(text: str, longest: int) -> bool:
    """Whether this is one line of printable text that is not blank."""
    return bool(text.strip()) and len(text) <= longest and text.isprintable()


_PAGE_TEXTS: dict[str, tuple[str, ...]] = {
    "score": ("how_well",),
    "image": ("how_well_image",),
    "rank": ("rank",),
    "query": ("is_well_formed",),
    "preference": ("i_prefer",),
    "tie": ("tie", "shortcuts.tie"),
    "reference": ("original",),
    "text": ("user_text",),
    "irrelevant": (
        *("irrelevant", "irrelevant_short", "irrelevant_help"),
        "shortcuts.irrelevant",
    ),
    "reason": ("reason_prompt", "reason_prompt_required"),
}
"""The texts of the question page that each key replaces."""


def page_texts(wording: Wording) -> dict[str, Any]:
    """The owner's texts, under the names that the question page has for them."""
    texts: dict[str, Any] = {}
    for key, names in _PAGE_TEXTS.items():
        if text := getattr(wording, key):
            for name in names:
                group, _, part = name.partition(".")
                if part:
                    texts.setdefault(group, {})[part] = text
                else:
                    texts[name] = text
    if wording.anchors:
        texts["anchors"] = list(wording.anchors)
    if wording.levels:
        texts["relevance_levels"] = {str(len(wording.levels)): list(wording.levels)}
    return texts
