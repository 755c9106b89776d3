"""Questions and answers drawn by the database itself, for `five-million`.

Python takes minutes to make five million rows. Each value here is a hash of the row's key and the
seed, so both databases draw the same ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from sqlalchemy import Connection, Table, text

from benchmarks.million_answers import REASONS, STATES

TIMES = {
    "sqlite": "strftime('%Y-%m-%d %H:%M:%f', {seconds}, 'unixepoch') || '000'",
    "postgresql": "to_timestamp({seconds})",
}
"""A time as it is stored, by its seconds since 1970."""

QUESTIONS = """
    with recursive places (place) as (
        select 0 union all select place + 1 from places where place < :per_form - 1
    )
    insert into questions (id, form_id, place, pair_id, swapped, handed_on)
    select id, form_id, place, :first_pair + {pair} % :n_pairs, {side} % 2 = 0, false
    from (
        select (forms.id - 1) * :per_form + place + 1 as id, forms.id as form_id, place
        from forms cross join places where forms.study_id = :study
    ) as drawn
    order by id
"""

ANSWERS = """
    insert into responses (
        question_id, revision, submit_key, score_1, score_2, preferred, irrelevant, reason,
        served_at, first_interaction_at, submitted_at, active_seconds, images, text_version,
        language
    )
    select
        id, revision, id || '-' || revision, 1 + {score_1} % 5, 1 + {score_2} % 5,
        1 + {preferred} % 2, {irrelevant} % 10 = 0, {reason}, {served_at}, {touched_at},
        {submitted_at}, spent, {images}, 1, 'en'
    from (
        select
            id, revision, id * 3 + revision as cell, begun_at + 30 * (id - first_id) as served,
            (5000 + {short} % 20000 + ({long} % 200) * ({longer} % 200)) / 1000.0 as spent
        from answered_forms
        join questions on questions.form_id = answered_forms.form_id
        cross join (select 1 as revision union all select 2) as revisions
        where revision = 1 or {revised} % 20 = 0
    ) as drawn
    order by id, revision
"""


def draw_questions(
    connection: Connection, seed: int, study: int, per_form: int, pairs: range
) -> None:
    """Draw the questions of a study's forms, each about one of its pairs."""
    drawn = {name: drawn_number("id", seed, name) for name in ("pair", "side")}
    values = {"study": study, "per_form": per_form}
    values |= {"first_pair": pairs.start, "n_pairs": len(pairs)}
    connection.execute(text(QUESTIONS.format(**drawn)), values)


def draw_answers(
    connection: Connection, seed: int, forms: Sequence[tuple[int, int, float]]
) -> None:
    """Draw answers to the questions of forms; one answer in twenty is revised.

    Each form has its key, that of its participant's first question, and when they began.
    """
    connection.execute(text(
        "create temporary table answered_forms"
        " (form_id integer primary key, first_id integer, begun_at double precision)"
    ))  # fmt: skip
    connection.execute(
        text("insert into answered_forms values (:form, :first, :begun)"),
        [{"form": form, "first": first, "begun": begun} for form, first, begun in forms],
    )
    time = TIMES[connection.dialect.name]
    names = ("score_1", "score_2", "preferred", "irrelevant")
    of_answers = {name: drawn_number("cell", seed, name) for name in names}
    of_questions = {
        name: drawn_number("id", seed, name) for name in ("short", "long", "longer", "revised")
    }
    statement = ANSWERS.format(
        **of_answers,
        **of_questions,
        reason=chosen(REASONS, drawn_number("cell", seed, "reason")),
        images=chosen(STATES, drawn_number("cell", seed, "images")),
        served_at=time.format(seconds="served"),
        touched_at=time.format(seconds="served + 2.5"),
        submitted_at=time.format(seconds="served + spent"),
    )
    connection.execute(text(statement))
    connection.execute(text("drop table answered_forms"))


def drawn_number(key: str, seed: int, name: str) -> str:
    """SQL for a number below 2**22 that looks random; each name has its own of a key below 2**30.

    The upper bits of Knuth's multiplicative hash, twice.
    """
    salt = (
        seed * 7919 + sum(256**place * ord(letter) for place, letter in enumerate(name))
    ) % 2**31
    once = f"((({key} + cast({salt} as bigint)) % 2147483647) * 2654435761 % 4294967296)"
    return f"({once} / 512 * 40503 % 2147483648 / 512)"


def chosen(values: Sequence[str | None], number: str) -> str:
    """SQL for one of some texts."""
    cases = " ".join(
        f"when {place} then " + ("null" if value is None else "'" + value.replace("'", "''") + "'")
        for place, value in enumerate(values)
    )
    return f"case {number} % {len(values)} {cases} end"


@contextmanager
def without_indexes(connection: Connection, tables: Sequence[Table]) -> Iterator[None]:
    """Drop the tables' indexes, but not those of constraints, and make them again at the end."""
    indexes = [
        index
        for table in tables
        for index in sorted(table.indexes, key=lambda each: str(each.name))
    ]
    for index in indexes:
        index.drop(connection)
    yield
    for index in indexes:
        index.create(connection)
