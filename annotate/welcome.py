"""The plain pages before the study: welcome, and the way back for a browser that is not known."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from string import Template

from hsfiq.tables import Study

TASK = (
    "You will see an image, a wish that changes it, and two sets of images that two searches"
    " found. Say how well each set matches, and which one you prefer."
)
FRAME = Template((Path(__file__).parent / "static" / "welcome.html").read_text(encoding="utf-8"))


def welcome_page(studies: Sequence[Study], known: Study | None, notice: str = "") -> str:
    """The page at `/`: continue, begin, or that nothing is open.

    Args:
        studies: those that anybody may join now.
        known: the study of the participant whom this browser is known as.
        notice: one line on what just went wrong.
    """
    parts = [f'<p class="notice" role="alert">{escape(notice)}</p>'] if notice else []
    if known:
        parts += [
            f"<h1>{escape(known.title)}</h1>",
            "<p>Welcome back. Your answers are kept; you go on where you stood.</p>",
            '<p><a class="primary" href="study/">Continue where you stood</a></p>',
        ]
        return page(known.title, parts)
    if not studies:
        parts += [
            "<h1>Nothing to judge at the moment</h1>",
            "<p>No study is open here. Please come back later.</p>",
        ]
        return page("Welcome", parts)
    for study in studies:
        parts += invitation(study)
    return page(studies[0].title, parts)


def invitation(study: Study) -> list[str]:
    """What one open study is about, with its Begin button."""
    questions = study.design.get("questions_per_form", 0) * study.forms_per_participant
    return [
        f"<h1>{escape(study.title)}</h1>",
        f"<p>{TASK}</p>",
        "<ul>",
        f"<li>{questions} questions, with guidelines at the start</li>" if questions else "",
        "<li>Stop and come back in this browser at any time</li>",
        "<li>We keep your answers and when you gave them, and nothing else about you</li>",
        "</ul>",
        '<form method="post" action="enrol" onsubmit="this.begin.disabled = true">',
        f'<input type="hidden" name="study" value="{study.id}">',
        '<button class="primary" name="begin" type="submit">Begin</button></form>',
    ]


def stranger_page() -> str:
    """What a browser without our cookie gets where only participants may go."""
    return page(
        "Welcome",
        [
            "<h1>We do not know this browser yet</h1>",
            "<p>Please begin at the welcome page, in the browser you started with.</p>",
            '<p><a class="primary" href="../">To the welcome page</a></p>',
        ],
    )


def page(title: str, parts: Sequence[str]) -> str:
    """The parts in the frame that these pages share."""
    return FRAME.substitute(title=escape(title), body="\n".join(part for part in parts if part))
