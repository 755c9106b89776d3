"""Creating a study in short transactions, so that annotators' answers do not wait for it."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import TypeVar
from warnings import catch_warnings

from sqlalchemy import ColumnElement, FromClause, delete, or_, select, update
from sqlalchemy.orm import Session

from hsfiq.actors import Action, Actor
from hsfiq.audit import record
from hsfiq.db import tables
from hsfiq.db.engine import Database, Parts, added
from hsfiq.db.search_tables import SearchItem, StudyRetriever
from hsfiq.db.studio_tables import Draft, Job
from hsfiq.db.types import Base
from hsfiq.errors import Conflict, Refused
from hsfiq.images.check import Track, decoder
from hsfiq.study import design
from hsfiq.study.config import StudyConfig
from hsfiq.study.forms import material_for
from hsfiq.study.images import BrokenImages, StudyImages, check_shown, record_new, shown_images
from hsfiq.study.publication import record_opening
from hsfiq.study.searches import Described

# Remove studies whose creation was interrupted.

LONGEST_PAUSE = timedelta(minutes=10)
"""A creation without writes for longer counts as interrupted."""

FORMS_AT_ONCE, PAIRS_AT_ONCE = 10, 100
"""The rows removed in a transaction."""

T = TypeVar("T")


def remove_interrupted(database: Database, now: datetime) -> None:
    """Remove the remains of creations that paused for longer than `LONGEST_PAUSE`."""
    with database.reading() as session:
        old = tables.StudyCreation.continued_at < now - LONGEST_PAUSE
        interrupted = session.scalars(select(tables.StudyCreation.study_id).where(old)).all()
    for study_id in interrupted:
        remove_unfinished(database, study_id)


def remove_unfinished(database: Database, study_id: int) -> None:
    """Remove all rows of a study that is not complete; of a complete one, none."""
    with database.writing_in_parts() as parts:
        session = parts.session
        if session.get(tables.StudyCreation, study_id) is None:
            return
        remove_forms(parts, study_id)
        session.execute(
            delete(tables.PracticeQuestion).where(tables.PracticeQuestion.study_id == study_id)
        )
        remove_pairs(parts, study_id)
        for table in (
            tables.TextVersion,
            StudyRetriever,
            tables.EnrolmentByAddress,
            tables.StudyCreation,
        ):
            session.execute(delete(table).where(table.study_id == study_id))
        session.execute(delete(tables.Study).where(tables.Study.id == study_id))


def remove_forms(parts: Parts, study_id: int) -> None:
    session = parts.session
    forms = session.scalars(select(tables.Form.id).where(tables.Form.study_id == study_id)).all()
    for keys in chunks(forms, FORMS_AT_ONCE):
        session.execute(delete(tables.Check).where(tables.Check.form_id.in_(keys)))
        session.execute(delete(tables.Question).where(tables.Question.form_id.in_(keys)))
        session.execute(delete(tables.Form).where(tables.Form.id.in_(keys)))
        end_long_part(parts)


def remove_pairs(parts: Parts, study_id: int) -> None:
    session = parts.session
    pairs = session.scalars(select(tables.Pair.id).where(tables.Pair.study_id == study_id)).all()
    for keys in chunks(pairs, PAIRS_AT_ONCE):
        sets = sets_of(session, keys)
        for table in (tables.FurtherSet, SearchItem):
            session.execute(delete(table).where(table.pair_id.in_(keys)))
        session.execute(delete(tables.Pair).where(tables.Pair.id.in_(keys)))
        session.execute(delete(tables.RetrievedImage).where(tables.RetrievedImage.set_id.in_(sets)))
        session.execute(delete(tables.RetrievedSet).where(tables.RetrievedSet.id.in_(sets)))
        end_long_part(parts)


def sets_of(session: Session, pairs: Sequence[int]) -> list[int]:
    """The keys of the sets that these pairs show; no other pair shows them."""
    rows = session.execute(
        select(tables.Pair.first_id, tables.Pair.second_id).where(tables.Pair.id.in_(pairs))
    )
    of_pairs = [key for row in rows for key in row if key is not None]
    further = select(tables.FurtherSet.set_id).where(tables.FurtherSet.pair_id.in_(pairs))
    return [*of_pairs, *session.scalars(further)]


def end_long_part(parts: Parts) -> None:
    if parts.is_long:
        parts.next()


def chunks(rows: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    for start in range(0, len(rows), size):
        yield rows[start : start + size]


# Delete a study with all that belongs to it.


def delete_study(session: Session, study: tables.Study) -> None:
    """Delete a study that does not accept answers; datasets, systems and ranked lists are kept.

    `Refused` if it is open or paused.
    """
    if study.status in ("open", "paused"):
        raise Refused(f"study {study.name} is {study.status}", remedy="close it first")
    pairs = session.scalars(select(tables.Pair.id).where(tables.Pair.study_id == study.id)).all()
    sets = [key for keys in chunks(pairs, PAIRS_AT_ONCE) for key in sets_of(session, keys)]
    for table in reversed(Base.metadata.sorted_tables):
        belongs = belongs_to(table, study.id)
        if belongs is not None:
            session.execute(delete(table).where(belongs))
    for some in chunks(sets, PAIRS_AT_ONCE):
        session.execute(delete(tables.RetrievedImage).where(tables.RetrievedImage.set_id.in_(some)))
        session.execute(delete(tables.RetrievedSet).where(tables.RetrievedSet.id.in_(some)))


def belongs_to(table: FromClause, study_id: int) -> ColumnElement[bool] | None:
    """The condition for the rows that refer to a study, directly or through other tables.

    None for tables that do not.
    """
    if table is tables.Study.__table__:
        return table.c.id == study_id
    conditions = []
    for key in sorted(table.foreign_keys, key=lambda key: key.parent.name):
        above = key.column.table
        condition = None if above is table else belongs_to(above, study_id)
        if condition is not None:
            conditions.append(key.parent.in_(select(key.column).where(condition)))
    return or_(*conditions) if conditions else None


# What an owner would miss only after the answers have been collected.


def missed_later(config: StudyConfig) -> list[str]:
    """Warn of missing settings in study.toml; a custom consent text is not checked."""
    study, warnings = config.study, []
    if not config.release.licence:
        warnings.append(
            "no license set: others may not reuse the published answers; "
            "set release.licence in study.toml"
        )
    lacking = [name for name in ("institution", "contact", "ethics") if not getattr(study, name)]
    if lacking and not study.consent:
        named = ", ".join(lacking).replace("ethics", "ethics approval")
        keys = ", ".join(f"study.{name}" for name in lacking)
        warnings.append(f"the consent text lacks {named}: set {keys} in study.toml")
    return warnings


# Create a study in short transactions, so that annotators' answers do not wait for it.
#
# Readers see all of the study or nothing: it is hidden until the last transaction.

GO_ON_SECONDS = 60.0
"""The interval at which a creation that checks images records its progress."""


def nothing_required(_session: Session) -> None:
    """`require_at_end` of a study that nothing else can conflict with."""


def create_study(
    database: Database,
    config: StudyConfig,
    query_ids: Sequence[int],
    *,
    actor: Actor,
    require: Callable[[Session, tables.Study], None],
    require_at_end: Callable[[Session], None] = nothing_required,
    pairs: Sequence[tuple[int, int, int]] | None = None,
    chosen_by: Mapping[str, object] | None = None,
    origin: str = "collected",
    status: str = "open",
    retrievers: Mapping[str, Described] | None = None,
    track: Track = iter,
    replaced: int | None = None,
) -> StudyImages:
    """Draw and store a study, as `draw_study` does in one transaction, and check its images.

    `require` may refuse the study before it becomes visible, `require_at_end` in the final
    transaction. `replaced` is the key of a study in which nobody has enrolled: the new one takes
    its place, with its invitations, and it is removed. `track` iterates over the images, for a
    progress bar. Nothing remains if anything fails, except images and systems of live retrievers,
    which other studies share. The remains of a killed process are hidden, and removed by a later
    creation.

    Raises:
        BrokenImages: image files exist but cannot be shown.
    """
    remove_interrupted(database, datetime.now(UTC))
    with database.reading() as session:
        design.require_new_name(session, config, replaced)
        design.require_unbound_platform_study(session, config, replaced)
        material = material_for(session, config, query_ids)
    study = hidden_study(config, origin=origin, chosen_by=chosen_by)
    try:
        with database.writing_in_parts() as parts:
            creation = begin(parts, study)
            design.fill_study(
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
            if replaced is not None:
                hide(session, replaced, study.id)
            publish(session, session.get_one(tables.Study, study.id), config, status)
            record(session, actor, Action.STUDY_CREATE, study=config.study.name)
    except BaseException:
        if study.id is not None:
            remove_unfinished(database, study.id)
        raise
    record_new(database, images)
    if replaced is not None:
        remove_unfinished(database, replaced)
    return replace(images, study=config.study.name)


def require_usable_images(
    database: Database, study_id: int, searched: frozenset[str], track: Track
) -> StudyImages:
    """The images of a hidden study, after decoding all of them; `BrokenImages` if any is broken.

    `searched` are the images that live retrievers may list.
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
        shown = shown_images(session, session.get_one(tables.Study, study_id))
    shown = replace(shown, searched=searched)
    with catch_warnings(action="ignore"):  # Pillow's, of unusual but complete files
        images = check_shown(shown, decoder(), track_going_on)
    if images.broken:
        raise BrokenImages(images.broken)
    return images


def hidden_study(
    config: StudyConfig, *, origin: str, chosen_by: Mapping[str, object] | None = None
) -> tables.Study:
    """A study for `begin`, under a name of its own."""
    study = design.new_study(config, origin=origin, status="draft", chosen_by=chosen_by)
    study.name, study.platform_study_id = f"{tables.BEING_CREATED}{secrets.token_hex(8)}", None
    return study


def begin(parts: Parts, study: tables.Study) -> Creation:
    added(parts.session, study)
    now = datetime.now(UTC)
    added(parts.session, tables.StudyCreation(study_id=study.id, continued_at=now))
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
    """Record that a creation continues; `Conflict` if another command has removed its rows."""
    goes_on = (
        update(tables.StudyCreation)
        .where(tables.StudyCreation.study_id == study_id)
        .values(continued_at=datetime.now(UTC))
        .returning(tables.StudyCreation.study_id)
    )
    if session.scalar(goes_on) is None:
        raise Conflict(
            "the creation of the study paused for too long, and another command removed the study",
            remedy="run the command again",
        )


def hide(session: Session, study_id: int, successor_id: int) -> None:
    """Hide a study without participants; its invitations lead to its successor.

    `Conflict` if somebody has enrolled meanwhile.
    """
    study = session.get_one(tables.Study, study_id)
    session.refresh(study, with_for_update=True)
    of_study = tables.Participant.study_id == study_id
    if session.scalar(
        select(tables.Participant.id).where(of_study, tables.Participant.enrolled_at.is_not(None))
    ):
        raise Conflict(
            f"somebody has enrolled in study {study.name} meanwhile, so the study was not changed"
        )
    for table in (tables.Participant, tables.AllowedPerson, tables.Message, Draft, Job):
        moved = update(table).where(table.study_id == study_id).values(study_id=successor_id)
        session.execute(moved)
    study.name, study.platform_study_id = f"{tables.BEING_CREATED}{secrets.token_hex(8)}", None
    session.add(tables.StudyCreation(study_id=study_id, continued_at=datetime.now(UTC)))
    session.flush()


def publish(session: Session, study: tables.Study, config: StudyConfig, status: str) -> None:
    """Give the complete study its name and its status."""
    design.require_new_name(session, config)
    design.require_unbound_platform_study(session, config)
    study.name, study.status = config.study.name, status
    if status == "open":
        record_opening(study, datetime.now(UTC))
    study.platform_study_id = config.recruitment.platform_study_id or None
    session.execute(delete(tables.StudyCreation).where(tables.StudyCreation.study_id == study.id))
    session.flush()
