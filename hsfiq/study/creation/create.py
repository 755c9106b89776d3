"""Create a study in short transactions, so that annotators' answers do not wait for it.

Readers see all of the study or nothing: it is hidden until the last transaction.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime

from sqlalchemy import delete, update
from sqlalchemy.orm import Session

from hsfiq.audit.actions import Action
from hsfiq.audit.actors import Actor
from hsfiq.audit.log import record
from hsfiq.db.change_tables import BEING_CREATED, StudyCreation
from hsfiq.db.engine import Database, Parts, added
from hsfiq.db.tables import Study
from hsfiq.errors import Conflict
from hsfiq.study.config import StudyConfig
from hsfiq.study.creation.removal import remove_interrupted, remove_unfinished
from hsfiq.study.design import (
    fill_study,
    new_study,
    require_new_name,
    require_unbound_platform_study,
)
from hsfiq.study.drawing.material import material_for
from hsfiq.study.searching.drawing import Described


def nothing_required(_session: Session) -> None:
    """`require_at_end` of a study that nothing else can conflict with."""


def create_study(
    database: Database,
    config: StudyConfig,
    query_ids: Sequence[int],
    *,
    actor: Actor,
    require: Callable[[Session, Study], None],
    require_at_end: Callable[[Session], None] = nothing_required,
    pairs: Sequence[tuple[int, int, int]] | None = None,
    chosen_by: Mapping[str, object] | None = None,
    origin: str = "collected",
    status: str = "open",
    retrievers: Mapping[str, Described] | None = None,
) -> None:
    """Draw and store a study, as `draw_study` does in one transaction.

    `require` may refuse the study before it becomes visible, `require_at_end` in the transaction in
    which it does. Nothing remains if it does, or if
    anything else fails, except images and systems of live retrievers, which other studies share.
    What a killed process leaves is hidden, and removed by a later creation.
    """
    remove_interrupted(database, datetime.now(UTC))
    with database.reading() as session:
        require_new_name(session, config)
        require_unbound_platform_study(session, config)
        material = material_for(session, config, query_ids)
    study = hidden_study(config, origin=origin, chosen_by=chosen_by)
    try:
        with database.writing_in_parts() as parts:
            creation = begin(parts, study)
            fill_study(
                parts.session,
                study,
                config,
                query_ids,
                material,
                pairs=pairs,
                retrievers=retrievers,
                next_part=creation.next_part,
            )
            require(parts.session, study)
            creation.end_part()
            require_at_end(parts.session)
            publish(parts.session, study, config, status)
            record(parts.session, actor, Action.STUDY_CREATE, study=study.name)
    except BaseException:
        if study.id is not None:
            remove_unfinished(database, study.id)
        raise


def hidden_study(
    config: StudyConfig, *, origin: str, chosen_by: Mapping[str, object] | None = None
) -> Study:
    """A study for `begin`, under a name of its own."""
    study = new_study(config, origin=origin, status="draft", chosen_by=chosen_by)
    study.name, study.platform_study_id = f"{BEING_CREATED}{secrets.token_hex(8)}", None
    return study


def begin(parts: Parts, study: Study) -> Creation:
    added(parts.session, study)
    now = datetime.now(UTC)
    added(parts.session, StudyCreation(study_id=study.id, continued_at=now))
    creation = Creation(parts, study.id)
    creation.end_part()
    return creation


class Creation:
    """The transactions in which a study is stored; each ends by recording that it goes on."""

    def __init__(self, parts: Parts, study_id: int) -> None:
        self._parts, self._study_id = parts, study_id

    def next_part(self) -> None:
        """End the transaction if it has lasted long."""
        if self._parts.is_long:
            self.end_part()

    def end_part(self) -> None:
        goes_on = (
            update(StudyCreation)
            .where(StudyCreation.study_id == self._study_id)
            .values(continued_at=datetime.now(UTC))
            .returning(StudyCreation.study_id)
        )
        if self._parts.session.scalar(goes_on) is None:
            raise Conflict(
                "the creation of the study paused for so long that another command has removed it",
                remedy="run the command again",
            )
        self._parts.next()


def publish(session: Session, study: Study, config: StudyConfig, status: str) -> None:
    """Give the complete study its name and its status."""
    require_new_name(session, config)
    require_unbound_platform_study(session, config)
    study.name, study.status = config.study.name, status
    study.platform_study_id = config.recruitment.platform_study_id or None
    session.execute(delete(StudyCreation).where(StudyCreation.study_id == study.id))
    session.flush()
