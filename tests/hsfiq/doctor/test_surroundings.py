"""`hsfiq doctor`: disks, permissions, images and versions, with faults of real files."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from sqlalchemy import update

from hsfiq.access import VARIABLE
from hsfiq.annotate.cookies import signer_of
from hsfiq.db.engine import Database
from hsfiq.db.source_tables import Dataset
from hsfiq.db.tables import Study
from hsfiq.doctor import examine_writing
from tests.annotate.served_studies import garment
from tests.hsfiq.doctor.findings import fault, is_well, of_check, repair
from tests.studies import draw, make_queries

NOBODY = 65534

pytestmark = pytest.mark.parametrize("kind", ["sqlite"], indirect=True)


@pytest.fixture
def chosen(database: Database, database_url: str, monkeypatch: pytest.MonkeyPatch) -> Database:
    """A SQLite file that the variable names."""
    monkeypatch.setenv("HSFIQ_DATABASE_URL", database_url)
    monkeypatch.delenv(VARIABLE, raising=False)
    return database


@pytest.fixture
def file(chosen: Database) -> Path:
    file = Path(str(chosen.engine.url.database))
    file.chmod(0o600)
    return file


# ---------------------------------------------------------------------------------- disk


@contextmanager
def disk(folder: Path, size: str) -> Iterator[None]:
    """A disk of so many bytes at a folder, which has no process of another user."""
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", folder],
        capture_output=True,
        check=False,
    )
    if made.returncode != 0:
        pytest.skip("only root may mount a disk")
    try:
        yield
    finally:
        subprocess.run(["umount", folder], check=True)


@pytest.mark.parametrize(("size", "status"), [("50m", "problem"), ("500m", "warning")])
def test_a_disk_without_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, size: str, status: str
) -> None:
    monkeypatch.setenv("HSFIQ_DATABASE_URL", f"sqlite:///{tmp_path}/new.db")
    with disk(tmp_path, size):
        assert f"df -h {tmp_path}" in fault("disk", status, size.rstrip("m"))


# --------------------------------------------------------------------------- permissions


def test_a_file_that_others_can_read(file: Path) -> None:
    file.chmod(0o644)
    fix = next(each["fix"] for each in of_check("permissions") if each["status"] == "problem")
    assert fix == f"chmod 600 {file}"
    repair(fix)
    assert all(each["status"] != "problem" for each in of_check("permissions"))
    file.chmod(0o660)  # a group that shares it on purpose
    assert all(each["status"] != "problem" for each in of_check("permissions"))


def test_the_key_in_the_database_in_a_file_and_in_a_file_that_others_can_read(
    chosen: Database, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    signer_of(chosen)
    secret = tmp_path / "secret"
    repair(fault("permissions", "warning", "in each backup"), **{"/etc/hsfiq/secret": str(secret)})
    assert fault("permissions", "problem", "in a file, but") == f"export {VARIABLE}=FILE"
    monkeypatch.setenv(VARIABLE, str(secret))
    assert is_well("permissions")
    secret.chmod(0o644)
    fix = fault("permissions", "problem", "others can read")
    repair(fix)
    assert is_well("permissions")
    keys = secret.read_text().split()
    assert not any(key in str(of_check("permissions")) for key in keys)
    monkeypatch.setenv(VARIABLE, str(tmp_path / "absent"))
    assert "hsfiq secret create" in fault("permissions", "problem", "cannot be read")


def test_a_folder_in_which_no_file_can_be_made(kind: str) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o555)
        is_root = os.geteuid() == 0
        if is_root:
            os.seteuid(NOBODY)
        try:
            (finding,) = examine_writing([folder / "thumbnails"])
        finally:
            if is_root:
                os.seteuid(0)
        assert finding.status == "problem"
        assert "Permission denied" in finding.what
        repair(str(finding.fix).replace('"$(id -un)"', str(os.geteuid())))
        (finding,) = examine_writing([folder / "thumbnails"])
        assert finding.status == "ok"


# -------------------------------------------------------------------------------- images


def test_images_that_are_absent_or_no_images(chosen: Database, tmp_path: Path) -> None:
    draw(chosen, make_queries(chosen))
    fault("images", "problem", "8 missing")
    folder = tmp_path / "pictures"
    folder.mkdir()
    with chosen.writing() as session:
        session.execute(update(Dataset).values(image_root=str(folder)))
    fix = fault("images", "problem", "8 missing")
    assert fix == "hsfiq images check --study small"
    for number in range(8):
        (folder / f"image-{number}.png").write_bytes(garment(number))
    assert is_well("images")
    (folder / "image-0.png").unlink()
    (folder / "image-1.png").write_text("<html>not found</html>")
    (folder / "image-2.png").write_bytes(b"")
    fault("images", "warning", "of 8 images, 1 empty, 1 missing, 1 undecodable")
    with chosen.writing() as session:
        session.execute(update(Study).values(status="closed"))
    assert is_well("images")


# ------------------------------------------------------------------------------ versions


def test_a_package_of_another_version(
    chosen: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert is_well("versions")
    metadata = tmp_path / "gradio-6.30.0.dist-info" / "METADATA"
    metadata.parent.mkdir()
    metadata.write_text("Metadata-Version: 2.1\nName: gradio\nVersion: 6.30.0\n")
    monkeypatch.syspath_prepend(tmp_path)
    fix = fault("versions", "warning", "not as tested: gradio 6.30.0 (tested: ")
    assert fix.startswith("pip install --constraint ")
    assert Path(fix.split()[3]).is_file()


def test_the_tools_of_a_new_environment_are_not_compared(
    chosen: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    metadata = tmp_path / "setuptools-65.5.0.dist-info" / "METADATA"
    metadata.parent.mkdir()
    metadata.write_text("Metadata-Version: 2.1\nName: setuptools\nVersion: 65.5.0\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert is_well("versions")
