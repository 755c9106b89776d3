"""Which texts reach the systems' tokenizers."""

from __future__ import annotations

import pytest

from hsfiq.model.retrieval.loading import new_system
from hsfiq.model.system_recipes import system_on_drawn, system_recipe

TEXT = "Is red (not blue). Has dots"


@pytest.mark.parametrize(
    ("system", "expected"),
    [
        ("clip4cir", TEXT),
        ("bi-blip4cir", TEXT),
        ("covr-blip", "is red not blue has dots"),
        ("sprc", "is red not blue has dots"),
    ],
)
def test_each_system_cleans_texts_as_its_code_does(system: str, expected: str) -> None:
    built = new_system(system_on_drawn(system_recipe(f"{system}-fashioniq")), None)
    assert built.clean_text(TEXT) == expected
    assert "&" in built.clean_text("red andmark blue")


def test_covr_reads_30_words_and_sprc_50() -> None:
    text = " ".join(map(str, range(60)))
    lengths = [
        len(
            new_system(system_on_drawn(system_recipe(f"{name}-fashioniq")), None)
            .clean_text(text)
            .split()
        )
        for name in ("covr-blip", "sprc", "clip4cir")
    ]
    assert lengths == [30, 50, 60]
