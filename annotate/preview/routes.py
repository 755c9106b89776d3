"""The preview's routes, and its page: the question page under another address.

The page's requests are relative to its own address, so the same scripts serve both.
"""

from __future__ import annotations

from typing import Annotated

import gradio as gr
from fastapi import Depends, FastAPI, Request, Response
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse

from hsfiq.annotate.body_limit import limited_body
from hsfiq.annotate.gradio_page import (
    HEAD,
    add_page_modules,
    failed_opening,
    mount_gradio,
    question_page,
    question_page_style,
)
from hsfiq.annotate.handlers import Services
from hsfiq.annotate.images.signed import SignedImages, add_signed_images
from hsfiq.annotate.pages import message_page
from hsfiq.annotate.payloads import (
    CHECK,
    CONSENT,
    EMPTY,
    LANGUAGE,
    QUESTIONNAIRE,
    read_payload,
    read_submit,
)
from hsfiq.annotate.preview import handlers
from hsfiq.annotate.preview.links import (
    OPEN,
    PREVIEW,
    PreviewPlace,
    place_in,
    read_place,
    required_place,
    set_place_cookie,
)
from hsfiq.collect.page import token_of
from hsfiq.collect.protocol import CheckReply, FailedOpening, Opening, SubmitReply, View
from hsfiq.db.types import digest_of
from hsfiq.errors import Refused

PREVIEW_PAGE = f"{PREVIEW}/study"

Body = Annotated[bytes, Depends(limited_body)]


def add_preview(app: FastAPI, services: Services) -> None:
    """Add the preview; a signed link opens it, and sets the cookie that its requests need."""
    add_preview_routes(app, services)
    add_page_modules(app, PREVIEW)

    def username(request: Request) -> str | None:
        place = place_in(request.cookies, services.database, services.signer)
        return "owner" if place else None

    def opening(request: gr.Request) -> Opening | FailedOpening:
        try:
            return handlers.opening(services, place_of(services, request))
        except Refused as error:
            return failed_opening(request.headers, error)

    style = question_page_style()
    mount_gradio(app, lambda: question_page(opening), PREVIEW_PAGE, username, style, HEAD)


def add_preview_routes(app: FastAPI, services: Services) -> None:
    add_opening_route(app, services)

    images = SignedImages(services.database, services.images, services.signer)

    def participants_of(request: Request) -> list[str]:
        place = place_of(services, request)
        return [digest_of(token_of(place.study_id, place.batch))]

    add_signed_images(app, f"{PREVIEW}/image", images, participants_of)
    add_view_routes(app, services)
    add_answer_routes(app, services)


def place_of(services: Services, request: Request | gr.Request) -> PreviewPlace:
    return required_place(request.cookies, services.database, services.signer)


def replied(
    services: Services,
    request: Request,
    result: tuple[View | SubmitReply | CheckReply, PreviewPlace],
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
        return replied(services, request, handlers.show(services, place, number))

    @app.get(f"{PREVIEW}/opening")
    def opening(request: Request) -> Response:
        reply = handlers.opening(services, place_of(services, request))
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
        return replied(services, request, handlers.choose_language(services, place, payload))

    @app.post(f"{PREVIEW}/next-step")
    def next_step(request: Request, body: Body) -> Response:
        read_payload(EMPTY, body)
        place = place_of(services, request)
        return replied(services, request, handlers.next_step(services, place))

    @app.post(f"{PREVIEW}/restart")
    def restart(request: Request, body: Body) -> Response:
        read_payload(EMPTY, body)
        place = place_of(services, request)
        return replied(services, request, handlers.restart(services, place))


def add_answer_routes(app: FastAPI, services: Services) -> None:
    @app.post(f"{PREVIEW}/consent")
    def consent(request: Request, body: Body) -> Response:
        agrees, place = read_payload(CONSENT, body)["agrees"], place_of(services, request)
        return replied(services, request, handlers.consent(services, place, agrees=agrees))

    @app.post(f"{PREVIEW}/practice")
    def practice(request: Request, body: Body) -> Response:
        read_payload(EMPTY, body)
        place = place_of(services, request)
        return replied(services, request, handlers.finish_practice(services, place))

    @app.post(f"{PREVIEW}/submit")
    def submit(request: Request, body: Body) -> Response:
        payload, place = read_submit(body), place_of(services, request)
        return replied(services, request, handlers.submit(services, place, payload))

    @app.post(f"{PREVIEW}/questionnaire")
    def questionnaire(request: Request, body: Body) -> Response:
        payload, place = read_payload(QUESTIONNAIRE, body), place_of(services, request)
        return replied(services, request, handlers.answer_questionnaire(services, place, payload))

    @app.post(f"{PREVIEW}/check")
    def check(request: Request, body: Body) -> Response:
        payload, place = read_payload(CHECK, body), place_of(services, request)
        return replied(services, request, handlers.check(services, place, payload))


def expired_page() -> str:
    """For the owner, who reads English like the dashboard."""
    return message_page(
        "Preview",
        "en",
        "This preview link is not valid",
        "It is incomplete or has ended. The dashboard opens a new preview, and "
        "hsfiq study preview prints a new link.",
    )
