"""`hsfiq sessions`: playing and measuring searches over several rounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from hsfiq.cli import sessions_play
from hsfiq.cli.analyze import require_report
from hsfiq.cli.common import MOST_RESAMPLES, JsonOption, print_result, requires

if TYPE_CHECKING:
    from hsfiq.analysis.sessions.people import PeopleAndSimulators
    from hsfiq.sessions.record import Session

app = typer.Typer(help="Searches over several rounds: play and measure them.", no_args_is_help=True)

sessions_play.register(app)


@app.command(epilog="Example: hsfiq sessions measure sprc.jsonl clip4cir.jsonl --k 1 --k 10")
def measure(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="Sessions as JSON lines, of any systems."),
    ],
    k: Annotated[
        list[int] | None,
        typer.Option(metavar="K", min=1, help="Hits@K and Recall@K; by default 1, 5, 10, 50."),
    ] = None,
    after_stop: Annotated[
        Literal["carry", "drop"],
        typer.Option(help="After a session's end: its last list stays, or it is left out."),
    ] = "carry",
    ties: Annotated[
        Literal["corpus", "expected"],
        typer.Option(help="Ranks among equal scores: in the corpus' order, or as expected."),
    ] = "corpus",
    preset: Annotated[
        Literal["fisd"] | None,
        typer.Option(help="FISD's K and rounds; notes say where sessions were played otherwise."),
    ] = None,
    by_category: Annotated[
        bool, typer.Option("--by-category", help="Measure each category apart.")
    ] = False,
    resamples: Annotated[
        int,
        typer.Option(min=1, max=MOST_RESAMPLES, help="The number of resamples for the intervals."),
    ] = 2000,
    seed: Annotated[int, typer.Option(min=0, help="The seed of the resamples.")] = 0,
    people: Annotated[
        Path | None,
        typer.Option(
            metavar="RELEASE",
            help="Compare with the people of this release of searches, or of a file of sessions, "
            "on the same queries and systems.",
        ),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Also write report.html, figures, tables and results.json."
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace an existing report in that folder.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Hits, recall and ranks by round, rounds to success, repeats and words.

    With several systems, the differences to the first one on the same queries. With --people, the
    simulated sessions of the files beside those of people.
    """
    with requires("analysis"):
        from hsfiq.analysis.reports.sessions import comparison_text, session_text
        from hsfiq.analysis.sessions.measure import measure_rows
        from hsfiq.analysis.sessions.ranks import FISD, Rules
    from hsfiq.report_folder import require_free, write_report
    from hsfiq.sessions import record
    from hsfiq.sessions.tables import deviations, tables_of

    require_report(report, {"--force": force})
    if report is not None:
        require_free(report, force=force)
    sessions = [session for path in files for session in record.read(path)]
    tables = tables_of(sessions, by_category=by_category)
    preset_rules = FISD if preset == "fisd" else Rules()
    rules = replace(preset_rules, ks=tuple(k or preset_rules.ks), after_stop=after_stop, ties=ties)
    result = measure_rows(
        tables.sessions,
        tables.rounds,
        rules,
        tables.triplets,
        n_resamples=resamples,
        seed=seed,
        simulated=tables.simulated,
        notes=[*tables.notes, *(deviations(sessions) if preset == "fisd" else [])],
    )
    compared = None if people is None else comparison(people, sessions, k or (), resamples, seed)
    if report is not None:
        with requires("analysis"):
            from hsfiq.analysis.reports.sessions import session_report
        write_report(session_report(result, compared), report, force=force)
        typer.echo(f"{report / 'report.html'}: written", err=True)
    as_object, text = result.to_json(), session_text(result)
    if compared is not None:
        as_object["people"] = compared.to_json()
        text = f"{text}\n\n{comparison_text(compared)}"
    print_result(as_object, text, as_json=as_json)


def comparison(
    people: Path, simulated: Sequence[Session], ks: Sequence[int], resamples: int, seed: int
) -> PeopleAndSimulators:
    """The simulated sessions beside those of a release's people."""
    from hsfiq.analysis.sessions.people import compare_rows
    from hsfiq.analysis.sessions.ranks import Rules
    from hsfiq.releases.searching.records import FILE
    from hsfiq.sessions import record
    from hsfiq.sessions.tables import sides_of

    file = people / FILE if people.is_dir() else people
    sides = sides_of(record.read(file), simulated)
    return compare_rows(
        sides.sessions,
        sides.rounds,
        sides.sides,
        sides.triplets,
        Rules(ks=tuple(ks)),
        n_resamples=resamples,
        seed=seed,
        notes=sides.notes,
    )
