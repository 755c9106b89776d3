"""Results as JSON. An undefined number is NaN in results, and null beside a reason in JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping

UNDEFINED = float("nan")


class JsonRecord:
    """A dataclass whose fields are the keys of a JSON object.

    Two fields are special. `reason` says why other fields are undefined, and is omitted if None.
    `ci`, if it is a record itself, adds its keys and its reason to the object.
    """

    def to_json(self) -> dict[str, object]:
        values = dict(vars(self))
        reason = values.pop("reason", None)
        ci = values.get("ci", UNDEFINED)
        if ci is None or isinstance(ci, JsonRecord):
            del values["ci"]
        fields = {name: json_value(value) for name, value in values.items()}
        if isinstance(ci, JsonRecord):
            fields |= ci.to_json()
            reason = reason or vars(ci).get("reason")
        return with_reason(fields, reason)


def json_value(value: object) -> object:
    if isinstance(value, JsonRecord):
        return value.to_json()
    if isinstance(value, Mapping):
        return {name: json_value(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [json_value(each) for each in value]
    return json_number(value) if isinstance(value, float) else value


def json_number(value: float) -> float | None:
    return None if math.isnan(value) else value


def with_reason(fields: Mapping[str, object], reason: str | None) -> dict[str, object]:
    """Add the key "reason" to a JSON object that has null fields, unless the reason is None."""
    return dict(fields) if reason is None else {**fields, "reason": reason}
