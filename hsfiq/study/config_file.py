"""Read CONFIG.toml, a study's file, and report all its errors at once, each with its line."""

from __future__ import annotations

import math
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, fields, replace
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints
from urllib.parse import parse_qsl

from hsfiq.errors import ConfigError, ConfigErrors, Refused, UnreadableInput
from hsfiq.kinds import KINDS
from hsfiq.kinds.search_rows import Searches, retriever_errors
from hsfiq.readers.files import read_text
from hsfiq.study.config import (
    Practice,
    Presentation,
    StudyConfig,
    Translation,
    expected_at_practice,
    is_study_name,
    n_sets_of,
    questionnaire_errors,
    table_of,
)
from hsfiq.study.filters import parse_filters
from hsfiq.study.instrument import LONGEST_PROMPT, is_line, wording_errors
from hsfiq.study.languages import LANGUAGES, is_tag, language_errors, read_language_file
from hsfiq.study.publication import (
    AnalysisPlan,
    Publication,
    plan_errors,
    publication_errors,
)
from hsfiq.study.recruiting import PLACEHOLDER, PLATFORM_ID, Panel, Recruitment

# Read `[release]` from a TOML file of its own, for studies whose file did not have it.

KEYS = tuple(field.name for field in fields(Publication))


def read_publication(path: Path) -> Publication:
    """Other tables of the file are not read, so that it may be a study's file.

    Raises:
        UnreadableInput: the file or its table cannot be used.
    """
    try:
        table = tomllib.loads(read_text(path)).get("release")
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise UnreadableInput(str(path), f"broken TOML ({error})") from error
    if not isinstance(table, dict):
        raise UnreadableInput(str(path), "has no table [release]", f"with {', '.join(KEYS)}")
    for key, value in table.items():
        if key not in KEYS:
            what = f"release.{key} is not a key here"
            raise UnreadableInput(str(path), what, f"there are {', '.join(KEYS)}")
        require_type(path, key, value)
    publication = Publication(**(table | {"authors": tuple(table.get("authors", ()))}))
    for key, what in publication_errors(publication):
        raise UnreadableInput(str(path), f"{key}: {what}")
    return publication


def require_type(path: Path, key: str, value: Any) -> None:
    if key == "authors":
        if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
            raise UnreadableInput(str(path), f"release.authors: {value!r} is not a list of texts")
    elif not isinstance(value, str):
        raise UnreadableInput(str(path), f"release.{key}: {value!r} is not text")


# What is wrong with a config whose values have the right types, by the key of study.toml.

OPTIONS = frozenset().union(*(kind.options for kind in KINDS.values()))
"""The keys that only some kinds have."""

Errors = Iterator[tuple[str, str]]


def config_errors(config: StudyConfig, *, knows_kind: bool = True) -> Errors:
    """The key and the text of each error; without `knows_kind`, `design.kind` is not a kind."""
    yield from study_errors(config)
    if knows_kind:
        yield from kind_errors(config)
        yield from practice_errors(config)
        yield from searches_errors(config)
    yield from checks_errors(config)
    yield from recruitment_errors(config)
    yield from wording_errors(config.wording, config.design.levels)
    yield from questionnaire_errors(config.questionnaire)
    yield from plan_errors(config.analysis)
    yield from publication_errors(config.release)


def study_errors(config: StudyConfig) -> Errors:
    study = config.study
    if not is_study_name(study.name):
        yield "study.name", f"{study.name!r} is not 1 to 80 letters, digits, '.', '_', '-'"
    if not study.title.strip():
        yield "study.title", "is empty"
    for name in ("institution", "contact", "ethics"):
        text = getattr(study, name)
        if text and not is_line(text, LONGEST_PROMPT):
            what = f"must be one line of at most {LONGEST_PROMPT} characters, not blank"
            yield f"study.{name}", what


def kind_errors(config: StudyConfig) -> Errors:
    """What cannot go together with the question kind."""
    kind, n_sets = KINDS[config.design.kind], n_sets_of(config.design)
    if config.study.set_names:
        yield from set_names_errors("study.set_names", config.study.set_names, n_sets)
    for tag, translation in config.study.translations.items():
        if translation.set_names:
            yield from set_names_errors(f"study.{tag}.set_names", translation.set_names, n_sets)
    for key in sorted(OPTIONS - kind.options):
        table, _, name = key.partition(".")
        values = getattr(config, table)
        if getattr(values, name) != getattr(type(values)(), name):
            kinds = " or ".join(k.name for k in KINDS.values() if key in k.options)
            yield key, f'cannot be used with kind = "{kind.name}"; it is for {kinds}'
    systems = config.queries.systems
    if systems and len(set(systems)) < n_sets:
        what = f"a question needs {n_sets} systems; name as many, or leave it out"
        yield "queries.systems", what


def searches_errors(config: StudyConfig) -> Errors:
    searches, kind = config.searches, KINDS[config.design.kind]
    if not kind.is_live:
        if searches != Searches():
            yield "searches", f'cannot be used with kind = "{kind.name}"; it is for search or arena'
        return
    if config.queries.systems:
        yield "queries.systems", "leave it out: searches.retrievers names the systems"
    if config.design.reason_every:
        yield "design.reason_every", "leave it out: after each search, a remark can be given"
    if config.questionnaire.after_each:
        yield "questionnaire.after_each", f'cannot be used with kind = "{kind.name}"; use at_end'
    if kind.n_live > 1 and searches.task != "own-wish":
        what = f'{searches.task!r} cannot be used with kind = "{kind.name}"'
        yield "searches.task", f'{what}; set it to "own-wish"'
    if kind.n_live > 1 and searches.chooser != "nearest":
        what = f'{searches.chooser!r} cannot be used with kind = "{kind.name}"'
        yield "searches.chooser", f"{what}: both systems are asked about the same image"
    if kind.n_live < 2 and searches.leaderboard != "owner":
        what = f'{searches.leaderboard!r} is for arenas; kind = "{kind.name}" has no leaderboard'
        yield "searches.leaderboard", what
    if searches.uploads and searches.task != "own-wish":
        what = f'cannot be used with task = "{searches.task}"; it is for own-wish'
        yield "searches.uploads", what
    yield from retriever_errors(searches, kind.n_live)


def set_names_errors(key: str, given: Sequence[str], n_sets: int) -> Errors:
    names = {name.strip() for name in given}
    if len(given) != n_sets or len(names) != n_sets or "" in names:
        wanted = ("no name", "one name", "two different names")
        named = wanted[n_sets] if n_sets < len(wanted) else f"{n_sets} different names"
        yield key, f"must be {named}"


def practice_errors(config: StudyConfig) -> Errors:
    practice, kind = config.practice, KINDS[config.design.kind]
    if not practice.query:
        if practice != Practice():
            yield "practice.query", "is missing"
        return
    try:
        expected_at_practice(config)
    except Refused as error:
        yield "practice.expected", str(error)
    n_wanted = n_sets_of(config.design) if kind.needs_lists else 0
    if len(practice.systems) != n_wanted or len(set(practice.systems)) != n_wanted:
        names = "system" if n_wanted == 1 else "different systems"
        yield (
            "practice.systems",
            f"must name {n_wanted} {names}: those whose sets are shown"
            if n_wanted
            else f'cannot be used with kind = "{kind.name}", which shows no system\'s set',
        )


def checks_errors(config: StudyConfig) -> Errors:
    checks = config.checks
    if checks.repeated > config.design.questions_per_form:
        yield "checks.repeated", "is more than the questions of a form"
    if checks.on_failure == "none":
        return
    if config.recruitment.max_failed_checks < 0:
        yield "checks.on_failure", "needs recruitment.max_failed_checks"
    elif not (checks.gold or checks.repeated):
        yield "checks.on_failure", "needs gold or repeated questions"


def mturk_errors(recruitment: Recruitment) -> Errors:
    if recruitment.completion_url:
        what = "the page sends the HIT back to Mechanical Turk"
        yield "recruitment.completion_url", f'cannot be used with mode = "mturk": {what}'
    if recruitment.full_code:
        what = "who arrives too late returns the HIT"
        yield "recruitment.full_code", f'cannot be used with mode = "mturk": {what}'


LONGEST_NAME = 80
PARAMETER = re.compile(r"[A-Za-z][\w.-]{0,63}", re.ASCII)
OWN_PARAMETERS = ("study", "signature", "ticket")
"""Those that our links have, beside a panel's."""

REDIRECT = re.compile(
    r"https://[a-z0-9-]+(\.[a-z0-9-]+)*(:\d{1,5})?([/?][\w.~:/?#@!$&'()*+,;=%{}-]*)?",
    re.ASCII | re.IGNORECASE,
)


def panel_errors(recruitment: Recruitment) -> Errors:
    panel = recruitment.panel
    if panel is None or recruitment.mode != "panel":
        if panel is not None or recruitment.mode == "panel":
            yield "recruitment.panel", 'belongs to mode = "panel"; have both or neither'
        return
    if not is_line(panel.name, LONGEST_NAME):
        yield "recruitment.panel.name", f"must be one line of at most {LONGEST_NAME} characters"
    for key, what in (*parameter_errors(panel), *redirect_errors(panel)):
        yield f"recruitment.panel.{key}", what
    if panel.failed_checks and recruitment.max_failed_checks < 0:
        yield "recruitment.panel.failed_checks", "needs max_failed_checks"
    if not (panel.complete or recruitment.completion_code):
        yield "recruitment.panel.complete", "is missing; so is recruitment.completion_code"
    if recruitment.completion_url:
        yield "recruitment.completion_url", 'cannot be used with mode = "panel"; use panel.complete'


def parameter_errors(panel: Panel) -> Errors:
    """What is wrong with the names of the ids in the panel's links, and with the owner's link."""
    parameters = panel.parameters()
    for key, name in parameters.items():
        if not PARAMETER.fullmatch(name) or name in OWN_PARAMETERS:
            what = f"{name!r} cannot be the name of a panel's parameter"
            yield key, f"{what}; our own links have {', '.join(OWN_PARAMETERS)}"
        elif list(parameters.values()).count(name) > 1:
            yield key, f"{name!r} is the name of two ids"
    given = [name for name, _ in parse_qsl(panel.link, keep_blank_values=True)]
    is_complete = sorted(given) == sorted(parameters.values())
    if panel.link and not (is_complete and re.fullmatch(r"[!-~]+", panel.link.replace("#", " "))):
        form = "&".join(f"{name}=..." for name in parameters.values())
        yield "link", f"{panel.link!r} must have the form {form}"


def redirect_errors(panel: Panel) -> Errors:
    """What is wrong with the addresses; nothing in a link can choose their host."""
    known = panel.parameters()
    for key, address in panel.addresses().items():
        left = PLACEHOLDER.sub(lambda found: "" if found[1] in known else found[0], address)
        if address and not REDIRECT.fullmatch(address):
            what = f"{address!r} is not an https address with ids only in its path or query"
            yield key, f"{what}; percent-encode other signs"
        elif "{" in left or "}" in left:
            ids = " and ".join(f"{{{each}}}" for each in known)
            yield key, f"{address!r} has braces that are not of {ids}, the ids that are named here"


def recruitment_errors(config: StudyConfig) -> Errors:
    recruitment = config.recruitment
    url = recruitment.completion_url
    if url and not re.fullmatch(r"https?://[^\s/]+\S*", url):
        yield "recruitment.completion_url", f"{url!r} is not an http(s) address"
    if recruitment.mode == "prolific" and not (url or recruitment.completion_code):
        yield "recruitment.completion_code", "is missing; prolific needs it"
    if recruitment.mode == "mturk":
        yield from mturk_errors(recruitment)
    yield from panel_errors(recruitment)
    if recruitment.quotas and config.design.categories == "mixed":
        what = "cannot be used with design.categories"
        yield "recruitment.quotas", f'{what} = "mixed": its forms have no category'
    if recruitment.failed_checks_code and recruitment.max_failed_checks < 0:
        yield "recruitment.failed_checks_code", "needs max_failed_checks"
    if recruitment.signed_links and recruitment.mode != "prolific":
        yield "recruitment.signed_links", 'needs mode = "prolific"'
    platform_study = recruitment.platform_study_id
    if platform_study and recruitment.mode != "prolific":
        yield "recruitment.platform_study_id", 'needs mode = "prolific"'
    elif platform_study and not PLATFORM_ID.fullmatch(platform_study):
        yield "recruitment.platform_study_id", f"{platform_study!r} is not an id of Prolific"


# The lines of a TOML file on which its tables and keys stand, for messages about them.

_TABLE = re.compile(r"\s*\[+\s*([\w.-]+)\s*\]+")
_KEY = re.compile(r"\s*([\w-]+(?:\s*\.\s*[\w-]+)*)\s*=")
_TEXT = re.compile(r"""\"{3}|'{3}|"(?:\\.|[^"\\])*"|'[^']*'|#.*""")


def enclosing(key: str) -> Iterator[str]:
    """A key and the tables that contain it: `a.b.c`, `a.b`, `a`."""
    while key:
        yield key
        key = key.rpartition(".")[0]


def lines_of_keys(text: str) -> Iterator[tuple[str, int]]:
    """The lines of each table and each `table.key`; multi-line texts are skipped.

    The tables of an array are numbered from 1.
    """
    table, quotes = "", ""
    numbers = Counter[str]()
    for number, line in enumerate(text.split("\n"), start=1):
        if not quotes:
            if match := _TABLE.match(line):
                table = match[1]
                if "[[" in line.partition(table)[0]:
                    numbers[table] += 1
                    table += f".{numbers[table]}"
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


T = TypeVar("T")
TextsT = TypeVar("TextsT", Presentation, Translation)

RANGES: dict[str, tuple[int, float]] = {
    "study.minutes": (0, 10_000),
    "design.k": (1, 100),
    "design.levels": (2, 5),
    "design.sets": (3, 5),
    "design.questions_per_form": (1, 10_000),
    "design.forms_per_participant": (1, 1_000),
    "design.annotators_per_query": (1, 1_000),
    "design.overlap_share": (0, 1),
    "design.reason_every": (0, math.inf),
    "design.lease_minutes": (1, 525_600),
    "checks.gold": (0, 1_000),
    "checks.repeated": (0, 1_000),
    "queries.sample": (0, math.inf),
    "searches.target_seconds": (1, 600),
    "searches.rounds": (1, 50),
    "analysis.margin": (0, 0.5),
    "analysis.alpha": (0, 0.5),
    "recruitment.participants": (0, math.inf),
    "recruitment.enrolments_per_address": (0, 1_000_000),
    "recruitment.unbegun_minutes": (0, 525_600),
    "recruitment.max_failed_checks": (-1, math.inf),
}
"""The smallest and the largest value of each number."""

FROM_FILES = {"translations", "texts"}
"""The fields that are no keys."""

_NAMES = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}


def read_config(path: Path, *, needs_language_files: bool = True) -> StudyConfig:
    """Read and validate a study's file, the texts that it names, and its language files.

    Without `needs_language_files`, the study's languages may lack theirs.
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
    except ValueError as error:
        raise ConfigErrors([f"{path}: a number is too long"]) from error
    reader = _Reader(path, text, needs_language_files=needs_language_files)
    config = reader.config(content)
    if reader.errors:
        raise ConfigErrors([line for _, line in sorted(reader.errors.values())])
    return config


def config_with_errors(
    path: Path, text: str, languages: Mapping[str, Any]
) -> tuple[StudyConfig, dict[str, str]]:
    """The config of a file's text, and what is wrong with it by key.

    Keys with errors have their defaults. No other file is read: `languages` are the contents of the
    language files by tag, whose errors have keys such as `study.de.texts.page.rank`.
    """
    reader = _Reader(path, text, needs_language_files=False)
    reader.languages = languages
    config = reader.config(tomllib.loads(text))
    return config, {
        key: line.partition(f": {key}: ")[2] or line for key, (_, line) in reader.errors.items()
    }


def located(path: Path, *errors: ConfigError) -> ConfigErrors:
    """The errors with the lines of the file that cause them."""
    reader = _Reader(path, read_text(path))
    for error in errors:
        reader.wrong(error.where, str(error).removeprefix(f"{error.where}: "))
    return ConfigErrors([line for _, line in sorted(reader.errors.values())])


class _Reader:
    """Converts the file's tables to dataclasses and collects the errors."""

    def __init__(self, path: Path, text: str, *, needs_language_files: bool = True) -> None:
        self.path = path
        self.needs_language_files = needs_language_files
        self.lines = dict(lines_of_keys(text))
        self.errors: dict[str, tuple[int, str]] = {}
        self.languages: Mapping[str, Any] | None = None
        """What language files hold, if no file is read."""

    def wrong(self, key: str, what: str) -> None:
        """Record an error of a key; only the first one of a key, or of its table, is kept."""
        _, *tables = enclosing(key)
        if not self.errors.keys().isdisjoint(tables):
            return
        line = next((self.lines[name] for name in enclosing(key) if name in self.lines), 1)
        self.errors.setdefault(key, (line, f"{self.path}: line {line}: {key}: {what}"))

    def config(self, content: Mapping[str, Any]) -> StudyConfig:
        tables = get_type_hints(StudyConfig)
        for name in content:
            if name not in tables:
                self.wrong(name, f"is not a table; there are {', '.join(tables)}")
        own, by_language = self.split_study(content.get("study", {}))
        content = {**content, "study": own}
        values: dict[str, Any] = {
            name: self.table(name, kind, content.get(name, {})) for name, kind in tables.items()
        }
        config = StudyConfig(**values)
        config = replace(
            config,
            study=self.with_languages(config, by_language),
            analysis=self.with_named_filters(config.analysis),
        )
        for key, what in config_errors(config, knows_kind="design.kind" not in self.errors):
            self.wrong(key, what)
        return config

    def with_named_filters(self, plan: AnalysisPlan) -> AnalysisPlan:
        """The plan with its filters named as the manifest names them, in the same order."""
        try:
            names = parse_filters(plan.exclusions).names()
        except UnreadableInput as error:
            self.wrong("analysis.exclusions", "; ".join(filter(None, (error.what, error.remedy))))
            return plan
        return replace(plan, exclusions=tuple(names))

    def split_study(self, values: Any) -> tuple[Any, dict[str, Any]]:
        """The keys of `[study]`, with `languages` for `language`, and its tables by language."""
        if not isinstance(values, dict):
            return values, {}
        keys = get_type_hints(Presentation).keys() - FROM_FILES
        tables = {k: v for k, v in values.items() if isinstance(v, dict) and k not in keys}
        own = {key: value for key, value in values.items() if key not in tables}
        if "language" in own:
            language = self.value("study.language", own.pop("language"), str)
            if "languages" in own:
                self.wrong("study.language", "leave it out: `languages` names them all")
            elif "study.language" not in self.errors:
                own["languages"] = [language]
        return own, tables

    def table(self, name: str, kind: type[T], values: Any) -> T:
        if not isinstance(values, dict):
            self.wrong(name, "must be a table")
            values = {}
        hints = {k: hint for k, hint in get_type_hints(kind).items() if k not in FROM_FILES}
        required = {f.name for f in fields(kind) if f.default is f.default_factory is MISSING}  # type: ignore[arg-type]
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

    def tables(self, key: str, kind: type[T], values: Any) -> tuple[T, ...]:
        """An array of tables; the keys of each have its number, from 1."""
        if not isinstance(values, list):
            self.wrong(key, f"must be tables, each under [[{key}]]")
            return ()
        return tuple(
            self.table(f"{key}.{number}", kind, value)
            for number, value in enumerate(values, start=1)
        )

    def value(self, key: str, value: Any, hint: Any) -> Any:
        if get_origin(hint) is Literal:
            if value not in get_args(hint):
                self.wrong(key, f"{value!r} is not one of {', '.join(map(repr, get_args(hint)))}")
            return value
        if get_origin(hint) is tuple:
            part: Any = get_args(hint)[0]
            return self.list_of_texts(key, value) if part is str else self.tables(key, part, value)
        if get_origin(hint) is Mapping:
            return self.numbers(key, value)
        if inner := table_of(hint):
            return self.table(key, inner, value)
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

    def list_of_texts(self, key: str, values: Any) -> Any:
        if not isinstance(values, list) or not all(isinstance(part, str) for part in values):
            self.wrong(key, f"{values!r} is not a list of texts")
            return values
        if any("\0" in part for part in values):
            self.wrong(key, "contains a NUL, which cannot be stored")
        return tuple(values)

    def numbers(self, key: str, values: Any) -> dict[str, int]:
        """A table of whole numbers."""
        if not isinstance(values, dict):
            self.wrong(key, "must be a table")
            return {}
        for name, value in values.items():
            if not isinstance(value, int) or isinstance(value, bool):
                self.wrong(f"{key}.{name}", f"{value!r} is not a whole number")
            elif value < 0:
                self.wrong(f"{key}.{name}", f"{value} is not 0 or more")
        return {name: value for name, value in values.items() if f"{key}.{name}" not in self.errors}

    def with_languages(self, config: StudyConfig, tables: Mapping[str, Any]) -> Presentation:
        """The presentation with the texts that its files and its tables have in each language."""
        study = config.study
        languages = study.languages
        key = "study.languages" if "study.languages" in self.lines else "study.language"
        wrong = next((tag for tag in languages if not is_tag(tag)), None)
        if wrong is not None:
            self.wrong(key, f"{wrong!r} is not a language tag such as de, pt-BR or zh-Hant")
        if not languages or len(set(languages)) < len(languages):
            self.wrong(key, "must name each language once, the main one first")
        for tag in tables:
            if tag not in languages[1:]:
                where = "write this in [study]" if tag in languages else "name it in languages"
                self.wrong(f"study.{tag}", f"is not one of the study's further languages; {where}")
        if key in self.errors:
            return study
        first = self.translated("study", study, languages[0])
        translations = {
            tag: self.translated(
                f"study.{tag}", self.table(f"study.{tag}", Translation, tables.get(tag, {})), tag
            )
            for tag in languages[1:]
        }
        texts = {tag: self.texts_in(key, tag, config) for tag in languages}
        translations = {languages[0]: Translation(), **translations}
        return replace(
            first,
            translations={
                tag: replace(each, texts=texts[tag])
                for tag, each in translations.items()
                if texts[tag] or each != Translation()
            },
        )

    def translated(self, table: str, given: TextsT, language: str) -> TextsT:
        """With the guidelines and the consent that are given or lie in files of the language."""
        return replace(
            given,
            guidelines=self.long_text(table, "guidelines", given.guidelines, language),
            consent=self.long_text(table, "consent", given.consent, language),
        )

    def long_text(self, table: str, name: str, value: str, language: str) -> str:
        """The text of a key, or of `guidelines.de.md` beside the file if the key is absent."""
        if self.languages is not None:
            return value
        beside = f"{name}.{language}.md"
        if not value and (self.path.parent / beside).is_file():
            value = beside
        return self.text_or_file(f"{table}.{name}", value)

    def texts_in(self, key: str, language: str, config: StudyConfig) -> dict[str, Any]:
        """The texts of a language file; a language without standard texts needs one."""
        if self.languages is not None:
            given = self.languages.get(language, {})
            wrong = list(language_errors(given, config))
            for place, what in wrong:
                self.wrong(f"study.{language}.texts.{place}", what)
            return {} if wrong else dict(given)
        path = self.path.parent / f"{language}.json"
        if path.is_file():
            texts, errors = read_language_file(path, config)
            self.errors |= {line: (sys.maxsize, line) for line in errors}
            return texts
        if language not in LANGUAGES and self.needs_language_files:
            command = f"hsfiq study texts {self.path} --language {language} > {path}"
            self.wrong(key, f"{path.name} is missing beside this file; `{command}` writes it")
        return {}

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
