"""The dashboard's card of preferences between systems."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from hsfiq.analysis.sequential import DRIFT, watch_preferences
from hsfiq.annotate.owner import cards
from hsfiq.annotate.owner import cards as card
from hsfiq.collect.review import WinShares, win_shares
from hsfiq.collect.studies import list_studies
from tests.annotate.owner.studies_in_progress import watched_study
from tests.annotate.served_studies import Place

NOW = datetime(2026, 3, 1, 12, 30, tzinfo=UTC)


def test_the_card_of_a_study_in_progress(tmp_path: Path) -> None:
    """p1 and p2 have finished; three pairs of systems have an interval each."""
    database = watched_study(Place(tmp_path), NOW)
    with database.reading() as session:
        study = list_studies(session)[0]
        shown = cards.preferences_card(session, study)
        shares = win_shares(session, study)
    asked = [own for own in shares.by_pair.values() if own]
    assert (shown.name, len(shown.lines)) == (cards.PREFERENCE, 3)
    assert sum("2 finished, undecided" in line.note for line in shown.lines) == sum(
        len(own) == 2 for own in asked
    )
    assert "Not finished, so not counted yet: 1." in shown.notes
    page = cards.cards([], [], NOW, further=[shown])
    assert cards.PREFERENCE in page
    assert "any of the 3 intervals" in page


def shown_card(shares: WinShares, monkeypatch: pytest.MonkeyPatch) -> cards.Card:
    monkeypatch.setattr(card, "win_shares", lambda *_: shares)
    return cards.preferences_card(None, None)  # type: ignore[arg-type]


def test_one_pair_has_a_chart_over_time(monkeypatch: pytest.MonkeyPatch) -> None:
    own = [(0.8, 25)] * 20
    shown = shown_card(WinShares({("a", "b"): own}, 20, 0, 500, 0), monkeypatch)
    (watched,) = watch_preferences({("a", "b"): own})
    (line,) = shown.lines
    assert line.value == "80.0 %"
    assert f"decided after {watched.decided_after}: a is preferred" in line.note
    (points,) = re.findall(r'<polygon class="band" points="([^"]*)"', line.plot)
    assert len(points.split()) == 2 * (20 + 1)
    tooltips = re.findall(r"<title>after (\d+): ([\d.]+) to ([\d.]+)</title>", line.plot)
    assert [float(low) for _, low, _ in tooltips] == pytest.approx(list(watched.low), abs=1e-3)
    assert 'class="decided"' in line.plot


def test_a_chart_of_many_participants_stays_small(monkeypatch: pytest.MonkeyPatch) -> None:
    own = [(0.75, 4), (0.5, 4)] * 2000
    (line,) = shown_card(WinShares({("a", "b"): own}, 4000, 0, 500, 0), monkeypatch).lines
    (points,) = re.findall(r'<polygon class="band" points="([^"]*)"', line.plot)
    assert len(points.split()) == 2 * (cards.MOST_STEPS + 1)
    (watched,) = watch_preferences({("a", "b"): own})
    last = re.findall(r"<title>after ([\d,]+): ([\d.]+) to", line.plot)[-1]
    assert last == ("4,000", f"{watched.low[-1]:.3f}")


def test_many_pairs_have_a_line_each(monkeypatch: pytest.MonkeyPatch) -> None:
    by_pair = {(f"s{i}", "z"): [(0.5 + i / 30, 2)] * 30 for i in range(12)}
    shown = shown_card(WinShares(by_pair, 30, 0, 9, 0), monkeypatch)
    assert [line.value for line in shown.lines[:2]] == ["86.7 %", "83.3 %"]
    assert len(shown.lines) == cards.MOST_LINES
    assert "polygon" not in shown.lines[0].plot
    assert shown.notes[0] == "6 more pairs: see hsfiq study status."


def test_a_drift_is_shown_up_to_where_it_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    own = [(1.0, 5)] * 40 + [(0.0, 5)] * 40
    (line,) = shown_card(WinShares({("a", "b"): own}, 80, 0, 9, 0), monkeypatch).lines
    assert DRIFT in line.note
    assert "nan" not in line.plot


def test_nothing_to_show_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    nothing = shown_card(WinShares({}, 0, 0, 0, 0), monkeypatch)
    assert "no two systems" in nothing.empty
    nobody = shown_card(WinShares({("a", "b"): []}, 0, 2, 0, 0), monkeypatch)
    assert nobody.empty == "Nobody has finished yet"
