"""`hsfiq score`: a trained scorer's scores as a column of a release.

The files on this path, in order: `hsfiq/cli/score.py` parses the options, this module decides
whether to score and writes RELEASE.scores/, `model/scorer/loading.py` loads the scorer,
`model/image_tokens.py` computes the images' tokens, and `model/scorer/inference.py` scores images
and sets with `model/scorer/scorer.py`.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from glob import escape
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
import torch

from hsfiq import __version__
from hsfiq.atomic_files import indented_json, require_new, sha256_of, write_whole
from hsfiq.drawn import garment_of, pictures
from hsfiq.errors import InvalidRecord, UnreadableInput
from hsfiq.images.folder import ImageFolder, usual_folder
from hsfiq.model.checkpoints import clear, trained_on
from hsfiq.model.image_tokens import TOKENS_DTYPE, FeatureCache
from hsfiq.model.recipes import Pooling
from hsfiq.model.retrieval.loading import LoadedRetriever, load_retriever
from hsfiq.model.runtime import Distributed
from hsfiq.model.scorer.inference import Inference
from hsfiq.model.scorer.job import Callback
from hsfiq.model.scorer.loading import ScorerPaths
from hsfiq.model.scorer.run import jsonable
from hsfiq.model.scorer.scorer import paired_relevance, set_score
from hsfiq.model.system_recipes import ZeroShot
from hsfiq.model.token_files import dtype_name
from hsfiq.readers.files import Place, numbered_lines, parse_json, read_text
from hsfiq.releases.folder import (
    QUERIES,
    SETS,
    SPLITS,
    TURNS,
    ReleasedSet,
    is_of_searches,
    read_manifest,
    read_sets,
)
from hsfiq.text import first_few

# Finding images and computing their tokens, so that a scorer can work on them.


def encode_images(
    loaded: LoadedRetriever,
    files: Mapping[str, Path],
    cache: Path,
    device: torch.device,
    callback: Callback,
) -> tuple[Inference, set[str]]:
    """Compute the tokens that the cache lacks, with a retriever on `device`.

    Gives inference on these images, and the ids of the readable ones.
    """
    tokens = FeatureCache.open(cache, loaded.frozen_encoder)
    report = tokens.fill(files, device=device, on_progress=callback.caching)
    inference = Inference(loaded.retriever, tokens, Distributed(device))
    return inference, files.keys() - report.unreadable.keys()


@contextmanager
def images_of_release(
    sets: Collection[ReleasedSet], release: Path, folder: Path | None
) -> Iterator[Mapping[str, Path]]:
    """The available files of the sets' images and references, by image id."""
    wanted = {image for released in sets for image in (released.reference, *released.images)}
    folder = folder or usual_folder(release) or usual_folder(Path())
    with find_images(folder, wanted, (str(release), "a release holds no images")) as files:
        yield files


@contextmanager
def find_images(
    folder: Path | None, wanted: Collection[str], unknown: tuple[str, str]
) -> Iterator[Mapping[str, Path]]:
    """The available files of some images, by image id.

    Pictures of the drawn catalogue need no folder: they are drawn again. `unknown` is `where` and
    `what` of the error if there is no folder.
    """
    if folder is not None:
        yield image_files(folder, wanted)
        return
    try:
        garments = [garment_of(image) for image in sorted(wanted)]
    except InvalidRecord:
        raise UnreadableInput(*unknown, "name their folder with --images") from None
    with TemporaryDirectory() as drawn:
        pictures.write_images(garments, Path(drawn))
        yield image_files(Path(drawn), wanted)


def image_files(folder: Path, wanted: Collection[str]) -> dict[str, Path]:
    if not folder.is_dir():
        raise UnreadableInput(str(folder), "there is no such folder", "name another with --images")
    files = ImageFolder(folder)
    return {image: path for image in sorted(wanted) if (path := files.find(image)) is not None}


# What determines a scorer's scores, besides the images and what is scored.

VERSIONS = ("hsfiq", "torch")
"""Keys for the versions of programs."""
PRECISION = "precision"
"""Key for the dtypes of the computation and of the stored image tokens."""
TRAINED_ON = "trained_on"
"""Key for the releases that the scorer was retrained on."""
LATER_KEYS = (PRECISION, TRAINED_ON)
"""Keys that earlier versions did not record."""


def scorer_provenance(loaded: LoadedRetriever) -> dict[str, Any]:
    about = loaded.checkpoint.about
    releases = trained_on(loaded.checkpoint)
    is_zero_shot = isinstance(loaded.recipe, ZeroShot)
    return {
        "score": "mean over the set's images of the pooled cosine (CIRQRS eq. 7)",
        "checkpoint_sha256": loaded.checkpoint.sha256,
        "recipe": loaded.recipe.to_json(),
        "data": about.get("data"),  # unknown of an imported system
        **({TRAINED_ON: releases} if releases else {}),
        "encoder": about["encoder"],
        "preprocessing": asdict(loaded.retriever.preprocessing),
        "text": "as the encoder reads it" if is_zero_shot else "as LAVIS' blip_caption",
        PRECISION: {"vectors": dtype_name(torch.float32), "tokens": dtype_name(TOKENS_DTYPE)},
        "hsfiq": __version__,
        "torch": torch.__version__,
    }


# Scores of images and retrieved sets: a set's score is the mean relevance of its images.

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SetScores:
    """A scorer's scores for a release, not divided by the temperature."""

    images: list[tuple[str, str, float]]  # (set_id, image_id, score) of every available image
    sets: list[tuple[str, float]]  # (set_id, score) of sets without missing images
    missing: list[str]  # the images that are missing or unreadable, sorted
    unscored: list[str]  # the ids of the other sets


def score_sets(
    sets: Sequence[ReleasedSet], available: Collection[str], pooling: Pooling, inference: Inference
) -> SetScores:
    """Score the available images, which are those with tokens, of every set."""
    possible = [
        released
        for released in sets
        if released.reference in available and any(image in available for image in released.images)
    ]
    images: list[tuple[str, str, float]] = []
    means: dict[str, float] = {}
    relevances = image_relevances(possible, available, pooling, inference) if possible else ()
    for released, scores in zip(possible, relevances, strict=True):
        images += [(released.set_id, image, score) for image, score in scores.items()]
        if scores.keys() == set(released.images):
            means[released.set_id] = set_score(scores[image] for image in released.images)
    wanted = {image for released in sets for image in (released.reference, *released.images)}
    return SetScores(
        images=images,
        sets=list(means.items()),
        missing=sorted(wanted.difference(available)),
        unscored=[released.set_id for released in sets if released.set_id not in means],
    )


def image_relevances(
    sets: Sequence[ReleasedSet], available: Collection[str], pooling: Pooling, inference: Inference
) -> Iterator[dict[str, float]]:
    """The relevance of each set's available images to the set's query."""
    column = indexed(image for released in sets for image in released.images if image in available)
    row = indexed((released.reference, released.text) for released in sets)
    gallery = inference.gallery(list(column))  # [N, L, D]
    queries = inference.queries(
        [reference for reference, _ in row], [text for _, text in row]
    )  # [Q, D]
    for released in sets:
        present = [image for image in released.images if image in column]
        vectors = gallery[[column[image] for image in present]]  # [k, L, D]
        query = queries[row[released.reference, released.text]].expand(len(present), -1)  # [k, D]
        yield dict(zip(present, paired_relevance(query, vectors, pooling).tolist(), strict=True))


def indexed(names: Iterable[T]) -> dict[T, int]:
    """Each distinct name with its index, in order of first occurrence."""
    return {name: index for index, name in enumerate(dict.fromkeys(names))}


# Scoring image sets that are no release: JSON lines in, JSON lines out.

LONGEST_IMAGE = 400
"""Characters of an image's name."""


@dataclass(frozen=True, slots=True)
class PlainScores:
    """The folder of the scores, and the inputs of their computation."""

    out: Path
    n_sets: int
    n_scored: int
    missing_images: list[str]
    provenance: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        return {
            "out": str(self.out),
            "n_sets": self.n_sets,
            "n_scored": self.n_scored,
            "missing_images": self.missing_images,
            **self.provenance,
        }


def score_file(
    path: Path, out: Path, paths: ScorerPaths, device: torch.device, callback: Callback
) -> PlainScores:
    """Score the sets of a file and write a line for each into the new file `out`.

    A line has `reference`, `text`, `images` and, if given, `id`, which is otherwise the line's
    number. Its result has `id`, `score` (null if an image is missing) and `images`, the score of
    each available image.

    Raises:
        UnreadableInput: a line is not such a set, no set has all its images, or `out` exists.
    """
    require_new(out)
    sets = read_plain_sets(path)
    loaded = load_retriever(paths.required("checkpoint"), paths.weights, device)
    wanted = {image for each in sets for image in (each.reference, *each.images)}
    folder = paths.images or usual_folder(Path())
    with find_images(folder, wanted, (str(path), "names images whose folder is unknown")) as files:
        inference, available = encode_images(loaded, files, paths.cache, device, callback)
    scores = score_sets(sets, available, loaded.recipe.pooling, inference)
    if not scores.sets:
        raise UnreadableInput(
            str(path),
            f"no set has all its images: {scores.missing[0]} is missing or unreadable",
            "name the folder of the images with --images",
        )
    write_whole(out, as_lines(sets, scores))
    provenance = jsonable({"sets_sha256": sha256_of(path), **scorer_provenance(loaded)})
    return PlainScores(out, len(sets), len(scores.sets), scores.missing, provenance)


def read_plain_sets(path: Path) -> list[ReleasedSet]:
    sets: dict[str, ReleasedSet] = {}
    for number, line in numbered_lines(read_text(path)):
        place = Place(parse_json(line, str(path), number), f"{path}: line {number}: ")
        place.only("id", "reference", "text", "images")
        set_id = place.key("id").name() if "id" in place.value else str(number)
        text = place.key("text")
        if not text.text().strip():
            raise text.wrong("is empty", "a scorer reads the reference and a text")
        images = tuple(image.name(LONGEST_IMAGE) for image in place.key("images").list())
        if not images:
            raise place.key("images").wrong("names no image")
        if set_id in sets:
            raise place.wrong(
                f"the id {set_id!r} occurs twice", "give each set its own id, or omit all ids"
            )
        reference = place.key("reference").name(LONGEST_IMAGE)
        sets[set_id] = ReleasedSet(set_id, set_id, reference, text.text(), images)
    if not sets:
        raise UnreadableInput(str(path), "has no line", "write one JSON object a line")
    return list(sets.values())


def as_lines(sets: list[ReleasedSet], scores: SetScores) -> bytes:
    by_image: dict[str, dict[str, float]] = {each.set_id: {} for each in sets}
    for set_id, image, score in scores.images:
        by_image[set_id][image] = score
    means = dict(scores.sets)
    lines = [
        {"id": each.set_id, "score": means.get(each.set_id), "images": by_image[each.set_id]}
        for each in sets
    ]
    return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines).encode()


# The files of RELEASE.scores/, one metric each.
#
# `<name>.images.parquet` has the images' scores, `<name>.parquet` the sets'. `<name>.json`, written
# last, has their provenance.

_COLUMNS: dict[str, pa.DataType] = {"set_id": pa.string(), "score": pa.float64()}
SET_SCORES = pa.schema(_COLUMNS)
IMAGE_SCORES = SET_SCORES.insert(1, pa.field("image_id", pa.string()))


def scores_folder(release: Path) -> Path:
    """`RELEASE.scores`, beside the release."""
    real = release.resolve()
    return real.with_name(f"{real.name}.scores")


def file_names(name: str) -> tuple[str, str, str]:
    """A metric's files in the order in which they are written."""
    return f"{name}.images.parquet", f"{name}.parquet", f"{name}.json"


def require_metric_name(name: str) -> None:
    is_file_name = name.strip() != "" and name == Path(name).name
    if not is_file_name or name.startswith(".") or name.endswith(".images"):
        raise UnreadableInput("--name", f"{name!r} is not a file name", "write --name cirqrs")
    if name.lower().startswith("recall@"):
        raise UnreadableInput("--name", f"{name} is computed from the sets", "choose another")


def write_scores(
    folder: Path, name: str, scores: SetScores, provenance: Mapping[str, Any]
) -> dict[str, Any]:
    """Write the three files, each atomically, the JSON file last; return its content."""
    folder.mkdir(parents=True, exist_ok=True)
    for file in file_names(name):
        clear(folder, f".{escape(file)}-*.draft", kept=set())  # of a process that was killed
    images, sets, about = file_names(name)
    tables = {images: table(scores.images, IMAGE_SCORES), sets: table(scores.sets, SET_SCORES)}
    digests = {}
    for file, content in tables.items():
        write_whole(folder / file, content)
        digests[file] = sha256(content).hexdigest()
    result = {
        **provenance,
        "n_sets": len(scores.sets) + len(scores.unscored),
        "n_scored": len(scores.sets),
        "missing_images": scores.missing,
        "unscored_sets": scores.unscored,
        "files": digests,
    }
    write_whole(folder / about, indented_json(result))
    return result


def table(rows: Sequence[tuple[str | float, ...]], schema: pa.Schema) -> bytes:
    entries = [dict(zip(schema.names, row, strict=True)) for row in rows]
    sink = BytesIO()
    pq.write_table(pa.Table.from_pylist(entries, schema=schema), sink)
    return sink.getvalue()


def earlier_scores(folder: Path, name: str) -> dict[str, Any]:
    """The content of the JSON file of earlier scores, or empty; refuse files of other programs."""
    images, sets, about = (folder / file for file in file_names(name))
    if about.exists():
        try:
            content = json.loads(about.read_bytes())
        except ValueError:
            content = None
        if isinstance(content, dict) and content.get("metric") == name:
            return content
    # A process that was killed leaves the images' scores, or these and the sets'.
    elif images.exists() or not sets.exists():
        return {}
    raise UnreadableInput(
        str(about if about.exists() else sets),
        "was not written by hsfiq score under this name",
        "choose another --name, or use --force",
    )


def are_complete(folder: Path, about: Mapping[str, Any]) -> bool:
    files = about.get("files")
    return isinstance(files, dict) and all(
        (folder / file).is_file() and sha256_of(folder / file) == digest
        for file, digest in files.items()
    )


def score_release(
    release: Path,
    name: str,
    paths: ScorerPaths,
    device: torch.device,
    callback: Callback,
    *,
    force: bool = False,
) -> dict[str, Any]:
    """Score a release, unless the same scorer has done so; return the JSON file's content.

    `force` scores in any case, and replaces any scores of this name; without it, other scores of
    this name are UnreadableInput.
    """
    sets = read_sets(release)
    folder = scores_folder(release)
    loaded = load_retriever(paths.required("checkpoint"), paths.weights, device)
    provenance = provenance_of(name, release, loaded)
    if not force and (before := earlier_scores(folder, name)):
        if not is_same(provenance, before):
            raise UnreadableInput(
                str(folder / f"{name}.json"),
                "holds the scores of another scorer, or of another release",
                "choose another --name, or use --force",
            )
        # What was scored by an earlier version is scored again.
        is_recorded = all(before.get(key) == provenance.get(key) for key in LATER_KEYS)
        if is_recorded and not before.get("missing_images") and are_complete(folder, before):
            return before
    with images_of_release(sets, release, paths.images) as files:
        inference, available = encode_images(loaded, files, paths.cache, device, callback)
    scores = score_sets(sets, available, loaded.recipe.pooling, inference)
    if not scores.sets:
        raise UnreadableInput(
            str(release),
            f"no set has all its images: {first_few(scores.missing)} are missing or unreadable",
            "name the folder of the images with --images",
        )
    return write_scores(folder, name, scores, provenance)


def provenance_of(name: str, release: Path, loaded: LoadedRetriever) -> dict[str, Any]:
    """Everything that determines the scores, except the available images."""
    return jsonable(
        {
            "metric": name,
            "release": {
                "name": release.resolve().name,
                "sha256": {file: sha256_of(release / file) for file in scored_files(release)},
            },
            **scorer_provenance(loaded),
        }
    )


def scored_files(release: Path) -> tuple[str, ...]:
    """The tables that hold what is scored."""
    return (TURNS,) if is_of_searches(release) else (QUERIES, SETS)


def is_same(provenance: Mapping[str, Any], before: Mapping[str, Any]) -> bool:
    """Whether scorer and release are the same; the versions of programs may differ."""
    unrecorded = [key for key in LATER_KEYS if key not in before]
    ignored = (*VERSIONS, *unrecorded)
    return all(before.get(key) == value for key, value in provenance.items() if key not in ignored)


def has_held_out_part(release: Path, about: Mapping[str, Any]) -> bool:
    """Whether the scorer was trained on this release, which holds out a part."""
    manifest = read_manifest(release)
    return (
        manifest is not None
        and (release / SPLITS).is_file()
        and any(
            source["content_sha256"] == manifest["content_sha256"]
            for source in about.get(TRAINED_ON, ())
        )
    )
