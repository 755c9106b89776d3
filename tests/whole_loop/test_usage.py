"""Wrong usage of `hsfiq demo --full` is reported before any step."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import pytest

from hsfiq import cli
from hsfiq.demo.loop import wrap


@pytest.mark.parametrize(
    "words", [("--answers", "10"), ("--simulated",), ("--participants", "3"), ("--split", "test")]
)
def test_incompatible_options_are_refused(
    words: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert_refused_first(tmp_path, words, f"{words[0]}: cannot be used with --full", capsys)


def test_folders_must_be_empty(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mine.txt"
    file.touch()
    assert_refused(
        ["--dir", str(tmp_path)], f"{tmp_path}: is not empty; name another --dir", capsys
    )
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
    message = f"{file}: exists and is not a folder; name another --dir"
    assert_refused(["--dir", str(file)], message, capsys)


def test_a_taken_port_is_reported_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        message = f"127.0.0.1:{port}: cannot be used (Address already in use); choose another"
        assert_refused_first(tmp_path, ("--port", str(port)), message, capsys)


@pytest.mark.parametrize("seed", [-4, 2**63])
def test_a_seed_that_training_refuses_is_reported_before_any_step(
    seed: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    message = f"--seed: {seed} is not from 0 to {2**63 - 1}"
    assert_refused_first(tmp_path, ("--seed", str(seed)), message, capsys)


def test_a_missing_package_is_reported_before_any_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    assert_refused_first(tmp_path, (), "torch is not installed, and this", capsys)


def test_paths_are_not_wrapped() -> None:
    for path in ("a-folder/with-hyphens" * n for n in range(1, 10)):
        assert path in wrap(f"Some words before it, and then {path} and more.").split()


def assert_refused(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Require that the command prints one line that begins so, and nothing else."""
    assert cli.run(["demo", "--full", "--no-open", *words]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith(f"hsfiq: {message}")


def assert_refused_first(
    folder: Path, words: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The demo's folder is not even made."""
    assert_refused(["--dir", str(folder / "demo"), *words], message, capsys)
    assert not (folder / "demo").exists()
