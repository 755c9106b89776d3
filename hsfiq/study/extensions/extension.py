"""Further forms for a study that is already running.

The rows that a study has stay as they are: an extension only adds forms, for participants who
have not enrolled yet, and raises the limit of participants by as many.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path
from random import Random
from typing import Any

from sqlalchemy import func, or_, select
from sqlalchemy.orm import Session

from hsfiq.db.tables import (
    Extension,
    Form,
    FurtherSet,
    Pair,
    PracticeQuestion,
    Query,
    RetrievedSet,
    Study,
    System,
    Triplet,
)
from hsfiq.errors import ConfigError, Refused, UnreadableInput
from hsfiq.kinds import KINDS
from hsfiq.study.capacity import Capacity, capacity_of, planned_judgements
from hsfiq.study.config import (
    Recruitment,
    StudyConfig,
    config_of,
    n_sets_of,
    stored_recruitment,
)
from hsfiq.study.design import (
    DrawnPair,
    store_items,
)
from hsfiq.study.drawing.batches import Packer, batches
from hsfiq.study.drawing.material import Lists, query_facts, ranked_lists
from hsfiq.study.extensions.query_ids import queries_of_file
from hsfiq.study.forms import FormWriter
from hsfiq.study.queries import chosen_queries


@dataclass(frozen=True, slots=True)
class MoreAnnotators:
    """Forms about the study's own queries, until so many participants judge each of them."""

    annotators: int

    def facts(self) -> dict[str, object]:
        return {"annotators_per_query": self.annotators}


@dataclass(frozen=True, slots=True)
class NewQueries:
    """Forms about queries that the study does not ask about yet, with the study's own design.

    All that match its `[queries]`, `sample` of them (0 is all), or those whose ids are in `file`.
    """

    sample: int = 0
    file: Path | None = None

    def facts(self) -> dict[str, object]:
        if self.file is not None:
            return {"queries": "listed"}
        return {"queries": "sample" if self.sample else "all"}


@dataclass(frozen=True, slots=True)
class Added:
    """What an extension has added; `questions` are without checks.

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


def extend_study(
    session: Session, study: Study, wanted: MoreAnnotators | NewQueries, now: datetime
) -> Added:
    """Draw and store an extension of a locked study.

    All draws come from a generator that the study's seed and the extension's number seed.

    Raises:
        Refused: there is nothing to add.
        UnreadableInput: the sample or the file asks for queries that there are not.
        ConfigError: the study's design does not allow the forms.
    """
    config = config_of(study)
    if KINDS[config.design.kind].n_live > 1:
        what = "all searches of an arena are drawn at once, for exact balance"
        raise ConfigError("design.kind", what, "create another study")
    last = session.scalar(select(func.max(Extension.number)).where(Extension.study_id == study.id))
    number, seed = (last or 0) + 1, config.design.seed
    rng = Random(f"extension:{seed}:{number}")  # noqa: S311 (a seeded draw, not a secret)
    first_form, first_batch = next_numbers(session, study)
    if isinstance(wanted, MoreAnnotators):
        divided, lists = more_annotators(session, study, config, wanted.annotators, rng)
    else:
        divided, lists = new_queries(session, study, config, wanted, rng)
    queries = {pair.query_id for batch in divided for pair in batch}
    facts = query_facts(session, sorted(queries | set(lists)))
    writer = FormWriter(session, study, config, facts, lists, rng, first_form)
    for batch_number, batch in enumerate(divided, start=first_batch):
        category = "" if config.design.categories == "mixed" else batch[0].category
        writer.write(batch_number, category, [(pair.pair_id, pair.triplet_id) for pair in batch])
    capacity = capacity_of(session, study, first_batch)
    raised = raise_limits(study, config, capacity)
    result = Added(
        capacity=capacity,
        queries=len(queries),
        questions=sum(map(len, divided)),
        forms=next_numbers(session, study)[0] - first_form,
        first_form=first_form,
        cap=raised.participants,
        quotas=raised.quotas,
    )
    session.add(
        Extension(
            study_id=study.id,
            number=number,
            created_at=now,
            seed=seed,
            request=wanted.facts(),
            added=result.facts(),
        )
    )
    session.flush()
    return result


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
    """Let as many more participants enrol as there are new places."""
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
) -> tuple[list[list[DrawnPair]], Lists]:
    """Batches of the pairs that fewer participants judge, and the lists for gold questions."""
    planned = planned_judgements(session, study)
    pairs = pairs_of(session, planned)
    if all(times >= annotators for times in planned.values()):
        raise Refused(
            f"{annotators:,} or more participants judge each of its queries already",
            where=f"study {study.name}",
            remedy="ask for more with --annotators",
        )
    by_category: dict[str, list[DrawnPair]] = defaultdict(list)
    for pair in pairs:
        by_category["" if config.design.categories == "mixed" else pair.category].append(pair)
    size = config.design.questions_per_form * config.design.forms_per_participant
    divided = []
    for category in sorted(by_category):
        packer = Packer[DrawnPair](size)
        for copy in range(1, annotators + 1):
            lacking = [pair for pair in by_category[category] if planned[pair.pair_id] < copy]
            packer.add(rng.sample(lacking, len(lacking)))
        divided += packer.batches
    lists = lists_for_gold(session, study, config, [pair.query_id for pair in pairs])
    return divided, lists


def new_queries(
    session: Session, study: Study, config: StudyConfig, wanted: NewQueries, rng: Random
) -> tuple[list[list[DrawnPair]], Lists]:
    """Batches of queries that the study does not ask about, and the lists of all its queries."""
    if KINDS[config.design.kind].is_live:
        what = "a study of searches takes more annotators, but no further queries"
        raise ConfigError("design.kind", what, "create another study")
    asked = {pair.query_id for pair in pairs_of(session, planned_judgements(session, study))}
    systems_by_pair = systems_of_pairs(session, study)
    config = with_systems(session, config, set().union(*systems_by_pair.values()))
    available = [key for key in chosen_queries(session, config) if key not in asked]
    if not available:
        raise Refused(
            "no query matches its [queries] that it does not ask about already",
            where=f"study {study.name}",
            remedy="import queries or runs first",
        )
    chosen = choose(session, available, wanted, asked, rng)
    lists: dict[int, Mapping[int, list[int]]] = {}
    if KINDS[config.design.kind].needs_lists:
        design = config.design
        systems, n_sets = config.queries.systems, n_sets_of(design)
        lists.update(ranked_lists(session, chosen, design.k, systems, n_sets))
    facts = query_facts(session, chosen)
    drawn = Counter(tuple(sorted(systems)) for systems in systems_by_pair.values())
    stored = store_items(session, study, config, chosen, lists, facts, rng, drawn=drawn)
    lists.update(lists_for_gold(session, study, config, sorted(asked)))
    return batches(stored, config, rng), lists


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
            f"asks for {wanted.sample:,} new queries of {len(available):,}",
            f"ask for {len(available):,} or fewer, or for all with --all-queries",
        )
    return sorted(rng.sample(available, wanted.sample)) if wanted.sample else list(available)


def pairs_of(session: Session, pair_ids: Mapping[int, int]) -> list[DrawnPair]:
    """What the study's questions are about, without gold questions, in the order of the keys."""
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


def with_systems(session: Session, config: StudyConfig, systems: set[int]) -> StudyConfig:
    """The config without its sample, restricted to the systems that the study compares.

    Systems that were imported later do not enter a study that is running.
    """
    names = session.scalars(select(System.name).where(System.id.in_(systems)).order_by(System.name))
    chosen = config.queries.systems or tuple(names)
    return replace(config, queries=replace(config.queries, systems=chosen, sample=0))


def lists_for_gold(
    session: Session, study: Study, config: StudyConfig, queries: Sequence[int]
) -> Lists:
    """The ranked lists from which gold questions are made; none if the study has none."""
    if not config.checks.gold:
        return {}
    systems = set().union(*systems_of_pairs(session, study).values())
    config = with_systems(session, config, systems)
    design = config.design
    return ranked_lists(session, queries, design.k, config.queries.systems, n_sets_of(design))
