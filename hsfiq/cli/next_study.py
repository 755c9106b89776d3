"""`hsfiq study next`: a new study of the pairs whose answers would teach a scorer most."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hsfiq.cli.common import (
    DatabaseOption,
    JsonOption,
    StudyOption,
    chosen_study,
    existing_folder,
    open_chosen,
    print_result,
    room,
)
from hsfiq.cli.scorer_options import (
    CacheOption,
    DeviceOption,
    ScorerOptions,
    WeightsOption,
    images_option,
)
from hsfiq.errors import UnreadableInput

if TYPE_CHECKING:
    from hsfiq.active.candidates import Candidate, Candidates, PossibleSet
    from hsfiq.model.active.run import Uncertainty

STRATEGIES = ("information", "random")


def register(app: typer.Typer) -> None:
    """Add the command to those of `hsfiq study`."""
    app.command("next", epilog="Example: hsfiq study next --scorer retrained --n 500")(next_)


def next_(
    ctx: typer.Context,
    n: Annotated[int, typer.Option("--n", metavar="N", help="How many pairs to ask.", min=1)],
    config: Annotated[
        Path | None,
        typer.Argument(metavar="CONFIG.toml", help="The new study's file; else as --study is."),
    ] = None,
    scorer: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="CKPT",
            help="A run's folder, or its last.json; several are an ensemble, of one the "
            "uncertainty is found by dropout.",
        ),
    ] = None,
    strategy: Annotated[
        str, typer.Option(metavar="|".join(STRATEGIES), help="What makes a pair worth asking.")
    ] = "information",
    name: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The new study's; else the old one's with a number."),
    ] = None,
    release: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Leave alone the triplets that this release holds out."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Of all that is drawn.", min=0)] = 0,
    draft: Annotated[bool, typer.Option("--draft", help="Do not open it yet.")] = False,
    simulated: Annotated[
        bool,
        typer.Option("--simulated", help="With CONFIG.toml: for `hsfiq simulate`, not for people."),
    ] = False,
    images: Annotated[Path | None, images_option("where the database has them")] = None,
    weights: WeightsOption = None,
    cache: CacheOption = None,
    device: DeviceOption = None,
    study: StudyOption = None,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make a study of the pairs whose answers would teach a scorer most.

    As many of each category and of each two systems; no triplet twice, and no pair that was asked
    before.
    """
    if strategy not in STRATEGIES:
        raise UnreadableInput("--strategy", f"{strategy!r} is none of {', '.join(STRATEGIES)}")
    if not scorer and strategy == "information":
        raise UnreadableInput("--scorer", "is missing", "name one, or say --strategy random")
    if name is not None:
        from hsfiq.study.config import require_study_name

        require_study_name(name, "--name")
    if config is not None and study is not None:
        raise UnreadableInput("--study", "does not go with CONFIG.toml", "leave one out")
    if config is None and simulated:
        raise UnreadableInput("--simulated", "goes with CONFIG.toml", "the old study says it else")
    from hsfiq.active.candidates import NOTHING, held_out_of
    from hsfiq.active.next_study import after, from_file, possibilities, store_study
    from hsfiq.active.stratify import balanced

    held_out = held_out_of(existing_folder(release)) if release else NOTHING
    opened = open_chosen(ctx, database, create=False)
    with opened.reading() as session:
        if config is None:
            wanted = after(session, chosen_study(session, study), name)
        else:
            wanted = from_file(config, name, "simulated" if simulated else "collected")
        possible = possibilities(session, wanted, held_out)
    # Whether there are so many is said before hours of encoding.
    balanced(possible.found.pairs, n, min, drawing(seed))
    unsure = None
    if scorer:
        options = ScorerOptions(None, images or possible.images, weights, cache, device)
        unsure = uncertainty_of(scorer, possible.found, seed, options)
    choice = choose(possible.found, unsure, n, strategy, seed)
    status = "draft" if draft else "open"
    stored = store_study(opened, wanted, choice.pairs, choice.sets, choice.about, status=status)
    result = stored.facts() | choice.facts(possible.found)
    print_result(result, as_text(result), as_json=as_json)


@dataclass(frozen=True, slots=True)
class Choice:
    """The pairs that were chosen.

    Attributes:
        pairs: in the order in which they were chosen.
        sets: those that these name.
        about: how, for whoever reads the study's releases.
        expected: what their answers tell, in nats, and what those to as many random pairs would;
            None where no scorer was asked.
        missing: images for lack of which pairs could not be looked at.
        uncertainty: how it was found, where a scorer was asked.
    """

    pairs: tuple[Candidate, ...]
    sets: tuple[PossibleSet, ...]
    about: dict[str, Any]
    expected: tuple[float, float] | None
    missing: tuple[str, ...]
    uncertainty: Mapping[str, Any] | None = None

    def facts(self, found: Candidates) -> dict[str, Any]:
        """What was chosen, by category and by systems."""
        systems = Counter(found.systems[it] for pair in self.pairs for it in pair.systems)
        return {
            "chosen_by": self.about,
            "pairs": len(self.pairs),
            "candidates": len(found.pairs),
            "asked_before": found.n_asked,
            "held_out_triplets": found.n_held_out,
            "categories": dict(sorted(Counter(it.category for it in self.pairs).items())),
            "systems": dict(sorted(systems.items())),
            "expected_information": None if self.expected is None else self.expected[0],
            "expected_information_of_random": None if self.expected is None else self.expected[1],
            "uncertainty": self.uncertainty,
            "missing_images": list(self.missing),
        }


def uncertainty_of(
    checkpoints: Sequence[Path], found: Candidates, seed: int, options: ScorerOptions
) -> Uncertainty:
    """What the scorers are unsure about."""
    room("torch", "model")
    from hsfiq.cli.training_bar import TrainingBar
    from hsfiq.model.active.run import uncertainty
    from hsfiq.model.runtime.distributed import device_of

    paths, device = options.paths(), device_of(options.device)
    with TrainingBar(0, lambda line: typer.echo(line, err=True)) as bar:
        return uncertainty(checkpoints, paths, found, seed, device, bar)


def choose(
    found: Candidates, unsure: Uncertainty | None, n: int, strategy: str, seed: int
) -> Choice:
    """Choose the pairs, and say what the choice is worth."""
    from hsfiq.active.stratify import balanced

    about: dict[str, Any] = {"strategy": strategy, "seed": seed}
    rng = drawing(seed)
    if unsure is None:
        places = balanced(found.pairs, n, rng.choice, rng)
        return Choice(tuple(found.pairs[it] for it in places), found.sets, about, None, ())
    at_random = unsure.information()
    places = balanced(unsure.pairs, n, rng.choice, rng)
    for place in places:
        at_random.take(place)
    told = at_random
    if strategy == "information":
        about |= unsure.about
        told = unsure.information()
        places = balanced(unsure.pairs, n, told.take_best, drawing(seed))
    return Choice(
        pairs=tuple(unsure.pairs[it] for it in places),
        sets=unsure.sets,
        about=about,
        expected=(told.total, at_random.total),
        missing=unsure.missing,
        uncertainty=unsure.about,
    )


def drawing(seed: int) -> Random:
    """The generator of a choice."""
    return Random(f"next:{seed}")  # noqa: S311 (a seeded draw, not a secret)


def as_text(result: dict[str, Any]) -> str:
    """The new study for a person."""
    asked = (
        f"study {result['study']}: {result['questions']:,} questions about {result['pairs']:,} "
        f"pairs of {result['candidates']:,} that could be asked, in {result['forms']:,} forms; it "
        f"is {result['status']}"
    )
    lines = [
        asked,
        f"categories: {counted(result['categories'])}",
        f"systems: {counted(result['systems'])}",
    ]
    if result["expected_information"] is not None:
        lines.append(
            f"one answer each would tell {result['expected_information']:.3g} nats of the scorer, "
            f"to as many random pairs {result['expected_information_of_random']:.3g} "
            f"({result['uncertainty']['uncertainty']}; {result['uncertainty']['law']})"
        )
    if result["asked_before"] or result["held_out_triplets"]:
        lines.append(
            f"left alone: {result['asked_before']:,} pairs asked before, "
            f"{result['held_out_triplets']:,} triplets held out"
        )
    if result["missing_images"]:
        lines.append(f"{len(result['missing_images']):,} images are missing: pairs left out")
    return "\n".join(lines)


def counted(counts: dict[str, int]) -> str:
    """`dress 20, shirt 20`."""
    return ", ".join(f"{name} {number:,}" for name, number in counts.items())
