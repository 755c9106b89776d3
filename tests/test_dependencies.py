"""pyproject.toml declares what is imported; constraints.txt names all packages that this brings."""

from __future__ import annotations

import ast
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution, packages_distributions
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.studies import ROOT

EXTRAS = ("test", "dev")

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


def test_the_constraints_are_complete() -> None:
    extras = project()["optional-dependencies"]
    wanted = [Requirement(text) for text in project()["dependencies"]]
    names, seen = [f"hsfiq[{','.join(EXTRAS)}]"], set[str]()
    while names:
        for extra in Requirement(names.pop()).extras - seen:
            seen.add(extra)
            names += [text for text in extras[extra] if text.startswith("hsfiq[")]
            wanted += [Requirement(text) for text in extras[extra] if "hsfiq[" not in text]
    visited: set[tuple[str, str]] = set()
    installed = {
        name: distribution(name).version.partition("+")[0]
        for requirement in wanted
        for name in required(requirement, visited)
        if not name.startswith(OF_TORCH_FOR_GPUS)
    }
    pinned = pins()
    assert len(installed) > 100
    assert {name: pinned.get(name) for name in installed} == installed


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
