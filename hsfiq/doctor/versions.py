"""Whether the installed packages are those that hsfiq was tested with."""

from __future__ import annotations

import platform
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.metadata import distributions
from pathlib import Path

import hsfiq
from hsfiq.doctor.finding import Finding, quoted
from hsfiq.text import first_few

PINNED = re.compile(r"(?m)^([A-Za-z0-9][A-Za-z0-9._-]*)==([^\s;\\]+)")

SERVING = ("gradio", "fastapi", "uvicorn", "pillow")
"""Without these, there is no server."""

OF_ENVIRONMENTS = ("pip", "setuptools")
"""New environments come with versions of these, which no server uses."""

SHOWN = ("SQLAlchemy", "gradio")


def tested_versions(file: Path) -> dict[str, str]:
    """The package versions of a constraints file."""
    return dict(PINNED.findall(file.read_text(encoding="utf-8")))


def constraints_file() -> Path | None:
    """In a wheel beside the modules, in a checkout beside the package."""
    package = Path(hsfiq.__file__).parent
    places = (package / "constraints.txt", package.parent / "constraints.txt")
    return next((place for place in places if place.is_file()), None)


def installed_version(name: str) -> str | None:
    return version_on(tuple(sys.path), name)


@cache  # finding it means parsing a file, and every examination asks for dozens of packages
def version_on(path: Sequence[str], name: str) -> str | None:
    """The version of a package that is installed on this path of Python's."""
    package = next(iter(distributions(name=name, path=list(path))), None)
    return None if package is None else package.version


def examine_versions() -> Iterator[Finding]:
    file = constraints_file()
    tested = tested_versions(file) if file else {}
    absent = [name for name in SERVING if installed_version(name) is None]
    if absent:
        what = f"{', '.join(absent)} not installed: `hsfiq serve` needs them"
        yield Finding("versions", "warning", what, "pip install 'hsfiq[annotate]'")
    others = other_versions(tested)
    main = ", ".join(
        f"{name} {installed_version(name)}"
        for name in ("SQLAlchemy", "gradio")
        if name not in absent
    )
    here = f"hsfiq {hsfiq.__version__}, Python {platform.python_version()}, {main}"
    if file is None:
        yield Finding("versions", "ok", here)
    elif others:
        what = f"{here}; not as tested: {first_few(others)}"
        fix = f"pip install --constraint {quoted(file)} 'hsfiq[annotate]'"
        yield Finding("versions", "warning", what, fix)
    else:
        yield Finding("versions", "ok", f"{here}: as tested")


def other_versions(tested: Mapping[str, str]) -> list[str]:
    """The installed packages that have another version than the tested one."""
    compared = [name for name in tested if name not in OF_ENVIRONMENTS]
    installed = {name: installed_version(name) for name in compared}
    return [
        f"{name} {here} (tested: {tested[name]})"
        for name, here in installed.items()
        if here is not None and here.partition("+")[0] != tested[name]
    ]
