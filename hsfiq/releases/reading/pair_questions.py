"""The questions of a study of pairs, by columns: far fewer objects than one for each question."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, partial
from itertools import repeat
from typing import Any, overload

import pyarrow as pa
import pyarrow.compute as pc

from hsfiq.answer_rules import ImageStates
from hsfiq.arrow_columns import Array, ByPlace, distinct, encoded, joined
from hsfiq.ids import question_id
from hsfiq.releases.reading.forms import FormRow
from hsfiq.releases.reading.item_columns import ItemColumns
from hsfiq.releases.reading.question_reader import SELECTED, QuestionReader, Revision
from hsfiq.releases.reading.questions import Questions
from hsfiq.releases.rows import QueryRow, QuestionRow
from hsfiq.releases.schemas import FLAG, TEXT, WHOLE

OF_FORMS = {
    "participant_id": TEXT,
    "form": TEXT,
    "participant_status": TEXT,
    "failed_checks": WHOLE,
}
OF_IMAGES = {
    "images_painted": ("are_painted", FLAG),
    "images_enlarged": ("n_enlarged", WHOLE),
    "reference_state": ("reference", TEXT),
}
"""For each column the attribute of `ImageStates`, and the type."""
FEW = ("revision", "text_version", "language")
"""Columns of the answers with few values."""


class Part:
    """What was read together: forms, and their questions."""

    def __init__(
        self,
        source: QuestionReader,
        items: ItemColumns,
        forms: Sequence[FormRow],
        questions: pa.RecordBatch,
    ) -> None:
        self.source, self.items, self.forms = source, items, forms
        self._keys = questions.select(["key", "form_place", "place"])
        self.of_forms = {
            name: distinct(pa.array([self._value(form, name) for form in forms], kind))
            for name, kind in OF_FORMS.items()
        }
        self.id_beginnings = pa.array([id_of(form, "") for form in forms], TEXT)

    def _value(self, form: FormRow, name: str) -> Any:
        if name == "failed_checks":
            return self.source.failed_checks.get(form.key)
        return getattr(form, name)

    def question(self, form: FormRow, revision: Revision) -> QuestionRow:
        first = self.source.repeated.get(revision[0])
        repeats = None if first is None else self._ids.get(first)
        return self.source.question(form, [revision], repeats)

    @cached_property
    def _ids(self) -> dict[int, str]:
        """The ids of the questions by their database keys."""
        rows: Iterator[Any] = zip(
            *(column.to_pylist() for column in self._keys.columns), strict=True
        )
        return {key: id_of(self.forms[form], place) for key, form, place in rows}


def id_of(form: FormRow, place: int | str) -> str:
    return question_id(form.participant_id, form.form, place)


class PairQuestions(Questions):
    """Some questions of a part.

    `data` has what the database has of each question, with the places of its form in the part and
    of its pair in `ItemColumns`. The row of a question is made when it is asked for.
    """

    def __init__(self, part: Part, data: pa.RecordBatch) -> None:
        self.part, self.data = part, data
        self.items = part.items

    def __len__(self) -> int:
        return self.data.num_rows

    @overload
    def __getitem__(self, place: int) -> QuestionRow: ...
    @overload
    def __getitem__(self, place: slice) -> list[QuestionRow]: ...
    def __getitem__(self, place: int | slice) -> QuestionRow | list[QuestionRow]:
        if isinstance(place, slice):
            return [self._row(*stored) for stored in self._stored[place]]
        return self._row(*self._stored[place])

    def __iter__(self) -> Iterator[QuestionRow]:
        return (self._row(*stored) for stored in self._stored)

    @cached_property
    def _stored(self) -> list[tuple[int, int | None, Revision]]:
        """For each question the place of its form, its run, and its row as the database has it."""
        present = set(self.data.schema.names)
        columns: list[Iterable[Any]] = [
            self.data.column(name).to_pylist() if name in present else repeat(None)
            for name in SELECTED
        ]
        forms: list[Any] = self.data.column("form_place").to_pylist()
        runs = self.data.column("run").to_pylist()
        return list(zip(forms, runs, zip(*columns, strict=False), strict=True))

    def _row(self, form: int, run: int | None, revision: Revision) -> QuestionRow:
        row = self.part.question(self.part.forms[form], revision)
        row.run = run
        return row

    def filter(self, mask: Array) -> PairQuestions:
        return self if pc.all(mask).as_py() else PairQuestions(self.part, self.data.filter(mask))

    def having(self, name: str) -> PairQuestions:
        return self.filter(self.data.column(name).is_valid())

    def knows(self, name: str) -> bool:
        if name in OF_FORMS:
            return bool(self.of_forms(name).array.null_count < len(self))
        return self.data.column(name).null_count < len(self)

    def queries(self) -> dict[int, QueryRow]:
        of_questions: Array = pc.take(self.items.query_places, self.data.column("pair_place"))
        queries = [self.items.queries[place] for place in of_questions.unique().to_pylist()]
        return {query.key: query for query in queries}

    def participants(self) -> set[str]:
        places: list[Any] = self.data.column("form_place").unique().to_pylist()
        return {self.part.forms[place].participant_id for place in places}

    def with_runs(self, runs: Sequence[int | None]) -> PairQuestions:
        place = self.data.schema.get_field_index("run")
        data = self.data.set_column(place, "run", pa.array(runs, WHOLE))
        return PairQuestions(self.part, data)

    def values(self, name: str) -> Sequence[Any]:
        if name == "query":
            places: list[Any] = self.data.column("pair_place").to_pylist()
            return [self.items.rows[place].query for place in places]
        values: list[Any] = self.column(name).to_pylist()
        return values

    def column(self, name: str) -> Array | ByPlace:
        made: dict[str, Callable[[], Array | ByPlace]] = {
            "question_id": lambda: self.ids,
            "set_1": lambda: joined(self.ids, ".1"),
            "set_2": lambda: joined(self.ids, ".2"),
            "system_1": lambda: self.of_sets("system", 1),
            "system_2": lambda: self.of_sets("system", 2),
            "pair_id": lambda: self.of_pairs("pair_id"),
            "query_id": lambda: self.of_pairs("query_id"),
            "text": self._texts,
            **{each: partial(self._few, each) for each in FEW},
            **{each: partial(self.of_forms, each) for each in OF_FORMS},
            **{each: partial(self.of_images, each) for each in OF_IMAGES},
        }
        return made[name]() if name in made else self.data.column(name)

    @cached_property
    def ids(self) -> Array:
        beginnings = pc.take(self.part.id_beginnings, self.data.column("form_place"))
        return joined(beginnings, self.data.column("place").cast(TEXT))

    def of_forms(self, name: str) -> ByPlace:
        return self.part.of_forms[name].taken(self.data.column("form_place"))

    def of_pairs(self, name: str) -> ByPlace:
        return self.items.of_pairs[name].taken(self.data.column("pair_place"))

    def of_sets(self, name: str, side: int) -> ByPlace:
        return self.items.of_sets[name].taken(self.set_places(side))

    def set_places(self, side: int) -> Array:
        """The places of set 1 or 2, as shown, in `ItemColumns`."""
        first, second = (
            pc.take(places, self.data.column("pair_place")) for places in self.items.sets
        )
        straight, swapped = (first, second) if side == 1 else (second, first)
        return pc.if_else(self.data.column("swapped"), swapped, straight)

    def _few(self, name: str) -> ByPlace:
        return distinct(self.data.column(name))

    def _texts(self) -> Array | ByPlace:
        own, of_pairs = self.data.column("own_text"), self.of_pairs("text")
        return of_pairs if own.null_count == len(self) else pc.coalesce(own, of_pairs.array)

    def of_images(self, name: str) -> ByPlace:
        attribute, kind = OF_IMAGES[name]
        letters, places = encoded(self.data.column("images"))
        values = [getattr(ImageStates.from_letters(text), attribute) for text in letters]
        return distinct(pa.array(values, kind)).taken(places)
