"""The facts that a study's releases state: licence, authors, analysis plan, earlier exclusions."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import date, datetime
from typing import TYPE_CHECKING, Any, Literal

from hsfiq.text import is_storable_text

if TYPE_CHECKING:
    from hsfiq.db.tables import Study

# What a study keeps of the release that it was imported from, in its design.
#
# The rows of `exclusions` and of `repeats` are about questions that the release does not have, so
# they cannot become rows of the database.

KEY = "imported_release"
UNANSWERED = ("unanswered", "no response")
WITHOUT_ANSWER = ("handed-on", "check")
"""The rules that do not depend on the answer."""


def without_answers_of(design: Mapping[str, Any], participant: str) -> dict[str, Any]:
    """The design without a participant's answers to dropped questions.

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
    """A step of the funnel with changed counts; unrecorded counts stay unknown."""
    changes = {"dropped": dropped.get(step["rule"], 0), "broken_by": broken_by.get(step["rule"], 0)}
    changed = {
        name: step[name] + change
        for name, change in changes.items()
        if change and step.get(name) is not None
    }
    return {**step, **changed}


# `[release]`: the licence of a study's releases, their authors, and how to cite them.

LICENCE = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+-]{0,63}")
"""The form of SPDX's ids, such as CC-BY-4.0."""
ADDRESS = re.compile(r"https?://[^\s<>\"]+")
ENTRY = re.compile(r"@\w+\s*\{.*\}", re.DOTALL)
ADDED = ("name", "description")
"""Keys that manifests contain only if stated, so that digests of older releases do not change."""
LONGEST_NAME, LONGEST_DESCRIPTION = 100, 5_000


@dataclass(frozen=True, slots=True)
class Publication:
    """`[release]`: the owner's statements about the study's releases; "" and () are not stated.

    `licence` is an SPDX id (CC-BY-4.0) or the address of its text, `citation` is BibTeX, `contact`
    an e-mail address or a web address, and `date` the day of publication (2026-11-23). `name` is
    the title of the card in place of the id, and `description` a text for it, as Markdown.
    """

    licence: str = ""
    citation: str = ""
    authors: tuple[str, ...] = ()
    contact: str = ""
    url: str = ""
    date: str = ""
    name: str = ""
    description: str = ""


def publication_errors(publication: Publication) -> Iterator[tuple[str, str]]:
    """The errors, by the key of study.toml."""
    licence = publication.licence
    if licence and not LICENCE.fullmatch(licence) and not ADDRESS.fullmatch(licence):
        yield (
            "release.licence",
            f"{licence!r} is neither an SPDX id such as CC-BY-4.0 nor an address",
        )
    if publication.citation and not ENTRY.fullmatch(publication.citation.strip()):
        yield "release.citation", "is not a BibTeX entry such as @article{key, title = {...}}"
    if publication.url and not ADDRESS.fullmatch(publication.url):
        yield "release.url", f"{publication.url!r} is not an address such as https://example.org"
    if publication.date and not is_date(publication.date):
        yield "release.date", f"{publication.date!r} is not a date such as 2026-11-23"
    if "\n" in publication.contact:
        yield "release.contact", "has a line break"
    name, description = publication.name, publication.description
    if len(name) > LONGEST_NAME or not name.isprintable():
        yield "release.name", f"is longer than {LONGEST_NAME} characters, or has a line break"
    if len(description) > LONGEST_DESCRIPTION or not is_storable_text(description):
        what = f"is longer than {LONGEST_DESCRIPTION:,} characters, or has invalid characters"
        yield "release.description", what
    if any(not author.strip() or "\n" in author for author in publication.authors):
        yield "release.authors", "has an empty name, or one with a line break"


def is_date(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def licence_address(licence: str) -> str:
    """The address of a licence's text."""
    return licence if ADDRESS.fullmatch(licence) else f"https://spdx.org/licenses/{licence}.html"


# `[analysis]`: the question that a study is to answer, declared before it opens.

STATISTICS = {
    "systems": ("win_rate", "mean_score"),
    "metrics": ("tie_half", "spearman", "symmetric"),
}
"""The statistics by question; the first is the default."""

OPENED_AT = "opened_at"
"""The key in the stored config with the time at which the study was first opened."""


@dataclass(frozen=True, slots=True)
class AnalysisPlan:
    """`[analysis]`: the analysis plan; without a `question` no plan was declared.

    Attributes:
        question: the compared objects: "systems" or "metrics".
        pair: the two compared objects; () compares all.
        statistic: one of `STATISTICS`; "" is the default.
        margin: the equivalence margin; 0 is none.
        alpha: the level of the test.
        exclusions: the export's filters, as `--filter` takes them.
    """

    question: str = ""
    pair: tuple[str, ...] = ()
    statistic: str = ""
    margin: float = 0.0
    alpha: float = 0.05
    exclusions: tuple[str, ...] = ()

    def facts(self, opened_at: str | None) -> dict[str, Any]:
        """The manifest's entry; undeclared values are null."""
        return {
            "question": self.question,
            "pair": list(self.pair) or None,
            "statistic": self.statistic or STATISTICS[self.question][0],
            "margin": self.margin or None,
            "alpha": self.alpha,
            "exclusions": list(self.exclusions),
            OPENED_AT: opened_at,
        }

    @classmethod
    def of(cls, facts: Mapping[str, Any]) -> AnalysisPlan:
        """The plan in a manifest whose values have the right types."""
        stated = {each.name: facts[each.name] for each in fields(cls)}
        lists = {"pair": tuple(facts["pair"] or ()), "exclusions": tuple(facts["exclusions"])}
        return cls(**stated | lists | {"margin": facts["margin"] or 0.0})


def record_opening(study: Study, now: datetime) -> None:
    """Record the time at which a study was first opened.

    Simulated studies are skipped, so that repeated simulations give the same releases.
    """
    if study.origin != "simulated":
        study.design = {OPENED_AT: now.isoformat(timespec="seconds")} | study.design


def plan_errors(plan: AnalysisPlan) -> Iterator[tuple[str, str]]:
    """The errors, by the key of study.toml; the filters' names are not checked."""
    known = STATISTICS.get(plan.question)
    if known is None:
        if plan != AnalysisPlan():
            found = f"{plan.question!r} is not one of" if plan.question else "is missing; it is"
            yield "analysis.question", f"{found} {' or '.join(map(repr, STATISTICS))}"
        return
    if plan.pair and (len(plan.pair) != 2 or plan.pair[0] == plan.pair[1]):
        yield "analysis.pair", f"must name two different {plan.question}"
    elif not all(name.strip() and name.isprintable() for name in plan.pair):
        yield "analysis.pair", "has an empty name, or one with a line break"
    if plan.statistic and plan.statistic not in known:
        what = f"{plan.statistic!r} is not one of {', '.join(map(repr, known))}"
        yield "analysis.statistic", f"{what}, those of {plan.question}"
    for name, value in (("margin", plan.margin or None), ("alpha", plan.alpha)):
        if value is not None and not 0 < value < 0.5:
            yield f"analysis.{name}", f"{value:g} is not between 0 and 0.5"


LeftOut = Literal["texts", "participant-answers"]


# What was dropped before a study was imported from a release; its own releases have that, too.
#
# The study's design keeps it: the rows of `exclusions` and of `repeats` are about questions that
# the release does not have, so they cannot become rows of the database.

Rows = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Earlier:
    """The statements of a release before its import.

    Attributes:
        source: the manifest's name, version, filters and content_sha256.
        facts: the design of its study.
        steps: of the funnel.
        exclusions, repeats: the rows of these tables.
        without: the parts that its owner omitted, as named by `hsfiq export --without`.
        left_out: the number of omissions of each sort.
        notes: on the differences between merged releases.
    """

    source: Mapping[str, Any] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    steps: Rows = ()
    exclusions: Rows = ()
    repeats: Rows = ()
    without: Sequence[LeftOut] = ()
    left_out: Mapping[str, int] = field(default_factory=dict)
    notes: Sequence[str] = ()


def earlier_of(study: Study) -> Earlier:
    """Empty for studies that were not imported from a release."""
    return Earlier(**study.design.get(KEY, {}))
