"""Input whose messages used to be unclear: each is told in one line, before anything else."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsfiq.text import spreadsheet_text
from tests.hsfiq.samples import hsfiq

LONG = "9" * 6000


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ("train zzz", "'zzz': there is no such recipe; choose from cirqrs-fashioniq"),
        ("study list --database=", "--database: is empty"),
        ("--database= study list", "--database: is empty"),
        (f"serve --port {LONG}", "'--port': the number has too many digits"),
        ("analyze x --resamples 1000000", "'--resamples'"),
        ("sessions measure x --resamples 1000000", "'--resamples'"),
        (
            "account invite kim --role king",
            "'king' is not one of 'owner', 'analyst', 'helper'. (see",
        ),
        ("account role kim ': Value error, x'", "Invalid value for 'ROLE': ': Value error, x' is"),
        ("export --release king", "--release: 'king' is not one of hs, hp, single,"),
        (
            "import queries",
            "Missing argument 'FILE'; option '--images'; option '--dataset' (see `hs",
        ),
        ("study message", "Missing argument 'NAME'; argument 'TEXT' (see `hsfiq"),
        ("study message autumn", "Missing argument 'TEXT' (see `hsfiq"),
        ("import queries x.csv --dataset=d", "Missing option '--images' (see `hsfiq"),
    ],
)
def test_the_message_names_all_that_is_wrong_or_missing(words: str, complaint: str) -> None:
    result = hsfiq(*shlex.split(words))
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert complaint in result.err
    assert len(result.err) < 500


def test_a_number_of_thousands_of_digits_in_a_file(tmp_path: Path) -> None:
    study, sessions = tmp_path / "study.toml", tmp_path / "sessions.jsonl"
    study.write_text(f'[study]\nname = "a"\n[design]\nk = {LONG}\n')
    sessions.write_text(f'{{"session_id": {LONG}}}\n')
    database = ["--database", f"sqlite:///{tmp_path}/a.db"]
    assert hsfiq("db", "upgrade", *database).code == 0
    for words in (["study", "create", study, *database], ["sessions", "measure", sessions]):
        result = hsfiq(*words)
        assert (result.code, result.err.count("\n")) == (2, 1)
        assert "a number is too long" in result.err


def test_no_cell_is_run_by_a_spreadsheet() -> None:
    """Also where semicolons separate cells."""
    for text in ("=1+1", "+1", "-x", "@SUM(A1)", "\tx", "\rx", "\nx", "'=1"):
        assert spreadsheet_text(text) == f"'{text}"
    for text in ("is red", "", "a=b", "a; b", "1 - 2"):
        assert spreadsheet_text(text) == text
    assert spreadsheet_text('red;=1+1; "@x') == "red;'=1+1; \"'@x"
    assert spreadsheet_text("\uff1d1+1\n\uff0d2") == "'\uff1d1+1\n'\uff0d2"
    assert spreadsheet_text("  +1") == "  '+1"


@given(st.text("=-;\t\n\"' a\uff1d", max_size=8))
def test_the_text_comes_back_without_the_added_apostrophes(text: str) -> None:
    assert re.sub(r"""(^|[;\t\r\n])(["\s]*)'""", r"\1\2", spreadsheet_text(text)) == text


def test_a_table_that_cannot_be_read_says_what_to_do(tmp_path: Path) -> None:
    options = ("--images", tmp_path, "--dataset", "d", "--database", f"sqlite:///{tmp_path}/a.db")
    latin = "query_id,text\nq1,caf\xe9\n".encode("latin-1")
    table = tmp_path / "table.csv"
    for content, remedy in (
        (b" \n", "the file is empty; write a first line with the columns"),
        (latin, "save the file as UTF-8 (in Excel: CSV UTF-8)"),
    ):
        table.write_bytes(content)
        complaint = hsfiq("import", "queries", table, *options)
        assert complaint.code == 2
        assert f"{table}: " in complaint.err
        assert remedy in complaint.err


def test_without_a_terminal_the_owners_password_is_read_without_a_warning(tmp_path: Path) -> None:
    database = f"sqlite:///{tmp_path}/a.db"
    assert hsfiq("db", "upgrade", "--database", database).code == 0
    command = [sys.executable, "-m", "hsfiq", "account", "password", "--database", database]

    def set_password(given: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, input=given, capture_output=True, text=True, check=False)

    done = set_password("a-long-password\n")
    assert (done.returncode, done.stderr) == (0, "")
    refused = set_password("")
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert "--from-file" in refused.stderr
