"""All commands: help, output, exit codes, choice of the database, any working folder."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hsfiq import __version__, cli
from hsfiq.cli import reference
from hsfiq.errors import UnreadableInput
from tests.hsfiq.samples import FASHIONIQ, HPFIQ, RUNS, hsfiq
from tests.studies import own_environment


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HSFIQ_DATABASE_URL", raising=False)


def commands() -> Iterator[tuple[str, object]]:
    return reference.commands(cli.root_command(), "hsfiq")


COMMANDS = dict(commands())
LEAVES = {path: command for path, command in COMMANDS.items() if not hasattr(command, "commands")}


# ------------------------------------------------------------------------------------------ help


@pytest.mark.parametrize("path", COMMANDS)
def test_every_command_has_help(path: str) -> None:
    for option in ("--help", "-h"):
        command = hsfiq(*path.split()[1:], option)
        assert (command.code, command.err) == (0, "")
        assert command.out.lstrip().startswith(f"Usage: {path}")
        assert re.findall("<(?:int|float|str|path)", command.out) == []


@pytest.mark.parametrize("path", [path for path in COMMANDS if path not in LEAVES])
def test_lists_of_commands_have_whole_sentences(path: str) -> None:
    _usage, *lines = hsfiq(*path.split()[1:], "--help").out.splitlines()
    assert [line for line in lines if line.endswith("...") or len(line) > 80] == []


@pytest.mark.parametrize("path", LEAVES)
def test_every_command_has_an_example_that_parses(path: str) -> None:
    epilog = str(LEAVES[path].epilog)  # type: ignore[attr-defined]
    assert epilog.startswith(f"Example: {path}")
    arguments = shlex.split(epilog.removeprefix(f"Example: {path}"))
    names = ["-h", "--help"]  # commands are built once, and keep the first
    LEAVES[path].make_context(path, arguments, help_option_names=names)  # type: ignore[attr-defined]


def test_a_group_alone_shows_its_help() -> None:
    assert hsfiq("--version").out == f"hsfiq {__version__}\n"
    for words in ([], ["db"], ["import"], ["study"]):
        command = hsfiq(*words)
        assert (command.code, command.out) == (2, "")
        assert command.err.lstrip().startswith(" ".join(["Usage: hsfiq", *words]))
        assert ("\nCommands:\n" if words else "\nRun a server:\n") in command.err


# ------------------------------------------------------------------------------ output and codes


def test_results_on_stdout_and_everything_else_on_stderr(need: Callable[..., None]) -> None:
    imported = hsfiq("import", "fashioniq", FASHIONIQ, "--json")
    assert imported.result["shirt.val"] == {"added": 3, "already": 0, "replaced": 0}
    assert imported.err.startswith("18 of 18 images are missing")
    for words, expected in (
        (("hpfiq", HPFIQ), {"study hpfiq": {"added": 5, "already": 0, "replaced": 0}}),
        (
            ("runs", RUNS / "sprc.trec"),
            {"dataset fashioniq": {"added": 2, "already": 0, "replaced": 0}},
        ),
    ):
        assert hsfiq("import", *words, "--json").result == expected
    (listed,) = hsfiq("study", "list", "--json").result["studies"]
    assert (listed["study"], listed["status"], listed["answered"]) == ("hpfiq", "closed", 5)
    status = hsfiq("study", "status", "--json").result
    assert status == status | listed
    exported = hsfiq("export", "--filter-invalid", "--json")
    assert exported.err == ""
    assert [release["kept"] for release in exported.result["releases"]] == [5, 4]
    need("pandas")
    analyzed = hsfiq("analyze", "--metric", "recall@5", "--json")
    assert analyzed.err == "analyzing releases/hpfiq-hp-1.0.0\n"
    assert analyzed.result["release"]["n_questions"] == 4


def test_text_results() -> None:
    hsfiq("import", "hpfiq", HPFIQ)
    listed = hsfiq("study", "list").out
    assert listed.splitlines() == [
        "study  status  origin    participants  answered  questions",
        "hpfiq  closed  imported             2         5          5",
    ]
    assert "answered: 5\n" in hsfiq("study", "status").out
    *lines, warning = hsfiq("export", "--release", "hp", "--filter-invalid").out.splitlines()
    assert "  warning: no license set: others may not reuse this release" in warning
    assert lines == [
        "releases/hpfiq-hp-1.0.0: written",
        "  assigned                      5",
        "  unanswered           0        5",
        "  skipped              0        5",
        "  irrelevant                    5  (not recorded)",
        "  contradicts         -1        4",
    ]


def test_exit_code_1_reports_failed_checks() -> None:
    assert hsfiq("export").code == 1
    assert hsfiq("db", "check").code == 1
    hsfiq("import", "fashioniq", FASHIONIQ)
    command = hsfiq("export")
    assert (command.code, command.out) == (1, "")
    assert "holds no study" in command.err
    assert hsfiq("db", "check").code == 0


def test_the_study_must_be_named_if_there_are_several() -> None:
    hsfiq("import", "hpfiq", HPFIQ)
    hsfiq("import", "hpfiq", HPFIQ, "--study", "second")
    unnamed = hsfiq("export")
    assert (unnamed.code, "name one of hpfiq, second" in unnamed.err) == (2, True)
    assert hsfiq("export", "--study", "second", "--release", "hp").code == 0
    assert Path("releases/second-hp-1.0.0/hpfiq.json").read_bytes() == HPFIQ.read_bytes()


# ----------------------------------------------------------------------------------------- debug


@pytest.mark.parametrize("place", [0, 1, 3])
def test_debug_is_accepted_at_any_position(place: int) -> None:
    arguments = ["import", "hpfiq", "absent.json"]
    arguments.insert(place, "--debug")
    with pytest.raises(UnreadableInput, match=r"absent\.json: there is no such file"):
        hsfiq(*arguments)


def run_python(*words: str | Path) -> subprocess.CompletedProcess[str]:
    """Run Python with this checkout; its output, and what it writes to standard error."""
    command = [sys.executable, *map(str, words)]
    return subprocess.run(
        command, env=own_environment(), capture_output=True, text=True, check=False
    )


def test_debug_shows_the_traceback() -> None:
    process = run_python("-m", "hsfiq", "import", "hpfiq", "absent.json", "--debug")
    assert process.returncode != 0
    assert process.stderr.startswith("Traceback")
    assert "absent.json: there is no such file" in process.stderr
    # An unexpected exception keeps its traceback, with or without --debug.
    assert cli.explain(ZeroDivisionError("a defect")) == (None, 1)


def test_messages_contain_no_terminal_control_characters() -> None:
    Path("it.json").write_text(json.dumps({"\x1b[31mred\u202e": 3}))
    command = hsfiq("import", "hpfiq", "it.json")
    assert command.code == 2
    assert r"\x1b[31mred\u202e" in command.err


# ----------------------------------------------------------------------------- which database


def test_precedence_is_command_then_root_then_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def created_databases(*arguments: str | Path) -> set[str]:
        assert hsfiq(*arguments).code == 0
        names = {path.name for path in Path().glob("*.db")}
        for name in names:
            Path(name).unlink()
        return names

    run = ("import", "hpfiq", HPFIQ)
    assert created_databases(*run) == {"hsfiq.db"}
    monkeypatch.setenv("HSFIQ_DATABASE_URL", "sqlite:///variable.db")
    assert created_databases(*run) == {"variable.db"}
    assert created_databases("--database", "sqlite:///root.db", *run) == {"root.db"}
    command = (*run, "--database", "sqlite:///command.db")
    assert created_databases("--database", "sqlite:///root.db", *command) == {"command.db"}
    monkeypatch.setenv("HSFIQ_DATABASE_URL", "")
    assert created_databases(*run) == {"hsfiq.db"}


def test_the_commands_of_the_schema() -> None:
    assert hsfiq("db", "current").code == 1
    assert not Path("hsfiq.db").exists()
    upgraded = hsfiq("db", "upgrade")
    assert (upgraded.code, upgraded.err) == (0, "")
    assert upgraded.out.startswith("sqlite:///hsfiq.db: empty -> ")
    assert "already at" in hsfiq("db", "upgrade").out
    again = hsfiq("db", "upgrade", "--json").result
    assert again["before"] == again["revision"]
    assert upgraded.out.endswith(f" -> {again['revision']}\n")
    assert "(the newest)" in hsfiq("db", "current").out
    assert "the tables match it" in hsfiq("db", "check").out


def test_the_demo_command_writes_simulated_answers(
    need: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    need("PIL")
    monkeypatch.setattr("hsfiq.demo.study.GARMENTS_PER_CATEGORY", 40)
    words = ("demo", "--answers", "3", "--seed", "3", "--dir", "simulated")
    command = hsfiq(*words)
    assert (command.code, command.err) == (0, "")
    assert command.out.endswith("simulated/hsfiq.db: 3 answers by simulated annotators (seed 3)\n")
    url = "sqlite:///simulated/hsfiq.db"
    (study,) = hsfiq("study", "list", "--database", url, "--json").result["studies"]
    assert (study["origin"], study["status"], study["answered"]) == ("simulated", "closed", 3)
    repeated = hsfiq(*words)
    assert (repeated.code, "simulated: already holds a demo" in repeated.err) == (2, True)


# ----------------------------------------------------------------------------- working folder


def test_works_beside_unrelated_packages(need: Callable[..., None]) -> None:
    for name in ("model", "analysis", "migrations", "annotate", "typer", "sqlalchemy"):
        Path(name).mkdir()
        Path(name, "__init__.py").write_text(f"raise SystemExit('a stranger: {name}')")
    Path("migrations", "env.py").write_text("raise SystemExit('a stranger')")
    need("pandas")
    for words, printed in (
        (("import", "hpfiq", HPFIQ), "5 questions added"),
        (("export", "--release", "hp"), "written"),
        (("analyze", "--metric", "recall@5"), "recall@5"),
    ):
        process = run_python("-m", "hsfiq", *words)
        assert (process.returncode, printed in process.stdout) == (0, True), process.stderr
    # The database is a single file after the command.
    shutil.copyfile("hsfiq.db", "copy.db")
    (_, row) = hsfiq("study", "list", "--database", "sqlite:///copy.db").out.splitlines()
    assert row.split()[-2:] == ["5", "5"]


def test_the_reader_of_the_output_may_close_the_pipe() -> None:
    hsfiq("import", "hpfiq", HPFIQ)
    process = subprocess.Popen(
        [sys.executable, "-m", "hsfiq", "study", "list"],
        env=own_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    assert process.stderr.read() == ""
    process.stderr.close()
    assert process.wait() == 1


def test_the_core_needs_no_extra() -> None:
    """Import and export work if no extra can be imported."""
    script = """
import sys
for name in ("gradio", "fastapi", "PIL", "numpy", "pandas", "scipy", "matplotlib", "torch"):
    sys.modules[name] = None
from hsfiq.cli import run
sys.exit(run(["import", "hpfiq", sys.argv[1]]) or run(["export"]) or run(["--help"]))
"""
    process = run_python("-c", script, HPFIQ)
    assert process.returncode == 0, process.stderr
    assert Path("releases/hpfiq-hp-1.0.0/hpfiq.json").read_bytes() == HPFIQ.read_bytes()


def test_the_missing_extra_is_named() -> None:
    script = """
import sys
sys.modules["pandas"] = None
from hsfiq.cli import run
sys.exit(run(["analyze", "releases/mine", "--metric", "recall@5"]))
"""
    process = run_python("-c", script)
    assert (process.returncode, process.stdout) == (2, "")
    assert "pip install 'hsfiq[analysis]'" in process.stderr
