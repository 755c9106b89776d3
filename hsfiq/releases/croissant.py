"""The Croissant 1.0 metadata of a release: its Parquet tables and their columns."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from hsfiq.releases.kinds import ReleaseKind

DATA_TYPES = {
    pa.string(): "sc:Text",
    pa.bool_(): "sc:Boolean",
    pa.int8(): "sc:Integer",
    pa.int32(): "sc:Integer",
    pa.float64(): "sc:Float",
    pa.timestamp("us", tz="UTC"): "sc:DateTime",
    pa.list_(pa.string()): "sc:Text",
    pa.list_(pa.int32()): "sc:Integer",
    pa.list_(pa.float64()): "sc:Float",
}

# Prescribed by Croissant 1.0 (docs.mlcommons.org/croissant/docs/croissant-spec.html).
CONTEXT = {
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


def croissant(
    manifest: Mapping[str, Any],
    files: Mapping[str, bytes],
    schemas: Mapping[str, pa.Schema],
    kind: ReleaseKind,
) -> dict[str, Any]:
    return {
        "@context": CONTEXT,
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
            for table in schemas
        ],
        "recordSet": [
            {
                "@type": "cr:RecordSet",
                "@id": table,
                "name": table,
                "description": kind.description(table),
                "field": [
                    describe_column(table, column, kind.described_columns(table))
                    for column in schema
                ],
            }
            for table, schema in schemas.items()
        ],
    }


def describe_column(
    table: str, column: pa.Field[Any], descriptions: Mapping[str, str]
) -> dict[str, Any]:
    description = descriptions.get(column.name)
    return {
        "@type": "cr:Field",
        "@id": f"{table}/{column.name}",
        "name": column.name,
        **({"description": description} if description else {}),
        "dataType": DATA_TYPES[column.type],
        "source": {
            "fileObject": {"@id": f"{table}.parquet"},
            "extract": {"column": column.name},
        },
        **({"repeated": True} if pa.types.is_list(column.type) else {}),
    }
