"""`hsfiq study next`: a study of the pairs whose answers are most informative."""

from __future__ import annotations

from pathlib import Path
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
    progress,
    requires,
    warn,
)
from hsfiq.cli.option_groups import with_option_groups
from hsfiq.cli.scorer_options import ScorerOptions, images_option
from hsfiq.errors import UnreadableInput
from hsfiq.text import count_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hsfiq.model.active import Uncertainty
    from hsfiq.next_study import Candidates
    from hsfiq.study.config import Design

STRATEGIES = ("information", "random")


def register(app: typer.Typer) -> None:
    app.command("next", epilog="Example: hsfiq study next --scorer retrained --n 500")(
        with_option_groups(next_)
    )


def next_(
    ctx: typer.Context,
    n: Annotated[int, typer.Option("--n", metavar="N", help="Pairs to choose.", min=1)],
    config: Annotated[
        Path | None,
        typer.Argument(metavar="CONFIG.toml", help="The new study's file; else as --study is."),
    ] = None,
    scorer: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="CKPT",
            help="A run's folder, or its last.json. Several form an ensemble; the uncertainty of "
            "one is estimated by dropout.",
        ),
    ] = None,
    strategy: Annotated[
        str, typer.Option(metavar="|".join(STRATEGIES), help="How pairs are chosen.")
    ] = "information",
    name: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The new study's; else the old one's with a number."),
    ] = None,
    release: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Exclude the triplets that this release holds out."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Of all random choices.", min=0)] = 0,
    draft: Annotated[bool, typer.Option("--draft", help="Do not open it yet.")] = False,
    simulated: Annotated[
        bool,
        typer.Option("--simulated", help="With CONFIG.toml: for `hsfiq simulate`, not for people."),
    ] = False,
    images: Annotated[Path | None, images_option("where the database has them")] = None,
    *,
    options: ScorerOptions,
    study: StudyOption = None,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make a study of the pairs whose answers are most informative about a scorer.

    Categories and pairs of systems are balanced; each triplet occurs once at most, and no pair that
    was asked before.
    """
    if strategy not in STRATEGIES:
        raise UnreadableInput(
            "--strategy", f"{strategy!r} is unknown", f"name one of {', '.join(STRATEGIES)}"
        )
    if not scorer and strategy == "information":
        raise UnreadableInput("--scorer", "is missing", "name one, or use --strategy random")
    if name is not None:
        from hsfiq.study.config import require_study_name

        require_study_name(name, "--name")
    if config is not None and study is not None:
        raise UnreadableInput("--study", "cannot be used with CONFIG.toml", "leave one out")
    if config is None and simulated:
        raise UnreadableInput(
            "--simulated",
            "can only be used with CONFIG.toml",
            "leave it out: the old study decides",
        )
    from hsfiq.actors import command_line
    from hsfiq.model.active import choose_pairs, require_enough
    from hsfiq.next_study import NOTHING, after, from_file, held_out_of, possibilities, store_study

    held_out = held_out_of(existing_folder(release)) if release else NOTHING
    opened = open_chosen(ctx, database, create=False)
    with opened.reading() as session:
        if config is None:
            wanted = after(session, chosen_study(session, study), name)
        else:
            wanted = from_file(config, name, "simulated" if simulated else "collected")
        possible = possibilities(session, wanted, held_out)
    candidates = possible.candidates
    require_enough(candidates, n, seed)
    uncertainty = None
    if scorer:
        root = images or possible.images
        uncertainty = uncertainty_of(scorer, candidates, wanted.config.design, seed, root, options)
    choice = choose_pairs(candidates, uncertainty, n, strategy, seed)
    status = "draft" if draft else "open"
    stored, shown = store_study(
        opened,
        wanted,
        choice.pairs,
        choice.sets,
        choice.about,
        actor=command_line(),
        status=status,
        track=progress("images"),
    )
    warnings = shown.warnings()
    warn(warnings)
    result = stored.facts() | choice.to_json(candidates) | {"warnings": warnings}
    print_result(result, as_text(result), as_json=as_json)


def uncertainty_of(
    checkpoints: Sequence[Path],
    candidates: Candidates,
    design: Design,
    seed: int,
    images: Path | None,
    options: ScorerOptions,
) -> Uncertainty:
    with requires("model"):
        from hsfiq.cli.training_bar import TrainingBar
        from hsfiq.model.active import ExpectedAnswers, uncertainty
        from hsfiq.model.runtime import device_of
    paths, device = options.paths(None, images), device_of(options.device)
    expected = ExpectedAnswers.of(design)
    with TrainingBar(lambda line: typer.echo(line, err=True)) as bar:
        return uncertainty(checkpoints, paths, candidates, expected, seed, device, bar)


def as_text(result: dict[str, Any]) -> str:
    lines = [
        (
            f"study {result['study']}: {count_text(result['questions'], 'question')} about "
            f"{result['pairs']:,} of {result['candidates']:,} possible pairs, in "
            f"{count_text(result['forms'], 'form')}; it is {result['status']}"
        ),
        f"categories: {counted(result['categories'])}",
        f"systems: {counted(result['systems'])}",
    ]
    if result["expected_information"] is not None:
        lines.append(
            f"expected information of one answer each: {result['expected_information']:.3g} nats, "
            f"of as many random pairs {result['expected_information_of_random']:.3g} "
            f"({result['uncertainty']['uncertainty']}; {result['uncertainty']['answer_model']})"
        )
    if result["asked_before"] or result["held_out_triplets"]:
        lines.append(
            f"excluded: {count_text(result['asked_before'], 'pair')} asked before, "
            f"{count_text(result['held_out_triplets'], 'held-out triplet')}"
        )
    if result["missing_images"]:
        lines.append(
            f"pairs with {count_text(len(result['missing_images']), 'missing image')} are excluded"
        )
    return "\n".join(lines)


def counted(counts: dict[str, int]) -> str:
    """`dress 20, shirt 20`."""
    return ", ".join(f"{name} {number:,}" for name, number in counts.items())
