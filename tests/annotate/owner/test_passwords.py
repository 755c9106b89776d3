"""Passwords of the dashboard: their hashes, and the command that sets the owner's."""

from __future__ import annotations

from typing import Any

import pytest

from hsfiq.access import matches, new_hash, owner_password
from hsfiq.cli import run
from hsfiq.db.engine import Database
from hsfiq.errors import UnreadableInput
from tests.annotate.owner.studies_in_progress import PASSWORD

SCRYPT_HASH = (
    "scrypt$32768$8$1$000102030405060708090a0b0c0d0e0f$"
    "c72e940880b3f15bff3fa26a3a49140f80ce9a1c4dd2d5d27bab10014071ba94"
)
"""Of `PASSWORD`, as revisions before 0033 stored it."""


def test_a_password_is_kept_as_a_salted_hash_only() -> None:
    hashes = [new_hash(PASSWORD) for _ in range(2)]
    assert hashes[0] != hashes[1]
    for stored in hashes:
        assert stored.startswith("$argon2id$")
        assert PASSWORD not in stored
        assert matches(stored, PASSWORD)
        assert not matches(stored, PASSWORD + " ")
        assert not matches(stored, "")


def test_a_password_from_before_accounts_is_still_right() -> None:
    assert matches(SCRYPT_HASH, PASSWORD)
    assert not matches(SCRYPT_HASH, PASSWORD + " ")


def test_no_password_matches_where_none_is_stored() -> None:
    for password in ("", PASSWORD, "x" * 2000):
        assert not matches(None, password)


def test_composed_and_decomposed_characters_are_the_same_password() -> None:
    assert matches(new_hash("pass-w\u00f6rd-1234"), "pass-wo\u0308rd-1234")
    assert matches(new_hash("o\u0308" * 1000), "o\u0308" * 1000)


@pytest.mark.parametrize("password", ["", "123456789", "x" * 1001])
def test_short_and_very_long_passwords_are_refused(password: str) -> None:
    with pytest.raises(UnreadableInput, match="characters"):
        new_hash(password)


def test_the_command_takes_it_from_a_file(
    database: Database, tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    file, url = tmp_path / "password.txt", str(database.engine.url)
    file.write_text(f"{PASSWORD}\r\n", encoding="utf-8")
    assert run(["owner", "password", "--from-file", str(file), "--database", url]) == 0
    assert "log in at /owner" in capsys.readouterr().out
    with database.reading() as session:
        assert matches(owner_password(session), PASSWORD)
    file.write_text("short\n", encoding="utf-8")
    assert run(["owner", "password", "--from-file", str(file), "--database", url]) == 2
    assert "5 characters" in capsys.readouterr().err
    assert run(["owner", "password", "--from-file", str(tmp_path / "no"), "--database", url]) == 2


def test_the_command_asks_twice_and_shows_nothing(
    database: Database, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    prompts: list[dict[str, Any]] = []

    def prompt(_text: str, **options: Any) -> str:
        prompts.append(options)
        return PASSWORD

    monkeypatch.setattr("typer.prompt", prompt)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    assert run(["owner", "password", "--database", str(database.engine.url)]) == 0
    assert prompts == [{"hide_input": True, "confirmation_prompt": "Repeat it"}]
    assert PASSWORD not in capsys.readouterr().out
