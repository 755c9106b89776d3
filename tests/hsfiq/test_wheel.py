"""The wheel: its content, and that it works without the repository."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from hsfiq import __version__
from hsfiq.db.schema import head_revision
from tests.studies import ROOT

pytestmark = pytest.mark.xdist_group("wheel")  # it is built once

PACKAGES = ("annotate", "analysis", "model", "migrations")
FOLDERS = {ROOT / "hsfiq": Path("hsfiq")} | {ROOT / name: Path("hsfiq", name) for name in PACKAGES}
"""Each folder of the checkout, and where the wheel holds it."""
RAISES = 'raise RuntimeError("a stranger\'s package was imported")\n'


def run(
    *command: str | Path, cwd: Path, path: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command without this checkout on Python's path."""
    own = {"PYTHONPATH", "HSFIQ_DATABASE_URL"}
    inherited = {name: value for name, value in os.environ.items() if name not in own}
    environment = inherited | ({"PYTHONPATH": str(path)} if path else {})
    words = [str(part) for part in command]
    return subprocess.run(
        words, cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )


def succeed(*command: str | Path, cwd: Path, path: Path | None = None) -> str:
    """Run a command that must succeed; its output."""
    process = run(*command, cwd=cwd, path=path)
    assert process.returncode == 0, process.stdout + process.stderr
    return process.stdout


@pytest.fixture(scope="session")
def wheel(need: Callable[..., None], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout."""
    need("build")
    folder = tmp_path_factory.mktemp("wheel")
    try:
        import hatchling  # noqa: F401

        isolation = ["--no-isolation"]
    except ModuleNotFoundError:
        isolation = []  # build fetches it
    succeed(
        *(sys.executable, "-m", "build", "--wheel", *isolation, "--outdir", folder, ROOT),
        cwd=folder,
    )
    (wheel_file,) = folder.glob("*.whl")
    return wheel_file


def test_the_source_distribution_has_what_make_needs(
    need: Callable[..., None], tmp_path: Path
) -> None:
    need("hatchling")
    hatchling = (sys.executable, "-m", "hatchling", "build", "--target", "sdist")
    succeed(*hatchling, "--directory", tmp_path, cwd=ROOT)
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        held = {name.partition("/")[2] for name in opened.getnames()}
    needed = {file.name for file in ROOT.glob("constraints*.txt")} | {
        *("Makefile", "LICENSE", "requirements-server.txt", "requirements-dev.txt"),
        *("package.json", "package-lock.json", "hsfiq/annotate/app.py", "tests/conftest.py"),
    }
    assert needed - held == set()


@dataclass(frozen=True)
class Installed:
    """An installation of the wheel, and a folder with unrelated packages to run it in."""

    command: Path
    folder: Path
    path: Path | None = None

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return run(self.command, *arguments, cwd=self.folder, path=self.path)

    def succeed(self, *arguments: str) -> str:
        return succeed(self.command, *arguments, cwd=self.folder, path=self.path)


def write_published(path: Path, n_questions: int = 3) -> Path:
    """A small file in the published layout."""

    def image(number: int) -> str:
        return f"/-/image_data/shirt/B{number:04d}.jpg"

    def sets(first: int, score: str) -> list[object]:
        return [
            {"img_path": [image(first + 10 * n + rank) for rank in range(5)], "user_score": score}
            for n in range(n_questions)
        ]

    question_set = {
        "ref_img_paths": [image(100 + n) for n in range(n_questions)],
        "targ_img_paths": [image(10 * n) for n in range(n_questions)],
        "sentences": [f"is red and has  {n} dotmark" for n in range(n_questions)],
        "retrieved_set1": sets(0, "5"),
        "retrieved_set2": sets(500, "2"),
        "preferred set": ["1"] * (n_questions - 1) + ["2"],
    }
    path.write_text(json.dumps({"user_1": {"question_set_1": question_set}}, indent=2))
    return path


def folder_with_unrelated_packages(folder: Path) -> Path:
    """A folder with packages of the same names as ours, which must never be imported."""
    for name in ("model", "analysis", "annotate", "migrations", "migrations/versions"):
        (folder / name).mkdir(parents=True)
        (folder / name / "__init__.py").write_text(RAISES)
    for name in ("migrations/env.py", "migrations/versions/0001_theirs.py", "alembic.py"):
        (folder / name).write_text(RAISES)
    (folder / "alembic.ini").write_text("[alembic]\nscript_location = migrations\n")
    write_published(folder / "published.json")
    return folder


# -------------------------------------------------------------------------------------- content


def test_the_wheel_contains_one_package_with_every_file(wheel: Path) -> None:
    """Pages, styles and guidelines too, not only Python modules."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    info = f"hsfiq-{__version__}.dist-info"
    assert {name.partition("/")[0] for name in names} == {"hsfiq", info}
    assert {name.split("/")[1] for name in names if name.startswith(info)} >= {
        "METADATA", "entry_points.txt", "licenses",
    }  # fmt: skip
    strays = ("__pycache__", ".pyc", ".db", "/test_", "conftest")
    assert [name for name in names if any(stray in name for stray in strays)] == []
    sources = {
        (prefix / path.relative_to(folder)).as_posix()
        for folder, prefix in FOLDERS.items()
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    tested_versions = "hsfiq/constraints.txt"
    assert {name for name in names if not name.startswith(info)} == {*sources, tested_versions}


def test_the_extras_of_the_wheel_are_documented(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        lines = archive.read(f"hsfiq-{__version__}.dist-info/METADATA").decode().splitlines()
    extras = {line.split()[-1] for line in lines if line.startswith("Provides-Extra:")}
    assert extras >= {"annotate", "analysis", "postgres", "all", "test", "dev"}
    required = [line for line in lines if line.startswith("Requires-Dist:")]
    core = [line.split()[1] for line in required if "extra ==" not in line]
    assert sorted(re.split("[<>]", name)[0] for name in core) == [
        "alembic", "duckdb", "pyarrow", "python-calamine", "rich", "sqlalchemy", "typer",
        "typing-extensions",
    ]  # fmt: skip


# ----------------------------------------------------------------------------- unrelated packages


@pytest.fixture(scope="session")
def target(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which the wheel is installed, next to the installed packages."""
    folder = tmp_path_factory.mktemp("installed")
    succeed(
        *(sys.executable, "-m", "pip", "install", "--no-deps", "--no-index", "--quiet"),
        *("--no-compile", "--target", folder, wheel),
        cwd=folder,
    )
    return folder


@pytest.fixture(scope="session")
def installed(target: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """The installed command beside unrelated packages."""
    theirs = folder_with_unrelated_packages(tmp_path_factory.mktemp("beside") / "theirs")
    return Installed(target / "bin" / "hsfiq", theirs, target)


@pytest.fixture(scope="session")
def printed(installed: Installed) -> dict[str, str]:
    """What each command prints on the way to a release, which is then in the folder `hp`."""
    return {
        command: installed.succeed(*command.split())
        for command in (
            "db upgrade",
            "db check",
            "import hpfiq published.json",
            "export --release hp --out hp --json",
        )
    }


def test_every_step_works_beside_unrelated_packages(
    installed: Installed, printed: dict[str, str]
) -> None:
    upgraded, checked, imported, exported = printed.values()
    assert upgraded == f"sqlite:///hsfiq.db: empty -> {head_revision()}\n"
    assert "the tables match it" in checked
    assert "3 questions added" in imported
    assert json.loads(exported)["releases"][0]["kept"] == 3
    assert (installed.folder / "hp" / "hpfiq.json").read_bytes() == (
        installed.folder / "published.json"
    ).read_bytes()
    result = json.loads(installed.succeed("analyze", "hp", "--metric", "recall@5", "--json"))
    assert result["release"]["n_questions"] == 3
    output = installed.succeed("study", "list")
    assert output.splitlines()[1].split() == ["hpfiq", "closed", "imported", "1", "3", "3"]


@pytest.mark.usefixtures("printed")
def test_python_m_hsfiq_works_beside_unrelated_packages(installed: Installed, target: Path) -> None:
    module, database = (sys.executable, "-m", "hsfiq"), ("--database", "sqlite:///other.db")
    folder = installed.folder
    succeed(*module, "import", "hpfiq", "published.json", *database, cwd=folder, path=target)
    succeed(*module, "analyze", "hp", "--metric", "recall@5", cwd=folder, path=target)


def test_the_installed_wheel_is_what_runs(installed: Installed, target: Path) -> None:
    code = "import hsfiq.db.schema as d; print(d.__file__); print(d.migrations_folder())"
    printed = succeed(sys.executable, "-P", "-c", code, cwd=installed.folder, path=target)
    assert printed.splitlines() == [
        str(target / "hsfiq" / "db" / "schema.py"),
        str(target / "hsfiq" / "migrations"),
    ]


# --------------------------------------------------------------------------------- without extras


@pytest.fixture(scope="session")
def bare(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The commands' folder of a new environment with the wheel and no extra."""
    folder = tmp_path_factory.mktemp("bare")
    succeed(sys.executable, "-m", "venv", "--without-pip", folder / "venv", cwd=folder)
    scripts = Path(sysconfig.get_path("scripts", "venv", vars={"base": str(folder / "venv")}))
    tested = ROOT / "constraints.txt"
    succeed(
        *(sys.executable, "-m", "pip", "--python", scripts / "python", "--quiet"),
        *("--disable-pip-version-check", "install", "--no-compile", wheel),
        *(("--constraint", tested) if tested.is_file() else ()),
        cwd=folder,
    )
    return scripts


@pytest.fixture
def core(bare: Path, tmp_path: Path) -> Installed:
    """The command without any extra, beside unrelated packages."""
    return Installed(bare / "hsfiq", folder_with_unrelated_packages(tmp_path / "theirs"))


def test_the_core_installs_few_packages(bare: Path, tmp_path: Path) -> None:
    code = (
        "from importlib.metadata import distributions; "
        "print(*sorted(d.name.lower() for d in distributions()))"
    )
    packages = set(succeed(bare / "python", "-P", "-c", code, cwd=tmp_path).split())
    assert packages >= {"hsfiq", "sqlalchemy", "alembic", "typer", "pyarrow"}
    assert packages & {"numpy", "pandas", "torch", "gradio", "pillow", "psycopg"} == set()
    assert len(packages) <= 20


def test_the_core_imports_and_exports(core: Installed) -> None:
    assert "Usage: hsfiq" in core.succeed("--help")
    assert "3 questions added" in core.succeed("import", "hpfiq", "published.json")
    assert "unchanged" in core.succeed("import", "hpfiq", "published.json")
    printed = core.succeed("export", "--filter-invalid")
    assert "releases/hpfiq-hs-1.0.0: written" in printed
    assert "releases/hpfiq-hp-1.0.0: written" in printed
    core.succeed("export", "--release", "hp", "--out", "whole")
    published = core.folder / "published.json"
    assert (core.folder / "whole" / "hpfiq.json").read_bytes() == published.read_bytes()
    assert f"at {head_revision()}" in core.succeed("db", "check")
    examined = core.succeed("doctor")
    assert "gradio, fastapi, uvicorn, pillow not installed" in examined
    assert ": as tested" in examined


def test_the_core_evaluates_ranked_lists(core: Installed) -> None:
    annotations = core.folder / "circo" / "val.json"
    annotations.parent.mkdir()
    query = {"id": 0, "reference_img_id": 4, "relative_caption": "is red", "target_img_id": 7}
    annotations.write_text(json.dumps([query | {"gt_img_ids": [7], "semantic_aspects": []}]))
    (core.folder / "run.json").write_text('{"0": [9, 7]}')
    printed = core.succeed("evaluate", "circo", "--data", "circo", "--run", "run.json", "--json")
    assert json.loads(printed)["map@5"] == 0.5


def test_the_core_says_which_extra_a_command_needs(core: Installed) -> None:
    for arguments, extra in (
        ("analyze published.json --metric recall@5", "analysis"),
        ("serve", "annotate"),
        ("demo --dir demo", "annotate"),
        ("db upgrade --database postgresql://localhost/hsfiq", "postgres"),
        ("study list --database postgresql://localhost/hsfiq", "postgres"),
    ):
        process = core.run(*arguments.split())
        assert (process.returncode, process.stdout) == (2, "")
        (line,) = process.stderr.splitlines()
        assert line.startswith("hsfiq: ")
        assert f"pip install 'hsfiq[{extra}]'" in line
    assert not (core.folder / "demo").exists()
    assert not (core.folder / "hsfiq.db").exists()
