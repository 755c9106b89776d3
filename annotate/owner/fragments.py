"""HTML fragments for the dashboard, and how it writes numbers, times and durations.

Gradio fills in `${...}` and `{{...}}` in the HTML that it is given, so these signs are written as
character references: text from data stays text.
"""

from __future__ import annotations

from datetime import UTC, datetime

from markupsafe import Markup

from hsfiq.annotate.pages import TEMPLATES, render

DASH = "\N{EN DASH}"

GRADIO_SIGNS = str.maketrans({"{": "&#123;", "}": "&#125;", "$": "&#36;", "`": "&#96;"})


def render_fragment(template: str, **values: object) -> Markup:
    """The template with these values, safe to show through Gradio."""
    return Markup(render(template, **values).translate(GRADIO_SIGNS))  # noqa: S704 (autoescaped)


def line(text: str, css_class: str, *, role: str = "", strong: str = "") -> Markup:
    return render_fragment("line.html", line=text, css_class=css_class, role=role, strong=strong)


def empty(text: str) -> Markup:
    """The line in place of a table or an answer that is missing."""
    return line(text, "empty")


def moment(at: datetime | None) -> str:
    """A moment to the second, in UTC."""
    return DASH if at is None else at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")


def since(at: datetime | None, now: datetime) -> str:
    """How long ago a moment was, in the largest unit that fits."""
    if at is None:
        return DASH
    elapsed = max((now - at).total_seconds(), 0.0)
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if elapsed >= size:
            return f"{elapsed // size:.0f} {unit} ago"
    return "now"


def seconds(value: float | None) -> str:
    """A duration; from 100 s on in minutes."""
    if value is None:
        return DASH
    return f"{value:.0f} s" if value < 100 else f"{value / 60:.1f} min"


def percent(share: float) -> str:
    """A share with one decimal."""
    return f"{100 * share:.1f} %"


TEMPLATES.filters |= {"moment": moment, "since": since, "seconds": seconds}
