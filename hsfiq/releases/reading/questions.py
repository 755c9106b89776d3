"""Some of a study's questions, as rows or by columns."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Self

from hsfiq.arrow_columns import Column
from hsfiq.releases.rows import QueryRow, QuestionRow


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


class QuestionRows(list[QuestionRow], Questions):
    """Questions as rows."""

    def column(self, name: str) -> Column:
        return self.values(name)

    def values(self, name: str) -> list[Any]:
        return [getattr(question, name) for question in self]

    def queries(self) -> dict[int, QueryRow]:
        return {question.query.key: question.query for question in self}

    def participants(self) -> set[str]:
        return {question.participant_id for question in self}

    def having(self, name: str) -> QuestionRows:
        return QuestionRows(each for each in self if getattr(each, name) is not None)

    def knows(self, name: str) -> bool:
        return any(getattr(question, name) is not None for question in self)
