"""The arena of `hsfiq demo --arena`: its systems, its catalogue, its study and its password."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path
from urllib.parse import urlsplit

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from hsfiq.access.accounts import owner_password, set_owner_password
from hsfiq.access.passwords import matches, new_hash
from hsfiq.atomic_files import new_private_file
from hsfiq.audit.actions import Action
from hsfiq.audit.actors import command_line
from hsfiq.audit.log import record
from hsfiq.db.engine import Database
from hsfiq.db.tables import Form, Study
from hsfiq.demo.folder import FEATURE_FOLDER, IMAGE_FOLDER
from hsfiq.demo.steps import STANDARD, SYSTEMS, Step, train_system
from hsfiq.demo.study import NAME as DATASET
from hsfiq.demo.study import SPLIT, draw_catalogue, draw_queries, store_queries
from hsfiq.drawn.garments import CATEGORIES
from hsfiq.drawn.pictures import write_images
from hsfiq.study.config import Checks, Design, Presentation, Queries, StudyConfig, config_of
from hsfiq.study.design import draw_study
from hsfiq.study.searching.config import Retriever, Searches
from hsfiq.study.searching.retrievers import describe_retrievers

NAME = "arena"
TITLE, SIMULATED_TITLE = (
    "Which shop finds your wish?",
    "Arena of the drawn catalogue, with simulated participants",
)
PASSWORD_FILE = "owner-password.txt"  # noqa: S105 (the name of a file)

TRAINED = "trained"
"""A file in the folder of a training that has ended."""

SEARCHES = 3
"""Of a participant: each of the three pairs of systems once."""
PER_QUERY = 3
"""Participants who search from the same reference."""


@dataclass(frozen=True, slots=True)
class ArenaSizes:
    """How much the arena trains and holds.

    Attributes:
        systems: the recipes of the systems, by their names.
        training: further options of their training.
        queries: of each category; each is the start of `PER_QUERY` searches.
    """

    systems: tuple[tuple[str, str], ...] = (
        ("CLIP4CIR in miniature", "clip4cir"),
        ("SPRC in miniature", "sprc"),
        ("CoVR-BLIP in miniature", "covr-blip"),
    )
    training: tuple[str, ...] = ()
    queries: int = 40


def training_steps(folder: Path, seed: int, sizes: ArenaSizes) -> dict[Path, Step]:
    """The trainings that have not ended yet, by the files that will say so; each can resume."""
    recipes = tuple(recipe for _, recipe in sizes.systems)
    loop = replace(STANDARD, systems=recipes, system_training=sizes.training)
    steps = {
        folder / SYSTEMS / recipe / TRAINED: train_system(recipe, folder, seed, loop)
        for recipe in recipes
    }
    return {mark: step for mark, step in steps.items() if not mark.is_file()}


def retrievers_on(ports: Sequence[int], sizes: ArenaSizes) -> tuple[Retriever, ...]:
    return tuple(
        Retriever(name, f"http://127.0.0.1:{port}")
        for (name, _), port in zip(sizes.systems, ports, strict=True)
    )


def retriever_process(folder: Path, recipe: str, port: int) -> list[str]:
    """The words of the command that serves a system."""
    return [
        *("retrieve", "serve", "--checkpoint", str(folder / SYSTEMS / recipe)),
        *("--images", str(folder / IMAGE_FOLDER), "--cache", str(folder / FEATURE_FOLDER)),
        *("--port", str(port)),
    ]


def find_arena(session: Session) -> Study | None:
    return session.scalars(select(Study).where(Study.name == NAME)).one_or_none()


def ports_of(study: Study) -> list[int]:
    """Where the study expects its retrievers."""
    return [urlsplit(each.url).port or 0 for each in config_of(study).searches.retrievers]


def places_in(session: Session, study: Study) -> int:
    """How many participants the study has questions for."""
    return session.scalar(select(func.count(Form.id)).where(Form.study_id == study.id)) or 0


def queries_for(answers: int | None, sizes: ArenaSizes) -> int:
    """How many queries of each category the searches need."""
    return max(sizes.queries, ceil((answers or 0) / (PER_QUERY * len(CATEGORIES))) + 1)


def draw_pictures(folder: Path, seed: int, n_queries: int) -> None:
    """Draw the pictures of the catalogue in which the retrievers search."""
    write_images(draw_catalogue(seed, n_queries), folder / IMAGE_FOLDER)


def make_arena(
    database: Database,
    folder: Path,
    seed: int,
    retrievers: tuple[Retriever, ...],
    n_queries: int,
    origin: str,
) -> None:
    """Draw the study, open to all; its retrievers must be running."""
    garments = draw_catalogue(seed, n_queries)
    queries = draw_queries(seed, garments, n_queries, SPLIT)
    config = StudyConfig(
        study=Presentation(
            name=NAME,
            title=SIMULATED_TITLE if origin == "simulated" else TITLE,
            languages=("en", "ko"),
        ),
        design=Design(
            kind="arena",
            questions_per_form=SEARCHES,
            forms_per_participant=1,
            annotators_per_query=PER_QUERY,
            categories="mixed",
            seed=seed,
        ),
        checks=Checks(arithmetic=False),
        queries=Queries(dataset=DATASET),
        searches=Searches(task="own-wish", retrievers=retrievers),
    )
    described = describe_retrievers(config)
    with database.writing() as session:
        keys = store_queries(session, folder, garments, queries, ())
        draw_study(session, config, keys, origin=origin, retrievers=described)
        record(session, command_line(), Action.STUDY_CREATE, study=config.study.name)


def owners_password(database: Database, folder: Path) -> str | None:
    """The password of the dashboard, made once; None if the owner has set another one."""
    path = folder / PASSWORD_FILE
    with database.writing() as session:
        stored = owner_password(session)
        if stored is None:
            password = secrets.token_urlsafe(12)
            path.unlink(missing_ok=True)
            with new_private_file(path) as draft:
                draft.write_text(f"{password}\n", encoding="utf-8")
            set_owner_password(session, new_hash(password))
            record(session, command_line(), Action.PASSWORD_SET, about="owner")
            return password
    kept = path.read_text(encoding="utf-8").strip() if path.is_file() else ""
    return kept if matches(stored, kept) else None
