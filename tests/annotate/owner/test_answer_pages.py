"""The owner's pages of one participant and of one question, over HTTP."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from urllib.parse import urlencode

import pytest
from fastapi.testclient import TestClient

from hsfiq.collect.history import question_history
from hsfiq.collect.progress import answers_of
from hsfiq.collect.studies import list_studies
from hsfiq.db.engine import Database
from tests.annotate.owner.studies_in_progress import log_in, set_owner, watched_study
from tests.annotate.reused_study import ReusedStudy
from tests.annotate.served_studies import Place, browser_of

NAME = "telltale-study"


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> ReusedStudy:
    place = Place(tmp_path_factory.mktemp("watched"))
    database = watched_study(place)
    set_owner(database)
    database.close()
    reused = ReusedStudy(place, tmp_path_factory.mktemp("reused"))
    reused.restore()
    return reused


@pytest.fixture(scope="module")
def owner(watched: ReusedStudy) -> Iterator[TestClient]:
    with browser_of(watched.app) as client:
        assert log_in(client).status_code == 303
        yield client


def page(client: TestClient, kind: str, name: str, study: str = NAME) -> tuple[int, str]:
    response = client.get(f"/owner/{kind}?{urlencode({'study': study, 'name': name})}")
    return response.status_code, unescape(response.text)


def test_a_participants_page_shows_every_answer_with_its_images(owner: TestClient) -> None:
    status, text = page(owner, "participant", "p2")
    assert status == 200
    assert "6 of 6 questions" in text
    questions = re.findall(r"<h2><a [^>]*>(p2\.form_\d\.\d)</a></h2>", text)
    assert questions == [f"p2.form_{form}.{place}" for form in (1, 2) for place in range(3)]
    tokens = re.findall(r'<img src="image/([0-9a-f]{32})"', text)
    assert len(tokens) == 6 * (1 + 2 * 5)
    for path in (f"/owner/image/{tokens[0]}", f"/owner/image/{tokens[0]}/full"):
        image = owner.get(path)
        assert (image.status_code, image.headers["content-type"]) == (200, "image/webp")


def test_a_questions_page_shows_all_answers_about_its_sets(owner: TestClient) -> None:
    status, text = page(owner, "question", "p2.form_1.0")
    assert status == 200
    assert text.count("<figcaption>") == 2
    assert "All answers about these sets" in text
    assert "p2.form_1.0" in re.findall(r"<td>(p\d\.form_\d\.\d)</td>", text)


@pytest.mark.parametrize(
    ("kind", "name", "study"),
    [
        ("participant", "nobody", NAME),
        ("participant", "p1", "no such study"),
        ("question", "p1.form_1.99", NAME),
        ("question", "<script>", NAME),
    ],
)
def test_what_does_not_exist_is_not_found(
    owner: TestClient, kind: str, name: str, study: str
) -> None:
    response = owner.get(f"/owner/{kind}?{urlencode({'study': study, 'name': name})}")
    assert response.status_code == 404
    assert "<script>" not in response.text


def test_only_the_owner_sees_them(watched: ReusedStudy) -> None:
    with browser_of(watched.app) as stranger:
        for path in (
            f"/owner/participant?study={NAME}&name=p1",
            f"/owner/question?study={NAME}&name=p1.form_1.0",
            f"/owner/image/{'0' * 32}",
        ):
            assert stranger.get(path).status_code == 401


def test_texts_of_participants_and_datasets_are_escaped(
    owner: TestClient, watched: ReusedStudy
) -> None:
    """One of the study's query texts contains a script."""
    name = question_about_the_script(watched.database)
    response = owner.get(f"/owner/question?{urlencode({'study': NAME, 'name': name})}")
    assert "&lt;script&gt;alert(1)" in response.text
    assert "<script" not in response.text


def question_about_the_script(database: Database) -> str:
    with database.reading() as session:
        study = list_studies(session)[0]
        histories = (
            question_history(session, study, answer.question_id)
            for answer in answers_of(session, study)
        )
        return next(
            history.question_id
            for history in histories
            if history is not None and "<script>" in history.text
        )


def test_the_dashboards_link_opens_a_preview(owner: TestClient, watched: ReusedStudy) -> None:
    opened = owner.get("/owner/preview/1")
    assert opened.status_code == 303
    assert opened.headers["location"].startswith("../../preview/open/")
    assert owner.get(opened.headers["location"].removeprefix("../..")).status_code == 303
    assert owner.get("/preview/question").json()["step"] == "consent"
    assert owner.get("/owner/preview/999").status_code == 404
    with browser_of(watched.app) as stranger:
        assert stranger.get("/owner/preview/1").status_code == 401
        assert stranger.get("/preview/study/").status_code == 401


def test_the_texts_page_lists_the_versions_with_their_answers(owner: TestClient) -> None:
    response = owner.get("/owner/texts/1")
    assert response.status_code == 200
    text = unescape(response.text)
    assert "Version 1, the current one" in text
    assert "answers are older than the history" in text
    assert 'href="../board/"' in text
    assert owner.get("/owner/texts/999").status_code == 404


def test_messages_are_sent_and_counted_on_their_page(owner: TestClient) -> None:
    sent = owner.post("/owner/messages/1", data={"text": "To <b>all</b>"})
    assert (sent.status_code, sent.headers["location"]) == (303, "1")
    text = owner.get("/owner/messages/1").text
    assert "To &lt;b&gt;all&lt;/b&gt;" in text
    assert re.search(r"To all: seen by 0 of [1-9]", text)
    refused = owner.post("/owner/messages/1", data={"text": "Hello", "participant": "nobody"})
    assert (refused.status_code, "Not sent: study" in refused.text) == (422, True)
    headers = {"Origin": "https://evil.example"}
    assert owner.post("/owner/messages/1", data={"text": "x"}, headers=headers).status_code == 403
