"""Dockerfile, compose.yaml and the systemd unit agree with the project.

The package can be built from what the image copies, the health check works, and each `hsfiq`
command can be parsed. Neither Docker nor systemd starts anything here.
"""

from __future__ import annotations

import ipaddress
import json
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
import zipfile
from configparser import ConfigParser
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
import yaml
from sqlalchemy import text
from sqlalchemy.engine import make_url

from hsfiq.annotate.app import plain_app
from hsfiq.annotate.handlers import Services
from hsfiq.cli import root_command
from hsfiq.db.engine import Database
from hsfiq.errors import HsfiqError
from hsfiq.http_server import FILES_KEPT, MOST
from hsfiq.public_url import parsed_url
from tests.conftest import do_without
from tests.hsfiq.samples import on_sqlite
from tests.live_servers import serving
from tests.studies import ROOT, own_environment

DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))
UNIT = ROOT / "deploy" / "hsfiq.service"
PAGES = "".join(
    (ROOT / "docs" / "hosting" / name).read_text(encoding="utf-8")
    for name in ("server.md", "containers.md", "backups.md", "monitoring.md")
)
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

PINNED = re.compile(r"[a-z]+:\d+\.\d+(\.\d+)?-[a-z]+([.-][a-z]+)*")
"""An image with its version and its system."""


def instructions(text: str) -> list[tuple[str, str]]:
    """The instructions of a Dockerfile with their arguments, continued lines joined."""
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    joined = "\n".join(lines).replace("\\\n", " ").splitlines()
    return [tuple(line.split(maxsplit=1)) for line in joined if line.strip()]  # type: ignore[misc]


def arguments_of(name: str) -> list[str]:
    return [rest for instruction, rest in instructions(DOCKERFILE) if instruction == name]


def require_parses(words: list[str]) -> None:
    """Read the words of a command as `hsfiq` does, without running it."""
    command: Any = root_command()
    context = command.make_context("hsfiq", list(words), resilient_parsing=False)
    while hasattr(command, "resolve_command"):
        rest = [*context._protected_args, *context.args]
        name, command, rest = command.resolve_command(context, rest)
        context = command.make_context(name, rest, parent=context)


def test_the_image_is_pinned_small_and_has_no_rights() -> None:
    stages = arguments_of("FROM")
    assert len(stages) == 2
    bases = {stage.split()[0] for stage in stages}
    assert len(bases) == 1
    assert all(PINNED.fullmatch(base) and "-slim-" in base for base in bases)
    python = re.search(r"python:(\d+)\.(\d+)", stages[0])
    assert f">={python[1]}.{python[2]}" == PROJECT["requires-python"]
    user, group = arguments_of("USER")[-1].split(":")
    assert int(user) > 0
    assert int(group) > 0
    assert f"--uid {user} " in DOCKERFILE
    after_user = DOCKERFILE[DOCKERFILE.index("\nUSER ") :]
    assert "\nRUN " not in after_user
    assert "\nCOPY " not in after_user


def test_the_image_installs_the_tested_versions() -> None:
    packages, own = (line for line in arguments_of("RUN") if "pip install" in line)
    assert "--require-hashes --requirement requirements-server.txt" in packages
    assert "--no-deps --no-index --no-build-isolation ." in own


def test_the_image_serves_where_its_health_is_checked() -> None:
    (entry,), (words,) = arguments_of("ENTRYPOINT"), arguments_of("CMD")
    assert json.loads(entry) == ["hsfiq"]
    require_parses(json.loads(words))
    (port,) = arguments_of("EXPOSE")
    assert f"http://127.0.0.1:{port}/readyz" in arguments_of("HEALTHCHECK")[0]


@on_sqlite
def test_the_health_check_follows_the_state_of_the_server(database: Database) -> None:
    (check,) = arguments_of("HEALTHCHECK")
    _, _, script = json.loads(check.partition("CMD ")[2])
    with serving(plain_app(Services.of(database))) as url:

        def run() -> int:
            here = script.replace("http://127.0.0.1:7860", url)
            command = [sys.executable, "-I", "-c", here]
            return subprocess.run(command, check=False, capture_output=True).returncode

        assert run() == 0
        with database.writing() as session:
            session.execute(text("UPDATE alembic_version SET version_num = '0001'"))
        assert run() == 1


@pytest.mark.slow
def test_the_packages_can_be_built_from_what_the_image_copies(tmp_path: Path) -> None:
    context, source = tmp_path / "context", tmp_path / "source"
    rules = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if "#" not in line]
    kept = [rule.removeprefix("!") for rule in rules if rule.startswith("!")]
    assert rules[0] == "*"
    context.mkdir()
    for name in kept:
        place = ROOT / name
        if place.is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(place, context / name, symlinks=True, ignore=ignored)
        else:
            shutil.copy(place, context / name)
    source.mkdir()
    for arguments in arguments_of("COPY"):
        *names, target = shlex.split(arguments)
        if names[0].startswith("--from"):
            continue
        for name in names:
            place = context / name
            goal = source / (target if place.is_dir() else name)
            (shutil.copytree if place.is_dir() else shutil.copy)(
                place, goal, **({"symlinks": True} if place.is_dir() else {})
            )
    build = (sys.executable, "-m", "hatchling", "build", "--target", "wheel")
    command = [*build, "--directory", str(tmp_path)]
    subprocess.run(command, cwd=source, check=True, capture_output=True, env=own_environment())
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    for pattern in ("hsfiq/annotate/app.py", "hsfiq/migrations/versions/0001_*.py"):
        assert any(fnmatch(name, pattern) for name in names), pattern
    assert "hsfiq/constraints.txt" in names


def test_only_the_proxy_can_be_reached_and_all_images_are_pinned() -> None:
    services = COMPOSE["services"]
    assert [name for name, service in services.items() if "ports" in service] == ["proxy"]
    for name, service in services.items():
        assert PINNED.fullmatch(service["image"]) or "build" in service, name
        assert service["restart"] == "unless-stopped"
    assert services["server"]["read_only"] is True
    assert services["server"]["cap_drop"] == ["ALL"]
    assert COMPOSE["networks"]["inside"] == {"internal": True}
    assert "front" not in services["database"]["networks"]
    assert "inside" not in services["proxy"]["networks"]


def test_the_servers_variables_fit_the_other_services() -> None:
    services = COMPOSE["services"]
    given: dict[str, str] = services["server"]["environment"]
    known = {
        name
        for file in [*(ROOT / "hsfiq").rglob("*.py")]
        for name in re.findall(r"\bHSFIQ_[A-Z_]+\b", file.read_text(encoding="utf-8"))
    }
    assert {name for name in given if name.startswith("HSFIQ_")} <= known
    url = make_url(given["HSFIQ_DATABASE_URL"])
    inside = services["database"]["environment"]
    assert (url.host, url.username, url.password) == ("database", inside["POSTGRES_USER"], None)
    assert url.database == inside["POSTGRES_DB"]
    public = re.sub(r"\$\{SITE:.*\}", "study.example.org", given["HSFIQ_PUBLIC_URL"])
    assert str(parsed_url(public, "SITE")) == "https://study.example.org/"
    state = Path(given["HSFIQ_SECRET_FILE"]).parent
    assert f"state:{state}" in services["server"]["volumes"]
    assert str(state) in arguments_of("VOLUME")
    (network,) = COMPOSE["networks"]["front"]["ipam"]["config"]
    assert ipaddress.ip_network(given["FORWARDED_ALLOW_IPS"]).is_private
    assert network["subnet"] == given["FORWARDED_ALLOW_IPS"]


def test_backups_have_the_programs_of_the_same_postgresql() -> None:
    image = COMPOSE["services"]["database"]["image"]
    major = re.search(r"postgres:(\d+)\.", image)
    assert f"'postgresql-client-{major[1]}={major[1]}.*'" in DOCKERFILE


def test_the_proxy_passes_everything_to_the_server() -> None:
    caddyfile = (ROOT / "deploy" / "Caddyfile").read_text(encoding="utf-8")
    (port,) = arguments_of("EXPOSE")
    assert f"reverse_proxy server:{port}" in caddyfile
    assert caddyfile.startswith("{$SITE} {")
    volumes = COMPOSE["services"]["proxy"]["volumes"]
    assert "./deploy/Caddyfile:/etc/caddy/Caddyfile:ro" in volumes


def unit() -> ConfigParser:
    parser = ConfigParser(interpolation=None, strict=False)
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read(UNIT, encoding="utf-8")
    return parser


def test_the_unit_starts_the_server_without_rights() -> None:
    service = unit()["Service"]
    program, *words = shlex.split(service["ExecStart"])
    assert program == "/opt/hsfiq/bin/hsfiq"
    require_parses(words)
    assert service["User"] == "hsfiq"
    assert service["CapabilityBoundingSet"] == ""
    assert service["NoNewPrivileges"] == "yes"
    assert service["ProtectSystem"] == "strict"
    assert int(service["RestartPreventExitStatus"]) == HsfiqError.exit_code
    assert int(service["LimitNOFILE"]) >= MOST + FILES_KEPT


def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        do_without("systemd-analyze is not installed: apt-get install systemd")
    here = tmp_path / UNIT.name
    content = UNIT.read_text(encoding="utf-8").replace("/opt/hsfiq/bin/hsfiq", sys.executable)
    for line, is_valid in (("", True), ("\n[Service]\nExecStart=relative/path\n", False)):
        here.write_text(content + line)
        command = ["systemd-analyze", "verify", here]
        checked = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (checked.returncode == 0 and not checked.stderr) is is_valid, checked.stderr


PROGRAM = re.compile(
    r"^(?:\$ )?hsfiq |/opt/hsfiq/bin/hsfiq |^docker compose (?:exec server hsfiq|run --rm server) "
)


def documented_commands() -> list[list[str]]:
    """The words after `hsfiq` of each command in docs/hosting/server.md, in containers too."""
    lines = "\n".join(re.findall(r"```(?:console|bash)\n(.*?)```", PAGES, re.DOTALL)).splitlines()
    started = [(line, PROGRAM.search(line)) for line in lines]
    return [shlex.split(line[match.end() :], comments=True) for line, match in started if match]


def test_the_documented_commands_can_be_parsed() -> None:
    documented = documented_commands()
    assert ["doctor"] in documented
    assert ["secret", "create", "/var/lib/hsfiq/secret"] in documented
    for words in documented:
        require_parses(words)
