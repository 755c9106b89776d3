"""What a database holds: its schema revision, its studies with their answers, its rows by table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hsfiq.errors import UnreadableInput

RunQuery = Callable[[str], Sequence[Sequence[Any]]]
"""Runs a statement on a connection and returns its rows."""

REVISION_TABLE = "alembic_version"
REQUIRED_TABLES = frozenset({REVISION_TABLE, "studies", "participants", "responses"})
"""The tables by which a database of hsfiq is recognised, at every schema revision."""

# One statement for both kinds of database and all schema revisions. An answer is a question with
# a response, however often it was revised. Studies that are still being created are left out.
STUDIES = """
SELECT studies.name,
  (SELECT count(*) FROM participants WHERE participants.study_id = studies.id),
  (SELECT count(DISTINCT responses.question_id) FROM responses
   JOIN questions ON questions.id = responses.question_id
   JOIN forms ON forms.id = questions.form_id WHERE forms.study_id = studies.id)
FROM studies WHERE substr(studies.name, 1, 14) <> 'being created ' ORDER BY studies.id
"""


@dataclass(frozen=True, slots=True)
class StudyContents:
    study: str
    participants: int
    answers: int


@dataclass(frozen=True, slots=True)
class Contents:
    """What one state of a database holds; `rows` counts those of each table."""

    revision: str
    studies: tuple[StudyContents, ...]
    rows: Mapping[str, int]

    @property
    def participants(self) -> int:
        return sum(study.participants for study in self.studies)

    @property
    def answers(self) -> int:
        return sum(study.answers for study in self.studies)

    def facts(self) -> dict[str, Any]:
        return {
            "schema_revision": self.revision,
            "participants": self.participants,
            "answers": self.answers,
            "studies": [
                {
                    "study": study.study,
                    "participants": study.participants,
                    "answers": study.answers,
                }
                for study in self.studies
            ],
        }


def read_contents(run_query: RunQuery, tables: Sequence[str], where: str) -> Contents:
    """Read what a database with these tables holds.

    Raises:
        UnreadableInput: it is not a database of hsfiq; `where` names it.
    """
    require_hsfiq_tables(tables, where)
    revisions = run_query(f"SELECT version_num FROM {REVISION_TABLE}")  # noqa: S608 -- a constant
    if len(revisions) != 1:
        raise UnreadableInput(where, "has no schema revision")
    rows = {table: int(run_query(count_statement(table))[0][0]) for table in sorted(tables)}
    studies = tuple(StudyContents(*row) for row in run_query(STUDIES))
    return Contents(str(revisions[0][0]), studies, rows)


def require_hsfiq_tables(tables: Iterable[str], where: str) -> None:
    if not REQUIRED_TABLES.issubset(tables):
        raise UnreadableInput(where, "holds no database of hsfiq")


def count_statement(table: str) -> str:
    quoted = table.replace('"', '""')
    return f'SELECT count(*) FROM "{quoted}"'  # noqa: S608 -- quoted
