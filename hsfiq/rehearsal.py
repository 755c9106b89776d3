"""Simulated annotators answer a study through the same functions as people, without a server.

The demo's annotators know how good each image of the drawn catalogue is. Those of a rehearsal, on
any data, prefer systems of stated strengths, or images of stated fits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from random import Random

from sqlalchemy import Table, insert, select
from sqlalchemy.orm import Session

from hsfiq.actors import Actor
from hsfiq.answer_rules import Answer, Times
from hsfiq.backup import batches
from hsfiq.collect import asked_questions, participants
from hsfiq.collect.answers import submit
from hsfiq.collect.checks import answer_check
from hsfiq.collect.participant_row import ParticipantRow, read_row
from hsfiq.collect.studies import study_called
from hsfiq.db.engine import Database
from hsfiq.db.source_tables import Image, Query, RankedList, System, Triplet
from hsfiq.db.tables import METADATA, Check, Question, RetrievedImage, RetrievedSet
from hsfiq.drawn import SimulatedAnnotator, draw_annotators, generator
from hsfiq.drawn.annotators import SLOPE
from hsfiq.errors import UnreadableInput
from hsfiq.kinds import KINDS, Rules
from hsfiq.readers.files import outside_name, read_rows, required
from hsfiq.readers.own_queries import ImageId
from hsfiq.readers.runs import number_of
from hsfiq.study.capacity import capacity_of, recruited, require_enough_forms
from hsfiq.study.config import Questionnaire, StudyConfig, config_of, rules_of
from hsfiq.study.creation import create_study
from hsfiq.study.design import chosen_queries
from hsfiq.text import count_text, first_few

# Answering as people do: what is asked, in order.

START = datetime(2026, 1, 1, tzinfo=UTC)
"""The start time of the answers, fixed so that a seed always gives the same study."""

Track = Callable[[Sequence[SimulatedAnnotator]], Iterable[SimulatedAnnotator]]

Judge = Callable[[Random, Question, asked_questions.Step], Answer]
"""Gives the answer to a question; of its times, only the active seconds are set."""


def enrolled(session: Session, study_id: int, now: datetime) -> ParticipantRow:
    """A new participant who has agreed to take part."""
    participant = participants.enrol(session, study_id, now=now)
    participants.consent(participant, now=now)
    return read_row(session, participant.token_hash)


def answer_all(
    session: Session,
    participant: ParticipantRow,
    rng: Random,
    judge: Judge,
    now: datetime,
    most: int,
) -> int:
    """Answer up to `most` questions of a participant; return how many were answered."""
    answered = 0
    questions = asked_questions.load_first_questions(session, participant.id, most)
    for step in asked_questions.steps_of(session, participant.id).steps:
        if answered == most:
            break
        if step.check_id is not None:
            expected = session.get_one(Check, step.check_id).expected or ""
            answer_check(session, participant, step.check_id, expected, now=now)
            continue
        served_at = now
        asked_questions.mark_served(session, step.question_id, served_at)
        answer = judge(rng, questions[step.question_id], step)
        now = served_at + timedelta(seconds=answer.times.active_seconds or 0.0)
        submit(
            session,
            participant,
            step.question_id,
            with_times(answer, served_at, now),
            expected_revision=0,
            submit_key="simulated",
        )
        answered += 1
    return answered


def with_times(answer: Answer, served_at: datetime, submitted_at: datetime) -> Answer:
    """Add the times that follow from the answer's active seconds."""
    seconds = answer.times.active_seconds or 0.0
    first_interaction_at = served_at + timedelta(seconds=seconds / 2)
    return replace(answer, times=Times(served_at, first_interaction_at, submitted_at, seconds))


# A rehearsal: a copy of a study, in a database of its own, answered by simulated annotators.

SUFFIX = "-rehearsal"

SOURCES: tuple[Table, ...] = tuple(
    METADATA.tables[name]
    for name in (
        *("datasets", "images", "corpora", "corpus_images", "triplets", "queries", "systems"),
        "ranked_lists",
    )
)
"""The tables from which a study is drawn; none is about people."""

MIDDLE, FITS, DOES_NOT_FIT = 0.75, 0.95, 0.2
"""Utilities: of a set of a system of strength 0, and of a gold question's two sets."""

STRENGTHS = 0.5
"""The standard deviation of random strengths, in log odds of a preference."""

QUERIES = 0.1
"""The standard deviation of the utility that all sets of a query share."""


def random_strengths(systems: Sequence[str], seed: int) -> dict[str, float]:
    """Strengths that differ at random; the annotators prefer the stronger system."""
    return {
        name: round(generator(seed, "strength", name).gauss(0, STRENGTHS), 2) for name in systems
    }


def stated_strengths(
    systems: Sequence[str], given: Mapping[str, float], seed: int
) -> dict[str, float]:
    """The given strengths, and random ones of the other systems."""
    unknown = [name for name in given if name not in systems]
    if unknown:
        raise UnreadableInput(
            "--strength",
            f"the study has no system {unknown[0]!r}",
            f"the study has {first_few(systems)}",
        )
    return random_strengths(systems, seed) | dict(given)


def systems_of(database: Database, config: StudyConfig) -> list[str]:
    """The systems that the study compares."""
    with database.reading() as session:
        return systems_about(session, config, chosen_queries(session, config))


def systems_about(session: Session, config: StudyConfig, queries: Sequence[int]) -> list[str]:
    """Those with ranked lists for these queries (database keys)."""
    names = session.scalars(
        select(System.name)
        .join(RankedList, RankedList.system_id == System.id)
        .where(RankedList.query_id.in_(queries))
        .distinct()
        .order_by(System.name)
    ).all()
    chosen = config.queries.systems
    return [name for name in names if not chosen or name in chosen]


Fits = Mapping[tuple[str, str], float]
"""How well an image fits a query, in log odds of a preference, by the names of both."""

FIT_COLUMNS = ("query_id", "image_id", "score")


def read_fits(path: Path, image_id: ImageId) -> Fits:
    """Read a table with `query_id`, `image_id` and `score`, one row an image."""
    fits: dict[tuple[str, str], float] = {}
    for row in read_rows(path, "query_id", FIT_COLUMNS.__contains__, ", ".join(FIT_COLUMNS)):
        named = required(row, "image_id")
        query, image = outside_name(required(row, "query_id")), outside_name(named)
        image = image_id(named, image)
        if (query, image) in fits:
            raise row.wrong(f"image {image!r} occurs twice for query {query!r}", "keep one row")
        fits[query, image] = number_of(required(row, "score").value, row.where)
    return fits


def require_fits(session: Session, fits: Fits) -> None:
    """`UnreadableInput` if an image has no score in a retrieved set of the database."""
    shown = session.execute(
        select(Triplet.external_id + Query.suffix, Image.name)
        .join(Query, Query.triplet_id == Triplet.id)
        .join(RetrievedSet, RetrievedSet.query_id == Query.id)
        .join(RetrievedImage, RetrievedImage.set_id == RetrievedSet.id)
        .join(Image, RetrievedImage.image_id == Image.id)
        .where(RetrievedSet.system_id.is_not(None))
        .distinct()
    )
    if missing := sorted({(query, image) for query, image in shown} - {*fits}):
        named = first_few([f"image {image!r} for query {query!r}" for query, image in missing])
        what = f"lacks {count_text(len(missing), 'row')} that the study needs: {named}"
        raise UnreadableInput("--scores", what, "add a score for each")


def copy_sources(source: Database, target: Database) -> None:
    """Copy images, queries and ranked lists into a new database."""
    with source.reading() as reading, target.writing() as writing:
        for table in SOURCES:
            for rows in batches(reading.connection(), table):
                writing.execute(insert(table), rows)


@dataclass(frozen=True, slots=True)
class SeenSets:
    """A question as a simulated annotator sees it (`hsfiq.kinds.kind.SeenQuestion`)."""

    rules: Rules
    progress: float
    images: Sequence[Sequence[float]]

    def utilities(self) -> list[float]:
        return [sum(images) / len(images) for images in self.images]

    def image_utilities(self) -> list[list[float]]:
        return [list(images) for images in self.images]


@dataclass(frozen=True, slots=True)
class Judgements:
    """The judgement of a study's sets by simulated annotators.

    A set is as good as its images fit the query, or without `fits` as its system is strong.
    """

    session: Session
    config: StudyConfig
    strengths: Mapping[str, float]
    seed: int
    fits: Fits | None = None

    def by(self, annotator: SimulatedAnnotator, n_questions: int) -> Judge:
        simulated = KINDS[self.config.design.kind].simulated
        if simulated is None:
            raise UnreadableInput(
                "design.kind",
                f"simulation does not support answers of kind {self.config.design.kind}",
            )
        rules = rules_of(self.config)

        def judge(rng: Random, question: Question, step: asked_questions.Step) -> Answer:
            images = [
                self.utilities(question, retrieved, asked_questions.shown_images(question, side))
                for side, retrieved in enumerate(asked_questions.shown_sets(question), start=1)
            ]
            progress = (step.number - 1) / max(1, n_questions - 1)
            return simulated(annotator, rng, SeenSets(rules, progress, images))

        return judge

    def utilities(
        self, question: Question, retrieved: RetrievedSet, shown: Sequence[RetrievedImage]
    ) -> list[float]:
        """A set's utilities, one an image: by fit, by its system's strength, or as planted."""
        query = question.pair.query_id
        if retrieved.system_id is None:
            is_near = self.near(query, retrieved.images[0].image_id)
            return [FITS if is_near else DOES_NOT_FIT] * len(shown)
        if self.fits is not None:
            asked = self.session.get_one(Query, query)
            name = f"{asked.triplet.external_id}{asked.suffix}"
            return [MIDDLE + self.fits[name, member.image.name] / SLOPE for member in shown]
        system = self.session.get_one(System, retrieved.system_id).name
        shared = generator(self.seed, "query", str(query)).gauss(0, QUERIES)
        return [MIDDLE + shared + self.strengths[system] / SLOPE] * len(shown)

    def near(self, query: int, image: int) -> bool:
        """Whether the image is the query's target, or in one of its ranked lists."""
        target = self.session.get_one(Query, query).triplet.target_id
        lists = select(RankedList.image_ids).where(RankedList.query_id == query)
        return image == target or any(image in ids for ids in self.session.scalars(lists))


def rehearse(
    source: Database,
    target: Database,
    config: StudyConfig,
    strengths: Mapping[str, float],
    seed: int,
    actor: Actor,
    track: Track = iter,
    fits: Fits | None = None,
) -> str:
    """Draw the study again in a new database and let simulated annotators answer it.

    The owner's own questions are left out. Returns the study's name, which ends in `SUFFIX`.
    """
    copy_sources(source, target)
    config = replace(
        config,
        study=replace(config.study, name=f"{config.study.name[: 80 - len(SUFFIX)]}{SUFFIX}"),
        questionnaire=Questionnaire(),
        recruitment=replace(
            config.recruitment, mode="open", quotas={}, platform_study_id="", panel=None
        ),
    )
    with target.reading() as session:
        queries = chosen_queries(session, config)

    require = partial(require_enough_forms, config=config)
    create_study(target, config, queries, actor=actor, require=require, origin="simulated")
    with target.writing() as session:
        answer_study(session, config.study.name, strengths, seed, track, fits)
    return config.study.name


def answer_study(
    session: Session,
    name: str,
    strengths: Mapping[str, float],
    seed: int,
    track: Track = iter,
    fits: Fits | None = None,
) -> None:
    """All participants that the study takes answer all of their questions; then it is closed."""
    study = study_called(session, name)
    config, capacity = config_of(study), capacity_of(session, study)
    if fits is not None:
        require_fits(session, fits)
    judgements = Judgements(session, config, strengths, seed, fits)
    n_questions = max(capacity.by_questions)
    people = recruited(config.recruitment, capacity)
    annotators = draw_annotators(generator(seed, "annotators"), people)
    for number, annotator in enumerate(track(annotators)):
        now = START + timedelta(hours=number)
        row = enrolled(session, study.id, now)
        rng = generator(seed, "answers", row.name)
        answer_all(session, row, rng, judgements.by(annotator, n_questions), now, n_questions)
        row.store(session)
    study.status = "closed"
