"""Create a study in short transactions, so that annotators' answers do not wait for it.

Readers see all of the study or nothing: it is hidden until the last transaction.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from time import monotonic
from warnings import catch_warnings

from sqlalchemy import delete, update
from sqlalchemy.orm import Session

from hsfiq.actors import Action, Actor
from hsfiq.audit import record
from hsfiq.db.engine import Database, Parts, added
from hsfiq.db.tables import BEING_CREATED, Study, StudyCreation
from hsfiq.errors import Conflict
from hsfiq.images.check import Track, decoder
from hsfiq.study.config import StudyConfig
from hsfiq.study.creation.removal import remove_interrupted, remove_unfinished
from hsfiq.study.design import (
    fill_study,
    new_study,
    require_new_name,
    require_unbound_platform_study,
)
from hsfiq.study.drawing.material import material_for
from hsfiq.study.images.check import BrokenImages, StudyImages, check_shown, shown_images
from hsfiq.study.images.digests import record_new
from hsfiq.study.searching.drawing import Described

GO_ON_SECONDS = 60.0
"""How often a creation that checks images records that it goes on."""


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
    track: Track = iter,
) -> StudyImages:
    """Draw and store a study, as `draw_study` does in one transaction, and check its images.

    `require` may refuse the study before it becomes visible, `require_at_end` in the transaction in
    which it does. `track` iterates over the images, for a progress bar. Nothing remains if anything
    fails, except images and systems of live retrievers, which other studies share. What a killed
    process leaves is hidden, and removed by a later creation.

    Raises:
        BrokenImages: files of images are there but cannot be shown.
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
        corpora = (described.corpus for described in (retrievers or {}).values())
        images = require_usable_images(database, study.id, frozenset().union(*corpora), track)
        with database.writing() as session:
            go_on(session, study.id)
            require_at_end(session)
            publish(session, session.get_one(Study, study.id), config, status)
            record(session, actor, Action.STUDY_CREATE, study=config.study.name)
    except BaseException:
        if study.id is not None:
            remove_unfinished(database, study.id)
        raise
    record_new(database, images)
    return replace(images, study=config.study.name)


def require_usable_images(
    database: Database, study_id: int, searched: frozenset[str], track: Track
) -> StudyImages:
    """The images of a hidden study, after decoding all of them; `BrokenImages` if any is broken.

    `searched` are those that live retrievers may list.
    """

    def track_going_on(names: Sequence[str]) -> Iterator[str]:
        continued = monotonic()
        for name in track(names):
            if monotonic() - continued > GO_ON_SECONDS:
                with database.writing() as session:
                    go_on(session, study_id)
                continued = monotonic()
            yield name

    with database.reading() as session:
        shown = shown_images(session, session.get_one(Study, study_id))
    shown = replace(shown, searched=searched)
    with catch_warnings(action="ignore"):  # Pillow's, of unusual but complete files
        images = check_shown(shown, decoder(), track_going_on)
    if images.broken:
        raise BrokenImages(images.broken)
    return images


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
        go_on(self._parts.session, self._study_id)
        self._parts.next()


def go_on(session: Session, study_id: int) -> None:
    """Record that a creation goes on; `Conflict` if another command has removed what it stored."""
    goes_on = (
        update(StudyCreation)
        .where(StudyCreation.study_id == study_id)
        .values(continued_at=datetime.now(UTC))
        .returning(StudyCreation.study_id)
    )
    if session.scalar(goes_on) is None:
        raise Conflict(
            "the creation of the study paused for so long that another command has removed it",
            remedy="run the command again",
        )


def publish(session: Session, study: Study, config: StudyConfig, status: str) -> None:
    """Give the complete study its name and its status."""
    require_new_name(session, config)
    require_unbound_platform_study(session, config)
    study.name, study.status = config.study.name, status
    study.platform_study_id = config.recruitment.platform_study_id or None
    session.execute(delete(StudyCreation).where(StudyCreation.study_id == study.id))
    session.flush()
