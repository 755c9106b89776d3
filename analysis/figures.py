"""How figures leave the library: undefined ones as null beside a reason, never as NaN.

Results hold NaN where a figure is undefined; JSON has no NaN, and its reader must learn why.
"""

from __future__ import annotations

import math

UNDEFINED = float("nan")


def figure(value: float) -> float | None:
    """Turn a figure into what JSON can hold.

    Args:
        value: any float, in full precision.

    Returns:
        The same float, or None where it is NaN.
    """
    return None if math.isnan(value) else value


def with_reason(figures: dict[str, object], reason: str | None) -> dict[str, object]:
    """Put the reason beside figures that are undefined.

    Args:
        figures: one JSON object.
        reason: why some of them are null; None where all are defined.

    Returns:
        The object, with the key "reason" where there is one.
    """
    return figures if reason is None else {**figures, "reason": reason}
