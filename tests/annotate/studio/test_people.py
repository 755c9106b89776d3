"""The step "People and consent": modes, consent, links and places, Prolific."""

from __future__ import annotations

import csv
import html
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select

from hsfiq.actors import OWNER, Role
from hsfiq.audit import Selection, entries
from hsfiq.collect.owner import perform, prepare
from hsfiq.collect.studies import find_study
from hsfiq.db.tables import Participant, Study
from hsfiq.drafts import draw, read_draft
from hsfiq.study.config import config_of
from hsfiq.study.config_file import read_config
from tests.annotate.owner.studies_in_progress import add_account, log_in
from tests.annotate.served_studies import browser_of
from tests.annotate.studio.conftest import StudioClient, fill
from tests.annotate.studio.test_design import text_of
from tests.prolific_server import TOKEN, FakeProlific, prolific_server

MODES = ("invitation", "open", "prolific", "mturk", "panel")


@pytest.fixture
def token(studio: StudioClient) -> str:
    token = studio.new_draft()
    fill(studio, token)
    return token


def opened(studio: StudioClient, token: str) -> str:
    name = draw(studio.database, token, OWNER)
    with studio.database.writing() as session:
        study = find_study(session, name)
        assert study is not None
        perform(session, prepare(study, "open"), OWNER)
    return name


def people_page(studio: StudioClient, token: str, query: str = "") -> str:
    return text_of(studio.get(f"draft/{token}/people{query}").text)


# How people join.


@pytest.mark.parametrize("first", MODES)
@pytest.mark.parametrize("second", MODES)
def test_every_mode_is_valid_also_after_another(
    studio: StudioClient, token: str, tmp_path: Path, first: str, second: str
) -> None:
    """A file that the page made is read by the command line."""
    path = f"draft/{token}/people"
    for mode in (first, second):
        assert studio.act(path, "mode", field="mode", value=mode).status_code == 200
        if mode == "panel":
            studio.save(token, "people", "recruitment.panel.name", "Our panel")
            link = "https://panel.example.org/done?id={person}"
            studio.save(token, "people", "recruitment.panel.complete", link)
        studio.save(token, "people", "recruitment.enrolments_per_address", "40", type="int")
    file = tmp_path / "study.toml"
    file.write_text(studio.get(f"draft/{token}/study.toml").text)
    recruitment = read_config(file).recruitment
    assert recruitment.mode == second
    assert (recruitment.panel is not None) == (second == "panel")
    assert bool(recruitment.completion_code) == ("prolific" in (first, second))
    assert studio.get(path).status_code == 200


def test_the_summary_names_what_is_missing(studio: StudioClient) -> None:
    token = studio.new_draft()
    assert "ethics approval missing" in people_page(studio, token)
    studio.save(token, "people", "study.ethics", "ERB 1")
    assert "contact missing" in people_page(studio, token)
    studio.save(token, "people", "study.contact", "a@example.org")
    studio.save(token, "people", "study.institution", "Example University")
    assert "Personal links, consent ready" in people_page(studio, token)
    studio.save(token, "people", "study.ethics", "two\nlines")
    assert "ethics: must be one line" in people_page(studio, token)


# Consent.


def test_the_consent_is_that_of_participants(studio: StudioClient, token: str) -> None:
    studio.act(f"draft/{token}/people", "mode", field="mode", value="open")
    shown = people_page(studio, token)
    opened(studio, token)
    visitor = browser_of(studio.app)
    welcome = visitor.get("/")
    assert welcome.status_code == 200
    for line in (
        "Ethics approval: ERB 1.",
        "Example University carries out this study.",
        "6 questions, preceded by guidelines",
        "we store a code computed from your IP",
    ):
        assert line in shown


def test_gaps_of_the_consent_are_marked(studio: StudioClient) -> None:
    token = studio.new_draft()
    page = studio.get(f"draft/{token}/people").text
    assert page.count('<mark class="gap"') == 3
    assert page.count("Needed before the launch</span>") == 3
    studio.save(token, "people", "study.consent", "# Ours\n\nJoin in. <script>x</script>")
    page = studio.get(f"draft/{token}/people").text
    assert '<mark class="gap"' not in page
    assert "<script>x" not in page
    assert "Join in." in page
    assert "consent ready" in page


def test_the_consent_in_each_language(studio: StudioClient, token: str) -> None:
    studio.save(token, "question", "study.languages", "en\nko", type="list")
    korean = studio.get(f"draft/{token}/people?consent=ko").text
    assert 'lang="ko" id="consent"' in korean
    assert "윤리" in korean
    studio.save(token, "people", "study.ko.consent", "우리 연구에 참여해 주세요.")
    assert "우리 연구에 참여해 주세요." in studio.get(f"draft/{token}/people?consent=ko").text
    assert 'lang="en" id="consent"' in studio.get(f"draft/{token}/people?consent=xx").text
    assert read_draft(studio.draft(token).content, studio.draft(token).folder)[1] == {}


@pytest.mark.parametrize("step", ["people", "design"])
def test_hostile_texts_are_shown_as_texts(studio: StudioClient, token: str, step: str) -> None:
    hostile = "<img src=x onerror=alert(1)> {{7*7}} [a](javascript:alert(1))"
    for key in ("study.institution", "study.contact", "study.ethics", "study.title",
                "release.licence", "recruitment.completion_url"):  # fmt: skip
        studio.save(token, "people", key, hostile)
    page = studio.get(f"draft/{token}/{step}").text
    assert "<img src=x" not in page
    assert 'href="javascript' not in page
    assert "49" not in page.partition("<main")[2].partition("{{7*7}}")[0][-20:]


# After the launch: words, places, links.


def test_words_and_end_texts_change_after_the_launch(studio: StudioClient, token: str) -> None:
    name = opened(studio, token)
    for key, value in (("study.ethics", "ERB 2"), ("recruitment.completion_code", "ABC")):
        assert studio.save(token, "people", key, value).status_code == 200
    with studio.database.reading() as session:
        study = find_study(session, name)
        assert study is not None
        config = config_of(study)
    assert (config.study.ethics, config.recruitment.completion_code) == ("ERB 2", "ABC")
    for key, value, kind in (
        ("recruitment.participants", "9", "int"),
        ("recruitment.enrolments_per_address", "9", "int"),
        ("release.licence", "CC0-1.0", "text"),
    ):
        assert studio.save(token, "people", key, value, type=kind).status_code == 422
    assert studio.act(f"draft/{token}/people", "mode", value="open").status_code == 422


def test_places_are_added_once(studio: StudioClient, token: str) -> None:
    name = opened(studio, token)
    path = f"draft/{token}/people"
    studio.act(f"draft/{token}/design", "pay", field="pay", value="12")
    page = studio.get(path).text
    assert 'data-annotators="3"' in page
    first = studio.act(path, "extend", annotators="3")
    assert (first.status_code, first.json()["say"]) == (200, "1 more place.")
    second = studio.act(path, "extend", annotators="3")
    assert second.status_code == 422
    with studio.database.reading() as session:
        study = find_study(session, name)
        assert study is not None
        assert config_of(study).recruitment.participants == 3
        assert [each.action for each in entries(session, Selection())][-1] == "study.extend"
    assert "3 people" in people_page(studio, token)
    assert studio.save(token, "people", "study.ethics", "ERB 3").status_code == 200


def test_end_texts_in_each_language(studio: StudioClient, token: str) -> None:
    path = f"draft/{token}/people"
    for field, value in (("en page.thanks", "Thanks a lot!"), ("en entry.places_taken", "Full.")):
        assert studio.act(path, "end", field=field, value=value).status_code == 200
    for field in ("ko page.thanks", "en page.next", "en", "", "en entry.places_taken.x"):
        assert studio.act(path, "end", field=field, value="x").status_code == 422
    assert studio.act(path, "end", field="en page.thanks", value=7).status_code == 422
    name = opened(studio, token)
    assert studio.act(path, "end", field="en page.thanks", value="Bye!").status_code == 200
    with studio.database.reading() as session:
        study = find_study(session, name)
        assert study is not None
        texts = config_of(study).study.translations["en"].texts
    assert texts == {"page": {"thanks": "Bye!"}, "entry": {"places_taken": "Full."}}
    assert studio.act(path, "end", field="en entry.places_taken", value=" ").status_code == 200
    assert "Bye!" in studio.get(path).text


@pytest.mark.parametrize("wanted", ["0", "-1", "x", None, 10**9, [1]])
def test_wrong_numbers_of_places(studio: StudioClient, token: str, wanted: Any) -> None:
    opened(studio, token)
    path = f"draft/{token}/people"
    assert studio.act(path, "extend", annotators=wanted).status_code == 422


def test_places_need_an_opened_study(studio: StudioClient, token: str) -> None:
    assert studio.act(f"draft/{token}/people", "extend", annotators="3").status_code == 422


def test_links_are_made_and_downloaded(studio: StudioClient, token: str) -> None:
    name = opened(studio, token)
    reply = studio.client.post(f"/owner/draft/{token}/links.csv", data={"count": "2"})
    assert reply.headers["content-disposition"] == f'attachment; filename="{name}-links.csv"'
    assert reply.headers["cache-control"] == "no-store"
    rows = list(csv.DictReader(io.StringIO(reply.text)))
    assert [row["participant"] for row in rows] == ["p1", "p2"]
    assert "2 links have not been used yet." in people_page(studio, token)
    visitor = browser_of(studio.app)
    path = rows[0]["link"].partition("testserver")[2]
    assert visitor.get(path).status_code in (200, 303)
    assert "1 link has not been used yet." in people_page(studio, token)
    with studio.database.reading() as session:
        assert [each.action for each in entries(session, Selection())][-1] == "study.invite"


@pytest.mark.parametrize("count", ["", "0", "x", "501", "-1", "1e3", "٣"])
def test_wrong_numbers_of_links(studio: StudioClient, token: str, count: str) -> None:
    opened(studio, token)
    path = f"/owner/draft/{token}/links.csv"
    assert studio.client.post(path, data={"count": count}).status_code == 422
    with studio.database.reading() as session:
        assert session.scalar(select(func.count(Participant.id))) == 0


def test_links_need_a_drawn_study_and_a_role(studio: StudioClient, token: str) -> None:
    path = f"/owner/draft/{token}/links.csv"
    assert studio.client.post(path, data={"count": "1"}).status_code == 422
    opened(studio, token)
    for role in (Role.ANALYST, Role.HELPER):
        add_account(studio.database, role.value, role)
        other = browser_of(studio.app)
        log_in(other, name=role.value)
        assert other.post(path, data={"count": "1"}).status_code == 403
    strange = {"origin": "https://evil.example"}
    assert studio.client.post(path, data={"count": "1"}, headers=strange).status_code == 403
    assert browser_of(studio.app).post(path, data={"count": "1"}).status_code in (303, 401)


# Prolific.


@pytest.fixture
def prolific(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeProlific]:
    with prolific_server() as fake:
        monkeypatch.setenv("HSFIQ_PROLIFIC_URL", fake.url)
        monkeypatch.setenv("HSFIQ_PROLIFIC_TOKEN", TOKEN)
        yield fake


def test_the_draft_on_prolific_is_made_once(
    studio: StudioClient, token: str, prolific: FakeProlific
) -> None:
    path = f"draft/{token}/people"
    studio.act(path, "mode", field="mode", value="prolific")
    assert studio.act(path, "prolific").status_code == 422
    studio.act(f"draft/{token}/design", "pay", field="pay", value="9")
    name = draw(studio.database, token, OWNER)
    page = studio.get(path).text
    assert "Make the draft on Prolific" in page
    assert TOKEN not in page
    made = studio.act(path, "prolific", description="Sort pictures.")
    assert made.status_code == 200, made.text
    assert [each["description"] for each in prolific.studies.values()] == ["Sort pictures."]
    assert studio.act(path, "prolific").status_code == 200
    assert [sent for sent in prolific.sent() if sent[0] == "POST"] == [("POST", "/studies/")]
    with studio.database.reading() as session:
        bound = session.scalar(select(Study.platform_study_id).where(Study.name == name))
    assert bound
    assert bound in studio.get(path).text


def test_prolific_without_a_token_says_what_to_do(
    studio: StudioClient, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = f"draft/{token}/people"
    studio.act(path, "mode", field="mode", value="prolific")
    monkeypatch.delenv("HSFIQ_PROLIFIC_TOKEN", raising=False)
    assert "Not connected" in studio.get(path).text
    monkeypatch.setenv("HSFIQ_PROLIFIC_TOKEN", "two words")
    page = html.unescape(studio.get(path).text)
    assert "holds no token" in page
    assert "two words" not in page


@pytest.mark.parametrize("mode", ["", "fax", "Prolific", "__class__"])
def test_unknown_modes(studio: StudioClient, token: str, mode: str) -> None:
    assert studio.act(f"draft/{token}/people", "mode", value=mode).status_code == 422
