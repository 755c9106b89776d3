"""A study as its owner writes it down, and as its row keeps it.

Every field of the dataclasses below is a key of CONFIG.toml, in the table that its docstring
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

Mode = Literal["open", "invitation", "prolific", "mturk"]

CHOSEN_BY = "chosen_by"
"""Beside the config in a study's row: how its pairs were chosen, where `hsfiq study next` did."""


@dataclass(frozen=True, slots=True)
class Presentation:
    """`[study]`: its name, and what annotators see.

    `guidelines` and `consent` are Markdown, or name a file beside this one (`guidelines.md`);
    left out, the app's own text in the study's language is shown.
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
        questions_per_form: questions in a form, its checks not counted.
        forms_per_participant: forms that one participant answers.
        annotators_per_query: by how many participants an overlapping query is judged.
        overlap_share: the share of the queries that so many judge; the others are judged once.
        categories: whether a participant judges `one` category, as in the papers, or `mixed` ones.
        image_order: whether a set shows its images as `ranked` or `shuffled`.
        preference_ties: whether "no preference" may be answered.
        reason_every: every so many questions a reason is asked for; 0 is never.
        lease_minutes: so long after their last sign of life a participant's open questions stay
            theirs.
        seed: draws everything that is drawn.
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
    """`[checks]`: what shows attention.

    Attributes:
        arithmetic: a sum before each form but the first, which has to be right to go on.
        gold: in each form so many pairs with a planted obvious winner.
        repeated: in each form so many of its pairs come again with the sides swapped.
    """

    arithmetic: bool = True
    gold: int = 0
    repeated: int = 0


@dataclass(frozen=True, slots=True)
class Queries:
    """`[queries]`: which queries are judged; of these, `sample` are drawn (0 takes all).

    Only queries for which every one of the systems has a ranked list are taken.
    """

    dataset: str = "fashioniq"
    categories: tuple[str, ...] = ()
    splits: tuple[str, ...] = ()
    systems: tuple[str, ...] = ()
    sample: int = 0


@dataclass(frozen=True, slots=True)
class Recruitment:
    """`[recruitment]`: how participants come and with what they leave.

    `participants` caps the enrolments (0 is as many as the forms last for).
    """

    mode: Mode = "open"
    participants: int = 0
    completion_code: str = ""
    completion_url: str = ""


@dataclass(frozen=True, slots=True)
class StudyConfig:
    """The whole file."""

    study: Presentation
    design: Design = field(default_factory=Design)
    checks: Checks = field(default_factory=Checks)
    queries: Queries = field(default_factory=Queries)
    recruitment: Recruitment = field(default_factory=Recruitment)


def stored_config(config: StudyConfig) -> dict[str, object]:
    """The config as JSON, without the long texts: they have columns of their own."""
    values = asdict(config)
    del values["study"]["guidelines"], values["study"]["consent"]
    return values


def config_of(row: Study) -> StudyConfig:
    """The config of a stored study; an imported one has none but its name and title."""
    kinds = get_type_hints(StudyConfig)
    stored: dict[str, Any] = {"study": {"name": row.name, "title": row.title}} | row.design
    stored["study"] = stored["study"] | {"guidelines": row.guidelines, "consent": row.consent}
    tables: dict[str, Any] = {
        name: _stored(kinds[name], stored[name]) for name in kinds if name in stored
    }
    return StudyConfig(**tables)


def _stored(kind: type[T], values: Mapping[str, Any]) -> T:
    """A table as it was stored: JSON has made lists of its tuples."""
    lists = {
        key: tuple(value) if isinstance(value, list) else value for key, value in values.items()
    }
    return kind(**lists)


def is_study_name(name: str) -> bool:
    """Whether a study may have this name: it becomes part of folder names and options."""
    return re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,79}", name) is not None


def require_study_name(name: str, option: str = "--study") -> str:
    """Return the name, which `option` gave.

    Raises:
        UnreadableInput: it cannot be the name of a study.
    """
    if not is_study_name(name):
        raise UnreadableInput(
            option,
            f"{name!r} cannot name a study",
            "use letters, digits, '.', '_' and '-', at most 80",
        )
    return name
