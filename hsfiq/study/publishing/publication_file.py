"""Read `[release]` from a TOML file of its own, for studies whose file did not have it."""

from __future__ import annotations

import tomllib
from dataclasses import fields
from pathlib import Path
from typing import Any

from hsfiq.errors import UnreadableInput
from hsfiq.readers.files import read_text
from hsfiq.study.publishing.publication import Publication, publication_errors

KEYS = tuple(field.name for field in fields(Publication))


def read_publication(path: Path) -> Publication:
    """Other tables of the file are not read, so that it may be a study's file.

    Raises:
        UnreadableInput: the file or its table cannot be used.
    """
    try:
        table = tomllib.loads(read_text(path)).get("release")
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise UnreadableInput(str(path), f"broken TOML ({error})") from error
    if not isinstance(table, dict):
        raise UnreadableInput(str(path), "has no table [release]", f"with {', '.join(KEYS)}")
    for key, value in table.items():
        if key not in KEYS:
            what = f"release.{key} is not a key here"
            raise UnreadableInput(str(path), what, f"there are {', '.join(KEYS)}")
        require_type(path, key, value)
    publication = Publication(**(table | {"authors": tuple(table.get("authors", ()))}))
    for key, what in publication_errors(publication):
        raise UnreadableInput(str(path), f"{key}: {what}")
    return publication


def require_type(path: Path, key: str, value: Any) -> None:
    if key == "authors":
        if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
            raise UnreadableInput(str(path), f"release.authors: {value!r} is not a list of texts")
    elif not isinstance(value, str):
        raise UnreadableInput(str(path), f"release.{key}: {value!r} is not text")
