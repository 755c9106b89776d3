"""CONFIG.toml: a study's file, validated whole before anything is drawn.

All mistakes are named at once, each with its line.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields, replace
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from hsfiq.errors import ConfigError, ConfigErrors, UnreadableInput
from hsfiq.readers.files import read_text
from hsfiq.study.config import StudyConfig, is_study_name

T = TypeVar("T")

RANGES: dict[str, tuple[int, float]] = {
    "design.k": (1, 100),
    "design.questions_per_form": (1, 10_000),
    "design.forms_per_participant": (1, 1_000),
    "design.annotators_per_query": (1, 1_000),
    "design.overlap_share": (0, 1),
    "design.reason_every": (0, math.inf),
    "design.lease_minutes": (1, 525_600),
    "checks.gold": (0, 1_000),
    "checks.repeated": (0, 1_000),
    "queries.sample": (0, math.inf),
    "recruitment.participants": (0, math.inf),
}
"""The least and the most that a number may be."""

_NAMES = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}
_TABLE = re.compile(r"\s*\[+\s*([\w.-]+)\s*\]+")
_KEY = re.compile(r"\s*([\w-]+(?:\s*\.\s*[\w-]+)*)\s*=")
_TEXT = re.compile(r"""\"{3}|'{3}|"(?:\\.|[^"\\])*"|'[^']*'|#.*""")


def read_config(path: Path) -> StudyConfig:
    """Read and check a study's file; texts that lie in files beside it are read as well.

    Raises:
        ConfigErrors: naming all of them, each with its line.
        UnreadableInput: the file cannot be read.
    """
    text = read_text(path)
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        what, _, place = str(error).partition(" (at ")
        last = f"line {len(text.splitlines()) or 1}"
        where = place.rstrip(")").replace("end of document", last)
        raise ConfigErrors([f"{path}: {where}: broken TOML ({what})"]) from error
    except RecursionError as error:
        raise ConfigErrors([f"{path}: the TOML is nested too deeply"]) from error
    reader = _Reader(path, text)
    config = reader.config(content)
    if reader.mistakes:
        raise ConfigErrors([line for _, line in sorted(reader.mistakes.values())])
    return config


def located(path: Path, mistake: ConfigError) -> ConfigErrors:
    """A mistake that only the database shows, with the line of the file that it stands in."""
    reader = _Reader(path, read_text(path))
    reader.wrong(mistake.key, str(mistake).removeprefix(f"{mistake.key}: "))
    return ConfigErrors([line for _, line in reader.mistakes.values()])


class _Reader:
    """Takes the file's tables into the dataclasses and gathers what is wrong on the way."""

    def __init__(self, path: Path, text: str) -> None:
        self.path = path
        self.lines = dict(_lines_of_keys(text))
        self.mistakes: dict[str, tuple[int, str]] = {}

    def wrong(self, key: str, what: str) -> None:
        """Note what is wrong at a key, or at the nearest thing to it that the file has.

        The first thing that is wrong with a key, or with its whole table, is enough.
        """
        if key.partition(".")[0] in self.mistakes:
            return
        line = self.lines.get(key) or self.lines.get(key.partition(".")[0]) or 1
        self.mistakes.setdefault(key, (line, f"{self.path}: line {line}: {key}: {what}"))

    def config(self, content: Mapping[str, Any]) -> StudyConfig:
        """The config, with defaults in place of what is wrong."""
        tables = get_type_hints(StudyConfig)
        for name in content:
            if name not in tables:
                self.wrong(name, f"is no table; there are {', '.join(tables)}")
        made: dict[str, Any] = {
            name: self.table(name, kind, content.get(name, {})) for name, kind in tables.items()
        }
        config = StudyConfig(**made)
        self.check_study(config)
        self.check_rest(config)
        return self.with_texts(config)

    def table(self, name: str, kind: type[T], values: Any) -> T:
        """One table as its dataclass."""
        if not isinstance(values, dict):
            self.wrong(name, "must be a table")
            values = {}
        hints = get_type_hints(kind)
        required = {f.name for f in fields(kind) if f.default is MISSING}  # type: ignore[arg-type]
        for key in values:
            if key not in hints:
                self.wrong(f"{name}.{key}", f"is no key here; there are {', '.join(hints)}")
        for key in sorted(required - set(values)):
            self.wrong(f"{name}.{key}", "is missing")
        taken = {
            key: self.value(f"{name}.{key}", value, hints[key])
            for key, value in values.items()
            if key in hints
        }
        sound = {key: value for key, value in taken.items() if f"{name}.{key}" not in self.mistakes}
        return kind(**(dict.fromkeys(required, "") | sound))

    def value(self, key: str, value: Any, hint: Any) -> Any:
        """One value, of the kind that the dataclass says."""
        if get_origin(hint) is Literal:
            if value not in get_args(hint):
                self.wrong(key, f"{value!r} is none of {', '.join(map(repr, get_args(hint)))}")
            return value
        if get_origin(hint) is tuple:
            if not isinstance(value, list) or not all(isinstance(part, str) for part in value):
                self.wrong(key, f"{value!r} is no list of texts")
                return value
            if any("\0" in part for part in value):
                self.wrong(key, "holds a NUL, which cannot be stored")
            return tuple(value)
        allowed = (int, float) if hint is float else (hint,)
        if not isinstance(value, allowed) or (isinstance(value, bool) and hint is not bool):
            self.wrong(key, f"{value!r} is not {_NAMES[hint]}")
        elif isinstance(value, str) and "\0" in value:
            self.wrong(key, "holds a NUL, which cannot be stored")
        elif key in RANGES and isinstance(value, int | float):
            least, most = RANGES[key]
            if not least <= value <= most:
                bounds = f"{least:,} or more" if most == math.inf else f"from {least:,} to {most:,}"
                self.wrong(key, f"{value} is not {bounds}")
        return value

    def check_study(self, config: StudyConfig) -> None:
        """Whether the study can be called and shown so."""
        study = config.study
        if not is_study_name(study.name):
            self.wrong(
                "study.name", f"{study.name!r} is not 1 to 80 letters, digits, '.', '_', '-'"
            )
        if not study.title.strip():
            self.wrong("study.title", "is empty")
        names = {name.strip() for name in study.set_names}
        if len(study.set_names) != 2 or len(names) != 2 or "" in names:
            self.wrong("study.set_names", "must be two different names")

    def check_rest(self, config: StudyConfig) -> None:
        """What no single value shows."""
        design, checks, recruitment = config.design, config.checks, config.recruitment
        if checks.repeated > design.questions_per_form:
            self.wrong("checks.repeated", "is more than the form has questions")
        systems = config.queries.systems
        if systems and len(set(systems)) < 2:
            self.wrong("queries.systems", "a pair needs two systems; name two or leave it out")
        url = recruitment.completion_url
        if url and not re.fullmatch(r"https?://[^\s/]+\S*", url):
            self.wrong("recruitment.completion_url", f"{url!r} is no http(s) address")
        if recruitment.mode in ("prolific", "mturk") and not (url or recruitment.completion_code):
            self.wrong("recruitment.completion_code", f"is missing: {recruitment.mode} pays by it")

    def with_texts(self, config: StudyConfig) -> StudyConfig:
        """The config with the texts that it only names, from the files beside it."""
        study = replace(
            config.study,
            guidelines=self.text_or_file("study.guidelines", config.study.guidelines),
            consent=self.text_or_file("study.consent", config.study.consent),
        )
        return replace(config, study=study)

    def text_or_file(self, key: str, value: str) -> str:
        """The text itself, or that of the Markdown file which it names."""
        if not value.endswith(".md") or "\n" in value:
            return value
        try:
            text = read_text(self.path.parent / value)
        except UnreadableInput as error:
            self.wrong(key, str(error))
            return ""
        if "\0" in text:
            self.wrong(key, f"{value} holds a NUL, which cannot be stored")
        return text


def _lines_of_keys(text: str) -> Iterator[tuple[str, int]]:
    """The lines of the tables and of each `table.key`; the inside of long texts holds none."""
    table, quotes = "", ""
    for number, line in enumerate(text.split("\n"), start=1):
        if not quotes:
            if found := _TABLE.match(line):
                table = found[1]
                yield table, number
            elif found := _KEY.match(line):
                key = re.sub(r"\s", "", found[1])
                yield (f"{table}.{key}" if table else key), number
        quotes = _open_at_the_end(line, quotes)


def _open_at_the_end(line: str, quotes: str) -> str:
    """The quotes of the long text that goes on below this line; "" where none does."""
    rest = line
    while True:
        if quotes:
            _, closing, rest = rest.partition(quotes)
            if not closing:
                return quotes
            quotes = ""
        found = _TEXT.search(rest)
        if found is None:
            return ""
        rest = rest[found.end() :]
        if found[0] in ('"""', "'''"):
            quotes = found[0]
