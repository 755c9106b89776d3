"""Attention checks of other kinds than pairs, over HTTP with simulated annotators."""

from __future__ import annotations

from pathlib import Path

import pytest

from hsfiq.collect.checks import question_checks
from hsfiq.collect.history import question_history
from hsfiq.collect.progress import answers_of, participants_of
from hsfiq.collect.studies import find_study
from hsfiq.kinds import KINDS
from hsfiq.releases.content import Source, explain
from hsfiq.releases.filters import Filters
from tests.question_kinds.drawn_catalogue import Catalogue


@pytest.mark.parametrize("kind", ["single", "images", "ranking", "query"])
def test_checks_are_asked_counted_and_dropped(catalogue: Catalogue, kind: str) -> None:
    gold = int(KINDS[kind].gold is not None)
    study = catalogue.answered(
        kind,
        name=f"checks-{kind}",
        design="forms_per_participant = 1\n",
        queries=f"[checks]\ngold = {gold}\nrepeated = 1\n",
    )
    with catalogue.database.reading() as session:
        row = find_study(session, study)
        assert row is not None
        results = list(question_checks(session, row))
        assert [result.kind for result in results].count("repeat") == 2
        assert [result.kind for result in results].count("gold") == 2 * gold
        people = participants_of(session, row)
        assert [person.checks for person in people] == [1 + gold] * 2
        n_failed = [person.failed_checks for person in people]
        assert sum(n_failed) == sum(not result.passed for result in results)

        funnel, _ = explain(Source(session, row, kind, Filters(failed_checks=True)))
        steps = {step.rule: step.dropped for step in funnel.steps}
        assert steps["check"] == 2 * (1 + gold)
        assert steps["failed-checks"] == 2 * sum(failed > 0 for failed in n_failed)

        golds = [answer for answer in answers_of(session, row) if answer.check == "gold"]
        for answer in golds:
            history = question_history(session, row, answer.question_id)
            assert history is not None
            assert history.expected


def test_gold_questions_about_queries_are_refused(catalogue: Catalogue, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"checks\.gold: cannot be used with kind = .query."):
        catalogue.create("query", name="refused", queries="[checks]\ngold = 1\n")
