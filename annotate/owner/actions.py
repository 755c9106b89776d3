"""What an owner can do from the board: each is asked back first and says what it will change.

What was asked about travels with the confirmation, so that what is done is what was read, even
if another choice, another tab or a restarted server came between.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session

from hsfiq.collect import participants
from hsfiq.collect import responses as store
from hsfiq.db.tables import Participant, Study
from hsfiq.errors import Conflict, HsfiqError, Refused


@dataclass(frozen=True, slots=True)
class Kind:
    """An action: its button, the status it leads to (None changes none), what it means."""

    button: str
    status: str | None
    means: str


PERSON: dict[str, Kind] = {
    "pause": Kind("Pause", "paused", "They can answer nothing until you resume them."),
    "resume": Kind("Resume", "active", "They go on as far as their questions are still theirs."),
    "exclude": Kind(
        "Exclude",
        "excluded",
        "Their answers count no more and stay out of releases; their questions are asked again.",
    ),
    "return": Kind(
        "Returned",
        "returned",
        "They gave up: what they answered stays, the rest goes to whoever comes next.",
    ),
    "reassign": Kind(
        "Reassign",
        None,
        "What they have not answered goes to whoever comes next, the lease not awaited.",
    ),
}

STUDY: dict[str, Kind] = {
    "open": Kind("Open", "open", "It takes participants and answers."),
    "pause": Kind("Pause", "paused", "Who is on the page sees why and can come back."),
    "close": Kind("Close", "closed", "Who comes later gets a kind page and their code."),
}


@dataclass(frozen=True, slots=True)
class Pending:
    """An action that waits for its confirmation; `was` is the status that the owner saw."""

    study: str
    participant: str | None
    action: str
    was: str

    @property
    def kind(self) -> Kind:
        """What it does."""
        return (STUDY if self.participant is None else PERSON)[self.action]

    @property
    def whom(self) -> str:
        """What it changes, in words."""
        return f"study {self.study}" if self.participant is None else self.participant

    def to_json(self) -> str:
        """As the page carries it."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, given: object) -> Pending:
        """What the page sends back; nothing in it is trusted, it is all looked up again.

        Raises:
            Refused: it is none of ours.
        """
        try:
            values = json.loads(str(given))
            pending = cls(**{key: values[key] for key in ("study", "participant", "action", "was")})
            known = isinstance(pending.kind, Kind)
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise Refused("nothing waits for a confirmation") from error
        texts = (pending.study, pending.participant or "", pending.was)
        if not known or not all(isinstance(value, str) for value in texts):
            raise Refused("nothing waits for a confirmation")
        return pending


def study_named(session: Session, name: object) -> Study:
    """The study of this name.

    Raises:
        Refused: there is none.
    """
    study = session.scalars(select(Study).where(Study.name == str(name))).one_or_none()
    if study is None:
        raise Refused("choose a study first")
    return study


def participant_named(session: Session, study: Study, name: object) -> Participant:
    """The participant with this pseudonym.

    Raises:
        Refused: the study has none.
    """
    try:
        return participants.by_name(session, study, str(name or "").strip())
    except HsfiqError as error:
        raise Refused(f"study {study.name} has no participant {str(name or '')[:80]!r}") from error


def prepare(session: Session, study: object, participant: object, action: str) -> Pending:
    """The action as it is asked back, `participant` None for the study itself.

    Raises:
        Refused: no such study or participant, or there is nothing to change.
    """
    chosen = study_named(session, study)
    if participant is None:
        require_changeable(chosen)
        pending = Pending(chosen.name, None, action, chosen.status)
    else:
        person = participant_named(session, chosen, participant)
        pending = Pending(chosen.name, person.name, action, person.status)
    if pending.kind.status == pending.was:
        raise Refused(f"{pending.whom} is {pending.was} already")
    return pending


def perform(session: Session, pending: Pending) -> str:
    """Do it; what was done, in words.

    Raises:
        Conflict: the status is no longer the one that the owner saw.
        Refused: no such study or participant.
    """
    study = study_named(session, pending.study)
    target: Study | Participant = study
    if pending.participant is None:
        require_changeable(study)
    else:
        target = participant_named(session, study, pending.participant)
    session.refresh(target, ["status"], with_for_update=True)
    if target.status != pending.was:
        raise Conflict(f"{pending.whom} is {target.status} by now, not {pending.was}: look again")
    status = pending.kind.status
    if status is None and isinstance(target, Participant):
        participants.give_back(target)
        return f"what {pending.whom} has not answered goes to whoever comes next"
    if isinstance(target, Participant):
        participants.set_status(target, str(status))
    else:
        target.status = str(status)
    return f"{pending.whom}: {pending.was} → {status}"


def require_changeable(study: Study) -> None:
    """Raise `Refused` for a study that was never asked here, or whose simulation has ended."""
    if store.is_finished_for_good(study):
        raise Refused(f"study {study.name} holds {study.origin} answers and is finished for good")
