"""Releases: a study's answers as a self-contained folder.

`rows` reads the answers from the database, `filters` keeps or drops them, `splits` optionally
divides them into train and test, `content` makes the files, and `folder` writes all or none of
them. `reader` reads a release.
"""

from hsfiq.releases.content import Release, build
from hsfiq.releases.export import export_releases
from hsfiq.releases.filters import Filters
from hsfiq.releases.folder import Outcome, newest_release, write_next_version, write_release
from hsfiq.releases.splits import Split

__all__ = [
    "Filters",
    "Outcome",
    "Release",
    "Split",
    "build",
    "export_releases",
    "newest_release",
    "write_next_version",
    "write_release",
]
