"""The drawn catalogue in a database that is served: studies of every kind use it in turn."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from typing import Any

from sqlalchemy.orm import Session

from hsfiq.annotate.app import build_app
from hsfiq.collect.studies import find_study
from hsfiq.db.engine import Database, open_database
from hsfiq.db.tables import Study
from hsfiq.demo.study import IMAGE_FOLDER, draw_catalogue, draw_queries, ruled_lists, store_queries
from hsfiq.drawn.pictures import write_images
from hsfiq.releases.content import Release, build
from hsfiq.study.filters import Filters
from tests.annotate.served_studies import Place, ThreadServer
from tests.annotate.studio.shown_figures import figures_in
from tests.hsfiq.samples import hsfiq

SEED, PER_CATEGORY = 3, 6

STUDY = """\
[study]
name = "{name}"
title = "A study of kind {kind}"

[design]
kind = "{kind}"
k = {k}
questions_per_form = 2
annotators_per_query = 2
{design}
[queries]
dataset = "drawn"
{queries}"""
FOUR_DRESSES = 'categories = ["dress"]\nsample = 4\n'
"""With these queries two participants answer the same four questions."""


@dataclass(frozen=True)
class Catalogue:
    """A folder with a database, and the server of its studies."""

    folder: Path
    place: Place
    server: ThreadServer
    database: Database

    @classmethod
    def made(cls, folder: Path) -> Catalogue:
        place = Place(folder)
        database = open_database(place.url)
        garments = draw_catalogue(SEED, PER_CATEGORY)
        queries = draw_queries(SEED, garments, PER_CATEGORY)
        write_images(garments, folder / IMAGE_FOLDER)
        with database.writing() as session:
            store_queries(session, folder, garments, queries, ruled_lists(garments, queries, SEED))
        server = ThreadServer(place, database, build_app(database))
        server.start()
        return cls(folder, place, server, database)

    def hsfiq(self, *arguments: str | Path) -> Any:
        """Run a command on the database; its JSON result."""
        command = hsfiq(*arguments, "--database", self.place.url, "--json")
        assert command.code == 0, command.err
        return command.result

    def create(
        self,
        kind: str,
        *,
        name: str = "",
        design: str = "",
        queries: str = FOUR_DRESSES,
        k: int = 3,
    ) -> str:
        """Create a study for simulated annotators; its name."""
        name = name or kind
        text = STUDY.format(name=name, kind=kind, design=design, queries=queries, k=k)
        path = self.folder / f"{name}.toml"
        path.write_text(text, encoding="utf-8")
        self.hsfiq("study", "create", path, "--simulated")
        return name

    def answered(self, kind: str, **options: Any) -> str:
        """Create a study of this kind, and let two simulated annotators answer all of it."""
        name = self.create(kind, **options)
        command = hsfiq(
            "simulate", self.server.url, "--participants", "2", "--speed", "0", "--json"
        )
        summary = json.loads(command.out)
        assert command.code == 0, command.err
        assert (summary["finished"], summary["skipped"], summary["refused"]) == (2, 0, 0)
        self.close(name)
        return name

    def unplotted(self, study: str, results: Mapping[str, Any]) -> list[str]:
        """The figures of an analysis that the page Watch of the study lacks."""
        plots = unescape(self.plots(study))
        lacking = []
        for name, table in results.items():
            if name in ("release", "correlation", "measures", "metrics"):
                continue
            n_columns = len({column for row in table["rows"].values() for column in row})
            for name_of_row, figures in table["rows"].items():
                row = f"{table['rows_are']} {name_of_row}" if name_of_row.isdigit() else name_of_row
                for column, figure in figures.items():
                    label = row if n_columns == 1 else f"{row}, {column}"
                    value = figure["value"]
                    number = "" if value is None else f"{value:z.2f}"
                    text = f"{number} {label}; " if number else f"{label}: undefined; "
                    lacking += [] if text in plots else [f"{name}: {text}"]
        return lacking

    @staticmethod
    def study(session: Session, name: str) -> Study:
        study = find_study(session, name)
        assert study is not None
        return study

    def close(self, study: str) -> None:
        self.hsfiq("study", "close", "--study", study)

    def plots(self, study: str) -> str:
        """The figures of a study on its page Watch."""
        with self.database.reading() as session:
            return figures_in(session, self.study(session, study), self.database)

    def release(self, study: str, kind: str) -> Release:
        with self.database.reading() as session:
            row = self.study(session, study)
            return build(session, row, kind, Filters(), schema_revision="test")

    def exported(self, study: str, kind: str, folder: Path, *options: str) -> dict[str, Any]:
        """Export a release, and analyze it: the results."""
        self.hsfiq("export", "--study", study, "--release", kind, "--out", folder)
        return self.analyzed(folder, *options)

    @staticmethod
    def analyzed(folder: Path, *options: str | Path) -> dict[str, Any]:
        command = hsfiq("analyze", folder, "--resamples", "50", "--json", *options)
        assert command.code == 0, command.err
        result: dict[str, Any] = command.result
        return result
