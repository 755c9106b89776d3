"""Make the environment with LAVIS, if it is missing, and print its folder.

LAVIS 1.0.2 pins an old transformers and needs numpy 1, so it is never installed beside the rest.
open_clip is there, too, because it needs torchvision, whose build on PyPI fails beside a torch for
CPUs alone. It needs a later timm than LAVIS: both are in the folder `open_clip`, which is first on
the path of its tests alone.
Its environment holds what `constraints-lavis.txt` and `pyproject.toml` name, but not hsfiq itself:
all checkouts that name the same share it. HSFIQ_LAVIS names another folder.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CONSTRAINTS = ROOT / "constraints-lavis.txt"
EXTRAS = ("model", "lavis")
TEST_TOOLS = ("pytest", "hypothesis")
OPEN_CLIP = ("open_clip_torch==3.3.0", "timm==1.0.31")


def folder() -> Path:
    """Where the environment is, or will be: complete or absent."""
    named = os.environ.get("HSFIQ_LAVIS")
    if named:
        return Path(named).expanduser().resolve()
    content = json.dumps([*requirements(), *OPEN_CLIP]).encode() + CONSTRAINTS.read_bytes()
    key = hashlib.sha256(content).hexdigest()[:12]
    return Path.home() / ".cache" / "hsfiq" / f"lavis-{key}"


def requirements() -> list[str]:
    """What is installed: hsfiq's own dependencies, the extras' and the tools of the tests."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = [name for extra in EXTRAS for name in project["optional-dependencies"][extra]]
    return [*project["dependencies"], *(e for e in extras if "hsfiq[" not in e), *TEST_TOOLS]


def python_3_11() -> str:
    """A Python that LAVIS 1.0.2 can be installed for.

    Raises:
        SystemExit: there is none.
    """
    if platform.python_version_tuple()[:2] == ("3", "11"):
        return sys.executable
    path = shutil.which("python3.11")
    if path is None:
        raise SystemExit("LAVIS 1.0.2 needs python3.11 on the PATH: install Python 3.11")
    return path


def make_venv(target: Path) -> None:
    """Install into a folder beside `target` and move it there when it is complete."""
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f"{target.name}.") as name:
        unfinished = Path(name) / "venv"
        subprocess.run([python_3_11(), "-m", "venv", str(unfinished)], check=True)
        # A moved environment's scripts name their old Python; nothing here calls them.
        pip = [str(unfinished / "bin" / "python"), "-m", "pip", "--disable-pip-version-check"]
        options = ["install", "--quiet", "--constraint", str(CONSTRAINTS)]
        subprocess.run([*pip, *options, *requirements()], check=True, stdout=sys.stderr)
        beside = ["install", "--quiet", "--no-deps", "--target", str(unfinished / "open_clip")]
        subprocess.run([*pip, *beside, *OPEN_CLIP], check=True, stdout=sys.stderr)
        unfinished.rename(target)


def make_if_missing(target: Path) -> None:
    """Install unless the environment exists; of several processes the others wait for the first."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with (target.parent / f"{target.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.is_dir():
            make_venv(target)


def main() -> None:
    """Print the folder on standard output, for make; pip prints on standard error."""
    target = folder()
    make_if_missing(target)
    print(target)


if __name__ == "__main__":
    main()
