"""A study's assigned questions, each with its latest answer, as releases have them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias

from hsfiq.answer_rules import ImageState, ImageStates
from hsfiq.ids import set_id
from hsfiq.kinds.search_rows import SearchRow
from hsfiq.kinds.tables import ANSWERED, ASKED

if TYPE_CHECKING:  # importing pyarrow is left to what writes columns
    from hsfiq.arrow_columns import Column

Part = Literal["train", "test", "unused"]

FormName = tuple[str, str]
"""The pseudonym of a participant, and the name of one of their forms."""

Run = list[int]
"""`[first place, last place, revision]`."""

Rows = Sequence[Mapping[str, Any]]
Columns: TypeAlias = "Mapping[str, Column]"
TableRows: TypeAlias = "Rows | Columns"
"""Rows of a table, or its columns, which is faster; a column that is missing is null."""
Tables = Mapping[str, TableRows]
"""By name."""


@dataclass(frozen=True, slots=True)
class QueryRow:
    """A row of `queries`, in the order of its columns, after the query's database key.

    The rows are sorted by the key.
    """

    key: int
    query_id: str
    triplet_id: str
    dataset: str
    category: str
    split: str | None
    reference_id: str | None
    target_id: str | None
    text: str
    text_shown: str
    captions: list[str]


@dataclass(frozen=True, slots=True)
class RetrievedSetRow:
    """A retrieved set: its system, if known, and its images, best first."""

    system: str | None
    image_ids: list[str]


@dataclass(slots=True)  # a frozen one takes three times as long to make
class QuestionRow:
    """A participant's question with its latest answer: the columns of `preferences`, and more.

    Attributes:
        pair_id: the same for all questions about the same retrieved sets, or the same query.
        text: exactly as in its source.
        sets: set 1, set 2, ..., as shown.
        orders: for each set, the order in which its images were shown; None for the ranked order.
        reassigned: whether the question was left and is now in another participant's form.
        check: the kind of attention check that the question is, if any.
        skipped: why the question was skipped, if it was.
        score_1: of set 1, from 1; like `score_2` and `preferred`, None without an answer.
        confirmed: whether the preference for the set scored much lower was confirmed; None if that
            was not asked, or is unknown.
        irrelevant: the flag; None if flags were not recorded.
        revision: of the answer; 0 without any response.
        active_seconds: of all revisions together.
        failed_checks: how many checks of its form were failed; None if none was answered.
        images: the states of its images; None if unknown.
        text_version: the version of the study's texts that the page showed; None if unknown.
        language: of the page on which the answer was given; None if unknown.
        judgement: the answer of another kind than `pair`, as `hsfiq.kinds` reads it.
        excluded_by_rule: what the study's rule about checks counted when it last acted.
        repeats: of a repeated question, the id of the question that it repeats.
        extra: the answers to the owner's extra questions by name; None if none was asked.
        search: its turns, of a study of searches.
        run: how many answers of its participant in a row, with its own, are the same; None without
            an answer, or if nobody asked.
    """

    question_id: str
    participant_id: str
    form: str
    category: str
    place: int
    pair_id: str
    swapped: bool
    query: QueryRow
    text: str
    sets: tuple[RetrievedSetRow, ...]
    orders: tuple[list[int] | None, ...]
    participant_status: str
    reassigned: bool
    check: str | None
    skipped: str | None
    score_1: int | None
    score_2: int | None
    preferred: int | None
    irrelevant: bool | None
    reason: str | None
    revision: int
    served_at: datetime | None
    first_interaction_at: datetime | None
    submitted_at: datetime | None
    active_seconds: float | None
    failed_checks: int | None
    images: ImageStates | None
    text_version: int | None
    judgement: Mapping[str, Any] | None = None
    excluded_by_rule: str | None = None
    confirmed: bool | None = None
    language: str | None = None
    extra: Mapping[str, Any] | None = None
    repeats: str | None = None
    search: SearchRow | None = None
    run: int | None = None

    def judged(self, name: str) -> Any:
        """A value of the judgement; None without an answer."""
        return None if self.judgement is None else self.judgement[name]

    @property
    def answer(self) -> Any:
        """What was answered, as the page showed it; None without an answer."""
        if self.judgement is not None:
            return self.judgement
        if self.preferred is None:
            return None
        return self.score_1, self.score_2, self.preferred

    @property
    def is_left_search(self) -> bool:
        """Whether it is a search with turns that nobody has finished, and nobody will."""
        return not self.revision and self.search is not None and self.search.is_left

    @property
    def item_id(self) -> str:
        return self.pair_id

    @property
    def images_painted(self) -> bool | None:
        return self.images.are_painted if self.images else None

    @property
    def images_enlarged(self) -> int | None:
        return self.images.n_enlarged if self.images else None

    @property
    def reference_state(self) -> ImageState | None:
        return self.images.reference if self.images else None

    def image_states(self, side: int) -> Sequence[ImageState] | None:
        """The states of the images of set 1 or 2, best first."""
        if self.images is None:
            return None
        return by_rank(self.images.sets[side - 1], self.orders[side - 1])

    @property
    def query_id(self) -> str:
        return self.query.query_id

    @property
    def set_1(self) -> str:
        return set_id(self.question_id, 1)

    @property
    def set_2(self) -> str:
        return set_id(self.question_id, 2)

    @property
    def system_1(self) -> str | None:
        return self.sets[0].system

    @property
    def system_2(self) -> str | None:
        return self.sets[1].system


def by_rank(states: Sequence[ImageState], order: Sequence[int] | None) -> Sequence[ImageState]:
    """The states of a set's images, best first; `order` is the one in which they were shown."""
    if order is None:
        return states
    return [states[order.index(rank)] for rank in range(len(states))]


class Questions(Sequence[QuestionRow]):
    """Questions in the study's order; the columns are the attributes of `QuestionRow`."""

    @abstractmethod
    def column(self, name: str) -> Column:
        """A column to write into a table."""

    @abstractmethod
    def values(self, name: str) -> Sequence[Any]:
        """A column as Python's values."""

    @abstractmethod
    def queries(self) -> dict[int, QueryRow]:
        """The queries that the questions are about, by their keys."""

    @abstractmethod
    def participants(self) -> set[str]:
        """The ids of the questions' participants."""

    @abstractmethod
    def having(self, name: str) -> Self:
        """The questions in which the column is not null."""

    @abstractmethod
    def knows(self, name: str) -> bool:
        """Whether the column is not null in any question."""

    @abstractmethod
    def filter(self, mask: Any) -> Self:
        """The questions for which the Arrow array is true."""

    @abstractmethod
    def with_runs(self, runs: Sequence[int | None]) -> Self:
        """The questions with these values of `run`."""

    @abstractmethod
    def given(self) -> list[Any]:
        """Whose and what each answer is, in the order shown; None without an answer."""

    @abstractmethod
    def revisions(self) -> Iterator[tuple[FormName, list[Run]]]:
        """The places of the questions, with the revisions of their answers, form by form."""

    @abstractmethod
    def scored_sets(self) -> Columns:
        """The table `sets` of questions about pairs."""


# The rows of tables that several kinds share.


def set_rows(question: QuestionRow, **judged: Sequence[Any]) -> Iterator[dict[str, Any]]:
    """The rows of `sets`, one for each set as shown; by column, what was judged of each set."""
    for side, retrieved in enumerate(question.sets, start=1):
        yield {
            "set_id": set_id(question.question_id, side),
            "question_id": question.question_id,
            "side": side,
            "participant_id": question.participant_id,
            "query_id": question.query_id,
            "system": retrieved.system,
            "image_ids": retrieved.image_ids,
            "shown_order": question.orders[side - 1],
            "image_states": question.image_states(side),
            **{column: values[side - 1] for column, values in judged.items()},
        }


def answer_row(question: QuestionRow, **own: object) -> dict[str, Any]:
    """A row with the shared columns, and its own between them."""
    asked = {column.name: getattr(question, column.name) for column in ASKED}
    answered = {column.name: getattr(question, column.name) for column in ANSWERED}
    return {**asked, **own, **answered}
