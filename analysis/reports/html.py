"""The files of a report's folder: the page, all results, each chart and each table."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING

from hsfiq.analysis.reports.answer import latex_section
from hsfiq.analysis.reports.caveats import FIGURE_METHODS, METHOD_NUMBERS
from hsfiq.analysis.reports.charts import chart_files, to_inline
from hsfiq.analysis.reports.document import (
    Document,
    NumberCell,
    cell_text,
    value_and_interval,
    venue_of,
)
from hsfiq.analysis.reports.tables import breakable, escape, fit, to_csv, to_latex
from hsfiq.text import count_text

if TYPE_CHECKING:
    from jinja2 import Environment


# A document as one HTML file that needs no script, no network and no other file.

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
    environment.filters.update(
        cell_text=cell_text, provenance=_provenance, percent=_percent, latex=escape
    )
    environment.globals.update(
        LONG_TABLE=LONG_TABLE,
        WIDE_TABLE=WIDE_TABLE,
        METHODS=FIGURE_METHODS,
        METHOD_NUMBERS=METHOD_NUMBERS,
        fit=fit,
        value_and_interval=value_and_interval,
    )
    return environment


def _percent(share: float) -> str:
    """A position from 0 to 1 in a plot, in the notation of SVG."""
    return f"{share:.2%}"


def _provenance(cell: NumberCell) -> str:
    """How a figure was computed, for its tooltip; empty if it has neither n nor interval."""
    parts = [] if cell.n is None else [f"n = {cell.n:,}"]
    if cell.ci is not None:
        ci = cell.ci
        clusters = count_text(ci.n_clusters, "cluster")
        resamples = count_text(ci.n_resamples, "resample")
        drawn = f", {resamples}, seed {ci.seed}" if ci.n_resamples else ""
        parts.append(f"{ci.level:.0%} {ci.method}, {clusters} (unit: {ci.unit}){drawn}")
        parts += [ci.note] if ci.note else []
    return "; ".join(parts)


# The files of a report's folder: the page, all results, each chart and each table.


def as_json(content: Mapping[str, object]) -> bytes:
    return (json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode()


def first_words(document: Document) -> dict[str, object]:
    """The texts and plot positions of the answer, for other pages that show it."""
    answer = document.answer
    first: dict[str, object] = {
        "title": document.title,
        "summary": document.summary,
        "simulated": document.simulated,
        "caveats": document.caveats,
        "answer": None,
    }
    if answer is not None:
        rest = (answer.excluded, answer.plan, answer.intervals)
        first["answer"] = asdict(answer)
        first["paper"] = {
            "short": answer.paper,
            "methods": " ".join(filter(None, (answer.paper, *rest))),
            "latex": breakable(answer.paper),
        }
    return first


def report_files(
    document: Document, results: Mapping[str, object], style: str | None = None
) -> dict[str, bytes]:
    """The content of all files, by their paths in the folder.

    `style` is the venue whose widths the PDF figures and the LaTeX tables have; None for none.
    UnreadableInput: the style is unknown.
    """
    venue, simulated = venue_of(style), document.simulated
    charts = {
        chart.name: chart_files(chart, simulated=simulated, venue=venue)
        for chart in document.charts()
    }
    svgs = {name: drawn["svg"] for name, drawn in charts.items()}
    files = {
        "report.html": to_html(document, svgs).encode(),
        "results.json": as_json(results),
        "first.json": as_json(first_words(document)),
    }
    for name, drawn in charts.items():
        files |= {f"figures/{name}.{kind}": content for kind, content in drawn.items()}
    if document.answer is not None:
        of_pairs = (each for each in document.tables() if each.name.startswith("verdicts"))
        section = latex_section(document.answer, next(of_pairs, None), simulated, venue)
        files["section.tex"] = section.encode()
    for table in document.tables():
        latex = to_latex(table, simulated=simulated, venue=venue)
        files[f"tables/{table.name}.csv"] = to_csv(table, simulated=simulated).encode()
        files[f"tables/{table.name}.tex"] = latex.encode()
    return files
