"""`images`: which images of one set fit, on a scale of 2 to 5 levels from 0.

Its release has the level of each image, and `qrels.txt` of all answers together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any

from hsfiq.answer_rules import Answer
from hsfiq.errors import Refused
from hsfiq.kinds import kind, tables
from hsfiq.kinds.rows import QuestionRow, Questions, TableRows, answer_row, set_rows


def read(given: Mapping[str, Any], rules: kind.Rules) -> dict[str, Any]:
    """The level of each image, in the order in which the images were shown."""
    kind.require_keys(given, "relevance")
    levels = given["relevance"]
    if not isinstance(levels, list) or len(levels) != rules.k:
        raise Refused(f"judgement: relevance must have the levels of {rules.k} images")
    return {
        "relevance": [
            kind.require_whole_number("the level of an image", level, 0, rules.levels - 1)
            for level in levels
        ]
    }


def summary(judgement: Mapping[str, Any]) -> str:
    return "images: " + " ".join(map(str, judgement["relevance"]))


def repeats(first: kind.ShownAnswer, again: kind.ShownAnswer, rules: kind.Rules) -> bool:
    """The levels of an image differ, on average, by a quarter of the scale at most."""
    pairs = list(zip(levels_by_rank(first), levels_by_rank(again), strict=True))
    differences = sum(abs(level - other) for level, other in pairs)
    return differences <= kind.SAME_WITHIN * (rules.levels - 1) * len(pairs)


def levels_by_rank(answer: kind.ShownAnswer) -> list[int]:
    levels: list[int] = answer.values["relevance"]
    if answer.images is None:
        return levels
    return [level for _, level in sorted(zip(answer.images, levels, strict=True))]


def expected(text: str, rules: kind.Rules) -> dict[str, Any]:
    """`1 3 4`: the images that fit, counted from the left; the others do not fit at all."""
    return {"fitting": sorted(kind.whole_numbers(text, rules.k))}


PRACTICE = kind.Practice(
    read=expected, drawn=lambda rules, _place: {"fitting": list(range(1, rules.k + 1))}
)


def target_among_far_images(draw: kind.GoldDraw) -> kind.GoldQuestion:
    """The target among random images should be the one that fits."""
    k = draw.rules.k
    images = draw.far_images(k - 1)
    place = draw.rng.randrange(k)
    images.insert(place, draw.target())
    order = draw.order()
    shown = place if order is None else order.index(place)
    return kind.GoldQuestion([images], str(shown + 1), [order])


def finds_target(expected: str, values: Mapping[str, Any]) -> bool:
    """The planted target, the image with this number, has a higher level than every other one."""
    levels = list(values["relevance"])
    target = levels.pop(int(expected) - 1)
    return bool(target > max(levels, default=0))


GOLD = kind.Gold(
    draw=target_among_far_images,
    passes=finds_target,
    words=lambda expected: f"image {expected}, the target, should match better than all others",
    needs_target=True,
)


def simulated(
    annotator: kind.SimulatedAnnotator, rng: Random, question: kind.SeenQuestion
) -> Answer:
    """The level of each image, by an impression of its own utility."""
    (utilities,), levels = question.image_utilities(), question.rules.levels
    scores = [annotator.score(rng, each, progress=question.progress) for each in utilities]
    # Of five scores, as many levels: 1 is always the lowest and 5 the highest.
    return kind.timed(annotator, rng, relevance=[(score - 1) * levels // 5 for score in scores])


SET = tables.Column("set_id", tables.TEXT, "the set", refers_to="sets.set_id")
JUDGEMENTS = tables.Table(
    "judgements",
    "one row a question: the set, flags and times",
    (*tables.ASKED, SET, tables.SYSTEM, *tables.ANSWERED),
    key=("question_id",),
)
RELEVANCE = tables.Table(
    "relevance",
    "one row an image of a question's set: its level, from 0 (does not fit)",
    (
        *tables.IDS,
        SET,
        tables.SYSTEM,
        tables.Column("rank", tables.WHOLE, "of the image in the set, from 1", lowest=1),
        tables.Column("image_id", tables.TEXT, "the image"),
        tables.Column("relevance", tables.POINTS, "the level, from 0", "levels", lowest=0),
    ),
    key=("question_id", "rank"),
)
UNSCORED_SETS = tables.Table(
    "sets",
    "one row a retrieved set as judged: its images, best first; sets have no score",
    (
        *tables.SET_COLUMNS,
        replace(tables.SCORE, null="images were judged, and not the set: always"),
    ),
    key=("set_id",),
)


def table_rows(kept: Questions) -> dict[str, TableRows]:
    return {
        "judgements": [
            answer_row(question, set_id=question.set_1, system=question.system_1)
            for question in kept
        ],
        "relevance": [row for question in kept for row in image_rows(question)],
        "sets": [row for question in kept for row in set_rows(question)],
    }


def image_rows(question: QuestionRow) -> Iterator[dict[str, Any]]:
    """A row for each image, best first."""
    (retrieved,), shown = question.sets, question.judged("relevance")
    order = question.orders[0] or range(len(shown))
    level_of = dict(zip(order, shown, strict=True))
    for place, image_id in enumerate(retrieved.image_ids):
        yield {
            "question_id": question.question_id,
            "participant_id": question.participant_id,
            "query_id": question.query_id,
            "set_id": question.set_1,
            "system": question.system_1,
            "rank": place + 1,
            "image_id": image_id,
            "relevance": level_of[place],
        }


def judgement(_row: kind.Row, parts: Mapping[str, Sequence[kind.Row]]) -> dict[str, Any]:
    """The levels in the order in which the images were shown."""
    by_place = {row["rank"] - 1: row["relevance"] for row in parts["relevance"]}
    order = parts["sets"][0]["shown_order"] or range(len(by_place))
    return {"relevance": [by_place[place] for place in order]}


CHECKS_OF_RELEVANCE = (
    kind.RowCheck(
        "rank",
        "is {rank}, and {set} has {images} images",
        "rank not between 1 and images",
        {"rank": "t.rank", "set": "t.set_id", "images": "coalesce(len(s.image_ids), 0)"},
        sets="t.set_id",
    ),
    kind.RowCheck(
        "image_id",
        "is {image}, and in sets.parquet {own}",
        "own is distinct from image and rank between 1 and images",
        {
            "image": "t.image_id",
            "own": "s.image_ids[t.rank]",
            "rank": "t.rank",
            "images": "len(s.image_ids)",
        },
        sets="t.set_id",
    ),
)


IMAGES = kind.Kind(
    name="images",
    asks="says which images of one set fit",
    n_sets=lambda _: 1,
    options=frozenset(
        {
            *("design.levels", "checks.gold", "checks.repeated"),
            *("wording.levels", "wording.image", "wording.irrelevant"),
        }
    ),
    read=read,
    summary=summary,
    repeats=repeats,
    releases=(
        kind.ReleaseKind(
            name="images",
            about="human judgements of each image of a retrieved set",
            main="judgements",
            own_tables=(JUDGEMENTS, RELEVANCE, UNSCORED_SETS),
            tables=table_rows,
            judgement=judgement,
            restored_from=("relevance",),
            checks={
                "judgements": kind.about_one_set("system"),
                "relevance": CHECKS_OF_RELEVANCE,
                "sets": kind.OF_SETS,
            },
            files=("qrels.txt",),
            sets_are="sets with judged images",
        ),
    ),
    practice=PRACTICE,
    simulated=simulated,
    gold=GOLD,
    scale="levels",
)
