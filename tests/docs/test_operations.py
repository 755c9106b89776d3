"""docs/hosting: the commands of its pages run in order on a study in PostgreSQL."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from PIL import Image as Picture
from sqlalchemy import select, update
from sqlalchemy.engine import make_url

from hsfiq.annotate.app import plain_app
from hsfiq.annotate.handlers import Services
from hsfiq.db.engine import Database
from hsfiq.db.source_tables import Dataset, Image
from tests.databases import PostgresServer
from tests.hsfiq.samples import hsfiq
from tests.live_servers import serving
from tests.studies import ROOT, Seat, small_study

PAGES = [
    (ROOT / "docs" / "hosting" / name).read_text(encoding="utf-8")
    for name in ("server.md", "backups.md", "monitoring.md")
]
BLOCKS = re.findall(r"```bash\n(.*?)```", "".join(PAGES), re.DOTALL)


@pytest.fixture
def address(database: Database) -> Iterator[str]:
    with serving(plain_app(Services.of(database))) as url:
        yield url


@pytest.mark.postgres
@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
def test_the_commands_run_in_order(
    database: Database,
    address: str,
    empty_postgres: str,
    postgres_server: PostgresServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Seat.taken(database, small_study(database)).answer_until(4)
    add_images(database, tmp_path / "images")
    places = {
        "postgresql://localhost/hsfiq": database.engine.url.render_as_string(hide_password=False),
        "postgresql://localhost/restored": empty_postgres,
        "my-study": "small",
        "/backups": str(tmp_path),
        "http://127.0.0.1:7860": address,
    }
    run = set()
    for line in "".join(BLOCKS).splitlines():
        for documented, place in places.items():
            line = line.replace(documented, place)  # noqa: PLW2901
        program, *words = shlex.split(line)
        if program == "export":
            monkeypatch.setenv(*words[0].split("=", 1))
        elif program == "createdb":
            assert make_url(empty_postgres).database  # made by the test
        elif program == "curl":
            assert httpx.get(words[-1], trust_env=False).status_code == 200, line
        else:
            assert program == "hsfiq"
            result = hsfiq(*words)
            assert result.code == 0, f"{line}\n{result.err}"
        run.add(program)
    assert run == {"export", "createdb", "curl", "hsfiq"}
    assert (tmp_path / "moved.db").stat().st_size > 0


def add_images(database: Database, folder: Path) -> None:
    """Files for all images of the study."""
    folder.mkdir()
    with database.writing() as session:
        for name in session.scalars(select(Image.name)):
            Picture.new("RGB", (6, 8), "red").save(folder / f"{name}.png")
        session.execute(update(Dataset).values(image_root=str(folder)))
