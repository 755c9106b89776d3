"""Deciding on people who have finished, and trying rules for leaving people out."""

from __future__ import annotations

from collections.abc import Mapping

from hsfiq.annotate.studio.shell import Act, Desk
from hsfiq.db.tables import Participant, Study


def decision_of(_desk: Desk, _study: Study, _participant: Participant) -> Mapping[str, object]:
    """The values of `studio_decision.html`: it reads them from `decision`."""
    return {}


def rule_of(_desk: Desk, _study: Study) -> Mapping[str, object]:
    """The values of `studio_rule.html`: it reads them from `tried`."""
    return {}


ACTS: Mapping[str, Act] = {}
