"""The list of studies, and the first visit."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from hsfiq.access import setup_link
from hsfiq.actors import OWNER, Role
from hsfiq.annotate.app import build_app
from hsfiq.collect.owner import perform, prepare
from hsfiq.collect.participants import enrol
from hsfiq.collect.studies import find_study
from hsfiq.db.engine import Database, open_database
from hsfiq.db.source_tables import Image, System
from hsfiq.db.studio_tables import Draft, DraftChange, Job
from hsfiq.db.tables import AuditEntry, Pair, Participant, RetrievedImage, RetrievedSet, Study
from hsfiq.drafts import (
    content_of_study,
    draft_folder,
    draft_of_study,
    draw,
    read_draft,
    snapshot,
)
from hsfiq.study.config import config_of
from tests.annotate.owner.studies_in_progress import add_account, log_in
from tests.annotate.served_studies import Place, browser_of
from tests.annotate.studio.conftest import TITLE, StudioClient, fill
from tests.hsfiq.samples import hsfiq


def test_the_first_password_is_set_by_a_link_that_works_once(tmp_path: Path) -> None:
    database = open_database(Place(tmp_path).url)
    with database.writing() as session:
        token = setup_link(session, datetime.now(UTC))
    browser = browser_of(build_app(database))
    address = f"/owner/link/{token}"
    assert "Set up hsfiq" in browser.get(address).text
    password = {"password": "a long sentence", "repeated": "a long sentence"}
    reply = browser.post(address, data=password)
    assert (reply.status_code, reply.headers["location"]) == (303, "../../owner/")
    page = browser.get("/owner/").text
    assert "Ask people which results they prefer" in page
    assert browser.get(address).status_code == 404
    with database.writing() as session:
        assert setup_link(session, datetime.now(UTC)) is None
    database.close()


def test_a_later_link_replaces_the_first_one(tmp_path: Path) -> None:
    database = open_database(Place(tmp_path).url)
    with database.writing() as session:
        first, second = (setup_link(session, datetime.now(UTC)) for _ in range(2))
    browser = browser_of(build_app(database))
    assert browser.get(f"/owner/link/{first}").status_code == 404
    assert browser.get(f"/owner/link/{second}").status_code == 200
    database.close()


def test_a_new_study_is_a_draft_in_the_list(studio: StudioClient) -> None:
    token = studio.new_draft()
    page = studio.get("").text
    assert f"draft/{token}/images" in page
    assert '<span class="pill ">draft</span>' in page
    assert studio.get(f"draft/{token}/images").status_code == 200


def test_names_of_drafts_differ(studio: StudioClient) -> None:
    names = {studio.draft(studio.new_draft()).name for _ in range(3)}
    assert names == {"study", "study-2", "study-3"}


def test_a_draft_is_deleted_with_its_files(studio: StudioClient) -> None:
    token = studio.new_draft()
    fill(studio, token)
    assert studio.act("", "delete_draft", draft=token).json()["say"] == "The draft was deleted."
    with studio.database.reading() as session:
        assert session.scalars(select(Draft)).all() == []
        assert session.scalars(select(DraftChange)).all() == []
        actions = session.scalars(select(AuditEntry.action).order_by(AuditEntry.id)).all()
    assert not draft_folder(studio.database, token).exists()
    assert actions[-2:] == ["draft.create", "draft.delete"]
    assert studio.get(f"draft/{token}/images").status_code == 404


def opened_study(studio: StudioClient) -> tuple[str, str]:
    """The token and the name of a study that is open, and about uploaded images."""
    token = studio.new_draft()
    fill(studio, token)
    name = draw(studio.database, token, OWNER)
    with studio.database.writing() as session:
        study = find_study(session, name)
        assert study is not None
        perform(session, prepare(study, "open"), OWNER)
    return token, name


def test_a_copy_is_drawn_like_its_study_without_its_people(studio: StudioClient) -> None:
    token, name = opened_study(studio)
    studio.act(f"draft/{token}/people", "extend", annotators=4)
    studio.save(token, "question", "wording.preference", "Which set is nearer?")
    with studio.database.writing() as session:
        enrol(session, 1, now=datetime.now(UTC))
        n_entries = len(session.scalars(select(AuditEntry.id)).all())
    reply = studio.act("", "copy", study=name).json()
    copied = studio.draft(reply["undo"]["draft"])
    assert (copied.name, copied.title) == ("study-2", f"{TITLE} (copy)")
    assert copied.content.value("wording.preference") == "Which set is nearer?"
    assert copied.content.value("recruitment.participants") == 2
    assert copied.content.files == studio.draft(token).content.files
    with studio.database.reading() as session:
        (entry,) = session.scalars(select(AuditEntry).offset(n_entries))
        assert (entry.action, entry.about) == ("draft.create", f"draft {copied.token}")
    draw(studio.database, copied.token, OWNER)
    with studio.database.reading() as session:
        first, second = (find_study(session, each) for each in (name, "study-2"))
        assert first is not None
        assert second is not None
        assert (config_of(second).design, n_people(session, second)) == (config_of(first).design, 0)
        assert shown_sets(session, second) == shown_sets(session, first)


def n_people(session: Session, study: Study) -> int:
    of_study = select(func.count()).where(Participant.study_id == study.id)
    return session.scalar(of_study) or 0


def shown_sets(session: Session, study: Study) -> list[tuple[str, str]]:
    """The system and the image of each place of the first sets of the study's pairs."""
    shown = select(System.name, Image.name).join(RetrievedSet, RetrievedSet.system_id == System.id)
    shown = shown.join(RetrievedImage, RetrievedImage.set_id == RetrievedSet.id)
    shown = shown.join(Image, RetrievedImage.image_id == Image.id)
    of_study = shown.join(Pair, Pair.first_id == RetrievedSet.id).where(Pair.study_id == study.id)
    return sorted((system, image) for system, image in session.execute(of_study))


def test_a_copy_and_its_study_have_files_of_their_own(studio: StudioClient) -> None:
    token, name = opened_study(studio)
    once = "0" * 32
    undo = studio.act("", "copy", study=name, once=once).json()["undo"]
    assert studio.act("", "copy", study=name, once=once).json()["undo"] == undo
    folder = draft_folder(studio.database, undo["draft"])
    assert sum(path.is_file() for path in folder.rglob("*")) == 15
    assert studio.client.post("/owner/", json=undo).json()["say"] == "The draft was deleted."
    assert not folder.exists()
    assert len(studio.draft(token).content.files) == 4
    assert read_draft(studio.draft(token).content, draft_folder(studio.database, token))[1] == {}
    (draft_folder(studio.database, token) / "files" / "mine.json").unlink()
    reply = studio.act("", "copy", study=name)
    assert (reply.status_code, "mine.json" in reply.json()["error"]) == (422, True)
    assert {path.name for path in folder.parent.iterdir()} == {token}


def test_a_study_from_a_file_is_copied(watched: Database, owner: TestClient) -> None:
    reply = owner.post("/owner/", json={"act": "copy", "study": "telltale-study"}).json()
    with watched.reading() as session:
        copied = snapshot(session, watched, reply["undo"]["draft"])
        study = find_study(session, "telltale-study")
        assert study is not None
        assert copied.content.dataset == "telltale-dataset"
        assert copied.content.value("design") == content_of_study(study).value("design")
        assert draft_of_study(session, study, OWNER).token != copied.token
    draw(watched, copied.token, OWNER)
    assert owner.post("/owner/", json={"act": "copy", "study": "none"}).status_code == 422


def test_the_set_up_of_a_study_begins_with_what_can_change(studio: StudioClient) -> None:
    token, _ = opened_study(studio)
    for address, step in {
        "setup": "question",
        "setup?step=people": "people",
        "setup?step=../../accounts": "question",
    }.items():
        reply = studio.get(f"study/1/{address}")
        assert reply.headers["location"] == f"../../draft/{token}/{step}"
    page = studio.get(f"draft/{token}/question").text
    assert '<span class="fixed">never; people may write one</span>' in page


def test_a_study_file_becomes_a_draft(studio: StudioClient) -> None:
    text = '[study]\nname = "autumn"\ntitle = "Autumn"\n[design]\nk = 3\n'
    address = studio.act("", "open_file", file=text).json()["go"]
    draft = studio.draft(address.split("/")[1])
    assert (draft.name, draft.content.value("design.k")) == ("autumn", 3)


@pytest.mark.parametrize("text", ["[study", "a = " + "[" * 20_000, 'a = "\\u0000"', 5, None])
def test_broken_study_files_are_refused_in_one_line(studio: StudioClient, text: object) -> None:
    reply = studio.act("", "open_file", file=text)
    assert reply.status_code == 422
    assert "\n" not in reply.json()["error"]
    with studio.database.reading() as session:
        assert session.scalars(select(Draft)).all() == []


def test_the_sample_is_a_job(studio: StudioClient) -> None:
    assert studio.act("", "sample").status_code == 200
    again = studio.act("", "sample")
    assert (again.status_code, "already" in again.json()["error"]) == (422, True)
    with studio.database.reading() as session:
        (job,) = session.scalars(select(Job))
    assert job.commands == [["study", "sample"]]


@pytest.mark.slow
def test_the_sample_study_is_closed_and_simulated(studio: StudioClient) -> None:
    url = str(studio.database.engine.url)
    done = hsfiq("--database", url, "study", "sample")
    assert done.code == 0, done.stderr
    page = studio.get("").text
    assert ">simulated</span>" in page
    assert "600 of 600" in page
    assert hsfiq("--database", url, "study", "sample").code == 2
    assert studio.act("", "delete_study", study="drawn").status_code == 200


def test_only_owners_make_studies(studio: StudioClient) -> None:
    add_account(studio.database, "reader", Role.ANALYST)
    reader = browser_of(studio.app)
    assert log_in(reader, name="reader").status_code == 303
    token = studio.new_draft()
    assert "New study" not in reader.get("/owner/").text
    for act in ({"act": "new"}, {"act": "sample"}, {"act": "delete_draft", "draft": token}):
        assert reader.post("/owner/", json=act).status_code == 403
    for path in (f"draft/{token}/images", f"draft/{token}/study.toml"):
        assert reader.get(f"/owner/{path}").status_code == 403
    assert browser_of(studio.app).post("/owner/", json={"act": "new"}).status_code == 401


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"5", b'{"act": 5}', b'{"act": "__init__"}', b"{" * 9999, b"\xff\xfe"]
)
def test_acts_that_are_none_are_refused(studio: StudioClient, body: bytes) -> None:
    reply = studio.client.post("/owner/", content=body)
    assert reply.status_code == 422
    assert reply.json()["error"]


def test_the_page_is_in_the_language_that_was_chosen(studio: StudioClient) -> None:
    assert '<html lang="ko">' in studio.get("?language=ko").text
    assert '<html lang="ko">' in studio.get("").text
    assert '<html lang="en">' in studio.get("?language=en").text


def test_files_of_the_pages_are_kept_by_browsers(studio: StudioClient) -> None:
    (address,) = set(re.findall(r"files/\w+/studio\.js", studio.get("").text))
    reply = studio.get(address)
    assert "immutable" in reply.headers["cache-control"]
    assert studio.get("files/0/studio.js").status_code == 404
    assert studio.get(address.replace("studio.js", "..%2fshell.py")).status_code == 404
