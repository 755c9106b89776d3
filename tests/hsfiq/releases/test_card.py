"""What a release says of itself: licence, citation, what was never recorded; see golden files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hsfiq.db.engine import Database
from hsfiq.db.tables import Study
from hsfiq.releases.card import scalar, size_category, yaml_lines
from hsfiq.study.filters import Filters
from hsfiq.study.publication import Publication, publication_errors
from tests.hsfiq.releases.small_releases import (
    imported,
    only_study,
    small_pair_study,
    write_release,
)
from tests.hsfiq.samples import hsfiq, import_hpfiq, on_sqlite, release_of

ABOUT = '''
[release]
licence = "CC-BY-4.0"
authors = ["Ada Lovelace", "Kim"]
contact = "ada@example.org"
url = "https://example.org/shops"
name = "Garments: preferences"
description = """
Which of two sets people prefer.
"""
'''


def text(card: bytes) -> str:
    return " ".join(card.decode().split())


@on_sqlite
def test_the_published_file_says_what_the_file_lacks(database: Database) -> None:
    import_hpfiq(database)
    release = release_of(database, "hp", Filters(invalid=True))
    card, manifest = text(release.files["README.md"]), json.loads(release.files["manifest.json"])
    for words in (
        "**No license is stated.**",
        "language: - en",
        "kwak2025qure",
        "| flagged irrelevant | 307 | flags were not published |",
        "| preferred set scored lower | 28 (of those left) | 1 (of all) |",
        "null, and not false",
        "(flags were not recorded)",
    ):
        assert words in card
    assert "license:" not in card
    assert "irrelevant" in manifest["not_recorded"]["preferences"]
    dropped = {step["rule"]: step["dropped"] for step in manifest["funnel"]["steps"]}
    assert dropped["irrelevant"] is None
    assert any("no license" in warning for warning in release.warnings)


@on_sqlite
def test_a_panel_is_named_also_after_an_import(database: Database, tmp_path: Path) -> None:
    study = small_pair_study(database)
    panel = {"name": "SONA pool", "person": "id", "complete": "https://secret.test/{person}"}
    with database.writing() as session:
        row = session.get_one(Study, study)
        row.design = row.design | {"recruitment": {"mode": "panel", "panel": panel}}
    folder = write_release(database, study, "hs", tmp_path / "first")
    again = imported(folder, tmp_path / "again.db")
    write_release(again, only_study(again), "hs", tmp_path / "second")
    for name in ("first", "second"):
        files = [path.read_bytes() for path in (tmp_path / name).rglob("*") if path.is_file()]
        assert not any(b"secret.test" in content for content in files)
        assert "Participants were recruited on SONA pool." in text(
            tmp_path.joinpath(name, "README.md").read_bytes()
        )
        manifest = json.loads(tmp_path.joinpath(name, "manifest.json").read_bytes())
        design = manifest["design"]
        assert (design["recruitment"], design["panel"]) == ("panel", "SONA pool")


@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
def test_about_gives_an_imported_study_a_licence(
    database: Database, database_url: str, tmp_path: Path
) -> None:
    import_hpfiq(database)
    (tmp_path / "about.toml").write_text(ABOUT, encoding="utf-8")
    words = ("export", "--database", database_url, "--release", "hp", "--out", tmp_path / "hp")
    assert "warning: no license" in hsfiq(*words).out
    again = hsfiq(*words, "--about", tmp_path / "about.toml", "--version", "1.1.0")
    assert again.code == 2  # another content: it replaces a release only if it is told to
    done = hsfiq(*words, "--about", tmp_path / "about.toml", "--force")
    assert (done.code, "warning" in done.out) == (0, False)
    card = text((tmp_path / "hp" / "README.md").read_bytes())
    assert "license: cc-by-4.0" in card
    assert "author = {Ada Lovelace and Kim}" in card
    assert 'pretty_name: "Garments: preferences 1.0.0"' in card
    assert "# Garments: preferences 1.0.0 Which of two sets people prefer." in card
    assert "title = {{Garments: preferences}}" in card
    assert hsfiq("release", "verify", tmp_path / "hp").code == 0
    croissant = json.loads((tmp_path / "hp" / "croissant.json").read_text(encoding="utf-8"))
    assert croissant["license"] == "https://spdx.org/licenses/CC-BY-4.0.html"
    assert "Ada Lovelace" in croissant["citeAs"]
    assert croissant["description"] == "Which of two sets people prefer.\n"


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ("[study]\nname = 'a'", "has no table [release]"),
        ("[release]\nlicense = 'MIT'", "release.license is not a key here"),
        ("[release]\nauthors = 'Kim'", "release.authors: 'Kim'"),
        ("[release]\nurl = 3", "release.url: 3"),
        ("[release]\nlicence = 'free for all'", "release.licence: 'free for all'"),
        ("[release]\ncitation = 'Kim 2026'", "release.citation: is not a BibTeX entry"),
        ("[release]\ndate = '23.11.2026'", "release.date: '23.11.2026'"),
        ("[release", "broken TOML"),
    ],
)
def test_a_wrong_file_is_one_line(table: str, expected: str, tmp_path: Path) -> None:
    (tmp_path / "about.toml").write_text(table, encoding="utf-8")
    done = hsfiq("export", "--database", "sqlite:///absent.db", "--about", tmp_path / "about.toml")
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert expected in done.err


def test_publication_errors() -> None:
    sound = Publication("MIT", "@misc{a, title = {A}}", ("Kim",), "kim@a.org", "https://a.org")
    assert list(publication_errors(sound)) == []
    wrong = Publication(
        authors=("Kim", " "), contact="a\nb", url="a.org", name="a\nb", description="\x00"
    )
    keys = [key.removeprefix("release.") for key, _ in publication_errors(wrong)]
    assert keys == ["url", "contact", "name", "description", "authors"]


@pytest.mark.parametrize(
    ("n", "category"),
    [(0, "n<1K"), (999, "n<1K"), (1_000, "1K<n<10K"), (10_000_000, "n>10M")],
)
def test_size_categories(n: int, category: str) -> None:
    assert size_category(n) == category


@pytest.mark.parametrize("value", ["plain", "yes", "a: b", "- x", "#", "1.0", 'a"b', "두 가게", ""])
def test_front_matter_is_yaml(value: str, need: Any) -> None:
    need("yaml")
    import yaml

    values = {"text": value, "list": [value], "tables": [{"a": value, "b": True}]}
    assert yaml.safe_load("".join(yaml_lines(values))) == values
    assert yaml.safe_load(scalar(value)) == value
