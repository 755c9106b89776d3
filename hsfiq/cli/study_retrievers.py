"""The live retrievers of a study's file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hsfiq.cli.common import requires

if TYPE_CHECKING:
    from hsfiq.study.config import StudyConfig
    from hsfiq.study.searches import Described


def described_retrievers(config: StudyConfig) -> dict[str, Described]:
    """What the study's retrievers say of themselves; none for other kinds than `search`."""
    if not config.searches.retrievers:
        return {}
    with requires("live"):
        from hsfiq.collect.retrievers import describe_retrievers
    return describe_retrievers(config)
