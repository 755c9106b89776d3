"""Extending a study in short transactions, so that annotators' answers do not wait for it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path
from random import Random
from typing import Any

from sqlalchemy import delete, func, or_, select, update
from sqlalchemy.orm import Session

from hsfiq.actors import Action, Actor
from hsfiq.audit import record
from hsfiq.db.engine import Database
from hsfiq.db.source_tables import Query, System, Triplet
from hsfiq.db.tables import (
    Extension,
    Form,
    FurtherSet,
    Pair,
    PracticeQuestion,
    RetrievedSet,
    Study,
    StudyCreation,
)
from hsfiq.errors import ConfigError, Conflict, FileErrors, Refused, UnreadableInput
from hsfiq.images.check import Track
from hsfiq.kinds import KINDS
from hsfiq.readers.files import read_text
from hsfiq.study import creation, forms
from hsfiq.study.capacity import Capacity, capacity_of, planned_judgements
from hsfiq.study.config import StudyConfig, config_of, n_sets_of, stored_recruitment
from hsfiq.study.design import DrawnPair, NextPart, chosen_queries, same_transaction, store_items
from hsfiq.study.recruiting import Recruitment
from hsfiq.text import count_text

# What a study asks about already.


def pairs_of(session: Session, pair_ids: Mapping[int, int]) -> list[DrawnPair]:
    """The study's items, without gold questions, in the order of the keys."""
    rows = session.execute(
        select(Pair.id, Pair.query_id, Query.triplet_id, Triplet.category)
        .join(Query, Pair.query_id == Query.id)
        .join(Triplet, Query.triplet_id == Triplet.id)
        .order_by(Pair.id)
    )
    return [DrawnPair(*row) for row in rows if row[0] in pair_ids]


def systems_of_pairs(session: Session, study: Study) -> dict[int, set[int]]:
    """The keys of the systems whose sets each pair shows; sets without a system are left out."""
    in_pair = select(Pair.id, RetrievedSet.system_id).join(
        RetrievedSet, or_(RetrievedSet.id == Pair.first_id, RetrievedSet.id == Pair.second_id)
    )
    further = (
        select(Pair.id, RetrievedSet.system_id)
        .join(FurtherSet, FurtherSet.pair_id == Pair.id)
        .join(RetrievedSet, RetrievedSet.id == FurtherSet.set_id)
    )
    systems: dict[int, set[int]] = defaultdict(set)
    for rows in (in_pair, further):
        of_study = rows.where(
            Pair.study_id == study.id,
            Pair.id.not_in(select(PracticeQuestion.pair_id)),
            RetrievedSet.system_id.is_not(None),
        )
        for pair_id, system_id in session.execute(of_study):
            if system_id is not None:
                systems[pair_id].add(system_id)
    return systems


# Read the queries of an extension from a file with one query id a line.


def queries_of_file(
    session: Session, path: Path, available: Set[int], asked: Set[int]
) -> list[int]:
    """The keys of the queries that a file lists, sorted; empty lines are skipped.

    Raises:
        FileErrors: lines that name a query twice, an unavailable query, or a query of the study.
        UnreadableInput: the file cannot be read, or lists nothing.
    """
    rows = session.execute(
        select(Query.id, Triplet.external_id + Query.suffix).join(
            Triplet, Query.triplet_id == Triplet.id
        )
    ).all()
    keys = {name: key for key, name in rows if key in available}
    known = {name for key, name in rows if key in asked}
    chosen: dict[str, int] = {}
    errors = []
    for number, line in enumerate(read_text(path).splitlines(), start=1):
        name = line.strip()
        if not name:
            continue
        if name in chosen:
            errors.append(
                f"{path}: line {number}: {name!r} is listed twice; delete one of the lines"
            )
        elif name in keys:
            chosen[name] = keys[name]
        elif name in known:
            errors.append(
                f"{path}: line {number}: {name!r} is already in the study; delete the line"
            )
        else:
            errors.append(
                f"{path}: line {number}: no query {name!r} matches the study's [queries]; "
                "delete the line, or import the query and its runs first"
            )
    if errors:
        raise FileErrors(errors)
    if not chosen:
        raise UnreadableInput(str(path), "lists no query", "write one query id a line")
    return sorted(chosen.values())


# Further forms for a study that is already running.
#
# The rows that a study has stay as they are: an extension only adds forms, for participants who
# have not enrolled yet, and raises the limit of participants by as many.


@dataclass(frozen=True, slots=True)
class MoreAnnotators:
    """Forms about the study's queries, until this number of participants judge each query."""

    annotators: int

    def facts(self) -> dict[str, object]:
        return {"annotators_per_query": self.annotators}


@dataclass(frozen=True, slots=True)
class NewQueries:
    """Forms about new queries, with the study's design.

    All new queries that match `[queries]`, `sample` of them (0 is all), or the queries in `file`.
    """

    sample: int = 0
    file: Path | None = None

    def facts(self) -> dict[str, object]:
        if self.file is not None:
            return {"queries": "listed"}
        return {"queries": "sample" if self.sample else "all"}


@dataclass(frozen=True, slots=True)
class Added:
    """The additions of an extension; `questions` are without checks.

    `cap` is the limit of participants after it, 0 if the study has none; `quotas` are those by
    category.
    """

    capacity: Capacity
    queries: int
    questions: int
    forms: int
    first_form: int
    cap: int
    quotas: Mapping[str, int]

    def facts(self) -> dict[str, object]:
        facts = asdict(self) | {"participants": self.capacity.places}
        del facts["capacity"]
        return facts


Divide = Callable[[Session, Study, NextPart], list[list[DrawnPair]]]
"""Stores the new pairs of an extension in a study, if it has any; returns its batches."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The planned rows of an extension; `number` counts the study's extensions from 1.

    `first_form` and `first_batch` are the numbers that follow those of the study. `lists` are those
    of queries that gold questions are made from.
    """

    wanted: MoreAnnotators | NewQueries
    config: StudyConfig
    number: int
    rng: Random
    first_form: int
    first_batch: int
    facts: Mapping[int, forms.QueryFacts]
    lists: forms.Lists
    divide: Divide


@dataclass(frozen=True, slots=True)
class Stored:
    queries: int
    questions: int
    forms: int


def extend_study(
    session: Session, study: Study, wanted: MoreAnnotators | NewQueries, now: datetime
) -> Added:
    """Draw and store an extension of a locked study in one transaction.

    Raises:
        Refused: there is nothing to add.
        UnreadableInput: the sample or the file requests unavailable queries.
        ConfigError: the study's design does not allow the forms.
    """
    plan = plan_extension(session, study, wanted)
    stored = store_extension(session, study, plan)
    return record_extension(session, study, plan, stored, now)


def plan_extension(session: Session, study: Study, wanted: MoreAnnotators | NewQueries) -> Plan:
    """The planned rows of an extension, before storing; see `extend_study`.

    All draws come from a generator that the study's seed and the extension's number seed.
    """
    config = config_of(study)
    if KINDS[config.design.kind].n_live > 1:
        what = "an arena cannot be extended, since all searches are drawn at once for exact balance"
        raise ConfigError("design.kind", what, "create another study")
    number = next_extension(session, study)
    rng = Random(f"extension:{config.design.seed}:{number}")  # noqa: S311 (a seeded draw, not a secret)
    if isinstance(wanted, MoreAnnotators):
        queries, lists, divide = more_annotators(session, study, config, wanted.annotators, rng)
    else:
        queries, lists, divide = new_queries(session, study, config, wanted, rng)
    first_form, first_batch = next_numbers(session, study)
    return Plan(
        wanted=wanted,
        config=config,
        number=number,
        rng=rng,
        first_form=first_form,
        first_batch=first_batch,
        facts=forms.query_facts(session, sorted({*queries, *lists})),
        lists=lists,
        divide=divide,
    )


def store_extension(
    session: Session, study: Study, plan: Plan, next_part: NextPart = same_transaction
) -> Stored:
    """Store the forms, and the pairs that they are the first to ask, in a study."""
    divided = plan.divide(session, study, next_part)
    writer = forms.FormWriter(
        session, study, plan.config, plan.facts, plan.lists, plan.rng, plan.first_form
    )
    for batch_number, batch in enumerate(divided, start=plan.first_batch):
        category = "" if plan.config.design.categories == "mixed" else batch[0].category
        writer.write(batch_number, category, [(pair.pair_id, pair.triplet_id) for pair in batch])
        next_part()
    return Stored(
        queries=len({pair.query_id for batch in divided for pair in batch}),
        questions=sum(map(len, divided)),
        forms=next_numbers(session, study)[0] - plan.first_form,
    )


def record_extension(
    session: Session, study: Study, plan: Plan, stored: Stored, now: datetime
) -> Added:
    """Raise the limits of a locked study that has the forms, and record the extension."""
    capacity = capacity_of(session, study, plan.first_batch)
    raised = raise_limits(study, config_of(study), capacity)
    result = Added(
        capacity=capacity,
        queries=stored.queries,
        questions=stored.questions,
        forms=stored.forms,
        first_form=plan.first_form,
        cap=raised.participants,
        quotas=raised.quotas,
    )
    session.add(
        Extension(
            study_id=study.id,
            number=plan.number,
            created_at=now,
            seed=plan.config.design.seed,
            request=plan.wanted.facts(),
            added=result.facts(),
        )
    )
    session.flush()
    return result


def next_extension(session: Session, study: Study) -> int:
    last = session.scalar(select(func.max(Extension.number)).where(Extension.study_id == study.id))
    return (last or 0) + 1


def extensions_of(session: Session, study: Study) -> list[dict[str, Any]]:
    """The study's extensions in their order, as releases have them."""
    rows = session.scalars(
        select(Extension).where(Extension.study_id == study.id).order_by(Extension.number)
    )
    return [
        {
            "number": row.number,
            "created_at": row.created_at.isoformat(),
            "seed": row.seed,
            "request": row.request,
            "added": row.added,
        }
        for row in rows
    ]


def next_numbers(session: Session, study: Study) -> tuple[int, int]:
    """The numbers of the study's next form and of its next batch."""
    form, batch = session.execute(
        select(func.max(Form.number), func.max(Form.batch)).where(Form.study_id == study.id)
    ).one()
    return (-1 if form is None else form) + 1, (-1 if batch is None else batch) + 1


def raise_limits(study: Study, config: StudyConfig, capacity: Capacity) -> Recruitment:
    """Raise the limits by the number of new places."""
    recruitment = config.recruitment
    raised = replace(
        recruitment,
        participants=recruitment.participants and recruitment.participants + capacity.places,
        quotas={
            category: quota + capacity.by_category[category]
            for category, quota in recruitment.quotas.items()
        },
    )
    if raised != recruitment:
        study.design = study.design | {"recruitment": stored_recruitment(raised)}
    return raised


# ---------------------------------------------------------------------------------------- batches


def more_annotators(
    session: Session, study: Study, config: StudyConfig, annotators: int, rng: Random
) -> tuple[list[int], forms.Lists, Divide]:
    """The queries that fewer participants judge, the lists for gold questions, and the batches."""
    planned = planned_judgements(session, study)
    pairs = pairs_of(session, planned)
    if all(times >= annotators for times in planned.values()):
        raise Refused(
            f"each query already has {annotators:,} or more judges",
            where=f"study {study.name}",
            remedy="give a larger number with --annotators",
        )
    by_category: dict[str, list[DrawnPair]] = defaultdict(list)
    for pair in pairs:
        by_category["" if config.design.categories == "mixed" else pair.category].append(pair)
    size = config.design.questions_per_form * config.design.forms_per_participant
    divided = []
    for category in sorted(by_category):
        packer = forms.Packer[DrawnPair](size)
        for copy in range(1, annotators + 1):
            lacking = [pair for pair in by_category[category] if planned[pair.pair_id] < copy]
            packer.add(rng.sample(lacking, len(lacking)))
        divided += packer.batches
    lists = lists_for_gold(session, study, config, [pair.query_id for pair in pairs])

    def divide(_session: Session, _study: Study, _next_part: NextPart) -> list[list[DrawnPair]]:
        return divided

    return [pair.query_id for batch in divided for pair in batch], lists, divide


def new_queries(
    session: Session, study: Study, config: StudyConfig, wanted: NewQueries, rng: Random
) -> tuple[list[int], forms.Lists, Divide]:
    """Queries that the study does not ask about, the lists of all its queries, and the batches."""
    if KINDS[config.design.kind].is_live:
        what = "a study of searches can get more annotators, but not more queries"
        raise ConfigError("design.kind", what, "create another study")
    asked = {pair.query_id for pair in pairs_of(session, planned_judgements(session, study))}
    systems_by_pair = systems_of_pairs(session, study)
    config = with_systems(session, config, set().union(*systems_by_pair.values()))
    available = [key for key in chosen_queries(session, config) if key not in asked]
    if not available:
        raise Refused(
            "all queries that match [queries] are already in the study",
            where=f"study {study.name}",
            remedy="import queries or runs first",
        )
    chosen = choose(session, available, wanted, asked, rng)
    lists: dict[int, Mapping[int, list[int]]] = {}
    if KINDS[config.design.kind].needs_lists:
        design = config.design
        systems, n_sets = config.queries.systems, n_sets_of(design)
        lists.update(forms.ranked_lists(session, chosen, design.k, systems, n_sets))
    facts = forms.query_facts(session, chosen)
    drawn = Counter(tuple(sorted(systems)) for systems in systems_by_pair.values())
    own = dict(lists)
    lists.update(lists_for_gold(session, study, config, sorted(asked)))

    def divide(session: Session, study: Study, next_part: NextPart) -> list[list[DrawnPair]]:
        stored = store_items(
            *(session, study, config, chosen, own, facts, rng), drawn=drawn, next_part=next_part
        )
        return forms.batches(stored, config, rng)

    return chosen, lists, divide


def choose(
    session: Session,
    available: Sequence[int],
    wanted: NewQueries,
    asked: set[int],
    rng: Random,
) -> list[int]:
    """Those of the available queries that are wanted."""
    if wanted.file is not None:
        return queries_of_file(session, wanted.file, set(available), asked)
    if wanted.sample > len(available):
        raise UnreadableInput(
            "--sample",
            f"{wanted.sample:,} new queries requested, but only {len(available):,} exist",
            f"request {len(available):,} or fewer, or all with --all-queries",
        )
    return sorted(rng.sample(available, wanted.sample)) if wanted.sample else list(available)


def with_systems(session: Session, config: StudyConfig, systems: set[int]) -> StudyConfig:
    """The config without its sample, restricted to the systems that the study compares.

    Systems imported later are not added to a running study.
    """
    names = session.scalars(select(System.name).where(System.id.in_(systems)).order_by(System.name))
    chosen = config.queries.systems or tuple(names)
    return replace(config, queries=replace(config.queries, systems=chosen, sample=0))


def lists_for_gold(
    session: Session, study: Study, config: StudyConfig, queries: Sequence[int]
) -> forms.Lists:
    """The ranked lists from which gold questions are made; none if the study has none."""
    if not config.checks.gold:
        return {}
    systems = set().union(*systems_of_pairs(session, study).values())
    config = with_systems(session, config, systems)
    design = config.design
    return forms.ranked_lists(session, queries, design.k, config.queries.systems, n_sets_of(design))


# Extend a study in short transactions, so that annotators' answers do not wait for it.
#
# The forms are stored in a hidden study, and the last transaction moves them: nobody is given one
# before all are there.


def extend_in_parts(
    database: Database,
    actor: Actor,
    wanted: MoreAnnotators | NewQueries,
    now: datetime,
    *,
    study_of: Callable[[Session], Study],
    lock: Callable[[Session], Study],
    track: Track = iter,
) -> Added:
    """Do what `extend_study` does; `study_of` finds the study, `lock` locks it, or refuses.

    The images of the new pairs are checked; `track` iterates over them, for a progress bar.

    Nothing remains after an error. The remains of a killed process are hidden, and removed later.

    Raises:
        Conflict: the study was extended by another command meanwhile.
        BrokenImages: files of images are there but cannot be shown.
    """
    creation.remove_interrupted(database, now)
    with database.reading() as session:
        study = study_of(session)
        plan = plan_extension(session, study, wanted)
        hidden = creation.hidden_study(config_of(study), origin=study.origin)
    try:
        with database.writing_in_parts() as parts:
            begun = creation.begin(parts, hidden)
            stored = store_extension(parts.session, hidden, plan, begun.next_part)
        creation.require_usable_images(database, hidden.id, frozenset(), track)
        with database.writing() as session:
            creation.go_on(session, hidden.id)
            study = lock(session)
            if next_extension(session, study) != plan.number:
                raise Conflict(
                    f"study {study.name} was extended by another command meanwhile",
                    remedy="run the command again",
                )
            plan = move(session, session.get_one(Study, hidden.id), study, plan)
            added = record_extension(session, study, plan, stored, now)
            about = count_text(added.forms, "form")
            record(session, actor, Action.STUDY_EXTEND, study=study.name, about=about)
    except BaseException:
        if hidden.id is not None:
            creation.remove_unfinished(database, hidden.id)
        raise
    return added


def move(session: Session, hidden: Study, study: Study, plan: Plan) -> Plan:
    """Give a locked study the pairs and forms; the plan with the numbers that these have now.

    Reassigned questions may have got forms since the plan was made.
    """
    first_form, first_batch = next_numbers(session, study)
    session.execute(
        update(Form)
        .where(Form.study_id == hidden.id)
        .values(
            study_id=study.id,
            number=Form.number + (first_form - plan.first_form),
            batch=Form.batch + (first_batch - plan.first_batch),
        )
    )
    session.execute(update(Pair).where(Pair.study_id == hidden.id).values(study_id=study.id))
    session.execute(delete(StudyCreation).where(StudyCreation.study_id == hidden.id))
    session.execute(delete(Study).where(Study.id == hidden.id))
    return replace(plan, first_form=first_form, first_batch=first_batch)
