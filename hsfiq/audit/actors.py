"""Who acts: the owner on the dashboard, or a user of the computer on the command line."""

from __future__ import annotations

import getpass
import os
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Actor:
    """Somebody as the audit log names them."""

    name: str


OWNER = Actor("owner")
NOBODY = Actor("not logged in")


def command_line() -> Actor:
    """The user whose process this is, or the number of one who has no name, as in a container."""
    return Actor(f"command line: {user_name()}")


def user_name() -> str:
    if os.name != "posix":
        return getpass.getuser()
    import pwd  # noqa: PLC0415 -- only on POSIX

    # getpass.getuser believes the environment.
    number = os.getuid()
    try:
        name = pwd.getpwuid(number).pw_name
    except KeyError:
        return f"uid {number}"
    return name.encode("utf-8", "backslashreplace").decode()
