"""Footers of Parquet files, read and written in Thrift's compact protocol, to make hostile ones."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

Fields = dict[int, tuple[int, Any]]
"""The type and the value of each field of a struct; a list's value is its type and members."""


def number(content: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        part = content[place]
        place += 1
        value |= (part & 127) << shift
        shift += 7
        if part < 128:
            return value, place


def as_number(value: int) -> bytes:
    parts = bytearray()
    while value > 127:
        parts.append(value & 127 | 128)
        value >>= 7
    return bytes([*parts, value])


def read_value(content: bytes, place: int, kind: int) -> tuple[Any, int]:
    if kind in (1, 2):
        return kind == 1, place
    if kind == 3:
        return content[place], place + 1
    if kind in (4, 5, 6):
        value, place = number(content, place)
        return value >> 1 ^ -(value & 1), place
    if kind == 8:
        n, place = number(content, place)
        return content[place : place + n], place + n
    if kind == 9:
        n, of = content[place] >> 4, content[place] & 15
        place += 1
        if n == 15:
            n, place = number(content, place)
        members = []
        for _ in range(n):
            member, place = read_value(content, place, of)
            members.append(member)
        return (of, members), place
    return read_struct(content, place)


def read_struct(content: bytes, place: int) -> tuple[Fields, int]:
    fields: Fields = {}
    field = 0
    while head := content[place]:
        place += 1
        if head >> 4:
            field += head >> 4
        else:
            field, place = read_value(content, place, 5)
        value, place = read_value(content, place, head & 15)
        fields[field] = (head & 15, value)
    return fields, place + 1


def as_value(kind: int, value: Any) -> bytes:
    if kind == 3:
        return bytes([value])
    if kind in (4, 5, 6):
        return as_number((value << 1 ^ value >> 63) & 2**64 - 1)
    if kind == 8:
        return as_number(len(value)) + bytes(value)
    if kind == 9:
        of, members = value
        head = bytes([0xF0 | of]) + as_number(len(members))
        return head + b"".join(as_value(of, member) for member in members)
    return as_struct(value)


def as_struct(fields: Fields) -> bytes:
    content = b""
    for field, (kind, value) in sorted(fields.items()):
        if kind in (1, 2):
            content += bytes([1 if value else 2]) + as_value(5, field)
        else:
            content += bytes([kind]) + as_value(5, field) + as_value(kind, value)
    return content + b"\0"


def read_footer(content: bytes) -> tuple[Fields, int]:
    """The footer of a file, and where it starts."""
    start = len(content) - 8 - struct.unpack("<I", content[-8:-4])[0]
    return read_struct(content, start)[0], start


def with_footer(content: bytes, footer: Fields) -> bytes:
    written = as_struct(footer)
    return content + written + struct.pack("<I", len(written)) + b"PAR1"


def chunks_of(footer: Fields) -> list[Fields]:
    """The metadata of the first row group's columns."""
    return [chunk[3][1] for chunk in footer[4][1][1][0][1][1][1]]


def write_sizes_of_no_texts(path: Path) -> None:
    """Give columns that have no texts the bytes of their texts, at which pyarrow aborts."""
    content = path.read_bytes()
    footer, start = read_footer(content)
    for chunk in chunks_of(footer):
        if chunk[1][1] != 6:
            chunk[16] = (12, {1: (6, 5)})
    path.write_bytes(with_footer(content[:start], footer))


def write_large_pages(path: Path, n_bytes: int) -> None:
    """Add zeros to the only page of each column; the footer says nothing of them."""
    options: dict[str, Any] = {"use_dictionary": False, "write_statistics": False}
    pq.write_table(pq.read_table(path), path, compression="zstd", **options)
    content, zstd = path.read_bytes(), pa.Codec("zstd")
    footer, _ = read_footer(content)
    written = b"PAR1"
    for chunk in chunks_of(footer):
        header, place = read_struct(content, chunk[9][1])
        packed = content[place : place + header[3][1]]
        page = zstd.decompress(packed, header[2][1]).to_pybytes() + bytes(n_bytes)
        packed = zstd.compress(page).to_pybytes()
        header |= {2: (5, len(page)), 3: (5, len(packed))}
        header.pop(4, None)
        start, written = len(written), written + as_struct(header) + packed
        chunk |= {9: (6, start), 7: (6, len(written) - start), 6: (6, 200)}
        chunk.pop(11, None)
    for chunk in footer[4][1][1][0][1][1][1]:
        for field in (4, 5, 6, 7):
            chunk.pop(field, None)
    path.write_bytes(with_footer(written, footer))
