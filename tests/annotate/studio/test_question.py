"""The step "Question": kinds, words, languages, extra questions and the live preview."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from playwright.sync_api import Page, expect

from hsfiq.actors import OWNER, Role
from hsfiq.annotate.app import build_app
from hsfiq.annotate.preview import KEPT, MOST_OPEN, OPEN_PREVIEWS
from hsfiq.collect.studies import find_study
from hsfiq.drafts import PREVIEWS, Content, change_draft, draw, preview_file, read_draft
from hsfiq.kinds import KINDS
from tests.annotate.axe import faults
from tests.annotate.owner.studies_in_progress import PASSWORD, add_account, log_in
from tests.annotate.served_studies import Place, ThreadServer, browser_of
from tests.annotate.studio.conftest import (
    TITLE,
    StudioClient,
    add_third_system,
    fill,
    studio_in,
)
from tests.browser import new_context_of

HOSTILE = "</script><img src=x onerror=alert(1)> {{7*7}} \u202e"


@pytest.fixture
def token(studio: StudioClient) -> str:
    token = studio.new_draft()
    fill(studio, token)
    return token


def act(studio: StudioClient, token: str, name: str, **given: Any) -> Any:
    return studio.act(f"draft/{token}/question", name, **given)


def page(studio: StudioClient, token: str, query: str = "") -> str:
    response = studio.get(f"draft/{token}/question{query}")
    assert response.status_code == 200
    return " ".join(response.text.split())


def value(studio: StudioClient, token: str, key: str) -> Any:
    return studio.draft(token).content.value(key, None)


def errors(studio: StudioClient, token: str) -> dict[str, str]:
    draft = studio.draft(token)
    return dict(read_draft(draft.content, draft.folder)[1])


def preview(studio: StudioClient, token: str, query: str = "") -> Any:
    """The page that the frame shows."""
    answer = studio.client.get(f"/owner/draft/{token}/preview{query}")
    if answer.status_code != 303:
        return answer
    assert answer.headers["location"].startswith("../../../framed-preview/")
    return studio.client.get(f"/owner/draft/{token}/{answer.headers['location']}")


# The preview.


def test_the_preview_is_the_first_question_with_the_words_of_the_draft(
    studio: StudioClient, token: str
) -> None:
    studio.save(token, "question", "wording.score", "Does it suit you?")
    shown = preview(studio, token)
    assert shown.status_code == 200
    assert "frame-ancestors 'self'" in shown.headers["content-security-policy"]
    assert '"step": "question"' in shown.text
    assert "Does it suit you?" in shown.text
    (address,) = set(re.findall(r'"reference": {"token": "([^"]+)"', shown.text))
    frame = str(shown.url.path).removesuffix("study/")
    image = studio.client.get(f"{frame}image/{address}")
    assert image.headers["content-type"] == "image/webp"
    studio.save(token, "question", "wording.score", "Does it fit?")
    assert "Does it fit?" in preview(studio, token).text


@pytest.mark.parametrize("kind", list(KINDS))
def test_every_kind_has_a_preview(studio: StudioClient, token: str, kind: str) -> None:
    if kind == "ranking":
        add_third_system(studio, token)
    assert act(studio, token, "kind", value=kind).status_code == 200
    assert f'"kind": "{kind}"' in preview(studio, token).text


@pytest.mark.parametrize("kind", [name for name, kind in KINDS.items() if kind.practice])
def test_people_practise_with_a_query_of_the_study(
    studio: StudioClient, token: str, kind: str
) -> None:
    add_third_system(studio, token)
    act(studio, token, "kind", value=kind)
    assert act(studio, token, "practice", value="q03").status_code == 200
    assert errors(studio, token) == {}
    text = "The request says it."
    studio.save(token, "question", "practice.explanation", text)
    assert "The right answer" in page(studio, token)
    shown = preview(studio, token, "?at=practice").text
    assert '"step": "practice"' in shown
    assert "is plain" in shown  # the request of the query
    assert text in shown
    assert draw(studio.database, token, OWNER) == "study"
    act(studio, token, "practice", value="")
    assert value(studio, token, "practice") is None


def test_the_practice_question_is_entered_and_checked(studio: StudioClient, token: str) -> None:
    act(studio, token, "practice", value="q03")
    assert value(studio, token, "practice.systems") == ["mine", "theirs"]
    studio.save(token, "question", "practice.systems.0", "theirs")
    assert set(errors(studio, token)) == {"practice.systems"}
    studio.save(token, "question", "practice.systems.1", "mine")
    studio.save(token, "question", "practice.expected", "3")
    assert "is not 1 or 2, the better set" in page(studio, token)
    studio.save(token, "question", "practice.expected", "2")
    assert errors(studio, token) == {}
    act(studio, token, "practice", value="q99")
    assert "no query" in preview(studio, token).text
    act(studio, token, "kind", value="single")
    assert value(studio, token, "practice") is None
    assert act(studio, token, "practice", value=5).status_code == 422


def test_a_frame_leaves_the_walk_through_alone(studio: StudioClient, token: str) -> None:
    """A walk-through goes on in another tab while the page shows its frame."""
    opened = studio.client.get(f"/owner/draft/{token}/preview?walk=1")
    assert (
        studio.client.get(f"/owner/draft/{token}/{opened.headers['location']}").status_code == 303
    )
    assert studio.client.get("/preview/question").json()["step"] == "consent"
    assert (
        studio.client.post("/preview/consent", json={"agrees": True}).json()["step"] == "practice"
    )
    assert '"step": "question"' in preview(studio, token).text
    assert studio.client.get("/preview/question").json()["step"] == "practice"
    steps = [studio.client.post("/preview/next-step", json={}).json()["step"] for _ in range(7)]
    assert steps[-1] == "done"


def test_nothing_of_a_preview_is_stored_with_the_study(studio: StudioClient, token: str) -> None:
    before = studio.draft(token)
    preview(studio, token)
    with studio.database.reading() as session:
        assert find_study(session, before.name) is None
    assert studio.draft(token).revision == before.revision
    assert preview_file(before.content, before.folder).is_file()


def test_few_previews_are_kept_and_open(studio: StudioClient, token: str) -> None:
    frames = []
    for number in range(MOST_OPEN + 3):
        studio.save(token, "question", "study.title", f"Title {number}")
        frames.append(str(preview(studio, token).url.path))
    folder = studio.draft(token).folder / PREVIEWS
    assert len(list(folder.glob("*.db"))) <= KEPT + 1
    assert len(OPEN_PREVIEWS._opened) <= MOST_OPEN
    for number, frame in enumerate(frames):
        assert f"Title {number}" in studio.client.get(frame).text
    for file in folder.glob("*.db"):
        file.unlink()
    assert "Title" not in studio.client.get(frames[0]).text
    assert "Title" in preview(studio, token).text


def test_a_draft_without_images_says_what_its_preview_needs(studio: StudioClient) -> None:
    token = studio.new_draft()
    text = page(studio, token)
    assert "There are no queries yet." in text
    assert "<iframe" not in text
    shown = preview(studio, token)
    assert (shown.status_code, "there is no query" in shown.text) == (200, True)
    assert "frame-ancestors 'self'" in shown.headers["content-security-policy"]


def test_errors_of_the_draft_are_said_without_the_servers_paths(
    studio: StudioClient, token: str
) -> None:
    studio.save(token, "question", "study.title", "")
    shown = preview(studio, token).text
    assert "study.title" in shown
    assert str(studio.draft(token).folder) not in shown


def test_hostile_texts_are_shown_as_texts(studio: StudioClient, token: str) -> None:
    hostile = HOSTILE.replace("\u202e", "")
    studio.save(token, "question", "study.title", hostile)
    act(studio, token, "item", field="wording.anchors.0", value=hostile[:50])
    text = page(studio, token)
    assert "<img src=x" not in text
    assert "<img src=x" not in preview(studio, token).text
    assert HOSTILE not in preview(studio, token).text


def test_only_owners_open_a_preview_of_a_draft(studio: StudioClient, token: str) -> None:
    frame = str(preview(studio, token).url.path)
    stranger = browser_of(studio.app)
    address = f"/owner/draft/{token}/preview"
    assert stranger.get(address).status_code in (303, 401)
    assert "framed-preview" not in stranger.get(address).headers.get("location", "")
    forged = frame.replace(token, "0123456789abcdef")
    assert stranger.get(forged).status_code == 401
    for role in (Role.ANALYST, Role.HELPER):
        add_account(studio.database, role.value, role)
        client = browser_of(studio.app)
        log_in(client, name=role.value)
        assert client.get(address).status_code == 403
        assert client.get(f"/owner/draft/{token}/question").status_code == 403
    assert studio.client.get("/owner/draft/../../preview").status_code in (404, 401)
    assert studio.client.get("/owner/draft/none/preview").status_code == 422


def test_previews_are_drawn_at_the_same_time(studio: StudioClient, token: str) -> None:
    found: list[str] = []

    def look() -> None:
        client: TestClient = browser_of(studio.app)
        log_in(client)
        answer = client.get(f"/owner/draft/{token}/preview")
        found.append(client.get(f"/owner/draft/{token}/{answer.headers['location']}").text)

    threads = [threading.Thread(target=look) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert all('"step": "question"' in text for text in found)


# Kinds.


def test_another_kind_keeps_what_still_applies(studio: StudioClient, token: str) -> None:
    for key, given in {
        "wording.score": "Fits?",
        "wording.preference": "Better?",
        "design.preference_ties": True,
        "study.set_names": "One\nTwo",
    }.items():
        kind = "bool" if given is True else "list" if "\n" in str(given) else "text"
        studio.save(token, "question", key, given, type=kind)
    done = act(studio, token, "kind", value="single").json()
    assert done["undo"] == {"act": "undo"}
    assert value(studio, token, "wording.score") == "Fits?"
    for key in ("wording.preference", "design.preference_ties", "study.set_names"):
        assert value(studio, token, key) is None
    assert errors(studio, token) == {}
    act(studio, token, "undo")
    assert value(studio, token, "wording.preference") == "Better?"
    assert value(studio, token, "design.kind") is None


def test_live_kinds_ask_for_the_addresses_of_systems(studio: StudioClient, token: str) -> None:
    act(studio, token, "add-question", list="questionnaire.after_each")
    act(studio, token, "kind", value="arena")
    assert set(errors(studio, token)) == {"searches.retrievers"}
    assert "Live systems" in page(studio, token)
    for number, name in enumerate(("a", "b")):
        at = f"searches.retrievers.{number}"
        studio.save(token, "question", f"{at}.name", name)
        studio.save(token, "question", f"{at}.url", f"http://127.0.0.1:{8100 + number}")
    assert errors(studio, token) == {}
    act(studio, token, "kind", value="pair")
    assert errors(studio, token) == {}


@pytest.mark.parametrize("wrong", ["", "form", "../x", None, 3, ["pair"], {"a": 1}])
def test_unknown_kinds_change_nothing(studio: StudioClient, token: str, wrong: Any) -> None:
    before = studio.draft(token).revision
    assert act(studio, token, "kind", value=wrong).status_code == 422
    assert studio.draft(token).revision == before


# Words.


def test_points_of_the_scale_are_written_added_and_removed(
    studio: StudioClient, token: str
) -> None:
    usual = ["Does not match at all", "Matches poorly", "Matches partly", "Matches well"]
    usual.append("Matches fully")
    act(studio, token, "item", field="wording.anchors.4", value="Perfectly", seen=usual[4])
    assert value(studio, token, "wording.anchors") == [*usual[:4], "Perfectly"]
    act(studio, token, "points", by="1")
    assert value(studio, token, "wording.anchors") == [*usual[:4], "", "Perfectly"]
    assert errors(studio, token) == {}
    for _ in range(3):
        act(studio, token, "points", by="-1")
    assert value(studio, token, "wording.anchors") == [usual[0], usual[1], "Perfectly"]
    assert act(studio, token, "points", by="-1").status_code == 422
    for wrong in ("wording.anchors.9", "wording.anchors.-1", "study.title.0", "wording.anchors.x"):
        assert act(studio, token, "item", field=wrong, value="x").status_code == 422


def test_names_of_sets_return_to_the_usual_ones(studio: StudioClient, token: str) -> None:
    act(studio, token, "item", field="study.set_names.0", value="Shop A")
    assert value(studio, token, "study.set_names") == ["Shop A", "Set 2"]
    assert "Shop A" in preview(studio, token).text
    act(studio, token, "item", field="study.set_names.0", value="Set 1")
    assert value(studio, token, "study.set_names") is None or errors(studio, token) == {}


def test_guidelines_begin_with_the_usual_text(studio: StudioClient, token: str) -> None:
    act(studio, token, "guidelines")
    text = value(studio, token, "study.guidelines")
    assert "**" in text or "#" in text or "-" in text
    assert errors(studio, token) == {}
    act(studio, token, "guidelines")
    assert value(studio, token, "study.guidelines") is None


def test_texts_that_name_files_of_the_server_are_texts(
    studio: StudioClient, token: str, tmp_path: Path
) -> None:
    secret = tmp_path / "secret.md"
    secret.write_text("telltale", encoding="utf-8")
    studio.save(token, "question", "study.guidelines", str(secret))
    draft = studio.draft(token)
    config, _ = read_draft(draft.content, draft.folder)
    assert config.study.guidelines == str(secret)
    assert "telltale" not in preview(studio, token).text


# Languages.


def test_korean_is_complete_but_for_own_texts(studio: StudioClient, token: str) -> None:
    studio.save(token, "question", "wording.score", "Does it suit you?")
    act(studio, token, "language", tag="ko")
    assert value(studio, token, "study.languages") == ["en", "ko"]
    text = page(studio, token)
    assert "2 texts not translated" in text  # the title, too
    studio.save(token, "question", "study.ko.title", "어느 것이 더 맞나요?")
    act(studio, token, "translate", field="ko page.how_well", value="얼마나 맞나요?")
    assert studio.draft(token).content.texts == {"ko": {"page": {"how_well": "얼마나 맞나요?"}}}
    assert "not translated" not in page(studio, token)
    shown = preview(studio, token, "?in=ko").text
    assert "얼마나 맞나요?" in shown
    assert "어느 것이 더 맞나요?" in shown
    file = studio.get(f"draft/{token}/texts/ko.json").json()
    assert file == {"page": {"how_well": "얼마나 맞나요?"}}
    assert "ko.json" in studio.get(f"draft/{token}/study.toml").text
    act(studio, token, "language", tag="ko")
    assert errors(studio, token) == {}


def test_another_language_needs_all_texts(studio: StudioClient, token: str) -> None:
    act(studio, token, "language", tag="de")
    text = page(studio, token)
    assert "How well does this set match?" in text
    assert "texts not translated" in text
    act(studio, token, "translate", field="de page.anchors", value="a\nb\nc\nd\ne")
    assert studio.draft(token).content.texts["de"]["page"]["anchors"] == list("abcde")
    act(studio, token, "translate", field="de page.search_position", value="ohne Zahl")
    assert any("placeholder" in what for what in errors(studio, token).values())


@pytest.mark.parametrize("tag", ["", "English", "../x", "d" * 50, "en", "<b>"])
def test_wrong_languages_are_refused(studio: StudioClient, token: str, tag: str) -> None:
    assert act(studio, token, "language", tag=tag).status_code == 422
    assert act(studio, token, "translate", field=f"{tag} page.rank", value="x").status_code == 422


# Extra questions.


def test_extra_questions_are_added_changed_moved_and_removed(
    studio: StudioClient, token: str
) -> None:
    key = "questionnaire.at_end"
    for _ in range(2):
        act(studio, token, "add-question", list=key)
    names = [each["name"] for each in value(studio, token, key)]
    assert names == ["question_1", "question_2"]
    assert errors(studio, token) == {}
    for kind in ("choices", "scale", "number", "text", "scale", "choice"):
        assert act(studio, token, "type", field=f"{key}.0.type", value=kind).status_code == 200
        assert errors(studio, token) == {}, kind
    studio.save(token, "question", f"{key}.0.text", "")
    assert set(errors(studio, token)) == {f"{key}.0.text"}
    assert f'id="e-{key}.0.text"' in page(studio, token)
    act(studio, token, "move-question", list=key, number=1, to="up")
    assert [each["name"] for each in value(studio, token, key)] == ["question_2", "question_1"]
    said = act(studio, token, "move-question", list=key, number=1, to="away").json()
    assert said["undo"] == {"act": "undo"}
    assert [each["name"] for each in value(studio, token, key)] == ["question_2"]
    act(studio, token, "move-question", list=key, number=0, to="away")
    assert value(studio, token, key) is None


@pytest.mark.parametrize(
    "given",
    [
        {"list": "study", "number": 0},
        {"list": "questionnaire.at_end", "number": 5},
        {"list": "questionnaire.at_end", "number": -2},
        {"list": "questionnaire.at_end", "number": "x"},
        {"list": ["questionnaire.at_end"], "number": 0},
    ],
)
def test_wrong_questions_are_refused(
    studio: StudioClient, token: str, given: dict[str, Any]
) -> None:
    act(studio, token, "add-question", list="questionnaire.at_end")
    before = studio.draft(token).revision
    assert act(studio, token, "move-question", to="away", **given).status_code == 422
    assert studio.draft(token).revision == before


def test_wrong_types_are_refused(studio: StudioClient, token: str) -> None:
    act(studio, token, "add-question", list="questionnaire.at_end")
    field = "questionnaire.at_end.0.type"
    assert act(studio, token, "type", field=field, value="form").status_code == 422
    for wrong in ("questionnaire.at_end.7.type", "study.title.type", "x"):
        assert act(studio, token, "type", field=wrong, value="text").status_code == 422


ANY_KEYS = (
    *("questionnaire.at_end", "searches.retrievers", "wording.anchors", "study.set_names"),
    *("study.languages", "study.guidelines", "design.kind", "study.ko.title", "wording.score"),
    *("queries.systems", "design.k", "practice", "practice.systems"),
)


@pytest.mark.parametrize("wrong", ["x", 7, True, ["x"], {"a": "b"}, [["x"]], [{}], [{"type": []}]])
def test_the_page_shows_whatever_was_entered(studio: StudioClient, token: str, wrong: Any) -> None:
    for keys in (ANY_KEYS, ("study.set_names", "wording.anchors"), ("questionnaire.at_end",)):
        with studio.database.writing() as session:
            for key in keys:
                change_draft(
                    session, token, OWNER, partial(Content.with_value, key=key, value=wrong)
                )
        for step in ("question", "systems"):
            assert studio.get(f"draft/{token}/{step}").status_code == 200
        assert preview(studio, token).status_code == 200
        added = act(studio, token, "add-question", list="questionnaire.at_end")
        assert added.status_code in (200, 422)
        assert act(studio, token, "kind", value="single").status_code == 200
        assert act(studio, token, "undo").status_code == 200


# After the launch.


def test_words_can_be_corrected_once_the_study_is_open(studio: StudioClient, token: str) -> None:
    act(studio, token, "language", tag="ko")
    name = draw(studio.database, token, OWNER)
    with studio.database.writing() as session:
        study = find_study(session, name)
        assert study is not None
        study.status = "open"
    done = act(studio, token, "item", field="wording.anchors.4", value="Perfectly")
    assert "Changed for everybody" in done.json().get("say", ""), done.text
    done = act(studio, token, "translate", field="ko page.anchors", value="가\n나\n다\n라\n마")
    assert done.status_code == 200
    with studio.database.reading() as session:
        study = find_study(session, name)
        assert study is not None
        assert study.design["wording"]["anchors"][4] == "Perfectly"
        assert study.design["study"]["translations"]["ko"]["texts"]["page"]["anchors"][0] == "가"
    for name_of_act, given in {
        "kind": {"value": "single"},
        "points": {"by": "1"},
        "language": {"tag": "de"},
        "add-question": {"list": "questionnaire.at_end"},
    }.items():
        assert act(studio, token, name_of_act, **given).status_code == 422, name_of_act
    text = page(studio, token)
    assert "Kind of question" not in text
    assert TITLE in text
    too_few = act(studio, token, "item", field="wording.anchors.0", value="")
    assert too_few.status_code == 422


# In a browser.


@contextmanager
def served(studio: StudioClient, place: Place) -> Iterator[ThreadServer]:
    server = ThreadServer(place, studio.database, build_app(studio.database))
    server.start()
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture
def owners_page(chromium: Any, tmp_path: Path) -> Iterator[Page]:
    """The step, in the browser of an owner."""
    place = Place(tmp_path)
    studio = studio_in(place)
    token = studio.new_draft()
    fill(studio, token)
    with served(studio, place) as server:
        context = new_context_of(chromium, viewport={"width": 1280, "height": 900})
        page = context.new_page()
        faults_of_page: list[str] = []
        page.on("pageerror", lambda error: faults_of_page.append(str(error)))
        page.goto(f"{server.url}/owner/login")
        page.fill("#password", PASSWORD)
        page.click("button[name=enter]")
        page.goto(f"{server.url}/owner/draft/{token}/question")
        yield page
        context.close()
        assert faults_of_page == []


@pytest.mark.browser
def test_a_changed_word_is_seen_in_the_preview(owners_page: Page) -> None:
    page = owners_page
    frame = page.frame_locator("iframe")
    expect(frame.locator(".page")).to_have_attribute("data-step", "question")
    expect(frame.locator(".preview")).to_be_hidden()
    expect(frame.locator("dialog[open]")).to_have_count(0)
    page.get_by_label("Question about both").fill("I would rather buy")
    page.get_by_label("Question about both").blur()
    expect(frame.get_by_text("I would rather buy").first).to_be_visible()
    page.locator("label[for=phone]").click()
    page.locator('input[value="single"]').check(force=True)
    expect(frame.locator(".foot")).not_to_contain_text("I would rather buy")
    expect(page.locator("#phone")).to_be_checked()
    page.get_by_role("button", name="Undo", exact=True).click()
    expect(frame.get_by_text("I would rather buy").first).to_be_visible()
    page.get_by_role("button", name="Add 한국어").click()
    page.locator(".in-language a[lang=ko]").click()
    expect(frame.locator("html")).to_have_attribute("lang", "ko")


@pytest.mark.browser
def test_the_steps_have_no_fault_of_accessibility(owners_page: Page) -> None:
    page = owners_page
    page.get_by_role("button", name="Add one at the end").click()
    page.get_by_role("button", name="Add 한국어").click()
    for details in page.locator("details").all():
        details.evaluate("each => { each.open = true; }")
    assert list(faults(page)) == []
    page.goto(page.url.replace("/question", "/systems"))
    assert list(faults(page)) == []
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") == 390
