"""What `hsfiq study status` says of people's preferences while a study runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hsfiq.text import count_text

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from hsfiq.analysis.sequential import WatchedPreference
    from hsfiq.db.tables import Study


@dataclass(frozen=True, slots=True)
class Watched:
    """The entry `preferences` of the JSON result, None for other kinds than pairs, and lines."""

    facts: dict[str, Any] | None
    lines: list[str]


def watched_preferences(session: Session, study: Study) -> Watched:
    """Compute the confidence sequence of every two systems; it needs the analysis extra."""
    if study.kind != "pair":
        return Watched(None, [])
    from hsfiq.collect.review import win_shares

    shares = win_shares(session, study)
    facts: dict[str, Any] = shares.facts() | {"pairs": []}
    if not shares.by_pair:
        return Watched(facts | {"reason": "the sets name no two systems"}, [])
    try:
        from hsfiq.analysis.sequential import watch_preferences
    except ModuleNotFoundError as error:
        reason = f"{error.name} is not installed: pip install 'hsfiq[analysis]'"
        return Watched(facts | {"reason": reason}, [f"preferences: {reason}"])
    watched = watch_preferences(shares.by_pair)
    facts["pairs"] = [each.to_json() for each in watched]
    lines = [
        f"preference for {each.system} over {each.other}: {in_words(each)}" for each in watched
    ]
    return Watched(facts, [*lines, *(f"  {note}" for note in shares.notes())])


def in_words(watched: WatchedPreference) -> str:
    if watched.n_participants == 0:
        return f"unknown; {watched.reason}"
    n = f"{watched.n_participants:,} finished, {count_text(watched.n_answers, 'answer')}"
    ends = f"[{watched.low[-1]:.3f}, {watched.high[-1]:.3f}]"
    if watched.preferred is None:
        decision = "undecided"
    else:
        decision = f"{watched.preferred} is preferred, decided after {watched.decided_after:,}"
    if watched.reason is not None:
        return f"{watched.rate:.3f} ({n}): {decision}; {watched.reason}"
    return f"{watched.rate:.3f} {ends} ({n}): {decision}"
