"""The plain pages around a study: welcome, closed or full studies, and links that are not valid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from sqlalchemy.orm import Session

from hsfiq.annotate.texts import (
    StudyTexts,
    entry_texts,
    facts_about,
    kept_data,
    kept_of_address,
    language_for,
    language_in,
    languages_of,
    participant_texts,
    study_texts,
)
from hsfiq.collect.asked_questions import steps_of
from hsfiq.collect.participant_row import ParticipantRow, StudyRow
from hsfiq.collect.participants import has_free_place
from hsfiq.collect.stages import STAGES_TO_CONTINUE, Stage, stage_of
from hsfiq.db.tables import Study
from hsfiq.study.languages import direction
from hsfiq.study.recruiting import completion_code, completion_url

FOLDER = Path(__file__).parent

Notice = Literal["full", "begin_again", "no_cookies"]
"""The first notices of the welcome page, by the name of the text."""

TEMPLATES = Environment(
    loader=FileSystemLoader([FOLDER / "templates", FOLDER / "static"]),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
"""Every HTML page and fragment rendered in Python; values are escaped."""


TEMPLATES.filters["direction"] = direction


def render(template: str, **values: object) -> str:
    return TEMPLATES.get_template(template).render(values)


def welcome_page(
    session: Session,
    studies: Sequence[Study],
    held: Sequence[ParticipantRow],
    headers: Mapping[str, str],
    wanted: str = "",
    *,
    now: datetime,
    proof: str,
    platform: str = "",
    notice: Notice | None = None,
) -> str:
    """The page at `/`: this browser's participants, and the studies that are open to all.

    If there are none, `platform` names the one on which a study takes people.

    A study is in the `wanted` language, if it has it, or in the browser's preferred language.
    `proof` shows with the form that this page was open; `notice` is the text shown first.
    """
    with_place = {study.id for study in studies if has_free_place(session, study, now)}
    known_studies = {known.study.id for known in held}
    parts = {
        "held": [known_of(session, known, known.study.id in with_place) for known in held],
        "offers": [
            offer_of(
                session,
                study,
                language_in(study.config, headers, wanted),
                is_full=study.id not in with_place,
            )
            for study in map(StudyRow.of, studies)
            if study.id not in known_studies
        ],
    }
    texts = [part["texts"] for part in (*parts["held"], *parts["offers"])]
    languages = {each.language for each in texts}
    language = languages.pop() if len(languages) == 1 else language_for(headers)
    text = entry_texts(language_for(headers))
    return render(
        "welcome.html",
        title=texts[0].title if texts else text["welcome"],
        language=language,
        text=text,
        proof=proof,
        platform=platform,
        notice=text[notice] if notice else "",
        **parts,
    )


def known_of(session: Session, participant: ParticipantRow, takes_others: bool) -> dict[str, Any]:
    """A participant of this browser; `takes_others` if anybody may enrol in their study."""
    study, progress = participant.study, steps_of(session, participant.id)
    texts = participant_texts(session, participant)
    stage = stage_of(session, participant, progress)
    return {
        "participant_id": participant.id,
        "name": participant.name,
        "study_id": study.id,
        "texts": texts,
        "standing": standing_text(texts, stage),
        "button": texts.entry["continue" if stage in STAGES_TO_CONTINUE else "to_own_page"],
        "is_simulated": study.origin == "simulated",
        "answered": progress.answered,
        "total": progress.total,
        "takes_others": takes_others,
    }


def standing_text(texts: StudyTexts, stage: Stage) -> str:
    """The status of a participation, for a participant who returns."""
    if stage in STAGES_TO_CONTINUE:
        return texts.entry["welcome_back"]
    if stage == "done":
        return texts.entry["finished"]
    if stage == "declined":
        return texts.entry["declined_before"]
    title: str = texts.page["farewell"][stage][0]
    return f"{title}."


def offer_of(session: Session, study: StudyRow, language: str, *, is_full: bool) -> dict[str, Any]:
    config = study.config
    design, checks = config.design, config.checks
    n_asked = design.questions_per_form + checks.gold + checks.repeated
    texts = study_texts(session, study, language)
    return {
        "study_id": study.id,
        "languages": languages_of(config),
        "texts": texts,
        "is_simulated": study.origin == "simulated",
        "is_full": is_full,
        "facts": facts_about(session, study, texts, n_asked * design.forms_per_participant),
        "kept": kept_data(texts) + kept_of_address(study.config, study.origin, texts),
    }


def not_open_page(
    session: Session, study: StudyRow, language: str, ids: Mapping[str, str], *, was_sent: bool
) -> str:
    """For a person whom the study cannot accept now; `ids` are those of a platform's link.

    A person who `was_sent` by the owner or a platform is entitled to a code; others get one only if
    the owner has set it for them.
    """
    texts, recruitment = study_texts(session, study, language), study.config.recruitment
    text = texts.entry
    if study.status in ("paused", "draft"):
        return message_page(texts.title, texts.language, text["paused_title"], text["paused"])
    is_due = was_sent or bool(recruitment.full_code)
    return message_page(
        texts.title,
        texts.language,
        text["places_taken_title"],
        text["full" if study.status == "open" else "places_taken"],
        code_label=text["completion_code"],
        code=completion_code(recruitment, "full") if is_due else "",
        link=completion_url(recruitment, "full", ids) if is_due else "",
        link_text=text["finish"],
    )


def too_many_page(session: Session, study: StudyRow, language: str, *, minutes: int) -> str:
    """For a person whose address has had too many enrolments in the last hour."""
    texts = study_texts(session, study, language)
    text = texts.entry
    return message_page(
        texts.title,
        texts.language,
        text["too_many_title"],
        text["too_many"].format(minutes=minutes),
        text["too_many_help"],
    )


def other_participation_page(current: StudyTexts, other: StudyTexts, root: str) -> str:
    """For a link that would replace an unfinished participation of this browser.

    The page's button sends the link again as a form, which no other site can.
    """
    text, titles = other.entry, {"current": current.title, "other": other.title}
    return message_page(
        other.title,
        other.language,
        text["other_participation_title"],
        text["other_participation"].format_map(titles),
        text["other_participation_help"],
        confirm=text["use_link"],
        link=f"{root}study/",
        link_text=text["keep_participation"].format_map(titles),
    )


def unknown_link_page(language: str) -> str:
    text = entry_texts(language)
    return message_page(text["welcome"], language, text["unknown_link_title"], text["unknown_link"])


def on_platform_page(language: str, platform: str) -> str:
    """For a platform's link without the person's id."""
    text = entry_texts(language)
    shown = (text[each].format(platform=platform) for each in ("on_platform_title", "on_platform"))
    return message_page(text["welcome"], language, *shown)


def not_invited_page(language: str) -> str:
    """For an id of a recruitment platform that a study does not accept."""
    text = entry_texts(language)
    shown = text["not_invited_title"], text["not_invited"]
    return message_page(text["welcome"], language, *shown)


def other_platform_study_page(language: str) -> str:
    """For a person whose link belongs to another study of the recruitment platform."""
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
    """For a person whose browser sent a request on behalf of another site's page."""
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
    """A page with a short message and what to do.

    `details`: the notice `simulated`, `code` with `code_label`, `link` with `link_text`,
    `guidelines` in HTML, and `begin` or `confirm`, the text of a button that sends the request
    again as a form.
    """
    message = {"title": title, "language": language, "heading": heading, "paragraphs": paragraphs}
    return render("message.html", **message, **details)
