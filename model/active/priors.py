"""The answer model that is expected of future participants, for a given scorer."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

from hsfiq.errors import UnreadableInput
from hsfiq.model.checkpoints.checkpoint import ANSWER_MODEL
from hsfiq.model.preference.response_model import N_THRESHOLDS
from hsfiq.model.scorer.loading import Loaded
from hsfiq.study.config import Design

OWN = "its own temperature, since it has no fitted answer model"
FITTED = "the answer model fitted to the answers that it was retrained on"


@dataclass(frozen=True, slots=True)
class AnswerPrior:
    """The parameters of `hsfiq.model.preference.likelihood` that predict an answer.

    A new participant's offset is ignored here: some tens of answers determine it.
    """

    source: str
    slope: float  # logits of preference by difference of set scores
    side_bias: float = 0.0  # logits
    score_slope: float = 0.0  # logits of a Likert score by set score
    thresholds: tuple[float, ...] | None = None
    log_tie: float | None = None  # log nu; None if no answer was a tie


@dataclass(frozen=True, slots=True)
class ExpectedAnswers:
    """The answers that the next study asks for: to each pair on average, and whether ties occur."""

    per_pair: float = 1.0
    has_ties: bool = False

    @classmethod
    def of(cls, design: Design) -> ExpectedAnswers:
        further = design.overlap_share * (design.annotators_per_query - 1)
        return cls(1 + further, design.preference_ties)


ONE_ANSWER = ExpectedAnswers()


def prior_of(loaded: Loaded) -> AnswerPrior:
    """The prior of a checkpoint, from its answer model if it was retrained."""
    if "preference" not in loaded.checkpoint.about:
        return AnswerPrior(OWN, 1 / float(loaded.scorer.encoder.temperature))
    path = loaded.checkpoint.path.with_name(ANSWER_MODEL)
    try:
        fitted = json.loads(path.read_bytes())["after"]
        return AnswerPrior(
            FITTED,
            slope=number(fitted["slope"]),
            side_bias=number(fitted["side_bias"]),
            score_slope=number(fitted["score_slope"]),
            thresholds=rising([number(entry) for entry in fitted["thresholds"]]),
            log_tie=None if fitted["log_tie"] is None else number(fitted["log_tie"]),
        )
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise UnreadableInput(
            str(path), "is not the answer model of a retraining", "copy the complete folder"
        ) from error


def number(entry: Any) -> float:
    """The finite value of a parameter that is stored with its standard error."""
    value = float(entry["value"])
    if not math.isfinite(value):
        raise ValueError(value)
    return value


def rising(values: list[float]) -> tuple[float, ...]:
    """The thresholds; `ValueError` if their number is wrong, or they do not rise."""
    if len(values) != N_THRESHOLDS or values != sorted(set(values)):
        raise ValueError(values)
    return tuple(values)
