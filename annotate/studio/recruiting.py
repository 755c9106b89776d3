"""The page "Recruiting": personal links, pausing and resuming, and messages to participants.

It shows no information from answers, so helpers can use it.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from sqlalchemy import select

from hsfiq.actors import Action, Permission
from hsfiq.annotate.owner.study_pages import MOST_AT_ONCE, new_links
from hsfiq.annotate.studio.shell import Act, Desk, Page, Said
from hsfiq.annotate.studio.watch import SAID_OF, View, set_person
from hsfiq.audit import record
from hsfiq.collect.messages import send_message, sent_messages
from hsfiq.collect.owner import OwnerAction, perform
from hsfiq.collect.participants import (
    PER_PAGE,
    by_name_or_platform_id,
    people_page,
    places_for_invitations,
)
from hsfiq.collect.progress import progress_of, states_of
from hsfiq.collect.studies import is_finished
from hsfiq.db.tables import Participant
from hsfiq.errors import Refused


def view(desk: Desk) -> Mapping[str, object]:
    now, asked = datetime.now(UTC), View(desk.request.query_params)
    with desk.reading() as (session, study):
        text = asked.text("q").strip()
        page = people_page(session, study, text, asked.number("page"))
        people = session.scalars(
            select(Participant).where(Participant.id.in_(page.keys)).order_by(Participant.id.desc())
        ).all()
        states = states_of(session, study, now, page.keys)
        return {
            "title": desk.t("Recruiting"),
            "tab": "recruiting",
            "study": study,
            "is_finished": is_finished(study),
            "progress": progress_of(session, study),
            "places": places_for_invitations(session, study, now),
            "most": MOST_AT_ONCE,
            "links": getattr(desk.request.state, "links", ()),
            "text": text,
            "rows": [(person, states[person.id]) for person in people],
            "page_number": page.number,
            "per_page": PER_PAGE,
            "n_found": page.n_found,
            "address": asked.address,
            "messages": sent_messages(session, study) if desk.may("manage") else [],
        }


def make_links(desk: Desk) -> Said:
    """Make personal links; the page shows them in this reply only."""
    number = desk.number("count")
    with desk.writing() as (session, study):
        root = str(desk.request.base_url)
        desk.request.state.links = new_links(
            session, study, number, desk.actor, root, desk.text("once")
        )
    return Said(desk.t("Copy the links now: they are shown only once."))


CHANGES = {"pause": ("open", "paused"), "open": ("paused", "open")}
"""The status of the study before and after each act."""


def set_status(desk: Desk) -> Said:
    """Pause or resume the study; owners open and close it on other pages."""
    to = desk.text("to")
    if to not in CHANGES:
        raise Refused("this page only pauses and resumes a study")
    with desk.writing() as (session, study):
        perform(session, OwnerAction(study.name, None, to, CHANGES[to][0]), desk.actor)
    undo = {"act": "status", "to": "open" if to == "pause" else "pause"}
    return Said(desk.t(SAID_OF[to]), undo=undo)


def send(desk: Desk) -> Said:
    """Send a message to all current participants, or to one participant."""
    name = desk.text("to").strip()
    with desk.writing() as (session, study):
        person = by_name_or_platform_id(session, study, name) if name else None
        send_message(session, study, desk.text("text"), to=person, now=datetime.now(UTC))
        whom = person.name if person else "everybody"
        record(session, desk.actor, Action.STUDY_MESSAGE, study=study.name, about=whom)
    return Said(desk.t("Sent. People see it on their next page."))


OF_RECRUITERS: Mapping[str, Act] = {"links": make_links, "status": set_status, "person": set_person}
RECRUITING = Page(
    "study/{study_id}/recruiting",
    "studio_recruiting.html",
    view,
    {**OF_RECRUITERS, "send": send},
    Permission.RECRUIT,
    dict.fromkeys(OF_RECRUITERS, Permission.RECRUIT),
)
