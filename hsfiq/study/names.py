"""What a study may be called: its name becomes part of folder names and options."""

import re

from hsfiq.errors import UnreadableInput

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,79}")


def is_name(name: str) -> bool:
    """Whether a study may be called so."""
    return _NAME.fullmatch(name) is not None


def require_name(name: str, option: str = "--study") -> str:
    """The name itself, as `option` gives it.

    Raises:
        UnreadableInput: it cannot be the name of a study.
    """
    if not is_name(name):
        raise UnreadableInput(
            option,
            f"{name!r} cannot name a study",
            "use letters, digits, '.', '_' and '-', at most 80",
        )
    return name
