"""Every key of study.toml can be changed in a step, and a study from a file keeps all of them."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import pytest

from hsfiq.actors import OWNER
from hsfiq.annotate.studio.pages import BEFORE_LAUNCH
from hsfiq.annotate.studio.setup import step_of
from hsfiq.drafts import Content, DraftFile, change_draft, content_of, stated, toml_of
from hsfiq.kinds import KINDS
from hsfiq.study.config import StudyConfig, Translation, table_of
from hsfiq.study.config_file import FROM_FILES, config_with_errors
from hsfiq.study.recruiting import Mode
from tests.annotate.studio.conftest import StudioClient, add_third_system, fill
from tests.hsfiq.study.every_key import EVERY_KEY

ROOT = Path(__file__).parents[3]

# Every key has its field.


def keys_of(table: type, prefix: str) -> Iterator[str]:
    """The keys of a table, and of the first table of each array."""
    for name, hint in get_type_hints(table).items():
        key, item = f"{prefix}{name}", get_args(hint)[0] if get_origin(hint) is tuple else None
        if inner := table_of(hint):
            yield from keys_of(inner, f"{key}.")
        elif is_dataclass(item):
            yield from keys_of(item, f"{key}.0.")  # type: ignore[arg-type]
        elif name not in FROM_FILES:
            yield key


def all_keys() -> list[str]:
    tables = get_type_hints(StudyConfig).items()
    return [
        *(key for name, table in tables for key in keys_of(table, f"{name}.")),
        *(key.replace("study.", "study.ko.") for key in keys_of(Translation, "study.")),
    ]


CHANGED_BY = {
    "recruitment.mode": ("people", "mode"),
    "recruitment.participants": ("design", "people"),
    "recruitment.quotas": ("people", "recruitment.quotas.a"),
    "design.questions_per_form": ("design", "questions"),
    "design.forms_per_participant": ("design", "questions"),
    "design.annotators_per_query": ("design", "overlap"),
    "queries.sample": ("design", "people"),
    "checks.on_failure": ("design", "rule"),
    "study.set_names": ("question", "study.set_names.0"),
    "wording.anchors": ("question", "wording.anchors.0"),
    "wording.levels": ("question", "wording.levels.0"),
    "practice.systems": ("question", "practice.systems.0"),
    **{
        f"analysis.{name}": ("design", name)
        for name in ("question", "pair", "statistic", "margin", "alpha", "exclusions")
    },
}
"""The step and the field of keys whose field has another name."""

BY_BUTTONS = {
    "study.languages": ("question", "language"),
    "queries.dataset": ("images", "dataset"),
    "queries.systems": ("systems", "choose"),
}
"""The step and the act of keys that have no field of their own."""

MANY_KEYS: Mapping[str, Any] = {
    "study.languages": ["en", "ko"],
    "study.set_names": ["One", "Two"],
    "study.guidelines": "Look.",
    "study.consent": "Join in.",
    "wording.score": "Fits?",
    "design.annotators_per_query": 1,
    "design.forms_per_participant": 2,
    "checks.on_failure": "pause",
    "recruitment.max_failed_checks": 1,
    "recruitment.quotas": {"a": 1},
    "recruitment.panel": {"name": "P", "person": "p", "complete": "https://example.org/"},
    "searches.retrievers": [{"name": "a", "url": "http://127.0.0.1:1"}],
    "searches.task": "target-remembered",
    "questionnaire.note": "Thanks.",
    **{
        f"questionnaire.{name}": [
            {"name": f"{name}_1", "type": "choice", "text": "?", "options": ["a", "b"]},
            {"name": f"{name}_2", "type": "number", "text": "?"},
        ]
        for name in ("after_each", "at_end")
    },
}


def fields_of_pages(studio: StudioClient) -> set[tuple[str, str]]:
    """The fields of all steps, whatever is chosen, each with its step."""
    token = studio.new_draft()
    fill(studio, token)
    add_third_system(studio, token)
    table = studio.draft(token).folder / "files" / "queries.csv"
    head, *rows = table.read_text(encoding="utf-8").splitlines()
    grouped = [f"{head},category", *(f"{row},{n % 2}" for n, row in enumerate(rows)), ""]
    table.write_text("\n".join(grouped), encoding="utf-8")
    file = DraftFile(name="queries.csv", role="queries", size=2)
    change(studio, token, lambda content: content.with_file(file))
    variants: list[tuple[tuple[str, ...], dict[str, Any]]] = [
        *((("question",), {"design.kind": kind}) for kind in KINDS),
        (("question",), {"design.kind": "search", "searches.task": "own-wish"}),
        *((("people",), {"recruitment.mode": mode}) for mode in get_args(Mode)),
        (("design", "systems", "images"), {"design.kind": "pair"}),
    ]
    found = set[tuple[str, str]]()
    for steps, values in variants:
        practice = {"query": "q01", "systems": ["mine", "theirs"], "expected": "1"}
        given = {"practice": practice} | dict(MANY_KEYS) | values
        change(studio, token, lambda content, given=given: content.with_values(given))
        for step in steps:
            page = studio.get(f"draft/{token}/{step}").text
            found |= {(step, name) for name in re.findall(r'data-save="([^"]+)"', page)}
    change(studio, token, lambda content: content.model_copy(update={"dataset": "study"}))
    page = studio.get(f"draft/{token}/images").text
    return found | {("images", name) for name in re.findall(r'data-save="([^"]+)"', page)}


def change(studio: StudioClient, token: str, changed: Callable[[Content], Content]) -> None:
    with studio.database.writing() as session:
        change_draft(session, token, OWNER, changed)


def test_every_key_is_changed_in_the_step_to_which_its_errors_lead(studio: StudioClient) -> None:
    fields, acts = fields_of_pages(studio), {step.name: step.acts for step in BEFORE_LAUNCH}
    lacking = []
    for key in all_keys():
        if key in BY_BUTTONS:
            step, act = BY_BUTTONS[key]
            assert act in acts[step]
        else:
            step, field = CHANGED_BY.get(key, (step_of(key), key))
            field = field.replace("questionnaire.at_end.0.m", "questionnaire.at_end.1.m")
            field = field.replace("questionnaire.after_each.0.m", "questionnaire.after_each.1.m")
            if (step, field) not in fields:
                lacking.append(key)
        assert step == step_of(key), key
    assert "; ".join(lacking) == ""


# A study from a file.


def files() -> Iterator[tuple[str, str]]:
    """Every example of a study.toml, completed by its name and title."""
    yield "every key", EVERY_KEY
    yield "the usual file", (ROOT / "hsfiq/project_study.toml").read_text(encoding="utf-8")
    example = (ROOT / "examples/set_up_a_study.py").read_text(encoding="utf-8")
    yield "the example", example.split('"""')[3]
    for path in sorted((ROOT / "docs").rglob("*.md")):
        blocks = re.findall(
            r"^```toml\n(.*?)^```", path.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
        )
        for number, block in enumerate(blocks, start=1):
            yield f"{path.name} {number}", block


def study_file(text: str) -> str | None:
    """A file with what each needs; None if this is no file of a study."""
    text = re.sub(r"\$\w+", "1", text)
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return None
    if not tables.keys() <= get_type_hints(StudyConfig).keys():
        return None
    return text if "study" in tables else f'[study]\nname = "a"\ntitle = "a"\n{text}'


FILES = {name: text for name, given in files() if (text := study_file(given))}


@pytest.mark.parametrize("name", FILES)
def test_a_study_from_a_file_opens_in_the_steps_and_is_saved_as_it_was(
    studio: StudioClient, name: str
) -> None:
    reply = studio.act("", "open_file", file=FILES[name])
    assert reply.status_code == 200, reply.text
    token = reply.json()["go"].split("/")[1]
    for step in (*(each.name for each in BEFORE_LAUNCH), "launch"):
        assert studio.get(f"draft/{token}/{step}").status_code == 200
    saved = studio.get(f"draft/{token}/study.toml").text
    assert read(saved) == read(FILES[name])


@pytest.mark.parametrize("name", FILES)
def test_a_stored_study_has_the_same_file(name: str, tmp_path: Path) -> None:
    config, _ = read(FILES[name])
    assert read(toml_of(stated(content_of(config)), tmp_path))[0] == config


def read(text: str) -> tuple[StudyConfig, dict[str, str]]:
    return config_with_errors(Path("study.toml"), text, {})
