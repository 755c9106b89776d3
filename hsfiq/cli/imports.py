"""`hsfiq import`: import outside data into the database, each time in one transaction."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hsfiq.actors import Action
from hsfiq.cli import common
from hsfiq.errors import NothingToDo, UnreadableInput
from hsfiq.text import count_text

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from hsfiq.importing import Imported
    from hsfiq.records import Source

app = common.Commands(
    help="Import datasets, systems' runs and published answers into the database.",
    no_args_is_help=True,
)

ImagesOption = Annotated[
    str | None,
    typer.Option(
        "--images",
        metavar="DIR|URL",
        help="The image folder, or the address of a store; images may be missing.",
    ),
]
SplitOption = Annotated[
    list[str] | None,
    typer.Option("--split", metavar="NAME", help="Only this split."),
]


@app.command(epilog="Example: hsfiq import hpfiq hpfiq.json")
def hpfiq(
    call: common.JsonCall,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A file of the published HP-FashionIQ layout.")
    ],
    study: Annotated[str, typer.Option(metavar="NAME", help="The study's name.")] = "hpfiq",
) -> None:
    """Import the published HP-FashionIQ answers as a finished study."""
    from hsfiq.importing import import_published
    from hsfiq.readers import hpfiq as reader
    from hsfiq.study.config import require_study_name
    from hsfiq.study.images import check_and_record

    require_study_name(study)
    published = reader.read(file)
    into = call.open(create=True)
    with into.writing() as session:
        done = import_published(session, study, published, common.progress("questions"))
        common.record_command(session, Action.DATA_IMPORT, study=study)
    check_and_record(into, study, common.progress("images"))
    report({f"study {study}": done}, ("question", "questions"), as_json=call.as_json)


@app.command(epilog="Example: hsfiq import release releases/my-study-hp-1.0.0")
def release(
    call: common.JsonCall,
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="A release folder, made by hsfiq export.")
    ],
    study: Annotated[
        str | None, typer.Option(metavar="NAME", help="The study's name; by default its own.")
    ] = None,
) -> None:
    """Import a release as a finished study.

    The release is verified first. A later export of the study gives the same release.
    """
    from hsfiq.importing import Imported
    from hsfiq.releases.folder import has_packed_images
    from hsfiq.releases.import_release import open_valid, restore
    from hsfiq.study.config import require_study_name
    from hsfiq.study.images import check_and_record

    if study is not None:
        require_study_name(study)
    opened = open_valid(folder)
    into = call.open(create=True)
    with into.writing() as session:
        done = restore(session, opened, study)
        common.record_command(session, Action.DATA_IMPORT, study=done.study)
    check_and_record(into, done.study, common.progress("images"))
    counts = Imported(done.n_questions, 0) if done.is_new else Imported(0, done.n_questions)
    report({f"study {done.study}": counts}, ("question", "questions"), as_json=call.as_json)
    if has_packed_images(folder):
        common.note(
            "note: the packed images were not imported; hsfiq export --with-images packs the "
            "images in the datasets' folders"
        )


@app.command(epilog="Example: hsfiq import fashioniq fashion-iq --category shirt --split val")
def fashioniq(
    call: common.JsonCall,
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="Holds captions/ and image_splits/.")
    ],
    category: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only this category.")
    ] = None,
    split: SplitOption = None,
    images: ImagesOption = None,
) -> None:
    """Import FashionIQ's triplets and split files.

    Images may be missing.
    """
    from hsfiq.readers.datasets import read_fashioniq

    sources = read_fashioniq(common.existing_folder(folder), category or (), split or ())
    placed = [("fashioniq", source) for source in sources]
    import_sources(call, placed, folder, images)


@app.command(epilog="Example: hsfiq import cirr cirr_dataset --split val")
def cirr(
    call: common.JsonCall,
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="Holds captions/ and image_splits/, or cirr/.")
    ],
    split: SplitOption = None,
    images: ImagesOption = None,
) -> None:
    """Import CIRR's triplets and split files.

    Images may be missing.
    """
    from hsfiq.readers.datasets import read_cirr

    sources = read_cirr(common.existing_folder(folder), split or ())
    placed = [("cirr", source) for source in sources]
    import_sources(call, placed, folder, images)


@app.command(epilog="Example: hsfiq import queries queries.csv --images photos --dataset shop")
def queries(
    call: common.JsonCall,
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="CSV, .xlsx, JSONL or Parquet: query_id, text, reference, target, category, "
            "split, captions; not all are needed.",
        ),
    ],
    images: Annotated[
        str,
        typer.Option(
            metavar="DIR|URL",
            help="The image folder, or a store: s3://, gs://, az://, hf://datasets/ or https://; "
            "images may be in subfolders.",
        ),
    ],
    dataset: Annotated[str, typer.Option(metavar="NAME", help="The dataset's name.")],
    column: Annotated[
        list[str] | None,
        typer.Option(
            metavar="OURS=THEIRS",
            help="Maps a column to its name in the file, such as text=wish; only mapped columns "
            "are read, and rows without ids are numbered.",
        ),
    ] = None,
) -> None:
    """Import your own queries of texts, images, or both."""
    from hsfiq.images.folder import OwnImages
    from hsfiq.importing import dataset_named, ids_of_images, import_queries, require_own_name
    from hsfiq.readers import own_queries as reader

    require_own_name(dataset)
    opened_root = common.opened_images(images)
    image_id = ids_of_images(OwnImages(opened_root))
    rows = reader.read(file, image_id, reader.named_columns(column or []))
    has_errors = any(isinstance(row, reader.WrongRow) for row in rows)
    try:
        opened = call.open(create=not has_errors)
    except NothingToDo:
        reader.require_sound(rows)
        raise
    with opened.writing() as session:
        own = dataset_named(session, dataset, opened_root.root)
        done = import_queries(session, own, rows)
        common.record_command(session, Action.DATA_IMPORT, about=f"queries of dataset {dataset}")
    report({f"dataset {dataset}": done}, ("query", "queries"), as_json=call.as_json)


@app.command(epilog="Example: hsfiq import circo CIRCO --split val")
def circo(
    call: common.JsonCall,
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="Holds val.json or test.json, or annotations/.")
    ],
    split: SplitOption = None,
    images: ImagesOption = None,
) -> None:
    """Import CIRCO's queries; images may be missing.

    The splits are the datasets `circo` (val) and `circo-test`, since both number queries from 0.
    """
    from hsfiq.importing import CIRCO_DATASETS
    from hsfiq.readers.datasets import circo_splits, read_circo

    names = split or circo_splits(common.existing_folder(folder))
    for name in names:
        if name not in CIRCO_DATASETS:
            raise UnreadableInput(
                "--split", f"{name!r} is not a split of CIRCO", "name val or test"
            )
    if not names:
        raise UnreadableInput(
            str(folder), "has neither val.json nor test.json", "name CIRCO's folder"
        )
    sources = [read_circo(folder, name) for name in names]
    placed = [(CIRCO_DATASETS[source.corpus], source) for source in sources]
    import_sources(call, placed, folder, images)


@app.command(epilog="Example: hsfiq import runs sprc.json --system SPRC")
def runs(
    call: common.JsonCall,
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="CSV or .xlsx (query_id, system, rank, image_id), JSONL (query_id, images, "
            "scores, system), TREC run, or {query id: [image ids]}.",
        ),
    ],
    system: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The system's name, if it is not in the file."),
    ] = None,
    dataset: Annotated[
        str | None, typer.Option(metavar="NAME", help="Needed if the database holds several.")
    ] = None,
) -> None:
    """Import systems' ranked lists for imported queries."""
    from hsfiq.importing import existing_dataset, import_runs
    from hsfiq.readers import runs as reader

    lists = reader.read(file, system)
    with call.writing() as session:
        chosen = existing_dataset(session, dataset or own_dataset(session))
        done = import_runs(session, chosen, lists)
        name = chosen.name
        common.record_command(session, Action.DATA_IMPORT, about=f"ranked lists of dataset {name}")
    report({f"dataset {name}": done}, ("ranked list", "ranked lists"), as_json=call.as_json)


def own_dataset(session: Session) -> str | None:
    """The project's dataset, where there are several."""
    from hsfiq.db.source_tables import Dataset

    project = common.current_project()
    if project is None or session.query(Dataset).count() < 2:
        return None
    _, dataset = project.names()
    return dataset


def import_sources(
    call: common.JsonCall, sources: list[tuple[str, Source]], folder: Path, images: str | None
) -> None:
    """Import each source into the dataset of its name."""
    from hsfiq.images.folder import ImageFolder, usual_folder
    from hsfiq.importing import dataset_named, import_source

    usual = None if images else usual_folder(folder)
    files = common.opened_images(images) if images else ImageFolder(usual) if usual else None
    root = files.root if files else None
    with call.open(create=True).writing() as session:
        done = {
            source.corpus: import_source(session, dataset_named(session, name, root), source)
            for name, source in common.progress("captions files")(sources)
        }
        datasets = ", ".join(dict.fromkeys(name for name, _ in sources))
        common.record_command(session, Action.DATA_IMPORT, about=f"triplets of dataset {datasets}")
    report(done, ("triplet", "triplets"), as_json=call.as_json)
    names = {name for _, source in sources for name in source.all_images()}
    missing = sum(files is None or files.find(name) is None for name in names)
    if missing:
        place = f" below {root}" if root else ", and the image folder is unknown (--images DIR)"
        are = "is" if missing == 1 else "are"
        images_in_all = count_text(len(names), "image")
        common.note(f"{missing:,} of {images_in_all} {are} missing{place}")


def report(done: dict[str, Imported], units: tuple[str, str], *, as_json: bool) -> None:
    """Print the counts; `units` name what was imported, one and several."""
    lines = []
    for name, counts in done.items():
        if counts.replaced:
            lines.append(
                f"{name}: {count_text(counts.replaced, *units)} replaced, {counts.added:,} added, "
                f"{counts.already:,} existed"
            )
        elif counts.added:
            existed = f", {counts.already:,} existed" if counts.already else ""
            lines.append(f"{name}: {count_text(counts.added, *units)} added{existed}")
        else:
            existed = count_text(counts.already, *units)
            whole = "" if counts.already == 1 else "all "
            lines.append(f"{name}: unchanged, {whole}{existed} existed")
    result = {name: asdict(counts) for name, counts in done.items()}
    common.print_result(result, "\n".join(lines), as_json=as_json)
