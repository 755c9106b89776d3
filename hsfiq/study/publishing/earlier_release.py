"""What a study keeps of the release that it was imported from, in its design.

The rows of `exclusions` and of `repeats` are about questions that the release does not have, so
they cannot become rows of the database.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

KEY = "imported_release"
UNANSWERED = ("unanswered", "no response")
WITHOUT_ANSWER = ("handed-on", "check")
"""The rules that say nothing of an answer."""


def without_answers_of(design: Mapping[str, Any], participant: str) -> dict[str, Any]:
    """The design without what a participant answered to questions that were dropped.

    These questions count as unanswered, as in a release of a study whose participant was forgotten.
    """
    earlier = design.get(KEY)
    if earlier is None:
        return dict(design)
    dropped, broken_by = Counter[str](), Counter[str]()
    exclusions = []
    for row in earlier["exclusions"]:
        new = unanswered(row) if row["participant_id"] == participant else row
        exclusions.append(new)
        for each, sign in ((row, -1), (new, 1)):
            dropped[each["rule"]] += sign
            for rule in rules_of(each):
                broken_by[rule] += sign
    repeats = [row for row in earlier["repeats"] if row["participant_id"] != participant]
    steps = [moved(step, dropped, broken_by) for step in earlier["steps"]]
    changed = {"exclusions": exclusions, "repeats": repeats, "steps": steps}
    return {**design, KEY: {**earlier, **changed}}


def unanswered(row: Mapping[str, Any]) -> dict[str, Any]:
    kept = [
        (rule, value)
        for rule, value in zip(rules_of(row), row.get("values") or [row["value"]], strict=True)
        if rule in WITHOUT_ANSWER
    ]
    rules, values = zip(*kept, UNANSWERED, strict=True)
    changed = {"rule": rules[0], "value": values[0], "rules": [*rules], "values": [*values]}
    return {**row, **changed}


def rules_of(row: Mapping[str, Any]) -> list[str]:
    return row.get("rules") or [row["rule"]]


def moved(
    step: Mapping[str, Any], dropped: Mapping[str, int], broken_by: Mapping[str, int]
) -> dict[str, Any]:
    """A step of the funnel with its counts changed; what was not recorded stays unknown."""
    changes = {"dropped": dropped.get(step["rule"], 0), "broken_by": broken_by.get(step["rule"], 0)}
    changed = {
        name: step[name] + change
        for name, change in changes.items()
        if change and step.get(name) is not None
    }
    return {**step, **changed}
