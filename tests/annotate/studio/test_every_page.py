"""Every page of the studio: no fault of accessibility, no sideways scrolling, one heading."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from hsfiq.access import invite
from hsfiq.actors import OWNER, Role
from hsfiq.jobs import add_job
from tests.annotate.axe import faults
from tests.annotate.conftest import running
from tests.annotate.owner.studies_in_progress import PASSWORD, add_account
from tests.annotate.served_studies import TITLE as WATCHED
from tests.annotate.served_studies import Place, ThreadServer
from tests.annotate.studio.conftest import TITLE, StudioClient, fill, studio_in
from tests.annotate.studio.test_results import RESULTS, reported, run_jobs  # noqa: F401
from tests.annotate.studio.test_whole_study import own_files

pytestmark = [pytest.mark.browser, pytest.mark.slow]

WIDE, NARROW = {"width": 1440, "height": 900}, {"width": 390, "height": 844}
STEPS = {
    "images": "Images and queries",
    "systems": "Systems",
    "question": "Question",
    "design": "Design",
    "people": "People and consent",
    "launch": "Rehearse and launch",
}


@dataclass(frozen=True)
class Site:
    """A server of several studies and drafts."""

    url: str
    empty: str
    filled: str
    opening: str
    shared: str
    link: str

    def address(self, path: str) -> str:
        return self.url + path.format_map(vars(self))


@pytest.fixture(scope="module")
def site(reported: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:  # noqa: F811
    """A study with a report, a release and jobs, and drafts: empty, filled, about to be opened."""
    folder = tmp_path_factory.mktemp("site")
    shutil.copytree(reported, folder, dirs_exist_ok=True)
    place = Place(folder)
    studio = studio_in(place)
    drafts = [studio.new_draft() for _ in range(3)]
    for token in drafts[1:]:
        fill(studio, token)
    make_jobs(studio)
    assert studio.act(f"draft/{drafts[2]}/launch", "open").status_code == 200
    page = studio.act(RESULTS, "share").json()["page"]
    shared = page.partition("/shared/")[2].partition("/")[0].partition('"')[0]
    with studio.database.writing() as session:
        link = invite(session, "kim", Role.ANALYST, datetime.now(UTC) + timedelta(days=1))
    add_account(studio.database, "helper", Role.HELPER)
    with running(ThreadServer(place, studio.database, studio.app)) as server:
        yield Site(server.url, *drafts, shared, link)


def make_jobs(studio: StudioClient) -> None:
    """A release, a rehearsal that fails, and a job that waits."""
    made = studio.act(RESULTS, "make", version="1.0.0", licence="CC-BY-4.0", split="triplet")
    assert made.status_code == 200
    with studio.database.writing() as session:
        add_job(session, OWNER, "rehearsal", "Rehearsal", [["draft", "rehearse", "none"]])
    run_jobs(studio.database)
    assert studio.act(RESULTS, "compute").status_code == 200


OF_DRAFTS = {
    f"{step} of the {state} draft": (f"/owner/draft/{{{state}}}/{step}", (heading, title))
    for state, title in (("empty", "New study"), ("filled", TITLE))
    for step, heading in STEPS.items()
}
PAGES = {
    "studies": ("/owner/", ("Studies",)),
    "studies found": ("/owner/?q=nothing+like+it", ("Studies",)),
    **OF_DRAFTS,
    "countdown": ("/owner/draft/{opening}/launch", ("Rehearse and launch", TITLE)),
    "preview of nothing": ("/owner/draft/{empty}/preview", ("",)),
    "watch": ("/owner/study/1/watch", ("Watch", WATCHED)),
    "a person": (
        "/owner/study/1/watch?person=p2&all=1&answer=p2.form_1.0&done=1&figures=1",
        ("Watch", WATCHED),
    ),
    "a rule": ("/owner/study/1/watch?failed=1&seconds=15&try=1", ("Watch", WATCHED)),
    "recruiting": ("/owner/study/1/recruiting", ("Recruiting", WATCHED)),
    "results": ("/owner/study/1/results", ("Results", WATCHED)),
    "history": ("/owner/study/1/history", ("History", WATCHED)),
    "accounts": ("/owner/accounts", ("People and roles",)),
    "no study": ("/owner/study/99/watch", ("Not found",)),
    "no draft": ("/owner/draft/none/images", ("Not found",)),
    "revoked report": ("/shared/none/", ("hsfiq",)),
}
WITHOUT_LOGIN = {
    "log in": ("/owner/login", ("hsfiq studio",)),
    "set-up link": ("/owner/link/{link}", ("Set",)),
    "invalid link": ("/owner/link/none", ("hsfiq studio",)),
}


def log_in(page: Page, url: str, name: str = "owner") -> None:
    page.goto(f"{url}/owner/login")
    page.get_by_label("Name").fill(name)
    page.get_by_label("Password").fill(PASSWORD)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).not_to_have_text("hsfiq studio")


@pytest.fixture(scope="module")
def login(site: Site, reused_context: BrowserContext) -> Sequence[Any]:
    """The cookies of the owner."""
    page = reused_context.new_page()
    log_in(page, site.url)
    page.close()
    return reused_context.cookies(site.url)


@pytest.fixture
def page(login: Sequence[Any], context: BrowserContext) -> Iterator[Page]:
    """The page of the owner, in which no script may fail."""
    errors: list[str] = []
    context.add_cookies(login)
    page = context.new_page()
    page.on("pageerror", lambda error: errors.append(str(error)))
    yield page
    page.close()
    assert errors == []


@pytest.mark.parametrize("name", PAGES)
def test_a_page_has_no_fault(page: Page, site: Site, name: str) -> None:
    path, words = PAGES[name]
    page.goto(site.address(path))
    assert [word for word in words if word not in page.title()] == [], page.title()
    assert_usable(page)


def test_pages_without_a_login_have_no_fault(context: BrowserContext, site: Site) -> None:
    page = context.new_page()
    for path, words in WITHOUT_LOGIN.values():
        page.goto(site.address(path))
        assert all(word in page.title() for word in words)
        assert_usable(page)


def test_a_shared_report_has_no_fault(context: BrowserContext, site: Site) -> None:
    page = context.new_page()
    page.goto(site.address("/shared/{shared}/"))
    assert "telltale-study" in page.title()
    assert list(faults(page)) == []
    assert is_narrow(page)


def test_the_study_file_has_no_fault(page: Page, site: Site) -> None:
    page.goto(site.address("/owner/draft/{filled}/images"))
    page.get_by_role("button", name="Study file", exact=True).click()
    expect(page.get_by_role("heading", name="Study file")).to_be_visible()
    assert list(faults(page, [(WIDE, "light"), (NARROW, "dark")])) == []
    assert is_narrow(page)


def test_pages_in_korean_have_no_fault_on_a_phone(page: Page, site: Site) -> None:
    found = []
    for name, (path, _) in PAGES.items():
        address = site.address(path)
        page.goto(f"{address}{'&' if '?' in address else '?'}language=ko")
        found += [f"{name}: {each}" for each in faults(page, [(NARROW, "light")])]
        if not is_narrow(page):
            found.append(f"{name} scrolls sideways")
    assert found == []


def test_what_a_helper_sees_has_no_fault(context: BrowserContext, site: Site) -> None:
    page = context.new_page()
    log_in(page, site.url, "helper")
    assert_usable(page)
    page.goto(f"{site.url}/owner/accounts")
    expect(page.get_by_role("heading", name="Not for your role")).to_be_visible()
    assert_usable(page)


def is_narrow(page: Page) -> bool:
    page.set_viewport_size({"width": 390, "height": 844})
    return bool(page.evaluate("document.scrollingElement.scrollWidth <= innerWidth"))


UNMARKED = """() => {
  const marked = (element) => {
    const { outlineStyle, outlineWidth } = getComputedStyle(element);
    return outlineStyle !== "none" && parseFloat(outlineWidth) >= 2;
  };
  const able = "a[href], button, input, select, textarea, summary, [tabindex='0']";
  return [...document.querySelectorAll(able)].filter((element) => {
    if (element.disabled || !element.checkVisibility({ visibilityProperty: true })) return false;
    element.focus();
    const near = [element, element.closest("label"), element.nextElementSibling];
    return document.activeElement === element && !near.some((each) => each && marked(each));
  }).map((element) => element.outerHTML.slice(0, 160));
}"""
"""The elements that show no outline while they have the focus."""


def assert_usable(page: Page) -> None:
    """In light, dark and forced colours, each wide or narrow, and by keyboard."""
    assert page.locator("h1").count() == 1
    page.evaluate("document.querySelectorAll('main details').forEach((each) => each.open = true)")
    found = [*faults(page, [(WIDE, "light"), (NARROW, "dark")])]
    forced = faults(page, [(NARROW, "light"), (WIDE, "dark")], "active")
    found += [f"forced {fault}" for fault in forced]
    assert found == [], "\n".join(found)
    assert is_narrow(page)
    page.keyboard.press("Tab")
    assert page.evaluate(UNMARKED) == []


def tab_to(page: Page, role: Any, name: str) -> None:
    """Press Tab until the control of this name has the focus."""
    wanted = page.get_by_role(role, name=name).first
    expect(wanted).to_be_visible()
    for _ in range(200):
        page.keyboard.press("Tab")
        if wanted.evaluate("(element) => element === document.activeElement"):
            return
    raise AssertionError(f"Tab does not lead to {name}")


def choose(page: Page, *paths: Path) -> None:
    page.wait_for_load_state("load")  # the scripts of the page have run
    page.wait_for_load_state("networkidle")
    tab_to(page, "button", "Choose files")
    with page.expect_file_chooser() as chooser:
        page.keyboard.press("Enter")
    chooser.value.set_files([*paths])


def go_on(page: Page, step: str) -> None:
    """To the next step, whose heading then has the focus."""
    tab_to(page, "link", f"Next: {step}")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name=step, level=1)).to_be_focused()


def test_a_study_is_set_up_with_the_keyboard(
    studio: StudioClient, context: BrowserContext, tmp_path: Path
) -> None:
    files = own_files(tmp_path / "own")
    page = context.new_page()
    with running(ThreadServer(Place(tmp_path), studio.database, studio.app)) as server:
        log_in(page, server.url)
        assert_usable(page)
        tab_to(page, "button", "New study")
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", name="Images and queries", level=1)).to_be_visible()
        choose(page, files["garments.zip"], files["queries.csv"])
        expect(page.get_by_text("All can be shown")).to_be_visible()
        expect(page.get_by_text("All are ready")).to_be_visible()
        go_on(page, "Systems")
        choose(page, files["mine.json"], files["theirs.json"])
        expect(page.get_by_label("Name of system 2")).to_be_visible()
        go_on(page, "Question")
        tab_to(page, "radio", "Compare two sets")
        tab_to(page, "textbox", "Title")
        page.keyboard.insert_text(TITLE)
        go_on(page, "Design")
        tab_to(page, "slider", "People")
        page.keyboard.press("Home")
        go_on(page, "People and consent")
        for field in ("Institution", "Contact for questions", "Ethics approval"):
            tab_to(page, "textbox", field)
            page.keyboard.insert_text("somebody@example.org")
        go_on(page, "Rehearse and launch")
        expect(page.get_by_text("Nothing is missing")).to_be_visible()
        tab_to(page, "button", "Open the study")
        page.keyboard.press("Space")
        tab_to(page, "button", "Cancel the opening")
        page.keyboard.press("Enter")
        expect(page.get_by_role("button", name="Open the study")).to_be_visible()
        page.close()
