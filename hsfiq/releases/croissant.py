"""The Croissant 1.0 metadata of a release: its Parquet tables and their columns."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

import pyarrow as pa

from hsfiq.kinds import ReleaseKind
from hsfiq.kinds.tables import Column, Table
from hsfiq.releases.card import citation_of, languages_of
from hsfiq.study.publication import licence_address

DATA_TYPES = {
    pa.string(): "sc:Text",
    pa.bool_(): "sc:Boolean",
    pa.int8(): "sc:Integer",
    pa.int32(): "sc:Integer",
    pa.float64(): "sc:Float",
    pa.timestamp("us", tz="UTC"): "sc:DateTime",
    pa.binary(): "sc:ImageObject",
    pa.list_(pa.string()): "sc:Text",
    pa.list_(pa.int32()): "sc:Integer",
    pa.list_(pa.float64()): "sc:Float",
}

# Prescribed by Croissant 1.0 (docs.mlcommons.org/croissant/docs/croissant-spec.html).
CONTEXT = json.loads((files("hsfiq.releases") / "croissant_context.json").read_text("utf-8"))


def croissant(
    manifest: Mapping[str, Any],
    digests: Mapping[str, str],
    schemas: Mapping[str, pa.Schema],
    kind: ReleaseKind,
) -> dict[str, Any]:
    tables = [table for name, table in kind.all_tables().items() if name in schemas]
    return {
        "@context": CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        "name": manifest["name"],
        "version": manifest["version"],
        "description": manifest["publication"].get("description")
        or f"{manifest['title']}: {kind.about} for composed image retrieval.",
        **published(manifest),
        "distribution": [
            {
                "@type": "cr:FileObject",
                "@id": f"{table}.parquet",
                "name": f"{table}.parquet",
                "contentUrl": f"{table}.parquet",
                "encodingFormat": "application/x-parquet",
                "sha256": digests[f"{table}.parquet"],
            }
            for table in schemas
        ],
        "recordSet": [
            {
                "@type": "cr:RecordSet",
                "@id": table.name,
                "name": table.name,
                "description": table.meaning,
                "field": [describe_column(table, column) for column in table],
            }
            for table in tables
        ],
    }


def published(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """What Croissant recommends, as far as it is known."""
    publication = manifest["publication"]
    values = {
        "license": publication["licence"] and licence_address(publication["licence"]),
        "citeAs": citation_of(manifest),
        "creator": [{"@type": "sc:Person", "name": name} for name in publication["authors"] or ()]
        or None,
        "url": publication["url"],
        "datePublished": publication["date"],
        "inLanguage": languages_of(manifest) or None,
        "keywords": ["composed image retrieval", "human judgements"],
        "isLiveDataset": False,
    }
    return {name: value for name, value in values.items() if value is not None}


def describe_column(table: Table, column: Column) -> dict[str, Any]:
    unit = f" (in {column.unit})" if column.unit else ""
    return {
        "@type": "cr:Field",
        "@id": f"{table.name}/{column.name}",
        "name": column.name,
        "description": f"{column.meaning}{unit}; {column.null_rule}",
        "dataType": DATA_TYPES[column.arrow_type],
        "source": {
            "fileObject": {"@id": f"{table.name}.parquet"},
            "extract": {"column": column.name},
        },
        **({"repeated": True} if column.is_list else {}),
    }
