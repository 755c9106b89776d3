"""The step "Images and queries": columns, wrong rows and their repairs, datasets, pictures."""

from __future__ import annotations

import csv
import html
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from hsfiq.db.engine import Database
from hsfiq.drafts import material_of
from hsfiq.importing import dataset_named, import_queries
from hsfiq.readers.own_queries import PlacedQuery
from hsfiq.records import OwnQuery
from tests.annotate.axe import faults
from tests.annotate.conftest import running
from tests.annotate.owner.studies_in_progress import PASSWORD
from tests.annotate.served_studies import Place, ThreadServer
from tests.annotate.studio.conftest import StudioClient, fill, studio_in
from tests.annotate.studio.uploading import picture, send, zip_of

LAMPS = zip_of({f"lamp-{n:02d}.jpg": picture(6 * n, 20, "JPEG") for n in range(1, 41)})
HEADER = "id,wish,photo,answer,type"
ROWS = [
    "q1,brighter,lamp-01.jpg,lamp-02.jpg,table",
    "q2,taller,lamp-7.jpeg,lamp-03.jpg,table",
    "q3,smaller,lamp-04.jpg,lamp-41.jpg,floor",
    "q1,darker,lamp-05.jpg,,floor",
    "q5,,,,floor",
    f"q6,wider,lamp-06,,{'x' * 41}",
    "q7,<b>bold</b> {name},<img src=x>.jpg,,desk",
]
TABLE = "\n".join([HEADER, *ROWS]).encode()


@pytest.fixture
def token(studio: StudioClient) -> str:
    token = studio.new_draft()
    send(studio, token, "lamps.zip", LAMPS)
    send(studio, token, "queries.csv", TABLE)
    return token


def text_of(studio: StudioClient, token: str, query: str = "", step: str = "images") -> str:
    return html.unescape(studio.get(f"draft/{token}/{step}{query}").text)


def act(studio: StudioClient, token: str, name: str, **given: Any) -> Any:
    address = f"/owner/draft/{token}/images"
    return studio.client.post(address, json={"act": name, **given})


def repair(studio: StudioClient, token: str, row: str, column: str = "", value: str = "") -> Any:
    return act(studio, token, "repair", row=row, column=column, value=value)


def queries_of(studio: StudioClient, token: str) -> dict[str, OwnQuery]:
    draft = studio.draft(token)
    return {q.query_id: q for _, q in material_of(draft.content, draft.folder).queries}


def test_a_draft_without_anything_says_what_may_be_dropped(studio: StudioClient) -> None:
    page = text_of(studio, studio.new_draft())
    for said in ("not yet", "up to 20,000 files and 10 GB", "GB are free", "Choose a folder"):
        assert said in page
    assert "Rows to look at" not in page


def test_each_wrong_row_is_said_with_its_repairs(studio: StudioClient, token: str) -> None:
    page = text_of(studio, token)
    for said in (
        "The start image <b>lamp-7.jpeg</b> is not among the images.",
        "The nearest name is lamp-07.jpg.",
        "Use lamp-07.jpg",
        "The wanted image <b>lamp-41.jpg</b> is not among the images.",
        "The name <b>q1</b> is used twice.",
        "Call it q4",
        "There is neither a text nor a start image.",
        "an id must have 1 to 40 characters, not 41",
        "6 rows to decide",
        "1 ready, 6 to decide",
    ):
        assert said in page, said
    raw = studio.get(f"draft/{token}/images").text
    assert "<b>bold</b>" not in raw
    assert "<img src=x>" not in raw


def test_rows_are_repaired_left_out_and_brought_back(studio: StudioClient, token: str) -> None:
    done = repair(studio, token, "3", "reference", "lamp-07.jpg").json()
    assert done["undo"] == {"act": "restore", "row": "3"}
    assert "Now lamp-07.jpg" in done["page"]
    repair(studio, token, "4", "target", "")
    repair(studio, token, "5", "query_id", "q4")
    repair(studio, token, "6")
    repair(studio, token, "7", "category", "")
    repair(studio, token, "8", "reference", "")
    queries = queries_of(studio, token)
    assert list(queries) == ["q1", "q2", "q3", "q4", "q6", "q7"]
    assert (queries["q2"].reference, queries["q3"].target) == ("lamp-07.jpg", None)
    assert (queries["q6"].category, queries["q7"].reference) == ("", None)
    page = text_of(studio, token)
    for said in (
        "No wanted image", "Now q4", "Left out", "6 ready, 5 of them repaired, 1 left out",
        "6 queries, 40 images",
    ):  # fmt: skip
        assert said in page, said
    act(studio, token, "restore", row="6")
    assert "1 row to decide" in text_of(studio, token, step="systems")


def test_all_wrong_rows_are_left_out_at_once(studio: StudioClient, token: str) -> None:
    assert "Leave all 6 out" in text_of(studio, token)
    assert act(studio, token, "leave_all").json()["undo"] == {"act": "undo"}
    assert list(queries_of(studio, token)) == ["q1"]
    act(studio, token, "undo")
    assert "6 to decide" in text_of(studio, token)


@pytest.mark.parametrize(
    "given",
    [
        {"act": "repair", "row": "99", "column": "", "value": ""},
        {"act": "repair", "row": "1", "column": "", "value": ""},
        {"act": "repair", "row": "3", "column": "length", "value": ""},
        {"act": "repair", "row": 3, "column": "", "value": ""},
        {"act": "repair", "row": "3", "column": "reference", "value": ["a"]},
        {"act": "column", "field": "wish", "value": "wish"},
        {"act": "column", "field": "text", "value": "nothing"},
        {"act": "dataset", "dataset": "nothing"},
        {"act": "remove"},
        {"act": "nothing"},
    ],
)
def test_other_acts_are_refused(studio: StudioClient, token: str, given: dict[str, Any]) -> None:
    before = studio.draft(token).content
    refused = studio.client.post(f"/owner/draft/{token}/images", json=given)
    assert refused.status_code == 422
    assert studio.draft(token).content == before


def test_columns_are_guessed_and_changed(studio: StudioClient, token: str) -> None:
    assert "6 of 7" in text_of(studio, token)
    act(studio, token, "column", field="text", value="type")
    act(studio, token, "column", field="category", value="")
    act(studio, token, "column", field="query_id", value="")
    act(studio, token, "column", field="target", value="")
    queries = queries_of(studio, token)
    assert {key: query.text for key, query in queries.items()}["q01"] == "table"
    assert {query.category for query in queries.values()} == {""}
    assert "numbered q01, q02, ..." in text_of(studio, token)


def test_a_table_of_unknown_columns_asks_what_they_are(studio: StudioClient) -> None:
    token = studio.new_draft()
    send(studio, token, "queries.csv", b"eins;zwei\nheller;a\ndunkler;b\n")
    assert "no column is recognized" in text_of(studio, token)
    act(studio, token, "column", field="text", value="eins")
    assert [query.text for query in queries_of(studio, token).values()] == ["heller", "dunkler"]


def test_wrong_rows_are_downloaded_as_a_table(studio: StudioClient, token: str) -> None:
    reply = studio.get(f"draft/{token}/rows.csv")
    rows = list(csv.reader(StringIO(reply.text.removeprefix("\ufeff"))))
    assert rows[0] == ["row", "id", "wish", "photo", "answer", "type", "what is wrong"]
    assert [row[0] for row in rows[1:]] == ["3", "4", "5", "6", "7", "8"]
    assert rows[1][3] == "lamp-7.jpeg"


def test_many_wrong_rows(studio: StudioClient) -> None:
    token = studio.new_draft()
    send(studio, token, "lamps.zip", LAMPS)
    rows = [f"q{n},like {n},shoe-{n}.jpg" for n in range(300)]
    send(studio, token, "queries.csv", "\n".join(["id,text,photo", *rows]).encode())
    page = text_of(studio, token)
    assert page.count('data-key="row-') == 50
    assert "250 more rows are to be decided." in page


def test_images_are_shown_as_small_copies_only(studio: StudioClient, token: str) -> None:
    image = studio.client.get(f"/owner/draft/{token}/image/lamp-01.jpg")
    assert (image.status_code, image.headers["content-type"]) == (200, "image/webp")
    again = studio.client.get(
        f"/owner/draft/{token}/image/lamp-01", headers={"if-none-match": image.headers["etag"]}
    )
    assert again.status_code == 304
    for name in ("lamp-99.jpg", "../../queries.csv", "..%2f..%2ffiles", "%00", "/etc/passwd"):
        assert studio.client.get(f"/owner/draft/{token}/image/{name}").status_code == 404, name


def test_the_same_image_twice_is_said(studio: StudioClient, token: str) -> None:
    assert "30 pixels; no two are the same" in text_of(studio, token)
    send(studio, token, "more.zip", zip_of({"twin.jpg": picture(6, 20, "JPEG")}))
    assert "1 image occurs more than once</span>" not in text_of(studio, token)
    assert "1 image occurs more than once: lamp-01.jpg, twin.jpg" in text_of(studio, token)
    assert "All 41 images" in text_of(studio, token)
    assert "and 1 more" in text_of(studio, token)


def test_three_other_queries(studio: StudioClient) -> None:
    token = studio.new_draft()
    fill(studio, token)
    first, others = text_of(studio, token), text_of(studio, token, "?examples=3")
    assert ("“is green”" in first, "“is plain”" in first) == (True, False)
    assert ("“is green”" in others, "“is plain”" in others) == (False, True)
    for query in ("?examples=-1", "?examples=x", "?examples=999999999999", "?examples=6"):
        assert "“is green”" in text_of(studio, token, query)


def test_a_dataset_that_is_here_is_used_instead(studio: StudioClient, token: str) -> None:
    add_dataset(studio.database)
    assert "or use a dataset on this server" in text_of(studio, token)
    assert act(studio, token, "dataset", dataset="shoes").json()["go"] == "images"
    content = studio.draft(token).content
    assert (content.dataset, content.value("queries.dataset")) == ("shoes", "shoes")
    page = text_of(studio, token)
    assert "This study uses shoes, a dataset on this server." in page
    assert "Rows to look at" not in page
    act(studio, token, "dataset", dataset="")
    content = studio.draft(token).content
    assert (content.dataset, content.value("queries.dataset")) == ("", content.value("study.name"))


def add_dataset(database: Database) -> None:
    query = OwnQuery(query_id="s1", text="redder", captions=("redder",))
    with database.writing() as session:
        import_queries(session, dataset_named(session, "shoes"), [PlacedQuery("1", query)])


# ---------------------------------------------------------------------------------------- browser


@pytest.fixture
def page(context: BrowserContext, tmp_path: Path) -> Iterator[Page]:
    """The step of a new study."""
    place = Place(tmp_path / "served")
    place.folder.mkdir()
    made = studio_in(place)
    token = made.new_draft()
    with running(ThreadServer(place, made.database, made.app)) as server:
        page = context.new_page()
        page.goto(f"{server.url}/owner/login")
        page.get_by_label("Password").fill(PASSWORD)
        page.keyboard.press("Enter")
        page.wait_for_url(lambda url: "login" not in url)
        page.goto(f"{server.url}/owner/draft/{token}/images")
        yield page
        page.close()


@pytest.mark.browser
def test_dropped_files_become_a_study_in_a_browser(page: Page, tmp_path: Path) -> None:
    (tmp_path / "lamps.zip").write_bytes(LAMPS)
    (tmp_path / "queries.csv").write_bytes(TABLE)
    page.set_input_files("#choose-files", [tmp_path / "lamps.zip", tmp_path / "queries.csv"])
    rows = page.locator("tr[data-key^=row-]")
    expect(page.locator("tr", has_text="lamps.zip")).to_contain_text("All can be shown")
    expect(rows).to_have_count(6)
    rows.nth(0).get_by_role("button", name="Use lamp-07.jpg").click()
    expect(rows.nth(0)).to_contain_text("Now lamp-07.jpg")
    page.get_by_role("button", name="Leave all 5 out").click()
    expect(page.locator("tr", has_text="queries.csv")).to_contain_text(
        "2 ready, 1 of them repaired, 5 left out"
    )
    page.get_by_label("Group").select_option("(none)")
    expect(page.get_by_text("group: table")).to_have_count(0)
    assert list(faults(page)) == []


@pytest.mark.browser
def test_a_folder_goes_on_where_its_upload_was_stopped(page: Page, tmp_path: Path) -> None:
    folder = tmp_path / "lamps"
    (folder / "more").mkdir(parents=True)
    for number in range(60):
        path = folder / ("more" if number % 2 else "") / f"lamp-{number:02d}.bmp"
        path.write_bytes(picture(number, 150, "BMP"))
    (folder / "queries.csv").write_text("text,photo\nbrighter,lamp-01\n", encoding="utf-8")
    (folder / "read me.pdf").write_bytes(b"%PDF")
    parts: list[str] = []

    def lose(route: Any) -> None:
        parts.append(route.request.url)
        if len([part for part in parts if "name=lamps" in part]) > 3:
            route.abort()
        else:
            route.continue_()

    page.route("**/upload?*", lose)
    page.set_input_files("#choose-folder", folder)
    expect(page.locator("tr", has_text="lamps").first).to_contain_text("No connection")
    page.on("dialog", lambda dialog: dialog.accept())
    page.unroute("**/upload?*")
    page.reload()
    expect(page.locator("tr", has_text="lamps").first).to_contain_text("%")
    sent: list[str] = []
    page.on(
        "request", lambda request: sent.append(request.url) if "name=lamps" in request.url else None
    )
    page.set_input_files("#choose-folder", folder)
    row = page.locator("tr[data-key=file-lamps]")
    expect(row).to_contain_text("60 images")
    expect(row).to_contain_text("1 other file is left out")
    assert not any("offset=0" in url for url in sent[1:])
    expect(page.locator("tr[data-key='file-queries.csv']")).to_contain_text("1 row")
