"""A study's config: CONFIG.toml, and the JSON in the study's row.

Every field of the dataclasses below is a key of CONFIG.toml, in the table that the docstring
names; the defaults are the papers' design. `hsfiq.study.config_file` reads the file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, is_dataclass
from functools import cache, lru_cache
from types import UnionType
from typing import Any, Literal, TypeVar, cast, get_args, get_type_hints

from sqlalchemy import select
from sqlalchemy.orm import Session

from hsfiq.answer_rules import CONFIRMED_DIFFERENCE
from hsfiq.db.source_tables import Query, Triplet
from hsfiq.db.tables import Pair, Study
from hsfiq.errors import Refused, UnreadableInput
from hsfiq.kinds import DEFAULT_KIND, KINDS, KindName, KindOptions, Rules
from hsfiq.kinds.search_rows import Searches
from hsfiq.study.instrument import (
    ExtraQuestion,
    Instrument,
    Wording,
    is_line,
    question_errors,
)
from hsfiq.study.publication import AnalysisPlan, Publication
from hsfiq.study.recruiting import Recruitment

# `[questionnaire]`: the owner's extra questions.

LONGEST_NOTE = 1000


@dataclass(frozen=True, slots=True)
class Questionnaire:
    """`[questionnaire]`: extra questions, each a table of its own.

    Attributes:
        after_each: asked with every question, after the main answer.
        note: shown above those at the end: what they are for, or that answering is voluntary.
        at_end: asked once, after the last question.
    """

    after_each: tuple[ExtraQuestion, ...] = ()
    note: str = ""
    at_end: tuple[ExtraQuestion, ...] = ()


def questionnaire_errors(questionnaire: Questionnaire) -> Iterator[tuple[str, str]]:
    """What is wrong with the questions and the note, by the key of study.toml."""
    yield from question_errors(
        {
            "questionnaire.after_each": questionnaire.after_each,
            "questionnaire.at_end": questionnaire.at_end,
        }
    )
    note = questionnaire.note
    if note and not questionnaire.at_end:
        yield (
            "questionnaire.note",
            "stands above the questions at the end, but there is none",
        )
    elif note and not is_line(note, LONGEST_NOTE):
        what = f"must be one line of at most {LONGEST_NOTE:,} characters, not blank"
        yield "questionnaire.note", what


T = TypeVar("T")

GARMENTS = frozenset({"fashioniq", "drawn"})
"""The datasets of garments, whose studies practise with garments."""

CHOSEN_BY = "chosen_by"
"""The key beside the stored config that says how `hsfiq study next` chose the pairs."""


@dataclass(frozen=True, slots=True)
class Translation:
    """`[study.de]`: a study's own texts in one of its languages after the first.

    What is not given is as in `[study]`. `texts` are the short texts of `de.json` beside the file;
    the first language has these only.
    """

    title: str = ""
    guidelines: str = ""
    consent: str = ""
    set_names: tuple[str, ...] = ()
    texts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Presentation:
    """`[study]`: its name, and what annotators see.

    `guidelines` and `consent` are Markdown, or name a file beside this one (`guidelines.md`); by
    default, the app shows its own text in the study's language. `minutes` is how long participants
    are told that it takes (0: measured, or estimated). The standard consent text names the
    `institution`, the `contact` for questions and the `ethics` approval, unless they are "".
    `language = "de"` in the file is short for `languages = ["de"]`; the tables `[study.de]` are the
    `translations`. Without `set_names`, the texts of the instrument name the sets.
    """

    name: str
    title: str
    guidelines: str = ""
    consent: str = ""
    institution: str = ""
    contact: str = ""
    ethics: str = ""
    minutes: int = 0
    languages: tuple[str, ...] = ("en",)
    instrument: Instrument = "hsfiq-2"
    set_names: tuple[str, ...] = ()
    translations: Mapping[str, Translation] = field(default_factory=dict)

    @property
    def language(self) -> str:
        """The study's first language, in which its own texts are."""
        return self.languages[0]


@dataclass(frozen=True, slots=True)
class Design:
    """`[design]`: how questions are drawn and asked.

    Attributes:
        kind: what a question asks.
        levels: of the scale on which each image is judged, for `images`.
        sets: how many are put in order, for `ranking`.
        show_target: whether the labelled target is shown, for `query`.
        k: images in a retrieved set.
        questions_per_form: without checks.
        annotators_per_query: the number of participants who judge an overlapping query.
        overlap_share: the share of overlapping queries; each of the others is judged once.
        categories: whether a participant judges `one` category, as in the papers, or `mixed` ones.
        confirm_contradictions: whether participants are asked, once for a question, whether they
            mean a preference for the set that they scored three or more points lower.
        reason_every: a reason is asked for at every n-th question; 0 is never.
        lease_minutes: how long a participant's questions stay reserved after the last activity.
        seed: of all random draws.
    """

    kind: KindName = DEFAULT_KIND
    levels: int = 2
    sets: int = 3
    show_target: bool = True
    k: int = 5
    questions_per_form: int = 25
    forms_per_participant: int = 2
    annotators_per_query: int = 1
    overlap_share: float = 1.0
    categories: Literal["one", "mixed"] = "one"
    image_order: Literal["ranked", "shuffled"] = "ranked"
    preference_ties: bool = False
    confirm_contradictions: bool = False
    reason_every: int = 0
    lease_minutes: int = 120
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Checks:
    """`[checks]`: attention checks.

    Attributes:
        arithmetic: a sum before each form but the first, which must be solved to go on.
        gold: the number of questions per form with an obvious answer, for most kinds.
        repeated: the number of questions per form that are asked again, with their sets in another
            order.
        on_failure: what happens to who fails more gold and repeated questions than
            `recruitment.max_failed_checks`; participants are told before they agree to take part.
    """

    arithmetic: bool = True
    gold: int = 0
    repeated: int = 0
    on_failure: Literal["none", "pause", "exclude"] = "none"


@dataclass(frozen=True, slots=True)
class Practice:
    """`[practice]`: a practice question from the study's own data; without it, drawn garments.

    Attributes:
        query: its id; no question of the study is about its triplet. "" is none.
        systems: whose sets are shown, in this order; none for kinds without systems.
        expected: the right answer, in the form that the question kind reads (`hsfiq.kinds`).
        explanation: shown after an answer, right or wrong; "" is a standard one.
    """

    query: str = ""
    systems: tuple[str, ...] = ()
    expected: str = ""
    explanation: str = ""


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
class StudyConfig:
    study: Presentation
    design: Design = field(default_factory=Design)
    checks: Checks = field(default_factory=Checks)
    practice: Practice = field(default_factory=Practice)
    queries: Queries = field(default_factory=Queries)
    recruitment: Recruitment = field(default_factory=Recruitment)
    wording: Wording = field(default_factory=Wording)
    questionnaire: Questionnaire = field(default_factory=Questionnaire)
    searches: Searches = field(default_factory=Searches)
    analysis: AnalysisPlan = field(default_factory=AnalysisPlan)
    release: Publication = field(default_factory=Publication)


def n_sets_of(design: Design) -> int:
    """How many retrieved sets a question shows."""
    return KINDS[design.kind].n_sets(KindOptions(design.sets, design.show_target))


def k_of(design: Design) -> int:
    """How many images a set or a live list has; the labelled target is a set of one."""
    kind = KINDS[design.kind]
    return design.k if kind.needs_lists or kind.is_live else 1


def rules_of(config: StudyConfig) -> Rules:
    """What answers of the study may hold."""
    design = config.design
    return Rules(
        points=config.wording.points,
        k=k_of(design),
        n_sets=n_sets_of(design),
        ties=design.preference_ties,
        levels=design.levels,
        confirm_difference=CONFIRMED_DIFFERENCE if design.confirm_contradictions else None,
    )


def expected_at_practice(config: StudyConfig) -> dict[str, Any]:
    """What is right at the owner's practice question, or `Refused`."""
    kind = KINDS[config.design.kind]
    if kind.practice is None:
        raise Refused(f"a {kind.name} has no practice question")
    return kind.practice.read(config.practice.expected, rules_of(config))


def stored_config(config: StudyConfig) -> dict[str, object]:
    """The config as JSON, without what has its own column: two texts and the platform's study."""
    values = asdict(config)
    del values["study"]["guidelines"], values["study"]["consent"]
    return values | {"recruitment": stored_recruitment(config.recruitment)}


def stored_recruitment(recruitment: Recruitment) -> dict[str, object]:
    values = asdict(recruitment)
    del values["platform_study_id"]
    return values


def config_of(study: Study) -> StudyConfig:
    """The config of a stored study; an imported one has only its name and title."""
    texts = study.name, study.title, study.guidelines, study.consent
    return read_config(*texts, study.platform_study_id, study.design)


@lru_cache(maxsize=64)
def config_of_columns(
    name: str,
    title: str,
    guidelines: str,
    consent: str,
    platform_study_id: str | None,
    design: str,
) -> StudyConfig:
    """The same from the columns, `design` as JSON: kept for as long as none of them changes."""
    return read_config(name, title, guidelines, consent, platform_study_id, json.loads(design))


def read_config(
    name: str,
    title: str,
    guidelines: str,
    consent: str,
    platform_study_id: str | None,
    design: dict[str, Any],
) -> StudyConfig:
    stored: dict[str, Any] = {"study": {"name": name, "title": title}} | design
    if "instrument" not in stored["study"]:
        stored["study"] = stored["study"] | of_first_instrument(stored)
    stored["study"] = stored_presentation(stored["study"]) | {
        "guidelines": guidelines,
        "consent": consent,
    }
    bound = {"platform_study_id": platform_study_id or ""}
    stored["recruitment"] = stored.get("recruitment", {}) | bound
    return config_from_json(stored)


def of_first_instrument(stored: Mapping[str, Any]) -> dict[str, Any]:
    """The instrument of a study that was stored before instruments had names.

    It asks as the papers do, but speaks of shopping malls about garments only.
    """
    malls = ("Shopping Mall 1", "Shopping Mall 2")
    names = tuple(stored["study"].get("set_names", ()))
    is_about_garments = stored.get("queries", {}).get("dataset") in GARMENTS
    if names == malls and not is_about_garments:
        is_pair = stored.get("design", {}).get("kind", DEFAULT_KIND) == DEFAULT_KIND
        names = ("Search results 1", "Search results 2") if is_pair else ()
    return {"instrument": "papers", "set_names": names}


def config_from_json(stored: Mapping[str, Any]) -> StudyConfig:
    """A config from the JSON of its tables."""
    values: dict[str, Any] = {
        name: _from_json(table, stored[name])
        for name, table in hints_of(StudyConfig).items()
        if name in stored
    }
    return StudyConfig(**values)


def stored_presentation(values: Mapping[str, Any]) -> dict[str, Any]:
    """The stored values of `Presentation`; studies of earlier versions have a single `language`."""
    values = dict(values)
    if language := values.pop("language", None):
        values.setdefault("languages", [language])
    translations = values.get("translations", {})
    values["translations"] = {
        tag: _from_json(Translation, each) for tag, each in translations.items()
    }
    return values


def _from_json(table: type[T], values: Mapping[str, Any]) -> T:
    """A table of the stored config; its lists are of texts or of tables, in tuples until stored."""
    hints = hints_of(cast("type", table))
    return table(**{key: _value_from_json(hints[key], value) for key, value in values.items()})


def _value_from_json(hint: Any, value: Any) -> Any:
    if isinstance(value, list | tuple):
        return tuple(_part_from_json(get_args(hint)[0], part) for part in value)
    inner = table_of(hint)
    return _from_json(inner, value) if inner and value is not None else value


def table_of(hint: Any) -> Any:
    """The dataclass of a key that may have a table of its own, such as `Panel | None`."""
    parts = get_args(hint) if isinstance(hint, UnionType) else ()
    return next(filter(is_dataclass, parts), None)


@cache
def hints_of(table: type) -> Mapping[str, Any]:
    """The types of a table's fields; pages read the config several times for each answer."""
    return get_type_hints(table)


def _part_from_json(hint: Any, part: Any) -> Any:
    return _from_json(hint, part) if isinstance(part, dict) else part


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


def shows_garments(config: StudyConfig) -> bool:
    return config.queries.dataset in GARMENTS


# What the queries of a study consist of, which decides the wording of its pages.

QueryForm = Literal["composed", "text", "image"]
"""Texts alone, images alone, or both: in each query, or in different ones."""


def query_form(session: Session, study_id: int) -> QueryForm:
    """The form of a stored study's queries."""
    queries = (
        select(Query.id)
        .join(Pair, Pair.query_id == Query.id)
        .join(Triplet, Query.triplet_id == Triplet.id)
        .where(Pair.study_id == study_id)
        .limit(1)
    )
    if session.scalar(queries.where(Triplet.reference_id.is_not(None))) is None:
        return "text"
    return "image" if session.scalar(queries.where(Query.text != "")) is None else "composed"
