"""Read CONFIG.toml, a study's file, and report all its errors at once, each with its line."""

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
from hsfiq.study.config import PLATFORM_ID, StudyConfig, is_study_name

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
"""The smallest and the largest value of each number."""

_NAMES = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}
_TABLE = re.compile(r"\s*\[+\s*([\w.-]+)\s*\]+")
_KEY = re.compile(r"\s*([\w-]+(?:\s*\.\s*[\w-]+)*)\s*=")
_TEXT = re.compile(r"""\"{3}|'{3}|"(?:\\.|[^"\\])*"|'[^']*'|#.*""")


def read_config(path: Path) -> StudyConfig:
    """Read and validate a study's file and the text files that it names."""
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
    if reader.errors:
        raise ConfigErrors([line for _, line in sorted(reader.errors.values())])
    return config


def located(path: Path, error: ConfigError) -> ConfigErrors:
    """The error with the line of the file that causes it."""
    reader = _Reader(path, read_text(path))
    reader.wrong(error.where, str(error).removeprefix(f"{error.where}: "))
    return ConfigErrors([line for _, line in reader.errors.values()])


class _Reader:
    """Converts the file's tables to dataclasses and collects the errors."""

    def __init__(self, path: Path, text: str) -> None:
        self.path = path
        self.lines = dict(_lines_of_keys(text))
        self.errors: dict[str, tuple[int, str]] = {}

    def wrong(self, key: str, what: str) -> None:
        """Record an error of a key; only the first one of a key, or of its table, is kept."""
        if key.partition(".")[0] in self.errors:
            return
        line = self.lines.get(key) or self.lines.get(key.partition(".")[0]) or 1
        self.errors.setdefault(key, (line, f"{self.path}: line {line}: {key}: {what}"))

    def config(self, content: Mapping[str, Any]) -> StudyConfig:
        tables = get_type_hints(StudyConfig)
        for name in content:
            if name not in tables:
                self.wrong(name, f"is not a table; there are {', '.join(tables)}")
        values: dict[str, Any] = {
            name: self.table(name, kind, content.get(name, {})) for name, kind in tables.items()
        }
        config = StudyConfig(**values)
        self.check_study(config)
        self.check_rest(config)
        return self.with_texts(config)

    def table(self, name: str, kind: type[T], values: Any) -> T:
        if not isinstance(values, dict):
            self.wrong(name, "must be a table")
            values = {}
        hints = get_type_hints(kind)
        required = {f.name for f in fields(kind) if f.default is MISSING}  # type: ignore[arg-type]
        for key in values:
            if key not in hints:
                self.wrong(f"{name}.{key}", f"is not a key here; there are {', '.join(hints)}")
        for key in sorted(required - set(values)):
            self.wrong(f"{name}.{key}", "is missing")
        taken = {
            key: self.value(f"{name}.{key}", value, hints[key])
            for key, value in values.items()
            if key in hints
        }
        sound = {key: value for key, value in taken.items() if f"{name}.{key}" not in self.errors}
        return kind(**(dict.fromkeys(required, "") | sound))

    def value(self, key: str, value: Any, hint: Any) -> Any:
        if get_origin(hint) is Literal:
            if value not in get_args(hint):
                self.wrong(key, f"{value!r} is not one of {', '.join(map(repr, get_args(hint)))}")
            return value
        if get_origin(hint) is tuple:
            if not isinstance(value, list) or not all(isinstance(part, str) for part in value):
                self.wrong(key, f"{value!r} is not a list of texts")
                return value
            if any("\0" in part for part in value):
                self.wrong(key, "contains a NUL, which cannot be stored")
            return tuple(value)
        allowed = (int, float) if hint is float else (hint,)
        if not isinstance(value, allowed) or (isinstance(value, bool) and hint is not bool):
            self.wrong(key, f"{value!r} is not {_NAMES[hint]}")
        elif isinstance(value, str) and "\0" in value:
            self.wrong(key, "contains a NUL, which cannot be stored")
        elif key in RANGES and isinstance(value, int | float):
            least, most = RANGES[key]
            if not least <= value <= most:
                bounds = f"{least:,} or more" if most == math.inf else f"from {least:,} to {most:,}"
                self.wrong(key, f"{value} is not {bounds}")
        return value

    def check_study(self, config: StudyConfig) -> None:
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
        design, checks, recruitment = config.design, config.checks, config.recruitment
        if checks.repeated > design.questions_per_form:
            self.wrong("checks.repeated", "is more than the questions of a form")
        systems = config.queries.systems
        if systems and len(set(systems)) < 2:
            self.wrong("queries.systems", "a pair needs two systems; name two or leave it out")
        url = recruitment.completion_url
        if url and not re.fullmatch(r"https?://[^\s/]+\S*", url):
            self.wrong("recruitment.completion_url", f"{url!r} is not an http(s) address")
        if recruitment.mode in ("prolific", "mturk") and not (url or recruitment.completion_code):
            self.wrong("recruitment.completion_code", f"is missing; {recruitment.mode} needs it")

        platform_study = recruitment.platform_study_id
        if platform_study and recruitment.mode != "prolific":
            self.wrong("recruitment.platform_study_id", 'needs mode = "prolific"')
        elif platform_study and not PLATFORM_ID.fullmatch(platform_study):
            self.wrong(
                "recruitment.platform_study_id", f"{platform_study!r} is not an id of Prolific"
            )

    def with_texts(self, config: StudyConfig) -> StudyConfig:
        study = replace(
            config.study,
            guidelines=self.text_or_file("study.guidelines", config.study.guidelines),
            consent=self.text_or_file("study.consent", config.study.consent),
        )
        return replace(config, study=study)

    def text_or_file(self, key: str, value: str) -> str:
        if not value.endswith(".md") or "\n" in value:
            return value
        try:
            text = read_text(self.path.parent / value)
        except UnreadableInput as error:
            self.wrong(key, str(error))
            return ""
        if "\0" in text:
            self.wrong(key, f"{value} contains a NUL, which cannot be stored")
        return text


def _lines_of_keys(text: str) -> Iterator[tuple[str, int]]:
    """The lines of each table and each `table.key`; multi-line texts are skipped."""
    table, quotes = "", ""
    for number, line in enumerate(text.split("\n"), start=1):
        if not quotes:
            if match := _TABLE.match(line):
                table = match[1]
                yield table, number
            elif match := _KEY.match(line):
                key = re.sub(r"\s", "", match[1])
                yield (f"{table}.{key}" if table else key), number
        quotes = _open_at_the_end(line, quotes)


def _open_at_the_end(line: str, quotes: str) -> str:
    """The quotes of a multi-line text that continues after this line; "" if there is none."""
    rest = line
    while True:
        if quotes:
            _, closing, rest = rest.partition(quotes)
            if not closing:
                return quotes
            quotes = ""
        match = _TEXT.search(rest)
        if match is None:
            return ""
        rest = rest[match.end() :]
        if match[0] in ('"""', "'''"):
            quotes = match[0]
