"""The report of a release: one page to read, figures, tables and all results, in one folder."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from hsfiq.analysis.analyze import analyze
from hsfiq.analysis.data.metrics import parse_metric
from hsfiq.analysis.data.release import Release, read_release
from hsfiq.analysis.data.scores import find_scores
from hsfiq.analysis.details import details
from hsfiq.analysis.figures import figure
from hsfiq.analysis.reports import charts
from hsfiq.analysis.reports.csv_tables import to_csv
from hsfiq.analysis.reports.document import Document
from hsfiq.analysis.reports.folder import write_folder
from hsfiq.analysis.reports.html import to_html
from hsfiq.analysis.reports.latex import to_latex
from hsfiq.analysis.reports.sections.accuracy import accuracy_section
from hsfiq.analysis.reports.sections.agreement import agreement_section
from hsfiq.analysis.reports.sections.caveats import caveats, sentence
from hsfiq.analysis.reports.sections.comparison import comparison_section
from hsfiq.analysis.reports.sections.distribution import Distribution, distribution
from hsfiq.analysis.reports.sections.groups import categories_section, ceiling_section
from hsfiq.analysis.reports.sections.methods import methods_section
from hsfiq.analysis.reports.sections.people import people_section, summary
from hsfiq.analysis.reports.sections.preference import base_rates, rules_section
from hsfiq.analysis.reports.sections.sensitivity import sensitivity_section
from hsfiq.analysis.reports.sections.systems import systems_section
from hsfiq.analysis.resampling.draws import Draws

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.figure import Figure

    from hsfiq.analysis.analyze import Analysis, ReleaseSummary
    from hsfiq.analysis.data.metrics import Metric
    from hsfiq.analysis.details import Details


@dataclass(frozen=True)
class Report:
    """A report that can be read, saved, and asked for its parts.

    Attributes:
        analysis: the main results.
        details: what lies behind them.
        distribution: of the human scores, and of each metric at each of them.
        document: what the page says.
    """

    analysis: Analysis
    details: Details
    distribution: Distribution
    document: Document

    def to_json(self) -> dict[str, object]:
        """Return the analysis as it is printed, and under "report" what the page adds to it."""
        added: dict[str, object] = {
            "read_first": [{"about": about, "says": says} for about, says in self.document.caveats],
            "captions": {chart.name: chart.caption for chart in self.document.charts()},
            "distribution": self.distribution.to_json(),
            "participants": {
                name: {level: figure(value) for level, value in levels.items()}
                for name, levels in summary(self.details.participants).items()
            },
            "base_rates": {
                name: {rule: figure(base) for rule, base in base_rates(metric.preference).items()}
                for name, metric in self.analysis.metrics.items()
            },
        }
        return {**self.analysis.to_json(), "report": added}

    def to_html(self) -> str:
        """Return the page: one file that needs no other."""
        return to_html(self.document, self._svgs())

    def figures(self) -> dict[str, Figure]:
        """Draw the charts, by name."""
        simulated = self.document.simulated
        return {
            chart.name: charts.drawn(chart, simulated=simulated) for chart in self.document.charts()
        }

    def files(self) -> dict[str, bytes]:
        """Return all files of the folder, by their paths in it."""
        svgs, simulated = self._svgs(), self.document.simulated
        results = json.dumps(self.to_json(), indent=2, ensure_ascii=False, allow_nan=False)
        made = {
            "report.html": to_html(self.document, svgs).encode(),
            "results.json": f"{results}\n".encode(),
        }
        for chart in self.document.charts():
            made[f"figures/{chart.name}.svg"] = svgs[chart.name]
            made[f"figures/{chart.name}.png"] = charts.to_png(chart, simulated=simulated)
        for table in self.document.tables():
            made[f"tables/{table.name}.csv"] = to_csv(table, simulated=simulated).encode()
            made[f"tables/{table.name}.tex"] = to_latex(table, simulated=simulated).encode()
        return made

    def save(self, folder: Path | str, *, force: bool = False) -> None:
        """Write `report.html`, `results.json`, `figures/` and `tables/`, all or nothing.

        Args:
            folder: where they are to stand.
            force: replace a report that stands there.

        Raises:
            AnalysisError: the folder holds something else, or a report and force is not given.
        """
        write_folder(self.files(), Path(folder), force=force)

    def _svgs(self) -> dict[str, bytes]:
        simulated = self.document.simulated
        return {
            chart.name: charts.to_svg(chart, simulated=simulated)
            for chart in self.document.charts()
        }


def report(
    release: Release | Path | str,
    metrics: Sequence[Metric | str],
    scores: Sequence[Path | str] = (),
    draws: Draws | None = None,
) -> Report:
    """Analyse a release in every detail, and lay the results out for reading.

    Args:
        release: a release, or the folder of one.
        metrics: metrics or their names, as `recall@5` or the name of a scores file.
        scores: further scores files; each gives the metric of its own name.
        draws: the resamples for all intervals; by default 2,000 of the release's participants.

    Returns:
        The report. Nothing is drawn or written yet.

    Raises:
        AnalysisError: the release or a scores file cannot be read, or a metric is not known.
    """
    files = [Path(file) for file in scores]
    if not isinstance(release, Release):
        release = read_release(Path(release), files)
    elif files:
        release = replace(release, scores={**release.scores, **find_scores(release.folder, files)})
    wanted = [parse_metric(name) if isinstance(name, str) else name for name in metrics]
    draws = draws or Draws.of(release)
    values = {str(metric): metric.values(release) for metric in wanted}
    found = details(release, values, draws)
    analysis = replace(analyze(release, wanted, draws), details=found)
    spread = distribution(release, values, draws)
    return Report(analysis, found, spread, _document(release, analysis, found, spread, draws))


def _document(
    release: Release, analysis: Analysis, behind: Details, spread: Distribution, draws: Draws
) -> Document:
    about = analysis.release
    return Document(
        title=f"How well metrics agree with people: {about.name} {about.version}",
        about=(
            f"Study {about.study}: {about.n_questions:,} questions, {about.n_sets:,} retrieved "
            f"sets, {about.n_participants:,} participants. {_taken(about)}Metrics: "
            f"{', '.join(analysis.metrics) or 'none'}."
        ),
        simulated=about.simulated,
        caveats=caveats(release, analysis, behind),
        sections=(
            agreement_section(analysis, spread),
            rules_section(analysis),
            comparison_section(analysis),
            accuracy_section(analysis),
            systems_section(behind.systems),
            people_section(analysis, behind.participants),
            categories_section(behind.categories),
            ceiling_section(behind.ceiling),
            sensitivity_section(behind.sensitivity),
            methods_section(draws, list(analysis.comparisons)),
        ),
    )


def _taken(about: ReleaseSummary) -> str:
    return "" if about.taken is None else f"{sentence(about.taken)} "
