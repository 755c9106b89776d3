"""A document as one HTML file that needs no script, no network and no other file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from hsfiq.analysis.counts import count_text
from hsfiq.analysis.reports.cells import cell_text, value_and_interval
from hsfiq.analysis.reports.document import Document, NumberCell
from hsfiq.analysis.reports.formats.fit import fit
from hsfiq.analysis.reports.formats.images import to_inline
from hsfiq.analysis.reports.sections.methods import METHOD_NUMBERS, METHODS

if TYPE_CHECKING:
    from jinja2 import Environment

LONG_TABLE = 25
"""Tables with more rows are collapsed; a click opens them, and print shows them."""

WIDE_TABLE = 118
"""Tables of more characters are split by columns, so that they fit the screen and A4."""


def to_html(document: Document, svgs: Mapping[str, bytes]) -> str:
    """Write a document as one page that is also well-formed XML, given each chart's SVG.

    An undefined figure is a dash with a letter, which is explained below its table.
    """
    inline = {chart.name: to_inline(chart, svgs[chart.name]) for chart in document.charts()}
    return _environment().get_template("report.html").render(document=document, svgs=inline)


def _environment() -> Environment:
    from jinja2 import (  # noqa: PLC0415
        Environment,
        PackageLoader,
        StrictUndefined,
    )

    environment = Environment(
        loader=PackageLoader("hsfiq.analysis.reports"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(cell_text=cell_text, provenance=_provenance)
    environment.globals.update(
        LONG_TABLE=LONG_TABLE,
        WIDE_TABLE=WIDE_TABLE,
        METHODS=METHODS,
        METHOD_NUMBERS=METHOD_NUMBERS,
        fit=fit,
        value_and_interval=value_and_interval,
    )
    return environment


def _provenance(cell: NumberCell) -> str:
    """How a figure was computed, for its tooltip; empty if it has neither n nor interval."""
    parts = [] if cell.n is None else [f"n = {cell.n:,}"]
    if cell.ci is not None:
        ci = cell.ci
        clusters = count_text(ci.n_clusters, "cluster")
        parts.append(
            f"{ci.level:.0%} {ci.method}, {clusters} (unit: {ci.unit}), "
            f"{count_text(ci.n_resamples, 'resample')}, seed {ci.seed}"
        )
        parts += [ci.note] if ci.note else []
    return "; ".join(parts)
