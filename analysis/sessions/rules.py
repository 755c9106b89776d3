"""The rules by which sessions are measured, where papers differ or leave them open."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from hsfiq.analysis.errors import AnalysisError
from hsfiq.analysis.json_values import JsonRecord

AfterStop = Literal["carry", "drop"]
"""What a session counts as after its last round: its last list stays, or it is left out."""
AFTER_STOP: tuple[AfterStop, ...] = get_args(AfterStop)

Ties = Literal["corpus", "expected"]
"""The rank among images of the same score: by the corpus' order, or expected in random order."""
TIES: tuple[Ties, ...] = get_args(Ties)

DEFAULT_KS = (1, 5, 10, 50)


@dataclass(frozen=True)
class Rules(JsonRecord):
    """How sessions are measured.

    Attributes:
        ks: of Hits@K, Recall@K and the rounds to success; none for the default ones.
        rounds: those that are printed; JSON has all.
    """

    ks: tuple[int, ...] = ()
    after_stop: AfterStop = "carry"
    ties: Ties = "corpus"
    rounds: tuple[int, ...] = ()

    def printed_rounds(self, n_rounds: int) -> tuple[int, ...]:
        """Those of the rules; without any, the first, the middle and the last one."""
        wanted = self.rounds or (1, (1 + n_rounds) // 2, n_rounds)
        return tuple(sorted({each for each in wanted if each <= n_rounds}))

    def __post_init__(self) -> None:
        if any(k < 1 for k in self.ks):
            raise AnalysisError("--k", "every K is 1 or more", "such as --k 1 --k 10")
        for option, value, known in (
            ("--after-stop", self.after_stop, AFTER_STOP),
            ("--ties", self.ties, TIES),
        ):
            if value not in known:
                raise AnalysisError(
                    option, f"{value!r} is not known", f"use one of {', '.join(known)}"
                )


FISD = Rules(ks=(1, 5, 10, 50), rounds=(1, 3, 5))
"""FISD (arXiv 2604.12904): Hits (table 2) and Recall (table 8) after rounds 1, 3 and 5.

The paper leaves open what `after_stop` and `ties` say. Its Recall falls below its Hits in later
rounds, so its sessions do not stop at a hit, and `after_stop` has no effect on such sessions.
"""


def allowed_ks(wanted: Sequence[int], stop_at: int | None) -> tuple[int, ...]:
    """The wanted K, in order; without any, the default ones that a stop does not censor.

    A session that stops when the target is among the first `stop_at` images tells nothing about
    what later rounds would have found among the first K < `stop_at`.

    Raises:
        AnalysisError: a stop censors a wanted K.
    """
    least = stop_at or 1
    if censored := [k for k in wanted if k < least]:
        raise AnalysisError(
            "--k",
            f"the sessions stop once the target is among the first {least}, which censors "
            f"Hits@{censored[0]}",
            f"ask for K of {least} or more, or play without a stop",
        )
    if wanted:
        return tuple(sorted(set(wanted)))
    return tuple(k for k in DEFAULT_KS if k >= least) or (least,)
