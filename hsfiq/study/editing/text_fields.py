"""The texts that an owner may correct, as the fields of a form, and the config that they give."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from hsfiq.errors import ConfigError, Refused
from hsfiq.kinds import KINDS
from hsfiq.study.config import (
    SET_NAMES,
    StudyConfig,
    Translation,
    config_from_json,
    names_sets,
    stored_presentation,
)
from hsfiq.study.editing.text_versions import texts_of
from hsfiq.study.languages.files import language_errors
from hsfiq.study.validation.config_errors import OPTIONS, config_errors
from hsfiq.text import is_storable_text

FieldType = Literal["line", "text", "lines", "number", "json"]

LONG_TEXTS = ("guidelines", "consent", "explanation")
LONGEST_TIME = 10_000
"""Minutes."""


@dataclass(frozen=True, slots=True)
class TextField:
    """A field of the form.

    Attributes:
        key: of study.toml; a language's tables are `study.translations.de`, and the texts of
            `de.json` are `study.translations.de.texts`.
        type: a line, a text of several lines, a list with a line for each, a number, or the JSON
            of a language file.
        value: what the study has now, as the form shows it.
    """

    key: str
    type: FieldType
    value: str


class WrongTexts(Refused):
    """Texts that a study cannot have; `errors` has one for each key."""

    def __init__(self, errors: list[ConfigError]) -> None:
        super().__init__("; ".join(map(str, errors)))
        self.errors = errors


def text_fields(config: StudyConfig) -> list[TextField]:
    """The fields of a study's texts and codes; those that its kind does not use are left out."""
    own = {
        key: value
        for key, value in texts_of(config).items()
        if is_used(config, key, value) and not key.startswith("study.translations.")
    }
    if not names_sets(config):
        own["study.set_names"] = []
    fields = [TextField(key, type_of(key, value), shown(value)) for key, value in own.items()]
    return [*fields, *translation_fields(config)]


def translation_fields(config: StudyConfig) -> Iterator[TextField]:
    """For each further language the owner's texts, and for each language its short texts."""
    first, *others = config.study.languages
    for tag in (first, *others):
        prefix = f"study.translations.{tag}"
        each = json.loads(json.dumps(asdict(translation_of(config, tag))))
        texts = each.pop("texts")
        for name, value in each.items() if tag in others else ():
            yield TextField(f"{prefix}.{name}", type_of(name, value), shown(value))
        yield TextField(f"{prefix}.texts", "json", shown_json(texts))


def translation_of(config: StudyConfig, tag: str) -> Translation:
    return config.study.translations.get(tag, Translation())


def is_used(config: StudyConfig, key: str, value: Any) -> bool:
    if key in OPTIONS - KINDS[config.design.kind].options:
        return False
    if key == "questionnaire.note":
        return bool(config.questionnaire.at_end)
    if key.endswith(".options"):
        return bool(value)
    if key == "practice.explanation":
        return bool(config.practice.query)
    if key == "recruitment.failed_checks_code":
        return config.recruitment.max_failed_checks >= 0
    return True


def type_of(key: str, value: Any) -> FieldType:
    if isinstance(value, list):
        return "lines"
    if isinstance(value, int):
        return "number"
    return "text" if key.endswith(LONG_TEXTS) else "line"


def shown(value: Any) -> str:
    return "\n".join(value) if isinstance(value, list) else str(value)


def shown_json(texts: Mapping[str, Any]) -> str:
    return json.dumps(texts, ensure_ascii=False, indent=2) if texts else ""


def corrected(config: StudyConfig, given: Mapping[str, str]) -> StudyConfig:
    """The config with the texts of the form; fields that are not given stay as they are.

    Raises:
        WrongTexts: a study cannot have them.
    """
    content = json.loads(json.dumps(asdict(config)))
    errors = []
    for field in text_fields(config):
        text = given.get(field.key, field.value).replace("\r\n", "\n")
        if text == field.value.replace("\r\n", "\n"):
            continue
        try:
            put(content, field.key, read(config, field, text))
        except ConfigError as error:
            errors.append(error)
    drop_empty_translations(content, config)
    wanted = config_from_json(content | {"study": stored_presentation(content["study"])})
    known = set(config_errors(config))
    errors += [ConfigError(*error) for error in config_errors(wanted) if error not in known]
    if errors:
        raise WrongTexts(errors)
    return wanted


def read(config: StudyConfig, field: TextField, text: str) -> Any:
    """The value of a field, or `ConfigError`."""
    if not is_storable_text(text):
        raise ConfigError(field.key, "has characters that cannot be stored")
    if field.type == "number":
        number = text.strip()
        if not (number.isascii() and number.isdigit() and int(number[:9]) <= LONGEST_TIME):
            what = f"{number[:20]!r} is not a whole number from 0 to {LONGEST_TIME:,}"
            raise ConfigError(field.key, what)
        return int(number)
    if field.type == "lines":
        lines = [line.strip() for line in text.rstrip().split("\n")] if text.strip() else []
        is_usual = field.key == "study.set_names" and not lines
        return list(SET_NAMES) if is_usual else lines
    if field.type == "json":
        return read_texts(config, field.key, text)
    return text if field.type == "text" else text.strip()


def read_texts(config: StudyConfig, key: str, text: str) -> dict[str, Any]:
    try:
        content = json.loads(text or "{}")
    except (ValueError, RecursionError) as error:
        raise ConfigError(key, f"is not JSON ({error})") from error
    wrong = next(iter(language_errors(content, config)), None)
    if wrong is not None:
        place, what = wrong
        raise ConfigError(key, f"{place}: {what}" if place else what)
    texts: dict[str, Any] = content
    return texts


def put(content: dict[str, Any], key: str, value: Any) -> None:
    """Set the value of a dotted key; tables of an array are numbered from 1."""
    *parents, name = key.split(".")
    place: Any = content
    for parent in parents:
        is_array = isinstance(place, list)
        place = place[int(parent) - 1] if is_array else place.setdefault(parent, {})
    place[name] = value


def drop_empty_translations(content: dict[str, Any], config: StudyConfig) -> None:
    """A language without texts of its own has none, rather than empty ones."""
    translations = content["study"]["translations"]
    for tag in [tag for tag in translations if tag not in config.study.translations]:
        if not any(translations[tag].values()):
            del translations[tag]
