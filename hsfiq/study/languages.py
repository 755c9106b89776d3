"""The languages of a study's pages: tags, texts, plural forms and directions."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

from sqlalchemy.orm import Session

from hsfiq.db.tables import Study
from hsfiq.errors import UnreadableInput
from hsfiq.kinds import DEFAULT_KIND, KINDS
from hsfiq.readers.files import read_json
from hsfiq.study.config import (
    QueryForm,
    Questionnaire,
    StudyConfig,
    Translation,
    config_of,
    n_sets_of,
    query_form,
)
from hsfiq.study.instrument import ExtraQuestion, Instrument, page_texts
from hsfiq.text import first_few, is_storable_text

# The texts in `annotate/languages`: the standard ones, and the structure of the owner's files.
#
# The texts of a language are nested: `page` for the question page, `entry` for the plain pages
# before it, `sets` for the usual names of sets, and one part for each overlay, such as
# `text_queries` or `single_questions`, which replaces some of them.

FOLDER = Path(__file__).parents[1] / "annotate" / "languages"
LANGUAGES = ("en", "ko")
"""The languages whose texts are complete; others fall back to the first."""

PARTS = ("page", "entry", "sets")
OVERLAYS = (
    *("text_queries", "image_queries"),
    *(f"{kind}_questions" for kind in KINDS if kind != DEFAULT_KIND),
)

BEFORE_A_STUDY = frozenset(
    {
        *("page.no_access", "page.no_access_text", "page.to_welcome"),
        *("entry.welcome", "entry.no_study_title", "entry.no_study", "entry.to_welcome"),
        *("entry.unknown_browser_title", "entry.unknown_browser", "entry.no_cookies"),
        *("entry.unknown_link_title", "entry.unknown_link"),
        *("entry.other_site_title", "entry.other_site"),
        *("entry.other_platform_study_title", "entry.other_platform_study"),
        "entry.other_platform_study_help",
    }
)
"""What is read before it is known which study somebody belongs to: never in the owner's words."""

Texts = Mapping[str, Any]


@cache
def read(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")


@cache
def standard_texts(language: str, instrument: Instrument = "hsfiq-2") -> dict[str, Any]:
    """The texts of a language with all overlays; none if it is not one of `LANGUAGES`."""
    if language not in LANGUAGES:
        return {}
    content: dict[str, Any] = json.loads(read(f"{language}.json"))
    content |= {name: json.loads(read(f"{name}.{language}.json")) for name in OVERLAYS}
    if instrument == "papers":
        return overlaid(content, json.loads(read(f"papers.{language}.json")))
    return content


def overlays_for(form: QueryForm, kind: str) -> list[str]:
    """The overlays that apply to a study's queries and its question kind, the last one first."""
    names = [f"{kind}_questions", f"{form}_queries"]
    return [name for name in names if name in OVERLAYS]


def overlaid(values: Texts, others: Texts) -> dict[str, Any]:
    """The values with those of `others` in their place, at every level."""
    return dict(values) | {
        key: overlaid(values.get(key, {}), other) if isinstance(other, dict) else other
        for key, other in others.items()
    }


def worded_texts(
    language: str,
    form: QueryForm,
    kind: str = DEFAULT_KIND,
    own: Texts | None = None,
    instrument: Instrument = "hsfiq-2",
) -> dict[str, Any]:
    """The short texts for a study's queries and its kind; `own` are the owner's in the language.

    What is missing is in English. That is decided in each overlay, so that a text for other queries
    never stands in for one that is missing.
    """
    texts = overlaid(standard_texts(LANGUAGES[0], instrument), standard_texts(language, instrument))
    texts = overlaid(texts, own or {})
    worded = {part: texts[part] for part in PARTS}
    for name in reversed(overlays_for(form, kind)):
        worded = overlaid(worded, texts[name])
    return worded


def own_name(language: str, own: Texts | None = None) -> str:
    """What a language is called in itself; its tag if nobody has said."""
    named = (own or {}).get("name") or standard_texts(language).get("name")
    return str(named or language)


def leaves(texts: Texts, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The texts and lists of texts, by their dotted keys."""
    for key, value in texts.items():
        if isinstance(value, dict):
            yield from leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def nested(texts: Texts) -> dict[str, Any]:
    """Texts by dotted keys as objects within objects."""
    objects: dict[str, Any] = {}
    for key, text in texts.items():
        *parents, name = key.split(".")
        place = objects
        for parent in parents:
            place = place.setdefault(parent, {})
        place[name] = text
    return objects


def missing_texts(
    language: str,
    form: QueryForm,
    kind: str,
    own: Texts,
    instrument: Instrument = "hsfiq-2",
) -> dict[str, Any]:
    """The texts in English that such a study shows in a language for lack of others, by key."""
    translated = dict(leaves(overlaid(standard_texts(language), own)))
    english, overlays = standard_texts(LANGUAGES[0], instrument), overlays_for(form, kind)
    overlaying: set[str] = set()
    shown: dict[str, Any] = {}
    for name in overlays:
        texts = dict(leaves(english[name]))
        shown |= {f"{name}.{key}": text for key, text in texts.items() if key not in overlaying}
        overlaying |= texts.keys()
    base = {part: english[part] for part in ("name", *PARTS)}
    usual = {key: text for key, text in leaves(base) if key not in overlaying}
    return {
        key: text
        for key, text in (usual | shown).items()
        if key not in translated and key not in BEFORE_A_STUDY
    }


# The owner's texts in study.toml that a language file may translate, in the structure of one.

LISTS = ("after_each", "at_end")


def owners_texts(config: StudyConfig) -> dict[str, Any]:
    """What `[wording]`, `[practice]` and `[questionnaire]` say in the study's first language."""
    texts: dict[str, Any] = {"page": page_texts(config.wording)}
    if config.practice.explanation.strip():
        texts["practice"] = {"explanation": config.practice.explanation}
    asked: dict[str, Any] = {"note": config.questionnaire.note} if config.questionnaire.note else {}
    for name in LISTS:
        if questions := getattr(config.questionnaire, name):
            asked[name] = {question.name: texts_of(question) for question in questions}
    return texts | ({"questionnaire": asked} if asked else {})


def texts_of(question: ExtraQuestion) -> dict[str, Any]:
    options = {"options": list(question.options)} if question.options else {}
    return {"text": question.text, **options}


def translated_questionnaire(
    questionnaire: Questionnaire, texts: Mapping[str, Any]
) -> Questionnaire:
    """The questions in the language of `texts`; untranslated questions stay as they are."""
    own = texts.get("questionnaire", {})
    return Questionnaire(
        note=own.get("note", questionnaire.note),
        after_each=translated(questionnaire.after_each, own.get("after_each", {})),
        at_end=translated(questionnaire.at_end, own.get("at_end", {})),
    )


def translated(
    questions: Iterable[ExtraQuestion], texts: Mapping[str, Mapping[str, Any]]
) -> tuple[ExtraQuestion, ...]:
    return tuple(
        replace(
            question,
            text=texts.get(question.name, {}).get("text", question.text),
            options=tuple(texts.get(question.name, {}).get("options", question.options)),
        )
        for question in questions
    )


def untranslated_texts(
    config: StudyConfig, language: str, form: QueryForm, own: Mapping[str, Any]
) -> dict[str, Any]:
    """The texts, by dotted key, that are shown in another language; `own` are the file's.

    The owner's texts of study.toml are in the study's first language.
    """
    instrument = config.study.instrument
    missing = missing_texts(language, form, config.design.kind, own, instrument)
    owners = dict(leaves(owners_texts(config)))
    if language == config.study.language:
        return {key: text for key, text in missing.items() if key not in owners}
    given = dict(leaves(own))
    return missing | {key: text for key, text in owners.items() if key not in given}


# Which texts of a study are missing in its languages, so that others stand in for them.


def fallbacks_of(session: Session, study: Study) -> dict[str, list[str]]:
    """The keys of missing texts by language: of its file, of study.toml, and names of files.

    Short texts are shown in English instead, the others in the study's first language, or in
    English where the app shows its own.
    """
    config, form = config_of(study), query_form(session, study.id)
    missing = {}
    for language in config.study.languages:
        own = config.study.translations.get(language, Translation())
        short = untranslated_texts(config, language, form, own.texts)
        missing[language] = [*_own_texts(config, language, own), *short]
    return missing


def _own_texts(config: StudyConfig, language: str, own: Translation) -> Iterator[str]:
    """The owner's texts that are missing in a language."""
    study, is_first = config.study, language == config.study.language
    if not is_first and not own.title:
        yield f"study.{language}.title"
    if not is_first and study.set_names and n_sets_of(config.design) and not own.set_names:
        yield f"study.{language}.set_names"
    for name in ("guidelines", "consent"):
        general = getattr(study, name).strip()
        translated = general if is_first else getattr(own, name).strip()
        if not translated and (general or language not in LANGUAGES):
            yield f"{name}.{language}.md"


def fallback_warnings(fallbacks: Mapping[str, Sequence[str]], config: str) -> list[str]:
    """A line for each language that lacks texts; `config` is the path of the study's file."""
    return [
        f"language {language}: {len(keys):,} texts are missing, so others stand in for them "
        f"({first_few(keys)}); `hsfiq study texts {config} --language {language}` writes the rest"
        for language, keys in fallbacks.items()
        if keys
    ]


# The owner's language files, `de.json` beside study.toml.

_PLACEHOLDER = re.compile(r"\{(\w+)\}")

_CHOICES = re.compile(r"(^|\.)(anchors|relevance_levels\.\d|options)$")
"""The keys of lists of options."""

LONGEST_TEXT = 2000


def read_language_file(path: Path, config: StudyConfig) -> tuple[dict[str, Any], list[str]]:
    """The texts of a language file, and what is wrong with it: a line for each error.

    It may also translate what the owner says in the rest of `config`; the scale must have as many
    points in every language. An empty file has no texts: `hsfiq study texts ... > de.json` begins
    with one.
    """
    try:
        content = read_json(path) if path.stat().st_size else {}
    except UnreadableInput as error:
        return {}, [str(error)]
    errors = [
        f"{path}: {f'{key}: ' if key else ''}{what}"
        for key, what in language_errors(content, config)
    ]
    return {} if errors else content, errors


def language_errors(content: Any, config: StudyConfig) -> Iterator[tuple[str, str]]:
    """What is wrong with the content of a language file, by its dotted keys."""
    yield from _errors("", content, overlaid(standard_texts(LANGUAGES[0]), owners_texts(config)))


def _errors(key: str, given: Any, english: Any) -> Iterator[tuple[str, str]]:
    """What is wrong with a value, compared with the English one, by its dotted key."""
    if isinstance(english, dict):
        yield from _errors_of_object(key, given, english)
    elif isinstance(english, list):
        yield from _errors_of_list(key, given, english)
    elif not isinstance(given, str):
        yield key, "must be a text"
    else:
        yield from ((key, what) for what in _errors_of_text(given))
        yield from _errors_of_placeholders(key, given, english)


def _errors_of_object(key: str, given: Any, english: Texts) -> Iterator[tuple[str, str]]:
    if not isinstance(given, dict):
        yield key, "must be an object"
        return
    prefix = f"{key}." if key else ""
    for name, value in given.items():
        if name in english:
            yield from _errors(f"{prefix}{name}", value, english[name])
        else:
            known = ", ".join(english) if len(english) <= 12 else "those of the English texts"
            yield f"{prefix}{name}", f"is not a key here; there are {known}"


def _errors_of_list(key: str, given: Any, english: list[str]) -> Iterator[tuple[str, str]]:
    if not isinstance(given, list) or not all(isinstance(text, str) for text in given):
        yield key, "must be a list of texts"
        return
    if len(given) != len(english):
        yield key, f"must be {len(english)} texts, not {len(given)}"
    worded = [text.strip() for text in given if text.strip()]
    if _CHOICES.search(key) and len(set(worded)) < len(worded):
        yield key, "two of them have the same text; give each its own"
    for number, (text, original) in enumerate(zip(given, english, strict=False)):
        if text or original:
            yield from ((f"{key}.{number}", what) for what in _errors_of_text(text))
    yield from _errors_of_placeholders(key, " ".join(given), " ".join(english))


def _errors_of_text(text: str) -> Iterator[str]:
    if not text.strip():
        yield "is empty"
    elif not is_storable_text(text):
        yield "contains characters that cannot be stored"
    elif len(text) > LONGEST_TEXT:
        yield f"is longer than {LONGEST_TEXT:,} characters"


def _errors_of_placeholders(key: str, given: str, english: str) -> Iterator[tuple[str, str]]:
    wanted, used = (set(_PLACEHOLDER.findall(text)) for text in (english, given))
    if missing := sorted(wanted - used):
        yield key, f"the placeholder {_braced(missing)} is missing"
    if unknown := sorted(used - wanted):
        known = f"there is {_braced(sorted(wanted))}" if wanted else "this text has none"
        yield key, f"the placeholder {_braced(unknown)} is unknown; {known}"
    if re.search(r"[{}]", _PLACEHOLDER.sub("", given)):
        yield key, "has a brace that is not part of a placeholder"


def _braced(names: list[str]) -> str:
    return ", ".join(f"{{{name}}}" for name in names)


# Language tags, as BCP 47 defines them.

Direction = Literal["ltr", "rtl"]

LONGEST_TAG = 35

_TAG = re.compile(
    r"(?P<language>[a-z]{2,3})(?:-(?P<script>[A-Z][a-z]{3}))?(?:-(?:[A-Z]{2}|[0-9]{3}))?"
    r"(?:-(?:[a-z0-9]{5,8}|[0-9][a-z0-9]{3}))*"
)
_RTL_SCRIPTS = {"Adlm", "Arab", "Hebr", "Mand", "Mend", "Nkoo", "Rohg", "Samr", "Syrc", "Thaa"}
_RTL_LANGUAGES = {
    *("ar", "arc", "arz", "ckb", "dv", "fa", "glk", "he", "ks", "lrc", "mzn", "nqo", "pnb", "ps"),
    *("sd", "syr", "ug", "ur", "yi"),
}
"""Written from right to left unless the tag names another script."""


def is_tag(text: str) -> bool:
    """Whether this is a tag in its usual spelling: `de`, `pt-BR`, `zh-Hant`."""
    return len(text) <= LONGEST_TAG and _TAG.fullmatch(text) is not None


def direction(tag: str) -> Direction:
    """The direction in which a language is written."""
    match = _TAG.fullmatch(tag)
    if match and match["script"]:
        return "rtl" if match["script"] in _RTL_SCRIPTS else "ltr"
    return "rtl" if match and match["language"] in _RTL_LANGUAGES else "ltr"


def preferred(accept_language: str, offered: Sequence[str]) -> str:
    """The language offered that a header `Accept-Language` prefers; otherwise the first one.

    A tag matches one that is the same, then one that differs only in what follows the language.
    """
    for wanted in _by_preference(accept_language):
        for same in (str.lower, _language):
            for tag in offered:
                if same(tag) == same(wanted):
                    return tag
    return offered[0]


def _language(tag: str) -> str:
    return tag.lower().partition("-")[0]


def _by_preference(accept_language: str) -> list[str]:
    """The tags of the header, the most wanted first; those of quality 0 are not wanted."""
    weighted = []
    for part in accept_language.split(","):
        tag, *parameters = (piece.strip() for piece in part.split(";"))
        quality = next((p[2:] for p in parameters if p.startswith("q=")), "1")
        weight = float(quality) if re.fullmatch(r"[01](\.[0-9]{0,3})?", quality) else 0.0
        if tag and weight > 0:
            weighted.append((weight, tag))
    return [tag for _, tag in sorted(weighted, key=lambda pair: -pair[0])]
