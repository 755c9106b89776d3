"""A studio without a study, in which its owner has logged in, and small own data."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from httpx import Response

from hsfiq.actors import OWNER
from hsfiq.annotate.app import build_app
from hsfiq.annotate.cookies import signer_of
from hsfiq.db.engine import Database, open_database
from hsfiq.drafts import Content, DraftFile, Snapshot, change_draft, draft_folder, snapshot
from tests.annotate.owner.conftest import owner, reused_watched, watched  # noqa: F401 -- fixtures
from tests.annotate.owner.studies_in_progress import log_in, set_owner
from tests.annotate.served_studies import Place, PlaceOfKind, browser_of, garment
from tests.databases import ReusedPostgres

REQUESTS = ("is green", "has stripes", "is longer", "is plain", "is darker", "has a belt")
TITLE = "Which garments fit better?"


@dataclass(frozen=True)
class StudioClient:
    """The owner's browser."""

    client: TestClient
    database: Database
    app: FastAPI

    def get(self, path: str) -> Response:
        return self.client.get(f"/owner/{path}", headers={"accept": "text/html"})

    def act(self, path: str, name: str, /, **given: Any) -> Response:
        return self.client.post(f"/owner/{path}", json={"act": name, **given})

    def new_draft(self) -> str:
        """The token of a new draft."""
        address: str = self.act("", "new").json()["go"]
        return address.split("/")[1]

    def save(self, token: str, step: str, key: str, value: Any, **given: Any) -> Response:
        given = {"seen": self.draft(token).content.value(key, None), "type": "text"} | given
        return self.act(f"draft/{token}/{step}", "save", field=key, value=value, **given)

    def draft(self, token: str) -> Snapshot:
        with self.database.reading() as session:
            return snapshot(session, self.database, token)


def studio_in(place: Place) -> StudioClient:
    database = open_database(place.url)
    signer_of(database)
    set_owner(database)
    app = build_app(database)
    client = browser_of(app)
    assert log_in(client).status_code == 303
    return StudioClient(client, database, app)


@pytest.fixture
def database_kind() -> str:
    """Only some tests need PostgreSQL."""
    return "sqlite"


ON_POSTGRESQL = pytest.mark.parametrize(
    "database_kind", [pytest.param("postgresql", marks=pytest.mark.postgres)]
)


@pytest.fixture
def place(
    database_kind: str,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Place]:
    if database_kind == "sqlite":
        yield Place(tmp_path)
        return
    monkeypatch.setenv("HSFIQ_UPLOADS", str(tmp_path / "uploads"))
    database: ReusedPostgres = request.getfixturevalue("reused_postgres")
    yield PlaceOfKind(tmp_path, database.url)
    database.clean()


@pytest.fixture
def studio(place: Place) -> Iterator[StudioClient]:
    made = studio_in(place)
    yield made
    made.database.close()


def write_own_data(folder: Path, n_images: int = 12) -> None:
    """Images, a table of queries and ranked lists of two systems, as owners have them."""
    images = folder / "images"
    images.mkdir(parents=True, exist_ok=True)
    names = [f"garment-{number:02d}.png" for number in range(n_images)]
    for number, name in enumerate(names):
        (images / name).write_bytes(garment(number))
    rows = [
        {"query_id": f"q{n:02d}", "text": text, "reference": names[n], "target": names[n + 6]}
        for n, text in enumerate(REQUESTS)
    ]
    with (folder / "queries.csv").open("w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, list(rows[0]))
        table.writeheader()
        table.writerows(rows)
    for system, shift in (("mine", 1), ("theirs", 4)):
        lists = {
            row["query_id"]: [names[(n + shift + rank) % n_images] for rank in range(5)]
            for n, row in enumerate(rows)
        }
        (folder / f"{system}.json").write_text(json.dumps(lists), encoding="utf-8")


def fill(studio: StudioClient, token: str) -> None:
    """Give a draft own data, as if they had been uploaded."""
    folder = draft_folder(studio.database, token)
    write_own_data(folder)
    files = folder / "files"
    files.mkdir(exist_ok=True)
    for name in ("queries.csv", "mine.json", "theirs.json"):
        (folder / name).replace(files / name)

    def change(content: Content) -> Content:
        images = DraftFile(name="garments", role="images", size=1, count=12)
        queries = DraftFile(name="queries.csv", role="queries", size=1)
        lists = [
            DraftFile(name=f"{name}.json", role="lists", size=1) for name in ("mine", "theirs")
        ]
        return (
            content.model_copy(update={"files": (images, queries, *lists)})
            .with_value("study.title", TITLE)
            .with_value("study.institution", "Example University")
            .with_value("study.contact", "study@example.org")
            .with_value("study.ethics", "ERB 1")
            .with_value("recruitment.participants", 2)
            .with_value("design.questions_per_form", 6)
            .with_value("design.annotators_per_query", 2)
            .with_value("checks.gold", 0)
            .with_value("checks.repeated", 0)
        )

    with studio.database.writing() as session:
        change_draft(session, token, OWNER, change)


def add_third_system(studio: StudioClient, token: str) -> None:
    """Give a draft with own data ranked lists of one more system, as a ranking needs them."""
    files = draft_folder(studio.database, token) / "files"
    lists = json.loads((files / "mine.json").read_text(encoding="utf-8"))
    names = sorted({name for images in lists.values() for name in images})
    others = {query: names[number : number + 5] for number, query in enumerate(lists)}
    (files / "third.json").write_text(json.dumps(others), encoding="utf-8")
    file = DraftFile(name="third.json", role="lists", size=1)
    with studio.database.writing() as session:
        change_draft(session, token, OWNER, lambda content: content.with_file(file))
