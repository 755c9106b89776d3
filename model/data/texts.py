"""How a triplet's captions become the text that the encoder reads.

Joining and cleaning are two steps: `mining_text` is the text of a query in mining, validation and
scoring, `training_text` its text in training, and a retriever's `clean_text` cleans both.
"""

from __future__ import annotations

from collections.abc import Sequence

from hsfiq.model.recipes.values import CaptionRule

_ENDS = ".?, "


def mining_text(captions: Sequence[str]) -> str:
    """The deterministic text of a triplet's query.

    FashionIQ's two captions are joined as "C1 and c2" (CLIP4Cir, SPRC, QuRe), both stripped of
    '.', '?', ',' and blanks, the first capitalised. CIRR's single caption is left unchanged.
    """
    if len(captions) == 1:
        return captions[0]
    first, second = _two(captions)
    return f"{first.capitalize()} and {second}"


def training_text(captions: Sequence[str], rule: CaptionRule, u: float) -> str:
    """One of the `training_texts`, each with equal probability, by `u`, uniform in [0, 1)."""
    if not 0 <= u < 1:
        raise ValueError(f"u must be in [0, 1), not {u}")
    texts = training_texts(captions, rule)
    return texts[int(len(texts) * u)]


def training_texts(captions: Sequence[str], rule: CaptionRule) -> tuple[str, ...]:
    """The texts of a triplet in training.

    Those of the rule `four-way` are "C1 and c2", "C2 and c1", "C1" and "C2"; a single caption
    (CIRR) stays unchanged.
    """
    if rule == "joined" or len(captions) == 1:
        return (mining_text(captions),)
    first, second = _two(captions)
    return (
        f"{first.capitalize()} and {second}",
        f"{second.capitalize()} and {first}",
        first.capitalize(),
        second.capitalize(),
    )


def _two(captions: Sequence[str]) -> tuple[str, str]:
    if len(captions) != 2:
        raise ValueError(f"a triplet has one or two captions, not {len(captions)}")
    return captions[0].strip(_ENDS), captions[1].strip(_ENDS)
