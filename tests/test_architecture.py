"""Import contracts, cycles, and what `--help` imports."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from functools import cache
from graphlib import TopologicalSorter
from importlib import import_module
from operator import attrgetter
from pathlib import Path

import grimp
import pytest

from hsfiq.kinds import KINDS
from tests.studies import ROOT, own_environment

HEAVY = {
    *("torch", "gradio", "fastapi", "pandas", "numpy", "scipy", "matplotlib", "PIL"),
    *("sqlalchemy", "alembic", "pyarrow", "psycopg"),
    *("hsfiq.annotate", "hsfiq.analysis", "hsfiq.model"),
}

VIOLATIONS = {
    "hsfiq/ids.py": "import hsfiq.readers",
    "hsfiq/annotate/cookies.py": "import hsfiq.annotate.app",
    "hsfiq/analysis/json_results.py": "import hsfiq.analysis.reports",
    "hsfiq/model/runtime.py": "import hsfiq.model.scorer",
    "hsfiq/study/design.py": "import hsfiq.analysis.json_results",
    "hsfiq/text.py": "import torch",
}
"""One violation for each contract, in their order."""


def lint_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    """Check the contracts on the packages in a folder."""
    code = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    return subprocess.run(
        [sys.executable, "-c", code, "--no-cache"],
        cwd=folder,
        env=own_environment(PYTHONPATH=str(folder)),
        capture_output=True,
        text=True,
        check=False,
    )


KIND_NAMED_IN = {
    "analysis/data/kind_release.py", "annotate/static/page/search.js", "hsfiq/cli/release.py",
    "hsfiq/db/tables.py", "hsfiq/demo/arena.py", "annotate/templates/studio_kinds.html",
}  # fmt: skip
"""The files that tell question kinds apart by name, besides their modules, lists and texts.

One has a picture of each kind.
"""


def test_few_files_name_a_question_kind() -> None:
    """A kind that is added needs no change in them."""
    names = "|".join(KINDS)
    named = re.compile(rf"""kind\b[^"'\n]*["']({names})["']""")
    lists = {"analysis/kinds/__init__.py", "annotate/static/page/question.js"}
    own = re.compile(r"hsfiq/kinds/|analysis/kinds/|annotate/static/page/kind_")
    found = {
        path
        for folder in ("hsfiq", "annotate", "analysis", "model")
        for file in (ROOT / folder).rglob("*")
        if file.suffix in (".py", ".js", ".html")
        and named.search(file.read_text(encoding="utf-8"))
        and (path := file.relative_to(ROOT).as_posix()) not in lists
        and not own.match(path)
    }
    assert found == KIND_NAMED_IN


def test_commands_print_through_the_filter_of_control_characters() -> None:
    """But the version and errors, which are filtered themselves, and a text to translate."""
    used = {
        path.name: path.read_text(encoding="utf-8").count("typer.echo")
        for path in (ROOT / "hsfiq" / "cli").glob("*.py")
    }
    expected = {"__init__.py": 3, "common.py": 1, "running_study.py": 1}
    assert {name: n for name, n in used.items() if n} == expected


SUBPACKAGES = {"annotate", "analysis", "model"}

ELSEWHERE = {"alembic.py", "utils_features.py", "hsfiq.encoders", "hsfiq.judges"}
"""Names of files of other projects, and of groups of entry points."""


def named_modules(text: str) -> set[str]:
    """The files `folder/module.py`, and the dotted names below a package, between backticks."""
    files = re.findall(r"`([\w/]+\.py)`", text)
    dotted = re.findall(r"`((?:hsfiq|annotate|analysis|model)(?:\.[a-z]\w*)+)[`(]", text)
    return {*files, *dotted} - ELSEWHERE


def test_modules_that_docstrings_name_exist() -> None:
    files = [
        file.relative_to(ROOT)
        for folder in ("hsfiq", *SUBPACKAGES)
        for file in (ROOT / folder).rglob("*.py")
    ]
    paths = {f"/{file.as_posix()}" for file in files}
    modules = {".".join(file.with_suffix("").parts).removesuffix(".__init__") for file in files}

    def exists(name: str) -> bool:
        if name.endswith(".py"):
            return any(path.endswith(f"/{name}") for path in paths)
        first, _, rest = name.partition(".")
        module = rest if first == "hsfiq" and rest.partition(".")[0] in SUBPACKAGES else name
        return bool({module, module.rpartition(".")[0]} & modules)

    missing = {
        f"{file}: {name}"
        for file in files
        for name in named_modules((ROOT / file).read_text(encoding="utf-8"))
        if not exists(name)
    }
    assert missing == set()


def test_the_import_contracts_hold(need: Callable[..., None]) -> None:
    need("importlinter")
    process = lint_imports(ROOT)
    assert process.returncode == 0, process.stdout + process.stderr
    assert f"{len(VIOLATIONS)} kept, 0 broken" in process.stdout


def test_analysis_uses_of_hsfiq_only_rules_and_the_reader_of_release_folders() -> None:
    imported = re.compile(r"^\s*(?:from|import) (hsfiq\.(?!analysis)[\w.]+)", re.MULTILINE)
    names = {
        name
        for file in (ROOT / "analysis").rglob("*.py")
        for name in imported.findall(file.read_text(encoding="utf-8"))
    }
    assert names == {"hsfiq.answer_rules", "hsfiq.errors", "hsfiq.releases.folder", "hsfiq.text"}


def test_a_release_folder_is_read_without_a_database() -> None:
    code = "import sys, hsfiq.releases.folder; sys.exit('sqlalchemy' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], env=own_environment(), check=True)


def test_each_contract_can_fail(need: Callable[..., None], tmp_path: Path) -> None:
    need("importlinter")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    shutil.copytree(ROOT / "hsfiq", tmp_path / "hsfiq")
    for path, line in VIOLATIONS.items():
        file = tmp_path / path
        file.write_text(f"{file.read_text()}\n{line}\n")
    process = lint_imports(tmp_path)
    assert process.returncode == 1, process.stdout + process.stderr
    assert f"0 kept, {len(VIOLATIONS)} broken" in process.stdout


HELPS = [
    "--help",
    "--version",
    "db --help",
    "import --help",
    "import hpfiq --help",
    "export --help",
    "analyze --help",
    "demo --help",
    "evaluate --help",
    "evaluate fashioniq --help",
    "serve --help",
    "study list --help",
]

IMPORTED = """
import contextlib, io, json, os, sys
from hsfiq.cli import run

def examined(words):
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        code = run(words)
    names = {name if name.startswith("hsfiq.") else name.partition(".")[0] for name in sys.modules}
    return [code, output.getvalue(), sorted(names)]

for arguments in sys.argv[1:]:
    process = os.fork()  # each command in a process that no other has run in
    if process == 0:
        print(json.dumps([arguments, examined(arguments.split())]), flush=True)
        os._exit(0)
    os.waitpid(process, 0)
"""


@pytest.fixture(scope="module")
def helps() -> dict[str, tuple[int, str, list[str]]]:
    """The exit code, the output and the imported modules of each command in a new interpreter."""
    process = subprocess.run(
        [sys.executable, "-c", IMPORTED, *HELPS],
        env=own_environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    return dict(map(json.loads, process.stdout.splitlines()))


@pytest.mark.parametrize("arguments", HELPS)
def test_help_imports_no_package_and_nothing_heavy(
    arguments: str, helps: dict[str, tuple[int, str, list[str]]]
) -> None:
    code, output, modules = helps[arguments]
    assert code == 0
    assert "hsfiq" in output
    assert HEAVY & set(modules) == set()


# ------------------------------------------------------------------------------------- structure


def test_there_are_no_import_cycles(need: Callable[..., None]) -> None:
    need("grimp")
    import grimp

    graph = grimp.build_graph("hsfiq", cache_dir=None)
    imports = {
        module: sorted(graph.find_modules_directly_imported_by(module)) for module in graph.modules
    }
    TopologicalSorter(imports).prepare()  # raises CycleError and names the modules


# -------------------------------------------------------------- docs/contributing/architecture.md

DOCUMENT = (ROOT / "docs" / "contributing" / "architecture.md").read_text(encoding="utf-8")
PATHS = re.findall(r"(?ms)^### (Path: [^\n]+)\n(.*?)(?=^##|\Z)", DOCUMENT)
STEP = re.compile(r"^\d+\. `([\w/.]+)`(?:: `([\w.]+)`)?", re.MULTILINE)


OWN_TABLES = {"__main__", "annotate", "analysis", "model"}
"""Modules of hsfiq that its table leaves out: packages with a table each, and the start."""


@pytest.mark.parametrize("package", ["hsfiq", "hsfiq.annotate", "hsfiq.analysis", "hsfiq.model"])
def test_the_layers_are_documented(package: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (layers,) = (
        [set(layer.split(" | ")) - OWN_TABLES for layer in contract["layers"]]
        for contract in project["tool"]["importlinter"]["contracts"]
        if contract.get("containers") == [package]
    )
    (rows,) = re.findall(rf"(?m)^\| `{package}` \| job \|\n\|---\|---\|\n((?:\|.*\n)+)", DOCUMENT)
    names = [set(re.findall(r"`(\w+)`", row.split("|")[1])) for row in rows.splitlines()]
    assert names == [layer for layer in layers if layer]


@pytest.mark.parametrize(
    "package",
    ["gradio", "sqlalchemy", "alembic", "torch", "lavis", "pandas", "scipy", "pingouin", "PIL"],
)
def test_commands_use_the_packages_that_the_project_is_built_on(package: str) -> None:
    assert imports().chain_exists("hsfiq.cli", package, as_packages=True)


@cache
def imports() -> grimp.ImportGraph:
    """What each module imports, also from other packages, and also when it runs."""
    return grimp.build_graph("hsfiq", include_external_packages=True, cache_dir=None)


def test_seven_paths_are_documented() -> None:
    assert len(PATHS) == 7


@pytest.mark.parametrize(("path", "text"), PATHS, ids=[title for title, _ in PATHS])
def test_the_files_and_names_of_a_path_exist(path: str, text: str) -> None:
    steps = STEP.findall(text)
    assert len(steps) >= 3
    for file, name in steps:
        assert (ROOT / file).is_file(), f"{path}: {file}"
        if file.endswith(".py"):
            parts = Path(file).with_suffix("").parts
            module = import_module(".".join(parts if parts[0] == "hsfiq" else ("hsfiq", *parts)))
            assert name, f"{path}: {file} needs a name"
            attrgetter(name)(module)


def test_each_revision_of_the_schema_follows_one_other() -> None:
    """Two that follow the same one cannot both be applied."""
    files = sorted((ROOT / "migrations" / "versions").glob("*.py"))
    pattern = r'(?m)^revision: str = "(\d+)"\ndown_revision: str \| None = (?:"(\d+)"|None)$'
    links = [link for file in files for link in re.findall(pattern, file.read_text())]
    revisions = [revision for revision, _ in links]
    assert revisions == [file.name[:4] for file in files]
    assert [previous for _, previous in links] == ["", *revisions[:-1]]
