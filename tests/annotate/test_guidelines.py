"""The standard guidelines say what applies to the study."""

from __future__ import annotations

import pytest

from hsfiq.annotate.texts import standard_guidelines
from hsfiq.study.config import Checks, Design, Presentation, StudyConfig
from hsfiq.study.languages import FOLDER, LANGUAGES, standard_texts

FILES = sorted(path.name for path in FOLDER.glob("guidelines.*.md"))

REASON, SUM, ORDER = "reason for your answer", "simple sum", "order of the images"


def written(name: str, checks: Checks | None = None, **design: int | bool) -> str:
    config = StudyConfig(Presentation("s", "S"), Design(**design), checks or Checks())  # type: ignore[arg-type]
    page = standard_texts(name.split(".")[-2])["page"]
    return standard_guidelines(name, config, ["Our *search*", "Theirs"], page)


@pytest.mark.parametrize("name", FILES)
def test_every_design_gives_complete_guidelines(name: str) -> None:
    for k in (1, 5, 10):
        for ties in (True, False):
            for reason_every in (0, 1, 7):
                text = written(name, k=k, preference_ties=ties, reason_every=reason_every)
                assert "{" not in text
                assert "\n\n\n" not in text
                assert "dataset" not in text
                assert "shop" not in text


@pytest.mark.parametrize(
    "name", ["guidelines.en.md", "guidelines.text.en.md", "guidelines.image.en.md"]
)
def test_notes_are_those_of_the_design(name: str) -> None:
    usual = written(name)
    assert "5 images" in usual
    assert ORDER in usual
    assert "No preference" not in usual
    assert f"Each question asks for the {REASON}" in written(name, reason_every=1)
    assert ORDER not in written(name, k=1)
    assert f'"{standard_texts("en")["page"]["tie"]}"' in written(name, preference_ties=True)


@pytest.mark.parametrize("name", [name for name in FILES if name.endswith(".en.md")])
def test_reasons_and_sums_are_announced_where_they_are_asked(name: str) -> None:
    assert REASON not in written(name)
    # Searches end with a remark instead.
    asks = name not in ("guidelines.search.en.md", "guidelines.arena.en.md")
    assert (f"Some questions ask for the {REASON}" in written(name, reason_every=7)) == asks
    assert "There is a " + SUM in written(name)
    assert SUM not in written(name, forms_per_participant=1)
    assert SUM not in written(name, Checks(arithmetic=False))


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_target_is_mentioned_where_it_is_shown(language: str) -> None:
    name, config = f"guidelines.query.{language}.md", StudyConfig(Presentation("s", "S"))
    page = standard_texts(language)["page"]
    verdict = page["verdicts"]["INVALID_TARGET_IMAGE"].split(":")[0]
    assert verdict in standard_guidelines(name, config, ["The right one"], page)
    assert "The right one" in standard_guidelines(name, config, ["The right one"], page)
    assert verdict not in standard_guidelines(name, config, [], page)


def test_the_sets_have_their_names() -> None:
    assert r"Our \*search\* and Theirs: each contains 10 images" in written(
        "guidelines.en.md", k=10
    )
    assert "Theirs: each contains one image" in written("guidelines.en.md", k=1)


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_tie_is_called_as_on_its_button(language: str) -> None:
    text = written(f"guidelines.{language}.md", preference_ties=True)
    assert standard_texts(language)["page"]["tie"] in text
