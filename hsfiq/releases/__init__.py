"""Releases: a study's answers as a folder that stands on its own.

The path of an answer: `rows` reads it from the database, `filters` keeps or drops it, `splits` puts
it into train or test if that is wanted, `content` makes the files, and `folder` writes them all or
none. `reader` reads them back.
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
