"""Drafts: studies that are set up in the browser, from uploaded images, queries and ranked lists.

A draft holds the tables of study.toml as entered, even if invalid, and the uses of the uploaded
files. `draw` makes the study, with the functions that `hsfiq init` uses.
"""

from __future__ import annotations

import re
import secrets
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import cached_property, lru_cache
from hashlib import sha256
from itertools import chain
from math import isfinite
from pathlib import Path
from shutil import copyfile, rmtree
from tempfile import TemporaryDirectory
from typing import Any, Literal

import tomli_w
from pydantic import BaseModel, ConfigDict
from sqlalchemy import delete, insert, select, text
from sqlalchemy.orm import InstrumentedAttribute, Session

from hsfiq.actors import OWNER, Action, Actor
from hsfiq.atomic_files import temporary_folder_beside
from hsfiq.audit import record
from hsfiq.collect.studies import find_study, lock_study
from hsfiq.db.engine import Database, added, open_database
from hsfiq.db.postgres import lock_table
from hsfiq.db.source_tables import Dataset, Image, Query, RankedList, System, Triplet
from hsfiq.db.sqlite import make_folder_private, sqlite_url
from hsfiq.db.studio_tables import Draft, DraftChange
from hsfiq.db.tables import Pair, Study
from hsfiq.db.types import token_from
from hsfiq.errors import ConfigError, ConfigErrors, HsfiqError, Refused, UnreadableInput
from hsfiq.images.check import Track
from hsfiq.images.folder import ImageFolder, OwnImages, image_files
from hsfiq.importing import chunks, dataset_named, ids_of_images, import_queries, import_runs
from hsfiq.jobs import uploads_home
from hsfiq.kinds import DEFAULT_KIND, KINDS
from hsfiq.project import IN_ONE_FORM, Pay, Size, draw_config, lists_of, size_of
from hsfiq.readers import own_queries
from hsfiq.readers.files import Place, columns_of
from hsfiq.readers.own_queries import ImageId, PlacedQuery, WrongRow
from hsfiq.readers.runs import PlacedList
from hsfiq.rehearsal import systems_about
from hsfiq.study.capacity import Budget, budget_of, require_enough_forms
from hsfiq.study.config import Presentation, StudyConfig, config_of, is_study_name
from hsfiq.study.config_file import config_with_errors
from hsfiq.study.design import chosen_queries, draw_study
from hsfiq.study.forms import material_for, query_facts
from hsfiq.study.practice import practice_query
from hsfiq.study.publication import AnalysisPlan
from hsfiq.study.searches import Described
from hsfiq.text import is_storable_text

# The content of a draft.

Role = Literal["images", "queries", "lists", "unused"]


class DraftFile(BaseModel):
    """An uploaded file that has arrived completely; an archive's images are in `images/`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    role: Role
    size: int
    sha256: str = ""
    count: int = 0
    """Of an archive or a folder, its images."""
    note: str = ""
    """Why a file is not used."""
    system: str = ""
    """For a file of ranked lists without the system's name, the name."""
    source: str = ""
    """The folder below `images/` or `files/` that holds it; what it holds never changes."""


class Content(BaseModel):
    """The content of a draft.

    Attributes:
        config: the tables of study.toml with the keys that were entered, of any type.
        files: the uploaded files, in the order of their arrival.
        dataset: the name of a dataset that replaces uploaded images and queries.
        columns: which column of the table of queries is which of ours, by our name, where that
            was chosen; "" is none.
        repairs: what replaces cells of wrong rows, by the row's number and our column's name; a
            row without columns is left out, and an empty text empties a cell.
        texts: what language files hold, by language, as `hsfiq study texts` writes them.
        names: what a system is called in place of its name in a file, by `FILE/NAME`; "" leaves
            its lists out.
        pay: the participants' pay.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    config: dict[str, Any] = {}
    files: tuple[DraftFile, ...] = ()
    dataset: str = ""
    columns: dict[str, str] = {}
    repairs: dict[str, dict[str, str]] = {}
    texts: dict[str, dict[str, Any]] = {}
    names: dict[str, str] = {}
    pay: Pay | None = None

    def value(self, key: str, otherwise: Any = "") -> Any:
        """What was entered for a key of study.toml, such as `design.k`."""
        found: Any = self.config
        for part in key.split("."):
            if isinstance(found, list) and part.isdecimal() and int(part) < len(found):
                found = found[int(part)]
            elif isinstance(found, dict) and part in found:
                found = found[part]
            else:
                return otherwise
        return found

    def with_value(self, key: str, value: Any) -> Content:
        """The content with a key of study.toml; None removes the key."""
        return self.model_copy(update={"config": put(self.config, key.split("."), value)})

    def with_values(self, values: Mapping[str, Any]) -> Content:
        content = self
        for key, value in values.items():
            content = content.with_value(key, value)
        return content

    def file(self, name: str) -> DraftFile | None:
        return next((file for file in self.files if file.name == name), None)

    def with_file(self, file: DraftFile) -> Content:
        """The content with a file in place of one of the same name."""
        others = self.without_file(file.name).files
        return self.model_copy(update={"files": (*others, file)})

    def without_file(self, name: str) -> Content:
        files = tuple(file for file in self.files if file.name != name)
        return self.model_copy(update={"files": files})

    def of_role(self, role: Role) -> list[DraftFile]:
        return [file for file in self.files if file.role == role]


def put(tables: Any, path: Sequence[str], value: Any) -> Any:
    """A copy of nested tables and lists with another value at a path; None removes it."""
    first, *rest = path
    if isinstance(tables, list) and first.isdecimal():
        number = int(first)
        items = [*tables, *([{}] if number == len(tables) else [])]
        if not 0 <= number < len(items):
            raise Refused(f"{first} does not exist")
        inner = put(items[number], rest, value) if rest else value
        return [*items[:number], *([] if inner is None else [inner]), *items[number + 1 :]]
    copy = dict(tables) if isinstance(tables, dict) else {}
    missing: Any = [] if rest[:1] == ["0"] else {}
    inner = put(copy.get(first, missing), rest, value) if rest else value
    if inner is None:
        copy.pop(first, None)
        return copy
    return copy | {first: inner}


def stored_content(content: Content) -> dict[str, Any]:
    """The content as JSON; `Refused` if it holds what databases do not store."""
    values = content.model_dump(mode="json")
    require_storable(values)
    return values


def require_storable(value: Any) -> None:
    if isinstance(value, dict):
        require_storable(list(value))
        require_storable(list(value.values()))
    elif isinstance(value, list):
        for each in value:
            require_storable(each)
    elif isinstance(value, str) and not is_storable_text(value):
        raise Refused("a text contains characters that cannot be stored")
    elif isinstance(value, float) and not isfinite(value):
        raise Refused(f"{value} cannot be stored")


def new_content(name: str, title: str) -> Content:
    """A new draft: the defaults of `hsfiq init`."""
    return Content(
        config={
            "study": {"name": name, "title": title},
            "design": {"questions_per_form": 25, "forms_per_participant": 1, "categories": "mixed"},
            "checks": {"arithmetic": False, "repeated": 1},
            "queries": {"dataset": name},
            "recruitment": {"mode": "invitation", "participants": 20},
        }
    )


# Drafts in the database.


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A draft as it was read, with its folder; `study` is the name of the study drawn from it.

    `content` also has what follows from other choices (`settled`); once the study has been opened,
    it has the study's own config. `entered` is only what was entered.
    """

    id: int
    token: str
    content: Content
    entered: Content
    revision: int
    changed_by: str
    changed_at: datetime
    folder: Path
    can_undo: bool
    asked: Asked
    study_id: int | None
    study: str | None
    status: str | None
    """Of the study; None before it is drawn."""

    @property
    def name(self) -> str:
        return str(self.content.value("study.name"))

    @property
    def title(self) -> str:
        return str(self.content.value("study.title")) or self.name


def create_draft(
    session: Session, actor: Actor, content: Content, key: str = "", token: str | None = None
) -> Draft:
    """A new draft; the same random key gives the same one again."""
    now, token = datetime.now(UTC), token_from(key) or token or secrets.token_hex(8)
    if known := session.scalar(select(Draft).where(Draft.token == token)):
        return known
    draft = Draft(
        token=token,
        content=stored_content(content),
        revision=1,
        created_by=actor.name,
        created_at=now,
        changed_by=actor.name,
        changed_at=now,
    )
    record(session, actor, Action.DRAFT_CREATE, about=f"draft {draft.token}")
    return added(session, draft)


def free_name(session: Session, wanted: str) -> str:
    """The name, with a number if a study, a dataset or a draft has it already."""
    base = re.sub(r"[^A-Za-z0-9_.-]+", "-", wanted).strip("-.")[:30] or "study"
    base = base if is_study_name(base) else f"study-{base}"
    lock_table(session, Draft)
    taken = {
        *session.scalars(select(Study.name)),
        *session.scalars(select(Dataset.name)),
        *(
            str(each.get("config", {}).get("study", {}).get("name"))
            for each in session.scalars(select(Draft.content))
        ),
    }
    names = (base if number == 1 else f"{base}-{number}" for number in range(1, len(taken) + 2))
    return next(name for name in names if name not in taken)


def draft_of_study(session: Session, study: Study, actor: Actor) -> Draft:
    """The draft that a study was drawn from; of a study from a file, a new one with its config."""
    lock_study(session, study.id)
    draft = session.scalar(select(Draft).where(Draft.study_id == study.id))
    if draft is None:
        draft = create_draft(session, actor, content_of_study(study))
        draft.study_id = study.id
        session.flush()
    return draft


def content_of_study(study: Study) -> Content:
    config = config_of(study)
    return stated(content_of(config).model_copy(update={"dataset": config.queries.dataset}))


def copy_study(
    database: Database, actor: Actor, name: str, word: str = "copy", key: str = ""
) -> Draft:
    """A new draft like a study, without people and later places; `word` is added to its title.

    The same random key gives the same draft again.
    """
    token = token_from(key) or secrets.token_hex(8)
    with database.reading() as session:
        if known := session.scalar(select(Draft).where(Draft.token == token)):
            return known
        study = find_study(session, name)
        if study is None or study.source_sha256:
            raise Refused(f"there is no study {name[:80]!r} that was created here")
        content, title = content_of_study(study), f"{study.title} ({word})"
        source = session.scalar(select(Draft).where(Draft.study_id == study.id))
        if source is not None:
            now = {"config": content.config, "texts": content.texts}
            entered = Content.model_validate(source.content)
            content = entered.model_copy(update=now).with_value(PEOPLE, entered.value(PEOPLE, None))
            copy_files(content, draft_folder(database, source.token), draft_folder(database, token))
    with database.writing() as session:
        new = free_name(session, name)
        names = {"study.name": new, "study.title": title, "queries.dataset": content.dataset or new}
        content = content.with_values(names | {"recruitment.platform_study_id": None})
        return create_draft(session, actor, content, token=token)


def stated(content: Content) -> Content:
    """With the defaults of study.toml in place of what would follow from other choices."""
    usual = StudyConfig(Presentation("", ""))
    defaults: dict[str, Any] = {PLAN: {}, OVERLAP: usual.design.annotators_per_query}
    if GOLD in KINDS.get(str(content.value("design.kind")), KINDS[DEFAULT_KIND]).options:
        defaults[GOLD] = usual.checks.gold
    return content.with_values({key: content.value(key, each) for key, each in defaults.items()})


def list_drafts(session: Session) -> Sequence[Draft]:
    return session.scalars(select(Draft).order_by(Draft.changed_at.desc())).all()


def find_draft(session: Session, token: str, *, lock: bool = False) -> Draft:
    query = select(Draft).where(Draft.token == token)
    draft = session.scalar(query.with_for_update() if lock else query)
    if draft is None:
        raise Refused("this study no longer exists", remedy="it was deleted or never existed")
    return draft


def snapshot(session: Session, database: Database, token: str) -> Snapshot:
    draft = find_draft(session, token)
    study = None if draft.study_id is None else session.get(Study, draft.study_id)
    can_undo = session.scalar(
        select(DraftChange.id).where(DraftChange.draft_id == draft.id).limit(1)
    )
    content, folder = Content.model_validate(draft.content), draft_folder(database, token)
    asked = asked_of(session, content, folder)
    if study is not None and study.status != "draft":
        shown = content.model_copy(update={"config": tables_of(config_of(study))})
    else:
        shown = settled(content, asked)
    return Snapshot(
        id=draft.id,
        token=draft.token,
        content=shown,
        entered=content,
        revision=draft.revision,
        changed_by=draft.changed_by,
        changed_at=draft.changed_at,
        folder=folder,
        can_undo=can_undo is not None,
        asked=asked,
        study_id=draft.study_id,
        study=None if study is None else study.name,
        status=None if study is None else study.status,
    )


def draft_folder(database: Database, token: str) -> Path:
    return uploads_home(database) / "drafts" / token


def change_draft(
    session: Session, token: str, actor: Actor, change: Callable[[Content], Content]
) -> Draft:
    """Change a draft's content, so that the change can be undone."""
    draft = find_draft(session, token, lock=True)
    before = Content.model_validate(draft.content)
    after = change(before)
    if after == before:
        return draft
    session.add(
        DraftChange(draft_id=draft.id, revision=draft.revision, content_before=draft.content)
    )
    store(draft, after, actor)
    session.flush()
    return draft


def undo(session: Session, token: str, actor: Actor) -> Draft:
    """Undo the last change that was not undone; `Refused` if there is none."""
    draft = find_draft(session, token, lock=True)
    changes = select(DraftChange).where(DraftChange.draft_id == draft.id)
    last = session.scalar(changes.order_by(DraftChange.revision.desc()).limit(1))
    if last is None:
        raise Refused("there is no change to undo")
    store(draft, Content.model_validate(last.content_before), actor)
    session.delete(last)
    session.flush()
    return draft


def store(draft: Draft, content: Content, actor: Actor) -> None:
    draft.content = stored_content(content)
    draft.revision += 1
    draft.changed_by, draft.changed_at = actor.name, datetime.now(UTC)


class ChangedElsewhere(Refused):
    """A field was changed in another tab or by somebody else; `value` is what it holds now."""

    status = 409

    def __init__(self, value: Any, draft: Draft | Snapshot) -> None:
        super().__init__("this was changed in another window")
        self.value = value
        self.changed_by, self.changed_at = draft.changed_by, draft.changed_at


def save_value(
    session: Session, token: str, actor: Actor, key: str, value: Any, seen: Any
) -> Draft:
    """Store what was entered for a key of study.toml in place of the value that was seen."""
    draft = find_draft(session, token, lock=True)
    now = Content.model_validate(draft.content).value(key, None)
    if now not in (seen, value) and not (now is None and seen in ("", None)):
        raise ChangedElsewhere(now, draft)
    return change_draft(session, token, actor, lambda content: content.with_value(key, value))


# What follows from other choices of a draft, unless it is set.


@dataclass(frozen=True, slots=True)
class Asked:
    """The possible items of a draft's study: its queries by category, and the compared systems.

    `with_target` is how many of the queries have a labelled target. `has_far_images` is false if
    a question with an obvious answer could lack images that no system returned for its query.
    """

    categories: Mapping[str, int]
    systems: Sequence[str]
    with_target: int
    has_far_images: bool = True

    @property
    def queries(self) -> int:
        return sum(self.categories.values())


def asked_of(session: Session, content: Content, folder: Path) -> Asked:
    config, _ = read_draft(content, folder)
    has_far_images = True
    if content.dataset:
        every = replace(config, queries=replace(config.queries, sample=0))
        try:
            keys = chosen_queries(session, every)
        except ConfigError:
            return Asked({}, (), 0)
        facts = query_facts(session, keys).values()
        queries = [(query.category, query.target_id is not None) for query in facts]
        systems: Sequence[str] = systems_about(session, config, keys)
    else:
        material = material_of(content, folder)
        known = set(material.answered) - {config.practice.query}
        placed = [query for _, query in material.queries if query.query_id in known]
        queries = [(query.category or "", bool(query.target)) for query in placed]
        systems = material.systems
        if KINDS[config.design.kind].needs_lists:
            has_far_images = _has_far_images(files_key(content), folder, config.design.k)
    categories = Counter(category for category, _ in queries)
    return Asked(categories, systems, sum(has for _, has in queries), has_far_images)


@lru_cache(maxsize=8)
def _has_far_images(files: str, folder: Path, k: int) -> bool:
    """Whether each query leaves k images for `GoldQuestions.far_images`."""
    material = _material(files, folder)
    near = {query.query_id: {query.reference, query.target} for _, query in material.queries}
    groups = {query.query_id: query.category for _, query in material.queries}
    shown = defaultdict[str | None, set[str]](set)
    for _, ranked in material.lists:
        if ranked.query_id in near:
            near[ranked.query_id].update(ranked.images)
            shown[groups[ranked.query_id]].update(ranked.images[:k])
    far = {
        group: set().union(*(shown[each] for each in shown if each != group or len(shown) == 1))
        for group in shown
    }
    pools = ((far.get(groups[query], set()), images) for query, images in near.items())
    return all(len(pool) - len(pool & images) >= k for pool, images in pools)


OVERLAP, PLAN, GOLD = "design.annotators_per_query", "analysis", "checks.gold"
PEOPLE = "recruitment.participants"
QUESTIONS, FORMS = "design.questions_per_form", "design.forms_per_participant"
MOST = 100_000
"""Of people, and of the questions of one; as `hsfiq init` accepts them."""


def settled(content: Content, asked: Asked) -> Content:
    """With what is not set: the judges of a query, gold questions, and the systems of the verdict.

    The first follows from the numbers of people and of their questions. As in `hsfiq init`, there
    is a gold question unless the data have none.
    """
    kind = KINDS.get(str(content.value("design.kind", DEFAULT_KIND)))
    if kind is None:
        return content
    if content.value(GOLD, None) is None and GOLD in kind.options:
        with_gold = with_size(content.with_value(GOLD, 1), asked)
        lacks = asked.queries and lack_for_gold(with_gold, asked)
        content = content.with_value(GOLD, 0) if lacks else with_gold
    content = with_size(content, asked)
    compares = kind.needs_lists and kind.has_preferences and len(asked.systems) > 1
    if compares and asked.queries and content.value(PLAN, None) is None:
        usual = {"question": "systems", "pair": list(asked.systems[:2]), "exclusions": ["invalid"]}
        content = content.with_value(PLAN, usual)
    return content


def lack_for_gold(content: Content, asked: Asked) -> Literal["", "targets", "images", "queries"]:
    """The data missing for the gold questions of a draft; "" if none."""
    kind = KINDS.get(str(content.value("design.kind", DEFAULT_KIND)))
    gold = None if kind is None else kind.gold
    numbers = [content.value(key, 0) for key in (GOLD, QUESTIONS, FORMS)]
    if gold is None or not all(type(each) is int for each in numbers) or not numbers[0]:
        return ""
    if gold.needs_target and not asked.with_target:
        return "targets"
    n_gold, per_form, forms = numbers
    is_mixed = content.value("design.categories", "one") == "mixed"
    groups = [asked.queries] if is_mixed else list(asked.categories.values())
    most = asked.with_target if gold.needs_target else asked.queries
    for group in groups:
        if min(group, most) - min(group, per_form * forms) < n_gold * forms:
            return "queries"
    return "" if asked.has_far_images else "images"


def with_size(content: Content, asked: Asked) -> Content:
    """With as many judges of each query as follow from the other numbers, unless that is set."""
    numbers = [content.value(key, 0) for key in (PEOPLE, QUESTIONS, FORMS)]
    is_set = content.value(OVERLAP, None) is not None or not asked.queries
    if is_set or not all(type(number) is int and 0 < number <= MOST for number in numbers):
        return content  # numbers that are wrong are said where they are entered
    people, questions, forms = numbers
    most = min(questions * forms, most_questions(content, asked))
    return content.with_values(values_of(size_of(asked.queries, people, most)))


def values_of(size: Size) -> dict[str, Any]:
    return {
        OVERLAP: size.overlap,
        QUESTIONS: size.questions // size.forms,
        FORMS: size.forms,
        "queries.sample": size.sample or None,
    }


def most_questions(content: Content, asked: Asked) -> int:
    """No participant sees a query twice, and gold questions use separate queries."""
    gold = content.value(GOLD, 0)
    forms = 1 if asked.queries <= IN_ONE_FORM else 2
    return max(1, asked.queries - forms * (gold if type(gold) is int else 0))


# study.toml.


def toml_of(content: Content, folder: Path) -> str:
    """study.toml with the entered values and the values derived from the draft's files."""
    head = "# Set up in the browser. The page 'Studies' of the documentation has all keys.\n\n"
    config = with_usual_k(content, folder).config
    head += "".join(f"# {tag}.json, beside this file, has texts.\n\n" for tag in content.texts)
    return head + tomli_w.dumps(without_empty(config), multiline_strings=True)


USUAL_K = 5


def with_usual_k(content: Content, folder: Path) -> Content:
    """With as many images in a set as the shortest list has, unless a number was entered.

    It is up to 5, the default of study.toml.
    """
    if content.value("design.k", None) is not None or not content.of_role("lists"):
        return content
    lengths = [len(ranked.images) for _, ranked in material_of(content, folder).lists]
    k = min([USUAL_K, *lengths])
    return content if k == USUAL_K else content.with_value("design.k", k)


def without_empty(tables: Mapping[str, Any]) -> dict[str, Any]:
    """Without keys that hold nothing, which TOML cannot write."""
    return {
        key: without_empty(value) if isinstance(value, dict) else value
        for key, value in tables.items()
        if value is not None and value != {}
    }


def read_draft(content: Content, folder: Path) -> tuple[StudyConfig, dict[str, str]]:
    """The config, and its errors by key; keys with errors have their defaults.

    The keys are those of `Content.value`, which counts the tables of an array from 0.
    """
    path = folder / "study.toml"
    config, errors = config_with_errors(path, toml_of(content, folder), content.texts)
    return config, {
        re.sub(r"\.(\d+)(?=\.|$)", lambda found: f".{int(found[1]) - 1}", key): what
        for key, what in errors.items()
    }


def content_of(config: StudyConfig) -> Content:
    """A content without files, with the keys that differ from the defaults."""
    translations = config.study.translations.items()
    texts = {tag: as_json(each.texts) for tag, each in translations if each.texts}
    return Content(config=tables_of(config), texts=texts)


def tables_of(config: StudyConfig) -> dict[str, Any]:
    """The tables of study.toml for a config, with the keys that differ from the defaults."""
    usual = asdict(StudyConfig(study=type(config.study)(name="", title="")))
    tables: dict[str, Any] = {}
    for name, table in as_json(asdict(config)).items():
        given = {
            key: value
            for key, value in table.items()
            if value is not None and value != as_json(usual[name])[key]
        }
        if name == "study":
            translations = given.pop("translations", {})
            given |= {
                tag: {k: v for k, v in each.items() if v and k != "texts"}
                for tag, each in translations.items()
                if tag != config.study.language
            }
        if given:
            tables[name] = given
    return tables


def as_json(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: as_json(inner) for key, inner in value.items()}
    return [as_json(inner) for inner in value] if isinstance(value, list | tuple) else value


# The uploaded images, queries and lists.


@dataclass(frozen=True, slots=True)
class QueryTable:
    """The uploaded table of queries, before repairs.

    `names` are its columns, `columns` has the known ones, by our names, and `found` has what
    each of the rows is as it was uploaded.
    """

    file: DraftFile
    names: Sequence[str]
    columns: Mapping[str, str]
    rows: Sequence[Place]
    found: Sequence[PlacedQuery | WrongRow]


@dataclass(frozen=True)
class Material:
    """The contents of a draft's files, not yet stored in the database's tables.

    `rows` are the rows of the table of queries, with repairs, without rows that are left out.
    `errors` has what is wrong with whole files, by their names. `sources` has the file of each
    system's lists, and its name there.
    """

    images: OwnImages | None
    rows: Sequence[PlacedQuery | WrongRow]
    lists: Sequence[PlacedList]
    errors: Mapping[str, str]
    sources: Mapping[str, tuple[str, str]]
    table: QueryTable | None = None

    @cached_property
    def n_images(self) -> int:
        return 0 if self.images is None else self.images.n_images

    @cached_property
    def queries(self) -> list[PlacedQuery]:
        return [row for row in self.rows if isinstance(row, PlacedQuery)]

    @cached_property
    def wrong(self) -> list[WrongRow]:
        return [row for row in self.rows if isinstance(row, WrongRow)]

    @cached_property
    def used_lists(self) -> list[PlacedList]:
        """Those for the uploaded queries; all, if the queries are those of a dataset."""
        known = {query.query_id for _, query in self.queries}
        return [each for each in self.lists if not known or each.ranked.query_id in known]

    @cached_property
    def systems(self) -> list[str]:
        return list(dict.fromkeys(ranked.system for _, ranked in self.lists))

    @cached_property
    def n_lists(self) -> Counter[str]:
        """The number of ranked lists of each system for the queries."""
        return Counter(ranked.system for _, ranked in self.used_lists)

    @cached_property
    def answered(self) -> list[str]:
        """The queries for which every system has a list."""
        counts, n = Counter(ranked.query_id for _, ranked in self.lists), len(self.systems)
        return [query.query_id for _, query in self.queries if counts[query.query_id] == n]


IMAGES, FILES = "images", "files"
"""The folders of a draft's images, and of its other files."""


def path_of(file: DraftFile, folder: Path) -> Path:
    """Where a table or ranked lists are; `folder` is the draft's."""
    return folder / FILES / file.source / file.name


def image_root(content: Content, folder: Path) -> Path:
    """The folder of a draft's images.

    Those of several uploads are put together, as links to the same files; of images with the same
    name, the last counts.
    """
    sources = [file.source for file in content.of_role("images")]
    if len(sources) < 2:
        return folder / IMAGES / "".join(sources)
    root = folder / IMAGES / sha256("\n".join(sources).encode()).hexdigest()[:24]
    if not root.exists():
        with temporary_folder_beside(root) as draft:
            for source in sources:
                link_files(image_files(folder / IMAGES / source), folder / IMAGES / source, draft)
            try:
                draft.rename(root)
            except OSError:
                if not root.is_dir():  # no other process was faster
                    raise
    return root


def link_files(files: Iterable[Path], source: Path, folder: Path) -> None:
    """Give a folder these files of another one, under the same names."""
    for file in files:
        place = folder / file.relative_to(source)
        make_folder_private(place.parent)
        link(file, place)


def link(file: Path, place: Path) -> None:
    """Give a file a further place on its disk, instead of what is there."""
    place.unlink(missing_ok=True)
    try:
        place.hardlink_to(file)
    except OSError:  # a disk without hard links
        copyfile(file, place)


def copy_files(content: Content, source: Path, folder: Path) -> None:
    """Give a draft the files of another one; `Refused` if one is missing, or there is no space."""
    images = (image_files(source / IMAGES / file.source) for file in content.of_role("images"))
    tables = [path_of(each, source) for each in content.files if each.role in ("queries", "lists")]
    try:
        link_files(chain(*images, tables), source, folder)
    except OSError as error:
        rmtree(folder, ignore_errors=True)
        name = Path(error.filename or source).name
        raise Refused(f"{name} cannot be copied ({error.strerror})") from error


def images_of(content: Content, folder: Path) -> OwnImages | None:
    """The images of a draft; None without any."""
    files = tuple(content.of_role("images"))
    return _images(image_root(content, folder), files) if files else None


@lru_cache(maxsize=8)
def _images(root: Path, _files: tuple[DraftFile, ...]) -> OwnImages:
    return OwnImages(ImageFolder(root))


def material_of(content: Content, folder: Path) -> Material:
    """Read the files of a draft; what was read is kept until the draft changes."""
    return _material(files_key(content), folder)


def files_key(content: Content) -> str:
    """The settings that affect reading the files of a draft."""
    return content.model_dump_json(include={"files", "columns", "repairs", "names"})


@lru_cache(maxsize=8)
def _material(parts: str, folder: Path) -> Material:
    content = Content.model_validate_json(parts)
    images = images_of(content, folder)
    table: QueryTable | None = None
    rows: list[PlacedQuery | WrongRow] = []
    lists: list[PlacedList] = []
    errors: dict[str, str] = {}
    for file in content.of_role("queries"):
        path = path_of(file, folder)
        try:
            table = _table(path, file, tuple(content.columns.items()), images)
            if not table.columns:
                raise UnreadableInput(path, "no column is recognized", "assign the columns")
            repaired = with_repairs(table.rows, content.repairs)
            rows += own_queries.queries_of(path, repaired, image_id_of(images))
        except HsfiqError as error:
            errors[file.name] = without_folder(error, path)
    sources: dict[str, tuple[str, str]] = {}
    for file in content.of_role("lists"):
        path = path_of(file, folder)
        try:
            placed = _lists(path, file)
        except HsfiqError as error:
            errors[file.name] = without_folder(error, path)
        else:
            lists += chosen_lists(content, file.name, placed, sources)
    return Material(images, rows, lists, errors, sources, table)


def without_folder(error: HsfiqError, path: Path) -> str:
    """An error that names the file without its folder."""
    return str(error).replace(str(path), path.name)


@lru_cache(maxsize=16)
def _lists(path: Path, file: DraftFile) -> Sequence[PlacedList]:
    return lists_of(path, file.system or None)


@lru_cache(maxsize=8)
def _table(
    path: Path, file: DraftFile, chosen: tuple[tuple[str, str], ...], images: OwnImages | None
) -> QueryTable:
    names = columns_of(path)
    columns = own_queries.guessed_columns(names) | dict(chosen)
    columns = {ours: theirs for ours, theirs in columns.items() if theirs in names}
    if not columns:
        return QueryTable(file, names, {}, (), ())
    rows = own_queries.mapped_rows(path, columns)
    found = own_queries.queries_of(path, rows, image_id_of(images))
    return QueryTable(file, names, columns, rows, found)


def image_id_of(images: OwnImages | None) -> ImageId:
    return (lambda _, name: name) if images is None else ids_of_images(images)


def with_repairs(
    rows: Sequence[Place], repairs: Mapping[str, Mapping[str, str]]
) -> Iterator[Place]:
    """The rows with repaired cells, without rows that are left out."""
    for row in rows:
        repair = repairs.get(own_queries.row_number(row.where))
        if repair is None:
            yield row
        elif repair:
            cells = {name: cell for name, cell in (row.value | repair).items() if cell != ""}
            yield row.with_value(cells)


def chosen_lists(
    content: Content, file: str, lists: Sequence[PlacedList], sources: dict[str, tuple[str, str]]
) -> Iterator[PlacedList]:
    """The lists of a file under the systems' chosen names, which `sources` gets.

    A name that a system of another file has is given a number.
    """
    names = {}
    for own in dict.fromkeys(ranked.system for _, ranked in lists):
        wanted = content.names.get(f"{file}/{own}", own)
        if wanted:
            numbered = (f"{wanted}-{number}" for number in range(2, len(sources) + 3))
            names[own] = next(name for name in (wanted, *numbered) if name not in sources)
            sources[names[own]] = file, own
    for where, ranked in lists:
        if ranked.system in names:
            yield PlacedList(where, replace(ranked, system=names[ranked.system]))


# Drawing the study.


def draw(database: Database, token: str, actor: Actor, track: Track = iter) -> str:
    """Import the draft's data and draw its study as a draft; return the study's name.

    An existing study is redrawn if nobody has enrolled.

    Raises:
        ConfigErrors, UnreadableInput: the draft is not complete, or its study cannot be drawn.
    """
    with database.reading() as session:
        draft = snapshot(session, database, token)
    if draft.status not in (None, "draft"):
        raise Refused(f"study {draft.study} is already open")
    config, material = complete(draft.content, draft.folder)
    store_material(database, draft.content, draft.folder, config, material, actor)
    with database.reading() as session:
        before = find_study(session, config.study.name)
        is_own = draft.study_id is not None and (before is None or before.id == draft.study_id)
    draw_config(database, config, actor, track, draft.study_id if is_own else None)
    with database.writing() as session:
        row, study = find_draft(session, token, lock=True), find_study(session, config.study.name)
        row.study_id = None if study is None else study.id
    return config.study.name


def complete(content: Content, folder: Path) -> tuple[StudyConfig, Material]:
    """The config and the files' content of a draft that can be drawn; an error otherwise."""
    config, errors = read_draft(content, folder)
    if errors:
        raise ConfigErrors([f"{key}: {what}" for key, what in errors.items()])
    material = material_of(content, folder)
    require_complete(content, config, material)
    return config, material


def store_material(
    database: Database,
    content: Content,
    folder: Path,
    config: StudyConfig,
    material: Material,
    actor: Actor,
) -> None:
    """Import the queries and ranked lists of a draft; what was imported before is left out."""
    root = None if content.dataset else image_root(content, folder)
    with database.writing() as session:
        dataset = dataset_named(session, config.queries.dataset, root)
        if not content.dataset:
            forget_queries(session, dataset)
            forget_systems(session, dataset, material.systems)
        import_queries(session, dataset, list(material.queries))
        import_runs(session, dataset, material.used_lists)
        record(session, actor, Action.DATA_IMPORT, about=f"dataset {dataset.name}")


def forget_queries(session: Session, dataset: Dataset) -> None:
    """Delete the queries and ranked lists of a dataset that no study shows.

    A failed attempt to draw the study may leave outdated data.
    """
    queries = select(Query.id).join(Triplet).where(Triplet.dataset_id == dataset.id)
    is_shown = select(Pair.id).where(Pair.query_id.in_(queries)).limit(1)
    if session.scalar(is_shown) is not None:
        return
    session.execute(delete(RankedList).where(RankedList.query_id.in_(queries)))
    session.execute(delete(Query).where(Query.id.in_(queries.scalar_subquery())))
    session.execute(delete(Triplet).where(Triplet.dataset_id == dataset.id))


def forget_systems(session: Session, dataset: Dataset, systems: Sequence[str]) -> None:
    """Delete the ranked lists of systems that were renamed or removed since the last drawing."""
    queries = select(Query.id).join(Triplet).where(Triplet.dataset_id == dataset.id)
    others = select(System.id).where(System.name.not_in(systems))
    of_others = RankedList.query_id.in_(queries), RankedList.system_id.in_(others)
    session.execute(delete(RankedList).where(*of_others))


@contextmanager
def with_material(database: Database, content: Content, folder: Path) -> Iterator[Database]:
    """A database with what the study of a draft is drawn from: the own one for its dataset."""
    if content.dataset:
        yield database
        return
    config, material = complete(content, folder)
    with TemporaryDirectory() as place:
        copy = open_database(sqlite_url(Path(place) / "material.db"))
        try:
            store_material(copy, content, folder, config, material, OWNER)
            yield copy
        finally:
            copy.close()


@dataclass(frozen=True, slots=True)
class Trial:
    """The result of a trial drawing: the budget, or the reason why the study cannot be drawn.

    `where` is the key of study.toml that causes the problem, or the name of a file.
    """

    problem: str = ""
    where: str = ""
    budget: Budget | None = None


def trial_of(database: Database, content: Content, folder: Path) -> Trial:
    """Draw the study of a draft with own images in a database that is deleted again.

    Of a study of a dataset that is in the database, only the queries and lists are chosen.
    """
    if not content.dataset:
        return _trial(database, content.model_dump_json(), folder)
    try:
        config, _ = complete(content, folder)
        with database.reading() as session:
            material_for(session, config, chosen_queries(session, config))
    except HsfiqError as error:
        return Trial(error.what.partition("\n")[0], error.where)
    return Trial()


@lru_cache(maxsize=8)
def _trial(database: Database, text: str, folder: Path) -> Trial:
    content = Content.model_validate_json(text)
    try:
        config, _ = complete(content, folder)
        with with_material(database, content, folder) as copy, copy.writing() as session:
            queries = chosen_queries(session, config)
            study = draw_study(session, config, queries, status="draft")
            require_enough_forms(session, study, config)
            per_hour = None if content.pay is None else content.pay.per_hour
            return Trial(budget=budget_of(session, study, config, per_hour))
    except HsfiqError as error:
        return Trial(error.what.partition("\n")[0], error.where)


def require_complete(content: Content, config: StudyConfig, material: Material) -> None:
    if not content.dataset and not material.queries:
        raise UnreadableInput("queries", "there is no query", "upload a table of queries")
    if material.wrong:
        raise UnreadableInput(
            "queries",
            f"{len(material.wrong)} rows have errors",
            "correct the rows or leave them out",
        )
    for name, what in material.errors.items():
        raise UnreadableInput(name, what)
    if KINDS[config.design.kind].needs_lists and not material.lists and not content.dataset:
        raise UnreadableInput(
            "systems", "there is no ranked list", "upload the lists of each system"
        )


# A preview: what one participant is asked, in a database of its own.

PREVIEWS = "preview"
MOST_QUESTIONS = 50
UNSEEN = ("recruitment.", "release.", "analysis.", "searches.retrievers")
"""The keys that a preview does not need."""


def preview_file(content: Content, folder: Path) -> Path:
    """The database of a draft's preview; another content has another one."""
    shown = content.model_dump_json(exclude={"pay"})
    return folder / PREVIEWS / f"{sha256(shown.encode()).hexdigest()[:24]}.db"


def draw_preview(database: Database, content: Content, folder: Path, target: Database) -> int:
    """Draw one participant's questions; return the key of the study, the only one in `target`.

    Raises:
        ConfigErrors, UnreadableInput: what the draft lacks.
    """
    config, errors = read_draft(content, folder)
    if wrong := [f"{key}: {what}" for key, what in errors.items() if not key.startswith(UNSEEN)]:
        raise ConfigErrors(wrong)
    design = config.design
    most = min(MOST_QUESTIONS, design.questions_per_form * design.forms_per_participant)
    with target.writing() as session:
        drawn: int | None = session.scalar(select(Study.id))
        if drawn is not None:
            return drawn
        if content.dataset:
            with database.reading() as source:
                copy_queries(source, session, config, most)
        else:
            import_queries_of(session, content, folder, config, most)
        return draw_for_one(session, config)


def import_queries_of(
    session: Session, content: Content, folder: Path, config: StudyConfig, most: int
) -> None:
    """Import some of the uploaded queries, and that of the practice question."""
    material = material_of(content, folder)
    require_complete(content, config, replace(material, rows=material.queries))
    needs_lists, answered = KINDS[config.design.kind].needs_lists, set(material.answered)
    asked = [p for p in material.queries if not needs_lists or p.query.query_id in answered]
    if not asked:
        what = "no query has a list from every system"
        raise UnreadableInput("systems", what, "use the same query ids in all files")
    practice = [placed for placed in asked if placed.query.query_id == config.practice.query]
    few = [*practice, *[placed for placed in asked if placed not in practice][:most]]
    ids = {placed.query.query_id for placed in few}
    dataset = dataset_named(session, config.queries.dataset, image_root(content, folder))
    import_queries(session, dataset, few)
    import_runs(session, dataset, [each for each in material.lists if each[1].query_id in ids])


def copy_queries(source: Session, target: Session, config: StudyConfig, most: int) -> None:
    """Copy some queries of a dataset with their lists and images, under the same keys."""
    every = replace(config, queries=replace(config.queries, sample=0))
    queries, practice = set(chosen_queries(source, every)[:most]), practice_query(source, config)
    queries |= set() if practice is None else {practice.id}
    target.execute(text("PRAGMA defer_foreign_keys = ON"))
    lists = copy_rows(source, target, RankedList.query_id, queries)
    copy_rows(source, target, System.id, {row["system_id"] for row in lists})
    asked = copy_rows(source, target, Query.id, queries)
    triplets = copy_rows(source, target, Triplet.id, {row["triplet_id"] for row in asked})
    copy_rows(source, target, Dataset.id, {row["dataset_id"] for row in triplets})
    shown = {row[key] for row in triplets for key in ("reference_id", "target_id")} - {None}
    copy_rows(source, target, Image.id, shown.union(*(row["image_ids"] for row in lists)))


def copy_rows(
    source: Session, target: Session, column: InstrumentedAttribute[int], keys: Set[int]
) -> list[dict[str, Any]]:
    """Copy the rows of a table that have one of the keys in a column."""
    table = column.class_.__table__
    rows = [
        dict(row)
        for some in chunks(sorted(keys))
        for row in source.execute(select(table).where(column.in_(some))).mappings()
    ]
    if rows:
        target.execute(insert(table), rows)
    return rows


def draw_for_one(session: Session, config: StudyConfig) -> int:
    """Draw a study of all queries but the practice question's, each asked once.

    It has no questions with an obvious answer if the data have none.
    """
    practice, n_live = practice_query(session, config), KINDS[config.design.kind].n_live
    others = select(Query.id).where(Query.id != (0 if practice is None else practice.id))
    queries = list(session.scalars(others))
    config = replace(
        config,
        design=replace(
            config.design, annotators_per_query=1, overlap_share=1.0, categories="mixed"
        ),
        recruitment=replace(config.recruitment, quotas={}),
        analysis=AnalysisPlan(),
    )
    images = frozenset(session.scalars(select(Image.name)))
    described = Described("", "", len(images), "", images)  # of retrievers, which are not asked
    for gold in (config.checks.gold, 0):
        checks = replace(config.checks, gold=gold)
        try:
            with session.begin_nested():
                return draw_study(
                    session,
                    replace(config, checks=checks),
                    queries,
                    status="draft",
                    retrievers={str(number): described for number in range(n_live)},
                ).id
        except ConfigError as error:
            if not gold or error.where != "checks.gold":
                raise
    raise AssertionError("the second of two drawings returns or raises")
