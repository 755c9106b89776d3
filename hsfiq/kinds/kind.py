"""The interface of question kinds."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import TYPE_CHECKING, Any, Literal, Protocol

from hsfiq.answer_rules import Answer, Times
from hsfiq.errors import Refused
from hsfiq.kinds.rows import Questions, TableRows
from hsfiq.kinds.tables import SHARED_TABLES, Table

if TYPE_CHECKING:  # importing pyarrow is left to what writes tables
    import pyarrow as pa

SAME_WITHIN = 0.25
"""Scores and levels that are given again agree within this share of the scale, on average."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of a study for answers.

    `points` and `levels` are those of the scales for sets and for images, `k` counts the images of
    a set. A preference for a set whose score is `confirm_difference` lower, or more, must be
    confirmed; None without confirmation.
    """

    points: int
    k: int
    n_sets: int
    ties: bool
    levels: int = 2
    confirm_difference: int | None = None


@dataclass(frozen=True, slots=True)
class KindOptions:
    """The keys of `[design]` that decide how many sets a question shows."""

    sets: int
    show_target: bool


@dataclass(frozen=True, slots=True)
class ShownAnswer:
    """An answer, and the order in which it was asked for.

    Attributes:
        values: the judgement.
        sets: the places of the item's sets, as they were shown.
        images: the places of the first set's images, as they were shown; None if best first.
    """

    values: Mapping[str, Any]
    sets: Sequence[int]
    images: Sequence[int] | None


# Questions with a known answer: gold questions, and the practice question.


class GoldDraw(Protocol):
    """The material of a gold question about a query; images are given by database keys."""

    @property
    def rules(self) -> Rules: ...

    @property
    def rng(self) -> Random: ...

    def target(self) -> int:
        """The target of a query that has one (`Gold.needs_target`), by its database key."""

    def winner(self) -> list[int]:
        """The target and a system's best images."""

    def lists(self, number: int) -> list[list[int]]:
        """The best images of this number of systems."""

    def far_images(self, number: int) -> list[int]:
        """Images that no system returned for the query."""

    def order(self) -> list[int] | None:
        """The order in which a set's images are shown; None is best first."""


@dataclass(frozen=True, slots=True)
class GoldQuestion:
    """A planted question as it is shown.

    Attributes:
        sets: the images of each set by their database keys, best first.
        expected: the value that `Gold.passes` compares with an answer.
        orders: the order in which the images of each set are shown; None is best first.
        swapped: whether two sets are shown in the other order.
        set_order: the order in which three or more sets are shown.
    """

    sets: Sequence[Sequence[int]]
    expected: str
    orders: Sequence[list[int] | None]
    swapped: bool = False
    set_order: list[int] | None = None


@dataclass(frozen=True, slots=True)
class Gold:
    """Planted questions with an obvious answer.

    Attributes:
        draw: draws one.
        passes: whether an answer is correct, by the question's `expected` and the judgement.
        words: the correct answer in words, for the study's owner.
        needs_target: whether the query must have a target.
    """

    draw: Callable[[GoldDraw], GoldQuestion]
    passes: Callable[[str, Mapping[str, Any]], bool]
    words: Callable[[str], str]
    needs_target: bool = False


@dataclass(frozen=True, slots=True)
class Practice:
    """The practice question.

    Attributes:
        read: reads `[practice] expected`, what is right at the owner's question, or raises
            `Refused`; the page's `isExpected` compares an answer with it.
        drawn: the same of the question that the app has drawn; its better set is at this place,
            from 1.
    """

    read: Callable[[str, Rules], dict[str, Any]]
    drawn: Callable[[Rules, int], dict[str, Any]]


# Simulated annotators.


class SimulatedAnnotator(Protocol):
    """What `hsfiq.drawn.annotators.SimulatedAnnotator` has."""

    @property
    def lapse_rate(self) -> float: ...

    def answer(
        self,
        rng: Random,
        utility_1: float,
        utility_2: float,
        *,
        ties_allowed: bool,
        progress: float,
        points: int,
    ) -> Answer: ...

    def seconds(self, rng: Random) -> float: ...

    def impression(self, rng: Random, utility: float) -> float: ...

    def score(self, rng: Random, utility: float, *, progress: float, points: int = ...) -> int: ...

    def finds_irrelevant(self, utility: float) -> bool: ...


class SeenQuestion(Protocol):
    """A question as a simulated annotator sees it.

    `progress` is 0 at the participant's first question and 1 at the last.
    """

    @property
    def rules(self) -> Rules: ...

    @property
    def progress(self) -> float: ...

    def utilities(self) -> list[float]:
        """The utility of each set, in the order shown."""

    def image_utilities(self) -> list[list[float]]:
        """The utility of each image of each set."""


def timed(annotator: SimulatedAnnotator, rng: Random, **values: Any) -> Answer:
    """The answer, not flagged, with the seconds that it takes."""
    return Answer(values, times=Times(active_seconds=annotator.seconds(rng)))


# Releases.

Row = Mapping[str, Any]
"""A row of a table."""


@dataclass(frozen=True, slots=True)
class RowCheck:
    """A query for invalid rows of a table `t`.

    Attributes:
        column: the invalid column.
        what: the error, with the names of `values` in braces.
        where: the condition in SQL, about the names of `values`.
        values: SQL by name.
        sets: the SQL of a set's id: `s` is then its row in `sets`, and other rows are not checked.
        unnested: SQL after `t` that makes one row of each value of a list.
    """

    column: str
    what: str
    where: str
    values: Mapping[str, str]
    sets: str | None = None
    unnested: str = ""


Checks = tuple[RowCheck, ...]


def nothing_struck(_kept: Questions) -> list[dict[str, Any]]:
    return []


@dataclass(frozen=True, slots=True)
class ReleaseKind:
    """A kind of release of the studies of a question kind.

    Attributes:
        about: a description of its answers, for the dataset card.
        sets_are: a description of its sets, as in "8 scored sets"; empty if it has none.
        main: the table with a row for each question, or for each part of one.
        own_tables: `main` comes first; all kinds share the others.
        tables: the rows of its own tables, of some of the questions kept; a table that has none may
            be left out.
        judgement: the judgement of a row of `main` and, by table, the question's rows in `sets` and
            `restored_from`; `import release` stores it.
        checks: by table, which rows contradict themselves or `sets`; `release verify` lists them.
        label: the text of an export button, before its name.
        files: the names of its further files (`hsfiq.releases.content.FURTHER_FILES`).
        other: a hint at another release of the same study, for the dataset card.
        default_config: the table that `datasets` loads by default; "" for `main`.
        struck: the rows of `exclusions` about texts that releases leave out.
        tasks, tags: of the Hugging Face hub.
    """

    name: str
    about: str
    main: str
    own_tables: tuple[Table, ...]
    tables: Callable[[Questions], Mapping[str, TableRows]]
    judgement: Callable[[Row, Mapping[str, Sequence[Row]]], dict[str, Any]]
    checks: Mapping[str, Checks]
    restored_from: tuple[str, ...] = ()
    label: str = "Answers"
    files: tuple[str, ...] = ()
    struck: Callable[[Questions], list[dict[str, Any]]] = nothing_struck
    sets_are: str = "scored sets"
    other: str = ""
    default_config: str = ""
    tasks: tuple[str, ...] = ("image-to-image",)
    tags: tuple[str, ...] = ()

    @property
    def default_table(self) -> str:
        return self.default_config or self.main

    def all_tables(self) -> dict[str, Table]:
        """By name, in the order of the dataset card and of the Croissant metadata."""
        return {table.name: table for table in (*self.own_tables, *SHARED_TABLES)}

    def parted_tables(self, present: Collection[str]) -> list[str]:
        """Its own tables that a split divides, as far as the release has them."""
        return [table.name for table in self.own_tables if table.name in present]

    def schemas(self) -> dict[str, pa.Schema]:
        return {name: table.arrow() for name, table in self.all_tables().items()}


@dataclass(frozen=True, slots=True)
class Kind:
    """A question kind.

    Attributes:
        asks: the annotator's task, in a few words.
        n_sets: the number of sets of a question.
        options: the keys of study.toml that not every kind has, and this one has.
        read: the valid judgement in what a page sent, or `Refused`; a judgement that was read is
            read as it is.
        summary: a judgement in a few words, for the study's owner.
        repeats: whether the same question, asked again, got the same answer.
        mirrored: the judgement about two sets as it is when their sides are swapped.
        releases: the kinds of releases of its studies.
        practice: None if there is no practice question.
        simulated: the answer of a simulated annotator; None if simulated otherwise.
        gold: None if there is no question of this kind with an obvious answer.
        columns: the columns of `responses` with the values of a judgement, which exports read
            faster; without any, `judgement` has them as JSON.
        scale: the unit of its scale, for releases: points, levels or nothing.
        has_preferences: whether an answer prefers one of two sets, so that any two systems can be
            compared while the study runs.
        needs_lists: whether they are of systems' ranked lists; otherwise, of the labelled target.
        n_live: how many live retrievers give lists, turn by turn; 0 if none does.
    """

    name: str
    asks: str
    n_sets: Callable[[KindOptions], int]
    options: frozenset[str]
    read: Callable[[Mapping[str, Any], Rules], dict[str, Any]]
    summary: Callable[[Mapping[str, Any]], str]
    repeats: Callable[[ShownAnswer, ShownAnswer, Rules], bool]
    releases: tuple[ReleaseKind, ...]
    practice: Practice | None = None
    simulated: Callable[[SimulatedAnnotator, Random, SeenQuestion], Answer] | None = None
    gold: Gold | None = None
    mirrored: Callable[[Mapping[str, Any]], dict[str, Any]] = dict
    columns: tuple[str, ...] = ()
    scale: Literal["points", "levels"] | None = None
    has_preferences: bool = False
    needs_lists: bool = True
    n_live: int = 0

    @property
    def is_live(self) -> bool:
        return self.n_live > 0

    def columns_of(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The columns of `responses` that hold a judgement."""
        if not self.columns:
            return {"judgement": dict(values)}
        return {name: values[name] for name in self.columns} | {"judgement": None}

    def judgement_in(self, columns: Sequence[Any]) -> dict[str, Any] | None:
        """The judgement in `stored_in`; None if the question was skipped."""
        if not self.columns:
            judgement: dict[str, Any] | None = columns[0]
            return judgement
        return dict(zip(self.columns, columns, strict=True)) if columns[0] is not None else None

    @property
    def stored_in(self) -> tuple[str, ...]:
        """The names of the columns of `responses` with a judgement."""
        return self.columns or ("judgement",)


# Reading what a page, or an owner, has given.


def require_keys(given: Mapping[str, Any], *names: str) -> None:
    """Raise `Refused` unless the judgement has these keys and no others."""
    for name in names:
        if name not in given:
            raise Refused(f"judgement: {name} is missing")
    for name in given:
        if name not in names:
            raise Refused(f"judgement: {name[:40]} is unknown")


def require_whole_number(name: str, value: object, lowest: int, highest: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not lowest <= value <= highest:
        shown = str(value)[:40]
        raise Refused(f"{name} is {shown}, not a whole number from {lowest} to {highest}")
    return value


def whole_numbers(text: str, highest: int) -> list[int]:
    """Different numbers from 1 to the highest, separated by spaces, or `Refused`."""
    words = text.split()
    numbers = [int(word) for word in words if word.isascii() and word.isdigit() and len(word) < 5]
    is_sound = (
        words and len(set(numbers)) == len(words) and set(numbers) <= set(range(1, highest + 1))
    )
    if not is_sound:
        raise Refused(f"{text[:40]!r} is not one or more different numbers from 1 to {highest}")
    return numbers


# Checks of rows that several kinds share.


def differs(
    column: str, expected: str, what: str = "is {found}, not {expected}", sets: str | None = None
) -> RowCheck:
    """The column is not what it should be."""
    values = {"found": f't."{column}"', "expected": expected}
    return RowCheck(column, what, "found is distinct from expected", values, sets)


def same_in_sets(column: str, in_sets: str, of_set: str) -> RowCheck:
    """The column of a row about a set is that of the set's row; `of_set` has its id."""
    what = "is {found}, and in sets.parquet ({set}) {expected}"
    check = differs(column, f"s.{in_sets}", what, sets=f"t.{of_set}")
    return replace(check, values={**check.values, "set": f"t.{of_set}"})


def is_of_query(column: str = "item_id") -> RowCheck:
    """An item's id is that of its query and a number."""
    return RowCheck(
        column,
        "{item} is not of query {query}",
        "not starts_with(item, query || '/') or contains(substr(item, length(query) + 2), '/')",
        {"item": f"t.{column}", "query": "t.query_id"},
    )


def is_set_of_question(column: str, side: str) -> RowCheck:
    return differs(column, f"t.question_id || '.' || {side}")


def about_one_set(*columns: str) -> Checks:
    """The row's set is the question's, and `sets` says the same of these columns."""
    return (
        is_set_of_question("set_id", "1"),
        *(same_in_sets(column, column, "set_id") for column in columns),
        is_of_query(),
    )


def as_many_as_images(column: str, images: str = "image_ids") -> RowCheck:
    return RowCheck(
        column,
        "has {values} values, of {images} images",
        "values <> images and images > 0",
        {"values": f"len(t.{column})", "images": f"len(t.{images})"},
    )


OF_SETS = (
    is_set_of_question("set_id", "t.side"),
    as_many_as_images("image_states"),
    RowCheck(
        "shown_order",
        "{shown} is not an order of {images} images",
        "list_sort(shown) <> range(images)",
        {"shown": "t.shown_order", "images": "coalesce(len(t.image_ids), 0)"},
    ),
)
"""A row of `sets` agrees with itself."""
