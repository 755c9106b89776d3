"""`hsfiq study edit` and `message`: their output and their effect."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import select

from hsfiq.db.engine import Database
from hsfiq.db.tables import Message
from tests.hsfiq.cli.owner_commands import CONFIG, output_of, the_study
from tests.hsfiq.samples import hsfiq
from tests.studies import Seat

pytestmark = pytest.mark.usefixtures("owners_folder")


def test_study_edit_corrects_texts_and_shows_the_versions(database: Database) -> None:
    output_of("study", "create", "study.toml")
    corrected = CONFIG.replace("Which shop understood you?", "Which shop was better?")
    Path("study.toml").write_text(corrected, encoding="utf-8")
    Path("guidelines.md").write_text("# Look twice\nand once more", encoding="utf-8")
    tried = output_of("study", "edit", "autumn", "study.toml", "--dry-run")
    assert "  -Which shop understood you?\n  +Which shop was better?\n" in tried
    assert "  +and once more" in tried
    assert hsfiq("study", "status", "--json").result["title"] == "Which shop understood you?"
    result = hsfiq("study", "edit", "autumn", "study.toml", "--json").result
    assert result["text_version"] == 2
    again = hsfiq("study", "edit", "autumn", "study.toml", "--json").result
    assert (again["text_version"], again["difference"]) == (2, [])
    status = hsfiq("study", "status", "--json").result
    assert status["title"] == "Which shop was better?"
    assert [version["number"] for version in status["text_versions"]] == [1, 2]
    assert status["text_versions"][1]["difference"] == result["difference"]
    assert "text version 2: " in output_of("study", "status")


def test_study_edit_names_the_line_of_each_key_that_cannot_change(database: Database) -> None:
    output_of("study", "create", "study.toml")
    changed = CONFIG.replace("k = 2", "k = 3").replace('"small"', '"other"')
    Path("study.toml").write_text(changed.replace("understood", "helped"), encoding="utf-8")
    refused = hsfiq("study", "edit", "autumn", "study.toml")
    assert refused.code == 2
    assert [line.split("; it is")[0] for line in refused.err.splitlines()] == [
        "hsfiq: study.toml: line 7: design.k: cannot change after the study was made",
        "hsfiq: study.toml: line 11: queries.dataset: cannot change after the study was made",
    ]
    assert the_study(database).title == "Which shop understood you?"


def test_study_message_goes_to_all_or_one(database: Database) -> None:
    output_of("study", "create", "study.toml")
    unread = hsfiq("study", "message", "autumn", "Hello")
    assert (unread.code, "nobody takes part" in unread.err) == (2, True)
    for _ in range(2):
        Seat.taken(database, the_study(database).id)
    sent = output_of("study", "message", "autumn", "To *all*")
    assert sent == "study autumn: message sent to 2 participants\n"
    sent = hsfiq("study", "message", "autumn", "To one", "--participant", "p2", "--json").result
    assert sent == {"study": "autumn", "participant": "p2", "recipients": 1}
    with database.reading() as session:
        messages = session.scalars(select(Message.text).order_by(Message.id)).all()
    assert messages == ["To *all*", "To one"]
