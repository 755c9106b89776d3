"""What was dropped before a study was imported from a release; its own releases have that, too.

The study's design keeps it: the rows of `exclusions` and of `repeats` are about questions that the
release does not have, so they cannot become rows of the database.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hsfiq.db.tables import Study
from hsfiq.releases.layouts.options import LeftOut
from hsfiq.study.publishing.earlier_release import KEY

Rows = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Earlier:
    """What a release said before it was imported.

    Attributes:
        source: the manifest's name, version, filters and content_sha256.
        facts: how its study asked.
        steps: of the funnel.
        exclusions, repeats: the rows of these tables.
        without: what its owner left out, as `hsfiq export --without` names it.
        left_out: how many of each sort.
    """

    source: Mapping[str, Any] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    steps: Rows = ()
    exclusions: Rows = ()
    repeats: Rows = ()
    without: Sequence[LeftOut] = ()
    left_out: Mapping[str, int] = field(default_factory=dict)


def earlier_of(study: Study) -> Earlier:
    """Empty for studies that were not imported from a release."""
    return Earlier(**study.design.get(KEY, {}))
