"""Pages on studies: the commands run in the order of the pages; the reference lists every key."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from sqlalchemy import select

from hsfiq.collect import participants
from hsfiq.db.engine import open_database
from hsfiq.db.tables import Participant
from hsfiq.study.config import Presentation, StudyConfig
from hsfiq.study.config_file import FROM_FILES, read_config
from hsfiq.study.recruiting import completion_url, panel_link, panel_of
from tests.hsfiq.samples import hsfiq
from tests.studies import NOW, ROOT, Seat


def blocks(page: str, language: str) -> list[str]:
    """The code blocks of a page in one language."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


(CONFIG,) = blocks("reference/study.md", "toml")
(SHORT_CONFIG,) = blocks("tutorials/study.md", "toml")
PAGES = ("tutorials/study.md", "guides/plan.md", "guides/recruiting.md", "guides/running.md")
COMMANDS = [
    shlex.split(line, comments=True)
    for page in PAGES
    for block in blocks(page, "bash")
    for line in block.splitlines()
]


def test_the_reference_has_every_key_and_marks_changed_defaults(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(CONFIG, encoding="utf-8")
    (tmp_path / "guidelines.md").write_text("Look twice.", encoding="utf-8")
    config = read_config(tmp_path / "study.toml")
    content = tomllib.loads(CONFIG)
    for table in fields(StudyConfig):
        kind = get_type_hints(StudyConfig)[table.name]
        keys = [key.name for key in fields(kind) if key.name not in FROM_FILES]
        assert list(content[table.name]) == keys
        required = {"name": "autumn", "title": content["study"]["title"]}
        default = asdict(kind(**required) if kind is Presentation else kind())
        values = asdict(getattr(config, table.name))
        for key, value in ((key, values[key]) for key in keys):
            begins = rf"{key} *=|\[{{1,2}}{table.name}\.{key}\]"
            # A table of an array is described where it first occurs.
            line = next(line for line in table_of(table.name) if re.match(begins, line))
            comment = line.partition("  #")[2]
            assert comment
            assert ("<-" in comment) == (value != default[key]), line


def test_the_file_of_searches_is_valid(tmp_path: Path) -> None:
    text, uploads = blocks("guides/searches.md", "toml")
    (tmp_path / "study.toml").write_text(text, encoding="utf-8")
    config = read_config(tmp_path / "study.toml")
    assert [retriever.name for retriever in config.searches.retrievers] == ["SPRC", "CLIP4CIR"]
    changed = text.replace('[searches]\ntask = "target-shown"\n', uploads)
    (tmp_path / "study.toml").write_text(changed, encoding="utf-8")
    assert read_config(tmp_path / "study.toml").searches.uploads


def table_of(name: str) -> list[str]:
    """The lines of one table of the file."""
    after = re.split(rf"(?m)^(?=\[{{1,2}}{name}[].])", CONFIG, maxsplit=1)[1]
    return re.split(rf"\n(?=\[{{1,2}}(?!\[?{name}[].]))", after)[0].splitlines()


SONA_CREDIT = "https://example.sona-systems.com/webstudy_credit.aspx"


@pytest.mark.parametrize(("name", "link", "returns_to"), [
    ("CloudResearch Connect", "https://s.test/start?study=autumn",
     "https://connect.cloudresearch.com/participant/project/570B52049B/complete"),
    ("SONA", "https://s.test/start?survey_code=%SURVEY_CODE%&study=autumn",
     f"{SONA_CREDIT}?experiment_id=123&credit_token=4e48f9b6&survey_code=1234"),
])  # fmt: skip
def test_the_recipes_of_panels(tmp_path: Path, name: str, link: str, returns_to: str) -> None:
    (recipe,) = [
        each for each in blocks("guides/recruiting.md", "toml") if f'name = "{name}"' in each
    ]
    path = tmp_path / "study.toml"
    path.write_text(f'[study]\nname = "autumn"\ntitle = "T"\n\n{recipe}', encoding="utf-8")
    recruitment = read_config(path).recruitment
    panel = panel_of(recruitment)
    assert panel is not None
    assert panel_link(panel, "https://s.test", "autumn") == link
    assert completion_url(recruitment, "done", {"person": "1234"}) == returns_to


def test_commands_run_in_order_of_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HSFIQ_DATABASE_URL", raising=False)
    monkeypatch.setattr("hsfiq.annotate.app.serve", people_come)
    write_inputs()
    n_commands = 0
    for words in COMMANDS:
        if words:
            assert words[0] == "hsfiq"
            command = hsfiq(*words[1:])
            assert command.code == 0, (" ".join(words), command.err)
            n_commands += 1
    assert n_commands == len([words for words in COMMANDS if words]) >= 15
    folders = sorted(path.name for path in Path().glob("*/autumn-*"))
    assert folders == ["autumn-hp-1.0.0"] * 3 + ["autumn-hs-1.0.0"] * 3
    assert "still holds answers of p1" in command.out


def people_come(*_: object) -> None:
    """In place of a served app: the first three invited participants enrol and answer."""
    database = open_database("sqlite:///hsfiq.db")
    for name in ("p1", "p2", "p3"):
        with database.writing() as session:
            person = session.scalars(select(Participant).where(Participant.name == name)).one()
            participants.enrol_invited(session, person, now=NOW)
            participants.consent(person, now=NOW)
            seat = Seat(database, person.id)
        seat.answer_until(3)
    database.close()


def write_inputs() -> None:
    """The files that the commands name, as small as their formats allow."""
    for category in ("dress", "shirt"):
        images = [f"{category}-{number}" for number in range(12)]
        captions = [
            {"candidate": images[n], "target": images[n + 1], "captions": ["is red", "is long"]}
            for n in range(6)
        ]
        write(f"fashion-iq/captions/cap.{category}.val.json", captions)
        write(f"fashion-iq/image_splits/split.{category}.val.json", images)
    Path("fashion-iq/images").mkdir()
    for system, first in (("sprc", 0), ("clip4cir", 5)):
        lists = {
            f"{category}.val.{n}": [f"{category}-{first + rank}" for rank in range(6)]
            for category in ("dress", "shirt")
            for n in range(6)
        }
        write(f"{system}.json", lists)
    # Twelve queries allow only short forms.
    small = SHORT_CONFIG.replace("questions_per_form = 25", "questions_per_form = 2")
    Path("study.toml").write_text(small, encoding="utf-8")
    Path("guidelines.md").write_text("# Look twice", encoding="utf-8")
    Path("password.txt").write_text("a password of some length\n", encoding="utf-8")


def write(name: str | Path, value: Any) -> None:
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), encoding="utf-8")
