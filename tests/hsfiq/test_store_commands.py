"""Commands on images in S3, and those that need a folder."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import select

from benchmarks.stores import KEY, SECRET
from hsfiq.db.engine import open_database
from hsfiq.db.source_tables import Dataset, Image
from hsfiq.errors import UnreadableInput
from hsfiq.images.store import root_named
from hsfiq.releases.layouts.packed_images import Pictures
from tests.hsfiq.own_data import IMAGES, write_own_data
from tests.hsfiq.samples import CommandResult, hsfiq
from tests.stores import S3, found_by_clients, s3_server

BUCKET = "own"
ADDRESS = f"s3://{BUCKET}/photos"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("own")
    write_own_data(folder)
    return folder


@pytest.fixture(scope="module")
def moto(data: Path) -> Iterator[S3]:
    with s3_server() as server:
        photos = [path for path in (data / "photos").rglob("*") if path.is_file()]
        server.put({str(p.relative_to(data)): p.read_bytes() for p in photos}, BUCKET)
        yield server


@pytest.fixture
def s3(moto: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[S3]:
    with found_by_clients(moto, tmp_path / "cache", monkeypatch):
        yield moto


def init(data: Path, folder: Path, images: str = ADDRESS) -> CommandResult:
    return hsfiq(
        *("init", folder, "--images", images, "--queries", data / "queries.csv"),
        *("--run", f"mine={data / 'mine.jsonl'}", "--run", data / "clip4cir.xlsx", "--yes"),
    )


@pytest.fixture
def project(s3: S3, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project in which later commands run."""
    folder = tmp_path / "shop"
    done = init(data, folder)
    assert done.code == 0, done.err
    monkeypatch.chdir(folder)
    return folder


def test_a_project_has_its_images_in_a_store(s3: S3, project: Path) -> None:
    (file,) = project.glob("*.db")
    database = open_database(f"sqlite:///{file}")
    with database.reading() as session:
        assert session.scalars(select(Dataset.image_root)).all() == [ADDRESS]
        digests = session.scalars(select(Image.sha256)).all()
    database.close()
    assert len([digest for digest in digests if digest]) == len(IMAGES)
    for path in project.rglob("*"):
        if path.is_file():
            assert SECRET.encode() not in path.read_bytes(), path
            assert KEY.encode() not in path.read_bytes(), path


def test_the_same_ids_as_of_a_folder(s3: S3, data: Path, tmp_path: Path) -> None:
    names = {}
    for place in (str(data / "photos"), ADDRESS):
        url = f"sqlite:///{tmp_path / str(len(names))}.db"
        words = ("import", "queries", data / "queries.csv", "--dataset", "shop")
        done = hsfiq(*words, "--images", place, "--database", url)
        assert done.code == 0, done.err
        database = open_database(url)
        with database.reading() as session:
            names[place] = sorted(session.scalars(select(Image.name)))
        database.close()
    assert names[ADDRESS] == names[str(data / "photos")]


def test_check_and_doctor(s3: S3, project: Path) -> None:
    check = hsfiq("images", "check", "--json")
    assert check.code == 0, check.err
    assert check.result["folder"] == ADDRESS
    assert findings() == ("ok", f"{ADDRESS} answers and has 40 images", None)
    key = f"photos/{IMAGES[0]}.jpg"
    content = s3.client().get_object(Bucket=BUCKET, Key=key)["Body"].read()
    try:
        s3.client().put_object(Bucket=BUCKET, Key=key, Body=b"not an image")
        assert [image["kind"] for image in hsfiq("images", "check", "--json").result["faulty"]] == [
            "undecodable"
        ]
        s3.client().delete_object(Bucket=BUCKET, Key=key)
        assert [image["kind"] for image in hsfiq("images", "check", "--json").result["faulty"]] == [
            "missing"
        ]
        status, what, _ = findings()
        assert status == "warning"
        assert "1 are missing" in what
    finally:
        s3.client().put_object(Bucket=BUCKET, Key=key, Body=content)


def findings() -> tuple[str, str, str | None]:
    """What the doctor says of the study's images."""
    found = json.loads(hsfiq("doctor", "--json").out)
    (line,) = [each for each in found["findings"] if each["check"] == "images"]
    return line["status"], line["what"].partition(": ")[2], line["fix"]


def test_the_doctor_says_what_a_store_lacks(
    s3: S3, project: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    status, what, fix = findings()
    assert (status, fix) == ("problem", "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
    assert "refuses access" in what
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    s3.proxy.reset()
    status, what, fix = findings()
    assert status == "problem"
    assert "does not answer" in what


def test_a_sheet_is_drawn_from_a_store(s3: S3, project: Path) -> None:
    sheet = hsfiq("show", "q3", "--json")
    assert (sheet.code, sheet.err) == (0, "")


def test_packed_images_are_read_from_a_store(s3: S3, data: Path, tmp_path: Path) -> None:
    pictures = Pictures({"shop": root_named(ADDRESS)})
    packed = pictures.read("shop", f"{IMAGES[0]}.jpg")
    assert packed is not None
    assert packed.content == (data / "photos" / f"{IMAGES[0]}.jpg").read_bytes()
    assert pictures.read("shop", "none") is None
    s3.proxy.reset()
    with pytest.raises(UnreadableInput, match="does not answer"):  # not an absent image
        pictures.read("shop", f"{IMAGES[2]}.jpg")


@pytest.mark.parametrize(
    "command",
    [
        "train cirqrs-fashioniq --data drawn --out run",
        "retrieve --data drawn --checkpoint none --out run",
    ],
)
def test_what_needs_a_folder_says_so(command: str) -> None:
    done = hsfiq(*command.split(), "--images", ADDRESS)
    assert done.code == 2
    assert "needs a folder on this machine" in done.err
    assert len(done.err.splitlines()) == 1


def test_wrong_addresses_change_nothing(s3: S3, data: Path, tmp_path: Path) -> None:
    for images, expected in (
        ("s3://nowhere/a", "no such bucket"),
        (f"s3://{BUCKET}/none", "holds no image"),
        (f"s3://{KEY}:{SECRET}@{BUCKET}/a", "leave them out"),
        ("ftp://host/a", "no such kind of store"),
        (str(tmp_path / "none"), "there is no such folder"),
    ):
        done = init(data, tmp_path / "new", images)
        assert done.code == 2, images
        assert expected in done.err
        assert SECRET not in done.err
        assert not (tmp_path / "new").exists()
