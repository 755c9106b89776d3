"""Commands for pairs say in one line that a study or a release is of another question kind."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hsfiq.samples import hsfiq
from tests.question_kinds.drawn_catalogue import Catalogue


@pytest.mark.parametrize("release", ["hs", "hp", "images"])
def test_a_release_of_another_kind_is_refused(
    catalogue: Catalogue, release: str, tmp_path: Path
) -> None:
    name = f"single-without-{release}"
    catalogue.create("single", name=name)
    command = hsfiq(
        *("export", "--study", name, "--release", release, "--out", tmp_path / "out"),
        *("--database", catalogue.place.url),
    )
    assert command.code == 2
    assert command.err == (
        f"hsfiq: --release: the questions of study {name} are of kind single, so it has no "
        f"{release}; there is single\n"
    )
    assert not (tmp_path / "out").exists()
    catalogue.hsfiq("study", "close", "--study", name)


def test_queries_need_a_target_if_it_is_shown(catalogue: Catalogue, tmp_path: Path) -> None:
    table = tmp_path / "queries.csv"
    table.write_text("query_id,text\nq1,a red dress\nq2,a blue dress\n")
    catalogue.hsfiq(
        *("import", "queries", table, "--images", catalogue.folder / "images"),
        *("--dataset", "texts"),
    )
    text = """\
[study]
name = "targetless"
title = "Queries"

[design]
kind = "query"
questions_per_form = 1
forms_per_participant = 1

[queries]
dataset = "texts"
"""
    study = tmp_path / "study.toml"
    study.write_text(text)
    refused = hsfiq("study", "create", study, "--database", catalogue.place.url)
    assert refused.code == 2
    assert "design.show_target: 2 queries have no labelled target; set it to false" in refused.err
    study.write_text(text.replace('kind = "query"', 'kind = "query"\nshow_target = false'))
    created = catalogue.hsfiq("study", "create", study, "--draft")
    assert created["questions"] == 2
