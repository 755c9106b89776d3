"""Links for people of a recruitment platform whom the owner knows; nobody else can make them."""

from __future__ import annotations

import csv
import os
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlencode

from fastapi import FastAPI, Request, Response
from fastapi.responses import HTMLResponse

from hsfiq.annotate.cookies import Signer
from hsfiq.annotate.pages import not_invited_page
from hsfiq.annotate.texts import language_for
from hsfiq.collect.recruiting import NotInvited
from hsfiq.db.tables import Study
from hsfiq.study.config import config_of

PURPOSE = "link of a person"


def require_signed(signer: Signer, study: Study, person: str, signature: str) -> None:
    """`NotInvited` if the study wants signed links, and this one was not made for the person."""
    if not config_of(study).recruitment.signed_links:
        return
    if signer.read(PURPOSE, f"{content(study, person)}.{signature}") is None:
        raise NotInvited("the link is not signed for this id")


def signed_link(signer: Signer, study: Study, person: str, root: str) -> str:
    """A person's link; it is valid as long as the key that signs it."""
    signature = signer.sign(PURPOSE, content(study, person)).rpartition(".")[2]
    query = urlencode({"PROLIFIC_PID": person, "study": study.name, "signature": signature})
    return f"{root}/start?{query}"


def content(study: Study, person: str) -> str:
    return f"{study.name}:{person}"


def write_links(signer: Signer, study: Study, people: Sequence[str], root: str, path: Path) -> None:
    """Write people's links to a new CSV file that only its owner can read: platform_id, link."""
    with ExitStack() as undo:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        undo.callback(path.unlink)
        with os.fdopen(handle, "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(["platform_id", "link"])
            writer.writerows([each, signed_link(signer, study, each, root)] for each in people)
        undo.pop_all()


def add_refusal_page(app: FastAPI) -> None:
    """Tell people who are not invited that the link is not for them."""

    def not_invited(request: Request, _error: Exception) -> Response:
        page = not_invited_page(language_for(request.headers))
        return HTMLResponse(page, NotInvited.status, {"Cache-Control": "no-store"})

    app.add_exception_handler(NotInvited, not_invited)
