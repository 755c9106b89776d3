"""The figures of an arena: by hand, by slow twins, and as `hsfiq analyze` gives them."""

from __future__ import annotations

import json
from itertools import combinations
from math import isnan, log
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from hsfiq import cli
from hsfiq.analysis.kinds.arena import Arena, arena, rating_of
from hsfiq.analysis.resampling.bootstrap import Bootstrap
from hsfiq.analysis.systems.strengths import strengths_and_side
from hsfiq.errors import UnreadableInput
from tests.analysis.kinds.votes_by_hand import drawn, table

TRUTH = {"a": 2.5, "b": 0.0, "c": -2.5}
VOTES = drawn(TRUTH, 12)


@pytest.fixture(scope="module")
def result() -> Arena:
    return arena(VOTES, n_resamples=200)


def test_by_hand() -> None:
    """a wins 8 and loses 2 as list 1, wins 4 and loses 4 as list 2, with 2 ties each, 1 both bad.

    On both sides nu = ties / sqrt(wins x losses) = 1/2, so the likelihood is greatest where the
    odds are those counted: s + side = log(8 / 2), s - side = log(4 / 4), with s = s_a - s_b.
    """
    outcomes = {1: (8, 2), 2: (4, 4)}
    votes = []
    for side, (wins, losses) in outcomes.items():
        systems = ("a", "b") if side == 1 else ("b", "a")
        for preference, n in ((side, wins), (3 - side, losses), (0, 1), (3, 1)):
            votes += [(*systems, preference)] * n
    rows = [
        (f"s{number}", 1, f"p{number % 8}", first, second, preference)
        for number, (first, second, preference) in enumerate(votes)
    ]
    by_hand = arena(table(rows), n_resamples=50)
    assert (by_hand.n_votes, by_hand.n_sessions, by_hand.n_participants) == (22, 22, 8)
    a, b = by_hand.systems["a"], by_hand.systems["b"]
    assert a.win_rate.value == (12 + 4 / 2) / 22
    assert b.win_rate.value == (6 + 4 / 2) / 22
    assert a.tie_share.value == by_hand.tie_share.value == 4 / 22
    assert a.both_bad.value == b.both_bad.value == by_hand.both_bad.value == 2 / 22
    assert (a.votes, a.sessions) == (22, 22)
    duel = next(each for each in by_hand.duels if each.system == "a")
    assert (duel.wins, duel.ties, duel.losses) == (12, 4, 6)
    pair = by_hand.pairing.pairs[0]
    assert (pair.sessions, pair.votes, pair.system_first) == (22, 22, 12)
    assert a.strength.value == pytest.approx(log(2) / 2)
    assert b.strength.value == pytest.approx(-log(2) / 2)
    assert by_hand.model.side.value == pytest.approx(log(2))
    assert by_hand.model.log_nu.value == pytest.approx(log(1 / 2))
    assert a.rating.value == pytest.approx(1000 + 200 * log(2) / log(10))
    assert by_hand.position_bias.rate == (8 + 4) / 18
    assert by_hand.within_sessions.correlation.reason == "no session has two votes"


def test_the_strengths_are_those_of_the_one_definition(result: Arena) -> None:
    numbers = {"a": 0, "b": 1, "c": 2}
    rows = VOTES.assign(
        first=VOTES["system_1"].map(numbers),
        second=VOTES["system_2"].map(numbers),
        preferred=VOTES["preference"],
    )
    bootstrap = Bootstrap.of_rows(rows, n_resamples=200)
    expected = strengths_and_side(rows, ["a", "b", "c"], bootstrap)
    assert bootstrap.unit == "participant"
    assert {name: each.strength.value for name, each in result.systems.items()} == {
        name: each.value for name, each in expected.strength.items()
    }
    for name, each in result.systems.items():
        interval = expected.strength[name].ci
        assert each.strength.ci.low == interval.low
        assert each.rating.ci.low == rating_of(interval.low)


def test_the_strongest_system_is_first_with_its_range_of_ranks(result: Arena) -> None:
    assert list(result.systems) == ["a", "b", "c"]
    ranks = [each.rank for each in result.systems.values()]
    assert [(each.rank, each.low, each.high) for each in ranks if each] == [
        (n,) * 3 for n in (1, 2, 3)
    ]
    assert result.too_few is None


def test_intervals_resample_participants_who_share_no_triplet(result: Arena) -> None:
    intervals = [each.strength.ci for each in result.systems.values()]
    assert {interval.unit for interval in intervals if interval} == {"participant"}
    assert {interval.n_clusters for interval in intervals if interval} == {12}


def test_triplets_are_resampled_too_where_participants_share_them() -> None:
    shared = VOTES.assign(
        query_id=VOTES["question_id"].str[-3:], triplet_id=VOTES["question_id"].str[-3:]
    )
    interval = arena(shared, n_resamples=50).both_bad.ci
    assert interval.unit == "participant x triplet"


def test_votes_of_one_session_correlate_as_a_loop_over_pairs_says(result: Arena) -> None:
    deviations: dict[str, list[float]] = {}
    for _, vote in VOTES.iterrows():
        pair = sorted((vote.system_1, vote.system_2))
        between = VOTES[VOTES["system_1"].isin(pair) & VOTES["system_2"].isin(pair)]
        mean = np.mean([share(other, pair[0]) for _, other in between.iterrows()])
        deviations.setdefault(vote.question_id, []).append(share(vote, pair[0]) - float(mean))
    products = [x * y for each in deviations.values() for x, y in combinations(each, 2)]
    squares = [x * x for each in deviations.values() for x in each]
    expected = np.mean(products) / np.mean(squares)
    assert result.within_sessions.correlation.value == pytest.approx(expected)
    assert result.within_sessions.correlation.n == len(products) == 108
    assert result.within_sessions.design_effect == pytest.approx(1 + 2 * expected)


def share(vote: pd.Series, system: str) -> float:  # type: ignore[type-arg]
    won = {0: 0.5, 1: 1.0, 2: 0.0}[vote.preference]
    return won if vote.system_1 == system else 1 - won


def test_votes_that_repeat_within_a_session_correlate_by_1() -> None:
    first = VOTES[VOTES["turn"] == 1]
    repeated = pd.concat([first.assign(turn=turn) for turn in (1, 2, 3)])
    within = arena(repeated, n_resamples=50).within_sessions
    assert within.correlation.value == pytest.approx(1)
    assert within.design_effect == pytest.approx(3)


def test_first_votes_alone_are_compared_with_all(result: Arena) -> None:
    alone = arena(VOTES, turns="first", n_resamples=200)
    assert (alone.turns, alone.n_votes, alone.first_turns) == ("first", 36, None)
    for name, each in result.first_turns.items():
        strength = alone.systems[name].strength.value
        assert each.strength.value == strength
        difference = strength - result.systems[name].strength.value
        assert each.difference.value == pytest.approx(difference)
        assert each.difference.ci is not None


def test_a_system_that_never_lost_has_no_strength() -> None:
    rows = [(f"s{n}", 1, f"p{n}", "a", "b", 1) for n in range(30)]
    undefeated = arena(table(rows), n_resamples=20)
    a = undefeated.systems["a"]
    assert isnan(a.strength.value)
    assert a.strength.reason is not None
    assert "never lost" in a.strength.reason
    assert a.rank is None
    assert a.win_rate.value == 1
    assert undefeated.too_few == a.strength.reason
    assert json.loads(json.dumps(undefeated.to_json()))["systems"]["a"]["strength"]["value"] is None


def test_systems_that_nothing_connects_have_no_strengths() -> None:
    apart = drawn({"a": 0.5, "b": 0.0}, 8)
    other = drawn({"c": 0.5, "d": 0.0}, 8).assign(
        question_id=lambda rows: rows["question_id"] + "x"
    )
    reason = arena(pd.concat([apart, other]), n_resamples=20).ranks.reason
    assert reason == "no question compares a, b with the other systems"


def test_a_named_system_without_votes_is_listed() -> None:
    with_new = arena(VOTES, ["a", "b", "c", "new"], n_resamples=20)
    assert with_new.systems["new"].votes == 0
    assert with_new.pairing.fewest == 0
    assert with_new.too_few == "a ranking needs 20 votes or more on each system"


def test_no_votes_give_no_ranking() -> None:
    empty = arena(table([]), ["a", "b"])
    assert empty.too_few == "a ranking needs votes from 5 participants or more"
    assert (empty.n_votes, list(empty.systems)) == (0, ["a", "b"])
    assert isnan(empty.systems["a"].win_rate.value)
    json.dumps(empty.to_json(), allow_nan=False)


def test_json_has_a_reason_for_each_undefined_figure(result: Arena) -> None:
    content = json.loads(json.dumps(result.to_json(), allow_nan=False))
    assert content["davidson"]["side"]["set_1_rate"] == pytest.approx(
        1 / (1 + np.exp(-result.model.side.value))
    )
    assert len(content["win_matrix"]) == 6
    assert content["systems"]["a"]["rank"] == {"rank": 1, "low": 1, "high": 1, "cluster": 1}


@pytest.mark.parametrize(
    ("votes", "turns", "what"),
    [
        (VOTES.drop(columns="both_bad"), "all", "column both_bad is missing"),
        (VOTES.assign(preference=3), "all", "a preference is not 0, 1 or 2"),
        (VOTES, "last", "no such turns: last"),
    ],
)
def test_what_cannot_be_used_is_refused(votes: pd.DataFrame, turns: str, what: str) -> None:
    with pytest.raises(UnreadableInput, match=what):
        arena(votes, turns=turns)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("arena")
    votes = drawn({"weak": -1.0, "middle": 0.0, "strong": 1.0}, 10, n_turns=2)
    votes.to_parquet(folder / "votes.parquet")
    queries = votes[["query_id", "triplet_id"]].drop_duplicates().assign(target_id=None)
    queries.to_parquet(folder / "queries.parquet")
    turns = votes[["question_id", "turn"]].assign(image_ids=[["a"]] * len(votes))
    turns.to_parquet(folder / "turns.parquet")
    manifest = {"version": "1.0.0", "kind": "arena", "study": "arena", "simulated": True}
    (folder / "manifest.json").write_text(json.dumps({"name": "arena-arena", **manifest}))
    return folder


def analyzed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert cli.run(["analyze", *arguments, "--resamples", "60"]) == 0
    return capsys.readouterr().out


def test_text_names_the_systems_best_first_and_says_simulated(
    release: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = analyzed(capsys, str(release))
    assert "SIMULATED: these figures describe a simulation, not people." in text
    assert "60 votes in 30 sessions about 30 queries, 10 participants" in text
    assert text.index("strong") < text.index("middle") < text.index("weak")
    assert "Strengths by the first votes alone" in text
    assert "Effect of the side: log odds of list 1 +" in text
    assert "The correlation of two votes of one session is" in text
    assert "Every pair of systems has 10 sessions with votes." in text
    assert max(map(len, text.splitlines())) <= 100
    first = analyzed(capsys, str(release), "--first-votes")
    assert "30 votes in 30 sessions" in first
    assert "Only the first vote of each session is used." in first


def test_report_has_the_figures_of_the_json(
    release: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = tmp_path / "report"
    content = json.loads(analyzed(capsys, str(release), "--json", "--report", str(report)))
    assert content["release"]["simulated"] is True
    assert content == json.loads((report / "results.json").read_text())
    assert list(content["systems"]) == ["strong", "middle", "weak"]
    page = (report / "report.html").read_text()
    assert "The votes come from simulated participants." in page
    rows = pd.read_csv(report / "tables/arena.csv", comment="#")
    assert rows["system"].tolist() == ["strong", "middle", "weak"]
    assert rows["strength"].tolist() == pytest.approx(
        [each["strength"]["value"] for each in content["systems"].values()]
    )
    assert (report / "figures/win_matrix.svg").is_file()


@pytest.mark.parametrize(
    "options",
    [["--metric", "recall@5"], ["--equivalence", "0.1"], ["--answer-model"], ["--details"]],
)
def test_options_about_stored_sets_are_refused(
    release: Path, options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["analyze", str(release), *options]) == 2
    assert capsys.readouterr().err.startswith(f"hsfiq: {options[0]}: ")


def test_file_in_place_of_the_folder_is_called_a_file(
    release: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = release / "votes.parquet"
    assert cli.run(["analyze", str(file)]) == 2
    assert capsys.readouterr().err.startswith(
        f"hsfiq: {file}: is a file; name the release's folder"
    )
