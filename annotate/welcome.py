"""The plain pages before the study: welcome, late-comers, and links that lead nowhere."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from string import Template

from hsfiq.annotate.texts import entry_texts, language_of
from hsfiq.db.tables import Study
from hsfiq.study.config import config_of

FRAME = Template((Path(__file__).parent / "static" / "welcome.html").read_text(encoding="utf-8"))


def welcome_page(
    studies: Sequence[Study], known: Study | None, language: str, *, is_full: bool = False
) -> str:
    """The page at `/`: continue, begin, or that nothing is open.

    Args:
        studies: those that anybody may join now.
        known: the study of the participant whom this browser is known as.
        language: for what is no study's own.
        is_full: whether a study has just refused to take one more.
    """
    if known:
        language = language_of(known)
        text = entry_texts(language)
        parts = [
            f"<h1>{escape(known.title)}</h1>",
            *simulation_notice(known),
            paragraph(text["welcome_back"]),
            link("study/", text["continue"]),
        ]
        return page(known.title, language, parts)
    languages = {language_of(study) for study in studies}
    language = languages.pop() if len(languages) == 1 else language
    text = entry_texts(language)
    parts = [f'<p class="notice" role="alert">{escape(text["full"])}</p>'] if is_full else []
    for study in studies:
        parts += invitation(study)
    if not studies:
        parts += [f"<h1>{escape(text['no_study_title'])}</h1>", paragraph(text["no_study"])]
    return page(studies[0].title if studies else text["welcome"], language, parts)


def invitation(study: Study) -> list[str]:
    """What one open study is about, with its Begin button."""
    text = entry_texts(language_of(study))
    design = config_of(study).design
    questions = design.questions_per_form * design.forms_per_participant
    about = (text["questions"].format(questions=questions), text["come_back"], text["data_stored"])
    return [
        f'<section lang="{language_of(study)}">',
        f"<h1>{escape(study.title)}</h1>",
        *simulation_notice(study),
        paragraph(text["task"]),
        "<ul>",
        *(f"<li>{escape(line)}</li>" for line in about),
        "</ul>",
        '<form method="post" action="enrol" onsubmit="this.begin.disabled = true">',
        f'<input type="hidden" name="study" value="{study.id}">',
        f'<button class="primary" name="begin" type="submit">{escape(text["begin"])}</button>',
        "</form></section>",
    ]


def simulation_notice(study: Study) -> list[str]:
    """What tells people and `hsfiq simulate` whose answers the study holds; for most, nothing."""
    if study.origin != "simulated":
        return []
    text = entry_texts(language_of(study))["simulated"]
    return [f'<p class="notice" data-origin="simulated">{escape(text)}</p>']


def late_page(study: Study) -> str:
    """For somebody whom the study cannot take (any more): thanks, and the code they are due."""
    language = language_of(study)
    text, recruitment = entry_texts(language), config_of(study).recruitment
    if study.status in ("paused", "draft"):
        parts = [f"<h1>{escape(text['paused_title'])}</h1>", paragraph(text["paused"])]
        return page(study.title, language, parts)
    parts = [f"<h1>{escape(text['places_taken_title'])}</h1>", paragraph(text["places_taken"])]
    if recruitment.completion_code:
        code = f"<strong>{escape(recruitment.completion_code)}</strong>"
        parts.append(f'<p class="code">{escape(text["completion_code"])} {code}</p>')
    if recruitment.completion_url:
        parts.append(link(recruitment.completion_url, text["finish"]))
    return page(study.title, language, parts)


def preview_page(study: Study) -> str:
    """For a worker who only looks at the task: what it is, without taking part."""
    language = language_of(study)
    text = entry_texts(language)
    parts = [f"<h1>{escape(study.title)}</h1>", paragraph(text["task"]), paragraph(text["preview"])]
    return page(study.title, language, parts)


def unknown_link_page(language: str) -> str:
    """For a link that is incomplete or none of ours."""
    text = entry_texts(language)
    parts = [f"<h1>{escape(text['unknown_link_title'])}</h1>", paragraph(text["unknown_link"])]
    return page(text["welcome"], language, parts)


def stranger_page(language: str) -> str:
    """What a browser without our cookie gets where only participants may go."""
    text = entry_texts(language)
    parts = [
        f"<h1>{escape(text['unknown_browser_title'])}</h1>",
        paragraph(text["unknown_browser"]),
        link("../", text["to_welcome"]),
    ]
    return page(text["welcome"], language, parts)


def paragraph(text: str) -> str:
    """A text as a paragraph."""
    return f"<p>{escape(text)}</p>"


def link(address: str, text: str) -> str:
    """The one thing to do next."""
    return f'<p><a class="primary" href="{escape(address)}">{escape(text)}</a></p>'


def page(title: str, language: str, parts: Sequence[str]) -> str:
    """The parts in the frame that these pages share."""
    return FRAME.substitute(title=escape(title), language=language, body="\n".join(parts))
