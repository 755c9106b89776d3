"""What the manifest says of a release besides its tables, for the card and for croissant.json."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from hsfiq.db.tables import Study
from hsfiq.study.config import config_of
from hsfiq.study.publication import Publication, earlier_of

NO_LICENCE = "no licence: nobody may use it; name one with [release] in study.toml, or with --about"


def publication_facts(publication: Publication) -> dict[str, Any]:
    """As the manifest has them; what was not stated is null."""
    return {
        name: (list(value) if isinstance(value, tuple) else value) or None
        for name, value in asdict(publication).items()
    }


def study_facts(study: Study) -> dict[str, Any]:
    """How the study asked, of a study that was drawn here; nothing of an imported one.

    Of a study that was a release, what that release said.
    """
    if (earlier := earlier_of(study)).source:
        return dict(earlier.facts)
    if study.source_sha256 is not None:
        return {"source_sha256": study.source_sha256}
    if study.origin == "imported" or not study.design:
        return {}
    config = config_of(study)
    design, queries = config.design, config.queries
    return {
        "design": {
            "queries_from": queries.dataset,
            "sample": queries.sample or None,
            "annotators_per_query": design.annotators_per_query,
            "overlap_share": design.overlap_share,
            "image_order": design.image_order,
            "seed": design.seed,
            "recruitment": config.recruitment.mode,
        }
    }
