"""The files of a report's folder: the page, all results, each chart and each table."""

from __future__ import annotations

import json
from collections.abc import Mapping

from hsfiq.analysis.reports.document import Document
from hsfiq.analysis.reports.formats.csv_tables import to_csv
from hsfiq.analysis.reports.formats.html import to_html
from hsfiq.analysis.reports.formats.images import chart_files
from hsfiq.analysis.reports.formats.latex import to_latex
from hsfiq.analysis.reports.venues import venue_of


def report_files(
    document: Document, results: Mapping[str, object], style: str | None = None
) -> dict[str, bytes]:
    """The content of all files, by their paths in the folder.

    `style` is the venue whose widths the PDF figures and the LaTeX tables have; None for none.
    AnalysisError: there is no such style.
    """
    venue, simulated = venue_of(style), document.simulated
    charts = {
        chart.name: chart_files(chart, simulated=simulated, venue=venue)
        for chart in document.charts()
    }
    as_json = json.dumps(results, indent=2, ensure_ascii=False, allow_nan=False)
    svgs = {name: drawn["svg"] for name, drawn in charts.items()}
    files = {
        "report.html": to_html(document, svgs).encode(),
        "results.json": f"{as_json}\n".encode(),
    }
    for name, drawn in charts.items():
        files |= {f"figures/{name}.{kind}": content for kind, content in drawn.items()}
    for table in document.tables():
        latex = to_latex(table, simulated=simulated, venue=venue)
        files[f"tables/{table.name}.csv"] = to_csv(table, simulated=simulated).encode()
        files[f"tables/{table.name}.tex"] = latex.encode()
    return files
