"""The optional filters of a release, and their names; rules for leaving people out of results.

A filter's name can be given to `hsfiq export --filter` and is the rule's name in the funnel, in
`exclusions` and in the manifest: `invalid`, `too-fast(seconds=2)`. `invalid` combines the papers'
two rules (`hsfiq.releases.dropping_rules`), which have separate names there.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from hsfiq.errors import UnreadableInput

NOT_RECORDED = "not recorded"

OPTION = "--filter"
_NAME = re.compile(r"([a-z-]+)\s*(?:\(\s*([a-z]+)\s*=\s*([^\s()=,]+)\s*\))?")
DEFAULT_RUN = 10
SHORTEST_RUN = 2


@dataclass(frozen=True, slots=True)
class Filters:
    """The optional filters that are applied, in the order of the funnel.

    Attributes:
        invalid: drop questions flagged irrelevant and, for `hp`, contradicting ones.
        failed_checks: drop forms in which an attention check failed.
        unseen: drop questions answered without every image painted.
        min_seconds: drop questions answered in less active time.
        straight_run: drop answers in a run of at least this number of equal answers.
    """

    invalid: bool = False
    failed_checks: bool = False
    unseen: bool = False
    min_seconds: float | None = None
    straight_run: int | None = None

    def names(self) -> list[str]:
        return [str(NamedFilter.of(self, name)) for name in FILTERS if is_on(self, name)]

    def described(self) -> list[dict[str, Any]]:
        """The manifest's entry: the filters with their parameters."""
        described = []
        for name, choice in FILTERS.items():
            if is_on(self, name):
                value = getattr(self, choice.field)
                parameters = {choice.parameter: value} if choice.parameter else {}
                described.append({"name": name, "parameters": parameters})
        return described


def is_on(filters: Filters, name: str) -> bool:
    return is_given(getattr(filters, FILTERS[name].field))


def is_given(value: float | None) -> bool:
    """Whether a field of `Filters` is on; 0 seconds are."""
    return value is not None and value is not False


@dataclass(frozen=True, slots=True)
class NamedFilter:
    """A filter by its name, and the value of its parameter if it has one.

    >>> str(NamedFilter("too-fast", "seconds", 2.0)), str(NamedFilter("unseen"))
    ('too-fast(seconds=2)', 'unseen')
    """

    name: str
    parameter: str | None = None
    value: float | None = None

    def __str__(self) -> str:
        if self.parameter is None or self.value is None:
            return self.name
        number = int(self.value) if self.value == int(self.value) else self.value
        return f"{self.name}({self.parameter}={number})"

    @classmethod
    def of(cls, filters: Filters, name: str) -> NamedFilter:
        choice = FILTERS[name]
        if choice.parameter is None:
            return cls(name)
        return cls(name, choice.parameter, getattr(filters, choice.field))


@dataclass(frozen=True, slots=True)
class Choice:
    """A filter that can be chosen: its field of `Filters`, and its parameter if it has one.

    `read` reads the parameter's value from a text and raises `ValueError`. Without a `default` the
    parameter is required.
    """

    field: str
    parameter: str | None = None
    read: Callable[[str], float] = float
    default: float | None = None


def seconds_from(text: str) -> float:
    seconds = float(text)
    if not math.isfinite(seconds) or seconds < 0:
        raise ValueError("not a number of seconds")
    return seconds


def run_from(text: str) -> int:
    run = int(text)
    if run < SHORTEST_RUN:
        raise ValueError(f"less than {SHORTEST_RUN}")
    return run


FILTERS = {
    "invalid": Choice("invalid"),
    "failed-checks": Choice("failed_checks"),
    "unseen": Choice("unseen"),
    "too-fast": Choice("min_seconds", "seconds", seconds_from),
    "straight-lining": Choice("straight_run", "run", run_from, DEFAULT_RUN),
}
"""By name, in the order in which they are applied."""


def parse_filters(texts: Iterable[str], given: Filters | None = None) -> Filters:
    """The given filters, and the filters with these names.

    >>> parse_filters(["unseen", "too-fast(seconds=2)"]).names()
    ['unseen', 'too-fast(seconds=2)']

    Raises:
        UnreadableInput: a name or a parameter is unknown, or a filter is given twice.
    """
    values = {field.name: getattr(given or Filters(), field.name) for field in fields(Filters)}
    for text in texts:
        name, value = parse_filter(text)
        field = FILTERS[name].field
        if is_given(values[field]):
            raise UnreadableInput(OPTION, f"{name} is given twice")
        values[field] = value
    return Filters(**values)


def parse_filter(text: str) -> tuple[str, float | bool]:
    """The filter's name, and the value of its parameter or True."""
    match = _NAME.fullmatch(text.strip())
    if match is None or match[1] not in FILTERS:
        known = ", ".join(usage(name) for name in FILTERS)
        raise UnreadableInput(OPTION, f"{text!r} is not a filter", f"use one of {known}")
    name, parameter, value = match.groups()
    choice = FILTERS[name]
    if parameter != choice.parameter and (parameter or choice.default is None):
        raise UnreadableInput(OPTION, f"{text!r} has the wrong form", f"use {usage(name)}")
    if choice.parameter is None:
        return name, True
    if value is None and choice.default is not None:
        return name, choice.default
    try:
        return name, choice.read(value)
    except (ValueError, OverflowError):
        what = f"{value!r} is not a valid value of {parameter} in {text!r}"
        raise UnreadableInput(OPTION, what, f"use {usage(name)}") from None


def usage(name: str) -> str:
    """The syntax of a filter, with an example of its parameter."""
    choice = FILTERS[name]
    return str(NamedFilter(name, choice.parameter, choice.default or 2))


# Rules for leaving people out: the limits that nobody may be beyond, by name.

Limits = Mapping[str, float]

LIMITS = {
    "checks": (1000, "more than {:g} failed checks"),
    "seconds": (86_400, "less than {:g} s for a question (median)"),
    "side": (100, "the same side in more than {:g}% of the answers"),
    "doubtful": (100, "more than {:g}% of the answers flagged or contradicting themselves"),
}
"""The largest value of each limit, and the violation in words."""


def read_limits(given: Mapping[str, str]) -> Limits:
    """Read limits given as texts; `UnreadableInput` if there is none, or one is invalid.

    >>> described(read_limits({"seconds": "6", "checks": "1"}))
    'more than 1 failed checks; less than 6 s for a question (median)'
    """
    limits = {}
    for name, (largest, _) in LIMITS.items():
        if name in given:
            try:
                limits[name] = float(given[name].replace(",", "."))
            except ValueError:
                limits[name] = math.nan
            if not 0 <= limits[name] <= largest:
                what = f"{given[name][:40]!r} is not a number from 0 to {largest:,}"
                raise UnreadableInput(name, what)
    if not limits:
        raise UnreadableInput("rule", "has no limit", "choose one")
    return limits


def described(limits: Limits) -> str:
    """The rule's name: its limits in words."""
    return "; ".join(LIMITS[name][1].format(limit) for name, limit in limits.items())
