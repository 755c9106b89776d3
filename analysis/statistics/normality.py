"""Normality of one variable: Shapiro-Wilk, as in the papers, and a second test for large N.

Scores of a few levels are never normal; the test is reported because the papers report it, and
correlation is by ranks whatever it says.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pingouin

from hsfiq.analysis.figures import UNDEFINED, figure, with_reason

if TYPE_CHECKING:
    import pandas as pd

SHAPIRO_MOST = 5_000
"""Beyond this N scipy's p of Shapiro-Wilk (Royston 1995, AS R94) is an extrapolation."""

SHAPIRO_LEAST = 3
EQUAL_WITHIN = 1e-13  # relative to the largest value: differences below are rounding alone
SMALLEST_RANGE = 1e-19  # AS R94 takes any narrower range for zero


@dataclass(frozen=True)
class SecondTest:
    """D'Agostino and Pearson's K2 (1973), made for large N.

    Attributes:
        statistic: K2.
        p: its p-value.
        test: the test's name.
    """

    statistic: float
    p: float
    test: str = "D'Agostino-Pearson K2"


@dataclass(frozen=True)
class Normality:
    """The result of Shapiro-Wilk (1965) on one variable.

    Attributes:
        w: the statistic W.
        p: its p-value; approximate beyond 5,000 values.
        n: how many values there were.
        second: the second test, beyond 5,000 values.
        reason: why w and p are NaN, where they are.
    """

    w: float
    p: float
    n: int
    second: SecondTest | None = None
    reason: str | None = None

    @property
    def approximate(self) -> bool:
        """Whether p is only approximate."""
        return self.second is not None

    def to_json(self) -> dict[str, object]:
        """Return {"W", "p", "n"}, and what else there is to say."""
        result: dict[str, object] = {"W": figure(self.w), "p": figure(self.p), "n": self.n}
        if self.second is not None:
            result["approximate"] = True
            result["note"] = f"p of Shapiro-Wilk is approximate beyond N = {SHAPIRO_MOST:,}"
            result["second"] = {
                "test": self.second.test,
                "statistic": self.second.statistic,
                "p": self.second.p,
            }
        return with_reason(result, self.reason)


def normality(values: pd.Series[float]) -> Normality:
    """Test whether a variable is normal.

    Args:
        values: (n,), finite or NaN; NaN is left out.

    Returns:
        W and p of Shapiro-Wilk; both NaN, with a reason, for fewer than 3 values or a constant.
    """
    present = values.dropna().astype("float64")
    n = len(present)
    reason = _why_undefined(present)
    if reason is not None:
        return Normality(UNDEFINED, UNDEFINED, n, reason=reason)
    with warnings.catch_warnings():
        # Said in the result instead, as `approximate`.
        warnings.filterwarnings("ignore", r"scipy\.stats\.shapiro: For N > 5000", UserWarning)
        w, p = _statistic_and_p(present, "shapiro")
    second = SecondTest(*_statistic_and_p(present, "normaltest")) if n > SHAPIRO_MOST else None
    return Normality(w, p, n, second)


def _why_undefined(present: pd.Series[float]) -> str | None:
    if len(present) < SHAPIRO_LEAST:
        return f"n = {len(present)}: Shapiro-Wilk needs {SHAPIRO_LEAST} values"
    spread = float(present.max()) - float(present.min())
    if spread <= max(EQUAL_WITHIN * float(present.abs().max()), SMALLEST_RANGE):
        return "all values are equal"
    return None


def _statistic_and_p(present: pd.Series[float], method: str) -> tuple[float, float]:
    table = pingouin.normality(present, method=method)
    return float(table["W"].iloc[0]), float(table["pval"].iloc[0])
