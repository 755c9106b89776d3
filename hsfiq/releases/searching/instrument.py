"""What the manifest of a release of searches says of its retrievers and of how people searched."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from hsfiq.db.search_tables import StudyRetriever
from hsfiq.db.tables import Study
from hsfiq.kinds import KINDS
from hsfiq.study.config import config_of
from hsfiq.study.searching.config import Searches

SETTINGS = ("task", "target_seconds", "rounds", "history", "chooser", "uploads")
"""The keys of `[searches]` that decide how people search; `k` is beside them."""


def search_entries(session: Session, study: Study) -> dict[str, Any]:
    """The manifest's entries; none for other kinds."""
    if not KINDS[study.kind].is_live:
        return {}
    searches = config_of(study).searches
    settings = {name: getattr(searches, name) for name in SETTINGS}
    if searches.task != "target-remembered":
        del settings["target_seconds"]  # it decides nothing
    retrievers = session.scalars(
        select(StudyRetriever).where(StudyRetriever.study_id == study.id)
    ).all()
    return {
        "searches": {"k": study.k, **settings},
        "retrievers": sorted(map(described, retrievers), key=lambda each: str(each["system"])),
    }


def described(retriever: StudyRetriever) -> dict[str, Any]:
    return {
        "system": retriever.system.name,
        "version": retriever.version,
        "corpus": {
            "name": retriever.corpus_name,
            "size": retriever.corpus_size,
            "sha256": retriever.corpus_sha256,
        },
    }


def retriever_of(entry: Mapping[str, Any], *, study: int, system: int) -> StudyRetriever:
    """The row of a retriever that a manifest describes."""
    corpus = entry["corpus"]
    return StudyRetriever(
        study_id=study,
        system_id=system,
        version=entry["version"],
        corpus_name=corpus["name"],
        corpus_size=corpus["size"],
        corpus_sha256=corpus["sha256"],
    )


def searches_in(manifest: Mapping[str, Any]) -> Searches:
    """How people searched; releases do not say where the retrievers answered."""
    settings = manifest.get("searches") or {}
    return Searches(**{name: settings[name] for name in SETTINGS if name in settings})
