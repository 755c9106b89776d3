"""The database queries of releases: forms, items, checks, and questions with answers."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cache, lru_cache
from io import BytesIO
from itertools import chain
from sys import intern
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.csv
from sqlalchemy import (
    ColumnElement,
    Executable,
    Select,
    Text,
    bindparam,
    cast,
    func,
    literal,
    select,
)
from sqlalchemy.orm import Session, aliased

from hsfiq.arrow_columns import FLAG, NUMBER, POINTS, TEXT, TIME, WHOLE
from hsfiq.collect.checks import check_results
from hsfiq.db.source_tables import Dataset, Image, Query, System, Triplet
from hsfiq.db.tables import (
    Check,
    Form,
    FurtherSet,
    Pair,
    Participant,
    Question,
    Response,
    RetrievedImage,
    RetrievedSet,
    Study,
)
from hsfiq.kinds.rows import QueryRow, RetrievedSetRow
from hsfiq.text import shown

# Which questions of a study are attention checks, and which checks were failed.


def read_checks(session: Session, study: Study) -> dict[int, str]:
    """Read the kind of each question that is an attention check, by the question's database key."""
    rows = session.execute(
        select(Check.question_id, Check.kind)
        .join(Form, Check.form_id == Form.id)
        .where(Form.study_id == study.id, Check.question_id.is_not(None))
    )
    return {question: kind for question, kind in rows if question is not None}


def read_failed_checks(session: Session, study: Study) -> dict[int, int]:
    """Count the failed checks of each form, by the form's database key."""
    failed: dict[int, int] = defaultdict(int)
    for result in check_results(session, study):
        failed[result.form_id] += not result.passed
    return dict(failed)


def read_repeated(session: Session, study: Study) -> dict[int, int]:
    """Read which question each repeated one repeats, by the database keys of both."""
    rows = session.execute(
        select(Check.question_id, Check.repeats_id)
        .join(Form, Check.form_id == Form.id)
        .where(Form.study_id == study.id, Check.kind == "repeat")
    )
    return {again: first for again, first in rows if again is not None and first is not None}


# A study's assigned forms, and which of them are read together.

QUESTIONS_AT_ONCE = 20_000
FORMS_AT_ONCE = 10_000
"""SQLite takes at most 32,766 values in a statement, PostgreSQL 65,535."""


@dataclass(frozen=True, slots=True)
class FormRow:
    """A participant's form; an imported one may have no questions. The keys are the database's."""

    key: int
    participant_key: int
    participant_id: str
    participant_status: str
    form: str
    category: str
    n_questions: int


def read_forms(session: Session, study: Study) -> list[FormRow]:
    """Read all assigned forms, by participant and position."""
    counts = (
        select(Question.form_id, func.count().label("n"))
        .join(Form, Question.form_id == Form.id)
        .where(Form.study_id == study.id)
        .group_by(Question.form_id)
        .subquery()
    )
    rows = session.execute(
        select(
            Form.id, Participant.id, Participant.name, Participant.status, Form.name,
            Form.category, func.coalesce(counts.c.n, 0),
        )
        .join(Participant, Form.participant_id == Participant.id)
        .outerjoin(counts, counts.c.form_id == Form.id)
        .where(Form.study_id == study.id)
        .order_by(Participant.id, Form.position)
    )  # fmt: skip
    return [
        # Equal texts are one object, which takes half the memory.
        FormRow(key, person, intern(name), intern(status), intern(str(form)), intern(category), n)
        for key, person, name, status, form, category, n in rows
    ]


def forms_together(forms: Sequence[FormRow]) -> Iterator[list[FormRow]]:
    """The forms in parts of about `QUESTIONS_AT_ONCE` questions; no participant is in two parts."""
    together: list[FormRow] = []
    n_questions = 0
    for form in forms:
        is_full = n_questions >= QUESTIONS_AT_ONCE or len(together) >= FORMS_AT_ONCE
        if is_full and form.participant_key != together[-1].participant_key:
            yield together
            together, n_questions = [], 0
        together.append(form)
        n_questions += form.n_questions
    if together:
        yield together


# What a study's questions are about: queries, retrieved sets and pairs, by database key.
#
# These are held in memory during an export: about 1 KB for each query, pair and retrieved set,
# however many answers they have.

ROWS_AT_ONCE = 10_000
"""The rows that the driver fetches at a time; on PostgreSQL with a server-side cursor."""
REFERENCE, TARGET = aliased(Image), aliased(Image)


class PairRow(NamedTuple):  # a frozen dataclass takes three times as long to make
    """A pair: its outside id, and its sets in the pair's own order."""

    pair_id: str
    query: QueryRow
    sets: tuple[RetrievedSetRow, ...]


def read_pairs(session: Session, study: Study) -> dict[int, PairRow]:
    """Read the study's pairs; an outside id is the query's and the number among its pairs."""
    queries = read_queries(session, study)
    sets = read_sets(session, study)
    further = read_further_sets(session, study)
    numbers: dict[int, int] = defaultdict(int)
    pairs = {}
    rows = fetched(
        session,
        select(Pair.id, Pair.query_id, Pair.first_id, Pair.second_id)
        .where(Pair.study_id == study.id)
        .order_by(Pair.id),
    )
    for pair, query, first, second in rows:
        keys = [key for key in (first, second) if key is not None] + further.get(pair, [])
        pairs[pair] = PairRow(
            f"{queries[query].query_id}/{numbers[query]}",
            queries[query],
            tuple(sets[key] for key in keys),
        )
        numbers[query] += 1
    return pairs


def read_further_sets(session: Session, study: Study) -> dict[int, list[int]]:
    """Read the sets of questions about more than two, from the third on, by the pair's key."""
    keys: dict[int, list[int]] = defaultdict(list)
    rows = fetched(
        session,
        select(FurtherSet.pair_id, FurtherSet.set_id)
        .join(Pair, FurtherSet.pair_id == Pair.id)
        .where(Pair.study_id == study.id)
        .order_by(FurtherSet.pair_id, FurtherSet.place),
    )
    for pair, retrieved in rows:
        keys[pair].append(retrieved)
    return keys


def read_queries(session: Session, study: Study) -> dict[int, QueryRow]:
    """Read the queries of the study's pairs, by database key."""
    rows = fetched(
        session,
        select(
            Query.id, Query.suffix, Query.text, Triplet.external_id, Triplet.category,
            Triplet.split, Triplet.captions, Dataset.name, REFERENCE.name, TARGET.name,
        )
        .join(Triplet, Query.triplet_id == Triplet.id)
        .join(Dataset, Triplet.dataset_id == Dataset.id)
        .outerjoin(REFERENCE, Triplet.reference_id == REFERENCE.id)
        .outerjoin(TARGET, Triplet.target_id == TARGET.id)
        .where(Query.id.in_(queries_of(study))),
    )  # fmt: skip
    return {
        key: QueryRow(
            key=key,
            query_id=triplet + suffix,
            triplet_id=triplet,
            dataset=intern(dataset),
            category=intern(category),
            split=split,
            reference_id=reference_id,
            target_id=target_id,
            text=text,
            text_shown=shown(text),
            captions=captions,
        )
        for (
            key, suffix, text, triplet, category, split, captions, dataset, reference_id, target_id,
        ) in rows
    }  # fmt: skip


def read_sets(session: Session, study: Study) -> dict[int, RetrievedSetRow]:
    """Read the retrieved sets of the study's queries, by database key."""
    images = read_images_of_sets(session, study)
    systems = fetched(
        session,
        select(RetrievedSet.id, System.name)
        .outerjoin(System, RetrievedSet.system_id == System.id)
        .where(RetrievedSet.query_id.in_(queries_of(study))),
    )
    return {
        key: RetrievedSetRow(None if system is None else intern(system), images.get(key, []))
        for key, system in systems
    }


def read_images_of_sets(session: Session, study: Study) -> dict[int, list[str]]:
    """Read the images of each retrieved set, best first; each name is in memory once."""
    images: dict[int, list[str]] = defaultdict(list)
    rows = fetched(
        session,
        select(RetrievedImage.set_id, Image.name)
        .join(Image, RetrievedImage.image_id == Image.id)
        .join(RetrievedSet, RetrievedImage.set_id == RetrievedSet.id)
        .where(RetrievedSet.query_id.in_(queries_of(study)))
        .order_by(RetrievedImage.set_id, RetrievedImage.rank),
    )
    names: dict[str, str] = {}
    for key, name in rows:
        images[key].append(names.setdefault(name, name))
    return images


def fetched(session: Session, statement: Executable) -> Iterator[Any]:
    """The rows of a statement; those of a session take half as long again."""
    connection = session.connection()
    rows = connection.execute(statement, execution_options={"yield_per": ROWS_AT_ONCE})
    return chain.from_iterable(rows.partitions())


def queries_of(study: Study) -> Select[int]:
    """Select the database keys of the queries of the study's pairs."""
    return select(Pair.query_id).where(Pair.study_id == study.id)


def shown_sets(
    pair: PairRow, *, swapped: bool, set_order: Sequence[int] | None
) -> tuple[RetrievedSetRow, ...]:
    """The pair's sets as a question shows them."""
    if set_order is not None:
        return tuple(pair.sets[place] for place in set_order)
    return pair.sets[:2][::-1] if swapped else pair.sets[:2]


# Reading the questions of some forms with their answers as CSV, which the database writes.
#
# A driver makes a Python object for each value of a row. CSV is one text for each form, and neither
# SQLite nor Arrow holds Python's lock while they write and parse it, so other threads go on.

KEY = pa.int64()
TYPES: dict[str, pa.DataType] = {
    "key": KEY,
    "form_key": KEY,
    "place": WHOLE,
    "pair_key": KEY,
    "swapped": FLAG,
    "order_1": TEXT,
    "order_2": TEXT,
    "set_order": TEXT,
    "image_orders": TEXT,
    "reassigned": FLAG,
    "own_text": TEXT,
    "revision": WHOLE,
    "score_1": POINTS,
    "score_2": POINTS,
    "preferred": POINTS,
    "confirmed": FLAG,
    "judgement": TEXT,
    "extra": TEXT,
    "irrelevant": FLAG,
    "reason": TEXT,
    "skipped": TEXT,
    "served_at": TIME,
    "first_interaction_at": TIME,
    "submitted_at": TIME,
    "active_seconds": NUMBER,
    "images": TEXT,
    "text_version": WHOLE,
    "language": TEXT,
}
"""The stored values of a question and its answer, orders and judgements as JSON."""
TIME_IN_CSV = pa.timestamp("us")
"""Of UTC, without saying so."""

Expression = ColumnElement[Any]


@dataclass(frozen=True)
class Written:
    """A database's conversion of values to text.

    Attributes:
        line: puts values into a format like `%s,%s`; null is empty.
        number: a floating-point number with all of its digits.
        time: a time of UTC.
    """

    line: Callable[..., Expression]
    number: Callable[[Expression], Expression]
    time: Callable[[Expression], Expression]


WRITTEN = {
    "sqlite": Written(func.printf, func.quote, lambda column: column),
    "postgresql": Written(
        func.format, lambda column: column, lambda column: func.timezone("UTC", column)
    ),
}


def read_questions(
    session: Session, form_keys: Sequence[int], lacking: AbstractSet[str]
) -> pa.Table:
    """Read the questions of forms by form and place, as a table with the columns of `TYPES`.

    A question has one row without an answer, else one for each revision. The columns in
    `lacking` are null.
    """
    names = tuple(name for name in TYPES if name not in lacking)
    connection = session.connection()
    texts = connection.scalars(csv_of_forms(connection.dialect.name, names), {"forms": form_keys})
    lines = "\n".join(text for text in texts if text is not None)
    table = parsed(lines.encode(), names)
    for name in sorted(lacking):
        table = table.append_column(name, pa.array([None] * table.num_rows, TYPES[name]))
    return table


def parsed(lines: bytes, names: Sequence[str]) -> pa.Table:
    schema = pa.schema({name: TYPES[name] for name in names})
    if not lines:
        return schema.empty_table()
    types = {field.name: TIME_IN_CSV if field.type == TIME else field.type for field in schema}
    table = pyarrow.csv.read_csv(
        BytesIO(lines),
        read_options=pyarrow.csv.ReadOptions(column_names=list(names), use_threads=False),
        parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True),
        convert_options=pyarrow.csv.ConvertOptions(
            column_types=types,
            null_values=["", "NULL"],
            true_values=["1", "t"],
            false_values=["0", "f"],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
    return table.cast(schema)


@cache
def csv_of_forms(dialect: str, names: Sequence[str]) -> Executable:
    """Select the CSV of each of `forms`, null for one without questions."""
    question, response, form = Question.__table__, Response.__table__, Form.__table__
    columns = {
        "key": question.c.id, "form_key": question.c.form_id, "place": question.c.place,
        "pair_key": question.c.pair_id, "reassigned": question.c.handed_on,
        "own_text": question.c.text,
    }  # fmt: skip
    own = ("swapped", "order_1", "order_2", "set_order", "image_orders")
    columns |= {name: question.c[name] for name in own}
    columns |= {name: response.c[name] for name in TYPES if name not in columns}
    written = WRITTEN[dialect]
    values = [in_csv(columns[name], TYPES[name], written) for name in names]
    lines = (
        select(written.line(",".join(["%s"] * len(values)), *values).label("line"))
        .select_from(question.outerjoin(response, response.c.question_id == question.c.id))
        .where(question.c.form_id == form.c.id)
        .order_by(question.c.place, response.c.revision)
        .correlate(form)
        .subquery()
    )
    text = select(func.aggregate_strings(lines.c.line, "\n")).scalar_subquery()
    is_asked_for = form.c.id.in_(bindparam("forms", expanding=True))
    return select(text).where(is_asked_for).order_by(form.c.id)


def in_csv(column: Expression, kind: pa.DataType, written: Written) -> Expression:
    if kind == TEXT:
        doubled = func.replace(cast(column, Text), '"', '""', type_=Text)
        return literal('"').concat(doubled).concat('"')
    if kind == TIME:
        return written.time(column)
    return written.number(column) if kind == NUMBER else column


def time_spent(seconds: Sequence[float | None]) -> float | None:
    """The time of all revisions counts, so that changing an answer does not shorten it."""
    known = [each for each in seconds if each is not None]
    return sum(known) if known else None


@lru_cache(maxsize=10_000)
def parsed_order(text: str) -> Any:
    return json.loads(text)


def from_json(text: str | None) -> Any:
    """The order that a JSON text has; the lists of equal texts are the same objects."""
    return None if text is None else parsed_order(text)
