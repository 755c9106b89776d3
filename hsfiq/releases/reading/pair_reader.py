"""Reading the questions of a study of pairs as columns, with their latest answers."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
from sqlalchemy.orm import Session

from hsfiq.arrow_columns import Array, combined
from hsfiq.db.tables import Study
from hsfiq.releases.reading.forms import FormRow
from hsfiq.releases.reading.item_columns import ItemColumns
from hsfiq.releases.reading.pair_questions import PairQuestions, Part
from hsfiq.releases.reading.question_csv import KEY, read_questions
from hsfiq.releases.reading.question_reader import QuestionReader, time_spent
from hsfiq.releases.schemas import NUMBER, WHOLE


class PairReader(QuestionReader):
    """Reads the questions of some forms as columns."""

    def __init__(self, session: Session, study: Study) -> None:
        super().__init__(session, study)
        self.items = ItemColumns(self.pairs)

    def read(self, forms: Sequence[FormRow]) -> PairQuestions:
        """The questions of forms, all forms of each of their participants."""
        keys = [form.key for form in forms]
        table = read_questions(self.session, keys)
        data = {name: combined(table[name]) for name in table.column_names}
        data["form_place"] = pc.index_in(data["form_key"], value_set=pa.array(keys, KEY))
        if keys != sorted(keys):
            order = pc.array_sort_indices(data["form_place"])  # a form's rows stay in their order
            data = {name: values.take(order) for name, values in data.items()}
        data["pair_place"] = pc.index_in(data["pair_key"], value_set=self.items.keys)
        data["revision"] = pc.fill_null(data["revision"], 0)
        data["run"] = pa.nulls(table.num_rows, WHOLE)
        questions = of_last_revisions(data)
        return PairQuestions(Part(self, self.items, forms, questions), questions)


def of_last_revisions(data: dict[str, Array]) -> pa.RecordBatch:
    """The rows with the last revision of each question, and the time of all of its revisions."""
    keys, batch = data["key"], pa.RecordBatch.from_pydict(data)
    n_rows = len(keys)
    if not n_rows:
        return batch
    is_last = pa.concat_arrays([pc.not_equal(keys[1:], keys[:-1]), pa.array([True])])
    ends = pc.add(pc.indices_nonzero(is_last), 1).cast(WHOLE)
    if len(ends) == n_rows:
        return batch
    firsts = pa.concat_arrays([pa.array([0], WHOLE), ends[:-1]])
    batch = batch.filter(is_last)
    last = batch.column("active_seconds")
    spent = seconds_of_all(data["active_seconds"], last, firsts, ends)
    return batch.set_column(batch.schema.get_field_index("active_seconds"), "active_seconds", spent)


def seconds_of_all(every_spent: Array, last: Array, firsts: Array, ends: Array) -> Array:
    """The time of the last revision, or of all revisions if there are several."""
    is_revised = pc.greater(pc.subtract(ends, firsts), pa.scalar(1, WHOLE))
    seconds = every_spent.to_pylist()
    revised = (places.filter(is_revised).to_pylist() for places in (firsts, ends))
    sums = [time_spent(seconds[first:end]) for first, end in zip(*revised, strict=True)]
    return pc.replace_with_mask(last, is_revised, pa.array(sums, NUMBER))
