"""The report of a release: a page, figures, tables and all results, in one folder."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from html import escape
from importlib.resources import files
from io import StringIO
from typing import TYPE_CHECKING

import pandas as pd

from hsfiq.analysis.analyze import (
    Analysis,
    Inputs,
    ReleaseLike,
    ScoresLike,
    analyze,
    load_inputs,
)
from hsfiq.analysis.data.metrics import Metric
from hsfiq.analysis.json_results import UNDEFINED, json_value
from hsfiq.analysis.reports import answer, correlation, people, systems
from hsfiq.analysis.reports.caveats import caveats, methods_section, sentence
from hsfiq.analysis.reports.charts import draw, to_svg
from hsfiq.analysis.reports.document import MINUS, Document, Section, estimate_cell
from hsfiq.analysis.reports.html import report_files, to_html
from hsfiq.analysis.reports.preference import (
    accuracy_section,
    comparison_section,
    preference_section,
)
from hsfiq.analysis.reports.tables import to_csv
from hsfiq.analysis.reports.text import folded, sections_text
from hsfiq.analysis.resampling.bootstrap import DEFAULT_RESAMPLES, Bootstrap
from hsfiq.analysis.statistics.preference import base_rates
from hsfiq.text import count_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure


NOTHING = "There is nothing to compare: no answers, or neither metrics nor two systems."
FOOTNOTE = (files("hsfiq.analysis.reports") / "footnote.txt").read_text(encoding="utf-8").rstrip()


@dataclass(frozen=True)
class Report:
    """A report in memory: the results with all details, and the content of the page."""

    analysis: Analysis
    distribution: correlation.ScoreDistribution
    document: Document

    def to_json(self) -> dict[str, object]:
        """The printed analysis and, under "report", the additional content of the page."""
        details = self.analysis.details
        quantiles = {} if details is None else people.participants_summary(details.participants)
        metrics = self.analysis.metrics.items()
        return {
            **self.analysis.to_json(),
            "report": {
                "read_first": [
                    {"about": heading, "says": text} for heading, text in self.document.caveats
                ],
                "captions": {chart.name: chart.caption for chart in self.document.charts()},
                "distribution": self.distribution.to_json(),
                "participants": json_value(quantiles),
                "base_rates": json_value(
                    {name: base_rates(metric.preference) for name, metric in metrics}
                ),
            },
        }

    def to_frame(self) -> pd.DataFrame:
        """Each metric's main figures with their intervals; `tables` has all figures."""
        rows = {
            name: {
                f"{figure}{end}": value
                for figure, estimate in (
                    ("rho", estimate_cell(metric.spearman)),
                    ("tie_half", estimate_cell(metric.preference.tie_half)),
                    ("symmetric", estimate_cell(metric.preference.symmetric)),
                )
                for end, value in zip(
                    ("", "_low", "_high"),
                    (estimate.value, *(estimate.bounds or (UNDEFINED, UNDEFINED))),
                    strict=True,
                )
            }
            for name, metric in self.analysis.metrics.items()
        }
        return pd.DataFrame.from_dict(rows, orient="index")

    def _repr_html_(self) -> str:
        """The main figures, for notebooks."""
        caption = escape(f"{self.document.title}. {self.document.summary}")
        table = self.to_frame().to_html(na_rep="", float_format="{:.3f}".format)
        return f"<p>{caption}</p>{table}"

    @property
    def tables(self) -> dict[str, pd.DataFrame]:
        """The page's tables by name, in full precision, as in `tables/*.csv`."""
        simulated = self.document.simulated
        return {
            table.name: pd.read_csv(StringIO(to_csv(table, simulated=simulated)))
            for table in self.document.tables()
        }

    def to_html(self) -> str:
        """The page, as one self-contained file."""
        return to_html(self.document, self._svgs())

    def figures(self) -> dict[str, Figure]:
        document = self.document
        return {
            chart.name: draw(chart, simulated=document.simulated) for chart in document.charts()
        }

    def files(self, style: str | None = None) -> dict[str, bytes]:
        """The content of all files, by their paths in the report's folder.

        `hsfiq.atomic_files.write_report` writes them. `style` ("iclr", "cvpr" or "acl") gives PDF
        figures and LaTeX tables the widths and the letters of that venue.
        """
        return report_files(self.document, self.to_json(), style)

    def _svgs(self) -> dict[str, bytes]:
        simulated = self.document.simulated
        return {chart.name: to_svg(chart, simulated=simulated) for chart in self.document.charts()}


def report(
    release: ReleaseLike,
    metrics: Sequence[Metric | str] | Metric | str,
    scores: ScoresLike = (),
    bootstrap: Bootstrap | None = None,
    *,
    part: str | None = None,
    n_resamples: int = DEFAULT_RESAMPLES,
    seed: int = 0,
    answer_model: bool = False,
    margin: float | None = None,
) -> Report:
    """Analyze a release in full detail and make a report, without drawing or writing anything.

    Args:
        release: a release, its folder, or its tables by name: `preferences`, `sets`, `queries`.
        metrics: metrics or their names, or a single one: `recall@5`, or the name of a scores file.
        scores: further scores files, or one, each a metric with the file's name; or tables of
            scores by the metric's name.
        bootstrap: the resamples for all intervals; by default as the design requires, `n_resamples`
            times with `seed`.
        part: "train", "test" or "unused" to keep only the questions of that part of the split.
        answer_model: add the model of the scores, which takes seconds to minutes.
        margin: add tests of equivalence with this margin.

    Raises:
        UnreadableInput: the release or a scores file cannot be read, or a metric is unknown.
    """
    inputs = load_inputs(release, metrics, scores, part=part, n_resamples=n_resamples, seed=seed)
    inputs = inputs if bootstrap is None else replace(inputs, bootstrap=bootstrap)
    return report_of(inputs, answer_model=answer_model, margin=margin)


def analysis_text(analysis: Analysis, *, tables: bool = False, explain: bool = False) -> str:
    """The answer as plain text of at most `WIDTH` characters a line, without a final newline.

    Args:
        tables: add the tables of all figures.
        explain: add the definitions of the statistics.
    """
    view = answer.view_of(analysis)
    lines = [answer.title_of(analysis), NOTHING] if view is None else answer.text_lines(view)
    blocks = ["\n".join(folded(line.replace(MINUS, "-")) for line in lines)]
    if tables:
        blocks.append(sections_text(sections_of(analysis)))
    if explain:
        blocks.append(FOOTNOTE)
    return "\n\n".join(blocks)


def summary_of(analysis: Analysis) -> str:
    summary = analysis.release
    part = "" if summary.taken is None else f"{sentence(summary.taken)} "
    metrics = f"Metrics: {', '.join(analysis.metrics)}." if analysis.metrics else ""
    return (
        f"Study {summary.study}: {count_text(summary.n_questions, 'question')}, "
        f"{count_text(summary.n_sets, 'retrieved set')}, "
        f"{count_text(summary.n_participants, 'participant')}. {part}{metrics}"
    ).rstrip()


def sections_of(
    analysis: Analysis, distribution: correlation.ScoreDistribution | None = None
) -> Iterator[Section]:
    """The sections of the report."""
    details, model, tested = analysis.details, analysis.answer_model, analysis.equivalences
    if analysis.verdicts:
        yield systems.verdicts_section(analysis.verdicts)
    yield from metrics_sections(analysis, distribution)
    if details is not None:
        yield systems.systems_section(details.systems)
    if tested is not None:
        yield correlation.equivalence_section(tested)
    if model is not None:
        yield systems.answer_model_section(model)
    if details is None:
        yield people.bias_section(analysis.position_bias)
    else:
        yield people.participants_section(
            analysis.position_bias,
            details.participants,
            details.place_and_time,
            details.groups_of_people,
            details.repeated_pairs,
        )
        yield correlation.categories_section(details.categories)
        yield people.overlap_section(details.overlap)
    if analysis.judges:
        yield people.judges_section(analysis.judges)


def metrics_sections(
    analysis: Analysis, distribution: correlation.ScoreDistribution | None
) -> Iterator[Section]:
    if analysis.metrics or distribution is not None:
        yield correlation.agreement_section(analysis, distribution)
    if not analysis.metrics:
        return
    yield preference_section(analysis)
    if analysis.details is not None:
        yield correlation.within_query_section(analysis.details.within_query)
    yield comparison_section(analysis.comparisons)
    yield systems.metric_ranks_section(analysis.metric_ranks)
    yield accuracy_section(analysis)


def report_of(inputs: Inputs, *, answer_model: bool = False, margin: float | None = None) -> Report:
    release, bootstrap = inputs.release, inputs.bootstrap
    values = {str(metric): metric.values(release) for metric in inputs.metrics}
    analysis = analyze(
        release,
        inputs.metrics,
        bootstrap,
        in_detail=True,
        with_answer_model=answer_model,
        margin=margin,
    )
    distribution = correlation.score_distribution(release, values, bootstrap)
    evidence = tuple(answer.evidence_of(analysis))
    sections = [*sections_of(analysis, distribution)]
    document = Document(
        title=answer.title_of(analysis),
        summary=summary_of(analysis),
        simulated=analysis.release.simulated,
        caveats=caveats(release, analysis),
        sections=(
            *(section.without(evidence) for section in sections),
            methods_section(bootstrap, analysis.comparisons),
        ),
        answer=answer.view_of(analysis),
        evidence=evidence,
    ).drawn()
    return Report(analysis, distribution, document)
