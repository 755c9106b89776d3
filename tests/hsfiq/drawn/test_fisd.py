"""FISD's aspects on drawn scenes: one best image for each query, and negatives of both kinds."""

from __future__ import annotations

import json
from itertools import chain
from pathlib import Path

import pytest

from hsfiq.cli import run
from hsfiq.drawn.fisd import (
    LEAST_WORDS,
    SCENE_ATTRIBUTES,
    SCENE_VALUES,
    Scene,
    SceneTriplet,
    clauses,
    draw_aspects,
    draw_scene_picture,
    read_caption,
    write_drawn_fisd,
)
from hsfiq.drawn.garments import Garment
from hsfiq.errors import InvalidRecord, UnreadableInput
from hsfiq.readers.datasets import ASPECTS, Aspect, read_fisd

RED = Scene(Garment("dress", "red", "long", "striped", "v", "star"), 3, "beach")

Aspects = dict[Aspect, tuple[SceneTriplet, ...]]


@pytest.fixture(scope="module")
def aspects() -> Aspects:
    return draw_aspects(seed=5, n=60)


def differing(scene: Scene, other: Scene) -> set[str]:
    names = {name for name in SCENE_ATTRIBUTES if scene.value(name) != other.value(name)}
    return names | ({"category"} if scene.garment.category != other.garment.category else set())


def test_the_reading_of_a_caption_is_the_target_alone(aspects: Aspects) -> None:
    for triplets in aspects.values():
        corpus = [scene for triplet in triplets for scene in triplet.scenes]
        assert len(set(corpus)) == len({scene.image_id for scene in corpus}) == 180
        for triplet in triplets:
            ideal = read_caption(triplet.caption, triplet.reference)
            assert [scene for scene in corpus if not differing(scene, ideal)] == [triplet.target]


def test_each_aspect_changes_what_it_is_about(aspects: Aspects) -> None:
    changed = {
        aspect: {frozenset(differing(t.reference, t.target)) for t in triplets}
        for aspect, triplets in aspects.items()
    }
    assert changed["cardinality"] == {frozenset({"badges"})}
    assert changed["background"] == {frozenset({"background"})}
    for aspect in ("addition", "negation", "change"):
        assert all(len(names) == 1 for names in changed[aspect])
        assert len(changed[aspect]) > 2
    assert {len(names) for names in changed["complex"]} == {4, 5}
    assert all(len(t.caption.split()) >= LEAST_WORDS for t in aspects["complex"])
    for triplet in aspects["negation"]:
        assert {"no", "without", "not"} & set(triplet.caption.split())


def test_hard_negatives_misread_the_text_or_the_reference_in_one_place(aspects: Aspects) -> None:
    for triplets in aspects.values():
        assert [t.misread for t in triplets[:4]] == ["text", "reference"] * 2
        for triplet in triplets:
            (wrong,) = differing(triplet.target, triplet.hard_negative)
            mentioned = differing(triplet.reference, triplet.target)
            assert (wrong in mentioned) == (triplet.misread == "text")
            assert wrong in differing(triplet.reference, triplet.hard_negative)


def test_every_wording_of_a_difference_has_one_reading() -> None:
    for name in SCENE_ATTRIBUTES:
        for value in SCENE_VALUES[name]:
            if value != RED.value(name):
                for clause in chain(*clauses(name, RED.value(name), value).values()):
                    assert read_caption(f"the dress {clause}", RED) == RED.changed(name, value)


def test_other_captions_and_targets_are_refused() -> None:
    with pytest.raises(UnreadableInput):
        read_caption("is nicer", RED)
    blue = RED.changed("colour", "blue")
    with pytest.raises(InvalidRecord):
        SceneTriplet("t", "change", RED, blue, RED, "text", "is green instead of red")


def test_images_are_the_same_in_every_version() -> None:
    assert RED.image_id == "f355632"
    assert draw_scene_picture(RED).size == (360, 480)


def test_a_folder_is_written_whole_and_read_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "fisd"
    command = ["images", "draw-fisd", str(folder), "--triplets", "2", "--seed", "5", "--json"]
    assert run(command) == 0
    result = json.loads(capsys.readouterr().out)
    assert result == {"out": str(folder), "triplets": 2, "images": 36}
    drawn, aspects = draw_aspects(5, 2), read_fisd(folder)
    assert tuple(aspects) == ASPECTS
    for aspect in ASPECTS:
        for triplet, stored in zip(drawn[aspect], aspects[aspect], strict=True):
            assert stored.images == tuple(scene.image_id for scene in triplet.scenes)
            assert stored.caption == triplet.caption
            assert all((folder / "images" / f"{image}.jpg").is_file() for image in stored.images)
    assert json.loads((folder / "drawn.json").read_text())["seed"] == 5
    with pytest.raises(UnreadableInput, match="already exists"):
        write_drawn_fisd(folder, 5, 2)
