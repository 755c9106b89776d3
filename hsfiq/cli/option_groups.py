"""Options that several commands share, as the fields of a dataclass."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from functools import wraps
from inspect import Parameter
from typing import Any, get_type_hints


def with_option_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Replace each parameter of a command that is a dataclass by one option for each field.

    typer reads the signature of the returned function; the command receives the dataclass.
    """
    signature = inspect.signature(command, eval_str=True)
    groups: dict[str, type[Any]] = {
        name: parameter.annotation
        for name, parameter in signature.parameters.items()
        if isinstance(parameter.annotation, type) and is_dataclass(parameter.annotation)
    }

    @wraps(command)
    def with_groups(**values: Any) -> None:
        for name, group in groups.items():
            values[name] = group(**{field.name: values.pop(field.name) for field in fields(group)})
        command(**values)

    expanded: list[Parameter] = []
    for parameter in signature.parameters.values():
        if parameter.name in groups:
            expanded += options_of(parameter.annotation)
        else:
            expanded.append(parameter.replace(kind=Parameter.KEYWORD_ONLY))
    vars(with_groups).update(
        __signature__=signature.replace(parameters=expanded),
        __annotations__={parameter.name: parameter.annotation for parameter in expanded},
    )
    return with_groups


def options_of(group: type) -> list[Parameter]:
    """A group's own fields, then those of its base; a field without a default is required."""
    hints = get_type_hints(group, include_extras=True)
    own = vars(group)["__annotations__"]
    return [
        Parameter(
            field.name,
            Parameter.KEYWORD_ONLY,
            default=Parameter.empty if field.default is MISSING else field.default,
            annotation=hints[field.name],
        )
        for field in sorted(fields(group), key=lambda field: field.name not in own)
    ]
