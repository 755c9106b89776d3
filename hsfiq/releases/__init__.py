"""Releases: a study's answers as a self-contained folder.

`reading` reads the answers from the database, some participants at a time, `filtering` keeps or
drops them, `splits` optionally divides them into train and test, `writing` writes their rows as
they come, `content` puts all of that together, and `folder` puts the release in its place, or
nothing. `reader` reads a release.
"""

from hsfiq.releases.content import Release, ReleaseInMemory, Source, build, explain
from hsfiq.releases.export import export_releases, sources_of
from hsfiq.releases.filters import Filters
from hsfiq.releases.folder import Outcome, newest_release, write_next_version, write_release
from hsfiq.releases.splits import Split

__all__ = [
    "Filters",
    "Outcome",
    "Release",
    "ReleaseInMemory",
    "Source",
    "Split",
    "build",
    "explain",
    "export_releases",
    "newest_release",
    "sources_of",
    "write_next_version",
    "write_release",
]
