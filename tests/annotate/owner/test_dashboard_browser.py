"""The dashboard in Chromium."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from itertools import product

import pytest
from playwright.sync_api import BrowserContext, Locator, Page, expect
from sqlalchemy import select, update

from hsfiq.access import invite
from hsfiq.actors import Role
from hsfiq.annotate.owner import plots
from hsfiq.annotate.owner.login import LINK
from hsfiq.db.engine import Database, open_database
from hsfiq.db.tables import Participant, Response
from tests.annotate.axe import faults
from tests.annotate.conftest import running
from tests.annotate.owner.studies_in_progress import PASSWORD
from tests.annotate.question_page import note_frames, wait_until_at_rest
from tests.annotate.served_studies import Place, ReusedStudy, ThreadServer, count, the_one

pytestmark = pytest.mark.browser


@pytest.fixture
def server(reused_watched: ReusedStudy, watched: Database) -> Iterator[ThreadServer]:
    with running(reused_watched.server()) as server:
        yield server


@pytest.fixture
def page(context: BrowserContext, server: ThreadServer) -> Iterator[Page]:
    """A page before the login; checks that no script fails and no other host is requested."""
    errors: list[str] = []
    page = context.new_page()
    page.set_viewport_size({"width": 1440, "height": 900})
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("request", lambda request: errors.extend(
        [] if request.url.startswith((f"{server.url}/", "data:", "blob:")) else [request.url]
    ))  # fmt: skip
    page.goto(f"{server.url}/owner/board/")
    yield page
    page.close()
    assert errors == []


def log_in(page: Page, password: str = PASSWORD) -> None:
    page.get_by_label("Password").fill(password)
    page.keyboard.press("Enter")
    if password == PASSWORD:
        expect(page.locator(".tile").first).to_contain_text("15 of 24")


def click_twice_while_sending(page: Page, server: ThreadServer, button: Locator) -> None:
    """Click again while the server waits for a lock. The page's own clicks would wait for it."""
    box = button.bounding_box()
    assert box is not None
    with closing(open_database(server.place.url)) as database, database.writing() as session:
        session.execute(select(Participant.id))  # begins the transaction
        with page.expect_request(lambda request: request.method == "POST"):
            page.mouse.click(box["x"] + 5, box["y"] + 5)
        page.mouse.click(box["x"] + 5, box["y"] + 5)


def test_the_owner_logs_in_sees_the_numbers_and_pauses_a_participant(
    page: Page, server: ThreadServer
) -> None:
    log_in(page, "not the password")
    expect(page.get_by_role("alert")).to_have_text("Wrong name or password.")
    log_in(page)
    expect(page.locator(".card svg").first).to_be_visible()
    expect(page.locator(".people tbody tr")).to_have_count(4)
    row = page.locator(".people tr", has=page.get_by_role("button", name="p1", exact=True))
    expect(row).to_contain_text("finished")

    row.get_by_role("button").press("Enter")
    expect(page.get_by_label("Click or type a name or a platform id")).to_have_value("p1")
    status = select(Participant.status).where(Participant.name == "p1")
    page.get_by_role("button", name="Pause").first.click()
    expect(page.locator(".asking .ask")).to_contain_text("Pause p1?")
    assert the_one(server.database, status) == "active"
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator("#confirmation").first).to_be_hidden()
    page.get_by_role("button", name="Pause").first.click()
    page.get_by_role("button", name="Yes, pause p1").click()
    done = "p1: active \N{RIGHTWARDS ARROW} paused"
    expect(page.locator(".notice .done")).to_contain_text(done)
    expect(row).to_contain_text("paused")
    assert the_one(server.database, status) == "paused"
    with page.expect_download() as download:
        page.get_by_role("link", name="Scores (hs) .zip").click()
    assert download.value.suggested_filename.startswith("telltale-study-hs-")
    page.set_viewport_size({"width": 1280, "height": 500})
    page.locator(".people .pick", has_text="p2").click()  # shows the form that it is copied to
    expect(page.get_by_label("Reason, kept with the change")).to_be_in_viewport()


def test_a_study_action_is_confirmed_beside_its_buttons(page: Page) -> None:
    page.set_viewport_size({"width": 1280, "height": 720})
    log_in(page)
    opening = page.locator("#study-open")
    expect(opening).to_be_disabled()
    page.locator("#study-pause").click()
    yes = page.get_by_role("button", name="Yes, pause study")
    expect(yes).to_be_in_viewport(ratio=1)
    expect(page.locator("#confirmation").first).to_be_hidden()
    below = page.locator("#study-pause").bounding_box()
    box = yes.bounding_box()
    assert below
    assert box
    assert 0 < box["y"] - below["y"] < 200
    yes.click()
    expect(page.locator(".notice .done")).to_be_in_viewport(ratio=1)
    expect(page.locator("#study-pause")).to_be_disabled()
    expect(opening).to_be_enabled()


def test_platform_ids_are_a_column_that_can_be_hidden(page: Page, server: ThreadServer) -> None:
    log_in(page)
    choice = page.get_by_label("Show platform ids")
    expect(choice).to_be_hidden()  # nobody has one
    with server.database.writing() as session:
        person = session.scalars(select(Participant).where(Participant.name == "p2")).one()
        person.source, person.external_id = "prolific", "5f8e0c1d"
    page.get_by_role("button", name="Refresh").click()
    head, cell = page.get_by_role("columnheader", name="Platform id"), page.get_by_text("5f8e0c1d")
    expect(head).to_be_visible()
    cell.click()
    typed = page.get_by_label("Click or type a name or a platform id")
    expect(typed).to_have_value("5f8e0c1d")
    page.get_by_role("button", name="Pause").first.click()
    expect(page.locator(".asking .ask")).to_contain_text("Pause p2?")
    page.get_by_role("button", name="Cancel").click()

    choice.uncheck()
    expect(head).to_be_hidden()
    expect(cell).to_be_hidden()
    page.get_by_role("button", name="Refresh").click()
    expect(page.locator(".people tbody tr")).to_have_count(4)
    expect(cell).to_be_hidden()
    choice.check()
    expect(cell).to_be_visible()


def test_a_history_shows_text_as_text(page: Page) -> None:
    log_in(page)
    page.get_by_label("Click an id").fill("p2.form_1.0")
    page.keyboard.press("Enter")
    cell = page.locator(".history td.long").nth(1)
    expect(cell).to_contain_text("<script>alert(1)</script> ${1+1} {{constructor}} <b>")
    assert page.locator(".history script, .history b").count() == 0
    page.locator(".latest .pick", has_text="p1.form_2.2").click()
    expect(page.locator(".history .id")).to_have_text("p1.form_2.2")


def test_an_expired_login_leads_to_the_login_page(page: Page) -> None:
    log_in(page)
    page.context.clear_cookies()
    page.get_by_role("button", name="Refresh").click()
    expect(page.get_by_label("Password")).to_be_visible()
    log_in(page)
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_label("Password")).to_be_visible()


def test_the_page_still_works_after_a_restart_of_the_server(
    page: Page, server: ThreadServer, serve: Callable[[Place], ThreadServer]
) -> None:
    """The dropdown's choices are in Gradio's memory; the page must work without them."""
    log_in(page)
    restarted = serve(server.place)  # a process that has never seen this page
    context = page.context
    cookies = [
        {"name": cookie["name"], "value": cookie["value"], "url": restarted.url}
        for cookie in context.cookies()
    ]
    context.add_cookies(cookies)  # type: ignore[arg-type]
    page.route(
        f"{server.url}/owner/board/gradio_api/run/predict",
        lambda route: route.fulfill(
            response=route.fetch(
                url=route.request.url.replace(server.url, restarted.url),
                headers=route.request.headers | {"origin": restarted.url},
            )
        ),
    )
    page.locator(".people .pick", has_text="p3").click()
    expect(page.get_by_label("Click or type a name or a platform id")).to_have_value("p3")
    page.get_by_role("button", name="Reassign").click()
    page.get_by_role("button", name="Yes, reassign p3").click()
    expect(page.locator(".notice .done")).to_contain_text("the next participant gets the questions")


def test_a_form_that_is_clicked_twice_is_sent_once(page: Page, server: ThreadServer) -> None:
    log_in(page)
    before = count(server.database)
    page.goto(f"{server.url}/owner/invitations/1")
    button = page.get_by_role("button", name="Make links")
    click_twice_while_sending(page, server, button)
    expect(page.get_by_role("heading", name="1 new link")).to_be_visible()
    assert count(server.database) == before + 1

    page.go_back()
    button.click()
    expect(page.get_by_role("heading", name="1 new link")).to_be_visible()
    assert count(server.database) == before + 2


def test_link_that_is_clicked_twice_leads_to_dashboard(page: Page, server: ThreadServer) -> None:
    with server.database.writing() as session:
        token = invite(session, "kim", Role.ANALYST, datetime.now(UTC) + timedelta(days=1))
    page.goto(f"{server.url}{LINK}/{token}")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_label("The same again").fill(PASSWORD)
    button = page.get_by_role("button", name="Set the password and log in")
    click_twice_while_sending(page, server, button)
    expect(page.locator(".tile").first).to_contain_text("15 of 24")


def test_the_page_fits_follows_the_colour_scheme_and_draws_nothing_at_rest(page: Page) -> None:
    note_frames(page)
    log_in(page)
    papers = {"light": "rgb(246, 245, 242)", "dark": "rgb(23, 23, 22)"}
    for scheme, width in product(papers, (1440, 390)):
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth") == width
        paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert paper == papers[scheme]
    wait_until_at_rest(page)


def test_axe_finds_nothing_at_any_width(page: Page) -> None:
    log_in(page)
    page.get_by_label("Click an id").fill("p2.form_1.0")
    page.keyboard.press("Enter")
    expect(page.locator(".history td.long").nth(1)).to_be_visible()
    page.locator(".people .pick", has_text="p1").first.click()
    page.get_by_role("button", name="Pause").first.click()
    expect(page.locator(".asking .ask")).to_be_visible()
    sizes = [{"width": width, "height": 900} for width in (1440, 390, 768)]
    looks = [(size, scheme) for scheme in ("light", "dark") for size in sizes]
    violations = list(faults(page, looks))
    page.get_by_role("link", name="pictures, and all answers").click()
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    violations += faults(page, looks[::2])
    page.get_by_role("link", name="p2", exact=True).first.click()
    expect(page.get_by_role("heading", level=1)).to_have_text("p2")
    violations += faults(page, looks[::2])
    assert violations == [], "\n".join(violations)


def test_no_column_of_the_participants_and_no_label_of_an_axis_is_cut(
    page: Page, server: ThreadServer
) -> None:
    with server.database.writing() as session:
        for number, person in enumerate(session.scalars(select(Participant))):
            person.source, person.category = "prolific", "shirt"
            person.external_id = f"5f8e0c1d5f8e0c1d5f8e0c{number:02}"
        session.execute(update(Response).values(active_seconds=0.0))
    log_in(page)
    expect(page.get_by_role("columnheader", name="To look at")).to_be_visible()
    for width in (1280, 1440):
        page.set_viewport_size({"width": width, "height": 800})
        for table in page.locator(".people .scroll, .latest .scroll").all():
            assert table.evaluate("(each) => each.scrollWidth <= each.clientWidth")
    column = plots.Column("5", (1.0, 0.0), "5: set 1 20, set 2 0")
    for drawn in (
        plots.columns([column], "Scores", as_percent=True),
        plots.columns([plots.Column("12:00", (60_000,), "60,000")], "Answers"),
    ):
        lefts = page.evaluate(
            """(svg) => {
                document.querySelector('.cards .card').innerHTML = svg;
                const texts = document.querySelectorAll('.cards .card:first-child text');
                return [...texts].map((text) => text.getBBox().x);
            }""",
            str(drawn),
        )
        assert len(lefts) > 2
        assert min(lefts) >= 0
