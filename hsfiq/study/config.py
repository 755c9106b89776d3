"""A study's config: CONFIG.toml, and the JSON in the study's row.

Every field of the dataclasses below is a key of CONFIG.toml, in the table that the docstring
names; the defaults are the papers' design. `hsfiq.study.config_file` reads the file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, TypeVar, get_type_hints

from hsfiq.db.tables import Study
from hsfiq.errors import UnreadableInput

T = TypeVar("T")

PLATFORM_ID = re.compile(r"[0-9A-Za-z_-]{1,64}")
"""The form of the platforms' ids; nothing else is accepted."""

Mode = Literal["open", "invitation", "prolific", "mturk"]

CHOSEN_BY = "chosen_by"
"""The key beside the stored config that says how `hsfiq study next` chose the pairs."""


@dataclass(frozen=True, slots=True)
class Presentation:
    """`[study]`: its name, and what annotators see.

    `guidelines` and `consent` are Markdown, or name a file beside this one (`guidelines.md`); by
    default, the app shows its own text in the study's language.
    """

    name: str
    title: str
    guidelines: str = ""
    consent: str = ""
    language: Literal["en", "ko"] = "en"
    set_names: tuple[str, ...] = ("Shopping Mall 1", "Shopping Mall 2")


@dataclass(frozen=True, slots=True)
class Design:
    """`[design]`: how questions are drawn and asked.

    Attributes:
        k: images in a retrieved set.
        questions_per_form: without checks.
        annotators_per_query: the number of participants who judge an overlapping query.
        overlap_share: the share of overlapping queries; each of the others is judged once.
        categories: whether a participant judges `one` category, as in the papers, or `mixed` ones.
        reason_every: a reason is asked for at every n-th question; 0 is never.
        lease_minutes: how long a participant's questions stay reserved after the last activity.
        seed: of all random draws.
    """

    k: int = 5
    questions_per_form: int = 25
    forms_per_participant: int = 2
    annotators_per_query: int = 1
    overlap_share: float = 1.0
    categories: Literal["one", "mixed"] = "one"
    image_order: Literal["ranked", "shuffled"] = "ranked"
    preference_ties: bool = False
    reason_every: int = 0
    lease_minutes: int = 120
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Checks:
    """`[checks]`: attention checks.

    Attributes:
        arithmetic: a sum before each form but the first, which must be solved to go on.
        gold: the number of pairs per form with a planted obvious winner.
        repeated: the number of pairs per form that are shown again with the sides swapped.
    """

    arithmetic: bool = True
    gold: int = 0
    repeated: int = 0


@dataclass(frozen=True, slots=True)
class Queries:
    """`[queries]`: which queries are judged; `sample` of these are drawn (0 is all).

    Only queries for which every system has a ranked list are used.
    """

    dataset: str = "fashioniq"
    categories: tuple[str, ...] = ()
    splits: tuple[str, ...] = ()
    systems: tuple[str, ...] = ()
    sample: int = 0


@dataclass(frozen=True, slots=True)
class Recruitment:
    """`[recruitment]`: how participants enrol, and the completion code that they get.

    `participants` limits the enrolments (0: as many as there are forms). `platform_study_id` is the
    STUDY_ID of the study on Prolific ("": that of the first participant who arrives).
    """

    mode: Mode = "open"
    participants: int = 0
    platform_study_id: str = ""
    completion_code: str = ""
    completion_url: str = ""


@dataclass(frozen=True, slots=True)
class StudyConfig:
    study: Presentation
    design: Design = field(default_factory=Design)
    checks: Checks = field(default_factory=Checks)
    queries: Queries = field(default_factory=Queries)
    recruitment: Recruitment = field(default_factory=Recruitment)


def stored_config(config: StudyConfig) -> dict[str, object]:
    """The config as JSON, without what has its own column: two texts and the platform's study."""
    values = asdict(config)
    del values["study"]["guidelines"], values["study"]["consent"]
    del values["recruitment"]["platform_study_id"]
    return values


def config_of(row: Study) -> StudyConfig:
    """The config of a stored study; an imported one has only its name and title."""
    tables = get_type_hints(StudyConfig)
    stored: dict[str, Any] = {"study": {"name": row.name, "title": row.title}} | row.design
    stored["study"] = stored["study"] | {"guidelines": row.guidelines, "consent": row.consent}
    bound = {"platform_study_id": row.platform_study_id or ""}
    stored["recruitment"] = stored.get("recruitment", {}) | bound
    values: dict[str, Any] = {
        name: _from_json(table, stored[name]) for name, table in tables.items() if name in stored
    }
    return StudyConfig(**values)


def _from_json(table: type[T], values: Mapping[str, Any]) -> T:
    return table(**{k: tuple(v) if isinstance(v, list) else v for k, v in values.items()})


def is_study_name(name: str) -> bool:
    """Whether the name is usable in folder names and options."""
    return re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,79}", name) is not None


def require_study_name(name: str, option: str = "--study") -> str:
    if not is_study_name(name):
        raise UnreadableInput(
            option,
            f"{name!r} cannot be the name of a study",
            "use letters, digits, '.', '_' and '-', at most 80",
        )
    return name
