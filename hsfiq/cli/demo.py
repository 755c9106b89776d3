"""`hsfiq demo`: a study on the drawn catalogue, served or answered, an arena, or the full loop."""

from __future__ import annotations

import os
import webbrowser
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hsfiq.cli.common import Commands, note, print_text, progress, requires
from hsfiq.cli.serve import HOST, PORT, PortOption
from hsfiq.errors import UnreadableInput
from hsfiq.text import count_text

if TYPE_CHECKING:
    from hsfiq.db.engine import Database
    from hsfiq.db.tables import Study
    from hsfiq.demo.study import DrawnQuery, Rank
    from hsfiq.drawn import Garment
    from hsfiq.drawn.triplets import Split
    from hsfiq.model.evaluation.benchmarks import Benchmark
    from hsfiq.model.scorer.loading import ScorerPaths
    from hsfiq.records import RankedList

app = Commands()


# `hsfiq demo --arena`: three retrieval systems in an arena on this machine.


def run_arena(database: Database, folder: Path, port: int, seed: int, answers: int | None) -> None:
    """Train the systems that are not trained yet, and serve the arena until Ctrl-C."""
    require_packages()
    from hsfiq.demo.arena import ArenaRun, ArenaSizes

    # The systems are small: more threads make them slower where other programs run.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    ArenaRun(database, folder, port, seed, answers, ArenaSizes(), print_text, note).run()


def require_packages() -> None:
    """Report an extra that is missing before the trainings."""
    with requires("model"):
        for package in ("torch", "safetensors"):
            import_module(package)
    with requires("analysis"):
        import_module("hsfiq.analysis.kinds.arena")
    with requires("annotate"):
        import_module("hsfiq.annotate.app")


# Trained retrieval systems' lists for the demo's queries (`hsfiq demo --systems`).


def ranked_by(systems: Path, pictures: Path, cache: Path) -> Rank:
    """Rank with the trained systems in a folder, one run's folder each.

    Raises:
        UnreadableInput: fewer than two runs.
    """
    runs = runs_in(systems)
    with requires("model"):
        from hsfiq.model.scorer.loading import ScorerPaths

    paths = [ScorerPaths(run, pictures, cache=cache) for run in runs]

    def rank(garments: Sequence[Garment], queries: Sequence[DrawnQuery]) -> list[RankedList]:
        return lists_of(paths, garments, queries)

    return rank


def runs_in(systems: Path) -> list[Path]:
    runs = sorted(best.parent for best in systems.glob("*/best.json"))
    if len(runs) < 2:
        raise UnreadableInput(
            str(systems),
            f"holds {len(runs)} trained systems; a study compares at least 2",
            "hsfiq train clip4cir-fashioniq --data drawn --out DIR/clip4cir",
        )
    return runs


def lists_of(
    systems: Sequence[ScorerPaths],
    garments: Sequence[Garment],
    queries: Sequence[DrawnQuery],
) -> list[RankedList]:
    """Every system's lists, without the reference, on the CPU."""
    from hsfiq.model.evaluation.rankings import rank_with_scorer
    from hsfiq.model.runtime import device_of
    from hsfiq.model.scorer.job import Callback
    from hsfiq.records import RankedList

    benchmark = benchmark_of(garments, queries)
    lists = []
    for of_system in systems:
        ranked = rank_with_scorer(benchmark, of_system, device_of("cpu"), Callback())
        for name, answers in ranked.answers.items():
            lists += [
                RankedList(query_id, ranked.loaded.system, images, ranked.scores[name][query_id])
                for query_id, images in answers.lists.items()
            ]
    return lists


def benchmark_of(garments: Sequence[Garment], queries: Sequence[DrawnQuery]) -> Benchmark:
    """The queries as a benchmark, with a part for each category."""
    from hsfiq.drawn import corpus
    from hsfiq.drawn.garments import CATEGORIES
    from hsfiq.model.evaluation.benchmarks import Benchmark, Corpus, Part, queries_of

    parts = []
    for category in CATEGORIES:
        images = tuple(garment.image_id for garment in corpus(garments, category))
        asked = [query for query in queries if query.triplet.category == category]
        both = [each for query in asked for each in queries_of(query.triplet.record(), "both")]
        wanted = {query.query_id for query in asked}
        chosen = tuple(query for query in both if query.query_id in wanted)
        parts.append(Part(category, chosen, Corpus("catalogue", images)))
    return Benchmark("drawn", "demo", tuple(parts), keeps_reference=False)


FOLDER, FULL_FOLDER = Path("hsfiq-demo"), Path("hsfiq-demo-full")
ARENA_FOLDER = Path("hsfiq-arena")
SPLIT = "val"


@app.command(epilog="Example: hsfiq demo --answers 1000 --seed 1 --dir simulated")
def demo(
    ctx: typer.Context,
    port: PortOption = PORT,
    folder: Annotated[
        Path | None,
        typer.Option(
            "--dir",
            metavar="DIR",
            help=f"Holds the demo's database and images [{FOLDER}; with --full {FULL_FOLDER}, with "
            f"--arena {ARENA_FOLDER}].",
        ),
    ] = None,
    participants: Annotated[
        int | None,
        typer.Option(metavar="N", help="Serve a study for N participants [12].", min=1, max=10_000),
    ] = None,
    answers: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Write a study with N simulated answers instead of serving one. With --arena: "
            "serve, and run N searches of simulated participants.",
            min=1,
        ),
    ] = None,
    simulated: Annotated[
        bool,
        typer.Option("--simulated", help="Serve a study for `hsfiq simulate` instead of people."),
    ] = False,
    systems: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Compare these trained systems: each folder in DIR is a run of hsfiq train.",
        ),
    ] = None,
    full: Annotated[
        bool,
        typer.Option(
            "--full",
            help="Run the whole loop once, in minutes: train, search, serve, simulate, export, "
            "retrain, score, analyze, design the next study.",
        ),
    ] = False,
    arena: Annotated[
        bool,
        typer.Option(
            "--arena",
            help="Serve an arena: people vote between the lists of three retrieval systems, which "
            "are first trained on this machine within minutes.",
        ),
    ] = False,
    no_open: Annotated[
        bool, typer.Option("--no-open", help="With --full: do not open the report in a browser.")
    ] = False,
    seed: Annotated[
        int, typer.Option(metavar="N", help="Seed of the catalogue, the study and the answers.")
    ] = 0,
    split: Annotated[
        str,
        typer.Option(
            metavar="train|val|test",
            help="The split of the queries with --answers: test has attribute combinations that "
            "training never has.",
        ),
    ] = SPLIT,
) -> None:
    """Serve a ready study on the drawn catalogue, write an answered one, or run the whole loop."""
    chosen = chosen_split(split)
    of_one_study = {
        "--simulated": simulated,
        "--participants": participants is not None,
        "--systems": systems is not None,
        "--split": chosen != SPLIT,
    }
    if arena:
        require_alone("--arena", {"--full": full, "--no-open": no_open, **of_one_study})
        serve_arena(ctx, folder or ARENA_FOLDER, port, seed, answers)
        return
    if full:
        require_alone("--full", {"--answers": answers is not None, **of_one_study})
        run_full(folder or FULL_FOLDER, port, seed, opens=not no_open)
        return
    if no_open:
        raise UnreadableInput("--no-open", "needs --full", "leave it out, or give --full")
    if answers is None and chosen != SPLIT:
        raise UnreadableInput("--split", f"the served study has split {SPLIT}", "add --answers N")
    if answers is not None and participants is not None:
        raise UnreadableInput("--participants", "cannot be used with --answers", "leave one out")
    folder = folder or FOLDER
    if answers is not None:
        write(ctx, folder, answers, seed, chosen, systems)
    else:
        serve(ctx, folder, port, seed, participants, systems, simulated=simulated)


def chosen_split(name: str) -> Split:
    """Return the split with this name, or raise `UnreadableInput`."""
    from hsfiq.drawn.triplets import SPLITS

    for split in SPLITS:
        if split == name:
            return split
    raise UnreadableInput("--split", f"no split is called {name!r}", f"name {', '.join(SPLITS)}")


def require_alone(mode: str, given: dict[str, bool]) -> None:
    """Raise `UnreadableInput` if an option was given that cannot be used with this one."""
    for option, is_given in given.items():
        if is_given:
            raise UnreadableInput(option, f"cannot be used with {mode}", "leave one out")


def serve_arena(
    ctx: typer.Context, folder: Path, port: int, seed: int, answers: int | None
) -> None:

    database, _ = open_folder(ctx, folder)
    run_arena(database, folder, port, seed, answers)


# --------------------------------------------------------------------------------- one study


def open_folder(ctx: typer.Context, folder: Path) -> tuple[Database, Study | None]:
    """Open the folder's database, creating both if needed; return it and its study, if any."""
    from hsfiq.collect.studies import find_study
    from hsfiq.db.engine import open_database
    from hsfiq.db.sqlite import make_folder_private
    from hsfiq.demo.study import NAME, database_url

    if folder.exists() and not folder.is_dir():
        raise UnreadableInput(str(folder), "exists and is not a folder")
    make_folder_private(folder)
    database = open_database(database_url(folder))
    ctx.call_on_close(database.close)
    with database.reading() as session:
        return database, find_study(session, NAME)


def rank_with(systems: Path | None, folder: Path) -> Rank | None:
    """How the study's lists are made: by trained systems, if they are named."""
    if systems is None:
        return None

    from hsfiq.demo.study import FEATURE_FOLDER, IMAGE_FOLDER

    return ranked_by(systems, folder / IMAGE_FOLDER, folder / FEATURE_FOLDER)


def write(
    ctx: typer.Context, folder: Path, answers: int, seed: int, split: Split, systems: Path | None
) -> None:
    """Write a study that simulated annotators have answered."""
    with requires("annotate"):
        from hsfiq.demo.study import database_url, make_answered_study
    database, study = open_folder(ctx, folder)
    if study is not None:
        raise UnreadableInput(str(folder), "already holds a demo", "name another with --dir")
    rank = rank_with(systems, folder)
    make_answered_study(database, folder, answers, seed, progress("annotators"), split, rank)
    url = database_url(folder)
    print_text(f"{url}: {count_text(answers, 'answer')} by simulated annotators (seed {seed})")


def serve(
    ctx: typer.Context,
    folder: Path,
    port: int,
    seed: int,
    participants: int | None,
    systems: Path | None,
    *,
    simulated: bool,
) -> None:
    """Serve the study in the folder, creating it if needed."""
    with requires("annotate"):
        from hsfiq.annotate import app
        from hsfiq.cli.serve import setup_lines
        from hsfiq.demo.study import (
            SERVED_PARTICIPANTS,
            database_url,
            make_study,
            served_design,
        )
        from hsfiq.http_server import listening
    database, study = open_folder(ctx, folder)
    if study is not None and (study.origin == "simulated") != simulated:
        raise UnreadableInput(
            str(folder),
            f"holds a demo whose answers are {study.origin}",
            "name another with --dir, or see --simulated",
        )
    if study is not None and participants is not None:
        raise UnreadableInput(
            "--participants",
            f"the size of the study in {folder} is already fixed",
            "leave it out, or name another --dir",
        )
    if study is not None and systems is not None:
        raise UnreadableInput(
            "--systems",
            f"the lists of the study in {folder} are already fixed",
            "leave it out, or name another --dir",
        )
    rank = rank_with(systems, folder)
    listening(HOST, port).close()  # fails before the catalogue is drawn if the port is taken
    if study is None:
        note("drawing the catalogue ...")
        n_participants = participants or SERVED_PARTICIPANTS
        design = served_design(seed)
        make_study(database, folder, design, n_participants, simulated=simulated, rank=rank)
    url = database_url(folder)
    root = f"http://{HOST}:{port}"
    lines = [f"the demo is at {root} (its database is {url}); Ctrl-C stops it"]
    lines += setup_lines(database, root)
    app.serve(database, HOST, port, app.Serving(), lambda: print_text("\n".join(lines)))


# ------------------------------------------------------------------------------ the whole loop


def run_full(folder: Path, port: int, seed: int, *, opens: bool) -> None:
    """Run the full loop in a missing or empty folder; open the report in a browser if `opens`."""
    from hsfiq.db.sqlite import make_folder_private
    from hsfiq.demo.loop import REPORT, STANDARD, loop_steps, run_loop, wrap

    require_ready(folder, port, seed)
    make_folder_private(folder)
    introduction = (
        "The whole loop on a catalogue of drawn garments, in some minutes. Each step is a command "
        f"that you can type yourself; all output is in {folder}. The annotators are simulated, not "
        "people."
    )
    print_text(wrap(introduction))
    steps = loop_steps(folder, port, seed, STANDARD)
    run_loop(steps, folder, port, print_text, note)
    if opens:
        webbrowser.open((folder / REPORT / "report.html").resolve().as_uri())


def require_ready(folder: Path, port: int, seed: int) -> None:
    """Check the requirements of later steps: folder, packages, the seed's range, the port."""
    if folder.exists() and not folder.is_dir():
        raise UnreadableInput(str(folder), "exists and is not a folder", "name another --dir")
    if folder.is_dir() and any(folder.iterdir()):
        raise UnreadableInput(str(folder), "is not empty", "name another --dir")
    with requires("model"):
        for package in ("torch", "safetensors"):
            import_module(package)
        from hsfiq.model.recipes import RANGES
    least, most = RANGES["seed"]
    if not least <= seed <= most:
        raise UnreadableInput(
            "--seed", f"{seed} is not from {least} to {most}, as training needs", "name another"
        )
    with requires("analysis"):
        import_module("hsfiq.analysis.reports.report")
    with requires("annotate"):
        import_module("hsfiq.annotate.app")
        from hsfiq.http_server import listening
    listening(HOST, port).close()
