"""A study whose database and app the tests of one process use in turn.

Building the app takes a third of a second, most of it for Gradio's routes, and SQLAlchemy keeps
compiled statements with an engine.
"""

from __future__ import annotations

import shutil
from functools import cached_property
from pathlib import Path

from fastapi import FastAPI

from hsfiq.annotate.app import build_app
from hsfiq.annotate.cookies import signer_of
from hsfiq.db.engine import Database, connect, open_database
from tests.annotate.served_studies import Place, ThreadServer


class ReusedStudy:
    """A copy of a study's database, copied again before each test.

    Images and the app's copies of them are shared, so a test that changes them needs its own app.
    """

    def __init__(self, template: Place, folder: Path) -> None:
        self.template, self.place = template, Place(folder)
        original = open_database(template.url)
        signer_of(original)  # each copy has the same signing key, which the app keeps
        original.close()
        self.database = Database(connect(self.place.url))

    @cached_property
    def app(self) -> FastAPI:
        return build_app(self.database)

    def server(self) -> ThreadServer:
        return ThreadServer(self.place, self.database, self.app)

    def restore(self) -> None:
        """Give the study its first state again."""
        self.database.close()
        for suffix in ("", "-wal", "-shm"):
            self.place.file.with_name(self.place.file.name + suffix).unlink(missing_ok=True)
        shutil.copyfile(self.template.file, self.place.file)
