"""`[release]`: the licence of a study's releases, their authors, and how to cite them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date

LICENCE = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+-]{0,63}")
"""The form of SPDX's ids, such as CC-BY-4.0."""
ADDRESS = re.compile(r"https?://[^\s<>\"]+")
ENTRY = re.compile(r"@\w+\s*\{.*\}", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Publication:
    """`[release]`: what only the owner can say of the study's releases; "" and () are not stated.

    `licence` is an SPDX id (CC-BY-4.0) or the address of its text, `citation` is BibTeX, `contact`
    an e-mail address or a web address, and `date` the day of publication (2026-11-23).
    """

    licence: str = ""
    citation: str = ""
    authors: tuple[str, ...] = ()
    contact: str = ""
    url: str = ""
    date: str = ""


def publication_errors(publication: Publication) -> Iterator[tuple[str, str]]:
    """What is wrong, by the key of study.toml."""
    licence = publication.licence
    if licence and not LICENCE.fullmatch(licence) and not ADDRESS.fullmatch(licence):
        yield (
            "release.licence",
            f"{licence!r} is neither an SPDX id such as CC-BY-4.0 nor an address",
        )
    if publication.citation and not ENTRY.fullmatch(publication.citation.strip()):
        yield "release.citation", "is no BibTeX entry such as @article{key, title = {...}}"
    if publication.url and not ADDRESS.fullmatch(publication.url):
        yield "release.url", f"{publication.url!r} is no address such as https://example.org"
    if publication.date and not is_date(publication.date):
        yield "release.date", f"{publication.date!r} is no day such as 2026-11-23"
    if "\n" in publication.contact:
        yield "release.contact", "has a line break"
    if any(not author.strip() or "\n" in author for author in publication.authors):
        yield "release.authors", "has an empty name, or one with a line break"


def is_date(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def licence_address(licence: str) -> str:
    """Where the text of a licence is."""
    return licence if ADDRESS.fullmatch(licence) else f"https://spdx.org/licenses/{licence}.html"
