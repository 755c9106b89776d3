"""Which texts of a study are missing in its languages, so that others stand in for them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from sqlalchemy.orm import Session

from hsfiq.db.tables import Study
from hsfiq.study.config import StudyConfig, Translation, config_of, n_sets_of, names_sets
from hsfiq.study.languages.owners_texts import untranslated_texts
from hsfiq.study.languages.standard import LANGUAGES
from hsfiq.study.query_form import query_form
from hsfiq.text import first_few


def fallbacks_of(session: Session, study: Study) -> dict[str, list[str]]:
    """The keys of missing texts by language: of its file, of study.toml, and names of files.

    Short texts are shown in English instead, the others in the study's first language, or in
    English where the app shows its own.
    """
    config, form = config_of(study), query_form(session, study)
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
    if not is_first and names_sets(config) and n_sets_of(config.design) and not own.set_names:
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
