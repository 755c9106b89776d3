"""The step "Systems": what lists cover, names of systems, a few queries side by side."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from hsfiq.actors import OWNER
from hsfiq.db.source_tables import Dataset
from hsfiq.drafts import DraftFile, change_draft, draft_folder, draw, read_draft
from hsfiq.rehearsal import systems_of
from tests.annotate.served_studies import SYSTEMS, Place, make_study
from tests.annotate.studio.conftest import StudioClient, fill, studio_in

Lists = dict[str, list[str]]


@pytest.fixture
def token(studio: StudioClient) -> str:
    token = studio.new_draft()
    fill(studio, token)
    return token


def rewrite(studio: StudioClient, token: str, change: Callable[[Lists], Any]) -> None:
    """Upload the lists of `theirs` again."""
    file = draft_folder(studio.database, token) / "files" / "theirs.json"
    lists = json.loads(file.read_text(encoding="utf-8"))
    change(lists)
    file.write_text(json.dumps(lists), encoding="utf-8")
    content = studio.draft(token).content
    again = DraftFile(name="theirs.json", role="lists", size=len(content.files) + 100)
    with studio.database.writing() as session:
        change_draft(session, token, OWNER, lambda content: content.with_file(again))


def page(studio: StudioClient, token: str, query: str = "") -> str:
    response = studio.get(f"draft/{token}/systems{query}")
    assert response.status_code == 200
    return " ".join(response.text.split())


def test_an_empty_draft_says_what_is_needed(studio: StudioClient) -> None:
    assert "Queries are needed first." in page(studio, studio.new_draft())


def test_systems_with_all_lists_have_no_remarks(studio: StudioClient, token: str) -> None:
    text = page(studio, token)
    assert text.count("6 of 6</td>") == 2
    assert "6 of 6 have a list from every system." in text
    assert "2 systems</small>" in text
    assert "wanted image, where known" in text
    assert 'class="ph wanted"' in text


def test_gaps_short_lists_and_absent_images_are_said(studio: StudioClient, token: str) -> None:
    def change(lists: Lists) -> None:
        del lists["q05"]
        lists["q04"] = lists["q04"][:2]
        lists["q03"][0] = "not-there"
        lists["other"] = lists["q00"]
        lists["q02"] = json.loads(json.dumps(lists["q02"]))

    rewrite(studio, token, change)
    studio.save(token, "systems", "design.k", "5", type="int")
    text = page(studio, token)
    assert "No list for q05." in text
    assert "Fewer than 5 images for q04." in text
    assert "1 image is missing: not-there." in text
    assert "1 list is for an unknown query: other." in text
    assert "2 systems, images are missing" in text
    assert "5 of 6 have a list from every system." in text
    assert "no list for q05" in page(studio, token, "?page=1")


def test_lists_for_queries_that_are_not_there_are_not_used(
    studio: StudioClient, token: str
) -> None:
    rewrite(studio, token, lambda lists: lists.update(other=lists["q00"]))
    assert draw(studio.database, token, OWNER) == studio.draft(token).name


def test_as_many_images_are_shown_as_the_shortest_list_has(
    studio: StudioClient, token: str
) -> None:
    def config_k() -> int:
        draft = studio.draft(token)
        return read_draft(draft.content, draft.folder)[0].design.k

    assert config_k() == 5
    rewrite(studio, token, lambda lists: lists.update(q04=lists["q04"][:2]))
    assert config_k() == 2
    assert "k = 2" in studio.get(f"draft/{token}/study.toml").text
    studio.save(token, "systems", "design.k", "1", type="int")
    assert config_k() == 1


def test_the_same_images_as_another_system_are_counted(studio: StudioClient, token: str) -> None:
    mine = draft_folder(studio.database, token) / "files" / "mine.json"
    same = json.loads(mine.read_text(encoding="utf-8"))
    rewrite(studio, token, lambda lists: lists.update(q00=same["q00"], q01=same["q01"]))
    assert "The same images as theirs for 2 queries, which are asked nevertheless." in page(
        studio, token
    )


def test_a_system_is_renamed_in_the_drawn_study(studio: StudioClient, token: str) -> None:
    path = f"draft/{token}/systems"
    key = "theirs.json/theirs"
    done = studio.act(path, "rename", field=key, value=" CLIP4CIR <b> ", seen="theirs")
    assert done.status_code == 200
    assert "CLIP4CIR &lt;b&gt;" in done.json()["page"]
    for wrong in ("mine", "", "a\nb", "x" * 500):
        assert studio.act(path, "rename", field=key, value=wrong).status_code == 422
    assert studio.act(path, "rename", field="theirs.json/nobody", value="x").status_code == 422
    assert studio.act(path, "rename", field=["x"], value="x").status_code == 422
    draw(studio.database, token, OWNER)
    draft = studio.draft(token)
    assert draft.content.names == {key: "CLIP4CIR <b>"}
    config, _ = read_draft(draft.content, draft.folder)
    assert systems_of(studio.database, config) == ["CLIP4CIR <b>", "mine"]
    studio.act(path, "rename", field=key, value="again")
    draw(studio.database, token, OWNER)
    assert systems_of(studio.database, config) == ["again", "mine"]


def test_a_system_is_removed_and_brought_back(studio: StudioClient, token: str) -> None:
    path = f"draft/{token}/systems"
    removed = studio.act(path, "remove-system", key="mine.json/mine").json()
    assert removed["say"] == "mine was removed."
    assert "1 system, 2 are needed" in removed["page"]
    assert studio.draft(token).content.file("mine.json") is None
    assert studio.act(path, "undo").status_code == 200
    assert "6 of 6 have a list from every system." in page(studio, token)
    assert studio.act(path, "remove-system", key="../mine.json/mine").status_code == 422


def test_two_files_of_one_name_give_two_systems(studio: StudioClient, token: str) -> None:
    folder = draft_folder(studio.database, token) / "files"
    (folder / "mine.jsonl").write_text(
        '{"query_id": "q00", "images": ["garment-00.png"], "system": "mine"}\n', encoding="utf-8"
    )
    another = DraftFile(name="mine.jsonl", role="lists", size=1)
    with studio.database.writing() as session:
        change_draft(session, token, OWNER, lambda content: content.with_file(another))
    assert 'value="mine-2"' in page(studio, token)


def test_a_file_that_cannot_be_read_says_why(studio: StudioClient, token: str) -> None:
    file = draft_folder(studio.database, token) / "files" / "bad.csv"
    file.write_text("a,b\n1,2\n", encoding="utf-8")
    bad = DraftFile(name="bad.csv", role="lists", size=1)
    with studio.database.writing() as session:
        change_draft(session, token, OWNER, lambda content: content.with_file(bad))
    text = page(studio, token)
    assert "Not used: bad.csv: line 1" in text
    assert "a file cannot be read" in text
    assert "A file cannot be read: bad.csv." in studio.get(f"draft/{token}/question").text
    removed = {"act": "remove", "name": "bad.csv"}
    assert studio.client.post(f"/owner/draft/{token}/systems", json=removed).status_code == 200
    assert "bad.csv" not in page(studio, token)


def test_kinds_without_lists_need_no_system(studio: StudioClient, token: str) -> None:
    studio.act(f"draft/{token}/question", "kind", value="query")
    text = page(studio, token)
    assert "This kind of question needs no ranked lists." in text
    assert "not needed" in text


@pytest.fixture
def of_dataset(tmp_path: Any) -> Any:
    """A studio whose database has a dataset with the lists of three systems."""
    place = Place(tmp_path)
    make_study(place).close()
    studio = studio_in(place)
    token = studio.new_draft()
    with studio.database.writing() as session:
        name = session.query(Dataset).one().name
        change_draft(
            session,
            token,
            OWNER,
            lambda content: content.model_copy(update={"dataset": name}).with_value(
                "queries.dataset", name
            ),
        )
    yield studio, token
    studio.database.close()


def test_systems_of_the_database_are_chosen(of_dataset: tuple[StudioClient, str]) -> None:
    studio, token = of_dataset
    text = page(studio, token)
    assert text.count("12 of 12</td>") == len(SYSTEMS)
    assert "3 systems" in text
    assert "owner/image/" in text or "image/" in text
    path = f"draft/{token}/systems"
    assert studio.act(path, "choose", field=SYSTEMS[1], value=False).status_code == 200
    assert studio.draft(token).content.value("queries.systems") == [SYSTEMS[0], SYSTEMS[2]]
    assert "2 systems" in page(studio, token)
    studio.act(path, "choose", field=SYSTEMS[1], value=True)
    assert studio.draft(token).content.value("queries.systems") == ""
    assert studio.act(path, "choose", field="nobody", value=True).status_code == 422
    preview = studio.client.get(f"/owner/draft/{token}/preview")
    assert preview.status_code == 303
    shown = studio.client.get(f"/owner/draft/{token}/{preview.headers['location']}")
    assert '"step": "question"' in shown.text
