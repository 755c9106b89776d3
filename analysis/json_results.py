"""Results as JSON. An undefined number is NaN in results, and null beside a reason in JSON."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import numpy as np
import pandas as pd
from numpy.typing import NDArray

# Short names for the array types of the statistics.

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]


UNDEFINED = float("nan")


class JsonRecord:
    """A dataclass whose fields are the keys of a JSON object.

    Two fields are special. `reason` explains why other fields are undefined, and is omitted if
    None. `ci`, if it is a record itself, adds its keys and its reason to the object.
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

    def to_frame(self) -> pd.DataFrame:
        """The figures of a result as a table: a row for each, named by its place in `to_json`.

        An interval is in the columns `low` and `high`; an undefined figure is NaN.
        """
        rows = dict(_rows("", self.to_json()))
        return pd.DataFrame.from_dict(rows, orient="index")

    def _repr_html_(self) -> str:
        """The table, for notebooks."""
        return str(self.to_frame().to_html(na_rep="", float_format="{:.4g}".format))


def _rows(name: str, value: Mapping[str, object]) -> Iterator[tuple[str, dict[str, object]]]:
    """Yield a JSON object's own numbers and texts, then those of the objects in it."""
    own: dict[str, object] = {}
    inner: list[tuple[str, object]] = []
    for key, each in value.items():
        if key == "ci" and isinstance(each, list):
            own["low"], own["high"] = (UNDEFINED if end is None else end for end in each)
        elif isinstance(each, Mapping | list):
            inner.append((key, each))
        else:
            own[key] = UNDEFINED if each is None else each
    if any(isinstance(each, int | float) for each in own.values()):
        yield name, own
    for key, each in inner:
        path = f"{name}.{key}" if name else key
        if isinstance(each, Mapping) and key != "ci_method":
            yield from _rows(path, each)
        elif isinstance(each, list):
            for place, part in enumerate(each):
                if isinstance(part, Mapping):
                    yield from _rows(f"{path}.{place}", part)


def json_value(value: object) -> object:
    if isinstance(value, JsonRecord):
        return value.to_json()
    if isinstance(value, Mapping):
        return {name: json_value(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [json_value(each) for each in value]
    return json_number(value) if isinstance(value, float) else value


class SparseRecord(JsonRecord):
    """A record whose JSON object omits the fields that are None because they do not apply."""

    def to_json(self) -> dict[str, object]:
        absent = {name for name, value in vars(self).items() if value is None}
        return {name: value for name, value in super().to_json().items() if name not in absent}


def json_number(value: float) -> float | None:
    return None if math.isnan(value) else value


def with_reason(fields: Mapping[str, object], reason: str | None) -> dict[str, object]:
    """Add the key "reason" to a JSON object that has null fields, unless the reason is None."""
    return dict(fields) if reason is None else {**fields, "reason": reason}
