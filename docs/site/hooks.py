"""Hooks of the documentation site: pages from outside docs/, and the generated references."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from hsfiq.analysis.reports.caveats import FIGURE_METHODS
from hsfiq.cli.reference import reference, release_reference

ROOT = Path(__file__).parents[2]

PLACES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing/index.md",
    "PAPERS.md": "contributing/papers.md",
    "CHANGELOG.md": "contributing/changes.md",
    "benchmarks/README.md": "contributing/benchmarks.md",
    "examples/README.md": "contributing/examples.md",
}
"""Pages outside docs/, by their path in the repository, and where they stand in the site."""

API = """# Python

Every package can be used from Python:
<a href="../api/hsfiq.html">all modules, classes and functions</a>. Where to begin:
[examples](../../examples/README.md), [statistics](statistics.md).
"""

LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)#\s:]+)(#[^)\s]*)?\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are made from elsewhere."""
    for path, place in PLACES.items():
        if place != "index.md":
            text = (ROOT / path).read_text(encoding="utf-8")
            files.append(File.generated(config, place, content=text))
    generated = {
        "reference/commands.md": reference(),
        "reference/release-tables.md": release_reference(),
        "reference/python.md": API,
    }
    for place, text in generated.items():
        files.append(File.generated(config, place, content=text))
    return files


METHODS = {method.key: method for method in FIGURE_METHODS}
METHOD_ROW = re.compile(r"(?m)^\| @(\w+) \|$")


def method_row(match: re.Match[str]) -> str:
    """Return the row of a table that defines the method whose key stands in the page."""
    method = METHODS[match[1]]
    definition = (method.details or method.formula).replace("|", "\\|")
    return f"| {method.name} | {definition} | {method.source} |"


BOOSTS = {"tutorials": 2.0, "guides": 2.0, "contributing": 0.2}
"""How the search weighs the pages of a folder."""


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Point links at the site's pages; links to other files of the repository become text."""
    boost = BOOSTS.get(page.file.src_uri.partition("/")[0], 1.0)
    page.meta.setdefault("search", {"boost": boost})
    markdown = METHOD_ROW.sub(method_row, markdown)
    source = path_in_repository(page.file.src_uri)
    return LINK.sub(lambda link: link_in_site(link, source, page.file.src_uri), markdown)


def path_in_repository(place: str) -> str:
    paths: Mapping[str, str] = {place: path for path, place in PLACES.items()}
    return "docs/index.md" if place == "index.md" else paths.get(place, f"docs/{place}")


def link_in_site(link: re.Match[str], source: str, place: str) -> str:
    text, target, anchor = link.groups(default="")
    path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
    if path in PLACES:
        there = PLACES[path]
    elif path.startswith("docs/") and path.endswith((".md", ".svg", ".png")):
        there = path.removeprefix("docs/")
    else:
        return text if text.startswith("`") else f"{text} (`{path}`)"
    return f"[{text}]({posixpath.relpath(there, posixpath.dirname(place) or '.')}{anchor})"
