"""A database with the hand-made study, which tests copy instead of importing it again."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.hsfiq.samples import HPFIQ, hsfiq


@cache
def imported_answers() -> bytes:
    """The content of the SQLite file that `hsfiq import hpfiq` writes."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "hsfiq.db"
        command = hsfiq("import", "hpfiq", HPFIQ, "--database", f"sqlite:///{path}")
        assert command.code == 0, command.err
        return path.read_bytes()


def write_imported_answers(path: Path = Path("hsfiq.db")) -> None:
    path.write_bytes(imported_answers())
