"""The owner's actions as the dashboard shows them: buttons, explanations and the confirmation.

The confirmation carries the action with the status that the owner saw, so that exactly what they
read is performed, whatever happened in the meantime (`hsfiq.collect.owner`).
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from sqlalchemy.orm import Session

from hsfiq.actors import Actor, Permission
from hsfiq.collect import owner
from hsfiq.collect.owner import OwnerAction
from hsfiq.collect.participants import by_name_or_platform_id
from hsfiq.collect.studies import find_study
from hsfiq.db.tables import Study
from hsfiq.errors import Refused


@dataclass(frozen=True, slots=True)
class ActionText:
    button: str
    means: str


PERSON: dict[str, ActionText] = {
    "pause": ActionText("Pause", "They can answer nothing until you resume them."),
    "resume": ActionText("Resume", "They continue with the questions that are still theirs."),
    "exclude": ActionText(
        "Exclude",
        "Their answers no longer count and stay out of releases; their questions are asked again.",
    ),
    "return": ActionText(
        "Returned",
        "They gave up: their answers stay, and the next participant gets the other questions.",
    ),
    "reassign": ActionText(
        "Reassign", "The next participant gets their unanswered questions, before the lease ends."
    ),
}

STUDY: dict[str, ActionText] = {
    "open": ActionText("Open", "It takes participants and answers."),
    "pause": ActionText("Pause", "Participants see that it is paused and can come back later."),
    "close": ActionText("Close", "Participants see a closing page with their completion code."),
}


RECRUITING = frozenset(
    {("active", "paused"), ("paused", "active"), ("open", "paused"), ("paused", "open")}
)
"""The changes of a participant's or a study's status that pause and resume."""
RECRUITERS_PERSON, RECRUITERS_STUDY = ("pause", "resume"), ("open", "pause")
"""The buttons that make them."""


def permission_for(action: OwnerAction) -> Permission:
    """Pausing and resuming belongs to recruiting; nothing else, such as opening a closed study."""
    change = action.status_seen, action.status_after
    return Permission.RECRUIT if change in RECRUITING else Permission.MANAGE


def needed_for_study(name: str) -> Permission:
    """What pressing a button of the study needs, as far as its status does not matter."""
    return Permission.RECRUIT if name in RECRUITERS_STUDY else Permission.MANAGE


def text_of(action: OwnerAction) -> ActionText:
    return (STUDY if action.participant is None else PERSON)[action.name]


def to_json(action: OwnerAction) -> str:
    return json.dumps(asdict(action))


def from_json(given: object) -> OwnerAction:
    """Read an action that the page sends back; nothing in it is trusted."""
    try:
        action = OwnerAction(**json.loads(str(given)))
        text_of(action)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise Refused("no action is waiting for confirmation") from error
    fields = (action.study, action.status_seen, action.reason)
    is_about = action.participant is None or isinstance(action.participant, str)
    if (
        action.rule is not None
        or not is_about
        or not all(isinstance(value, str) for value in fields)
    ):
        raise Refused("no action is waiting for confirmation")
    return action


def study_named(session: Session, name: object) -> Study:
    study = find_study(session, str(name))
    if study is None:
        raise Refused("choose a study first")
    return study


def prepare(
    session: Session, study: object, participant: object, action: str, reason: str = ""
) -> OwnerAction:
    """The action to confirm; `participant` is None for an action on the study itself."""
    row = study_named(session, study)
    person = None
    if participant is not None:
        person = by_name_or_platform_id(session, row, str(participant).strip())
    prepared = owner.prepare(row, action, person, reason.strip())
    if prepared.status_after == prepared.status_seen:
        raise Refused(f"{prepared.target} is already {prepared.status_seen}")
    return prepared


def perform(session: Session, action: OwnerAction, actor: Actor) -> str:
    """Perform a confirmed action; a message that reports it."""
    owner.perform(session, action, actor)
    if action.status_after is None:
        return f"the next participant gets the questions that {action.target} has not answered"
    return f"{action.target}: {action.status_seen} → {action.status_after}"
