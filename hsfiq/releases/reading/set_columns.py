"""The table `sets` of questions about pairs: two rows for each, set 1 first."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.compute as pc

from hsfiq.answer_rules import ImageStates
from hsfiq.arrow_columns import Array, ByPlace, Column, Values, encoded
from hsfiq.releases.reading.pair_questions import PairQuestions
from hsfiq.releases.rows import by_rank
from hsfiq.releases.schemas import POINTS, TEXTS, WHOLE, WHOLES
from hsfiq.releases.writing.tables import Columns


def set_columns(questions: PairQuestions) -> Columns:
    """The columns of `sets`."""
    numbers = pa.arange(0, 2 * len(questions))  # type: ignore[attr-defined] # not in its types
    rows = numbers.cast(WHOLE)
    of_question, side = pc.shift_right(rows, 1), pc.bit_wise_and(rows, 1)
    places = pc.add(of_question, pc.multiply(side, len(questions)))

    def by_turns(first: Array, second: Array) -> Array:
        return pc.take(pa.concat_arrays([first, second]), places)

    def twice(name: str) -> Column:
        column = questions.column(name)
        return (
            column.taken(of_question) if isinstance(column, ByPlace) else column.take(of_question)
        )

    data = questions.data
    sets = by_turns(questions.set_places(1), questions.set_places(2))
    orders = by_turns(data["order_1"], data["order_2"])
    return {
        "set_id": by_turns(questions.column("set_1"), questions.column("set_2")),
        "question_id": twice("question_id"),
        "side": pc.add(side, 1).cast(POINTS),
        "participant_id": twice("participant_id"),
        "query_id": twice("query_id"),
        "system": questions.items.of_sets["system"].taken(sets),
        "image_ids": questions.items.of_sets["image_ids"].taken(sets),
        "shown_order": shown_orders(orders),
        "image_states": image_states(data["images"].take(of_question), side, orders),
        "score": by_turns(data["score_1"], data["score_2"]),
    }


def shown_orders(orders: Array) -> ByPlace:
    texts, places = encoded(orders)
    return ByPlace(Values(pa.array(list(map(json.loads, texts)), WHOLES)), places)


def image_states(images: Array, side: Array, orders: Array) -> ByPlace:
    """The states by rank; they are the same for the same letters, side and order."""
    letters, of_letters = encoded(images)
    texts, of_orders = encoded(orders)
    of_orders = pc.fill_null(of_orders, len(texts))
    code = pc.add(pc.multiply(pc.add(pc.multiply(of_letters, len(texts) + 1), of_orders), 2), side)
    codes, places = encoded(code)
    by_order = [*map(json.loads, texts), None]
    states = []
    for each in codes:
        of_letter, rest = divmod(each, 2 * len(by_order))
        sets = ImageStates.from_letters(letters[of_letter]).sets
        states.append(by_rank(sets[rest % 2], by_order[rest // 2]))
    return ByPlace(Values(pa.array(states, TEXTS)), places)
