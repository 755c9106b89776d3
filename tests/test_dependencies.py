"""pyproject.toml declares what is imported; constraints.txt names all packages that this brings.

requirements-server.txt has the hashes of those that a server needs, requirements-dev.txt those of
all but torch.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from importlib.metadata import PackageNotFoundError, distribution, packages_distributions
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.studies import ROOT

EXTRAS = ("test", "dev")
SERVER_EXTRAS = ("annotate", "postgres", "stores")

FOLDERS = (
    *("hsfiq", "annotate", "analysis", "model", "migrations"),
    *("tests", "benchmarks", "docs", "examples"),
)

UNDER_OTHER_NAMES = {"lavis": "salesforce-lavis", "open_clip": "open-clip-torch"}
"""What is imported only in environments of its own, and the package that has it."""

OF_TORCH_FOR_GPUS = ("nvidia-", "cuda-", "triton")


def project() -> dict[str, Any]:
    content: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return content


def declared() -> set[str]:
    """The packages that pyproject.toml names, in any extra."""
    texts = [*project()["dependencies"]]
    for extra in project()["optional-dependencies"].values():
        texts += extra
    return {canonicalize_name(Requirement(text).name) for text in texts}


def imported(file: Path) -> Iterator[str]:
    """The top-level names of the modules that a file imports."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (each.name.partition(".")[0] for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module.partition(".")[0]


def pins() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pairs = [line.split("==") for line in lines if line and not line.startswith("#")]
    return {canonicalize_name(name): version for name, version in pairs}


def locked(file: str) -> dict[str, tuple[str, list[str]]]:
    """The version of each package in a file, and the digests of its files."""
    text = (ROOT / file).read_text().replace("\\\n", " ")
    packages = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            requirement, *digests = line.split(" --hash=sha256:")
            parsed = Requirement(requirement.strip())
            version = str(parsed.specifier).removeprefix("==")
            packages[canonicalize_name(parsed.name)] = (version, [each.strip() for each in digests])
    return packages


def wanted_by(extras: Iterable[str]) -> list[Requirement]:
    """What these extras and those that they name require, with what hsfiq always does."""
    optional = project()["optional-dependencies"]
    wanted = [Requirement(text) for text in project()["dependencies"]]
    left, seen = set(extras), set[str]()
    while left:
        extra = left.pop()
        seen.add(extra)
        for requirement in map(Requirement, optional[extra]):
            if requirement.name == "hsfiq":
                left |= requirement.extras - seen
            else:
                wanted.append(requirement)
    return wanted


def required(requirement: Requirement, seen: set[tuple[str, str]]) -> Iterator[str]:
    """The names of the installed packages that a requirement brings along, with itself."""
    for extra in ("", *requirement.extras):
        name = canonicalize_name(requirement.name)
        if (name, extra) in seen:
            continue
        seen.add((name, extra))
        try:
            needs = distribution(name).requires or []
        except PackageNotFoundError:
            continue  # of an extra that this environment does not have
        yield name
        for need in map(Requirement, needs):
            if need.marker is None or need.marker.evaluate({"extra": extra}):
                yield from required(need, seen)


def installed(requirements: Iterable[Requirement]) -> dict[str, str]:
    """The installed version of each package that the requirements bring along."""
    visited: set[tuple[str, str]] = set()
    return {
        name: distribution(name).version.partition("+")[0]
        for requirement in requirements
        for name in required(requirement, visited)
        if not name.startswith(OF_TORCH_FOR_GPUS)
    }


def test_the_constraints_are_complete() -> None:
    versions, pinned = installed(wanted_by(EXTRAS)), pins()
    assert len(versions) > 100
    assert {name: pinned.get(name) for name in versions} == versions


def test_a_server_gets_all_with_hashes() -> None:
    """After a change of the extras or of the constraints, `make lock` is needed."""
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    needed = installed([*wanted_by(SERVER_EXTRAS), *map(Requirement, build)])
    assert needed.keys() <= locked("requirements-server.txt").keys()


def test_development_gets_all_but_torch_with_hashes() -> None:
    needed = installed(wanted_by(EXTRAS)).keys() - {"torch"}
    packages = locked("requirements-dev.txt").keys()
    assert needed <= packages
    assert [name for name in packages if name.startswith(("torch", *OF_TORCH_FOR_GPUS))] == []


@pytest.mark.parametrize("file", ["requirements-server.txt", "requirements-dev.txt"])
def test_what_is_locked_has_the_versions_of_the_constraints(file: str) -> None:
    pinned = pins()
    for name, (version, digests) in locked(file).items():
        assert version == pinned.get(name), name
        assert digests, name
        assert all(re.fullmatch("[0-9a-f]{64}", digest) for digest in digests), name


def test_the_constraints_are_sorted_and_exact() -> None:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    names = [canonicalize_name(line.partition("==")[0]) for line in lines if "==" in line]
    assert names == sorted(set(names))
    assert len(names) == len([line for line in lines if not line.startswith("#")])


def test_everything_that_is_imported_is_declared() -> None:
    packages, names = packages_distributions(), declared()
    files = [file for folder in FOLDERS for file in (ROOT / folder).rglob("*.py")]
    undeclared = {
        name: str(file.relative_to(ROOT))
        for file in files
        for name in imported(file)
        if name not in sys.stdlib_module_names
        and name not in FOLDERS
        and names.isdisjoint(
            canonicalize_name(each)
            for each in packages.get(name, [UNDER_OTHER_NAMES.get(name, name)])
        )
    }
    assert len(files) > 900
    assert undeclared == {}
