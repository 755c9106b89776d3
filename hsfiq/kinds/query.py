"""`query`: whether the query is well formed, by the rubric of CIRCUS (arXiv 2605.14787)."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

from hsfiq.answer_rules import Answer
from hsfiq.errors import Refused
from hsfiq.kinds import kind
from hsfiq.kinds.rows import Questions, TableRows, answer_row
from hsfiq.kinds.tables import ANSWERED, ASKED, TEXT, Column, Table

VERDICTS = (
    "VALIDATED",
    "INVALID_TEXT_QUERY",
    "INVALID_IMAGE_QUERY",
    "INVALID_TARGET_IMAGE",
    "QUERY_TOO_BROAD",
)
"""The rubric's answers, in the order of the page."""

OF_TARGET = "INVALID_TARGET_IMAGE"


def read(given: Mapping[str, Any], rules: kind.Rules) -> dict[str, Any]:
    kind.require_keys(given, "verdict")
    return read_verdict(given["verdict"], rules)


def read_verdict(verdict: object, rules: kind.Rules) -> dict[str, Any]:
    if verdict not in VERDICTS:
        raise Refused(f"the verdict is not one of {', '.join(VERDICTS)}")
    if verdict == OF_TARGET and rules.n_sets == 0:
        raise Refused("the verdict is about the target image, which this study does not show")
    return {"verdict": verdict}


def summary(judgement: Mapping[str, Any]) -> str:
    return str(judgement["verdict"])


def repeats(first: kind.ShownAnswer, again: kind.ShownAnswer, _rules: kind.Rules) -> bool:
    return bool(first.values["verdict"] == again.values["verdict"])


def expected(text: str, rules: kind.Rules) -> dict[str, Any]:
    return read_verdict(text.strip(), rules)


PRACTICE = kind.Practice(read=expected, drawn=lambda _rules, _place: {"verdict": VERDICTS[0]})


def simulated(
    annotator: kind.SimulatedAnnotator, rng: Random, question: kind.SeenQuestion
) -> Answer:
    """It is well formed, unless the target does not fit or the annotator lapses."""
    utilities = question.utilities()
    if rng.random() < annotator.lapse_rate:
        known = [verdict for verdict in VERDICTS if utilities or verdict != OF_TARGET]
        return kind.timed(annotator, rng, verdict=rng.choice(known))
    misses = any(annotator.finds_irrelevant(utility) for utility in utilities)
    return kind.timed(annotator, rng, verdict=OF_TARGET if misses else "VALIDATED")


QUERY_RATINGS = Table(
    "query_ratings",
    "one row a question: the verdict on the query, flags and times",
    (
        *ASKED,
        Column(
            "verdict",
            TEXT,
            "VALIDATED, INVALID_TEXT_QUERY, INVALID_IMAGE_QUERY, INVALID_TARGET_IMAGE or "
            "QUERY_TOO_BROAD (the rubric of CIRCUS)",
            values=VERDICTS,
        ),
        *ANSWERED,
    ),
    key=("question_id",),
)


def table_rows(kept: Questions) -> dict[str, TableRows]:
    return {
        "query_ratings": [
            answer_row(question, verdict=question.judged("verdict")) for question in kept
        ]
    }


QUERY = kind.Kind(
    name="query",
    asks="says whether the query is well formed",
    n_sets=lambda options: 1 if options.show_target else 0,
    options=frozenset({"design.show_target", "checks.repeated", "wording.query"}),
    read=read,
    summary=summary,
    repeats=repeats,
    releases=(
        kind.ReleaseKind(
            name="query",
            about="human judgements of whether queries are well formed,",
            main="query_ratings",
            own_tables=(QUERY_RATINGS,),
            tables=table_rows,
            judgement=lambda row, _parts: {"verdict": row["verdict"]},
            checks={"query_ratings": (kind.is_of_query(),)},
            sets_are="",
        ),
    ),
    practice=PRACTICE,
    simulated=simulated,
    needs_lists=False,
)
