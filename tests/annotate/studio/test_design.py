"""The step "Design": the figures of `hsfiq init` and `hsfiq power`, and choices that follow."""

from __future__ import annotations

import html
import json
import re
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from hsfiq.actors import OWNER, Role
from hsfiq.annotate.studio.design import CURRENCIES, paid
from hsfiq.collect.owner import perform, prepare
from hsfiq.collect.studies import find_study
from hsfiq.drafts import Content, DraftFile, change_draft, draft_folder, draw, trial_of
from hsfiq.project import size_for, size_of
from hsfiq.study.capacity import planned_budget
from hsfiq.study.config import Checks, Design, Presentation, Queries, StudyConfig
from hsfiq.study.recruiting import Recruitment
from tests.annotate.owner.studies_in_progress import add_account, log_in
from tests.annotate.served_studies import browser_of
from tests.annotate.studio.conftest import StudioClient, fill
from tests.hsfiq.own_data import write_own_data
from tests.hsfiq.samples import hsfiq

FILES = ("queries.csv", "mine.jsonl", "clip4cir.xlsx")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("own")
    write_own_data(folder)
    return folder


def filled(studio: StudioClient, data: Path) -> str:
    """The token of a new draft with 40 queries and two systems."""
    token = studio.new_draft()
    folder = draft_folder(studio.database, token)
    shutil.copytree(data / "photos", folder / "images")
    (folder / "files").mkdir()
    for name in FILES:
        shutil.copy(data / name, folder / "files" / name)
    files = [
        DraftFile(name="photos", role="images", size=1, count=40),
        DraftFile(name=FILES[0], role="queries", size=1),
        DraftFile(name=FILES[1], role="lists", size=1, system="mine"),
        DraftFile(name=FILES[2], role="lists", size=1, system="clip4cir"),
    ]
    change(studio, token, lambda content: content.model_copy(update={"files": tuple(files)}))
    return token


def change(studio: StudioClient, token: str, changed: Callable[[Content], Content]) -> None:
    with studio.database.writing() as session:
        change_draft(session, token, OWNER, changed)


def resize(studio: StudioClient, token: str, **numbers: int | str) -> str:
    """Move the sliders; the page as it is then."""
    for name, number in numbers.items():
        given = {"field": name, "value": str(number), "type": "text"}
        reply = studio.act(f"draft/{token}/design", "size", **given)
        assert reply.status_code == 200, reply.text
    return text_of(studio.get(f"draft/{token}/design").text)


def text_of(page: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", page)).split())


# The figures.


def test_the_figures_are_those_of_init_and_power(
    studio: StudioClient, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = ("--images", data / "photos", "--queries", data / "queries.csv")
    runs = ("--run", f"mine={data / 'mine.jsonl'}", "--run", data / "clip4cir.xlsx")
    numbers = ("--participants", "30", "--pay", "12 EUR")
    made = hsfiq("init", tmp_path / "own", *options, *runs, *numbers, "--yes", "--json").result
    monkeypatch.chdir(tmp_path / "own")
    monkeypatch.delenv("HSFIQ_DATABASE_URL", raising=False)
    power = hsfiq("power", "--preference", "0.7", "--json").result["planned"]
    power.pop("pair")
    token = filled(studio, data)
    studio.act(f"draft/{token}/design", "pay", field="pay", value="12")
    page = resize(studio, token, people=30, questions=made["planned"]["questions"])
    assert f"{made['minutes_each']} min" in page
    assert paid(made["cost"]["amount"], "EUR") in page
    assert f"± {100 * power['half_width']:.1f}" in page
    trial = trial_of(studio.database, studio.draft(token).content, studio.draft(token).folder)
    assert trial.budget is not None
    assert trial.budget.facts() | {"cost": None} == {
        key: made[key] for key in trial.budget.facts()
    } | {"cost": None}
    assert made["planned"] == power


@pytest.mark.parametrize("forms", [1, 2])
@pytest.mark.parametrize("share", [1.0, 0.4])
@pytest.mark.parametrize("category", ["one", "mixed"])
def test_the_budget_is_that_of_the_drawn_study(
    studio: StudioClient, data: Path, forms: int, share: float, category: str
) -> None:
    token = filled(studio, data)
    values = {
        "design.questions_per_form": 9,
        "design.forms_per_participant": forms,
        "design.annotators_per_query": 3,
        "design.overlap_share": share,
        "design.categories": category,
        "checks.repeated": 2,
        "recruitment.participants": 0,
    }
    change(studio, token, lambda content: content.with_values(values))
    draft = studio.draft(token)
    drawn = trial_of(studio.database, draft.content, draft.folder).budget
    assert drawn is not None
    config = StudyConfig(
        Presentation("a", "a"),
        design=Design(
            questions_per_form=9,
            forms_per_participant=forms,
            annotators_per_query=3,
            overlap_share=share,
            categories=category,  # type: ignore[arg-type]
        ),
        checks=Checks(gold=1, repeated=2),
    )
    planned = planned_budget(config, draft.asked.categories, None)
    assert planned.overlap == drawn.overlap
    assert 0 <= drawn.participants - planned.participants <= (share < 1)
    assert (planned.questions, planned.duration) == (drawn.questions, drawn.duration)


def test_samples_are_planned_as_they_are_drawn() -> None:
    config = StudyConfig(
        Presentation("a", "a"),
        design=Design(questions_per_form=10, forms_per_participant=1, categories="mixed"),
        queries=Queries(sample=60),
        recruitment=Recruitment(participants=4),
    )
    budget = planned_budget(config, {"": 300}, 12)
    assert (budget.participants, budget.capacity.places, budget.overlap) == (4, 6, 1)
    assert budget.cost == 4 * budget.duration.minutes / 60 * 12


@pytest.mark.parametrize("n_queries", [1, 2, 7, 34, 40, 500])
@pytest.mark.parametrize("people", [1, 2, 19, 36])
@pytest.mark.parametrize("questions", [1, 2, 24, 25, 31, 50])
def test_everybody_gets_the_questions_and_queries_are_judged_evenly(
    n_queries: int, people: int, questions: int
) -> None:
    size = size_of(n_queries, people, questions)
    each = size.questions
    assert each <= min(questions, n_queries)
    assert each >= min(questions, n_queries) - 1
    judged = size.sample or n_queries
    assert judged * size.overlap >= people * each > judged * (size.overlap - 1)
    assert size.overlap <= people


def test_figures_of_20000_people_and_5000_queries_come_quickly(
    studio: StudioClient, data: Path
) -> None:
    token = filled(studio, data)
    resize(studio, token, people=20000)
    begun = time.monotonic()
    page = resize(studio, token, questions=20)
    assert time.monotonic() - begun < 3
    assert "20000" in page


# What follows from what.


def test_the_number_of_judges_follows_until_it_is_set(studio: StudioClient, data: Path) -> None:
    token = filled(studio, data)
    page = resize(studio, token, people=20, questions=24)
    assert studio.draft(token).content.value("design.annotators_per_query") == 12
    assert "annotators_per_query = 12" in studio.get(f"draft/{token}/study.toml").text
    assert "Each query is judged by about 12 people; 480 answers in all." in page
    resize(studio, token, overlap=5)
    size = size_for(40, 20, 5)
    assert size_in(studio, token) == (5, size.questions)
    resize(studio, token, people=40)
    assert size_in(studio, token) == (5, size_for(40, 40, 5).questions)
    resize(studio, token, questions=20)
    assert size_in(studio, token) == (20, 20)
    resize(studio, token, overlap=3)
    assert "Calculate it" in resize(studio, token, people=30)
    assert "Calculate it" not in resize(studio, token, overlap="")


def size_in(studio: StudioClient, token: str) -> tuple[int, int]:
    content = studio.draft(token).content
    forms = content.value("design.forms_per_participant")
    return content.value("design.annotators_per_query"), forms * content.value(
        "design.questions_per_form"
    )


def test_more_than_thirty_questions_are_asked_in_two_parts(
    studio: StudioClient, data: Path
) -> None:
    token = filled(studio, data)
    page = resize(studio, token, people=20, questions=200)
    content = studio.draft(token).content
    assert content.value("design.forms_per_participant") == 2
    assert content.value("design.questions_per_form") == 19  # gold questions need two others
    assert "at most 38: nobody sees a query twice; in two parts, with a break" in page
    assert "A sum between the two parts" in page


def test_the_study_of_the_page_can_be_drawn(studio: StudioClient, data: Path) -> None:
    token = filled(studio, data)
    resize(studio, token, people=7, questions=11)
    name = draw(studio.database, token, OWNER)
    with studio.database.reading() as session:
        study = find_study(session, name)
        assert study is not None
    assert studio.draft(token).asked.queries == 40


def test_what_the_study_decides(studio: StudioClient, data: Path) -> None:
    token = filled(studio, data)
    path = f"draft/{token}/design"
    usual = {"question": "systems", "pair": ["mine", "clip4cir"], "exclusions": ["invalid"]}
    assert studio.draft(token).content.value("analysis") == usual
    for key, value, kind in (
        ("pair", "clip4cir\nmine", "list"),
        ("margin", "0.05", "float"),
        ("exclusions", "", "list"),
    ):
        reply = studio.act(path, "decide", field=key, value=value, type=kind)
        assert reply.status_code == 200
    plan = studio.draft(token).content.value("analysis")
    assert {key: value for key, value in plan.items() if value is not None} == {
        "question": "systems",
        "pair": ["clip4cir", "mine"],
        "margin": 0.05,
    }
    studio.act(path, "decide", field="question", value="")
    assert "[analysis]" not in studio.get(f"draft/{token}/study.toml").text
    studio.act(path, "decide", field="question", value="systems")
    assert studio.draft(token).content.value("analysis") == usual
    studio.act(path, "decide", field="pair", value="mine\nnobody", type="list")
    assert "There is no system nobody." in studio.get(path).text


def test_checks_and_their_rule(studio: StudioClient, data: Path) -> None:
    token = filled(studio, data)
    path = f"draft/{token}/design"
    studio.act(path, "check", field="checks.gold", value=False)
    studio.act(path, "rule", field="rule", value="exclude")
    content = studio.draft(token).content
    assert content.value("checks.gold") == 0
    assert content.value("recruitment.max_failed_checks") == 1
    studio.act(path, "check", field="checks.repeated", value=False)
    assert "needs gold or repeated questions" in studio.get(path).text
    studio.act(path, "rule", field="rule", value="none")
    content = studio.draft(token).content
    assert content.value("checks.on_failure", None) is None
    assert content.value("recruitment.max_failed_checks", None) is None


@pytest.mark.parametrize(
    ("numbers", "warning"),
    [
        ({"people": 6}, "With fewer than 20 people"),
        ({"questions": 60}, ""),
        ({"people": 2, "questions": 10}, "judged by one person only"),
        ({"people": 2, "questions": 10}, "20 queries are left out at random"),
        ({"questions": 38}, ""),
    ],
)
def test_warnings_in_words(
    studio: StudioClient, data: Path, numbers: Mapping[str, int], warning: str
) -> None:
    page = resize(studio, filled(studio, data), **numbers)
    assert warning in page


def test_queries_without_lists_are_said(studio: StudioClient, data: Path) -> None:
    token = filled(studio, data)
    file = draft_folder(studio.database, token) / "files" / "mine.jsonl"
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join(lines[3:]))
    page = resize(studio, token, people=20, questions=12)
    assert "mine has no list for 3 queries, which are therefore not asked." in page


# Wrong and hostile input.


@pytest.mark.parametrize(
    ("act", "given"),
    [
        ("size", {"field": "people", "value": "0"}),
        ("size", {"field": "people", "value": "many"}),
        ("size", {"field": "people", "value": ""}),
        ("size", {"field": "people", "value": 2.5}),
        ("size", {"field": "people", "value": True}),
        ("size", {"field": "people", "value": None}),
        ("size", {"field": "people", "value": 10**9}),
        ("size", {"field": "people", "value": [20]}),
        ("size", {"field": "overlap", "value": "99"}),
        ("size", {"field": "study.name", "value": "3"}),
        ("size", {"value": "3"}),
        ("pay", {"field": "pay", "value": "much"}),
        ("pay", {"field": "pay", "value": "-1"}),
        ("pay", {"field": "pay", "value": "1e9"}),
        ("pay", {"field": "pay", "value": 9}),
        ("pay", {"field": "currency", "value": "POUND"}),
        ("check", {"field": "checks.gold", "value": 3}),
        ("check", {"field": "study.name", "value": True}),
        ("rule", {"value": 1}),
    ],
)
def test_what_cannot_be_chosen_is_refused(
    studio: StudioClient, data: Path, act: str, given: dict[str, Any]
) -> None:
    token = filled(studio, data)
    before = studio.draft(token)
    if given.get("field") == "currency":
        studio.act(f"draft/{token}/design", "pay", field="pay", value="9")
        before = studio.draft(token)
    reply = studio.act(f"draft/{token}/design", act, **given)
    assert reply.status_code == 422
    assert "error" in reply.json()
    assert studio.draft(token).revision == before.revision


def test_strange_values_of_a_plan_are_errors_and_no_faults(
    studio: StudioClient, data: Path
) -> None:
    token = filled(studio, data)
    path = f"draft/{token}/design"
    for key, value in (
        ("pair", [1, 2]),
        ("margin", "9"),
        ("exclusions", "nonsense"),
        ("constructor", "x"),
        ("alpha", True),
    ):
        assert studio.act(path, "decide", field=key, value=value).status_code == 200
        assert studio.get(path).status_code == 200
        assert studio.get(f"draft/{token}/launch").status_code == 200
        studio.act(path, "undo")


@pytest.mark.parametrize("value", ["many", -3, 10**12, "", [1], {"a": 1}])
@pytest.mark.parametrize(
    "key",
    ["recruitment.participants", "design.questions_per_form", "checks.gold", "design.kind"],
)
def test_pages_are_shown_whatever_the_file_holds(
    studio: StudioClient, data: Path, key: str, value: Any
) -> None:
    token = filled(studio, data)
    change(studio, token, lambda content: content.with_value(key, value))
    for step in ("design", "people", "launch"):
        assert studio.get(f"draft/{token}/{step}").status_code == 200


def test_texts_of_systems_are_shown_as_texts(studio: StudioClient, data: Path) -> None:
    token = filled(studio, data)
    hostile = "<script>alert(1)</script>{{7*7}}"
    file = draft_folder(studio.database, token) / "files" / "mine.jsonl"
    rows = [json.loads(line) | {"system": hostile} for line in file.read_text().splitlines()]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    files = [
        each.model_copy(update={"system": hostile}) if each.name == "mine.jsonl" else each
        for each in studio.draft(token).content.files
    ]
    change(studio, token, lambda content: content.model_copy(update={"files": tuple(files)}))
    page = studio.get(f"draft/{token}/design").text
    assert "<script>alert" not in page
    assert html.escape(hostile) in page


# After the launch, roles, languages.


def test_an_opened_study_is_shown_and_fixed(studio: StudioClient) -> None:
    token = studio.new_draft()
    fill(studio, token)
    name = draw(studio.database, token, OWNER)
    with studio.database.writing() as session:
        study = find_study(session, name)
        assert study is not None
        perform(session, prepare(study, "open"), OWNER)
    path = f"draft/{token}/design"
    assert studio.act(path, "size", field="people", value="5").status_code == 422
    page = studio.get(path).text
    assert 'type="range"' not in page
    assert "2 people" in page


@pytest.mark.parametrize(("role", "status"), [(Role.ANALYST, 403), (Role.HELPER, 403)])
def test_other_roles_do_not_set_up(
    studio: StudioClient, data: Path, role: Role, status: int
) -> None:
    token = filled(studio, data)
    add_account(studio.database, "other", role)
    other = browser_of(studio.app)
    log_in(other, name="other")
    for step in ("design", "people"):
        assert other.get(f"/owner/draft/{token}/{step}").status_code == status
        act = {"act": "size", "field": "people", "value": "5"}
        assert other.post(f"/owner/draft/{token}/{step}", json=act).status_code in (status, 422)


def test_korean(studio: StudioClient, data: Path) -> None:
    token = filled(studio, data)
    page = text_of(studio.client.get(f"/owner/draft/{token}/design?language=ko").text)
    assert "사람들은 두 시스템 중 어느 쪽을 선호하나요?" in page
    assert "Size of the study" not in page
    page = text_of(studio.client.get(f"/owner/draft/{token}/people").text)
    assert "아직 없음" in page
    assert "How people join" not in page


@pytest.mark.parametrize(("amount", "currency", "shown"), [
    (86.4, "GBP", "£86.40"), (86400, "KRW", "₩86,400"), (5, "SEK", "SEK 5.00"),
])  # fmt: skip
def test_amounts(amount: float, currency: str, shown: str) -> None:
    assert paid(amount, currency) == shown
    assert len(CURRENCIES) > 3
