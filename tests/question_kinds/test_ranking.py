"""`ranking`, from a study's file to a report, over HTTP with simulated annotators."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from sqlalchemy import Select, select

from hsfiq.collect.studies import find_study
from hsfiq.db.tables import Pair, Study
from hsfiq.errors import Refused
from hsfiq.kinds import KINDS, Rules
from hsfiq.study.images import shown_pairs
from tests.hsfiq.samples import hsfiq, rows
from tests.question_kinds.drawn_catalogue import Catalogue

ANSWERS = 8


def test_a_study_of_rankings_becomes_a_report(catalogue: Catalogue, tmp_path: Path) -> None:
    study = catalogue.answered("ranking", design='sets = 4\nimage_order = "shuffled"\n')
    assert catalogue.hsfiq("study", "status", "--study", study)["answered"] == ANSWERS

    folder = tmp_path / "release"
    catalogue.hsfiq("export", "--study", study, "--release", "ranking", "--out", folder)
    release = catalogue.release(study, "ranking")
    rankings, sets = rows(release, "rankings"), rows(release, "sets")
    assert len(rankings) == ANSWERS
    assert all(sorted(row["ranks"]) == [1, 2, 3, 4] for row in rankings)
    assert all(len(set(row["systems"])) == 4 for row in rankings)
    assert len({tuple(row["systems"]) for row in rankings}) > 1, "the order of the sets is drawn"
    assert [row["rank"] for row in sets] == [rank for row in rankings for rank in row["ranks"]]
    assert [row["set_id"] for row in sets] == [name for row in rankings for name in row["set_ids"]]
    assert {len(row["image_ids"]) for row in sets} == {3}
    assert all(row["shown_order"] for row in sets)

    report = tmp_path / "report"
    command = hsfiq(
        *("analyze", folder, "--metric", "recall@3", "--resamples", "50"),
        *("--report", report, "--json"),
    )
    assert command.code == 0, command.err
    result = json.loads((report / "results.json").read_text())
    assert catalogue.unplotted(study, result) == []
    assert set(result["mean_ranks"]["rows"]) == {"sharp", "blurred", "text-heavy", "image-heavy"}
    means = [row["mean rank"]["value"] for row in result["mean_ranks"]["rows"].values()]
    assert sum(means) == pytest.approx(1 + 2 + 3 + 4)
    rates = result["pairwise_rates"]["rows"]
    assert len(rates) == 6
    before = rates["blurred before sharp"]["rate"]
    ranked = [dict(zip(row["systems"], row["ranks"], strict=True)) for row in rankings]
    share = sum(ranks["blurred"] < ranks["sharp"] for ranks in ranked) / ANSWERS
    assert (before["value"], before["n"]) == (share, ANSWERS)
    assert result["agreement"]["rows"]["ranks"]["alpha"]["n"] == 4 * ANSWERS
    concordance = result["concordance"]["rows"]["all"]["Kendall's W"]
    assert (concordance["value"], concordance["n"]) == (None, 4)
    assert "only 4 things" in concordance["reason"]
    assert (report / "figures" / "mean_ranks_chart.svg").read_text().count("n = 8") == 4
    assert (report / "report.html").read_text().count("<svg") == 3
    assert set(result["strengths"]["rows"]) == set(result["mean_ranks"]["rows"])


def test_the_images_of_every_set_are_checked_and_made_ahead(catalogue: Catalogue) -> None:
    name = catalogue.create("ranking", name="five-of-four", design="sets = 4\n")
    with catalogue.database.reading() as session:
        study = find_study(session, name)
        assert study is not None
        shown = list(shown_pairs(session, study))
        for pair, row in zip(shown, session.scalars(pairs_of(study)), strict=True):
            sets = [row.first, row.second, *(further.retrieved for further in row.further)]
            names = {member.image.name for each in sets if each for member in each.images}
            assert len(sets) == 4
            assert pair.candidates == names
    catalogue.hsfiq("study", "close", "--study", name)


def pairs_of(study: Study) -> Select[Pair]:
    return select(Pair).where(Pair.study_id == study.id).order_by(Pair.id)


@pytest.mark.parametrize("ranks", [None, [1, 2], [1, 2, 4], [0, 1, 2], [1, 2, 2], [1, 2, 3.0]])
def test_other_judgements_are_refused(ranks: object) -> None:
    read = KINDS["ranking"].read
    assert read is not None
    rules = Rules(points=5, k=3, n_sets=3, ties=False)
    assert read({"ranks": [3, 1, 2]}, rules) == {"ranks": [3, 1, 2]}
    with pytest.raises(Refused):
        read({"ranks": ranks}, rules)


def test_tied_sets_share_the_better_rank() -> None:
    read = KINDS["ranking"].read
    assert read is not None
    rules = Rules(points=5, k=3, n_sets=4, ties=True)
    assert read({"ranks": [2, 4, 2, 4]}, rules) == {"ranks": [1, 3, 1, 3]}
