"""What workers of Mechanical Turk see before their participation, and instead of it."""

from __future__ import annotations

from sqlalchemy.orm import Session

from hsfiq.annotate.pages import message_page
from hsfiq.annotate.texts import html_of, study_texts
from hsfiq.db.tables import Study

KEPT_TICKET = "hsfiq.ticket"
"""Where the question page in a frame keeps its ticket in the browser: `page.js` knows the name."""

SEND_TICKET = f"""
try {{
  const ticket = localStorage.getItem("{KEPT_TICKET}");
  const address = new URL(location.href);
  if (ticket) address.searchParams.set("ticket", ticket);
  document.querySelector("form").action = address.href;
}} catch {{ /* the browser keeps nothing for frames */ }}
"""


def preview_page(session: Session, study: Study, language: str) -> str:
    """For a worker who has not accepted the HIT yet: the task and its guidelines."""
    texts = study_texts(session, study, language)
    shown = texts.title, texts.entry["task"], texts.entry["preview"]
    guidelines = html_of(texts.guidelines)
    return message_page(texts.title, texts.language, *shown, guidelines=guidelines)


def begin_page(session: Session, study: Study, language: str) -> str:
    """For a worker who has accepted the HIT; its button sends the link again as a form."""
    texts = study_texts(session, study, language)
    shown = texts.title, texts.entry["task"], texts.entry["hit_accepted"]
    begin = texts.entry["begin"]
    return message_page(texts.title, texts.language, *shown, begin=begin, script=SEND_TICKET)


def no_place_page(session: Session, study: Study, language: str) -> str:
    """For a worker whom the study cannot take now."""
    texts = study_texts(session, study, language)
    text = texts.entry
    if study.status in ("paused", "draft"):
        shown = text["paused_title"], text["paused"]
    else:
        is_full = study.status == "open"
        shown = text["places_taken_title"], text["full" if is_full else "places_taken"]
    return message_page(texts.title, texts.language, *shown, text["return_hit"])


def hit_changed_page(session: Session, study: Study, language: str) -> str:
    """For a worker who has begun with another HIT, perhaps in another browser."""
    texts = study_texts(session, study, language)
    text = texts.entry
    shown = text["hit_changed_title"], text["hit_changed"]
    return message_page(texts.title, texts.language, *shown)


def hit_refused_page(session: Session, study: Study, language: str) -> str:
    """For a worker who has finished the study with another HIT."""
    texts = study_texts(session, study, language)
    text = texts.entry
    shown = text["hit_refused_title"], text["hit_refused"], text["return_hit"]
    return message_page(texts.title, texts.language, *shown)
