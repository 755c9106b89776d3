"""`hsfiq study texts`: what a translator has to translate for a study."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from hsfiq.errors import FileErrors, UnreadableInput

if TYPE_CHECKING:
    from hsfiq.study.config import QueryForm, StudyConfig


def register(app: typer.Typer) -> None:
    app.command("texts", epilog="Example: hsfiq study texts study.toml --language de")(texts)


def texts(
    config: Annotated[Path, typer.Argument(metavar="CONFIG.toml", help="The study's file.")],
    language: Annotated[
        str, typer.Option(metavar="TAG", help="The language to translate to: de, pt-BR.")
    ],
    part: Annotated[
        Literal["short", "guidelines", "consent"],
        typer.Option(help="The short texts as JSON, or a long text as Markdown."),
    ] = "short",
    queries: Annotated[
        Literal["composed", "text", "image"],
        typer.Option(help="What the study's queries consist of: a text, an image, or both."),
    ] = "composed",
) -> None:
    """Print the texts that a language lacks: the short ones in English, with their keys.

    Texts in the language file beside CONFIG.toml are left out.
    """
    from hsfiq.study.config_file import read_config
    from hsfiq.study.languages import is_tag

    if not is_tag(language):
        raise UnreadableInput("--language", f"{language!r} is not a tag such as de or pt-BR")
    wanted = read_config(config, needs_language_files=False)
    if part == "short":
        path = config.with_name(f"{language}.json")
        typer.echo(missing_as_json(path, language, queries, wanted))
    else:
        typer.echo(long_text(wanted, part, queries))


def missing_as_json(path: Path, language: str, form: QueryForm, config: StudyConfig) -> str:
    """The missing texts in the structure of a language file, those of the owner as they are."""
    from hsfiq.study.languages import nested, read_language_file, untranslated_texts

    own, errors = read_language_file(path, config) if path.is_file() else ({}, [])
    if errors:
        raise FileErrors(errors)
    missing = untranslated_texts(config, language, form, own)
    if "name" in missing:
        missing["name"] = language
    return json.dumps(nested(missing), ensure_ascii=False, indent=2)


def long_text(config: StudyConfig, part: Literal["guidelines", "consent"], form: QueryForm) -> str:
    """The study's own guidelines or consent, otherwise the standard ones in English."""
    from hsfiq.annotate import texts as standard
    from hsfiq.study.instrument import page_texts
    from hsfiq.study.languages import overlaid, worded_texts

    own: str = getattr(config.study, part).strip()
    if own:
        return own
    kind = config.design.kind
    texts = worded_texts("en", form, kind)
    names = standard.set_names(config, texts["sets"])
    page = overlaid(texts["page"], page_texts(config.wording))
    if part == "consent":
        return standard.standard_consent("en", config, texts["entry"], page)
    file = standard.guidelines_file("en", form, kind)
    return standard.standard_guidelines(file, config, names, page).rstrip()
