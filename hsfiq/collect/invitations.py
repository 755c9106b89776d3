"""Personal invitation links, written to a CSV file that only its owner can read."""

from __future__ import annotations

import csv
import os
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

from hsfiq.collect.participants import invite
from hsfiq.collect.studies import find_study, require_unfinished
from hsfiq.db.engine import Database
from hsfiq.errors import Refused


def write_invitations(database: Database, study: str, count: int, url: str, path: Path) -> None:
    """Add participants to a study and write their links to a new CSV file: participant, link.

    The file is written within the transaction, so there are no invitations without their links.
    `url` is the app's public address.
    """
    with ExitStack() as undo:
        with database.writing() as session:
            row = find_study(session, study)
            if row is None:
                raise Refused(f"there is no study {study!r}")
            require_unfinished(row)
            invited = invite(session, row.id, count, now=datetime.now(UTC))
            # Whoever has a link can answer as that participant.
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            undo.callback(path.unlink)
            with os.fdopen(handle, "w", newline="", encoding="utf-8") as file:
                writer = csv.writer(file)
                writer.writerow(["participant", "link"])
                writer.writerows([p.name, f"{url.rstrip('/')}/start/{p.token}"] for p in invited)
        undo.pop_all()
