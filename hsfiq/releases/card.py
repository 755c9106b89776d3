"""The descriptions in a release: a dataset card that `datasets` reads, and Croissant metadata."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from hsfiq.study.config import CHOSEN_BY

TABLES = {
    "preferences": "one row a question: both scores, the preferred set (0 = tie), flags and times "
    "(active_seconds: of all revisions together; failed_checks: of the question's form)",
    "sets": "one row a retrieved set as judged: its images, best first, and its score from 1 to 5",
    "queries": "one row a query: reference, target and text",
    "exclusions": "one row a dropped question, with the rule and the value that dropped it",
    "splits": "one row a question: its part, train, test or unused (in neither)",
}

_SPLIT_RULES = {
    "triplet": "Test questions are about a held-out triplet, whatever the order of its captions.",
    "participant": "Test questions were answered by a held-out participant.",
    "both": "Test questions are about a held-out triplet and were answered by a held-out "
    "participant, train questions neither; the others are unused, so that nothing leaks.",
}

_CROISSANT_TYPES = {
    pa.string(): "sc:Text",
    pa.bool_(): "sc:Boolean",
    pa.int8(): "sc:Integer",
    pa.int32(): "sc:Integer",
    pa.float64(): "sc:Float",
    pa.timestamp("us", tz="UTC"): "sc:DateTime",
    pa.list_(pa.string()): "sc:Text",
    pa.list_(pa.int32()): "sc:Integer",
}

# The context that Croissant 1.0 prescribes (docs.mlcommons.org/croissant/docs/croissant-spec.html).
_CROISSANT_CONTEXT = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "citeAs": "cr:citeAs",
    "column": "cr:column",
    "conformsTo": "dct:conformsTo",
    "cr": "http://mlcommons.org/croissant/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "equivalentProperty": "cr:equivalentProperty",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "extract": "cr:extract",
    "field": "cr:field",
    "fileObject": "cr:fileObject",
    "fileProperty": "cr:fileProperty",
    "fileSet": "cr:fileSet",
    "format": "cr:format",
    "includes": "cr:includes",
    "isLiveDataset": "cr:isLiveDataset",
    "jsonPath": "cr:jsonPath",
    "key": "cr:key",
    "md5": "cr:md5",
    "parentField": "cr:parentField",
    "path": "cr:path",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "recordSet": "cr:recordSet",
    "references": "cr:references",
    "regex": "cr:regex",
    "repeated": "cr:repeated",
    "replace": "cr:replace",
    "samplingRate": "cr:samplingRate",
    "sc": "https://schema.org/",
    "separator": "cr:separator",
    "source": "cr:source",
    "subField": "cr:subField",
    "transform": "cr:transform",
}


def readme(manifest: Mapping[str, Any], schemas: Mapping[str, pa.Schema]) -> str:
    """The dataset card, with the front matter by which `datasets.load_dataset` finds the tables."""
    counts, funnel = manifest["counts"], manifest["funnel"]
    # `datasets` cannot load a table without rows; only `exclusions` can be one.
    loadable = [
        t for t in present(schemas) if t != "exclusions" or funnel["kept"] < funnel["assigned"]
    ]
    configs = "".join(
        f"- config_name: {table}\n  data_files: {table}.parquet\n"
        + ("  default: true\n" if table == "preferences" else "")
        for table in loadable
    )
    steps = "".join(
        f"| {step['rule']} | {step['dropped']:,} | {step['left']:,} |\n" for step in funnel["steps"]
    )
    tables = "\n".join(
        f"### {table}\n\n{what[0].upper()}{what[1:]}.\n\n"
        f"Columns: {', '.join(f'`{field.name}`' for field in schemas[table])}.\n"
        for table, what in present(schemas).items()
    )
    simulated = (
        "> The answers of this release come from **simulated annotators**, not from people.\n\n"
        if manifest["simulated"]
        else ""
    )
    notes = "".join(f"- {note}\n" for note in manifest["notes"])
    return (
        f"---\npretty_name: {manifest['name']} {manifest['version']}\nconfigs:\n{configs}---\n\n"
        f"# {manifest['name']} {manifest['version']}\n\n{simulated}"
        f"{manifest['title']}: human judgements of paired retrieved sets for composed image "
        f"retrieval. {counts['questions']:,} questions about {counts['queries']:,} queries, "
        f"{counts['sets']:,} scored sets, {counts['participants']:,} participants.\n\n"
        f"## What was dropped\n\n| rule | dropped | left |\n|---|---|---|\n"
        f"| (handed out) | | {funnel['assigned']:,} |\n{steps}\n{notes}"
        f"{choice_section(manifest[CHOSEN_BY]) if CHOSEN_BY in manifest else ''}"
        f"{split_section(manifest['split']) if 'split' in manifest else ''}"
        f"## Tables\n\nEach as `.parquet` and `.jsonl`.\n\n{tables}\n"
        f"Made by {manifest['tool']['name']} {manifest['tool']['version']}; "
        "`manifest.json` holds the digest of every file.\n"
    )


def present(schemas: Mapping[str, pa.Schema]) -> dict[str, str]:
    """The tables that the release has, with what they hold."""
    return {table: what for table, what in TABLES.items() if table in schemas}


def choice_section(chosen_by: Mapping[str, Any]) -> str:
    """What the card says of how the pairs were chosen."""
    how = (
        "at random"
        if chosen_by["strategy"] == "random"
        else "for what their answers would tell of a scorer that was unsure of them "
        f"({chosen_by['uncertainty']}), so they are **no random sample**: how often metrics agree "
        "with these answers is not how often they agree in general"
    )
    scorers = "".join(f"- scorer `{it}`\n" for it in chosen_by.get("scorers", ()))
    return (
        "## How the pairs were chosen\n\nOf pairs that no study had asked, as many of each "
        f"category and of each two systems, {how}. Seed {chosen_by['seed']}.\n\n"
        + (f"{scorers}\n" if scorers else "")
    )


def split_section(split: Mapping[str, Any]) -> str:
    """What the card says of the split."""
    n = split["n"]
    return (
        f"## Split\n\nBy {split['by']}, test share {split['test_share']}, seed {split['seed']}; "
        f"held out: {split['held_out_triplets']:,} triplets, "
        f"{split['held_out_participants']:,} participants. {_SPLIT_RULES[split['by']]}\n\n"
        "| part | questions |\n|---|---|\n"
        + "".join(f"| {part} | {count:,} |\n" for part, count in n.items())
        + "\n"
    )


def croissant(
    manifest: Mapping[str, Any], files: Mapping[str, bytes], schemas: Mapping[str, pa.Schema]
) -> dict[str, Any]:
    """Croissant 1.0 metadata of the Parquet tables."""
    return {
        "@context": _CROISSANT_CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        "name": manifest["name"],
        "version": manifest["version"],
        "description": manifest["title"],
        "distribution": [
            {
                "@type": "cr:FileObject",
                "@id": f"{table}.parquet",
                "name": f"{table}.parquet",
                "contentUrl": f"{table}.parquet",
                "encodingFormat": "application/x-parquet",
                "sha256": hashlib.sha256(files[f"{table}.parquet"]).hexdigest(),
            }
            for table in present(schemas)
        ],
        "recordSet": [
            {
                "@type": "cr:RecordSet",
                "@id": table,
                "name": table,
                "description": TABLES[table],
                "field": [croissant_field(table, field) for field in schemas[table]],
            }
            for table in present(schemas)
        ],
    }


def croissant_field(table: str, field: pa.Field[Any]) -> dict[str, Any]:
    """One column of a table."""
    described = {
        "@type": "cr:Field",
        "@id": f"{table}/{field.name}",
        "name": field.name,
        "dataType": _CROISSANT_TYPES[field.type],
        "source": {
            "fileObject": {"@id": f"{table}.parquet"},
            "extract": {"column": field.name},
        },
    }
    return described | ({"repeated": True} if pa.types.is_list(field.type) else {})
