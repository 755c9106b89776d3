"""The plain pages around a study: welcome, closed or full studies, and links that are not valid."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from hsfiq.annotate.texts import entry_texts, language_of
from hsfiq.db.tables import Study
from hsfiq.study.config import config_of

FOLDER = Path(__file__).parent

TEMPLATES = Environment(
    loader=FileSystemLoader([FOLDER / "templates", FOLDER / "static"]),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
"""Every HTML page and fragment that is made in Python; values are escaped."""


def render(template: str, **values: object) -> str:
    return TEMPLATES.get_template(template).render(values)


def welcome_page(
    studies: Sequence[Study], known: Study | None, language: str, *, is_full: bool = False
) -> str:
    """The page at `/`. `studies` are open to all; `known` is this browser's study."""
    if known:
        text = entry_texts(language_of(known))
        return message_page(
            known.title,
            language_of(known),
            known.title,
            text["welcome_back"],
            simulated=text["simulated"] if known.origin == "simulated" else "",
            link="study/",
            link_text=text["continue"],
        )
    languages = {language_of(study) for study in studies}
    language = languages.pop() if len(languages) == 1 else language
    text = entry_texts(language)
    return render(
        "welcome.html",
        title=studies[0].title if studies else text["welcome"],
        language=language,
        text=text,
        is_full=is_full,
        offers=[offer_of(study) for study in studies],
    )


def offer_of(study: Study) -> dict[str, object]:
    design, language = config_of(study).design, language_of(study)
    return {
        "study_id": study.id,
        "title": study.title,
        "language": language,
        "text": entry_texts(language),
        "is_simulated": study.origin == "simulated",
        "questions": design.questions_per_form * design.forms_per_participant,
    }


def not_open_page(study: Study) -> str:
    """For somebody whom the study cannot take now; if it is over, with the completion code."""
    text, recruitment = entry_texts(language_of(study)), config_of(study).recruitment
    if study.status in ("paused", "draft"):
        return message_page(study.title, language_of(study), text["paused_title"], text["paused"])
    return message_page(
        study.title,
        language_of(study),
        text["places_taken_title"],
        text["places_taken"],
        code_label=text["completion_code"],
        code=recruitment.completion_code,
        link=recruitment.completion_url,
        link_text=text["finish"],
    )


def preview_page(study: Study) -> str:
    """For an MTurk worker who previews the task."""
    text = entry_texts(language_of(study))
    return message_page(study.title, language_of(study), study.title, text["task"], text["preview"])


def unknown_link_page(language: str) -> str:
    text = entry_texts(language)
    return message_page(text["welcome"], language, text["unknown_link_title"], text["unknown_link"])


def other_platform_study_page(language: str) -> str:
    """For somebody whose link belongs to another study of the recruitment platform."""
    text = entry_texts(language)
    return message_page(
        text["welcome"],
        language,
        text["other_platform_study_title"],
        text["other_platform_study"],
        text["other_platform_study_help"],
    )


def unknown_browser_page(language: str) -> str:
    text = entry_texts(language)
    return message_page(
        text["welcome"],
        language,
        text["unknown_browser_title"],
        text["unknown_browser"],
        link="../",
        link_text=text["to_welcome"],
    )


def other_site_page(language: str, root: str) -> str:
    """For somebody whose browser was made to send a request by another site's page."""
    text = entry_texts(language)
    return message_page(
        text["welcome"],
        language,
        text["other_site_title"],
        text["other_site"],
        link=root,
        link_text=text["to_welcome"],
    )


def message_page(title: str, language: str, heading: str, *paragraphs: str, **details: str) -> str:
    """A page with a short message and at most one thing to do.

    `details`: the notice `simulated`, `code` with `code_label`, `link` with `link_text`.
    """
    message = {"title": title, "language": language, "heading": heading, "paragraphs": paragraphs}
    return render("message.html", **message, **details)
