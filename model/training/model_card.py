"""README.md beside a scorer's checkpoint; the parts that every trained checkpoint's card has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from hsfiq.model.checkpoints.checkpoint import Checkpoint
from hsfiq.model.checkpoints.lineage import trained_on
from hsfiq.model.checkpoints.model_card import write_card
from hsfiq.model.recipes.base import RecipeBase
from hsfiq.model.recipes.recipe import Recipe, recipe
from hsfiq.model.recipes.values import shown

DATA: Final = {"fashioniq": "FashionIQ", "cirr": "CIRR", "drawn": "the drawn catalogue"}

DRAWN = (
    "Its images are drawn garments and its texts are written from their attributes. The figures "
    "say nothing about photographs, about the published system, or about what people prefer."
)
NO_JUDGEMENTS = (
    "It was trained on triplets alone: no human judgement, and no simulated one, was used."
)
SELECTED = (
    "Those of the epoch with the best mean recall on these validation triplets, so they are a "
    "little too good. They have no intervals; `hsfiq evaluate --intervals` gives some."
)
SOURCES: Final = {"cirqrs": "CIRQRS trains its scorer", "qure": "QuRe trains its retriever"}
"""By the first part of a recipe's name."""


def write_scorer_card(checkpoint: Checkpoint) -> None:
    """Write README.md into the folder of a scorer that was trained on triplets."""
    about = checkpoint.about
    trained = Recipe.from_json(about["recipe"], str(checkpoint.path))
    what = (
        "It scores how relevant an image is to a reference image and a text. Encoder "
        f"`{trained.encoder}`, trained as {SOURCES[trained.name.split('-')[0]]}."
    )
    write_card(
        checkpoint.path.parent,
        f"A scorer trained on {DATA[trained.dataset]} by `{trained.name}`",
        [what, *([DRAWN] if trained.dataset == "drawn" else []), *judgements(checkpoint)],
        {
            **data_and_figures(
                about, about["data"]["n_train"], "training targets scored above their negative"
            ),
            "Recipe": recipe_lines(recipe(trained.name), trained, ("strategy", "n_def", "n_neg")),
            "Provenance": provenance_lines(checkpoint),
            "Use": ["```bash", "hsfiq score RELEASE --scorer FOLDER", "```"],
        },
        tags=("relevance-score", trained.dataset),
    )


def judgements(checkpoint: Checkpoint) -> Iterator[str]:
    """Whose judgements the scorer may have learned from, also before this training."""
    earlier = [f"{release['name']} {release['version']}" for release in trained_on(checkpoint)]
    if not earlier:
        yield NO_JUDGEMENTS
        return
    yield (
        "It was trained on triplets alone, but started from a scorer that was trained on the "
        f"answers of {', '.join(earlier)}."
    )


def data_and_figures(
    about: Mapping[str, Any], n_used: int, accuracy: str
) -> dict[str, Iterable[str]]:
    """The data, of which `n_used` triplets trained, and the best epoch's figures.

    `accuracy` says what the training's accuracy counts.
    """
    data, best = about["data"], about["progress"]["epochs"][-1]
    figures = {key: value for key, value in best["val"].items() if key != "mean"}
    figures["training loss"] = best["loss"]
    figures[accuracy] = best["accuracy"]
    return {
        "Data": [
            f"- {DATA[data['name']]}: {n_used:,} of {data['n_train']:,} training triplets",
            f"- validated on {data['n_val']:,} triplets",
            f"- content: sha256 `{data['sha256']}`",
        ],
        "Figures": [
            SELECTED,
            "",
            f"| epoch {best['epoch']}, counted from 0 | value |",
            "|---|---|",
            *(f"| {name} | {value:.4f} |" for name, value in figures.items()),
        ],
    }


def recipe_lines(
    published: RecipeBase, trained: RecipeBase, variants: Iterable[str]
) -> Iterator[str]:
    """The values of the variants, and what else differs from the published recipe."""
    yield f"`{trained.name}`; PAPERS.md of hsfiq says where each value comes from."
    yield ""
    for key in variants:
        yield f"- variant `{key}`: {shown(getattr(trained, key))}"
    for key, (stated, here) in published.changes(trained).items():
        if key not in variants:
            yield f"- `{key}`: {here} instead of {stated}"


def provenance_lines(checkpoint: Checkpoint) -> Iterator[str]:
    about = checkpoint.about
    yield f"- weights: sha256 `{checkpoint.sha256}`"
    yield f"- frozen image encoder: sha256 `{about['encoder']['frozen_sha256']}`"
    if about.get("init_sha256"):
        yield f"- started from: sha256 `{about['init_sha256']}`"
