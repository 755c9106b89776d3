"""The progress of a study and of its participants, and the latest answers, for the owner."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from itertools import groupby
from operator import attrgetter, itemgetter
from statistics import median
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Integer,
    Select,
    and_,
    bindparam,
    case,
    cast,
    extract,
    false,
    func,
    literal,
    or_,
    select,
    union,
)
from sqlalchemy.orm import InstrumentedAttribute, Session

from hsfiq.answer_rules import are_painted
from hsfiq.collect.answers import count_of
from hsfiq.collect.checks import is_latest, question_checks
from hsfiq.collect.leases import (
    IS_ANSWERED,
    IS_BEFORE_END,
    IS_CHECK,
    lease_expired,
)
from hsfiq.collect.participant_row import ANSWER_COUNTS, StudyRow
from hsfiq.collect.participants import (
    WITHDREW,
    Shown,
    among,
    cause_of,
    latest_changes,
    withdrawn_participants,
)
from hsfiq.collect.stages import asks_at_end, have_answered_at_end
from hsfiq.db.source_tables import Query
from hsfiq.db.studio_tables import AnswerNote
from hsfiq.db.tables import (
    Check,
    Form,
    Pair,
    Participant,
    Payment,
    Question,
    QuestionnaireAnswers,
    Response,
    RetrievedImage,
    Study,
)
from hsfiq.ids import question_id
from hsfiq.kinds import KINDS

IS_LATEST = is_latest(Response)


@dataclass(frozen=True, slots=True)
class ParticipantProgress:
    """A participant's progress.

    `platform_id` is the recruitment platform's id of the person, `platform_study_id` that of the
    platform's study through which they came, `status_cause` the recorded cause of the status.
    `language` is that of their page, None if unknown. `checks` are the answered gold and repeated
    questions; sums do not count, because they are repeated until they are right. `at_end_due` is
    whether they must answer the questions at the end after the others, and have not.
    """

    participant: str
    platform_id: str | None
    platform_study_id: str | None
    status: str
    source: str
    category: str | None
    language: str | None
    answered: int
    questions: int
    checks: int
    failed_checks: int
    median_seconds: float | None
    seen_at: datetime | None
    status_cause: str | None = None
    at_end_due: bool = False

    def facts(self) -> dict[str, Any]:
        seen = self.seen_at.isoformat() if self.seen_at else None
        return asdict(self) | {"seen_at": seen, "standing": self.standing}

    @property
    def standing(self) -> str:
        return standing_of(
            self.status,
            has_withdrawn=self.status_cause == WITHDREW,
            is_invited=self.source == "invitation",
            has_questions=self.questions > 0,
            is_done=self.answered >= self.questions,
            at_end_due=self.at_end_due,
        )


def participants_of(
    session: Session,
    study: Study,
    shown: Shown | None = None,
) -> list[ParticipantProgress]:
    """The participants, or only those whose keys are `shown`."""
    answered, questions = counts(session, study, shown)
    checks: dict[int, list[bool]] = defaultdict(list)
    for result in question_checks(session, StudyRow.of(study), among(Form.participant_id, shown)):
        checks[result.participant_id].append(result.passed)
    medians, changes = medians_of(session, study, shown), latest_changes(session, study, shown)
    asks = asks_at_end(StudyRow.of(study))
    done = have_answered_at_end(session, study) if asks else set()
    people = session.scalars(
        select(Participant)
        .where(Participant.study_id == study.id, among(Participant.id, shown))
        .order_by(Participant.id)
    )
    return [
        ParticipantProgress(
            participant=person.name,
            platform_id=person.external_id,
            platform_study_id=person.platform_study_id,
            status=person.status,
            source=person.source,
            category=person.category,
            language=person.language,
            answered=answered.get(person.id, 0),
            questions=questions.get(person.id, 0),
            checks=len(checks[person.id]),
            failed_checks=checks[person.id].count(False),
            median_seconds=medians.get(person.id),
            seen_at=person.seen_at,
            status_cause=cause_of(changes.get(person.id), person.status),
            at_end_due=asks and person.id not in done,
        )
        for person in people
    ]


def count_standings(session: Session, study: Study, shown: Shown | None = None) -> dict[str, int]:
    """Count in the database the participants with each `standing` of `ParticipantProgress`.

    A study has many participants, but few distinct rows of the columns that decide a standing.
    """
    of_person = (
        select(
            Form.participant_id,
            func.count(Question.id).label("questions"),
            func.sum(case((IS_ANSWERED, 1), else_=0)).label("answered"),
        )
        .join(Question, Question.form_id == Form.id)
        .where(
            Form.study_id == study.id,
            Form.participant_id.is_not(None),
            among(Form.participant_id, shown),
            Question.reassigned.is_(False),
        )
        .group_by(Form.participant_id)
        .subquery()
    )
    has_answered_at_end = (
        select(QuestionnaireAnswers.participant_id)
        .where(QuestionnaireAnswers.participant_id == Participant.id)
        .exists()
    )
    of_all = (
        select(
            Participant.status,
            (Participant.source == "invitation").label("is_invited"),
            of_person.c.questions.is_not(None).label("has_questions"),
            func.coalesce(of_person.c.answered >= of_person.c.questions, false()).label("is_done"),
            has_answered_at_end.label("has_ended"),
            Participant.id.in_(withdrawn_participants()).label("has_withdrawn"),
        )
        .outerjoin(of_person, of_person.c.participant_id == Participant.id)
        .where(Participant.study_id == study.id, among(Participant.id, shown))
        .subquery()
    )
    rows = session.execute(select(of_all, func.count()).group_by(*of_all.c))
    asks, counted = asks_at_end(StudyRow.of(study)), Counter[str]()
    for status, is_invited, has_questions, is_done, has_ended, has_withdrawn, number in rows:
        standing = standing_of(
            status,
            has_withdrawn=has_withdrawn and status == "returned",
            is_invited=is_invited,
            has_questions=has_questions,
            is_done=is_done,
            at_end_due=asks and not has_ended,
        )
        counted[standing] += number
    return dict(sorted(counted.items()))


def standing_of(
    status: str,
    *,
    has_withdrawn: bool,
    is_invited: bool,
    has_questions: bool,
    is_done: bool,
    at_end_due: bool,
) -> str:
    """The status, with `active` subdivided by progress.

    Participants who withdrew on the page are distinguished from others who gave up. Participants
    without a place were invited, or lost the place because they did not begin.
    """
    if has_withdrawn:
        return "withdrew"
    if status != "active":
        return status
    if not has_questions:
        return "invited" if is_invited else "without a place"
    if not is_done:
        return "active"
    return "at the questions at the end" if at_end_due else "finished"


def counts(
    session: Session, study: Study, shown: Shown | None = None
) -> tuple[dict[int, int], dict[int, int]]:
    """Answered questions and all questions of each participant, by database key."""
    held = (
        select(Form.participant_id, func.count(Question.id))
        .join(Question, Question.form_id == Form.id)
        .where(
            Form.study_id == study.id,
            Form.participant_id.is_not(None),
            among(Form.participant_id, shown),
            Question.reassigned.is_(False),
        )
        .group_by(Form.participant_id)
    )
    answered = {key: n for key, n in session.execute(held.where(IS_ANSWERED)) if key is not None}
    questions = {key: n for key, n in session.execute(held) if key is not None}
    return answered, questions


def medians_of(session: Session, study: Study, shown: Shown | None = None) -> dict[int, float]:
    """The median of the active seconds of the first revisions, by the participant's database key.

    The rows of one participant are read together, since a study may have millions.
    """
    rows = session.execute(
        select(Form.participant_id, Response.active_seconds)
        .join(Question, Question.form_id == Form.id)
        .join(Response, Response.question_id == Question.id)
        .where(
            Form.study_id == study.id,
            Form.participant_id.is_not(None),
            among(Form.participant_id, shown),
            Response.revision == 1,
            Response.active_seconds.is_not(None),
        )
        .order_by(Form.participant_id)
        .execution_options(yield_per=10_000)
    )
    return {
        person: median(seconds for _, seconds in own if seconds is not None)
        for person, own in groupby(rows, key=itemgetter(0))
    }


@dataclass(frozen=True, slots=True)
class StudyProgress:
    """A study's counts.

    Answered questions are counted by whether all images were painted, not all were painted, or this
    is unknown, and whether the question was skipped.
    """

    study: str
    title: str
    status: str
    origin: str
    forms: int
    forms_taken: int
    participants: int
    questions: int
    answered: int
    images_painted: int
    images_not_painted: int
    images_unknown: int
    skipped: int
    platform_study_id: str | None

    def facts(self) -> dict[str, Any]:
        return asdict(self)


def progress_of(session: Session, study: Study) -> StudyProgress:
    """Count a study's forms, participants, questions and answers.

    Checks and the answers of excluded participants do not count; a reassigned question counts once.
    The rows of forms and participants store the counts of their questions, so only the few answers
    to reassigned questions are read.
    """
    forms, forms_taken, questions = session.execute(
        select(
            func.count(), func.count(Form.participant_id),
            func.coalesce(func.sum(Form.n_questions), 0),
        ).where(Form.study_id == study.id)
    ).one()  # fmt: skip
    counted = case((Participant.status == "excluded", 0), else_=1)
    participants, *sums = session.execute(
        select(
            func.count(),
            *(func.sum(counted * getattr(Participant, name)) for name in ANSWER_COUNTS),
        ).where(Participant.study_id == study.id)
    ).one()
    answers = Counter({name: n or 0 for name, n in zip(ANSWER_COUNTS, sums, strict=True)})
    n_reassigned, again = count_reassigned(session, study)
    answers.subtract(again)
    return StudyProgress(
        study=study.name,
        title=study.title,
        status=study.status,
        origin=study.origin,
        forms=forms,
        forms_taken=forms_taken,
        participants=participants,
        questions=questions - n_reassigned,
        answered=answers.total(),
        images_painted=answers["n_painted"],
        images_not_painted=answers["n_not_painted"],
        images_unknown=answers["n_painting_unknown"],
        skipped=answers["n_skipped"],
        platform_study_id=study.platform_study_id,
    )


def count_reassigned(session: Session, study: Study) -> tuple[int, Counter[str]]:
    """Count the reassigned questions, and the reassigned questions that were also answered.

    Their participants were excluded at that time, and no longer are.
    """
    reassigned = (
        select(func.count(Question.id))
        .join(Form, Question.form_id == Form.id)
        .where(Form.study_id == study.id, Question.reassigned, ~IS_CHECK)
    )
    number = session.scalar(reassigned) or 0
    if number == 0:
        return 0, Counter()
    answers = (
        reassigned.join(Participant, Form.participant_id == Participant.id)
        .join(Response, Response.question_id == Question.id)
        .where(Participant.status != "excluded", IS_LATEST)
        .with_only_columns(Response.skipped, Response.images, func.count())
        .group_by(Response.skipped, Response.images)
    )
    counts: Counter[str] = Counter()
    for skipped, letters, n_answers in session.execute(answers):
        counts[count_of(skipped, letters)] += n_answers
    return number, counts


@dataclass(frozen=True, slots=True)
class AnswerRow:
    """The latest answer to one question, with the times of its first revision.

    `position` sorts answers as in a release. `triplet` and the images of `sets` (as shown, best
    image first) are database keys; `check` is the kind of check, if the question is one. `counts`
    is false for answers of excluded participants. `values` is the judgement, None if the question
    was skipped, and `summary` the same in words; of more than two sets, only two are here.
    """

    question_id: str
    position: tuple[int, int, int]
    participant: str
    triplet: int
    sets: tuple[tuple[int, ...], ...]
    values: Mapping[str, Any] | None = field(hash=False)  # dictionaries have no hash
    summary: str | None
    irrelevant: bool | None
    skipped: str | None
    are_painted: bool | None
    revisions: int
    submitted_at: datetime | None
    active_seconds: float | None
    check: str | None
    counts: bool

    @property
    def scores(self) -> tuple[int, int] | None:
        """Of sets 1 and 2; None if there is no answer about a pair."""
        if self.preferred is None or self.values is None:
            return None
        return self.values["score_1"], self.values["score_2"]

    @property
    def preferred(self) -> int | None:
        return None if self.values is None else self.values.get("preferred")


def answers_of(session: Session, study: Study, shown: Shown | None = None) -> list[AnswerRow]:
    """Every answered or skipped question of the study, in the order of the first answers.

    Those of all participants, or of those whose keys are `shown`.
    """
    # Columns, not objects: an open page of a study repeats this query all day.
    rows = session.execute(
        select(
            Question.id.label("key"), Question.place, Question.swapped, Question.reassigned,
            Form.name.label("form"), Form.position, Form.participant_id,
            Participant.name.label("participant"), Participant.status,
            Query.triplet_id, Pair.first_id, Pair.second_id,
            Check.kind.label("check"), Response.revision, Response.irrelevant, Response.skipped,
            Response.submitted_at, Response.active_seconds, Response.images,
            *judgement_columns(study),
        )
        .join(Question, Response.question_id == Question.id)
        .join(Form, Question.form_id == Form.id)
        .join(Participant, Form.participant_id == Participant.id)
        .join(Pair, Question.pair_id == Pair.id)
        .join(Query, Pair.query_id == Query.id)
        .outerjoin(Check, Check.question_id == Question.id)
        .where(Form.study_id == study.id, among(Form.participant_id, shown))
        .order_by(Response.id)
    )  # fmt: skip
    images = images_of_sets(session, study, shown)
    firsts: dict[int, tuple[datetime | None, float | None]] = {}
    answers: dict[int, AnswerRow] = {}
    for row in rows:
        times = firsts.setdefault(row.key, (row.submitted_at, row.active_seconds))
        sets = [images[key] for key in (row.first_id, row.second_id) if key is not None]
        answers[row.key] = AnswerRow(
            question_id=question_id(row.participant, row.form or "", row.place),
            position=(row.participant_id, row.position, row.place),
            participant=row.participant,
            triplet=row.triplet_id,
            sets=tuple(reversed(sets)) if row.swapped else tuple(sets),
            values=(values := judgement_of(study, row)),
            summary=summary_of(study, values),
            irrelevant=row.irrelevant,
            skipped=row.skipped,
            are_painted=are_painted(row.images),
            revisions=row.revision,
            submitted_at=times[0],
            active_seconds=times[1],
            check=row.check,
            counts=row.status != "excluded" and not row.reassigned,
        )
    return list(answers.values())


def judgement_columns(study: Study) -> list[InstrumentedAttribute[Any]]:
    """The columns of `responses` with the judgements of a study."""
    return [getattr(Response, name) for name in KINDS[study.kind].stored_in]


def judgement_of(study: Study, row: Any) -> dict[str, Any] | None:
    """The judgement in a response, or in a row with its columns; None if it was skipped."""
    kind = KINDS[study.kind]
    return kind.judgement_in([getattr(row, name) for name in kind.stored_in])


def summary_of(study: Study, judgement: Mapping[str, Any] | None) -> str | None:
    """A judgement in words; None for a skipped question."""
    return None if judgement is None else KINDS[study.kind].summary(judgement)


def images_of_sets(
    session: Session, study: Study, shown: Shown | None
) -> dict[int, tuple[int, ...]]:
    """The images of the first two sets of the questions of `shown` participants, best first.

    All are database keys.
    """
    firsts, seconds = (
        select(column)
        .join(Question, Question.pair_id == Pair.id)
        .join(Form, Question.form_id == Form.id)
        .where(
            Form.study_id == study.id,
            Form.participant_id.is_not(None),
            among(Form.participant_id, shown),
        )
        for column in (Pair.first_id, Pair.second_id)
    )
    images: dict[int, list[int]] = defaultdict(list)
    rows = session.execute(
        select(RetrievedImage.set_id, RetrievedImage.image_id)
        .where(RetrievedImage.set_id.in_(union(firsts, seconds)))
        .order_by(RetrievedImage.set_id, RetrievedImage.rank)
    )
    for set_id, image_id in rows:
        images[set_id].append(image_id)
    return {set_id: tuple(image_ids) for set_id, image_ids in images.items()}


# Where each participant stands, for the page that watches a study. The database finds, filters and
# sorts people; of a large study, figures that need all answers are kept for some seconds.

STATES = (
    *("answering", "to decide", "stopped", "finished", "paused", "invited", "without a place"),
    *("gave up", "screened out", "left out", "withdrew"),
)
OF_STATUS = {
    "paused": "paused",
    "returned": "gave up",
    "screened-out": "screened out",
    "excluded": "left out",
}

IS_DECIDED = (
    select(Payment.id)
    .where(
        Payment.participant_id == Participant.id,
        Payment.kind.in_(("approve", "reject", "screen-out")),
    )
    .exists()
)
"""Whether a participant's pay was decided."""

_own_questions = (
    select(Question.id)
    .join(Form, Question.form_id == Form.id)
    .where(Form.participant_id == Participant.id, Question.reassigned.is_(False))
)
HAS_QUESTIONS = _own_questions.exists()
HAS_OPEN_QUESTIONS = IS_BEFORE_END & _own_questions.where(~IS_ANSWERED).exists()
"""The first condition reads one question of each participant; see `IS_BEFORE_END`."""

N_ANSWERED = (
    Participant.n_painted
    + Participant.n_not_painted
    + Participant.n_painting_unknown
    + Participant.n_skipped
)


def state_of(study: Study, now: datetime) -> ColumnElement[str]:
    """One of `STATES` for each participant: `standing_of` in the database's words.

    Stopped participants, whose lease has run out, may still return. Finished participants wait for
    a decision, unless their answers were imported or simulated.
    """
    is_open: ColumnElement[bool] = HAS_OPEN_QUESTIONS
    if asks_at_end(StudyRow.of(study)):
        answered = select(QuestionnaireAnswers.id)
        has_ended = answered.where(QuestionnaireAnswers.participant_id == Participant.id).exists()
        is_open = or_(is_open, ~has_ended)
    withdrew = Participant.id.in_(withdrawn_participants())
    invited = case((Participant.source == "invitation", "invited"), else_="without a place")
    on_the_way = case((lease_expired(study, now), "stopped"), else_="answering")
    return case(
        (and_(Participant.status == "returned", withdrew), "withdrew"),
        *((Participant.status == status, state) for status, state in OF_STATUS.items()),
        (~HAS_QUESTIONS, invited),
        (is_open, on_the_way),
        (literal(study.origin == "collected") & ~IS_DECIDED, "to decide"),
        else_="finished",
    )


def count_states(session: Session, study: Study, now: datetime) -> Counter[str]:
    people = select(state_of(study, now)).where(Participant.study_id == study.id)
    return Counter(session.scalars(people))


def states_of(
    session: Session, study: Study, now: datetime, shown: Collection[int]
) -> dict[int, str]:
    """The states of participants, by database key."""
    rows = select(Participant.id, state_of(study, now)).where(Participant.id.in_(shown))
    return dict(session.execute(rows).all())


@dataclass(frozen=True, slots=True)
class PersonFigures:
    """The statistics of a participant's answers; times are of first revisions, in seconds.

    For `n_compared` answers, other participants judged the same two sets; `n_same` of these answers
    agree with the majority.
    """

    median_seconds: float | None = None
    checks: int = 0
    failed: int = 0
    n_compared: int = 0
    n_same: int = 0


@dataclass(frozen=True)  # without slots, which leave no place for what is computed once
class StudyFigures:
    """The statistics of all answers of a study at a time.

    Attributes:
        states: how many participants have each of `STATES`.
        people: the figures of everybody who has answered, by database key.
        by_hour: the number of first answers in the hours that have any.
        commented: the questions whose latest answer is flagged or has a comment (database keys),
            the newest first.
    """

    at: datetime
    states: Counter[str]
    people: Mapping[int, PersonFigures]
    by_hour: Mapping[datetime, int]
    commented: tuple[int, ...]

    def of(self, person: int) -> PersonFigures:
        return self.people.get(person, PersonFigures())

    @cached_property
    def median_seconds(self) -> float | None:
        known = [each.median_seconds for each in self.people.values()]
        return median([seconds for seconds in known if seconds is not None] or [0]) or None

    @cached_property
    def totals(self) -> Mapping[str, int]:
        """The sums of the numbers of `PersonFigures`; `n_failed` people failed a check."""
        names, people = ("checks", "failed", "n_compared", "n_same"), self.people.values()
        sums = {name: sum(map(attrgetter(name), people)) for name in names}
        return sums | {"n_failed": sum(person.failed > 0 for person in people)}


def figures_of(session: Session, study: Study, now: datetime) -> StudyFigures:
    """Read all answers of a study, which takes seconds if there are very many."""
    medians, compared = medians_of(session, study), compared_with_most(session, study)
    checks: dict[int, list[bool]] = defaultdict(list)
    for result in question_checks(session, StudyRow.of(study)):
        checks[result.participant_id].append(result.passed)
    people = {
        key: PersonFigures(
            medians.get(key),
            len(checks.get(key, ())),
            checks.get(key, []).count(False),
            *compared.get(key, (0, 0)),
        )
        for key in medians.keys() | checks.keys() | compared.keys()
    }
    return StudyFigures(
        at=now,
        states=count_states(session, study, now),
        people=people,
        by_hour=answers_by_hour(session, study),
        commented=commented_questions(session, study),
    )


def of_study(study: Study, *columns: Any) -> Select[Any]:
    """These columns of the responses to a study's questions that somebody holds."""
    return (
        select(*columns)
        .select_from(Form)
        .join(Participant, Form.participant_id == Participant.id)
        .join(Question, Question.form_id == Form.id)
        .join(Response, Response.question_id == Question.id)
        .where(Form.study_id == study.id)
    )


def answers_by_hour(session: Session, study: Study) -> dict[datetime, int]:
    hour = cast(func.floor(extract("epoch", Response.submitted_at) / 3600), Integer)
    first = of_study(study, hour, func.count()).where(
        Response.revision == 1, Response.submitted_at.is_not(None)
    )
    rows = session.execute(first.group_by(hour).order_by(hour))
    return {datetime.fromtimestamp(at * 3600, UTC): number for at, number in rows}


def commented_questions(session: Session, study: Study) -> tuple[int, ...]:
    has_comment = or_(Response.irrelevant.is_(True), func.coalesce(Response.reason, "") != "")
    newest = of_study(study, Question.id).where(has_comment, IS_LATEST)
    rows = session.scalars(newest.order_by(Response.submitted_at.desc(), Response.id.desc()))
    return tuple(rows)


SIDES = (0, 1, 2)


def compared_with_most(session: Session, study: Study) -> dict[int, tuple[int, int]]:
    """`n_compared` and `n_same` of `PersonFigures`; only pairs have them.

    Excluded participants and reassigned questions do not count among the others.
    """
    # 0 is neither set, 1 the pair's first set, 2 its second.
    preferred = case(
        (Response.preferred == 0, 0),
        (Response.preferred == case((Question.swapped, 2), else_=1), 1),
        else_=2,
    )
    counts = case((or_(Participant.status == "excluded", Question.reassigned), 0), else_=1)
    given = of_study(
        study,
        Form.participant_id.label("person"),
        Question.pair_id.label("pair"),
        preferred.label("preferred"),
        counts.label("counts"),
    )
    given = given.where(Response.preferred.is_not(None), IS_LATEST, ~IS_CHECK)
    own = given.cte("own")

    def number(side: int) -> ColumnElement[int]:
        return case((own.c.preferred == side, own.c.counts), else_=0)

    all_given = (
        select(own.c.pair, *(func.sum(number(side)).label(f"n_{side}") for side in SIDES))
        .group_by(own.c.pair)
        .cte("all_given")
    )
    others = [all_given.c[f"n_{side}"] - number(side) for side in SIDES]
    is_most = or_(
        *(
            and_(own.c.preferred == side, *(others[side] >= other for other in others))
            for side in SIDES
        )
    )
    rows = session.execute(
        select(own.c.person, func.count(), func.sum(case((is_most, 1), else_=0)))
        .join(all_given, all_given.c.pair == own.c.pair)
        .where(sum(others[1:], others[0]) > 0)
        .group_by(own.c.person)
    )
    return {person: (n_compared, n_same) for person, n_compared, n_same in rows}


@dataclass(frozen=True, slots=True)
class PeopleAsked:
    """A search for participants, and the order of the results.

    Attributes:
        text: part of a name, of a platform's id, or of a note.
        show: one of `STATES`, `failed` for those who failed a check, or empty for everybody.
        names: only participants with these names, if there are any.
        sort: a key of `SORTED_BY` or of `SORTED_BY_FIGURE`.
    """

    text: str = ""
    show: str = ""
    names: tuple[str, ...] = ()
    sort: str = "seen"
    descending: bool = True


SORTED_BY: Mapping[str, Any] = {
    "person": Participant.id,
    "answers": N_ANSWERED,
    "seen": Participant.seen_at,
}
SORTED_BY_FIGURE: Mapping[str, Callable[[PersonFigures], float | None]] = {
    "time": lambda figures: figures.median_seconds,
    "checks": lambda figures: figures.failed if figures.checks else None,
    "others": lambda figures: figures.n_same / figures.n_compared if figures.n_compared else None,
}
SORTS = (*SORTED_BY, *SORTED_BY_FIGURE, "state")


def find_people(
    session: Session, study: Study, asked: PeopleAsked, figures: StudyFigures, now: datetime
) -> list[int]:
    """The keys of the matching participants, in order; unknown values come last."""
    found = select(Participant.id).where(Participant.study_id == study.id)
    if asked.text:
        found = found.where(contains_text(asked.text))
    if asked.names:
        found = found.where(Participant.name.in_(asked.names))
    if asked.show == "failed":
        failed = [key for key, own in figures.people.items() if own.failed]
        found = found.where(Participant.id.in_(literal_keys(failed)))
    elif asked.show:
        found = found.where(*can_be(asked.show, study, now), state_of(study, now) == asked.show)
    figure = SORTED_BY_FIGURE.get(asked.sort)
    if figure is not None:
        keys = list(session.scalars(found.order_by(Participant.id.desc())))
        values = {key: figure(figures.of(key)) for key in keys}
        known = {key: value for key, value in values.items() if value is not None}
        first = sorted(known, key=known.__getitem__, reverse=asked.descending)
        return first + [key for key in keys if key not in known]
    column = state_of(study, now) if asked.sort == "state" else SORTED_BY[asked.sort]
    order = column.desc() if asked.descending else column.asc()
    return list(session.scalars(found.order_by(order.nulls_last(), Participant.id.desc())))


def can_be(state: str, study: Study, now: datetime) -> Iterator[ColumnElement[bool]]:
    """A necessary condition of a state, which is faster to evaluate than the state."""
    statuses = {each: status for status, each in OF_STATUS.items()} | {"withdrew": "returned"}
    yield Participant.status == statuses.get(state, "active")
    if state == "to decide":
        yield ~IS_DECIDED
    if state in ("answering", "stopped"):
        is_over = lease_expired(study, now)
        yield is_over if state == "stopped" else ~is_over


def contains_text(text: str) -> ColumnElement[bool]:
    """Whether a participant's name, platform id or a note on them contains a text."""
    has_note = (
        select(AnswerNote.id)
        .where(
            AnswerNote.participant_id == Participant.id,
            AnswerNote.text.icontains(text, autoescape=True),
        )
        .exists()
    )
    columns = (Participant.name, Participant.external_id)
    return or_(*(each.icontains(text, autoescape=True) for each in columns), has_note)


def literal_keys(keys: Collection[int]) -> Any:
    """Keys as part of a statement's text: databases limit the number of its parameters."""
    return bindparam("keys", list(keys), type_=Integer, expanding=True, literal_execute=True)
