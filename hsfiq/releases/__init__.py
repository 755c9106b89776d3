"""Releases: what a study found out, as folders that stand on their own (design section 4.5).

An answer's way out: `rows` reads it from the tables, `filters` keeps or drops it with a reason,
`splits` puts it into a part where that is asked for, `content` makes the files' bytes, `folder`
writes them whole or not at all.
"""

from hsfiq.releases.content import Release, build
from hsfiq.releases.filters import Filters
from hsfiq.releases.folder import Outcome, newest_release, write_next_version, write_release
from hsfiq.releases.splits import Split

__all__ = [
    "Filters",
    "Outcome",
    "Release",
    "Split",
    "build",
    "newest_release",
    "write_next_version",
    "write_release",
]
