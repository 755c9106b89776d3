"""Text from data as text: escaped for HTML and for the templates that Gradio fills in."""

from __future__ import annotations

from datetime import UTC, datetime
from html import escape

DASH = "\N{EN DASH}"

TEMPLATE_SIGNS = str.maketrans({"{": "&#123;", "}": "&#125;", "$": "&#36;", "`": "&#96;"})


def text(value: object) -> str:
    """Any value as text that stays text; a dash for None."""
    return DASH if value is None else escape(str(value)).translate(TEMPLATE_SIGNS)


def moment(at: datetime | None) -> str:
    """A moment to the second, in UTC."""
    return DASH if at is None else at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")


def since(at: datetime | None, now: datetime) -> str:
    """How long ago a moment was, in the largest unit that fits."""
    if at is None:
        return DASH
    seconds = max((now - at).total_seconds(), 0.0)
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size:.0f} {unit} ago"
    return "now"


def seconds(value: float | None) -> str:
    """A duration, in minutes from 100 s on."""
    if value is None:
        return DASH
    return f"{value:.0f} s" if value < 100 else f"{value / 60:.1f} min"


def percent(share: float) -> str:
    """A share with one decimal."""
    return f"{100 * share:.1f} %"
