"""`hsfiq secret`: the signing key in a file instead of the database."""

from __future__ import annotations

from pathlib import Path

import pytest

from hsfiq.access import VARIABLE, stored_key
from hsfiq.annotate.cookies import Signer, signer_of
from hsfiq.db.engine import Database
from hsfiq.errors import UnreadableInput
from tests.hsfiq.samples import hsfiq

pytestmark = pytest.mark.parametrize("kind", ["sqlite"], indirect=True)


@pytest.fixture
def file(tmp_path: Path, database_url: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HSFIQ_DATABASE_URL", database_url)
    return tmp_path / "secret"


def test_the_key_leaves_the_database_and_signatures_stay_valid(
    database: Database, database_url: str, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    signed = signer_of(database).sign("a", "text")
    old = stored_key(database)
    assert old is not None
    file = file.with_name("secret\x1b[2J")
    result = hsfiq("secret", "create", file, "--database", database_url)
    assert (result.code, result.err, "\x1b" in result.out) == (0, "", False)
    assert file.stat().st_mode & 0o777 == 0o600
    assert old not in str(stored_key(database))
    with pytest.raises(UnreadableInput, match=f"{VARIABLE}: is not set"):
        signer_of(database)
    monkeypatch.setenv(VARIABLE, str(file))
    assert signer_of(database).read("a", signed) == "text"
    assert signer_of(database).sign("a", "text") != signed
    assert Signer(bytes.fromhex(old)).read("a", signer_of(database).sign("a", "text")) is None
    again = hsfiq("secret", "create", file.with_name("other"), "--database", database_url)
    assert (again.code, again.err.count("\n")) == (2, 1)


def test_a_rotated_key_is_valid_once_more(
    database: Database, database_url: str, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert hsfiq("secret", "create", file, "--database", database_url).code == 0
    monkeypatch.setenv(VARIABLE, str(file))
    first = signer_of(database).sign("a", "text")
    assert hsfiq("secret", "rotate").code == 0
    second = signer_of(database).sign("a", "text")
    assert signer_of(database).read("a", first) == "text"
    assert hsfiq("secret", "rotate", file).code == 0
    assert signer_of(database).read("a", first) is None
    assert signer_of(database).read("a", second) == "text"
    assert hsfiq("secret", "rotate", "--forget").code == 0
    assert signer_of(database).read("a", second) is None
    assert [path.name for path in file.parent.iterdir() if "secret" in path.name] == ["secret"]


def test_a_file_that_cannot_be_used_is_told_in_one_line(
    database: Database, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(file))
    no_key = "holds no signing key"
    for content, mode, words in (
        (None, 0o600, "cannot be read"),
        *((content, 0o600, no_key) for content in ("", "password\n", "é")),
        (f"{'a' * 64}\n", 0o644, "others can read"),
    ):
        if content is not None:
            file.write_text(content)
            file.chmod(mode)
        result = hsfiq("secret", "rotate", file)
        assert (result.code, result.err.count("\n"), words in result.err) == (2, 1, True)
        with pytest.raises(UnreadableInput, match=words):
            signer_of(database)
