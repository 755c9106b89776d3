"""`hsfiq release merge`: the releases of several groups as one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hsfiq.cli.common import JsonOption, print_result


def register(app: typer.Typer) -> None:
    app.command(epilog="Example: hsfiq release merge ours theirs --out both --name both")(merge)


def merge(
    folders: Annotated[
        list[Path], typer.Argument(metavar="A B...", help="Release folders of one kind.")
    ],
    out: Annotated[Path, typer.Option(metavar="DIR", help="The new release folder.")],
    name: Annotated[str, typer.Option(metavar="NAME", help="The study's name.")] = "merged",
    title: Annotated[
        str, typer.Option(metavar="TEXT", help="The study's title; by default that of A.")
    ] = "",
    seed: Annotated[int, typer.Option(min=0, help="Of the new pseudonyms.")] = 0,
    version: Annotated[str, typer.Option(metavar="X.Y.Z", help="Of the release.")] = "1.0.0",
    as_json: JsonOption = False,
) -> None:
    """Merge releases of one kind with the same scale, wording and filters.

    Participants stay apart and get new pseudonyms. Queries that share an id but differ get new ids,
    and so do live systems.
    """
    from hsfiq.cli.export import as_result, describe
    from hsfiq.errors import UnreadableInput
    from hsfiq.releases.export import full_version
    from hsfiq.releases.folder import has_packed_images
    from hsfiq.releases.merge import merge_releases
    from hsfiq.study.config import require_study_name

    if len(folders) < 2:
        raise UnreadableInput("A B...", "is one release", "name two or more")
    require_study_name(name)
    full = full_version(version)
    outcome = merge_releases(folders, out, name=name, title=title, seed=seed, version=full)
    print_result(as_result(outcome), describe(outcome), as_json=as_json)
    if any(map(has_packed_images, folders)):
        typer.echo("note: the packed images are not in the merged release", err=True)
