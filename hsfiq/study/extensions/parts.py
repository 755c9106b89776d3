"""Extend a study in short transactions, so that annotators' answers do not wait for it.

The forms are stored in a hidden study, and the last transaction moves them: nobody is given one
before all are there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from sqlalchemy import delete, update
from sqlalchemy.orm import Session

from hsfiq.actors import Action, Actor
from hsfiq.audit import record
from hsfiq.db.engine import Database
from hsfiq.db.tables import Form, Pair, Study, StudyCreation
from hsfiq.errors import Conflict
from hsfiq.images.check import Track
from hsfiq.study.config import config_of
from hsfiq.study.creation.create import begin, go_on, hidden_study, require_usable_images
from hsfiq.study.creation.removal import remove_interrupted, remove_unfinished
from hsfiq.study.extensions.extension import (
    Added,
    MoreAnnotators,
    NewQueries,
    Plan,
    next_extension,
    next_numbers,
    plan_extension,
    record_extension,
    store_extension,
)
from hsfiq.text import count_text


def extend_in_parts(
    database: Database,
    actor: Actor,
    wanted: MoreAnnotators | NewQueries,
    now: datetime,
    *,
    study_of: Callable[[Session], Study],
    lock: Callable[[Session], Study],
    track: Track = iter,
) -> Added:
    """Do what `extend_study` does; `study_of` finds the study, `lock` locks it, or refuses.

    The images of the new pairs are checked; `track` iterates over them, for a progress bar.

    Nothing remains if it fails. What a killed process leaves is hidden, and removed later.

    Raises:
        Conflict: the study was extended by another command meanwhile.
        BrokenImages: files of images are there but cannot be shown.
    """
    remove_interrupted(database, now)
    with database.reading() as session:
        study = study_of(session)
        plan = plan_extension(session, study, wanted)
        hidden = hidden_study(config_of(study), origin=study.origin)
    try:
        with database.writing_in_parts() as parts:
            creation = begin(parts, hidden)
            stored = store_extension(parts.session, hidden, plan, creation.next_part)
        require_usable_images(database, hidden.id, frozenset(), track)
        with database.writing() as session:
            go_on(session, hidden.id)
            study = lock(session)
            if next_extension(session, study) != plan.number:
                raise Conflict(
                    f"study {study.name} was extended by another command meanwhile",
                    remedy="run the command again",
                )
            plan = move(session, session.get_one(Study, hidden.id), study, plan)
            added = record_extension(session, study, plan, stored, now)
            about = count_text(added.forms, "form")
            record(session, actor, Action.STUDY_EXTEND, study=study.name, about=about)
    except BaseException:
        if hidden.id is not None:
            remove_unfinished(database, hidden.id)
        raise
    return added


def move(session: Session, hidden: Study, study: Study, plan: Plan) -> Plan:
    """Give a locked study the pairs and forms; the plan with the numbers that these have now.

    Reassigned questions may have got forms since the plan was made.
    """
    first_form, first_batch = next_numbers(session, study)
    session.execute(
        update(Form)
        .where(Form.study_id == hidden.id)
        .values(
            study_id=study.id,
            number=Form.number + (first_form - plan.first_form),
            batch=Form.batch + (first_batch - plan.first_batch),
        )
    )
    session.execute(update(Pair).where(Pair.study_id == hidden.id).values(study_id=study.id))
    session.execute(delete(StudyCreation).where(StudyCreation.study_id == hidden.id))
    session.execute(delete(Study).where(Study.id == hidden.id))
    return replace(plan, first_form=first_form, first_batch=first_batch)
