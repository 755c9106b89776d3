"""`hsfiq weights`: published weights into this project's layouts, and between libraries."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from hsfiq.cli.common import JsonOption, print_result, requires
from hsfiq.errors import UnreadableInput

if TYPE_CHECKING:
    from hsfiq.model.checkpoints import Checkpoint

app = typer.Typer(no_args_is_help=True)


@app.callback()
def weights() -> None:
    """Published weights: BLIP-2's between two layouts, and the retrieval systems'."""


@app.command(epilog="Example: hsfiq weights convert lavis-files --out blip2-itm-vit-g")
def convert(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="SOURCE",
            help="LAVIS' files, a folder of transformers', or a run of either's encoder.",
        ),
    ],
    out: Annotated[Path, typer.Option(metavar="DIR", help="The new folder.")],
    model: Annotated[
        str, typer.Option(metavar="NAME", help="Of LAVIS' files: blip2-vitg or blip2-coco.")
    ] = "blip2-vitg",
    as_json: JsonOption = False,
) -> None:
    """Convert to the other layout: the same numbers, completely or not at all."""
    with requires("model"):
        from hsfiq.model.encoders import hf_conversion
        from hsfiq.model.encoders.lavis import architecture_named
    if not source.exists():
        raise UnreadableInput(str(source), "there is no such file or folder")
    if source.is_file() or any((source / name).is_file() for name in ("best.json", "last.json")):
        result = converted(hf_conversion.convert(source, out))
    elif (source / "config.json").is_file():
        architecture = hf_conversion.hf_to_lavis(source, out)
        result = {"from": "transformers", "to": "LAVIS", "model": architecture.name}
    else:
        hf_conversion.lavis_to_hf(architecture_named(model), source, out)
        result = {"from": "LAVIS", "to": "transformers", "model": model}
    text = (
        f"{out}: {result['model']}, from the layout of {result['from']} to that of {result['to']}"
    )
    print_result({"out": str(out), **result}, text, as_json=as_json)


@app.command(
    "import",
    epilog="Example: hsfiq weights import tuned_clip_best.pt combiner.pt --dataset fashioniq "
    "--out runs/clip4cir",
)
def import_(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="The published files of one system."),
    ],
    out: Annotated[Path, typer.Option(metavar="DIR", help="The new folder.")],
    dataset: Annotated[
        Literal["fashioniq", "cirr"] | None,
        typer.Option(
            help="What they were trained on. Not needed for files known by their SHA-1.",
        ),
    ] = None,
    weights_folder: Annotated[
        Path | None,
        typer.Option(
            "--weights",
            metavar="DIR",
            help="The folder with the tokenizer's file; for SPRC and QuRe, BLIP-2's; else "
            "$HSFIQ_WEIGHTS.",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Make a checkpoint of a retrieval system, or of QuRe's scorer, from its authors' files."""
    with requires("model"):
        from hsfiq.model.retrieval.import_weights import import_weights
    checkpoint = import_weights(files, out, dataset=dataset, weights=weights_folder)
    recipe = checkpoint.about["recipe"]
    kind, stage = recipe.get("system", "a scorer"), checkpoint.about.get("stage")
    sources = checkpoint.about["imported_from"]
    result = {
        "out": str(out),
        "system": recipe.get("system"),
        "recipe": recipe["name"],
        "stage": stage,
        "files": sources,
        "sha256": checkpoint.sha256,
    }
    lines = [f"{out}: {kind} for {recipe['dataset']}" + (f", stage {stage}" if stage else "")]
    for source in sources:
        known = source["known_as"] or f"unknown file, SHA-1 {source['sha1']}"
        lines.append(f"  {source['file']}: {known}")
    print_result(result, "\n".join(lines), as_json=as_json)


def converted(checkpoint: Checkpoint) -> dict[str, Any]:
    encoder = checkpoint.about["encoder"]["name"]
    to_hf = encoder == "blip2-hf"
    return {
        "from": "LAVIS" if to_hf else "transformers",
        "to": "transformers" if to_hf else "LAVIS",
        "model": f"a scorer with {encoder}",
        "sha256": checkpoint.sha256,
    }
