"""Quotas: how many participants get forms of a category, and who is turned away."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from hsfiq.collect import participants
from hsfiq.collect.owner import change_quotas, extend
from hsfiq.collect.participants import places_for_invitations
from hsfiq.collect.places import quotas_of
from hsfiq.db.engine import Database
from hsfiq.db.tables import Participant, Study
from hsfiq.errors import ConfigError, ConfigErrors, NotOpen, Refused
from hsfiq.study.capacity import capacity_of, recruited, require_enough_forms
from hsfiq.study.config import config_of
from hsfiq.study.config_file import read_config
from hsfiq.study.extension import MoreAnnotators
from hsfiq.study.recruiting import Recruitment
from tests.hsfiq.samples import hsfiq, on_sqlite
from tests.studies import NOW, SMALL, Seat, config, draw, make_queries

LATE = NOW + timedelta(days=1)


@pytest.fixture
def study_id(database: Database) -> int:
    """Forms for three participants of each category; two dress and one shirt are wanted."""
    queries = make_queries(database, {"dress": 12, "shirt": 12}, separate=True)
    return draw(database, queries, recruitment=Recruitment(quotas={"dress": 2, "shirt": 1}))


def categories(database: Database) -> Counter[str | None]:
    with database.reading() as session:
        return Counter(session.scalars(select(Participant.category)))


def is_offered(database: Database, study_id: int) -> bool:
    with database.reading() as session:
        return participants.has_free_place(session, session.get_one(Study, study_id), NOW)


def test_nobody_gets_forms_of_a_category_whose_quota_is_reached(
    database: Database, study_id: int
) -> None:
    for _ in range(3):
        assert is_offered(database, study_id)
        Seat.taken(database, study_id)
    assert categories(database) == {"dress": 2, "shirt": 1}
    assert not is_offered(database, study_id)
    with pytest.raises(NotOpen):
        Seat.taken(database, study_id)
    assert sum(categories(database).values()) == 3


def test_a_freed_place_goes_to_somebody_of_the_same_category(
    database: Database, study_id: int
) -> None:
    seats = [Seat.taken(database, study_id) for _ in range(3)]
    (shirt,) = (seat for seat in seats if seat.participant().category == "shirt")
    shirt.answer_until(2)
    shirt.set_status("returned")
    assert Seat.taken(database, study_id).participant().category == "shirt"
    with pytest.raises(NotOpen):
        Seat.taken(database, study_id)


def test_abandoned_questions_of_a_closed_category_wait(database: Database) -> None:
    """Their quota is reached by others, so they are not reassigned."""
    queries = make_queries(database, {"dress": 8, "shirt": 4}, separate=True)
    quotas = {"dress": 1}
    study_id = draw(database, queries, recruitment=Recruitment(quotas=quotas))
    first = Seat.taken(database, study_id)
    assert first.participant().category == "dress"
    first.set_status("returned")
    assert Seat.taken(database, study_id).participant().category == "dress"
    assert Seat.taken(database, study_id).participant().category == "shirt"
    with pytest.raises(NotOpen):  # the first one's questions are of a closed category
        Seat.taken(database, study_id)


def test_a_quota_is_raised_while_the_study_runs(
    database: Database, study_id: int, database_url: str
) -> None:
    now = datetime.now(UTC)
    for _ in range(3):
        Seat.taken(database, study_id, now)
    words = ("study", "quota", "small", "shirt=2", "--database", database_url)
    changed = hsfiq(*words, "--json")
    assert changed.code == 0
    assert changed.result["quotas"] == [
        {"category": "dress", "taking_part": 2, "quota": 2},
        {"category": "shirt", "taking_part": 1, "quota": 2},
    ]
    assert Seat.taken(database, study_id, now).participant().category == "shirt"
    status = hsfiq("study", "status", "--database", database_url)
    assert "participants of dress: 2 of 2\nparticipants of shirt: 2 of 2" in status.out


@on_sqlite
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("hat=1",),
            "recruitment.quotas.hat: no form has this category; categories with forms: dress",
        ),
        (
            ("dress=4",),
            "recruitment.quotas.dress: 4 participants, but questions are available for 3",
        ),
        (("dress",), "study quota: 'dress' is not a category's quota; write one like dress=30"),
        (("dress=-1",), "study quota: 'dress=-1' is not a category's quota"),
        (("dress=1", "dress=2"), "study quota: 'dress' is given twice"),
    ],
)
def test_wrong_quotas_change_nothing(
    database: Database, study_id: int, database_url: str, words: Sequence[str], message: str
) -> None:
    refused = hsfiq("study", "quota", "small", *words, "--database", database_url)
    assert (refused.code, refused.out) == (2, "")
    assert message in refused.err
    assert len(refused.err.splitlines()) == 1
    with database.reading() as session:
        quotas = config_of(session.get_one(Study, study_id)).recruitment.quotas
        assert quotas == {"dress": 2, "shirt": 1}


def test_a_study_of_mixed_forms_has_no_quotas(database: Database) -> None:
    study_id = draw(database, make_queries(database), replace(SMALL, categories="mixed"))
    with (
        pytest.raises(Refused, match="its forms mix categories"),
        database.writing() as session,
    ):
        change_quotas(session, session.get_one(Study, study_id), {"shirt": 1})


def test_an_extension_raises_the_quotas_by_what_it_adds(database: Database, study_id: int) -> None:
    with database.writing() as session:
        study = session.get_one(Study, study_id)
        added = extend(session, study, MoreAnnotators(2), NOW)
        assert added.quotas == {"dress": 5, "shirt": 4}
    for _ in range(9):
        Seat.taken(database, study_id)
    assert categories(database) == {"dress": 5, "shirt": 4}
    with pytest.raises(NotOpen):
        Seat.taken(database, study_id)


def test_places_for_invitations_and_the_budget_follow_the_quotas(
    database: Database, study_id: int
) -> None:
    with database.reading() as session:
        study = session.get_one(Study, study_id)
        assert places_for_invitations(session, study, NOW).free == 3
        assert recruited(config_of(study).recruitment, capacity_of(session, study)) == 3
        counts = [(count.category, count.quota) for count in quotas_of(session, study, LATE)]
        assert counts == [("dress", 2), ("shirt", 1)]


@pytest.mark.parametrize(
    ("recruitment", "key", "what"),
    [
        ({"quotas": {"hat": 1}}, "recruitment.quotas.hat", "no form has this category"),
        ({"quotas": {"shirt": 4}}, "recruitment.quotas.shirt", "4 participants, but questions are"),
        (
            {"quotas": {"shirt": 1}, "participants": 5},
            "recruitment.participants",
            "quotas are for 4",
        ),
    ],
)
def test_quotas_that_cannot_be_met(
    database: Database, study_id: int, recruitment: dict[str, Any], key: str, what: str
) -> None:
    wanted = config(recruitment=Recruitment(**recruitment))
    with database.reading() as session:
        study = session.get_one(Study, study_id)
        with pytest.raises(ConfigError, match=what) as raised:
            require_enough_forms(session, study, wanted)
    assert raised.value.where == key


def test_quotas_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    head = '[study]\nname = "a"\ntitle = "T"\n'
    path.write_text(head + "[recruitment.quotas]\ndress = 20\nshirt = 10\n", encoding="utf-8")
    assert read_config(path).recruitment.quotas == {"dress": 20, "shirt": 10}
    quotas = '[recruitment]\nquotas = 3\n[design]\ncategories = "one"\n'
    for text, line in (
        ("[recruitment.quotas]\ndress = -1\n", "line 5: recruitment.quotas.dress: -1 is not 0"),
        ("[recruitment.quotas]\ndress = 2.5\n", "line 5: recruitment.quotas.dress: 2.5 is not a"),
        (quotas, "line 5: recruitment.quotas: must be a table"),
        (
            '[design]\ncategories = "mixed"\n[recruitment]\nquotas = {shirt = 2}\n',
            'line 7: recruitment.quotas: cannot be used with design.categories = "mixed"',
        ),
    ):
        path.write_text(head + text, encoding="utf-8")
        with pytest.raises(ConfigErrors) as raised:
            read_config(path)
        (message,) = raised.value.lines
        assert message.removeprefix(f"{path}: ").startswith(line)
