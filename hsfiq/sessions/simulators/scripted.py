"""Asking a system the texts of a script: published sessions, or ours played again."""

from __future__ import annotations

from collections.abc import Sequence

from hsfiq.sessions.play import Progress, Query, User
from hsfiq.sessions.record import SCRIPTED, Round, Session, has_simulated_texts


class ScriptedUser(User):
    """Asks what the script asks, whatever the lists show."""

    simulator = SCRIPTED

    def __init__(self, sessions: Sequence[Session]) -> None:
        self._rounds = {each.session_id: each.rounds for each in sessions}

    def ask(self, progress: Progress) -> Round | None:
        rounds, done = self._rounds[progress.query.session_id or ""], len(progress.rounds)
        if done == len(rounds):
            return None
        return Round(round=done + 1, reference=rounds[done].reference, text=rounds[done].text)


def script_queries(sessions: Sequence[Session]) -> list[Query]:
    """What the sessions of a script begin with; each keeps its id."""
    return [
        Query(
            query_id=each.query_id,
            session_id=each.session_id,
            reference=each.rounds[0].reference,
            text=each.rounds[0].text or "",
            targets=each.targets,
            excluded=each.excluded,
            category=each.category,
            is_simulated=has_simulated_texts(each),
        )
        for each in sessions
    ]


def images_of(session: Session) -> set[str]:
    """The images that a corpus must hold to play a session of a script."""
    asked = {each.reference for each in session.rounds if each.reference is not None}
    return asked | set(session.targets)
