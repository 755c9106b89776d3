"""The places of a study's participants, in all and by category."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime

from sqlalchemy import Select, func, select
from sqlalchemy.orm import Session

from hsfiq.collect.leases import DEPARTED_STATUSES, IS_ANSWERED, IS_BEFORE_END, lease_expired
from hsfiq.db.tables import Form, Participant, Question, Study
from hsfiq.errors import Refused
from hsfiq.study.capacity import require_enough_forms
from hsfiq.study.config import config_of, stored_recruitment


@dataclass(frozen=True, slots=True)
class QuotaCount:
    """How many participants have a place of a category, and how many may have one."""

    category: str
    taking_part: int
    quota: int

    @property
    def is_reached(self) -> bool:
        return self.taking_part >= self.quota

    def facts(self) -> dict[str, object]:
        return asdict(self)


def taking_part(study: Study, now: datetime) -> Select[int]:
    """The statement that counts the participants who have a place.

    A departed participant frees their place, and so does one whose lease expired before they
    answered everything.
    """
    has_lost_a_question = (
        select(Question.id)
        .join(Form, Question.form_id == Form.id)
        .where(Form.participant_id == Participant.id, Question.reassigned, ~IS_ANSWERED)
        .exists()
    )
    return select(func.count(Participant.id)).where(
        Participant.study_id == study.id,
        Participant.enrolled_at.is_not(None),
        Participant.status.not_in(DEPARTED_STATUSES),
        ~(lease_expired(study, now) & (IS_BEFORE_END | has_lost_a_question)),
    )


def count_enrolled(session: Session, study: Study) -> int:
    """The participants who have got a place and have not departed."""
    enrolled = select(func.count(Participant.id)).where(
        Participant.study_id == study.id,
        Participant.enrolled_at.is_not(None),
        Participant.status.not_in(DEPARTED_STATUSES),
    )
    return session.scalar(enrolled) or 0


def count_taking_part(session: Session, study: Study, now: datetime) -> int:
    return session.scalar(taking_part(study, now)) or 0


def quotas_of(session: Session, study: Study, now: datetime) -> list[QuotaCount]:
    """The study's quotas by category, in the order of its file."""
    quotas = config_of(study).recruitment.quotas
    if not quotas:
        return []
    counts = taking_part(study, now).add_columns(Participant.category)
    rows = session.execute(counts.group_by(Participant.category))
    taken = {category: number for number, category in rows}
    return [QuotaCount(name, taken.get(name, 0), quota) for name, quota in quotas.items()]


def closed_categories(session: Session, study: Study, now: datetime) -> frozenset[str]:
    """The categories whose quota is reached: nobody else gets forms of them."""
    counts = quotas_of(session, study, now)
    return frozenset(count.category for count in counts if count.is_reached)


def set_quotas(session: Session, study: Study, quotas: Mapping[str, int]) -> None:
    """Set quotas of a locked study; `ConfigError` if its forms cannot meet them."""
    config = config_of(study)
    if config.design.categories == "mixed":
        raise Refused("its forms mix the categories, so it has no quotas", where=study.name)
    recruitment = replace(config.recruitment, quotas={**config.recruitment.quotas, **quotas})
    require_enough_forms(session, study, replace(config, recruitment=recruitment))
    study.design = study.design | {"recruitment": stored_recruitment(recruitment)}
    session.flush()
