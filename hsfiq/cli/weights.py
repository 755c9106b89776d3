"""`hsfiq weights`: BLIP-2's weights between the layouts of LAVIS and transformers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hsfiq.cli.common import JsonOption, print_result, requires
from hsfiq.errors import UnreadableInput

if TYPE_CHECKING:
    from hsfiq.model.checkpoints.checkpoint import Checkpoint

app = typer.Typer(no_args_is_help=True)


@app.callback()
def weights() -> None:
    """BLIP-2's weights between LAVIS' layout and transformers'."""


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
        from hsfiq.model.encoders.hf import convert_checkpoint, convert_weights
        from hsfiq.model.encoders.lavis.encoder import architecture_named
    if not source.exists():
        raise UnreadableInput(str(source), "there is no such file or folder")
    if source.is_file() or any((source / name).is_file() for name in ("best.json", "last.json")):
        result = converted(convert_checkpoint.convert(source, out))
    elif (source / "config.json").is_file():
        architecture = convert_weights.hf_to_lavis(source, out)
        result = {"from": "transformers", "to": "LAVIS", "model": architecture.name}
    else:
        convert_weights.lavis_to_hf(architecture_named(model), source, out)
        result = {"from": "LAVIS", "to": "transformers", "model": model}
    text = (
        f"{out}: {result['model']}, from the layout of {result['from']} to that of {result['to']}"
    )
    print_result({"out": str(out), **result}, text, as_json=as_json)


def converted(checkpoint: Checkpoint) -> dict[str, Any]:
    encoder = checkpoint.about["encoder"]["name"]
    to_hf = encoder == "blip2-hf"
    return {
        "from": "LAVIS" if to_hf else "transformers",
        "to": "transformers" if to_hf else "LAVIS",
        "model": f"a scorer with {encoder}",
        "sha256": checkpoint.sha256,
    }
