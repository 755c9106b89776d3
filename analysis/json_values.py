"""Undefined numbers in results and in JSON.

Results hold NaN if a number is undefined. JSON has no NaN, so there it is null beside a reason.
"""

from __future__ import annotations

import math

UNDEFINED = float("nan")


def json_number(value: float) -> float | None:
    """Return the same number, or None for NaN."""
    return None if math.isnan(value) else value


def with_reason(fields: dict[str, object], reason: str | None) -> dict[str, object]:
    """Add the key "reason" to a JSON object that has null fields.

    Args:
        fields: one JSON object.
        reason: why some of its fields are null; None if all are defined.
    """
    return fields if reason is None else {**fields, "reason": reason}
