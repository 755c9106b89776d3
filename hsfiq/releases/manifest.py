"""The manifest, which makes a folder a release."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, get_args

from hsfiq.answer_rules import HIGHEST_SCORE
from hsfiq.errors import UnreadableInput
from hsfiq.readers.files import Place
from hsfiq.readers.files import kind as found
from hsfiq.releases.filters import NamedFilter
from hsfiq.releases.untrusted import is_inside, read_bounded_json
from hsfiq.study.config import Mode
from hsfiq.study.publication import LeftOut, Publication
from hsfiq.text import first_few

MANIFEST = "manifest.json"
MADE_OF_THE_MANIFEST = ("README.md", "croissant.json")
SPLIT_OPTIONS = ("by", "seed", "test_share")
LONGEST_KEY = 250
NAME_A_RELEASE = "name the folder of a release, made by hsfiq export"


def read_manifest(folder: Path) -> dict[str, Any] | None:
    """Read the manifest of a folder; None if the folder is not a release of ours.

    Other programs also write files named manifest.json.
    """
    try:
        manifest = read_bounded_json(folder / MANIFEST)
    except (UnreadableInput, OSError):
        return None
    texts = ("name", "version", "kind", "content_sha256")
    if isinstance(manifest, dict) and all(isinstance(manifest.get(key), str) for key in texts):
        return manifest
    return None


def require_manifest(folder: Path) -> dict[str, Any]:
    """Read the manifest of a folder that is to be a release.

    Raises:
        UnreadableInput: the folder is none, or its manifest has other values than ours.
    """
    path = folder / MANIFEST
    if folder.is_file():
        raise UnreadableInput(
            str(folder), "is a file", f"name the release's folder{of_file(folder)}"
        )
    if not folder.is_dir():
        raise UnreadableInput(str(folder), "there is no such folder", NAME_A_RELEASE)
    if not path.exists() and (inside := releases_in(folder)):
        what = f"is no release; it has {len(inside)}: {first_few(inside)}"
        raise UnreadableInput(str(folder), what, f"name one of them, such as {folder / inside[0]}")
    manifest = read_manifest(folder)
    if manifest is None:
        raise UnreadableInput(str(path), "is no release's manifest", NAME_A_RELEASE)
    require_shape(manifest, path)
    return manifest


def of_file(file: Path) -> str:
    """The folder of a release that a file is in, for an error."""
    return f", {file.parent}" if (file.parent / MANIFEST).is_file() else ""


def releases_in(folder: Path) -> list[str]:
    """The names of the folders in a folder that are releases."""
    return sorted(path.parent.name for path in folder.glob(f"*/{MANIFEST}"))


def points_of(folder: Path) -> int:
    """The points of the scale for sets; releases older than other scales have the standard one."""
    scale = (read_manifest(folder) or {}).get("scale")
    points = scale.get("points") if isinstance(scale, dict) else None
    return points if isinstance(points, int) else HIGHEST_SCORE


def has_packed_images(folder: Path) -> bool:
    return bool((read_manifest(folder) or {}).get("images"))


def content_digest(manifest: Mapping[str, Any], digests: Mapping[str, str]) -> str:
    """Digest the options of an export and its text files, whose digests are given by name.

    Parquet files differ between versions of pyarrow, so of them only the packed images count, by
    the digest that the manifest has of them.

    Raises:
        KeyError, TypeError, ValueError: the manifest lacks an option or has an invalid one.
    """
    texts = {
        name: digest
        for name, digest in digests.items()
        if not name.endswith(".parquet") and name not in (*MADE_OF_THE_MANIFEST, MANIFEST)
    }
    content = json.dumps([manifest["name"], *options_of(manifest), texts], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()


def options_of(manifest: Mapping[str, Any]) -> Iterator[Any]:
    """The filters, and what else was asked for or stated."""
    yield [
        str(NamedFilter(each["name"], *next(iter(each["parameters"].items()), ())))
        for each in manifest["filters"]
    ]
    if split := manifest.get("split"):
        yield {name: split[name] for name in SPLIT_OPTIONS}
    extras: dict[str, Any] = {"layouts": sorted(manifest.get("layouts", ()))}
    extras |= {name: manifest.get(name) for name in ("images", "without")}
    if any(extras.values()):
        yield {name: value for name, value in extras.items() if value}
    stated = {name: value for name, value in manifest["publication"].items() if value is not None}
    if stated:
        yield asdict(Publication()) | stated


# ------------------------------------------------------------------------------------------- shape

Shape = Callable[[Place], object]
"""Raises `UnreadableInput`, with the place, for a value that consumers of manifests cannot use."""

MOST_OF_COUNT = 2**53


def count(place: Place) -> None:
    """A whole number that is not negative."""
    if not 0 <= place.integer() <= MOST_OF_COUNT:
        raise place.wrong(f"expected a count, found {found(place.value)}")


def maybe(shape: Shape) -> Shape:
    return lambda place: None if place.value is None else shape(place)


def each(shape: Shape) -> Shape:
    def check(place: Place) -> None:
        for member in place.members():
            shape(member)

    return check


def by_name(shape: Shape) -> Shape:
    def check(place: Place) -> None:
        for _, member in place.items(LONGEST_KEY):
            shape(member)

    return check


def record(*needed: str, **shapes: Shape) -> Shape:
    """An object with the keys `needed` and values of these `shapes`; other keys are ignored."""

    def check(place: Place) -> None:
        for key in needed:
            place.key(key)
        for key, member in place.items(LONGEST_KEY):
            if key in shapes:
                shapes[key](member)

    return check


def one_of(*values: str) -> Shape:
    def check(place: Place) -> None:
        if place.text() not in values:
            raise place.wrong(f"expected {' or '.join(values)}, found {found(place.value)}")

    return check


def inside(place: Place) -> None:
    if not is_inside(place.value):
        raise place.wrong(f"{found(place.value)} does not name a file inside the release's folder")


def distinct_files(place: Place) -> None:
    """A list of names of files, each of them once."""
    names: set[str] = set()
    for member in place.members():
        inside(member)
        if member.value in names:
            raise member.wrong(f"{found(member.value)} is there twice")
        names.add(member.value)


def files(place: Place) -> None:
    """Names of files with their digests and sizes."""
    for name, member in place.items(LONGEST_KEY):
        inside(place.with_value(name))
        record(sha256=Place.text, bytes=count)(member)


def as_it_is(place: Place) -> None:
    """A text, a number, true, false or null, or lists and objects of such that can be stored."""
    value = place.value
    if isinstance(value, dict):
        by_name(as_it_is)(place)
    elif isinstance(value, list):
        each(as_it_is)(place)
    elif isinstance(value, str):
        place.text()
    elif isinstance(value, int | float) and not isinstance(value, bool):
        place.number()


OF_CORPUS = record("name", "size", "sha256", name=Place.text, size=count, sha256=Place.text)
SHAPE = record(
    name=Place.text,
    version=Place.text,
    kind=Place.text,
    study=Place.text,
    title=maybe(Place.text),
    origin=one_of("collected", "imported", "simulated"),
    scale=maybe(record(points=count, levels=count, anchors=maybe(each(Place.text)))),
    ties_allowed=Place.truth,
    languages=maybe(each(Place.text)),
    wording=maybe(by_name(Place.text)),
    searches=record(
        *("k", "task", "rounds", "history", "chooser"),
        k=count,
        task=Place.text,
        target_seconds=count,
        rounds=count,
        history=Place.text,
        chooser=Place.text,
        uploads=Place.truth,
    ),
    retrievers=each(
        record(
            *("system", "version", "corpus"),
            system=Place.text,
            version=Place.text,
            corpus=OF_CORPUS,
        )
    ),
    simulated=Place.truth,
    publication=record(
        **dict.fromkeys(("licence", "citation", "contact", "url", "date"), maybe(Place.text)),
        authors=maybe(each(Place.text)),
    ),
    design=record(
        *("queries_from", "sample", "annotators_per_query", "overlap_share"),
        *("image_order", "seed", "recruitment"),
        queries_from=maybe(Place.text),
        sample=maybe(count),
        annotators_per_query=count,
        overlap_share=Place.number,
        image_order=Place.text,
        seed=Place.integer,
        recruitment=one_of(*get_args(Mode)),
    ),
    source_sha256=Place.text,
    datasets=each(Place.text),
    filters=each(record(name=Place.text, parameters=by_name(Place.number))),
    funnel=record(
        assigned=maybe(count),
        steps=each(
            record(
                "rule",
                rule=Place.text,
                dropped=maybe(count),
                left=maybe(count),
                broken_by=maybe(count),
            )
        ),
        kept=maybe(count),
    ),
    counts=by_name(count),
    split=maybe(
        record(by=Place.text, seed=Place.integer, test_share=Place.number, n=by_name(count))
    ),
    parts=by_name(by_name(inside)),
    layouts=by_name(distinct_files),
    images=maybe(record(sha256=Place.text)),
    without=each(one_of(*get_args(LeftOut))),
    left_out=by_name(count),
    chosen_by=record(
        *("strategy", "uncertainty", "seed"),
        strategy=Place.text,
        uncertainty=Place.text,
        seed=Place.integer,
        scorers=each(Place.text),
    ),
    notes=each(Place.text),
    files=files,
    content_sha256=Place.text,
)


def require_shape(manifest: Mapping[str, Any], path: Path) -> None:
    """Raise `UnreadableInput` for the first value that has another type than ours.

    Keys may be missing: releases of older versions lack some.
    """
    place = Place(manifest, f"{path}: ")
    SHAPE(place)
    as_it_is(place)
