"""`query`: whether the query is well formed, by the rubric of CIRCUS (arXiv 2605.14787)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hsfiq.errors import Refused
from hsfiq.kinds.kind import Kind, Rules, ShownAnswer, require_keys

VERDICTS = (
    "VALIDATED",
    "INVALID_TEXT_QUERY",
    "INVALID_IMAGE_QUERY",
    "INVALID_TARGET_IMAGE",
    "QUERY_TOO_BROAD",
)
"""The rubric's answers, in the order of the page."""

OF_TARGET = "INVALID_TARGET_IMAGE"


def read(given: Mapping[str, Any], rules: Rules) -> dict[str, Any]:
    require_keys(given, "verdict")
    return read_verdict(given["verdict"], rules)


def read_verdict(verdict: object, rules: Rules) -> dict[str, Any]:
    if verdict not in VERDICTS:
        raise Refused(f"the verdict is not one of {', '.join(VERDICTS)}")
    if verdict == OF_TARGET and rules.n_sets == 0:
        raise Refused("the verdict is about the target image, which this study does not show")
    return {"verdict": verdict}


def expected(text: str, rules: Rules) -> dict[str, Any]:
    return read_verdict(text.strip(), rules)


def summary(judgement: Mapping[str, Any]) -> str:
    return str(judgement["verdict"])


def repeats(first: ShownAnswer, again: ShownAnswer, _rules: Rules) -> bool:
    return bool(first.values["verdict"] == again.values["verdict"])


QUERY = Kind(
    name="query",
    asks="says whether the query is well formed",
    n_sets=lambda options: 1 if options.show_target else 0,
    options=frozenset({"design.show_target", "checks.repeated", "wording.query"}),
    expected=expected,
    repeats=repeats,
    read=read,
    summary=summary,
    needs_lists=False,
)
