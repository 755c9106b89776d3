"""A document as one HTML file that needs no script, no network and no other file."""

from __future__ import annotations

from html import escape
from importlib.resources import files
from string import Template
from typing import TYPE_CHECKING

from hsfiq.analysis.reports import charts
from hsfiq.analysis.reports.cells import DASH, halves, shown
from hsfiq.analysis.reports.document import Chart, Measured, Table, why_undefined
from hsfiq.analysis.reports.latex import MARK_NOTE, has_marks, letter
from hsfiq.analysis.reports.sections.methods import METHODS, NUMBERS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hsfiq.analysis.reports.document import Block, Cell, Column, Document, Section

LONG = 25
"""Tables with more rows are folded away; they open on a click and in print."""

PAGE = Template("""\
<!DOCTYPE html>
<html lang="en" xmlns="http://www.w3.org/1999/xhtml">
<head>
<meta charset="utf-8"/>
<meta name="viewport" content="width=device-width, initial-scale=1"/>
<title>$title</title>
<style>
$style
</style>
</head>
<body>
$banner<header>
<h1>$title</h1>
<p class="about">$about</p>
</header>
<main>
<section class="first" aria-labelledby="read-this-first">
<h2 id="read-this-first">Read this first</h2>
<dl>
$caveats
</dl>
</section>
<nav aria-labelledby="contents">
<h2 id="contents">Contents</h2>
<ol>
$contents
</ol>
</nav>
$sections
</main>
</body>
</html>
""")
BANNER = """\
<aside class="banner" aria-label="Simulated answers"><strong>SIMULATED.</strong> \
These answers come from simulated annotators, not from people.</aside>
"""


def to_html(document: Document, svgs: Mapping[str, bytes]) -> str:
    """Write a document as HTML that is XML too.

    Args:
        document: the report.
        svgs: each chart's SVG file by its name.

    Returns:
        The page; charts stand in it, undefined figures are dashes with letters, explained below
        their table.
    """
    return PAGE.substitute(
        title=escape(document.title),
        about=escape(document.about),
        style=(files("hsfiq.analysis.reports") / "style.css").read_text(encoding="utf-8").strip(),
        banner=BANNER if document.simulated else "",
        caveats="\n".join(
            f"<div><dt>{escape(heading)}</dt><dd>{escape(text)}</dd></div>"
            for heading, text in document.caveats
        ),
        contents="\n".join(
            f'<li><a href="#{section.name}">{escape(section.title)}</a></li>'
            for section in document.sections
        ),
        sections="\n".join(
            _section(number, section, svgs) for number, section in enumerate(document.sections, 1)
        ),
    )


def _section(number: int, section: Section, svgs: Mapping[str, bytes]) -> str:
    blocks = "\n".join(_block(block, svgs) for block in section.blocks)
    heading = f'<h2 id="{section.name}">{number}. {escape(section.title)}</h2>'
    return f'<section aria-labelledby="{section.name}">\n{heading}\n{blocks}\n</section>'


def _block(block: Block, svgs: Mapping[str, bytes]) -> str:
    if isinstance(block, Chart):
        return _figure(block, svgs[block.name])
    return _table(block) if isinstance(block, Table) else f"<p>{escape(block)}</p>"


def _figure(chart: Chart, svg: bytes) -> str:
    stop = "" if chart.title.endswith("?") else "."
    return (
        f'<figure id="figure-{chart.name}">\n'
        f'<div class="wide" tabindex="0" role="group" aria-label="{escape(chart.title)}">\n'
        f"{charts.to_inline(chart, svg)}\n</div>\n"
        f'<figcaption id="{chart.name}-caption"><strong>{escape(chart.title)}{stop}</strong> '
        f"{escape(chart.caption)}\n"
        f'<span id="{chart.name}-alt" class="alt">{escape(chart.alt)}</span>'
        "</figcaption>\n</figure>"
    )


def _table(table: Table) -> str:
    reasons = table.reasons()
    texts = [
        bool(table.rows) and all(isinstance(row[place], str) for row in table.rows)
        for place in range(len(table.columns))
    ]
    head = "".join(_head(*each) for each in zip(table.columns, texts, strict=True))
    body = "\n".join(_row(row, reasons, table.name) for row in table.rows)
    if not table.rows:
        body = f'<tr><td class="text" colspan="{len(table.columns)}">{DASH} none</td></tr>'
    caption = escape(table.caption)
    written = (
        f'<div class="wide" tabindex="0" role="group" aria-label="{caption}">\n<table>\n'
        f"<caption>{caption}</caption>\n<thead><tr>{head}</tr></thead>\n"
        f"<tbody>\n{body}\n</tbody>\n</table>\n</div>{_notes(table, reasons)}"
    )
    if len(table.rows) > LONG:
        summary = f"{caption} ({len(table.rows):,} rows)"
        written = f"<details><summary>{summary}</summary>\n{written}\n</details>"
    return f'<div class="table" id="table-{table.name.replace("_", "-")}">\n{written}\n</div>'


def _head(column: Column, text: bool) -> str:
    title, kind = escape(column.title), ' class="text"' if text else ""
    if column.method is None:
        return f'<th scope="col"{kind}>{title}</th>'
    number = NUMBERS[column.method]
    method = METHODS[number - 1]
    said = escape(f"{method.formula} ({method.source})")
    return (
        f'<th scope="col"{kind}>{title}<sup><a href="#method-{number}" title="{said}">{number}</a>'
        "</sup></th>"
    )


def _row(row: Sequence[Cell], reasons: tuple[str, ...], table: str) -> str:
    first, *others = row
    name = shown(first)
    anchor = f' id="method-{name}"' if table == "methods" else ""
    cells = "".join(_cell(cell, reasons) for cell in others)
    if isinstance(first, Measured):
        return f"<tr>{_cell(first, reasons)}{cells}</tr>"
    return f'<tr><th scope="row"{anchor}>{escape(name)}</th>{cells}</tr>'


def _cell(cell: Cell, reasons: tuple[str, ...]) -> str:
    if isinstance(cell, str):
        return f'<td class="text">{escape(cell)}</td>'
    if isinstance(cell, int):
        return f"<td>{shown(cell)}</td>"
    text, ends = halves(cell)
    text = f"<strong>{text}</strong>" if cell.best else text
    text += f' <span class="ends">{ends}</span>' if ends else ""
    why = why_undefined(cell)
    marks = cell.stars + (letter(reasons.index(why)) if why else "")
    return f"<td{_found(cell)}>{text}{f'<sup>{marks}</sup>' if marks else ''}</td>"


def _found(cell: Measured) -> str:
    """How a figure was found, for who points at it."""
    said = [] if cell.n is None else [f"n = {cell.n:,}"]
    if cell.ci is not None:
        ci = cell.ci
        said.append(
            f"{ci.level:.0%} {ci.method}, {ci.n_clusters:,} clusters (unit: {ci.unit}), "
            f"{ci.n_resamples:,} resamples, seed {ci.seed}"
        )
        said += [ci.note] if ci.note else []
    return f' title="{escape("; ".join(said))}"' if said else ""


def _notes(table: Table, reasons: tuple[str, ...]) -> str:
    notes = [table.note] if table.note else []
    notes += [MARK_NOTE] if has_marks(table) else []
    written = [f"<p>{escape(note)}</p>" for note in notes]
    written += [
        f"<p><sup>{letter(place)}</sup> {escape(reason)}</p>"
        for place, reason in enumerate(reasons)
    ]
    return f'\n<div class="notes">{"".join(written)}</div>' if written else ""
