"""A play that goes on after it was stopped: its sessions are kept beside the output.

Every batch is on the disk before the next one is played. The output is written at the end.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hsfiq.atomic_files import explained_write_errors, sync, write_whole
from hsfiq.errors import UnreadableInput
from hsfiq.sessions import files
from hsfiq.sessions.record import Session


@dataclass(frozen=True, slots=True)
class Unfinished:
    """The folder of a play whose output does not exist yet."""

    out: Path
    done: dict[str, Session]

    @classmethod
    def open(cls, out: Path, identity: Mapping[str, object]) -> Unfinished:
        """Begin a play, or go on with one that was stopped.

        Raises:
            UnreadableInput: the output exists, cannot be written, or the play that was stopped had
                another identity.
        """
        if out.exists():
            raise UnreadableInput(str(out), "exists already", "name another file with --out")
        unfinished = cls(out, {})
        about = unfinished.folder / "play.json"
        with explained_write_errors(out, "name another with --out"):
            unfinished.folder.mkdir(exist_ok=True)
            if not about.exists():
                write_whole(about, json.dumps(identity, indent=2).encode())
        before = json.loads(about.read_text(encoding="utf-8"))
        if differing := [key for key in identity if before.get(key) != identity[key]]:
            raise UnreadableInput(
                str(unfinished.folder),
                f"holds sessions of a play with another {differing[0]}",
                "remove it, or name another --out",
            )
        unfinished._read()
        return unfinished

    @property
    def folder(self) -> Path:
        return self.out.with_name(f".{self.out.name}.play")

    @property
    def _lines(self) -> Path:
        return self.folder / "sessions.jsonl"

    def _read(self) -> None:
        """Read what is complete; a line that a kill has cut off is removed."""
        if not self._lines.exists():
            return
        content = self._lines.read_bytes()
        complete = content[: content.rfind(b"\n") + 1]
        if complete != content:
            write_whole(self._lines, complete)
        if complete:
            self.done.update((each.session_id, each) for each in files.read(self._lines))

    def add(self, sessions: Sequence[Session]) -> None:
        """Append the sessions that are new, and wait until they are on the disk."""
        new = [each for each in sessions if each.session_id not in self.done]
        with explained_write_errors(self.out), self._lines.open("ab") as file:
            file.write("".join(map(files.line_of, new)).encode())
        sync(self._lines)
        self.done.update((each.session_id, each) for each in new)

    def finish(self, session_ids: Sequence[str]) -> tuple[Session, ...]:
        """Write the output in this order, and remove the folder."""
        sessions = tuple(self.done[each] for each in session_ids)
        files.write(self.out, sessions)
        shutil.rmtree(self.folder)
        return sessions
