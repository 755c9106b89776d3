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
    assert_refused(
        ["--dir", str(tmp_path / "demo"), *words],
        f"{words[0]}: cannot be used with --full; leave one out",
        capsys,
    )
    assert not (tmp_path / "demo").exists()


def test_a_folder_that_is_not_empty_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mine.txt"
    file.touch()
    assert_refused(
        ["--dir", str(tmp_path)], f"{tmp_path}: is not empty; name another --dir", capsys
    )
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
    message = f"{file}: exists and is not a folder; name another --dir"
    assert_refused(["--dir", str(file)], message, capsys)


def test_a_taken_port_is_reported_before_any_step(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert_refused(
            ["--dir", str(tmp_path / "demo"), "--port", str(port)],
            f"127.0.0.1:{port}: cannot be used (Address already in use); choose another --port",
            capsys,
        )
    assert not (tmp_path / "demo").exists()


@pytest.mark.parametrize("seed", [-4, 2**63])
def test_a_seed_that_training_refuses_is_reported_before_any_step(
    seed: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert_refused(
        ["--dir", str(tmp_path / "demo"), "--seed", str(seed)],
        f"--seed: {seed} is not from 0 to {2**63 - 1}, as training needs; name another",
        capsys,
    )
    assert not (tmp_path / "demo").exists()


def test_a_missing_package_is_reported_before_any_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    assert_refused(
        ["--dir", str(tmp_path / "demo")],
        "torch is not installed, and this command needs it; pip install 'hsfiq[model]'",
        capsys,
    )
    assert not (tmp_path / "demo").exists()


def test_paths_are_not_wrapped() -> None:
    for path in ("a-folder/with-hyphens" * n for n in range(1, 10)):
        assert path in wrap(f"Some words before it, and then {path} and more.").split()


def assert_refused(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Require that the command prints this one line, and nothing else."""
    assert cli.run(["demo", "--full", "--no-open", *words]) == 2
    assert capsys.readouterr() == ("", f"hsfiq: {message}\n")
