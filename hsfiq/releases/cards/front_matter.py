"""The YAML at the top of a dataset card, which the Hugging Face hub and `datasets` read."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from hsfiq.releases.kinds import ReleaseKind
from hsfiq.releases.kinds.shared_tables import IMAGES
from hsfiq.releases.schemas import CONTENT
from hsfiq.study.publication import ADDRESS

ENGLISH = frozenset({"cirr", "circo", "drawn", "fashioniq"})
"""Datasets whose texts are English."""

TASKS = {
    "hs": ("image-to-image", "image-text-to-text"),
    "hp": ("image-to-image", "image-text-to-text"),
}
"""Of the hub's list, by kind; every other kind has the first."""

TAGS = {
    "hs": ("human-feedback",),
    "hp": ("human-feedback", "preference"),
    "ranking": ("human-feedback", "preference"),
    "arena": ("human-feedback", "preference"),
}
SIZES = {
    1_000: "n<1K",
    10_000: "1K<n<10K",
    100_000: "10K<n<100K",
    1_000_000: "100K<n<1M",
    10_000_000: "1M<n<10M",
}


def front_matter(manifest: Mapping[str, Any], tables: Iterable[str], kind: ReleaseKind) -> str:
    """The YAML; each of `tables` becomes a configuration, and each layout of parts one, too."""
    values: dict[str, Any] = {"pretty_name": f"{manifest['name']} {manifest['version']}"}
    licence = manifest["publication"]["licence"]
    if licence and ADDRESS.fullmatch(licence):
        values |= {"license": "other", "license_link": licence}
    elif licence:
        values["license"] = licence.lower()
    if languages := languages_of(manifest):
        values["language"] = languages
    if manifest["simulated"]:
        values["annotations_creators"] = ["machine-generated"]
    values["size_categories"] = [size_category(manifest["counts"]["questions"])]
    values["task_categories"] = list(TASKS.get(kind.name, TASKS["hs"][:1]))
    values["tags"] = ["composed-image-retrieval", "image-retrieval", *TAGS.get(kind.name, ())]
    configs = [
        {"config_name": table, "data_files": f"{table}.parquet"}
        | ({"default": True} if table == kind.default_table else {})
        for table in tables
    ]
    if "images" in manifest:
        values["dataset_info"] = [{"config_name": "images", "features": image_features()}]
    values["configs"] = configs + part_configs(manifest) + trl_config(manifest)
    return "".join(yaml_lines(values))


def image_features() -> list[dict[str, Any]]:
    """The columns of `images`, so that `datasets` decodes the files."""
    return [
        {"name": column.name, "dtype": "image" if column.type == CONTENT else str(column.type)}
        for column in IMAGES
    ]


def part_configs(manifest: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A configuration for each table that is also there in parts, with a split for each part."""
    return [
        {
            "config_name": f"{table}-by-part",
            "data_files": [{"split": part, "path": path} for part, path in files.items()],
        }
        for table, files in manifest.get("parts", {}).items()
    ]


def trl_config(manifest: Mapping[str, Any]) -> list[dict[str, Any]]:
    files: list[str] = manifest.get("layouts", {}).get("trl", [])
    if len(files) == 1:
        return [{"config_name": "trl", "data_files": files[0]}]
    splits = [{"split": trl_part(path), "path": path} for path in files]
    return [{"config_name": "trl", "data_files": splits}] if splits else []


def trl_part(path: str) -> str:
    """Which part of the split a file has: `trl-train.parquet` has train."""
    return path.removeprefix("trl-").removesuffix(".parquet")


def languages_of(manifest: Mapping[str, Any]) -> list[str]:
    """Of the queries' texts, where they are known, else of the study's pages."""
    datasets = manifest["datasets"]
    if datasets and ENGLISH.issuperset(datasets):
        return ["en"]
    return [tag.partition("-")[0] for tag in manifest["languages"] or ()]


def size_category(n: int) -> str:
    """The hub's category of so many questions.

    >>> size_category(3050), size_category(20_000_000)
    ('1K<n<10K', 'n>10M')
    """
    return next((name for most, name in SIZES.items() if n < most), "n>10M")


def yaml_lines(values: Mapping[str, Any]) -> Iterable[str]:
    """YAML of texts, lists of texts and lists of mappings; every text that needs it is quoted."""
    for key, value in values.items():
        if not isinstance(value, list):
            yield f"{key}: {scalar(value)}\n"
            continue
        yield f"{key}:\n"
        for member in value:
            if isinstance(member, str):
                yield f"- {scalar(member)}\n"
                continue
            for number, line in enumerate(yaml_lines(member)):
                yield f"{'  ' if number else '- '}{line}"


def scalar(value: str | bool) -> str:
    """JSON's quoted text is YAML's; plain names stay plain."""
    if isinstance(value, bool):
        return "true" if value else "false"
    is_plain = value[:1].isalpha() and all(c.isalnum() or c in " -_./<" for c in value)
    is_word = value.lower() in ("true", "false", "yes", "no", "on", "off", "null", "y", "n")
    return value if is_plain and not is_word else json.dumps(value, ensure_ascii=False)
