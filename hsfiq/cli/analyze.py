"""`hsfiq analyze` and `power`: how well metrics agree with people, and how precise a study is."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from math import isnan
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Annotated, Any, TypedDict, cast

import typer

from hsfiq.cli.common import (
    MOST_RESAMPLES,
    Commands,
    JsonOption,
    current_project,
    job_progress,
    newest_hp_release,
    note,
    print_result,
    requires,
)
from hsfiq.errors import UnreadableInput

if TYPE_CHECKING:
    from hsfiq.analysis.data.release import Release
    from hsfiq.analysis.power import Planned, Population, Power, StoppingPlans
    from hsfiq.analysis.power import Size as Simulated
    from hsfiq.analysis.resampling.bootstrap import Unit
    from hsfiq.analysis.sensitivity import Statistic
    from hsfiq.study.capacity import StudySize

app = Commands()


class Sampling(TypedDict):
    """Which questions are analyzed, and how they are resampled."""

    part: str | None
    unit: Unit | None
    n_resamples: int
    seed: int


@dataclass(frozen=True, kw_only=True)
class PairOptions:
    """Options that only releases of pairs have."""

    details: Annotated[
        bool,
        typer.Option(
            "--details",
            help="Also print the tables, with systems, participants, categories and agreement "
            "between people.",
        ),
    ] = False
    explain: Annotated[
        bool, typer.Option("--explain", help="Also print the definitions of the statistics.")
    ] = False
    equivalence: Annotated[
        float | None,
        typer.Option(
            metavar="MARGIN",
            help='The margin of "as good as": test whether systems, and metrics, differ by less '
            "than this (TOST), such as 0.05.",
        ),
    ] = None
    answer_model: Annotated[
        bool,
        typer.Option(
            "--answer-model",
            help="Also fit a model of the scores with effects of system, side, place, participant "
            "and query. Takes seconds, for large studies minutes.",
        ),
    ] = False


@dataclass(frozen=True, kw_only=True)
class Output:
    """The destination of the figures, and whether the tables' digests are verified first."""

    report: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Also write a full report to this folder: report.html, figures, tables and "
            "results.json.",
        ),
    ] = None
    style: Annotated[
        str | None,
        typer.Option(
            metavar="iclr|cvpr|acl",
            help="The venue of a paper: PDF figures and LaTeX tables of the report fit its "
            "columns, with 8-point text in figures.",
        ),
    ] = None
    force: Annotated[
        bool, typer.Option("--force", help="Replace an existing report in that folder.")
    ] = False
    verify: Annotated[
        bool,
        typer.Option(
            "--verify/--no-verify",
            help="Verify the digests of the tables first.",
        ),
    ] = True
    as_json: JsonOption = False

    def verify_tables(self, folder: Path) -> None:
        from hsfiq.releases.folder import manifest_of, require_listed_digests

        if self.verify:
            require_listed_digests(folder, manifest_of(folder, {}))

    def write_report(self, files: Mapping[str, bytes]) -> None:
        from hsfiq.atomic_files import write_report

        if self.report is not None:
            write_report(files, self.report, force=self.force)
            note(f"{self.report / 'report.html'}: written")


@app.command(epilog="Example: hsfiq analyze releases/my-study-hp-1.0.0 --metric recall@5")
def analyze(
    of_pairs: PairOptions,
    output: Output,
    metric: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="recall@K or the name of a scores file; without one, the systems are compared.",
        ),
    ] = None,
    release: Annotated[
        Path | None,
        typer.Argument(
            metavar="RELEASE",
            help="A release folder; by default the newest hp release in releases/.",
        ),
    ] = None,
    scores: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="A scores file: Parquet, CSV or JSONL."),
    ] = None,
    part: Annotated[
        str | None,
        typer.Option(
            metavar="test|train|unused",
            help="Only the questions of this part of the release's split; a scorer retrained on "
            "the release was not trained on the test part.",
        ),
    ] = None,
    resamples: Annotated[
        int,
        typer.Option(min=1, max=MOST_RESAMPLES, help="The number of resamples for the intervals."),
    ] = 2000,
    seed: Annotated[int, typer.Option(min=0, help="The seed of the resamples.")] = 0,
    unit: Annotated[
        str | None,
        typer.Option(
            metavar="UNIT",
            help="The unit of resampling: participant, triplet, participant-triplet (both) or row "
            "(assumes independent answers; for comparison). By default participants, or both if "
            "several participants judged the same triplet.",
        ),
    ] = None,
    first_votes: Annotated[
        bool,
        typer.Option(
            "--first-votes",
            help="For an arena, use only the first vote of each session: later turns depend on "
            "earlier votes.",
        ),
    ] = False,
) -> None:
    """Measure how well metrics agree with people's answers in a release.

    For question kinds other than pairs, the answers are also summarized; for an arena, the systems'
    strengths are estimated.
    """
    require_report(output.report, {"--force": output.force, "--style": output.style is not None})
    check_margin(of_pairs.equivalence)
    # The matrices are narrow: more threads take more CPU time and save none, and the last digits of
    # figures would depend on the number of cores.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    with requires("analysis"):
        from hsfiq.analysis.data.kind_release import kind_of
        from hsfiq.analysis.kinds import STATISTICS
        from hsfiq.analysis.kinds.arena import KIND as ARENA
        from hsfiq.analysis.reports.document import venue_of
    from hsfiq.atomic_files import require_free
    from hsfiq.releases.folder import require_readable

    if output.report is not None:
        require_free(output.report, force=output.force)
    venue_of(output.style)  # refuses an unknown one before the work starts
    folder = release or newest_hp_release()
    if release is None:
        note(f"analyzing {folder}")
    require_readable(folder)
    kind = kind_of(folder)
    project = current_project() if metric else None
    # The studio shows what a job found without its notes.
    if kind != ARENA and (project is not None or (part is None and job_progress() is not None)):
        from hsfiq.cli.score import part_not_trained_on, score_in_project

        if project is not None:
            score_in_project(project, folder, metric or [], scores or [])
        part = part_not_trained_on(folder, metric or [], scores or [], part)
    sampling: Sampling = {
        "part": part,
        "unit": cast("Unit | None", unit),  # checked where the release is read
        "n_resamples": resamples,
        "seed": seed,
    }
    if first_votes and kind != ARENA:
        raise UnreadableInput("--first-votes", "needs the release of an arena", "leave it out")
    if kind == ARENA or kind in STATISTICS:
        refuse_options_of_pairs(of_pairs)
    if kind == ARENA:
        refuse_metrics(metric or [], scores or [])
        analyze_votes(folder, sampling, output, first_votes=first_votes)
    elif kind in STATISTICS:
        analyze_kind(folder, metric or [], scores or [], sampling, output)
    else:
        analyze_pairs(folder, metric or [], scores or [], sampling, output, of_pairs)


def require_report(report: Path | None, given: Mapping[str, bool]) -> None:
    """Refuse options of a report, by whether they were given, if none is to be written."""
    for option, is_given in given.items():
        if is_given and report is None:
            raise UnreadableInput(
                option, "needs a report, and no report was requested", "add --report"
            )


def check_margin(margin: float | None) -> None:
    if margin is None:
        return
    with requires("analysis"):
        from hsfiq.analysis.verdicts import require_margin
    require_margin(margin)


def refuse_options_of_pairs(options: PairOptions) -> None:
    for name, value in asdict(options).items():
        if value is not None and value is not False:
            raise UnreadableInput(
                f"--{name.replace('_', '-')}",
                "needs a release of pairs, and this release has another question kind",
                "leave it out",
            )


def refuse_metrics(metrics: list[str], scores: list[Path]) -> None:
    """Refuse metrics for an arena, whose votes are about lists of live systems."""
    for option, given in (("--metric", metrics), ("--scores", scores)):
        if given:
            raise UnreadableInput(
                option, "compares metrics with answers about stored sets", "leave it out"
            )


def analyze_votes(folder: Path, sampling: Sampling, output: Output, *, first_votes: bool) -> None:
    """Analyze the release of an arena."""
    from hsfiq.analysis.kinds.arena import analyze_arena
    from hsfiq.analysis.reports.arena import arena_text

    output.verify_tables(folder)
    result = analyze_arena(folder, turns="first" if first_votes else "all", **sampling)
    if output.report is not None:
        from hsfiq.analysis.reports.arena import arena_report

        output.write_report(arena_report(result, output.style))
    print_result(result.to_json(), arena_text(result), as_json=output.as_json)


def analyze_kind(
    folder: Path, metrics: list[str], scores: list[Path], sampling: Sampling, output: Output
) -> None:
    """Analyze a release of another question kind than pairs."""
    from hsfiq.analysis.analyze import load_kind_inputs
    from hsfiq.analysis.kinds.kind import analyze_judged
    from hsfiq.analysis.reports.kinds import kind_report, kind_text

    output.verify_tables(folder)
    inputs = load_kind_inputs(folder, metrics, scores, **sampling)
    result = analyze_judged(inputs.release, inputs.statistics, inputs.metrics, inputs.bootstrap)
    if output.report is not None:
        output.write_report(kind_report(result, inputs.bootstrap, output.style))
    print_result(result.to_json(), kind_text(result, inputs.bootstrap), as_json=output.as_json)


def analyze_pairs(
    folder: Path,
    metrics: list[str],
    scores: list[Path],
    sampling: Sampling,
    output: Output,
    options: PairOptions,
) -> None:
    """Analyze a release of pairs."""
    with requires("analysis"):
        from hsfiq.analysis.analyze import analyze as analyze_release
        from hsfiq.analysis.analyze import load_inputs
        from hsfiq.analysis.reports.report import analysis_text
        from hsfiq.analysis.systems.systems import names_of

    inputs = load_inputs(folder, metrics, scores, **sampling)
    if not metrics and len(names_of(inputs.release)) < 2:
        what = "is missing, and the release does not name the systems that could be compared"
        raise UnreadableInput("--metric", what, "name one, such as --metric recall@5")
    output.verify_tables(folder)  # what cannot be read at all has been refused, with its reason
    if output.report is None:
        result = analyze_release(
            inputs.release,
            inputs.metrics,
            inputs.bootstrap,
            in_detail=options.details,
            with_answer_model=options.answer_model,
            margin=options.equivalence,
        )
    else:
        with requires("analysis"):
            from hsfiq.analysis.reports.report import report_of
        content = report_of(inputs, answer_model=options.answer_model, margin=options.equivalence)
        output.write_report(content.files(output.style))
        result = content.analysis
    text = analysis_text(
        result, tables=options.details or options.answer_model, explain=options.explain
    )
    print_result(result.to_json(), text, as_json=output.as_json)


def reported(folder: Path) -> tuple[dict[str, Any], list[str], dict[str, bytes]]:
    """The analysis of a release: as JSON, its first lines, and its report's files.

    For pairs, the systems are compared; without two systems, recall@5 is compared with people. The
    keys of the files are their paths in the report's folder.
    """
    with requires("analysis"):
        from hsfiq.analysis.data.kind_release import kind_of
        from hsfiq.analysis.kinds import STATISTICS
        from hsfiq.analysis.kinds.arena import KIND as ARENA
    kind = kind_of(folder)
    if kind == ARENA:
        from hsfiq.analysis.kinds.arena import analyze_arena
        from hsfiq.analysis.reports.arena import arena_report, arena_text

        votes = analyze_arena(folder)
        return votes.to_json(), arena_text(votes).splitlines(), arena_report(votes)
    if kind in STATISTICS:
        from hsfiq.analysis.analyze import load_kind_inputs
        from hsfiq.analysis.kinds.kind import analyze_judged
        from hsfiq.analysis.reports.kinds import kind_report, kind_text

        of_kind = load_kind_inputs(folder, [])
        judged = analyze_judged(
            of_kind.release, of_kind.statistics, of_kind.metrics, of_kind.bootstrap
        )
        lines = kind_text(judged, of_kind.bootstrap).splitlines()
        return judged.to_json(), lines, kind_report(judged, of_kind.bootstrap)
    from hsfiq.analysis.analyze import load_inputs
    from hsfiq.analysis.reports.report import analysis_text, report_of
    from hsfiq.analysis.systems.systems import names_of

    inputs = load_inputs(folder, [])
    if len(names_of(inputs.release)) < 2:
        inputs = load_inputs(folder, ["recall@5"])
    content = report_of(inputs)
    lines = analysis_text(content.analysis).splitlines()
    return content.analysis.to_json(), lines, content.files()


# `hsfiq power`: how many participants and questions a study needs.


class Spread(TypedDict):
    """The spread of participants' own rates, and its source."""

    spread: float
    source: str


def planned_for(
    study: StudySize, difference: float | None, simulated: Simulated | None = None
) -> Planned:
    """How precisely the question will be answered; of metrics, by simulated studies."""
    from hsfiq.analysis.power import SYSTEMS_DIFFER, precision_of_metrics, precision_of_systems

    plan = study.plan
    if plan.question == "metrics" and simulated is not None:
        figure: Statistic = "rho" if plan.statistic == "spearman" else "tie_half"
        least = difference or METRICS_DIFFER
        return precision_of_metrics(simulated, figure, difference=least, alpha=plan.alpha)
    return precision_of_systems(**study.comparison(), difference=difference or SYSTEMS_DIFFER)


def precision_lines(study: StudySize, planned: Planned) -> list[str]:
    """The precision in words."""
    if isnan(planned.half_width):
        return ["unknown: at least two participants and two queries are needed"]
    needed = planned.needed
    people = "more queries are needed" if needed is None else f"{needed:,} people"
    half_width = f"half-width {planned.half_width:.2f} with {planned.participants:,} people"
    answer = f"{half_width}; {people} for a difference of {planned.difference:.2f}"
    is_rate = planned.statistic == "win_rate"
    of = "win rate, difference from 0.5" if is_rate else f"difference of {planned.statistic}"
    return [
        f"{' against '.join(study.plan.pair) or 'any two'}: {answer}",
        f"({of}; {100 * (1 - planned.alpha):g}% interval; power {100 * planned.power:g}%)",
    ]


METRICS_DIFFER = 0.05
"""The difference between two metrics to detect."""


def own_study() -> StudySize | None:
    """The study of pairs of the project in whose folder the command runs, if there is one."""
    from hsfiq.collect.studies import find_study
    from hsfiq.db.engine import open_database
    from hsfiq.kinds import KINDS
    from hsfiq.project import with_binding
    from hsfiq.rehearsal import systems_of
    from hsfiq.study.capacity import StudySize, budget_of
    from hsfiq.study.config import config_of
    from hsfiq.study.config_file import read_config
    from hsfiq.study.design import chosen_queries

    project = current_project()
    if project is None:
        return None
    with closing(open_database(project.database_url, create=False)) as database:
        with database.reading() as session:
            study = find_study(session, project.names()[0])
            if study is None or not KINDS[study.kind].has_preferences:
                return None
            config = config_of(study)
            if config != with_binding(read_config(project.study_file), study):
                note(f"note: {project.study_file} has changed since the study was drawn")
            budget = budget_of(session, study, config, None)
            every = replace(config, queries=replace(config.queries, sample=0))
            queries = len(chosen_queries(session, every))
        return StudySize.of(config, budget, len(systems_of(database, config)), queries)


@app.command(epilog="Example: hsfiq power --participants 60 --questions 50 --width 0.05")
def power(
    release: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="RELEASE",
            help="Estimate the variances from this release; by default, published variances are "
            "used.",
        ),
    ] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="With --from: one metric, or two to compare; by default recall@5."
        ),
    ] = None,
    scores: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="With --from: a scores file."),
    ] = None,
    participants: Annotated[
        list[int] | None,
        typer.Option(metavar="N", help="The number of participants."),
    ] = None,
    questions: Annotated[
        list[int] | None,
        typer.Option(metavar="N", help="The questions of each participant."),
    ] = None,
    overlap: Annotated[
        int | None,
        typer.Option(metavar="N", help="How many participants answer each question; else 1."),
    ] = None,
    width: Annotated[float, typer.Option(help="The target width of a 95% interval.")] = 0.05,
    difference: Annotated[
        float | None,
        typer.Option(
            help="The difference to detect: of two metrics (by default 0.05) or, in a project, "
            "of a win rate from one half (0.1)."
        ),
    ] = None,
    preference: Annotated[
        list[float] | None,
        typer.Option(
            metavar="RATE",
            help="The rate at which people prefer one of two systems.",
        ),
    ] = None,
    systems: Annotated[
        int | None,
        typer.Option(metavar="N", help="How many systems are compared with each other; else 2."),
    ] = None,
    seed: Annotated[
        int, typer.Option(metavar="N", help="The seed of the simulated studies.", min=0)
    ] = 0,
    as_json: JsonOption = False,
) -> None:
    """Estimate by simulation a study's precision and the participants that it needs.

    Also estimates the participants needed to decide between two systems: tested once at the end, or
    monitored continuously. In a project, omitted numbers and the question are those of study.toml.
    """
    if release is None and (metric or scores):
        raise UnreadableInput("--metric", "needs a release", "name one with --from RELEASE")
    if len(metric or []) > 2:
        raise UnreadableInput("--metric", f"{len(metric or [])} metrics", "name one or two")
    with requires("analysis"):
        from hsfiq.analysis.power import (
            PARTICIPANTS,
            QUESTIONS,
            RATES,
            require_possible,
            stopping_plans,
        )
        from hsfiq.analysis.power import power as simulate_power

        own = own_study()
        people, asked = participants or PARTICIPANTS, questions or QUESTIONS
        if own is not None:
            people, asked = participants or [own.participants], questions or [own.questions]
            own = replace(
                own,
                participants=min(people),
                questions=min(asked),
                overlap=overlap or own.overlap,
                systems=systems or own.systems,
            )
        overlap = overlap or (max(1, min(round(own.overlap), *people)) if own else 1)
        between = METRICS_DIFFER if difference is None else difference
        require_possible(people, asked, overlap, width, between)
        data = None if release is None else read(release, scores)
        plans = stopping_plans(
            preference or RATES,
            asked,
            systems=systems or (own.systems if own else 2),
            seed=seed,
            **choose_spread(data),
        )
        result = simulate_power(
            choose_population(data, metric),
            participants=people,
            questions=asked,
            overlap=overlap,
            width=width,
            difference=between,
            seed=seed,
        )
    facts = result.to_json() | {"preference": plans.to_json()}
    texts = [as_text(result), plans_text(plans)]
    if own is not None:
        planned = planned_for(own, difference, result.sizes[0])
        facts["planned"] = {"pair": own.plan.pair or None} | planned.to_json()
        texts.insert(0, "\n".join(precision_lines(own, planned)))
    print_result(facts, "\n\n".join(texts), as_json=as_json)


def read(release: Path, scores: list[Path] | None) -> Release:
    from hsfiq.analysis.data.release import read_release

    return read_release(release, scores or [])


def choose_spread(release: Release | None) -> Spread:
    """How participants' preferences between systems differ: in a release of systems, or assumed."""
    from hsfiq.analysis.power import ASSUMED_SPREAD, estimate_spread

    if release is None or not names_systems(release):
        return {"spread": ASSUMED_SPREAD, "source": "assumed"}
    return {
        "spread": estimate_spread(release),
        "source": f"release {release.name} {release.version}",
    }


def names_systems(release: Release) -> bool:
    return "system" in release.sets and bool(release.sets["system"].notna().any())


def choose_population(release: Release | None, metric: list[str] | None) -> Population:
    """The population of a release's answers, or the published one."""
    from hsfiq.analysis.data.metrics import parse_metric
    from hsfiq.analysis.power import PUBLISHED, estimate_population

    if release is None:
        return PUBLISHED
    names = metric or ["recall@5"]
    return estimate_population(release, *(parse_metric(name).values(release) for name in names))


def as_text(result: Power) -> str:
    lines = [
        f"{result.n_studies} studies of each size simulated, seed {result.seed}",
        f"participants for each question: {result.overlap}",
        *wrap(f"variances: {result.population.source}", width=100, subsequent_indent="  "),
        "",
        f"{'':>14}{'':>11}{'width of the 95% interval':>28}{'detectable difference':>28}",
        f"{'participants':>14}{'questions':>11}" + f"{'rho':>14}{'tie_half':>14}" * 2,
    ]
    for size in result.sizes:
        columns = [each.width for each in size.precision.values()]
        columns += [each.difference for each in size.precision.values()]
        figures = "".join(f"{column:>14.4f}" for column in columns)
        lines.append(f"{size.participants:>14}{size.questions:>11}{figures}")
    for needed in result.needed:
        lines += ["", f"with {needed.questions} questions each, participants needed"]
        for target, value, counts in (
            ("width", result.width, needed.for_width),
            ("difference", result.difference, needed.for_difference),
        ):
            listed = ", ".join(f"{n:,} ({name})" for name, n in counts.items())
            lines.append(f"  for a {target} of {value:g}: {listed}")
    means = ", ".join(
        f"{name} {each.mean:.3f}" for name, each in result.sizes[-1].precision.items()
    )
    return "\n".join([*lines, "", f"{FOOTNOTE}\nmeans in the largest size: {means}"])


FOOTNOTE = """\
width: of a valid interval, 2 x Student's t x the standard deviation over the simulated studies.
detectable difference: of two metrics on the same sets, with a power of 80% at 5%."""


def plans_text(plans: StoppingPlans) -> str:
    """The participants needed to decide between two systems, by rate and questions."""
    about = "participants needed to decide which of two systems people prefer; systems compared: "
    about += f"{plans.systems}, so each at the level {plans.level:.3g}; participants' own rates "
    about += f"spread by {plans.spread:.3f} ({plans.spread_source})"
    lines = [
        *wrap(about, width=100, subsequent_indent="  "),
        f"{'':>22}{'tested at':>12}{'watched:':>12}",
        f"{'rate':>11}{'questions':>11}{'the end':>12}{'mean':>12}{'half by':>10}{'90% by':>10}",
    ]
    for each in plans.plans:
        mean = f"{each.expected:,.0f}" if each.median else f"> {each.expected:,.0f}"
        half, most = (f"{n:,}" if n else "later" for n in (each.median, each.nine_in_ten))
        lines.append(
            f"{each.rate:>11g}{each.questions:>11}{each.fixed:>12,}{mean:>12}{half:>10}{most:>10}"
        )
    return "\n".join([*lines, "", STOPPING_FOOTNOTE])


STOPPING_FOOTNOTE = """\
tested at the end: with a power of 80%, if the rate is as planned.
watched: until the confidence sequence excludes one half (hsfiq study status); no planned
rate is needed, and a clearer preference stops the study sooner."""
