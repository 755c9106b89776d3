"""How a scorer thinks that people answer: the law fitted when it was retrained, or its own."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

from hsfiq.errors import UnreadableInput
from hsfiq.model.checkpoints.checkpoint import ANSWER_MODEL
from hsfiq.model.preference.response_model import N_THRESHOLDS
from hsfiq.model.scorer.loading import Loaded

OWN = "its own temperature, as no law of answers is kept with it"
FITTED = "the law fitted to the answers that it was retrained on"


@dataclass(frozen=True, slots=True)
class Laws:
    """The numbers of `hsfiq.model.preference.likelihood` that a pair's answer follows from.

    A participant who is still to come has an offset like any other; after some tens of answers it
    is known, and is left out here.

    Attributes:
        source: where they come from.
        slope: logits of preference by difference of set scores.
        side_bias: logits.
        score_slope: logits of a Likert score by set score.
        thresholds: of the Likert scores; None where no law of these is known.
    """

    source: str
    slope: float
    side_bias: float = 0.0
    score_slope: float = 0.0
    thresholds: tuple[float, ...] | None = None


def laws_of(loaded: Loaded) -> Laws:
    """The law that goes with a checkpoint.

    Raises:
        UnreadableInput: it was retrained, and the law that was written beside it is gone.
    """
    if "preference" not in loaded.checkpoint.about:
        return Laws(OWN, 1 / float(loaded.scorer.encoder.temperature))
    path = loaded.checkpoint.path.with_name(ANSWER_MODEL)
    try:
        fitted = json.loads(path.read_bytes())["after"]
        return Laws(
            FITTED,
            slope=number(fitted["slope"]),
            side_bias=number(fitted["side_bias"]),
            score_slope=number(fitted["score_slope"]),
            thresholds=rising([number(it) for it in fitted["thresholds"]]),
        )
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise UnreadableInput(
            str(path), "is not the law that was fitted in retraining", "copy the whole folder"
        ) from error


def number(entry: Any) -> float:
    """The value of a number with its standard error.

    Raises:
        ValueError: it is none.
    """
    value = float(entry["value"])
    if not math.isfinite(value):
        raise ValueError(value)
    return value


def rising(values: list[float]) -> tuple[float, ...]:
    """Thresholds.

    Raises:
        ValueError: too few or too many, or they do not rise.
    """
    if len(values) != N_THRESHOLDS or values != sorted(set(values)):
        raise ValueError(values)
    return tuple(values)
