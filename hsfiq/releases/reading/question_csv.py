"""Reading the questions of some forms with their answers as CSV, which the database writes.

A driver makes a Python object for each value of a row. CSV is one text for each form, and neither
SQLite nor Arrow holds Python's lock while they write and parse it, so other threads go on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from io import BytesIO
from typing import Any

import pyarrow as pa
import pyarrow.csv
from sqlalchemy import ColumnElement, Executable, Text, bindparam, cast, func, literal, select
from sqlalchemy.orm import Session

from hsfiq.db.tables import Form, Question, Response
from hsfiq.releases.schemas import FLAG, NUMBER, POINTS, TEXT, TIME, WHOLE

KEY = pa.int64()
TYPES: dict[str, pa.DataType] = {
    "key": KEY,
    "form_key": KEY,
    "place": WHOLE,
    "pair_key": KEY,
    "swapped": FLAG,
    "order_1": TEXT,
    "order_2": TEXT,
    "reassigned": FLAG,
    "own_text": TEXT,
    "revision": WHOLE,
    "score_1": POINTS,
    "score_2": POINTS,
    "preferred": POINTS,
    "confirmed": FLAG,
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
"""What questions about pairs have."""
SCHEMA = pa.schema(TYPES)
TIME_IN_CSV = pa.timestamp("us")
"""Of UTC, without saying so."""

Expression = ColumnElement[Any]


@dataclass(frozen=True)
class Written:
    """How a database writes values as text.

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


def read_questions(session: Session, form_keys: Sequence[int]) -> pa.Table:
    """Read the questions of forms by form and place, as a table with the columns of `SCHEMA`.

    A question has one row without an answer, else one for each revision.
    """
    connection = session.connection()
    texts = connection.scalars(csv_of_forms(connection.dialect.name), {"forms": form_keys})
    lines = "\n".join(text for text in texts if text is not None)
    return parsed(lines.encode()) if lines else SCHEMA.empty_table()


def parsed(lines: bytes) -> pa.Table:
    types = {name: TIME_IN_CSV if kind == TIME else kind for name, kind in TYPES.items()}
    table = pyarrow.csv.read_csv(
        BytesIO(lines),
        read_options=pyarrow.csv.ReadOptions(column_names=list(TYPES), use_threads=False),
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
    return table.cast(SCHEMA)


@cache
def csv_of_forms(dialect: str) -> Executable:
    """Select the CSV of each of `forms`, null for one without questions."""
    question, response, form = Question.__table__, Response.__table__, Form.__table__
    columns = {
        "key": question.c.id, "form_key": question.c.form_id, "place": question.c.place,
        "pair_key": question.c.pair_id, "reassigned": question.c.handed_on,
        "own_text": question.c.text,
    }  # fmt: skip
    own = ("swapped", "order_1", "order_2")
    columns |= {name: question.c[name] for name in own}
    columns |= {name: response.c[name] for name in TYPES if name not in columns}
    written = WRITTEN[dialect]
    values = [in_csv(columns[name], kind, written) for name, kind in TYPES.items()]
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
