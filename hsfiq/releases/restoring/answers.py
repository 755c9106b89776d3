"""The rows of a release as responses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from hsfiq.answer_rules import ImageState, ImageStates
from hsfiq.kinds import KINDS
from hsfiq.kinds.search import WHYS
from hsfiq.releases.restoring.rows import Row
from hsfiq.study.instrument import ExtraQuestion

AS_IN_RELEASE = (
    *("irrelevant", "revision", "served_at", "first_interaction_at", "submitted_at"),
    *("active_seconds", "text_version", "language"),
)


def response_values(
    kind: str, question_id: int, row: Row, sets: Sequence[Row], relevance: Sequence[Row]
) -> dict[str, Any]:
    """The columns of the response to a question, but for its reason and the extra answers."""
    values = {name: row.get(name) for name in AS_IN_RELEASE}
    values |= {"question_id": question_id, "submit_key": "imported"}
    values["images"] = letters_of(kind, row, sets)
    if kind == "pair":
        names = ("score_1", "score_2", "preferred", "confirmed")
        return values | {name: row.get(name) for name in names} | {"judgement": None}
    judgement = JUDGEMENTS[kind](row, sets, relevance)
    return values | {"judgement": judgement}


def levels(_row: Row, sets: Sequence[Row], relevance: Sequence[Row]) -> dict[str, Any]:
    """The levels in the order in which the images were shown."""
    by_place = {row["rank"] - 1: row["relevance"] for row in relevance}
    order = sets[0]["shown_order"] or range(len(by_place))
    return {"relevance": [by_place[place] for place in order]}


def search_as_judged(row: Row, _sets: Sequence[Row], _relevance: Sequence[Row]) -> dict[str, Any]:
    """How a search went; why it stopped, if the participant was asked."""
    stop = row["stop"]
    values = {name: row[name] for name in ("success", "ease", "would_go_on")}
    return {**values, "why": stop if stop in WHYS else None}


JUDGEMENTS: dict[str, Callable[[Row, Sequence[Row], Sequence[Row]], dict[str, Any]]] = {
    "single": lambda row, _sets, _relevance: {"score": row["score"]},
    "ranking": lambda row, _sets, _relevance: {"ranks": row["ranks"]},
    "images": levels,
    "query": lambda row, _sets, _relevance: {"verdict": row["verdict"]},
    "search": search_as_judged,
    "arena": search_as_judged,
}
"""The judgement of each kind but `pair`, of a row of the main table and those of its sets."""


# ------------------------------------------------------------------------------------------ images


def letters_of(kind: str, row: Row, sets: Sequence[Row]) -> str | None:
    """The states of the images in the order shown; None if they are unknown."""
    if row.get("images_painted") is None:
        return None
    reference: ImageState | None = row.get("reference_state")
    if KINDS[kind].is_live:
        return ImageStates(reference, ()).letters
    if sets:
        return ImageStates(reference, tuple(map(states_as_shown, sets))).letters
    return ImageStates(reference, (target_states(row, reference),)).letters


def states_as_shown(row: Row) -> tuple[ImageState, ...]:
    states, order = row["image_states"] or (), row["shown_order"]
    return tuple(states) if order is None else tuple(states[place] for place in order)


def target_states(row: Row, reference: ImageState | None) -> tuple[ImageState, ...]:
    """The state of the target, of which releases have only what it adds to the counts."""
    if row["images_enlarged"] > (reference == "enlarged"):
        return ("enlarged",)
    if row["images_painted"]:
        return ("shown",)
    return () if reference not in (None, "shown", "enlarged") else ("loaded",)


# ----------------------------------------------------------------------------------- extra answers


def extra_answers(
    questions: Mapping[str, ExtraQuestion], rows: Iterable[Row]
) -> dict[str, Any] | None:
    """The answers by the question's name; None if none was asked."""
    answers: dict[str, Any] = {}
    n_rows = 0
    for row in rows:
        n_rows += 1
        question, number, value = questions[row["field"]], row["number"], row["value"]
        if number is None and value is None:
            continue
        if question.type == "text":
            answers[question.name] = value
        elif question.type == "number":
            answers[question.name] = number
        elif question.type == "choices":
            answers.setdefault(question.name, []).append(chosen_part(question, number, value))
        else:
            answers[question.name] = chosen_part(question, number, value)
    return answers if n_rows else None


def chosen_part(question: ExtraQuestion, number: float, value: str | None) -> int | str:
    """An option's number, or the text of "Other"; without its text, the number of "Other"."""
    is_other = number == question.number_of_other
    return value if is_other and value is not None else int(number)
