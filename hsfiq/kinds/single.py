"""`single`: one set and its score; no second system is needed."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

from hsfiq.answer_rules import Answer
from hsfiq.errors import Refused
from hsfiq.kinds import kind
from hsfiq.kinds.rows import Questions, TableRows, answer_row, set_rows
from hsfiq.kinds.tables import ANSWERED, ASKED, SCORE, SETS, SYSTEM, TEXT, Column, Table


def read(given: Mapping[str, Any], rules: kind.Rules) -> dict[str, Any]:
    kind.require_keys(given, "score")
    return {"score": kind.require_whole_number("the score", given["score"], 1, rules.points)}


def summary(judgement: Mapping[str, Any]) -> str:
    return f"score {judgement['score']}"


def repeats(first: kind.ShownAnswer, again: kind.ShownAnswer, rules: kind.Rules) -> bool:
    """The scores differ by a quarter of the scale at most: of five points, by one."""
    difference = abs(first.values["score"] - again.values["score"])
    return bool(difference <= kind.SAME_WITHIN * (rules.points - 1))


def expected(text: str, rules: kind.Rules) -> dict[str, Any]:
    """`4` or `4-5`: the lowest and the highest score that is right."""
    lowest, _, highest = text.partition("-")
    if not all(part.strip().isdecimal() for part in (lowest, highest or lowest)):
        raise Refused(f"{text[:40]!r} is not a score such as 4, or a range of scores such as 4-5")
    scores = [
        kind.require_whole_number("a score", int(part), 1, rules.points)
        for part in (lowest, highest or lowest)
    ]
    if scores != sorted(scores):
        raise Refused(f"{text[:40]!r} begins with the higher score")
    return {"lowest": scores[0], "highest": scores[1]}


PRACTICE = kind.Practice(
    read=expected,
    drawn=lambda rules, _place: {
        "lowest": lowest_good_score(rules.points),
        "highest": rules.points,
    },
)


def lowest_good_score(points: int) -> int:
    """The lowest score, on a scale of so many points, that suits a set that matches well."""
    return points // 2 + 2


def far_images(draw: kind.GoldDraw) -> kind.GoldQuestion:
    """Random images should have a score below the middle of the scale."""
    sets = [draw.far_images(draw.rules.k)]
    return kind.GoldQuestion(sets, str(draw.rules.points // 2), [draw.order()])


GOLD = kind.Gold(
    draw=far_images,
    passes=lambda expected, values: values["score"] <= int(expected),
    words=lambda expected: f"random images: a score of {expected} or less is right",
)


def simulated(
    annotator: kind.SimulatedAnnotator, rng: Random, question: kind.SeenQuestion
) -> Answer:
    (utility,) = question.utilities()
    points = question.rules.points
    score = annotator.score(rng, utility, progress=question.progress, points=points)
    return kind.timed(annotator, rng, score=score)


SCORES = Table(
    "scores",
    "one row a question: the set's score from 1, flags and times",
    (
        *ASKED,
        Column("set_id", TEXT, "the set", refers_to="sets.set_id"),
        SYSTEM,
        SCORE,
        *ANSWERED,
    ),
    key=("question_id",),
)


def table_rows(kept: Questions) -> dict[str, TableRows]:
    return {
        "scores": [
            answer_row(
                question,
                set_id=question.set_1,
                system=question.system_1,
                score=question.judged("score"),
            )
            for question in kept
        ],
        "sets": [
            row for question in kept for row in set_rows(question, score=[question.judged("score")])
        ],
    }


SINGLE = kind.Kind(
    name="single",
    asks="scores one set",
    n_sets=lambda _: 1,
    options=frozenset(
        {
            *("checks.gold", "checks.repeated"),
            *("wording.anchors", "wording.score", "wording.irrelevant"),
        }
    ),
    read=read,
    summary=summary,
    repeats=repeats,
    releases=(
        kind.ReleaseKind(
            name="single",
            about="human scores of retrieved sets, each shown alone,",
            main="scores",
            own_tables=(SCORES, SETS),
            tables=table_rows,
            judgement=lambda row, _parts: {"score": row["score"]},
            checks={"scores": kind.about_one_set("score", "system"), "sets": kind.OF_SETS},
        ),
    ),
    practice=PRACTICE,
    simulated=simulated,
    gold=GOLD,
    scale="points",
)
