"""`hsfiq sessions`: simulate multi-round searches, and measure them."""

from __future__ import annotations

import os
from collections.abc import Sequence, Set
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from hsfiq.cli import common, retrieve
from hsfiq.cli.analyze import require_report
from hsfiq.cli.images import image_root
from hsfiq.errors import UnreadableInput
from hsfiq.text import count_text

if TYPE_CHECKING:
    from hsfiq.analysis.sessions.people import PeopleAndSimulators
    from hsfiq.images.folder import ImageFolder
    from hsfiq.model.evaluation.benchmarks import Benchmark
    from hsfiq.sessions.play import Part, Query, User
    from hsfiq.sessions.record import Session
    from hsfiq.sessions.simulators import Simulator

app = common.Commands(help="Simulate and measure multi-round searches.", no_args_is_help=True)


# The queries of a release of searches, for simulated users to search for them, too.

OWN_WISH = "own-wish"


def queries_to_play(release: Path) -> tuple[Query, ...]:
    """The queries with a target that people searched for.

    Raises:
        UnreadableInput: the folder is not a release of searches, the participants chose their own
        targets, or a query lacks a reference, a target or a text.
    """
    from hsfiq.releases.folder import read_queries, read_rows
    from hsfiq.sessions.play import Query

    tasks = {row["task"] for row in read_rows(release / "sessions.parquet", ("task",))}
    if tasks == {OWN_WISH}:
        what = "has searches without given targets, which simulators need"
        raise UnreadableInput(str(release), what, "name one with targets")
    queries = []
    for query in read_queries(release).values():
        if query.reference is None or query.target is None or not query.text:
            where = f"{release}: query {query.query_id}"
            raise UnreadableInput(where, "lacks a reference, a target or a text")
        queries.append(
            Query(
                query_id=query.query_id,
                reference=query.reference,
                text=query.text,
                targets=(query.target,),
            )
        )
    return tuple(queries)


# What `hsfiq sessions play` plays: rankers with their queries, and who asks.

SimulatorName = Literal["drawn-full", "drawn-brief", "same-text", "scripted", "llm", "captioner"]


@dataclass(frozen=True, kw_only=True)
class SourceOptions(retrieve.CorpusOptions):
    """The queries to play, and their corpus."""

    drop_reference: Annotated[
        bool,
        typer.Option("--drop-reference", help="Exclude a query's reference from the candidates."),
    ] = False
    queries: Annotated[
        Path | None,
        typer.Option(
            metavar="RELEASE", help="Only the queries that people searched for in this release."
        ),
    ] = None
    limit: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Play only the first N queries of each part."),
    ] = None
    token_file: retrieve.TokenFileOption = None
    timeout: Annotated[
        float,
        typer.Option(metavar="SECONDS", min=0.1, help="The timeout of requests to a system's URL."),
    ] = 60.0


@dataclass(frozen=True, kw_only=True)
class SimulatorOptions:
    """Options of some simulators."""

    script: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="scripted: CIRCLED, Multi-turn FashionIQ, or sessions as JSON lines.",
        ),
    ] = None
    endpoint: Annotated[
        str | None,
        typer.Option(metavar="URL", help="llm: OpenAI-compatible; else $OPENAI_BASE_URL."),
    ] = None
    model: Annotated[
        str | None, typer.Option(metavar="NAME", help="llm: the model that writes the texts.")
    ] = None
    describing_model: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="llm: the model that describes images; else --model."),
    ] = None
    prompt: Annotated[
        str, typer.Option(metavar="NAME", help="llm: fashioniq, cirr, pair, or a .toml file.")
    ] = "fashioniq"
    parallel: Annotated[
        int, typer.Option(metavar="N", min=1, max=64, help="llm: the number of parallel requests.")
    ] = 4
    answers: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="llm: the cache of answers; else ~/.cache/hsfiq/answers."),
    ] = None
    captioner: Annotated[
        str | None,
        typer.Option(metavar="MODULE:NAME", help="captioner: your own object."),
    ] = None


@dataclass(frozen=True)
class Sources:
    """The parts that are played, and where their images are."""

    parts: tuple[Part, ...]
    images: Path | None


# ------------------------------------------------------------------------------ rankers and queries


def sources_of(
    system: str,
    data: str | None,
    options: SourceOptions,
    script: Sequence[Session] | None,
    stack: ExitStack,
) -> Sources:
    """The rankers of a checkpoint or of a URL, with the queries of the data or of a script."""
    if script is not None and options.queries is not None:
        raise UnreadableInput("--queries", "has no effect on a script", "leave one out")
    if system.startswith(("http://", "https://")):
        return live_sources(system, data, options, script, stack)
    if data is None:
        raise UnreadableInput("--data", "is missing", "a checkpoint needs images to search in")
    return checkpoint_sources(Path(system), data, options, script)


def live_sources(
    url: str,
    data: str | None,
    options: SourceOptions,
    script: Sequence[Session] | None,
    stack: ExitStack,
) -> Sources:
    from hsfiq.live.client import LiveRetriever
    from hsfiq.sessions.play import Part
    from hsfiq.sessions.scripts import script_queries

    token = retrieve.read_token(options.token_file) if options.token_file else None
    ranker = stack.enter_context(LiveRetriever(url, token, options.timeout))
    if script is not None:
        return Sources((Part(ranker, tuple(script_queries(script))),), options.images)
    if options.queries is not None:
        queries = released_queries(options.queries, options)
        return Sources((Part(ranker, queries),), options.images)
    if data is None:
        raise UnreadableInput("--data", "is missing", "name a dataset's folder, or drawn")
    benchmark = drawn_benchmark(options) if data == retrieve.DRAWN else named(Path(data), options)
    queries = tuple(query for own in queries_of(benchmark, options) for query in own)
    images = options.images or (None if data == retrieve.DRAWN else Path(data))
    return Sources((Part(ranker, queries),), images)


def checkpoint_sources(
    checkpoint: Path, data: str, options: SourceOptions, script: Sequence[Session] | None
) -> Sources:
    folder = None if data == retrieve.DRAWN else common.existing_folder(Path(data))
    with common.requires("model"):
        from hsfiq.cli.training_bar import TrainingBar
        from hsfiq.model.evaluation.drawn import drawn_for_scorer
        from hsfiq.model.ranker import part_rankers
        from hsfiq.model.runtime import device_of
    from hsfiq.sessions.play import Part

    if folder is None:
        benchmark, images, _ = drawn_for_scorer(
            retrieve.drawn_split(options.split), checkpoint, options.images
        )
    else:
        benchmark = retrieve.benchmark_of(
            folder, checkpoint, options.dataset, options.split, options.corpus
        )
        images = options.images or image_root(folder)
    if script is not None:
        queries = scripted(benchmark, script)
    elif options.queries is not None:
        queries = placed(benchmark, released_queries(options.queries, options))
    else:
        queries = queries_of(benchmark, options)
    paths = options.paths(checkpoint, images)
    with TrainingBar() as bar:
        rankers = part_rankers(paths, benchmark, device_of(options.device), bar)
    parts = zip(rankers, queries, strict=True)
    return Sources(tuple(Part(ranker, own) for ranker, own in parts if own), images)


def drawn_benchmark(options: SourceOptions) -> Benchmark:
    """The catalogue that training draws by default."""
    with common.requires("model"):
        from hsfiq.model.evaluation.drawn import catalogue_of, drawn
    from hsfiq.model.system_recipes import system_on_drawn, system_recipe

    recipe = system_on_drawn(system_recipe("clip4cir-fashioniq"))
    return drawn(catalogue_of(recipe, {}), retrieve.drawn_split(options.split))


def named(folder: Path, options: SourceOptions) -> Benchmark:
    if options.dataset is None:
        raise UnreadableInput("--dataset", "is missing", "name the dataset in --data")
    return retrieve.named_benchmark(
        options.dataset, common.existing_folder(folder), options.split, options.corpus
    )


def queries_of(benchmark: Benchmark, options: SourceOptions) -> list[tuple[Query, ...]]:
    """The queries of each part; CIRR's references are no candidates."""
    from hsfiq.sessions.play import Query

    drops_reference = options.drop_reference or not benchmark.keeps_reference
    return [
        tuple(
            Query(
                query_id=query.query_id,
                reference=query.reference,
                text=query.text,
                targets=query.truths or ((query.target,) if query.target else ()),
                excluded=(query.reference,) if drops_reference else (),
                category=part.name,
            )
            for query in part.queries[: options.limit]
        )
        for part in benchmark.parts
    ]


def released_queries(release: Path, options: SourceOptions) -> tuple[Query, ...]:
    """The queries that people searched for; references were among the candidates."""
    return tuple(
        replace(query, excluded=(query.reference,))
        if options.drop_reference and query.reference
        else query
        for query in queries_to_play(release)[: options.limit]
    )


def placed(benchmark: Benchmark, queries: Sequence[Query]) -> list[tuple[Query, ...]]:
    """The queries by the first part whose corpus holds their images."""
    corpora = corpora_of(benchmark)
    by_part: list[list[Query]] = [[] for _ in corpora]
    for query in queries:
        needed = {*query.targets, *([query.reference] if query.reference else ())}
        place = place_of(corpora, needed, f"query {query.query_id}")
        by_part[place].append(replace(query, category=benchmark.parts[place].name))
    return [tuple(own) for own in by_part]


def corpora_of(benchmark: Benchmark) -> list[frozenset[str]]:
    return [frozenset(part.corpus.images or ()) for part in benchmark.parts]


def place_of(corpora: Sequence[Set[str]], needed: Set[str], where: str) -> int:
    """The first corpus that holds these images; UnreadableInput if there is none."""
    place = next((n for n, known in enumerate(corpora) if needed <= known), None)
    if place is None:
        first = min(needed, key=lambda image: any(image in known for known in corpora))
        raise UnreadableInput(
            where,
            f"no corpus of --data holds {first} and the session's other images",
            "choose the --split with these images, or serve the images and give the URL",
        )
    return place


def scripted(benchmark: Benchmark, script: Sequence[Session]) -> list[tuple[Query, ...]]:
    """The sessions of a script by the first part whose corpus holds all of their images.

    Raises:
        UnreadableInput: no corpus holds those of a session.
    """
    from hsfiq.sessions.scripts import images_of, script_queries

    corpora = corpora_of(benchmark)
    queries: list[list[Query]] = [[] for _ in corpora]
    for session, query in zip(script, script_queries(script), strict=True):
        place = place_of(corpora, images_of(session), f"session {session.session_id}")
        queries[place].append(query)
    return [tuple(own) for own in queries]


# ----------------------------------------------------------------------------------------- who asks


def read_script(name: SimulatorName, path: Path | None) -> tuple[Session, ...] | None:
    """The sessions of `--script`, which `scripted` needs and no other simulator takes."""
    if (name == "scripted") != (path is not None):
        wants = "needs --script FILE" if path is None else "takes no --script"
        raise UnreadableInput("--simulator", f"{name} {wants}", "see hsfiq sessions play --help")
    if path is None:
        return None
    from hsfiq.sessions import scripts

    return scripts.read(path)


def user_of(
    name: SimulatorName, choose: str, options: SimulatorOptions, images: Path | None, data: str
) -> tuple[User, int]:
    """The simulated user that the options name, and the number of images to show.

    Raises:
        UnreadableInput: an option is missing, or needs other data.
    """
    from hsfiq.sessions.play import chooser_of
    from hsfiq.sessions.simulators import SimulatedUser, attribute_distance

    is_drawn = data == retrieve.DRAWN
    if name in ("drawn-full", "drawn-brief") and not is_drawn:
        raise UnreadableInput(
            "--simulator", f"{name} supports only drawn garments", "use it with --data drawn"
        )
    chooser, least_shown = chooser_of(choose, attribute_distance if is_drawn else None)
    return SimulatedUser(simulator_of(name, options, images), chooser, choose), least_shown


def simulator_of(name: SimulatorName, options: SimulatorOptions, images: Path | None) -> Simulator:
    from hsfiq.sessions.simulators import (
        CaptionerSimulator,
        DrawnSimulator,
        SameText,
        load_captioner,
    )

    if name == "same-text":
        return SameText()
    if name == "captioner":
        if options.captioner is None:
            raise UnreadableInput("--captioner", "is missing", "name MODULE:NAME")
        captioner = load_captioner(options.captioner)
        return CaptionerSimulator(captioner, options.captioner, image_folder(images))
    if name == "llm":
        return language_model(options, image_folder(images))
    return DrawnSimulator("full" if name == "drawn-full" else "brief")


def language_model(options: SimulatorOptions, images: ImageFolder) -> Simulator:
    with common.requires("llm"):
        from hsfiq.sessions.language_model import Endpoint
    from hsfiq.sessions.language_model import LanguageModel, read_prompt

    url = options.endpoint or os.environ.get("OPENAI_BASE_URL")
    if not url:
        raise UnreadableInput("--endpoint", "is missing", "such as http://127.0.0.1:8000/v1")
    if options.model is None:
        raise UnreadableInput("--model", "is missing", "name a model of the endpoint")
    answers = options.answers or Path.home() / ".cache" / "hsfiq" / "answers"
    return LanguageModel(
        Endpoint(url, os.environ.get("OPENAI_API_KEY"), answers),
        read_prompt(options.prompt),
        images,
        options.model,
        options.describing_model,
        options.parallel,
    )


def image_folder(folder: Path | None) -> ImageFolder:
    from hsfiq.images.folder import ImageFolder

    if folder is None:
        raise UnreadableInput("--images", "is missing", "name the folder of the images")
    return ImageFolder(common.existing_folder(folder))


# `hsfiq sessions play`: searches over several rounds with a simulated user.

DEFAULT_ROUNDS = 5


@app.command(
    epilog="Example: hsfiq sessions play --system runs/sprc --data drawn "
    "--simulator drawn-full --out sprc.jsonl"
)
def play(
    sources: SourceOptions,
    simulators: SimulatorOptions,
    system: Annotated[
        str, typer.Option(metavar="DIR|URL", help="A checkpoint, or a live retriever's address.")
    ],
    simulator: Annotated[
        SimulatorName, typer.Option(help="The simulated user that writes the texts.")
    ],
    out: Annotated[
        Path,
        typer.Option(metavar="FILE", help="The sessions as JSONL; repeat the command to resume."),
    ],
    data: Annotated[
        str | None,
        typer.Option(
            metavar="DIR|drawn",
            help="A dataset's folder, or the catalogue; not needed for a script with a system at "
            "a URL.",
        ),
    ] = None,
    rounds: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="The most rounds; by default 5, or the script's."),
    ] = None,
    history: Annotated[
        Literal["mean", "last", "rocchio"],
        typer.Option(help="How the queries of all rounds are combined."),
    ] = "mean",
    choose: Annotated[
        str,
        typer.Option(
            metavar="top1|unseen|nearest|random-K",
            help="The image that the next text refers to: the first, the first without a text so "
            "far, the most similar to the target (drawn), or one of the first K.",
        ),
    ] = "top1",
    stop_at: Annotated[
        int | None,
        typer.Option(
            metavar="K",
            min=1,
            help="End a session when the target is among the first K; else sessions continue.",
        ),
    ] = None,
    k: Annotated[
        int, typer.Option("--k", metavar="N", min=1, help="The number of images shown.")
    ] = 10,
    seed: Annotated[
        int, typer.Option(min=0, help="The seed of the simulator and of the choice of images.")
    ] = 0,
    as_json: common.JsonOption = False,
) -> None:
    """Simulate users who search over several rounds.

    A system ranks images, and the simulated user corrects the result. The defaults are those of
    FISD: the mean of all queries, the first image as candidate, 5 rounds, no early stop.
    """
    if out.exists():
        raise UnreadableInput(str(out), "exists already", "name another file with --out")
    common.existing_folder(out.parent)
    with common.requires("live"):
        from hsfiq.sessions.play import Settings, play_parts, summary
        from hsfiq.sessions.scripts import ScriptedUser

    script = read_script(simulator, simulators.script)
    with ExitStack() as stack:
        played = sources_of(system, data, sources, script, stack)
        user, least_shown = (
            (ScriptedUser(script), 1)
            if script is not None
            else user_of(simulator, choose, simulators, played.images, data or "")
        )
        settings = Settings(
            history=history,
            rounds=rounds or (None if script else DEFAULT_ROUNDS),
            k=min([max(k, least_shown), *(p.ranker.system().max_k for p in played.parts)]),
            stop_at=stop_at,
            seed=seed,
        )
        sessions = play_parts(played.parts, user, settings, out, common.progress("playing"))
    result = {"sessions": str(out), **summary(sessions)}
    if costs := user.costs():
        result["costs"] = costs
    common.print_result(result, as_text(result), as_json=as_json)


def as_text(result: dict[str, Any]) -> str:
    stops = ", ".join(f"{reason} {n:,}" for reason, n in result["stops"].items())
    chooser = f", {result['chooser']}" if result["chooser"] else ""
    sessions = count_text(result["n_sessions"], "session")
    sizes = f"{sessions} of {result['system']}, {count_text(result['n_rounds'], 'round')}"
    lines = [
        f"{result['sessions']}: {sizes}; ends: {stops}",
        f"simulator {result['simulator']}, history {result['history']}{chooser}",
    ]
    if "costs" in result:
        costs = ", ".join(f"{name.replace('_', ' ')} {n:,}" for name, n in result["costs"].items())
        lines.append(f"endpoint: {costs}")
    return "\n".join([*lines, f"measure them with: hsfiq sessions measure {result['sessions']}"])


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
        typer.Option(help="After a session's end: keep its last list, or leave the session out."),
    ] = "carry",
    ties: Annotated[
        Literal["corpus", "expected"],
        typer.Option(help="Ranks of ties: in the corpus' order, or the expected rank."),
    ] = "corpus",
    preset: Annotated[
        Literal["fisd"] | None,
        typer.Option(
            help="FISD's K and rounds; notes list differences of the sessions from FISD's protocol."
        ),
    ] = None,
    by_category: Annotated[
        bool, typer.Option("--by-category", help="Measure each category separately.")
    ] = False,
    resamples: Annotated[
        int,
        typer.Option(
            min=1, max=common.MOST_RESAMPLES, help="The number of resamples for the intervals."
        ),
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
    as_json: common.JsonOption = False,
) -> None:
    """Print hits, recall and ranks by round, and rounds to success.

    Repeated images and words are counted, too. With several systems, differences from the first
    system on the same queries are printed; with --people, simulated sessions are compared with
    those of people.
    """
    with common.requires("analysis"):
        from hsfiq.analysis.reports.sessions import session_text
        from hsfiq.analysis.sessions.measure import measure_rows
        from hsfiq.analysis.sessions.ranks import FISD, Rules
    from hsfiq.atomic_files import require_free, write_report
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
        with common.requires("analysis"):
            from hsfiq.analysis.reports.sessions import session_report
        write_report(session_report(result, compared), report, force=force)
        common.note(f"{report / 'report.html'}: written")
    as_object = result.to_json() | ({} if compared is None else {"people": compared.to_json()})
    common.print_result(as_object, session_text(result, compared), as_json=as_json)


def comparison(
    people: Path, simulated: Sequence[Session], ks: Sequence[int], resamples: int, seed: int
) -> PeopleAndSimulators:
    """The simulated sessions compared with the sessions of a release's participants."""
    from hsfiq.analysis.sessions.people import compare_rows
    from hsfiq.analysis.sessions.ranks import Rules
    from hsfiq.kinds.search import RECORDS_FILE
    from hsfiq.sessions import record
    from hsfiq.sessions.tables import sides_of

    file = people / RECORDS_FILE if people.is_dir() else people
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
