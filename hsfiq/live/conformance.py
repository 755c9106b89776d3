"""Whether a server follows the protocol: each rule is tried and reported by its name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import httpx

from hsfiq.live.client import LiveRetriever
from hsfiq.live.conformance_rules import RULES, FileOf, NotTried, Rule, Subject
from hsfiq.live.protocol import (
    LONGEST_ID,
    LONGEST_NAME,
    RetrieverFaulty,
    RetrieverRefused,
    RetrieverUnavailable,
    harmless,
)


@dataclass(frozen=True, slots=True)
class Result:
    """A rule with what it expects.

    Attributes:
        came: what the server did instead; empty if it complies.
        not_tried: why the rule was not tried; empty if it was.
    """

    name: str
    expected: str
    came: str = ""
    not_tried: str = ""

    @property
    def outcome(self) -> Literal["ok", "FAIL", "not tried"]:
        if self.not_tried:
            return "not tried"
        return "FAIL" if self.came else "ok"


@dataclass(frozen=True, slots=True)
class Conformance:
    url: str
    results: tuple[Result, ...]

    @property
    def failed(self) -> list[Result]:
        return [result for result in self.results if result.came]

    def to_json(self) -> dict[str, Any]:
        rules = [
            {
                "rule": each.name,
                "outcome": each.outcome.lower(),
                "expected": each.expected,
                "came": each.came or None,
                "reason": each.not_tried or None,
            }
            for each in self.results
        ]
        return {"url": self.url, "conforms": not self.failed, "rules": rules}

    def as_text(self) -> str:
        lines = []
        for each in self.results:
            lines.append(f"{each.outcome:9}  {each.name}: {each.expected}")
            if each.came:
                lines.append(f"{'':9}  came: {each.came}")
            if each.not_tried:
                lines.append(f"{'':9}  {each.not_tried}")
        return "\n".join(lines)


def check_conformance(retriever: LiveRetriever, file_of: FileOf | None = None) -> Conformance:
    """Try every rule; `RetrieverUnavailable` if the server cannot be reached.

    With `file_of`, an image of the corpus is also sent as one that the server does not have.
    """
    expected = (
        "GET /v1/system and /v1/corpus describe the system and its images; versions and names have "
        f"{LONGEST_NAME} characters or fewer, ids {LONGEST_ID}, and none is a control character"
    )
    try:
        reachable = retriever.request("GET", "/v1/system")
    except RetrieverFaulty as error:
        return Conformance(retriever.url, (Result("system", expected, str(error)),))
    if reachable.status_code == httpx.codes.SERVICE_UNAVAILABLE:
        raise RetrieverUnavailable(retriever.url, "is still loading", "check again later")
    try:
        subject = Subject(retriever, retriever.system(), file_of)
    except (RetrieverRefused, RetrieverUnavailable, IndexError) as error:
        return Conformance(retriever.url, (Result("system", expected, str(error)),))
    results = [Result("system", expected)]
    for name, expects, function in RULES:
        results.append(tried(name, expects, function, subject))
    return Conformance(retriever.url, tuple(results))


def tried(name: str, expected: str, function: Rule, subject: Subject) -> Result:
    try:
        return Result(name, expected, harmless(next(function(subject), "")))
    except NotTried as reason:
        return Result(name, expected, not_tried=str(reason))
    except (RetrieverRefused, RetrieverUnavailable) as error:
        return Result(name, expected, str(error))
