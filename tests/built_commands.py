"""All commands, built once for the processes that fork, each of which would build them again."""

from __future__ import annotations

from hsfiq.cli import root_command

for command in root_command().commands.values():
    assert command.name
