"""`hsfiq evaluate icir` on files of i-CIR's form."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.hsfiq.readers.test_judged import write_icir
from tests.model.evaluation.helpers import put, refusal
from tests.model.scorer.helpers import hsfiq

LISTS = {
    "icir.0": ["db/t1.jpg", "db/t3.jpg", "db/t2.jpg"],
    "icir.1": ["db/t3.jpg", "db/t1.jpg", "db/t2.jpg"],
    "icir.2": ["db/c1.jpg", "db/c2.jpg"],
}


def test_mean_average_precision_by_instance(tmp_path: Path) -> None:
    data, run = write_icir(tmp_path / "icir"), put(tmp_path / "run.json", LISTS)
    command = hsfiq("evaluate", "icir", "--data", data, "--run", run, "--k", "2", "--json")
    assert command.code == 0, command.err
    figures = json.loads(command.out)
    own = figures["systems"][str(run)]
    first = (1 + 2 / 3) / 2
    assert own["ap"] == pytest.approx((first + 1 + 1) / 3)
    assert own["group_means"]["ap"] == pytest.approx(((first + 1) / 2 + 1) / 2)
    # t1 at 1: 1; t2 at 3: (1/2 + 2/3) / 2.
    assert own["ap_icir"] == pytest.approx(((1 + 7 / 12) / 2 + 1 + 1) / 3)
    assert not {"wrong@2", "judged@2"} & set(own)
    assert (figures["queries"], figures["n_clusters"]) == ("i-CIR", 2)
    text = hsfiq("evaluate", "icir", "--data", data, "--run", run).out
    assert "2 databases of 2 to 3 images; 4 right answers, all other images wrong" in text


def test_lists_of_another_instance_are_refused(tmp_path: Path) -> None:
    data = write_icir(tmp_path / "icir")
    run = put(tmp_path / "run.json", LISTS | {"icir.2": ["db/t1.jpg"]})
    line = refusal(hsfiq("evaluate", "icir", "--data", data, "--run", run))
    assert "is not among the 2 images of its database of group cup" in line
