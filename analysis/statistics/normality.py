"""Normality of one variable: Shapiro-Wilk, as in the papers, and a second test for large N.

Scores with a few levels are never normal; the test is reported because the papers report it, and
correlation is by ranks whatever its result.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import pandas as pd

from hsfiq.analysis.json_values import UNDEFINED, JsonRecord, json_number, with_reason

SHAPIRO_MAX = 5_000
"""Beyond this N scipy's p of Shapiro-Wilk (Royston 1995, AS R94) is an extrapolation."""

SHAPIRO_MIN = 3
ROUNDING = 1e-13  # relative to the largest value: smaller differences are rounding errors
MIN_RANGE = 1e-19  # AS R94 treats any narrower range as zero


@dataclass(frozen=True)
class SecondTest:
    """D'Agostino and Pearson's K2 (1973), made for large N."""

    statistic: float
    p: float
    test: str = "D'Agostino-Pearson K2"


@dataclass(frozen=True)
class Normality(JsonRecord):
    """Shapiro-Wilk (1965); p is approximate beyond 5,000 values, which get the second test too."""

    w: float
    p: float
    n: int
    second: SecondTest | None = None
    reason: str | None = None

    @property
    def approximate(self) -> bool:
        return self.second is not None

    def to_json(self) -> dict[str, object]:
        fields: dict[str, object] = {
            "W": json_number(self.w),
            "p": json_number(self.p),
            "n": self.n,
        }
        if self.second is not None:
            fields["approximate"] = True
            fields["note"] = f"p of Shapiro-Wilk is approximate beyond N = {SHAPIRO_MAX:,}"
            fields["second"] = {
                "test": self.second.test,
                "statistic": self.second.statistic,
                "p": self.second.p,
            }
        return with_reason(fields, self.reason)


def normality(values: pd.Series[float]) -> Normality:
    """Test whether the values of a variable are normal; NaN is excluded.

    W and p are NaN, with a reason, for fewer than 3 values or a constant.
    """
    present = values.dropna().astype("float64")
    n = len(present)
    reason = _why_undefined(present)
    if reason is not None:
        return Normality(UNDEFINED, UNDEFINED, n, reason=reason)
    with warnings.catch_warnings():
        # The result reports this as `approximate`.
        warnings.filterwarnings("ignore", r"scipy\.stats\.shapiro: For N > 5000", UserWarning)
        w, p = _statistic_and_p(present, "shapiro")
    second = SecondTest(*_statistic_and_p(present, "normaltest")) if n > SHAPIRO_MAX else None
    return Normality(w, p, n, second)


def _why_undefined(present: pd.Series[float]) -> str | None:
    if len(present) < SHAPIRO_MIN:
        return f"n = {len(present)}: Shapiro-Wilk needs {SHAPIRO_MIN} values"
    spread = float(present.max()) - float(present.min())
    if spread <= max(ROUNDING * float(present.abs().max()), MIN_RANGE):
        return "all values are equal"
    return None


def _statistic_and_p(present: pd.Series[float], method: str) -> tuple[float, float]:
    import pingouin  # noqa: PLC0415

    table = pingouin.normality(present, method=method)
    return float(table["W"].iloc[0]), float(table["pval"].iloc[0])
