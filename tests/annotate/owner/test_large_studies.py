"""Of a study with too many answers to plot, the dashboard shows who was seen last."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from hsfiq.actors import Role, User
from hsfiq.annotate.handlers import Services
from hsfiq.annotate.owner.dashboard import Dashboard
from hsfiq.annotate.owner.login import Identities
from hsfiq.collect import participants
from hsfiq.collect.checks import check_results
from hsfiq.collect.participants import may_compare_systems
from hsfiq.collect.progress import answers_of, participants_of
from hsfiq.collect.studies import list_studies
from tests.annotate.owner.studies_in_progress import watched_study
from tests.annotate.served_studies import Place

NOW = datetime(2026, 3, 1, 12, 30, tzinfo=UTC)


def test_plots_and_tables_are_of_those_seen_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = watched_study(Place(tmp_path), NOW)
    services = Services.of(database)
    dashboard = Dashboard(Identities(database, services.signer), services.images)
    with database.reading() as session:
        study = list_studies(session)[0]
        assert participants.people_shown(session, study) is None
        everybody = {row.participant: row for row in participants_of(session, study)}
        last = sorted(everybody, key=lambda name: everybody[name].seen_at or NOW)[-2:]
        monkeypatch.setattr(participants, "MOST_ANSWERS", 12)
        shown = participants.people_shown(session, study)
        rows = participants_of(session, study, shown)
        assert {row.participant: row for row in rows} == {name: everybody[name] for name in last}
        answers = answers_of(session, study, shown)
        own = [answer for answer in answers_of(session, study) if answer.participant in last]
        assert answers == own
        checks = list(check_results(session, study, shown))
        keys = set(shown or ())
        assert checks == [
            each for each in check_results(session, study) if each.participant_id in keys
        ]
        owner = User("owner", Role.OWNER, 1)
        updated, tiles, *_ = dashboard.study_outputs(session, study.name, owner)
        assert may_compare_systems(session, study)
        monkeypatch.setattr(participants, "MOST_COMPARED", 12)
        assert not may_compare_systems(session, study)
        _, _, cards, *_ = dashboard.study_outputs(session, study.name, owner)
    assert f"Too many answers: run hsfiq study status --study {study.name}" in str(cards)
    assert "are of the 2 participants seen last, of 4;" in str(updated)
    assert "15" in str(tiles)  # the answers of all
    assert "seen last: " in str(tiles)
    database.close()
