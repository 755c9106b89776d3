"""How participants enrol: openly, by personal link, or by a platform's link."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Annotated

from fastapi import FastAPI, Form, Request, Response
from fastapi.responses import HTMLResponse
from sqlalchemy import select
from sqlalchemy.orm import Session

from hsfiq.annotate import cookies, entry, mturk, pages
from hsfiq.annotate.handlers import Services
from hsfiq.annotate.texts import (
    StudyTexts,
    language_for,
    language_in,
    participant_texts,
    study_texts,
)
from hsfiq.collect import participants
from hsfiq.collect.asked_questions import steps_of
from hsfiq.collect.participant_row import ParticipantRow, StudyRow, participant_row
from hsfiq.collect.participants import has_free_place
from hsfiq.collect.stages import UNFINISHED_STAGES, keep_visit, stage_of
from hsfiq.collect.studies import OtherPlatformStudy, find_study, list_studies
from hsfiq.db.tables import Participant, Study
from hsfiq.db.types import digest_of
from hsfiq.errors import Forbidden, NotOpen, Refused
from hsfiq.study import recruiting
from hsfiq.study.config import config_of, is_study_name

# Enrolment in studies that are open to all, from the welcome page.


class CookiesBlocked(Forbidden):
    """The browser keeps no cookie: a place would be lost, because nobody could return to it."""


def open_studies(session: Session) -> list[Study]:
    return [
        study
        for study in list_studies(session)
        if study.status == "open" and config_of(study).recruitment.mode == "open"
    ]


def platform_of(session: Session) -> str:
    """The name of a platform that sends people to an open study; "" if there is none."""
    names = (
        recruiting.platform_name(config_of(study).recruitment)
        for study in list_studies(session)
        if study.status == "open"
    )
    return next(filter(None, names), "")


def add_open_enrolment(app: FastAPI, services: Services) -> None:
    @app.get("/")
    def welcome(request: Request, language: str = "") -> Response:
        with services.database.reading() as session:
            held = cookies.participants_in(session, request.cookies, services.signer)
            return welcome_again(session, request, services, held, language=language)

    @app.post("/enrol")
    def enrol(
        request: Request,
        study: Annotated[int, Form()],
        different: Annotated[bool, Form()] = False,
        language: Annotated[str, Form()] = "",
        proof: Annotated[str, Form()] = "",
    ) -> Response:
        """Enrol in a study, or continue in it; a `different` person enrols as a new participant."""
        with services.database.reading() as session:
            held = cookies.participants_in(session, request.cookies, services.signer)
        token_hash = next((each.token_hash for each in held if each.study.id == study), None)
        try:
            if token_hash is None or different:
                token_hash = enrol_openly(request, services, study, language, proof).token_hash
        except NotOpen:
            return refused_enrolment(request, services, study)
        except entry.NotProven:
            return unproven_enrolment(request, services, study, "begin_again")
        except CookiesBlocked:
            return unproven_enrolment(request, services, study, "no_cookies")
        return entry.redirect_to_study(request, services, token_hash, "study/")

    @app.post("/continue")
    def continue_as(request: Request, participant: Annotated[int, Form()]) -> Response:
        """Return to another participation of this browser."""
        with services.database.reading() as session:
            held = cookies.participants_in(session, request.cookies, services.signer)
        chosen = next((person for person in held if person.id == participant), None)
        if chosen is None:
            raise cookies.UnknownBrowser("this browser is unknown; begin at the welcome page")
        return entry.redirect_to_study(request, services, chosen.token_hash, "study/")


def welcome_again(
    session: Session,
    request: Request,
    services: Services,
    held: Sequence[ParticipantRow],
    notice: pages.Notice | None = None,
    *,
    language: str = "",
) -> Response:
    """The welcome page with a new proof; browsers do not show it a second time."""
    now = datetime.now(UTC)
    page = pages.welcome_page(
        session,
        open_studies(session),
        held,
        request.headers,
        language,
        now=now,
        proof=entry.new_proof(services.signer, now),
        platform=platform_of(session),
        notice=notice,
    )
    response = HTMLResponse(page, headers={"Cache-Control": "no-store"})
    cookies.set_trial_cookie(response, request)
    return response


def enrol_openly(
    request: Request, services: Services, study_id: int, language: str, proof: str
) -> Participant:
    """Enrol the sender of the welcome page's form in a study that is open to all.

    Raises:
        NotOpen: the study is not offered, or has no place.
        NotProven: the form is not from a welcome page, or this browser has used it before.
        CookiesBlocked: the browser does not keep cookies.
        TooManyEnrolments: too many have enrolled from this address.
    """
    now, signer = datetime.now(UTC), services.signer
    token = entry.token_for(signer, proof, study_id, now)
    if digest_of(token) in cookies.tokens_in(request.cookies, signer):
        raise entry.NotProven("this browser has already used the form")
    if not cookies.keeps_cookies(request):
        raise CookiesBlocked("this browser keeps no cookies")
    with services.database.writing() as session:
        offered = {each.id: each for each in open_studies(session)}
        if study_id not in offered:
            raise NotOpen("this study does not accept participants")
        return participants.enrol(
            session,
            study_id,
            now=now,
            language=language_in(config_of(offered[study_id]), request.headers, language),
            token=token,
            client=entry.client_of(request, signer, study_id),
        )


def unproven_enrolment(
    request: Request, services: Services, study_id: int, notice: pages.Notice
) -> Response:
    """The welcome page again, with the reason why no participation began."""
    with services.database.reading() as session:
        wanted = next((study for study in open_studies(session) if study.id == study_id), None)
        if wanted is not None and has_free_place(session, wanted, datetime.now(UTC)):
            held = cookies.participants_in(session, request.cookies, services.signer)
            page = welcome_again(session, request, services, held, notice)
            page.status_code = Forbidden.status
            return page
    return refused_enrolment(request, services, study_id)


def refused_enrolment(request: Request, services: Services, study_id: int) -> Response:
    """The page for a person whom an open study cannot accept."""
    with services.database.reading() as session:
        offered = open_studies(session)
        full = next((study for study in offered if study.id == study_id), None)
        if full is None:
            page = welcome_again(session, request, services, [], "full")
        else:
            row = StudyRow.of(full)
            language = language_in(row.config, request.headers)
            page = HTMLResponse(pages.not_open_page(session, row, language, {}, was_sent=False))
    page.status_code = NotOpen.status
    return page


MTURK = recruiting.Panel(
    name="Mechanical Turk", person="workerId", session="assignmentId", study="hitId"
)
"""The parameters of its links."""


class BrokenLink(Refused):
    status = 400


@dataclass(frozen=True, slots=True)
class PlatformLink:
    """The content of a platform's link; a preview has no ids.

    `study` is the study's name, `ids` are those of `Panel`, `hit` is the HIT that the person has
    accepted on MTurk.
    """

    platform: recruiting.Platform
    study: str | None
    ids: Mapping[str, str] = field(default_factory=dict)
    hit: recruiting.Hit | None = None

    @property
    def person(self) -> str | None:
        return self.ids.get("person")

    @property
    def prolific_study(self) -> str | None:
        """Prolific's STUDY_ID; only Prolific's studies are bound to studies of this app."""
        return self.ids.get("study") if self.platform == "prolific" else None


def read_platform_link(parameters: Mapping[str, str], own: recruiting.Panel | None) -> PlatformLink:
    """Read a platform's link; `own` is the panel of the study that it names.

    Raises:
        BrokenLink: it names no person, lacks a required id, or has an invalid id.
    """
    study = parameters.get("study")
    if own is not None:
        return PlatformLink("panel", study, ids_in(parameters, own, own.kept_ids()))
    if parameters.get("assignmentId") == recruiting.PREVIEW:
        return PlatformLink("mturk", study)
    if recruiting.PROLIFIC.person in parameters:
        return PlatformLink("prolific", study, ids_in(parameters, recruiting.PROLIFIC))
    ids = ids_in(parameters, MTURK)
    if (hit := recruiting.Hit.read(parameters)) is None:
        raise BrokenLink("the link names no HIT, or a site that is not MTurk's")
    return PlatformLink("mturk", study, ids, hit)


def ids_in(
    parameters: Mapping[str, str], panel: recruiting.Panel, needed: Sequence[str] = ("person",)
) -> dict[str, str]:
    names = panel.parameters()
    ids = {each: parameters[name] for each, name in names.items() if name in parameters}
    if not ids.keys() >= set(needed):
        raise BrokenLink("the link names no person, or lacks a required id")
    if not all(map(recruiting.PLATFORM_ID.fullmatch, ids.values())):
        raise BrokenLink("an id in the link is not valid")
    return ids


def panel_named(session: Session, study: str | None) -> recruiting.Panel | None:
    """The panel of the study that a link names, if the study has its own."""
    named = find_study(session, study) if study and is_study_name(study) else None
    return config_of(named).recruitment.panel if named else None


def study_of(session: Session, link: PlatformLink) -> Study | None:
    """The study for a platform's link; None if there is none or several are possible.

    The study that the link names; otherwise the platform's only study, or the only one to which it
    has sent this person before. Closed studies are considered only if no study is open. A study
    that is bound to a study of the platform is the only one for its link.

    Raises:
        OtherPlatformStudy: the studies possible are bound to other studies of the platform.
    """
    candidates = [
        study
        for study in list_studies(session)
        if study.status != "draft"
        and study.origin == "collected"
        and config_of(study).recruitment.mode == link.platform
        and link.study in (None, study.name)
    ]
    if link.prolific_study is not None and candidates:
        candidates = bound_or_unbound(candidates, link.prolific_study)
    candidates = [study for study in candidates if study.status == "open"] or candidates
    if len(candidates) > 1:
        candidates = [study for study in candidates if knows(session, study, link.person)]
    return candidates[0] if len(candidates) == 1 else None


def bound_or_unbound(candidates: list[Study], platform_study: str) -> list[Study]:
    """The study that is bound to this study of the platform; else all unbound studies."""
    bound = [study for study in candidates if study.platform_study_id == platform_study]
    possible = bound or [study for study in candidates if study.platform_study_id is None]
    if not possible:
        raise OtherPlatformStudy("the link is for another study of the platform")
    return possible


def knows(session: Session, study: Study, person: str | None) -> bool:
    if person is None:
        return False
    participant = select(Participant.id).where(
        Participant.study_id == study.id, Participant.external_id == person
    )
    return session.scalar(participant) is not None


# ----------------------------------------------------------------------------------------- routes


def add_enrolment_routes(app: FastAPI, services: Services) -> None:
    """Add the routes that need no cookie, and set it."""
    add_open_enrolment(app, services)
    entry.add_limit_page(app, services)
    entry.add_refusal_page(app)
    add_personal_links(app, services)
    add_platform_links(app, services)


def add_personal_links(app: FastAPI, services: Services) -> None:
    """Invitations' links, which also lead participants back to their current question."""

    @app.api_route("/start/{token}", methods=["GET", "POST"])
    def personal_link(request: Request, token: str) -> Response:
        with services.database.reading() as session:
            is_token = recruiting.PLATFORM_ID.fullmatch(token)
            known = participant_row(session, digest_of(token)) if is_token else None
            if known is None:
                return unknown_link(request, 404)
            if replaced := replaced_by_link(session, request, services, known):
                return question_link(session, replaced, participant_texts(session, known), "../")
        try:
            with services.database.writing() as session:
                participant = session.get_one(Participant, known.id)
                language = language_in(known.study.config, request.headers)
                now = datetime.now(UTC)
                participants.enrol_invited(session, participant, now=now, language=language)
        except NotOpen:
            return not_open(request, services, known.study.id)
        return entry.redirect_to_study(request, services, known.token_hash, "../study/")


def add_platform_links(app: FastAPI, services: Services) -> None:
    """The link to which platforms add their ids."""
    app.add_exception_handler(OtherPlatformStudy, other_study)

    @app.api_route("/start", methods=["GET", "POST"])
    def platform_link(request: Request) -> Response:
        with services.database.reading() as session:
            panel = panel_named(session, request.query_params.get("study"))
        try:
            link = read_platform_link(request.query_params, panel)
        except BrokenLink as error:
            return unknown_link(request, error.status, panel)
        with services.database.reading() as session:
            study = study_of(session, link)
            if study is None:
                return unknown_link(request, 404)
            is_known = knows(session, study, link.person)
        if link.platform == "mturk":
            return from_mturk(request, services, study.id, link, is_known=is_known)
        with services.database.reading() as session:
            signature = request.query_params.get("signature", "")
            entry.require_signed(services.signer, study, link.ids["person"], signature)
            if replaced := replaced_by_link(session, request, services, link):
                row = StudyRow.of(study)
                texts = study_texts(session, row, language_in(row.config, request.headers))
                return question_link(session, replaced, texts, "")
        try:
            with services.database.writing() as session:
                participant = participants.enrol(
                    session,
                    study.id,
                    now=datetime.now(UTC),
                    source=link.platform,
                    external_id=link.person,
                    platform_study_id=link.prolific_study,
                    language=language_in(config_of(study), request.headers),
                    client=entry.client_of(request, services.signer, study.id),
                )
                if panel is not None:
                    keep_visit(session, participant, panel, link.ids)
        except NotOpen:
            return not_open(request, services, study.id, link.ids)
        return entry.redirect_to_study(request, services, participant.token_hash, "study/")


def from_mturk(
    request: Request, services: Services, study_id: int, link: PlatformLink, *, is_known: bool
) -> Response:
    """A link enters a participation with the HIT of that; others ask to begin, by a form."""
    if link.person is None or link.hit is None:
        return mturk.preview(request, services, study_id)
    if request.method == "GET" and not mturk.takes_part(services, study_id, link.person, link.hit):
        return mturk.ask_to_begin(request, services, study_id, has_place=is_known)
    return mturk.enter(request, services, study_id, link.person, link.hit)


def replaced_by_link(
    session: Session, request: Request, services: Services, link: ParticipantRow | PlatformLink
) -> ParticipantRow | None:
    """The unfinished participant of this browser whom a link would replace without a question.

    Any site can contain a link that makes this browser answer as somebody else. Only a page of this
    app can send a form, so it is the person's decision.
    """
    current = cookies.participant_in(session, request.cookies, services.signer)
    if current is None or request.method == "POST":
        return None
    if isinstance(link, ParticipantRow):
        is_same = link.id == current.id
    else:
        is_same = (link.platform, link.person) == (current.source, current.external_id)
    stage = stage_of(session, current, steps_of(session, current.id))
    return current if not is_same and stage in UNFINISHED_STAGES else None


def question_link(
    session: Session, current: ParticipantRow, other: StudyTexts, root: str
) -> Response:
    """The page that asks whether a link may replace the current participant."""
    page = pages.other_participation_page(participant_texts(session, current), other, root)
    return HTMLResponse(page, headers={"Cache-Control": "no-store"})


def not_open(
    request: Request, services: Services, study_id: int, ids: Mapping[str, str] | None = None
) -> Response:
    """The page for a person whom a study cannot accept despite a link with `ids`."""
    with services.database.reading() as session:
        study = StudyRow.of(session.get_one(Study, study_id))
        language = language_in(study.config, request.headers)
        page = pages.not_open_page(session, study, language, ids or {}, was_sent=True)
    return HTMLResponse(page, status_code=NotOpen.status)


def other_study(request: Request, _error: Exception) -> Response:
    page = pages.other_platform_study_page(language_for(request.headers))
    return HTMLResponse(page, status_code=OtherPlatformStudy.status)


def unknown_link(request: Request, status: int, panel: recruiting.Panel | None = None) -> Response:
    """The page for an invalid link; for a study with a panel, it names the panel."""
    language = language_for(request.headers)
    page = (
        pages.on_platform_page(language, panel.name) if panel else pages.unknown_link_page(language)
    )
    return HTMLResponse(page, status_code=status)
