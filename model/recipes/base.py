"""What every recipe can do: be changed by `--set`, be written as JSON, and be read back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from typing import Any, ClassVar, Self, get_origin, get_type_hints

from hsfiq.errors import UnreadableInput
from hsfiq.model.recipes.values import RANGES, parsed, read_values, shown


class RecipeBase:
    """The base of the frozen dataclasses of recipes; each has a `name`."""

    __slots__ = ()

    FIXED: ClassVar[tuple[str, ...]] = ("name", "dataset")
    """The settings that a command line cannot change."""

    name: str

    def with_values(self, values: Mapping[str, str]) -> Self:
        """The recipe with other values, as written on a command line; raises as the constructor."""
        kinds = {key: kind for key, kind in self.kinds().items() if key not in self.FIXED}
        return replace(self, **read_values(values, kinds, self.name))  # type: ignore[type-var]

    def to_json(self) -> dict[str, Any]:
        return {
            key: list(value) if isinstance(value, tuple) else value
            for key, value in asdict(self).items()  # type: ignore[call-overload]
        }

    @classmethod
    def from_json(cls, value: object, where: str) -> Self:
        """The recipe that `to_json` wrote; UnreadableInput if it is not one of this version."""
        kinds = cls.kinds()
        if not isinstance(value, dict) or set(value) != set(kinds):
            keys = set(value) if isinstance(value, dict) else set()
            differing = sorted(set(kinds) ^ keys)
            raise UnreadableInput(
                where,
                "is not a recipe of this version",
                f"lacking or unknown: {', '.join(differing)}",
            )
        read = {}
        for key, kind in kinds.items():
            try:
                read[key] = parsed(shown(value[key]), kind)
            except ValueError as error:
                raise UnreadableInput(f"{where}: {key}", f"{value[key]!r} {error}") from error
        return cls(**read)

    @classmethod
    def kinds(cls) -> dict[str, Any]:
        """The type of each setting."""
        hints = get_type_hints(cls)
        return {key: kind for key, kind in hints.items() if get_origin(kind) is not ClassVar}

    def out_of_range(self) -> Iterator[str]:
        """Yield what is wrong with each number that is not in `RANGES`."""
        kinds = self.kinds()
        for key, (least, most) in RANGES.items():
            value = getattr(self, key) if key in kinds else None
            for number in value if isinstance(value, tuple) else (value,):
                if number is not None and not least <= number <= most:
                    yield f"{key} is {shown(value)}, not from {least} to {most}"

    def changes(self, other: Self) -> dict[str, tuple[str, str]]:
        """The settings in which another recipe differs, with both values as text."""
        pairs = ((key, getattr(self, key), getattr(other, key)) for key in self.kinds())
        return {key: (shown(a), shown(b)) for key, a, b in pairs if a != b}
