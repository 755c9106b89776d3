"""Thumbnails that are made ahead: complete, once, and stopped without leaving parts behind."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from threading import Event, Thread

import pytest
from PIL import Image as Picture
from sqlalchemy import select
from sqlalchemy.orm import Session

from hsfiq.annotate import image_copies
from hsfiq.annotate.image_copies import (
    LONGEST_SIDE,
    ImageFile,
    ImageStore,
    WebCopies,
    cache_folder,
    image_files_of,
    keep_warm,
    make_thumbnails,
    warming,
)
from hsfiq.collect.studies import list_studies
from hsfiq.db.engine import Database, open_database
from hsfiq.db.source_tables import Image, Triplet
from hsfiq.db.tables import RetrievedImage, Study
from hsfiq.errors import Unavailable
from hsfiq.images.stored_copies import locked_draft
from tests.annotate.served_studies import Place
from tests.hsfiq.samples import hsfiq
from tests.processes import Fork


@pytest.fixture
def study(place: Place, usual_study: Place) -> Iterator[Database]:
    """The usual study with images of its own, one of them missing and one broken."""
    shutil.copy(usual_study.file, place.file)
    shutil.copytree(usual_study.images, place.images)
    database = open_database(place.url)
    with database.writing() as session:
        for dataset in {triplet.dataset for triplet in session.scalars(select(Triplet))}:
            dataset.image_root = str(place.images)
        names = session.scalars(select(Image.name).order_by(Image.id)).all()
    (place.images / f"{names[0]}.png").unlink()
    (place.images / f"{names[1]}.png").write_bytes(b"broken")
    yield database
    database.close()


def shown(database: Database) -> set[str]:
    """The names of the images that participants see."""
    with database.reading() as session:
        references = select(Image.name).join(Triplet, Triplet.reference_id == Image.id)
        candidates = select(Image.name).join(RetrievedImage)
        return {*session.scalars(references), *session.scalars(candidates)}


def thumbnails(place: Place) -> list[Path]:
    return sorted(place.folder.glob("study.db.thumbnails/*"))


def test_the_command_makes_each_thumbnail_once(place: Place, study: Database) -> None:
    n_shown = len(shown(study))
    first = hsfiq("images", "warm", "--database", place.url, "--json").result
    assert (first["made"], first["existed"]) == (n_shown - 2, 0)
    assert (first["missing"], first["faulty"]) == (1, 1)
    files = thumbnails(place)
    assert len(files) == n_shown - 2
    assert first["bytes"] == sum(path.stat().st_size for path in files)
    for path in files:
        with Picture.open(path) as picture:
            assert picture.format == "WEBP"
            assert max(picture.size) <= LONGEST_SIDE["thumbnail"]
    again = hsfiq("images", "warm", "--study", "telltale-study", "--database", place.url)
    assert again.out.startswith(f"0 thumbnails made, {n_shown - 2} existed; ")
    assert "images missing: 1; images that cannot be shown: 1" in again.out
    assert thumbnails(place) == files


def test_interrupted_run_leaves_whole_files_and_is_continued(place: Place, study: Database) -> None:
    with study.reading() as session:
        files, missing = image_files_of(session, list_studies(session)[0])
    assert missing == 1
    copies, ended = WebCopies(cache_folder(study)), Event()

    def interrupted(_files: object) -> Iterator[ImageFile]:
        for number, file in enumerate(files):
            if number == 8:
                ended.set()
            yield file

    warmed = make_thumbnails(files, copies, ended, interrupted)
    assert warmed.made + warmed.faulty <= 8
    assert len(thumbnails(place)) == warmed.made
    assert all(path.suffix == ".webp" for path in thumbnails(place))
    rest = make_thumbnails(files, copies, Event())
    assert (rest.made + warmed.made, rest.existed) == (len(files) - 1, warmed.made)


DAMAGES = {
    "empty": lambda stored: stored[:0],
    "garbage": lambda stored: stored[::-1],
    "cut off": lambda stored: stored[:-1],
    "one bit": lambda stored: bytes([*stored[:99], stored[99] ^ 1, *stored[100:]]),
    "an earlier version's": lambda stored: stored[:-32],
}


def test_damaged_thumbnails_are_found_and_made_again(place: Place, study: Database) -> None:
    options = ("--database", place.url, "--json")
    check = ("images", "check", "--study", "telltale-study", *options)
    n_made = hsfiq("images", "warm", *options).result["made"]
    first = thumbnails(place)[0]
    whole = first.read_bytes()
    for name, damaged in DAMAGES.items():
        first.write_bytes(damaged(whole))
        assert hsfiq(*check).result["damaged_copies"] == 1, name
        findings = hsfiq("doctor", *options).result["findings"]
        (found,) = [each for each in findings if each["check"] == "thumbnails"]
        assert found["status"] == "warning", name
        assert f"1 of {n_made} copies" in found["what"]
        again = hsfiq("images", "warm", *options).result
        assert (again["made"], again["existed"]) == (1, n_made - 1), name
        assert first.read_bytes() == whole
        assert hsfiq(*check).result["damaged_copies"] == 0


def hold_a_draft_and_be_killed() -> None:
    with locked_draft(Path(sys.argv[1])):
        os.kill(os.getpid(), signal.SIGKILL)


def test_drafts_of_killed_processes_are_cleared_away(tmp_path: Path) -> None:
    folder = tmp_path / "thumbnails"
    folder.mkdir()
    killed = Fork(hold_a_draft_and_be_killed, [str(folder)], tmp_path / "log")
    assert killed.wait(60) == -signal.SIGKILL
    (abandoned,) = folder.iterdir()
    with locked_draft(folder) as draft:
        WebCopies(folder)
        assert list(folder.iterdir()) == [draft]
    assert not abandoned.exists()
    assert list(folder.iterdir()) == []


def test_a_server_makes_them_in_the_background(place: Place, study: Database) -> None:
    copies = WebCopies(cache_folder(study))
    n_expected = len(shown(study)) - 2
    with warming(study, ImageStore(copies)):
        while len(thumbnails(place)) < n_expected:
            Event().wait(0.05)
    assert all(path.suffix == ".webp" for path in thumbnails(place))
    with warming(study, ImageStore(copies)):
        pass  # leaving at once does not wait for the next round


def test_a_database_that_was_away_is_asked_again(
    place: Place, study: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcomes = iter([Unavailable("the database is locked")])

    def studies(session: Session) -> Sequence[Study]:
        for error in outcomes:
            raise error
        return list_studies(session)

    monkeypatch.setattr(image_copies, "list_studies", studies)
    monkeypatch.setattr(image_copies, "LOOK_AGAIN", 0.01)
    n_expected = len(shown(study)) - 2
    ended = Event()
    thread = Thread(
        target=keep_warm, args=(study, ImageStore(WebCopies(cache_folder(study))), ended)
    )
    thread.start()
    while thread.is_alive() and len(thumbnails(place)) < n_expected:
        ended.wait(0.05)
    ended.set()
    thread.join()
    assert len(thumbnails(place)) == n_expected


def test_closed_studies_are_left_alone(place: Place, study: Database) -> None:
    with study.writing() as session:
        list_studies(session)[0].status = "closed"
    with warming(study, ImageStore(WebCopies(cache_folder(study)))):
        Event().wait(0.5)
    assert thumbnails(place) == []


def test_thumbnails_come_in_the_order_of_the_questions(study: Database) -> None:
    with study.reading() as session:
        files = [file.path for file in image_files_of(session, list_studies(session)[0])[0]]
    assert len(set(files)) == len(files)
    assert any(first > second for first, second in pairwise(files)), "not in alphabetical order"
