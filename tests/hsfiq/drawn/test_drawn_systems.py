from random import Random
from statistics import mean

import pytest

from hsfiq.drawn import (
    SYSTEMS,
    DrawnSystem,
    DrawnTriplet,
    Garment,
    catalogue,
    corpus,
    draw_triplets,
    garment_of,
    set_utility,
    utility,
)
from hsfiq.drawn.utility import kept_utility, reference_similarity, text_utility

PERFECT = DrawnSystem("perfect", text=0.5, kept=0.5, near=0.0, noise=0.0)


@pytest.fixture(scope="module")
def garments() -> tuple[Garment, ...]:
    return catalogue(Random(0), 120)


@pytest.fixture(scope="module")
def triplets(garments: tuple[Garment, ...]) -> tuple[DrawnTriplet, ...]:
    return draw_triplets(Random(1), garments, 120)


def top_five(system: DrawnSystem, triplet: DrawnTriplet, garments: tuple[Garment, ...]) -> float:
    ranked = system.rank(triplet, corpus(garments, triplet.category), 7)
    return set_utility(triplet, [garment_of(name) for name in ranked.images[:5]])


def test_the_known_order_of_quality_holds(
    garments: tuple[Garment, ...], triplets: tuple[DrawnTriplet, ...]
) -> None:
    sharp, blurred, text_heavy, image_heavy = (
        mean(top_five(system, triplet, garments) for triplet in triplets) for system in SYSTEMS
    )
    assert sharp > blurred + 0.02
    assert blurred > max(text_heavy, image_heavy) + 0.02


def test_each_one_sided_system_is_best_by_its_own_criterion(
    garments: tuple[Garment, ...], triplets: tuple[DrawnTriplet, ...]
) -> None:
    by_text, by_image = {}, {}
    for system in SYSTEMS:
        lists = [
            (triplet, system.rank(triplet, corpus(garments, triplet.category), 7))
            for triplet in triplets
        ]
        top = [
            (triplet, garment_of(name)) for triplet, ranked in lists for name in ranked.images[:5]
        ]
        by_text[system.name] = mean(text_utility(triplet, garment) for triplet, garment in top)
        by_image[system.name] = mean(reference_similarity(*pair) for pair in top)
    assert max(by_text, key=lambda name: by_text[name]) == "text-heavy"
    assert max(by_image, key=lambda name: by_image[name]) == "image-heavy"


def test_a_list_ranks_the_corpus_without_the_reference(
    garments: tuple[Garment, ...], triplets: tuple[DrawnTriplet, ...]
) -> None:
    for triplet in triplets[:20]:
        images = corpus(garments, triplet.category)
        ranked = SYSTEMS[0].rank(triplet, images, 7)
        assert ranked.query_id == triplet.external_id
        assert ranked.system == "sharp"
        assert len(ranked.images) == 50
        assert triplet.reference.image_id not in ranked.images
        assert set(ranked.images) <= {garment.image_id for garment in images}
        assert ranked.scores is not None
        assert list(ranked.scores) == sorted(ranked.scores, reverse=True)
    full_list = PERFECT.rank(triplets[0], corpus(garments, triplets[0].category), 7, depth=1000)
    assert len(full_list.images) == 119


def test_a_list_depends_only_on_seed_system_and_query(
    garments: tuple[Garment, ...], triplets: tuple[DrawnTriplet, ...]
) -> None:
    first, second = triplets[:2]
    images = corpus(garments, first.category)
    system = SYSTEMS[1]
    ranked = system.rank(first, images, 7)
    system.rank(second, images, 7)
    assert system.rank(first, reversed(images), 7) == ranked
    assert system.rank(first, images, 8) != ranked
    other_query = system.rank(first, images, 7, query_id=f"{first.external_id}~")
    assert other_query.query_id == "dress.train.0~"
    assert other_query.images != ranked.images


def test_utility_is_1_if_every_requested_change_is_present() -> None:
    reference = Garment("shirt", "red", "long", "plain", "v", "none")
    target = Garment("shirt", "blue", "long", "plain", "v", "star")
    triplet = DrawnTriplet(
        "shirt.val.0", "val", reference, target, ("is blue", "is blue"), frozenset({"colour"})
    )
    wish = Garment("shirt", "blue", "long", "plain", "v", "none")
    assert utility(triplet, wish) == 1
    # The logo is unmentioned, so it should have stayed: 0.15 of the 0.7 unmentioned weights.
    assert utility(triplet, target) == pytest.approx(1 - 0.5 * 0.15 / 0.7)
    assert utility(triplet, reference) == 0.5
    assert text_utility(triplet, reference) == 0
    assert text_utility(triplet, Garment("shirt", "pink", "long", "plain", "v", "none")) == 0
    assert kept_utility(
        triplet, Garment("shirt", "red", "three-quarter", "plain", "v", "none")
    ) == (pytest.approx(1 - 0.5 * 0.2 / 0.7))
    assert set_utility(triplet, [wish, reference]) == 0.75


def test_one_sided_metrics_stay_below_the_oracle(
    garments: tuple[Garment, ...], triplets: tuple[DrawnTriplet, ...]
) -> None:
    def best(metric, triplet: DrawnTriplet) -> float:  # type: ignore[no-untyped-def]
        images = corpus(garments, triplet.category)
        return utility(triplet, max(images, key=lambda garment: metric(triplet, garment)))

    oracle, text_only, image_only = (
        mean(best(metric, triplet) for triplet in triplets)
        for metric in (utility, text_utility, reference_similarity)
    )
    assert oracle > max(text_only, image_only) + 0.1
