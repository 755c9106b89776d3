"""The preview of a study: the question page at another address, which stores no answer."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Annotated

from fastapi import Depends, FastAPI, Request, Response
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse
from sqlalchemy.orm import Session

from hsfiq.access import user_with_id
from hsfiq.actors import Permission
from hsfiq.annotate.cookies import Signer, UnknownBrowser, place_of_cookies, read_assignment
from hsfiq.annotate.handlers import Services
from hsfiq.annotate.image_copies import ImageStore
from hsfiq.annotate.images import SignedImages, add_signed_images
from hsfiq.annotate.pages import message_page
from hsfiq.annotate.payloads import (
    CHECK,
    CONSENT,
    EMPTY,
    LANGUAGE,
    QUESTIONNAIRE,
    limited_body,
    read_payload,
    read_submit,
)
from hsfiq.annotate.question_page import add_question_page
from hsfiq.collect import page, protocol
from hsfiq.collect.answers import Skip, given_answer, require_storable
from hsfiq.collect.asked_questions import asked_question
from hsfiq.collect.participant_row import StudyRow
from hsfiq.collect.participants import require_language
from hsfiq.collect.stages import Position, Stage
from hsfiq.db.engine import Database, open_database
from hsfiq.db.sqlite import sqlite_url
from hsfiq.db.tables import Check, Study
from hsfiq.drafts import PREVIEWS, Snapshot, draft_folder, draw_preview, preview_file
from hsfiq.errors import Forbidden
from hsfiq.study.config import config_of
from hsfiq.study.instrument import read_answers

# The signed link to a preview, and the cookie that says which preview a browser shows.

PREVIEW = "/preview"
OPEN = f"{PREVIEW}/open"

COOKIE = "hsfiq_preview"
PURPOSE = "preview"
HOURS = 24


@dataclass(frozen=True, slots=True)
class PreviewPlace:
    """A preview that the server has signed: its batch, its end, and the completed steps.

    `account` opened it in the studio; 0 for a link of `hsfiq study preview`. `language` is the
    one chosen, "" for the study's first. `draft` names the draft of a study that is being set up
    and the file with its preview, `TOKEN-FILE`; its study is in that file.
    """

    study_id: int
    batch: int
    expires: int
    account: int = 0
    reached: int = 0
    language: str = ""
    draft: str = ""

    def signed(self, signer: Signer) -> str:
        numbers = (self.study_id, self.batch, self.expires, self.account, self.reached)
        return signer.sign(PURPOSE, ":".join([*map(str, numbers), self.language, self.draft]))

    def after(self, reached: int) -> PreviewPlace:
        return replace(self, reached=reached)


def new_preview(
    session: Session, study: Study, hours: float = HOURS, account: int = 0
) -> PreviewPlace:
    """A preview from its beginning; `Refused` if the study has no questions."""
    expires = int(time.time() + hours * 3600)
    return PreviewPlace(study.id, page.batch_to_preview(session, study), expires, account)


def preview_path(signer: Signer, place: PreviewPlace) -> str:
    """The path of the link that opens a preview in any browser."""
    return f"{OPEN}/{place.signed(signer)}"


def read_place(database: Database, signer: Signer, signed: str) -> PreviewPlace | None:
    """The preview that was signed; None if the signature is not valid or the preview has ended."""
    text = signer.read(PURPOSE, signed)
    parts = text.split(":") if text else []
    if len(parts) != len(fields(PreviewPlace)):  # also those from before they named the account
        return None
    study_id, batch, expires, account, reached = map(int, parts[:5])
    place = PreviewPlace(study_id, batch, expires, account, reached, *parts[5:])
    needed = Permission.MANAGE if place.draft else Permission.READ
    is_over = place.expires <= time.time() or not may_preview(database, place.account, needed)
    return None if is_over else place


def may_preview(database: Database, account: int, needed: Permission) -> bool:
    """Whether the account that opened a preview is in use, and its role sees such previews."""
    if not account:
        return True
    with database.reading() as session:
        user = user_with_id(session, account)
    return user is not None and user.may(needed)


def place_in(cookies: Mapping[str, str], database: Database, signer: Signer) -> PreviewPlace | None:
    return read_place(database, signer, cookies.get(COOKIE, ""))


def required_place(cookies: Mapping[str, str], database: Database, signer: Signer) -> PreviewPlace:
    place = place_in(cookies, database, signer)
    if place is None:
        raise UnknownBrowser("the preview has ended; open it again")
    return place


def set_place_cookie(
    response: Response, place: PreviewPlace, request: Request, signer: Signer
) -> None:
    response.set_cookie(
        COOKIE,
        place.signed(signer),
        max_age=max(0, place.expires - int(time.time())),
        httponly=True,
        samesite="lax",
        **place_of_cookies(request),
    )


# The previews of drafts, each in a database of its own.

MOST_OPEN, OF_EACH, KEPT = 4, 8, 20
"""Open databases of a process, connections to each, and older files of a draft."""


def make_whole(file: Path) -> None:
    """Make an empty database, unless another process is faster."""
    if file.is_file():
        return
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with TemporaryDirectory(dir=file.parent) as place:
        made = Path(place) / file.name
        open_database(sqlite_url(made)).close()
        with suppress(FileExistsError):
            file.hardlink_to(made)


class OpenPreviews:
    """The open databases of drafts' previews; the least recently used one is closed."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._opened: dict[Path, Services] = {}

    def at(self, services: Services, file: Path) -> Services:
        """The services of the preview in a file; `UnknownBrowser` if it no longer exists."""
        with self._lock:
            opened = self._opened.pop(file, None)
            if not file.is_file():
                raise UnknownBrowser("the draft of this preview has changed; open it again")
            if opened is None:
                database = open_database(sqlite_url(file), connections=OF_EACH)
                images = ImageStore(services.images.copies)
                opened = replace(services, database=database, images=images)
            self._opened[file] = opened
            if len(self._opened) > MOST_OPEN:
                self._opened.pop(next(iter(self._opened))).database.close()
            return opened


OPEN_PREVIEWS = OpenPreviews()


def services_for(services: Services, place: PreviewPlace) -> Services:
    """The services for the study of a preview, which may be that of a draft."""
    if not place.draft:
        return services
    token, _, name = place.draft.partition("-")
    file = draft_folder(services.database, token) / PREVIEWS / f"{name}.db"
    return OPEN_PREVIEWS.at(services, file)


def remove_old(file: Path) -> None:
    """Remove previews of earlier states of a draft, except the last ones."""
    others = [other for other in file.parent.glob("*.db") if other != file]
    for old in sorted(others, key=lambda path: path.stat().st_mtime)[:-KEPT]:
        for part in file.parent.glob(f"{old.name}*"):
            part.unlink(missing_ok=True)


def preview_of_draft(
    services: Services, draft: Snapshot, account: int, language: str, at: Stage
) -> PreviewPlace:
    """A preview of a draft's current state, at a stage; `consent` is its beginning.

    Raises:
        ConfigErrors, UnreadableInput: the draft is incomplete.
    """
    file = preview_file(draft.content, draft.folder)
    make_whole(file)
    remove_old(file)
    own = OPEN_PREVIEWS.at(services, file)
    study_id = draw_preview(services.database, draft.content, draft.folder, own.database)
    with own.database.reading() as session:
        study = session.get_one(Study, study_id)
        languages = config_of(study).study.languages
        before = page.stages_before(StudyRow.of(study))
        return PreviewPlace(
            study_id,
            page.batch_to_preview(session, study),
            expires=(int(time.time()) // DAY + 2) * DAY,
            account=account,
            reached=before.index(at) if at in before else len(before),
            language=language if language in languages else "",
            draft=f"{draft.token}-{file.stem}",
        )


DAY = 24 * 3600


def framed_path(signer: Signer, place: PreviewPlace) -> str:
    """The address at which a page may frame a preview; the browser's cookie does not change."""
    return f"/framed-preview/{place.signed(signer)}{PREVIEW}/study/"


# The requests of a preview's page: as a participant's, but nothing is written.
#
# Every function reads in one session that never commits, and returns its reply with the place that
# the browser's cookie remembers.


@dataclass(frozen=True, slots=True)
class Visit:
    """One request of a preview's page, within its session."""

    services: Services
    session: Session
    preview: page.Preview
    place: PreviewPlace

    def view_of(self, position: Position) -> protocol.View:
        return self.services.views.view(self.session, self.preview.participant, position)

    def view_at(self, place: PreviewPlace) -> protocol.View:
        return self.view_of(self.preview.position(place.reached))

    def after(self, reached: int) -> PreviewPlace:
        """The place after a number of steps; repeating a completed step does not lead back."""
        return self.place.after(min(max(reached, self.place.reached), self.preview.last))


@contextmanager
def visiting(services: Services, place: PreviewPlace) -> Iterator[Visit]:
    services = services_for(services, place)
    with services.database.reading() as session:
        study = session.get(Study, place.study_id)
        if study is None:
            raise UnknownBrowser("the study of this preview no longer exists")
        preview = page.preview_of(session, study, place.batch, place.language or None)
        yield Visit(services, session, preview, place)


def opening_of_preview(services: Services, place: PreviewPlace) -> protocol.Opening:
    with visiting(services, place) as visit:
        position = visit.preview.position(place.reached)
        first = services.views.opening(visit.session, visit.preview.participant, position)
        return {**first, "study": {**first["study"], "is_preview": True}}


def show(
    services: Services, place: PreviewPlace, number: int | None
) -> tuple[protocol.View, PreviewPlace]:
    with visiting(services, place) as visit:
        if number is None:
            return visit.view_at(place), place
        return visit.view_of(visit.preview.position_at(place.reached, number)), place


def choose_language(
    services: Services, place: PreviewPlace, payload: protocol.LanguagePayload
) -> tuple[protocol.View, PreviewPlace]:
    with visiting(services, place) as visit:
        study = visit.preview.participant.study.config.study
        require_language(study, payload["language"])
    return show(services, replace(place, language=payload["language"]), payload["number"])


def take_consent(
    services: Services, place: PreviewPlace, *, agrees: bool
) -> tuple[protocol.View, PreviewPlace]:
    """Continue from the consent page, or show the page for people who decline."""
    with visiting(services, place) as visit:
        if agrees:
            after = visit.after(visit.preview.before.index("consent") + 1)
            return visit.view_at(after), after
        visit.preview.participant.status = "screened-out"
        progress = visit.preview.position(0).progress
        return visit.view_of(Position("declined", progress)), place


def finish_practice(services: Services, place: PreviewPlace) -> tuple[protocol.View, PreviewPlace]:
    with visiting(services, place) as visit:
        after = visit.after(len(visit.preview.before))
        return visit.view_at(after), after


def take_answer(
    services: Services,
    place: PreviewPlace,
    payload: protocol.SubmitPayload | protocol.SkipPayload,
) -> tuple[protocol.SubmitReply, PreviewPlace]:
    """Check an answer like a participant's, and continue without storing it."""
    with visiting(services, place) as visit:
        participant = visit.preview.participant
        assignment = read_assignment(
            services.signer, participant.token_hash, payload["assignment"], "question"
        )
        step = visit.preview.question(assignment.key)
        reached = visit.preview.place_of(step)
        if reached > place.reached:
            raise Forbidden("this question comes later")
        question = asked_question(visit.session, step)
        answer = given_answer(question, participant.study, payload, datetime.now(UTC))
        if not isinstance(answer, Skip):
            require_storable(answer, participant.study)
        after = visit.after(reached + 1)
        following = visit.preview.position_after(after.reached, step)
        return {"revision": assignment.revision + 1, "view": visit.view_of(following)}, after


def take_check(
    services: Services, place: PreviewPlace, payload: protocol.CheckPayload
) -> tuple[protocol.CheckReply, PreviewPlace]:
    with visiting(services, place) as visit:
        assignment = read_assignment(
            services.signer, visit.preview.participant.token_hash, payload["assignment"], "check"
        )
        current = visit.preview.position(place.reached).step
        if current is None or current.check_id != assignment.key:
            raise Forbidden("this sum cannot be answered now")
        expected = visit.session.get_one(Check, assignment.key).expected
        passed = payload["given"].strip() == expected
        after = visit.after(place.reached + 1) if passed else place
        return {"passed": passed, "view": visit.view_at(after)}, after


def answer_questionnaire(
    services: Services, place: PreviewPlace, payload: protocol.QuestionnairePayload
) -> tuple[protocol.View, PreviewPlace]:
    with visiting(services, place) as visit:
        participant = visit.preview.participant
        read_assignment(
            services.signer, participant.token_hash, payload["assignment"], "questionnaire"
        )
        questions = participant.study.config.questionnaire.at_end
        read_answers(questions, payload["answers"])
        after = visit.after(visit.preview.last)
        return visit.view_at(after), after


def take_next_step(services: Services, place: PreviewPlace) -> tuple[protocol.View, PreviewPlace]:
    """Continue without an answer."""
    with visiting(services, place) as visit:
        after = visit.after(place.reached + 1)
        return visit.view_at(after), after


def restart_preview(services: Services, place: PreviewPlace) -> tuple[protocol.View, PreviewPlace]:
    with visiting(services, place) as visit:
        first = place.after(0)
        return visit.view_at(first), first


# The preview's routes, and its page: the question page under another address.
#
# The page's requests are relative to its own address, so the same scripts serve both.

Body = Annotated[bytes, Depends(limited_body)]


def add_preview(app: FastAPI, services: Services) -> None:
    """Add the preview; a signed link opens it, and sets the cookie that its requests need."""
    add_preview_routes(app, services)

    def opening(request: Request) -> protocol.Opening:
        return opening_of_preview(services, place_of(services, request))

    add_question_page(app, PREVIEW, opening)


def add_preview_routes(app: FastAPI, services: Services) -> None:
    add_opening_route(app, services)

    def images_of(request: Request) -> SignedImages:
        own = services_for(services, place_of(services, request))
        return SignedImages(own.database, own.images, own.signer)

    def participants_of(request: Request) -> list[str]:
        place = place_of(services, request)
        return [page.token_hash_of(place.study_id, place.batch)]

    add_signed_images(app, f"{PREVIEW}/image", images_of, participants_of)
    add_view_routes(app, services)
    add_answer_routes(app, services)


def place_of(services: Services, request: Request) -> PreviewPlace:
    return required_place(request.cookies, services.database, services.signer)


def replied(
    services: Services,
    request: Request,
    result: tuple[protocol.View | protocol.SubmitReply | protocol.CheckReply, PreviewPlace],
) -> Response:
    """The reply, with the place reached in the cookie."""
    reply, place = result
    response = JSONResponse(reply, headers={"Cache-Control": "no-store"})
    set_place_cookie(response, place, request, services.signer)
    return response


def add_opening_route(app: FastAPI, services: Services) -> None:
    @app.get(f"{OPEN}/{{signed}}")
    def open_preview(request: Request, signed: str) -> Response:
        place = read_place(services.database, services.signer, signed)
        if place is None:
            return HTMLResponse(expired_page(), status_code=404)
        headers = {"Cache-Control": "no-store"}
        response = RedirectResponse("../study/", status_code=303, headers=headers)
        set_place_cookie(response, place, request, services.signer)
        return response


def add_view_routes(app: FastAPI, services: Services) -> None:
    def shown(request: Request, number: int | None) -> Response:
        place = place_of(services, request)
        return replied(services, request, show(services, place, number))

    @app.get(f"{PREVIEW}/opening")
    def opening(request: Request) -> Response:
        reply = opening_of_preview(services, place_of(services, request))
        return JSONResponse(reply, headers={"Cache-Control": "no-store"})

    @app.get(f"{PREVIEW}/question")
    def current_question(request: Request) -> Response:
        return shown(request, None)

    @app.get(f"{PREVIEW}/question/{{number}}")
    def question(request: Request, number: int) -> Response:
        return shown(request, number)

    @app.post(f"{PREVIEW}/language")
    def language(request: Request, body: Body) -> Response:
        payload, place = read_payload(LANGUAGE, body), place_of(services, request)
        return replied(services, request, choose_language(services, place, payload))

    @app.post(f"{PREVIEW}/next-step")
    def next_step(request: Request, body: Body) -> Response:
        read_payload(EMPTY, body)
        place = place_of(services, request)
        return replied(services, request, take_next_step(services, place))

    @app.post(f"{PREVIEW}/restart")
    def restart(request: Request, body: Body) -> Response:
        read_payload(EMPTY, body)
        place = place_of(services, request)
        return replied(services, request, restart_preview(services, place))


def add_answer_routes(app: FastAPI, services: Services) -> None:
    @app.post(f"{PREVIEW}/consent")
    def consent(request: Request, body: Body) -> Response:
        agrees, place = read_payload(CONSENT, body)["agrees"], place_of(services, request)
        return replied(services, request, take_consent(services, place, agrees=agrees))

    @app.post(f"{PREVIEW}/practice")
    def practice(request: Request, body: Body) -> Response:
        read_payload(EMPTY, body)
        place = place_of(services, request)
        return replied(services, request, finish_practice(services, place))

    @app.post(f"{PREVIEW}/submit")
    def submit(request: Request, body: Body) -> Response:
        payload, place = read_submit(body), place_of(services, request)
        return replied(services, request, take_answer(services, place, payload))

    @app.post(f"{PREVIEW}/questionnaire")
    def questionnaire(request: Request, body: Body) -> Response:
        payload, place = read_payload(QUESTIONNAIRE, body), place_of(services, request)
        return replied(services, request, answer_questionnaire(services, place, payload))

    @app.post(f"{PREVIEW}/check")
    def check(request: Request, body: Body) -> Response:
        payload, place = read_payload(CHECK, body), place_of(services, request)
        return replied(services, request, take_check(services, place, payload))


def expired_page() -> str:
    """For the owner, in English like the studio."""
    return message_page(
        "Preview",
        "en",
        "This preview link is not valid",
        "It is incomplete or has ended. The studio opens a new preview, and "
        "hsfiq study preview prints a new link.",
    )
