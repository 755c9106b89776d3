"""The longest run of one answer, and the share of the most frequent answer."""

from __future__ import annotations

from collections import Counter
from itertools import groupby

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsfiq.analysis.people.participants import straight_lining
from tests.analysis.studies import Question, few, make_release

answers = st.builds(
    Question,
    preferred=st.sampled_from([0, 1]),
    scores=st.sampled_from([(3, 3), (4, 2)]),
    participant=st.sampled_from(["p1", "p2"]),
)


@few
@given(st.lists(answers, max_size=20))
def test_equals_the_definition(study: list[Question]) -> None:
    table = straight_lining(make_release(study).preferences)
    assert list(table.index) == sorted({question.participant for question in study})
    runs: dict[str, int] = {}
    keys = [(each.participant, each.scores, each.preferred) for each in study]
    for (person, *_), run in groupby(keys):
        runs[person] = max(runs.get(person, 0), len(list(run)))
    for person in table.index:
        own = [(each.scores, each.preferred) for each in study if each.participant == person]
        assert table.loc[person, "longest_run"] == runs[person]
        (most,) = Counter(own).most_common(1)
        assert table.loc[person, "modal_share"] == pytest.approx(most[1] / len(own))


def test_a_run_ends_with_its_form() -> None:
    preferences = make_release([Question(1)] * 6).preferences
    one_form = straight_lining(preferences.assign(form="form_1"))
    two_forms = straight_lining(preferences.assign(form=["form_1"] * 4 + ["form_2"] * 2))
    assert (one_form.loc["p1", "longest_run"], two_forms.loc["p1", "longest_run"]) == (6, 4)
    assert isinstance(two_forms, pd.DataFrame)
