"""The protocol's types as TypeScript: `python -m tests.annotate.typescript` writes the file."""

from __future__ import annotations

from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, NotRequired, Union, get_args, get_origin, get_type_hints

import typing_extensions

from hsfiq.collect import protocol

DECLARATIONS = Path(protocol.__file__).parents[2] / "annotate" / "static" / "protocol.d.ts"
HEAD = """\
// The JSON that the page and the server exchange: hsfiq/collect/protocol.py in TypeScript.
// Do not edit. Written by `python -m tests.annotate.typescript`; a test compares the two.
"""
PRIMITIVES = {str: "string", int: "number", float: "number", bool: "boolean", NoneType: "null"}


def typescript() -> str:
    """Every type of the protocol as a declaration."""
    declarations = []
    for name, value in vars(protocol).items():
        if typing_extensions.is_typeddict(value):
            declaration = interface(value)
            is_ours = value.__module__ == protocol.__name__
            declarations += [declaration] if is_ours and declaration not in declarations else []
        elif get_origin(value) in (UnionType, Union, Literal) and not name.startswith("_"):
            declaration = f"export type {name} = {expression(value)};\n"
            declarations += [] if declaration in declarations else [declaration]
    return "\n".join([HEAD, *declarations])


def interface(typed_dict: Any) -> str:
    """A TypedDict as an interface; inherited keys are repeated."""
    lines = []
    for key, hint in get_type_hints(typed_dict, include_extras=True).items():
        optional = "?" if get_origin(hint) is NotRequired else ""
        inner = get_args(hint)[0] if optional else hint
        lines.append(f"  {key}{optional}: {expression(inner)};\n")
    return f"export interface {typed_dict.__name__} {{\n{''.join(lines)}}}\n"


def expression(hint: Any) -> str:
    """A type hint as a TypeScript type."""
    if hint in PRIMITIVES:
        return PRIMITIVES[hint]
    if typing_extensions.is_typeddict(hint):
        return str(hint.__name__)
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        return " | ".join(literal(value) for value in arguments)
    if origin in (UnionType, Union):
        return " | ".join(dict.fromkeys(map(expression, arguments)))
    if origin is list:
        element = expression(arguments[0])
        is_union = get_origin(arguments[0]) in (UnionType, Union, Literal)
        return f"({element})[]" if is_union else f"{element}[]"
    if origin is dict:
        return "Record<string, any>"
    raise TypeError(f"no TypeScript for {hint}")


def literal(value: object) -> str:
    """A value of a Literal as TypeScript writes it."""
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)


if __name__ == "__main__":
    DECLARATIONS.write_text(typescript(), encoding="utf-8")
