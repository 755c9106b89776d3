"""`ranking`: three to five sets in order; ties only where the study allows them."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

from hsfiq.answer_rules import Answer
from hsfiq.errors import Refused
from hsfiq.ids import set_id
from hsfiq.kinds import kind, tables
from hsfiq.kinds.rows import Questions, TableRows, answer_row, set_rows


def read(given: Mapping[str, Any], rules: kind.Rules) -> dict[str, Any]:
    """The rank of each set as shown, 1 for the best; of tied sets, both have the better rank."""
    kind.require_keys(given, "ranks")
    ranks = given["ranks"]
    if not isinstance(ranks, list) or len(ranks) != rules.n_sets:
        raise Refused(f"judgement: ranks must have the ranks of {rules.n_sets} sets")
    read_ranks = [kind.require_whole_number("a rank", rank, 1, rules.n_sets) for rank in ranks]
    if len(set(read_ranks)) < len(read_ranks) and not rules.ties:
        raise Refused("this study does not allow ties: each set must have another rank")
    return {"ranks": [1 + sum(other < rank for other in read_ranks) for rank in read_ranks]}


def summary(judgement: Mapping[str, Any]) -> str:
    return "ranks: " + " ".join(map(str, judgement["ranks"]))


def repeats(first: kind.ShownAnswer, again: kind.ShownAnswer, _rules: kind.Rules) -> bool:
    """The same set has rank 1, or the same sets if several are tied."""
    return best_places(first) == best_places(again)


def best_places(answer: kind.ShownAnswer) -> set[int]:
    ranks = zip(answer.sets, answer.values["ranks"], strict=True)
    return {place for place, rank in ranks if rank == 1}


def expected(text: str, rules: kind.Rules) -> dict[str, Any]:
    """`2 1 3`: the sets, best first; of those left out, every order after them is right."""
    return {"order": kind.whole_numbers(text, rules.n_sets)}


PRACTICE = kind.Practice(read=expected, drawn=lambda _rules, place: {"order": [place]})


def systems_and_far_images(draw: kind.GoldDraw) -> kind.GoldQuestion:
    """Random images should come after the sets of the systems."""
    n_sets = draw.rules.n_sets
    sets = [*draw.lists(n_sets - 1), draw.far_images(draw.rules.k)]
    set_order = draw.rng.sample(range(n_sets), n_sets)
    return kind.GoldQuestion(
        sets,
        expected=str(set_order.index(n_sets - 1) + 1),
        orders=[draw.order() for _ in range(n_sets)],
        set_order=set_order,
    )


def puts_last(expected: str, values: Mapping[str, Any]) -> bool:
    """The planted random set, the one with this number, comes after every other one."""
    ranks = list(values["ranks"])
    return bool(ranks.pop(int(expected) - 1) > max(ranks))


GOLD = kind.Gold(
    draw=systems_and_far_images,
    passes=puts_last,
    words=lambda expected: f"set {expected}, of random images, should come last",
)


def simulated(
    annotator: kind.SimulatedAnnotator, rng: Random, question: kind.SeenQuestion
) -> Answer:
    """The order of the sets by the annotator's impressions of them."""
    impressions = [annotator.impression(rng, utility) for utility in question.utilities()]
    order = sorted(range(len(impressions)), key=lambda side: -impressions[side])
    ranks = [order.index(side) + 1 for side in range(len(impressions))]
    return kind.timed(annotator, rng, ranks=ranks)


RANKINGS = tables.Table(
    "rankings",
    "one row a question: its sets as shown and their ranks, flags and times",
    (
        *tables.ASKED,
        tables.Column("set_ids", tables.TEXTS, "in the order shown", refers_to="sets.set_id"),
        tables.Column(
            "systems", tables.TEXTS, "in the order shown; null in it if systems were not named"
        ),
        tables.Column(
            "ranks",
            tables.WHOLES,
            "in the order shown; 1 is the best, and tied sets have the same rank",
            lowest=1,
        ),
        *tables.ANSWERED,
    ),
    key=("question_id",),
)
RANKED_SETS = tables.Table(
    "sets",
    "one row a retrieved set as judged: its images, best first, and its rank",
    (
        *tables.SET_COLUMNS,
        tables.Column(
            "rank", tables.POINTS, "1 is the best; tied sets have the same rank", lowest=1
        ),
    ),
    key=("set_id",),
)


def table_rows(kept: Questions) -> dict[str, TableRows]:
    return {
        "rankings": [
            answer_row(
                question,
                set_ids=[
                    set_id(question.question_id, side) for side in range(1, len(question.sets) + 1)
                ],
                systems=[retrieved.system for retrieved in question.sets],
                ranks=question.judged("ranks"),
            )
            for question in kept
        ],
        "sets": [
            row for question in kept for row in set_rows(question, rank=question.judged("ranks"))
        ],
    }


LENGTHS = {
    "sets": "coalesce(len(t.set_ids), 0)",
    "ranks": "coalesce(len(t.ranks), 0)",
    "systems": "coalesce(len(t.systems), 0)",
}
OF_EACH_SET = {
    **LENGTHS,
    "name": "u.name",
    "expected": "t.question_id || '.' || u.side",
    "rank": "u.rank",
    "system": "u.system",
}
AS_LONG = "sets = ranks and sets = systems"
EACH_SET = """cross join lateral (
    select unnest(t.set_ids) as name, unnest(t.ranks) as rank, unnest(t.systems) as system,
           generate_subscripts(t.set_ids, 1) as side
) u"""
CHECKS = (
    kind.RowCheck(
        "ranks", "are {ranks}, of {sets} sets and {systems} systems", f"not ({AS_LONG})", LENGTHS
    ),
    kind.RowCheck(
        "set_ids",
        "has {name}, not {expected}",
        f"name is distinct from expected and {AS_LONG}",
        OF_EACH_SET,
        unnested=EACH_SET,
    ),
    kind.RowCheck(
        "ranks",
        "{name} has {rank}, and in sets.parquet {own}",
        f"rank is distinct from own and {AS_LONG}",
        {**OF_EACH_SET, "own": "s.rank"},
        sets="u.name",
        unnested=EACH_SET,
    ),
    kind.RowCheck(
        "systems",
        "{name} is of {system}, and in sets.parquet of {own}",
        f"system is distinct from own and {AS_LONG}",
        {**OF_EACH_SET, "own": "s.system"},
        sets="u.name",
        unnested=EACH_SET,
    ),
    kind.is_of_query(),
)


RANKING = kind.Kind(
    name="ranking",
    asks="puts three to five sets in order",
    n_sets=lambda options: options.sets,
    options=frozenset(
        {
            *("design.sets", "design.preference_ties", "checks.gold", "checks.repeated"),
            *("wording.rank", "wording.irrelevant"),
        }
    ),
    read=read,
    summary=summary,
    repeats=repeats,
    releases=(
        kind.ReleaseKind(
            name="ranking",
            about="human rankings of retrieved sets",
            main="rankings",
            own_tables=(RANKINGS, RANKED_SETS),
            tables=table_rows,
            judgement=lambda row, _parts: {"ranks": row["ranks"]},
            checks={"rankings": CHECKS, "sets": kind.OF_SETS},
            sets_are="ranked sets",
            tags=("human-feedback", "preference"),
        ),
    ),
    practice=PRACTICE,
    simulated=simulated,
    gold=GOLD,
)
