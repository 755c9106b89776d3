"""Releases: what a study found out, as folders that stand on their own (design section 4.5).

An answer's way out: `rows` reads it from the tables, `filters` keeps or drops it with a reason,
`content` makes the files' bytes, `folder` writes them whole or not at all.
"""

from hsfiq.releases.content import Release, build
from hsfiq.releases.filters import Filters
from hsfiq.releases.folder import Outcome, newest_release, write_next_version, write_release

__all__ = [
    "Filters",
    "Outcome",
    "Release",
    "build",
    "newest_release",
    "write_next_version",
    "write_release",
]
