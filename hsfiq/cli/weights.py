"""`hsfiq weights`: BLIP-2's weights between the layouts of LAVIS and transformers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from hsfiq.cli.common import JsonOption, print_result, room
from hsfiq.errors import UnreadableInput

app = typer.Typer(
    help="BLIP-2's weights between LAVIS' layout and transformers'.", no_args_is_help=True
)


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
    out: Annotated[Path, typer.Option(metavar="DIR", help="The folder to be made.")],
    model: Annotated[
        str, typer.Option(metavar="NAME", help="Of LAVIS' files: blip2-vitg or blip2-coco.")
    ] = "blip2-vitg",
    as_json: JsonOption = False,
) -> None:
    """Convert to the other layout: the same numbers, whole or not at all."""
    room("torch", "model")
    if not source.exists():
        raise UnreadableInput(str(source), "there is no such file or folder")
    if source.is_file() or any((source / name).is_file() for name in ("best.json", "last.json")):
        result = converted_run(source, out)
    elif (source / "config.json").is_file():
        from hsfiq.model.encoders.hf.files import hf_to_lavis

        result = {"from": "transformers", "to": "LAVIS", "model": hf_to_lavis(source, out).name}
    else:
        from hsfiq.model.encoders.blip2 import find
        from hsfiq.model.encoders.hf.files import lavis_to_hf

        lavis_to_hf(find(model), source, out)
        result = {"from": "LAVIS", "to": "transformers", "model": model}
    text = (
        f"{out}: {result['model']}, from the layout of {result['from']} to that of {result['to']}"
    )
    print_result({"out": str(out), **result}, text, as_json=as_json)


def converted_run(source: Path, out: Path) -> dict[str, Any]:
    """Convert a trained scorer's checkpoint."""
    from hsfiq.model.encoders.hf.checkpoints import convert

    checkpoint = convert(source, out)
    encoder = checkpoint.about["encoder"]["name"]
    to_hf = encoder == "blip2-hf"
    return {
        "from": "LAVIS" if to_hf else "transformers",
        "to": "transformers" if to_hf else "LAVIS",
        "model": f"a scorer with {encoder}",
        "sha256": checkpoint.sha256,
    }
