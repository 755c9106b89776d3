"""Project folders: a study of your own data with its database, releases and rehearsal.

`hsfiq init` creates a project. `hsfiq.toml` marks its folder: commands inside it use its database,
study and dataset by default.
"""

from __future__ import annotations

import csv
import json
import re
import secrets
import tomllib
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from importlib.resources import files
from math import ceil
from pathlib import Path
from string import Template
from typing import Literal, get_args

from sqlalchemy import select
from sqlalchemy.orm import Session

from hsfiq.actors import Action, Actor
from hsfiq.atomic_files import draft_folder, explained_write_errors, write_whole
from hsfiq.audit import record
from hsfiq.collect.participants import places_for_invitations, write_invitations
from hsfiq.collect.progress import participants_of
from hsfiq.collect.studies import find_study, list_studies, study_called
from hsfiq.db.engine import Database, open_database
from hsfiq.db.source_tables import Dataset
from hsfiq.db.sqlite import make_folder_private, sqlite_url
from hsfiq.db.tables import Extension, Participant, Study
from hsfiq.errors import ConfigError, HsfiqError, NothingToDo, UnreadableInput
from hsfiq.images.check import Track
from hsfiq.images.folder import OwnImages
from hsfiq.images.store import Images, Root, root_named
from hsfiq.importing import dataset_named, ids_of_images, import_queries, import_runs
from hsfiq.readers import own_queries, runs
from hsfiq.readers.files import ErrorList, read_text
from hsfiq.readers.runs import PlacedList
from hsfiq.study.capacity import (
    Budget,
    budget_of,
    capacity_of,
    duration_of,
    recruited,
    require_enough_forms,
)
from hsfiq.study.config import StudyConfig, config_of
from hsfiq.study.config_file import located, read_config
from hsfiq.study.creation import create_study
from hsfiq.study.design import chosen_queries
from hsfiq.study.images import StudyImages
from hsfiq.text import count_text

# The folder, and what marks it.

MARKER, STUDY_FILE, DATABASE_FILE = "hsfiq.toml", "study.toml", "hsfiq.db"
INVITATIONS_FILE = "invitations.csv"

PAY = re.compile(r"(\d{1,6}(?:[.,]\d{1,2})?)\s*([A-Za-z]{3})?")


@dataclass(frozen=True, slots=True)
class Pay:
    """A participant's pay by the hour; the currency is a code of ISO 4217, such as EUR."""

    per_hour: float
    currency: str

    @classmethod
    def read(cls, text: str) -> Pay | None:
        """Read `12 EUR` or `0`; None if participants are unpaid. `UnreadableInput` for others."""
        match = PAY.fullmatch(text.strip())
        amount = float(match[1].replace(",", ".")) if match else None
        if match and amount == 0:
            return None
        if match is None or amount is None or match[2] is None:
            raise UnreadableInput(
                "--pay",
                f"{text!r} is not an amount with a currency",
                "write one such as '12 EUR', or 0",
            )
        return cls(amount, match[2].upper())


@dataclass(frozen=True, slots=True)
class Project:
    """A folder created by `hsfiq init`; `drawn` identifies the source of its study."""

    folder: Path
    pay: Pay | None
    drawn: str | None

    @property
    def database_url(self) -> str:
        return sqlite_url((self.folder / DATABASE_FILE).resolve())

    @property
    def study_file(self) -> Path:
        return self.folder / STUDY_FILE

    def images(self) -> Root:
        """Where its dataset's images are; `UnreadableInput` if the dataset is gone."""
        _, name = self.names()
        database = open_database(self.database_url, create=False)
        try:
            with database.reading() as session:
                root = session.scalar(select(Dataset.image_root).where(Dataset.name == name))
        finally:
            database.close()
        if root is None:
            raise UnreadableInput(str(self.folder), f"has no dataset {name!r} with images")
        return root_named(root)

    def names(self) -> tuple[str, str]:
        """The names of its study and of its dataset, as study.toml has them."""
        config = read_config(self.study_file)
        return config.study.name, config.queries.dataset


def read_project(folder: Path) -> Project:
    """The project in a folder with a marker; `UnreadableInput` if the marker is broken."""
    path = folder / MARKER
    try:
        content = tomllib.loads(read_text(path))
        pay = content.get("pay")
        return Project(folder, None if pay is None else Pay(**pay), content.get("drawn"))
    except (tomllib.TOMLDecodeError, TypeError) as error:
        raise UnreadableInput(str(path), f"is not a project file ({error})") from error


def project_in(folder: Path) -> Project:
    if not (folder / MARKER).is_file():
        raise UnreadableInput(
            str(folder),
            f"is not a project folder: it has no {MARKER}",
            "create one with hsfiq init",
        )
    return read_project(folder)


# What a project is made from: images, queries and ranked lists.


@dataclass(frozen=True, slots=True)
class Sources:
    """Own data that was read without an error; nothing is stored yet."""

    images: Root
    n_images: int
    queries: Sequence[own_queries.PlacedQuery]
    lists: Sequence[PlacedList]

    @property
    def systems(self) -> list[str]:
        return list(dict.fromkeys(ranked.system for _, ranked in self.lists))

    @property
    def answered(self) -> list[str]:
        """The queries for which every system has a list."""
        counts, n = Counter(ranked.query_id for _, ranked in self.lists), len(self.systems)
        return [query.query_id for _, query in self.queries if counts[query.query_id] == n]

    @property
    def k(self) -> int:
        """How many images of a list are shown: 5, or as many as the shortest list has."""
        return min(5, *(len(ranked.images) for _, ranked in self.lists))

    @property
    def categories(self) -> list[str]:
        return sorted({query.category for _, query in self.queries if query.category})

    def lines(self) -> list[str]:
        """A summary of the data that were read."""
        n = len(self.queries)
        queries = [query for _, query in self.queries]
        parts = {
            "with an image and a text": sum(bool(q.reference and q.text) for q in queries),
            "with a text only": sum(not q.reference for q in queries),
            "with an image only": sum(not q.text for q in queries),
        }
        forms = ", ".join(f"{count:,} {what}" for what, count in parts.items() if count)
        with_target = sum(bool(q.target) for q in queries)
        counts = Counter(ranked.system for _, ranked in self.lists)
        of_categories = f" in {count_text(len(self.categories), 'category', 'categories')}"
        asked = f"{n:,}{of_categories if self.categories else ''}: {forms}"
        judged = f"{len(self.answered):,} of {count_text(n, 'query', 'queries')}"
        return [
            f"images    {self.n_images:,} in {self.images}",
            f"queries   {asked}; {with_target:,} with a labelled target",
            *(
                f"system    {system}: {count_text(counts[system], 'ranked list')}"
                for system in self.systems
            ),
            f"judged    {judged} with a list of every system",
        ]


def read_sources(
    images: Images, queries: Path, run_files: Sequence[tuple[str | None, Path]]
) -> Sources:
    """Read all files; `FileErrors` lists the mistakes of all of them.

    `run_files` are files of ranked lists; a system's name is needed where its file has none.
    """
    own = OwnImages(images)
    errors = ErrorList()
    placed, lists = list[own_queries.PlacedQuery](), list[PlacedList]()
    try:
        for row in own_queries.read(queries, ids_of_images(own)):
            if isinstance(row, own_queries.WrongRow):
                for error in row.errors:
                    errors.add(error)
            else:
                placed.append(row)
    except HsfiqError as error:
        errors.add(error)
    for name, file in run_files:
        try:
            lists += lists_of(file, name)
        except HsfiqError as error:
            errors.add(error)
    errors.require_none()
    sources = Sources(images.root, own.n_images, placed, lists)
    if len(sources.systems) < 2:
        raise UnreadableInput(
            "--run",
            f"a study compares at least 2 systems, and there is {len(sources.systems)}",
            "give --run once for each system: --run mine=mine.jsonl --run theirs=theirs.jsonl",
        )
    if not sources.answered:
        raise UnreadableInput(
            "--run",
            "no query has a list from every system",
            f"use the query ids of {queries}, such as {placed[0].query.query_id!r}",
        )
    return sources


def lists_of(file: Path, name: str | None) -> list[PlacedList]:
    """The lists of a file; its name without the ending is the system's where it names none."""
    lists = runs.lists_in(file, name)
    if all(ranked.system for _, ranked in lists):
        return lists
    return runs.read(file, file.stem)


# What the owner decides, and what follows from it.

Platform = Literal["links", "open", "prolific"]
PLATFORMS: tuple[Platform, ...] = get_args(Platform)

QUESTIONS = 25
"""The questions of a participant, if there are enough queries: about a quarter of an hour."""
MOST_QUESTIONS = 50
IN_ONE_FORM = 30
LOST = 0.8
"""The smallest share of the questions kept to give all participants the same number."""


@dataclass(frozen=True, slots=True)
class Choices:
    """The answers to `hsfiq init`; unknown texts are ""."""

    participants: int = 20
    overlap: int | None = None
    pay: Pay | None = None
    platform: Platform = "links"
    checks: bool = True
    licence: str = ""
    institution: str = ""
    contact: str = ""
    ethics: str = ""

    @property
    def per_hour(self) -> float | None:
        return None if self.pay is None else self.pay.per_hour


def usual_overlap(n_queries: int, participants: int) -> int:
    """The judges of each query if each participant answers about `QUESTIONS` questions."""
    return max(1, min(participants, round(QUESTIONS * participants / n_queries)))


@dataclass(frozen=True, slots=True)
class Size:
    """The numbers of questions and forms of a participant, and of queries.

    `sample` is 0 if all queries are judged.
    """

    overlap: int
    questions: int
    forms: int
    sample: int


def size_for(n_queries: int, participants: int, overlap: int) -> Size:
    """The size that gives all participants as many questions, as far as that is possible."""
    if overlap > participants:
        raise UnreadableInput(
            "--overlap",
            f"{overlap:,} people cannot judge each query if {participants:,} take part",
            "raise --participants or lower --overlap",
        )
    total = n_queries * overlap
    if total < participants:
        raise UnreadableInput(
            "--participants",
            f"{participants:,} participants, but only {total:,} questions",
            "lower it, or raise --overlap",
        )
    most = min(MOST_QUESTIONS, n_queries, total // participants)
    even = (
        n
        for n in range(most, max(0, int(LOST * most) - 1), -1)
        if participants * n % overlap == 0 and (n <= IN_ONE_FORM or n % 2 == 0)
    )
    questions = next(even, most if most <= IN_ONE_FORM else most - most % 2)
    judged = min(n_queries, participants * questions // overlap)
    forms = 1 if questions <= IN_ONE_FORM else 2
    return Size(overlap, questions, forms, 0 if judged == n_queries else judged)


def size_of(n_queries: int, participants: int, questions: int) -> Size:
    """The size with which each participant answers so many questions, and no query twice.

    The numbers of participants who judge two of the queries differ by at most 1.
    """
    questions = min(questions, n_queries)
    forms = 1 if questions <= IN_ONE_FORM else 2
    questions -= questions % forms
    answers = participants * questions
    sample = answers if answers < n_queries else 0
    return Size(ceil(answers / n_queries), questions, forms, sample)


# The study's file.


def toml_text(text: str) -> str:
    """A TOML string: JSON's escapes are TOML's."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


TEMPLATE = "project_study.toml"
MODES = {"links": "invitation", "open": "open", "prolific": "prolific"}


def study_text(name: str, sources: Sources, choices: Choices, size: Size, gold: int) -> str:
    """The commented study.toml of a project."""
    completion = ""
    if choices.platform == "prolific":
        completion = f'completion_code = "{new_code()}"  # enter it on Prolific\n'
    return Template((files("hsfiq") / TEMPLATE).read_text(encoding="utf-8")).substitute(
        systems=count_text(len(sources.systems), "system"),
        name=toml_text(name),
        institution=toml_text(choices.institution),
        contact=toml_text(choices.contact),
        ethics=toml_text(choices.ethics),
        k=sources.k,
        questions=size.questions // size.forms,
        forms=size.forms,
        overlap=size.overlap,
        categories="mixed" if len(sources.categories) > 1 else "one",
        gold=gold,
        repeated=int(choices.checks),
        arithmetic=str(choices.checks).lower(),
        sample=size.sample,
        pair=", ".join(map(toml_text, sources.systems[:2])),
        mode=MODES[choices.platform],
        participants=choices.participants,
        completion=completion,
        license=toml_text(choices.licence),
    )


def new_code() -> str:
    """An unguessable completion code."""
    return f"C{secrets.token_hex(4).upper()}"


def marker_text(pay: Pay | None, drawn: StudyConfig) -> str:
    lines = [
        "# Made by hsfiq init: commands in this folder use its database, study and dataset.",
        f"drawn = {toml_text(identity_of(drawn))}  # identifies the study.toml that was drawn",
    ]
    if pay is not None:
        lines += ["[pay]", f"per_hour = {pay.per_hour}", f"currency = {toml_text(pay.currency)}"]
    return "\n".join(lines) + "\n"


def identity_of(config: StudyConfig) -> str:
    """A digest of a study's file with the texts that it names."""
    return sha256(json.dumps(asdict(config), sort_keys=True).encode()).hexdigest()


# Making the folder.


@dataclass(frozen=True, slots=True)
class Made:
    """A new project: its study as a draft."""

    config: StudyConfig
    budget: Budget
    warnings: Sequence[str] = field(default=())


def make_project(
    folder: Path, sources: Sources, choices: Choices, actor: Actor, track: Track = iter
) -> Made:
    """Create the folder with the imported data and a draft of the study, or nothing at all.

    Raises:
        UnreadableInput, ConfigError: the study cannot be drawn from these data.
        BrokenImages: image files exist but cannot be shown.
    """
    n_queries = len(sources.answered)
    overlap = choices.overlap or usual_overlap(n_queries, choices.participants)
    size = size_for(n_queries, choices.participants, overlap)
    name = folder.resolve().name
    with explained_write_errors(folder), draft_folder(folder) as draft:
        make_folder_private(draft)
        database = open_database(sqlite_url(draft / DATABASE_FILE))
        try:
            with database.writing() as session:
                dataset = dataset_named(session, name, sources.images)
                import_queries(session, dataset, sources.queries)
                import_runs(session, dataset, sources.lists)
                record(session, actor, Action.DATA_IMPORT, about=f"dataset {name}")
            warnings = write_and_draw(database, draft, name, sources, choices, size, actor, track)
            with database.reading() as session:
                study = study_called(session, name)
                config = config_of(study)
                budget = budget_of(session, study, config, choices.per_hour)
        finally:
            database.close()
        drawn = read_config(draft / STUDY_FILE)
        write_whole(draft / MARKER, marker_text(choices.pay, drawn).encode())
    return Made(config, budget, (*warnings, *budget.capacity.warnings()))


def write_and_draw(
    database: Database,
    folder: Path,
    name: str,
    sources: Sources,
    choices: Choices,
    size: Size,
    actor: Actor,
    track: Track,
) -> list[str]:
    """Write study.toml and draw its study; without gold questions where the data have none."""
    file = folder / STUDY_FILE
    warnings = []
    for gold in (1, 0) if choices.checks else (0,):
        write_whole(file, study_text(name, sources, choices, size, gold).encode())
        try:
            images = draw_config(database, read_config(file), actor, track)
        except ConfigError as error:
            if not gold or error.where != "checks.gold":
                raise
            warnings.append(f"the study has no gold questions: {error.what}")
        else:
            return [*warnings, *images.warnings()]
    raise NothingToDo(f"study {name} was not drawn")  # the last try has ended in one of the two


def draw_config(
    database: Database,
    config: StudyConfig,
    actor: Actor,
    track: Track,
    replaced: int | None = None,
) -> StudyImages:
    """Draw a study as a draft; `replaced` is the key of a draft whose place it takes."""
    with database.reading() as session:
        queries = chosen_queries(session, config)

    return create_study(
        database,
        config,
        queries,
        actor=actor,
        require=partial(require_enough_forms, config=config),
        status="draft",
        track=track,
        replaced=replaced,
    )


# The study while nobody has enrolled: it follows its file.


def redraw_if_changed(
    database: Database, project: Project, actor: Actor, track: Track = iter
) -> str | None:
    """Redraw the study if its file has changed and nobody has enrolled; return a note.

    Invitations stay valid. A study that was extended, or bound to one on Prolific, stays so.
    """
    in_file = wanted = read_config(project.study_file)
    with database.reading() as session:
        study = find_study(session, wanted.study.name) or only_study(session)
        if study is not None:
            wanted = with_binding(wanted, study)
            if identity_of(in_file) == project.drawn or config_of(study) == wanted:
                return None
            if not is_untouched(session, study):
                return (
                    f"{STUDY_FILE} has changed after the first enrolment: study {study.name} is "
                    f"not redrawn; hsfiq study edit {study.name} {STUDY_FILE} changes its texts"
                )
        key = None if study is None else study.id
    try:
        draw_config(database, wanted, actor, track, key)
    except ConfigError as error:
        raise located(project.study_file, error) from error
    write_whole(project.folder / MARKER, marker_text(project.pay, in_file).encode())
    verb = "drawn" if key is None else "redrawn, because its file has changed"
    return f"study {wanted.study.name}: {verb}{places_without_people(database, wanted)}"


def places_without_people(database: Database, config: StudyConfig) -> str:
    """A warning if the study asks more than its participants will answer, "" if it does not."""
    with database.reading() as session:
        study = find_study(session, config.study.name)
        if study is None:
            return ""
        capacity = capacity_of(session, study)
    people = recruited(config.recruitment, capacity)
    if people == capacity.places:
        return ""
    return (
        f"; it has {capacity.places:,} places but only {people:,} participants, so some questions "
        f"get no answer: set participants = {capacity.places}, or lower sample, in {STUDY_FILE}"
    )


def only_study(session: Session) -> Study | None:
    studies = list_studies(session)
    return studies[0] if len(studies) == 1 else None


def with_binding(config: StudyConfig, study: Study) -> StudyConfig:
    """The config with the study on Prolific that the stored one is bound to, if it names none."""
    bound = config.recruitment.platform_study_id or study.platform_study_id or ""
    return replace(config, recruitment=replace(config.recruitment, platform_study_id=bound))


def is_untouched(session: Session, study: Study) -> bool:
    """Whether nobody has enrolled and the study was neither extended nor closed."""
    enrolled = select(Participant.id).where(
        Participant.study_id == study.id, Participant.enrolled_at.is_not(None)
    )
    extended = select(Extension.id).where(Extension.study_id == study.id)
    is_running = study.status in ("draft", "open", "paused")
    return is_running and not any(session.scalar(query.limit(1)) for query in (enrolled, extended))


def invited_links(
    database: Database, project: Project, study: str, actor: Actor, root: str
) -> list[str]:
    """The personal links of the project's study, one for each place; the first call makes them.

    They begin with the address `root`, also in the project's file of invitations; none if that was
    moved away and every place has a link. A file of a study that was deleted is kept under another
    name.
    """
    file = project.folder / INVITATIONS_FILE
    with database.reading() as session:
        row = study_called(session, study)
        places = places_for_invitations(session, row, datetime.now(UTC))
        invited = Participant.study_id == row.id, Participant.source == "invitation"
        has_invited = session.scalar(select(Participant.id).where(*invited).limit(1)) is not None
    if file.exists() and not has_invited:
        file.replace(file.with_name(f"old-{INVITATIONS_FILE}"))
    if not file.exists():
        count = places.free - places.waiting
        if count <= 0:
            return []
        write_invitations(database, actor, study, count, root, file)
    return links_in(file, root)


def links_in(path: Path, root: str) -> list[str]:
    """Give the links in a file of invitations another address; return them."""
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    links = [f"{root}/start/{row['link'].rpartition('/')[2]}" for row in rows]
    lines = [f"{row['participant']},{link}" for row, link in zip(rows, links, strict=True)]
    content = "\r\n".join(["participant,link", *lines, ""]).encode()
    if content != path.read_bytes():
        write_whole(path, content)
    return links


def pay_list(database: Database, study: str, pay: Pay | None) -> str:
    """CSV of each simulated participant's pay, by the announced minutes."""
    with database.reading() as session:
        row = study_called(session, study)
        people = participants_of(session, row)
        most = max((person.questions for person in people), default=0)
        minutes = duration_of(session, row.id, config_of(row), most).minutes
    rows = ["participant,finished,questions,minutes,amount,currency,simulated"]
    for person in people:
        is_done = person.answered == person.questions
        amount = f"{pay.per_hour * minutes / 60:.2f}" if pay and is_done else "0.00"
        currency = pay.currency if pay else ""
        finished = str(is_done).lower()
        rows.append(
            f"{person.participant},{finished},{person.answered},{minutes},{amount},{currency},true"
        )
    return "\n".join([*rows, ""])
