"""The page Watch of a study, as its owner gets it."""

from __future__ import annotations

from starlette.requests import Request

from hsfiq.actors import Role, User
from hsfiq.annotate.handlers import Services
from hsfiq.annotate.owner.login import Identities
from hsfiq.annotate.studio.shell import Desk, Studio, page_response
from hsfiq.annotate.studio.watch import WATCH
from hsfiq.collect.studies import find_study
from hsfiq.db.engine import Database


def watch_page(database: Database, name: str, query: str = "figures=1") -> str:
    """The page at an address that ends in this query; the default shows its figures."""
    services = Services.of(database)
    studio = Studio(services, Identities(database, services.signer))
    with database.reading() as session:
        study = find_study(session, name)
        assert study is not None
        number = str(study.id)
    scope = {
        "type": "http",
        "method": "GET",
        "path": f"/owner/study/{number}/watch",
        "path_params": {"study_id": number},
        "query_string": query.encode(),
        "headers": [],
    }
    desk = Desk(studio, Request(scope), User("owner", Role.OWNER, 1), "en")
    return bytes(page_response(desk, WATCH).body).decode()
