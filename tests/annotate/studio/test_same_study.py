"""A study from the browser and the same study from its study.toml have the same releases."""

from __future__ import annotations

from pathlib import Path

from hsfiq.actors import OWNER
from hsfiq.collect.studies import find_study
from hsfiq.db.engine import Database, open_database
from hsfiq.drafts import draw
from hsfiq.rehearsal import START, answer_study, random_strengths
from hsfiq.study.publication import record_opening
from tests.annotate.studio.conftest import StudioClient, fill, write_own_data
from tests.hsfiq.samples import hsfiq

SYSTEMS = ("mine", "theirs")


def test_releases_are_equal_to_the_byte(studio: StudioClient, tmp_path: Path) -> None:
    token = studio.new_draft()
    fill(studio, token)
    draw(studio.database, token, OWNER)
    of_browser = answered_and_exported(studio.database, tmp_path / "of-browser")

    folder = tmp_path / "terminal"
    write_own_data(folder)
    (folder / "study.toml").write_text(studio.get(f"draft/{token}/study.toml").text, "utf-8")
    url = f"sqlite:///{folder}/own.db"
    own_images = ("--images", str(folder / "images"), "--dataset", "study")
    for command in (
        (*("import", "queries", str(folder / "queries.csv")), *own_images),
        *(("import", "runs", str(folder / f"{name}.json"), "--system", name) for name in SYSTEMS),
        ("study", "create", str(folder / "study.toml"), "--draft"),
    ):
        done = hsfiq("--database", url, *command)
        assert done.code == 0, done.err
    database = open_database(url)
    of_terminal = answered_and_exported(database, tmp_path / "of-terminal")
    database.close()
    assert of_browser.keys() == of_terminal.keys()
    assert [name for name in of_browser if of_browser[name] != of_terminal[name]] == []


def answered_and_exported(database: Database, out: Path) -> dict[str, bytes]:
    """Let simulated annotators answer, with a fixed clock and seed; the releases' files."""
    with database.writing() as session:
        study = find_study(session, "study")
        assert study is not None
        record_opening(study, START)
        study.status = "open"
        answer_study(session, "study", random_strengths(SYSTEMS, 0), 0)
    url = database.engine.url.render_as_string(hide_password=False)
    done = hsfiq("--database", url, "export", "--study", "study", "--out", str(out))
    assert done.code == 0, done.err
    files = sorted(path for path in out.rglob("*") if path.is_file())
    return {path.relative_to(out).as_posix(): path.read_bytes() for path in files}
