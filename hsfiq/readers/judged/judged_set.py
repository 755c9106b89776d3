"""A set of queries with judged images, put together from the files' rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from hsfiq.errors import UnreadableInput
from hsfiq.text import first_few

Protocol = Literal["trec", "icir"]
"""What an image without a grade is, and whose average precision is computed.

`trec`: unjudged; trec_eval's. `icir`: a wrong answer of a database in which all right answers are
known; i-CIR's beside trec_eval's.
"""


class JudgedQuery(NamedTuple):
    """A query.

    Attributes:
        group: whose database its candidates are; "" if there is one database for all.
        cluster: queries with the same one depend on each other, such as paraphrases of one query.
    """

    query_id: str
    group: str
    cluster: str


class Judgement(NamedTuple):
    """The grade of an image for a query, and its place in the file.

    A grade above 0: how well the image fits; 0: it does not; below 0: it is judged wrong.
    """

    where: str
    query_id: str
    image: str
    grade: int


@dataclass(frozen=True, slots=True)
class JudgedSet:
    """Queries with their judged images.

    Attributes:
        name: what the figures are printed under.
        grades: by query and image.
        databases: the candidates of each group; None if no file lists them.
        n_ignored: judgements of other queries than these.
    """

    name: str
    queries: tuple[JudgedQuery, ...]
    grades: Mapping[str, Mapping[str, int]]
    databases: Mapping[str, frozenset[str]] | None
    protocol: Protocol = "trec"
    n_ignored: int = 0

    def database_of(self, query: JudgedQuery) -> frozenset[str] | None:
        return None if self.databases is None else self.databases[query.group]


def judged_set(
    name: str,
    queries: Sequence[JudgedQuery],
    judgements: Iterable[Judgement],
    databases: Mapping[str, frozenset[str]] | None,
) -> JudgedSet:
    """Put queries, judgements and databases together.

    Raises:
        UnreadableInput: an image is judged twice for a query, or is not in the query's database; a
            query's group has no database; or no query has a judgement.
    """
    if databases is not None:
        require_databases(queries, databases)
    groups = {query.query_id: query.group for query in queries}
    grades: dict[str, dict[str, int]] = {query.query_id: {} for query in queries}
    n_ignored = 0
    for where, query_id, image, grade in judgements:
        if query_id not in groups:
            n_ignored += 1
            continue
        if image in grades[query_id]:
            raise UnreadableInput(where, f"image {image!r} of query {query_id} is judged twice")
        if databases is not None and image not in databases[groups[query_id]]:
            raise UnreadableInput(
                where,
                f"the judged image {image!r} is not in the database of query {query_id}",
                "add it to --databases, or leave out its judgement",
            )
        grades[query_id][image] = grade
    if not any(grades.values()):
        raise UnreadableInput(
            "--qrels",
            f"judges none of the {len(queries):,} queries",
            f"the queries' ids look like {queries[0].query_id}",
        )
    return JudgedSet(name, tuple(queries), grades, databases, n_ignored=n_ignored)


def require_databases(
    queries: Sequence[JudgedQuery], databases: Mapping[str, frozenset[str]]
) -> None:
    without = [query.group for query in queries if query.group not in databases]
    if not without:
        return
    if "" in without:
        what = "the queries have no groups, but the databases have"
        remedy = "add the column `group` to --queries"
    else:
        names = sorted(set(without))
        what = f"{len(names):,} groups of queries have no database ({first_few(names)})"
        remedy = "add their images"
    raise UnreadableInput("--databases", what, remedy)
