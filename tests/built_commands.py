"""All commands, built once for the processes that fork: each would take 60 ms to build them."""

from __future__ import annotations

from hsfiq.cli import app, commands

for group in app.registered_groups:
    commands(str(group.name))
for command in app.registered_commands:
    assert command.callback is not None
    commands(command.callback.__name__)
commands()
