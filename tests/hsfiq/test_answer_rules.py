"""The states of a question's images: letters, what counts as painted, and earlier revisions."""

from __future__ import annotations

from hypothesis import assume, given
from hypothesis import strategies as st

from hsfiq.answer_rules import IMAGE_STATES, ImageStates

states = st.sampled_from(IMAGE_STATES)


def image_states(k: int) -> st.SearchStrategy[ImageStates]:
    """The states of two sets of k images; some questions have no reference."""
    images = st.tuples(*[states] * k)
    return st.builds(ImageStates, states | st.none(), st.tuples(images, images))


@given(st.integers(1, 10).flatmap(image_states))
def test_letters_hold_every_state(images: ImageStates) -> None:
    assert ImageStates.from_letters(images.letters) == images
    n_references = images.reference is not None
    assert len(images) == len(list(images)) == n_references + sum(map(len, images.sets))


def test_painted_is_shown_or_enlarged() -> None:
    images = ImageStates("enlarged", (("shown", "loaded"), ("missing", "unloaded")))
    assert images.letters == "e sl mu"
    assert (images.n_painted, images.n_enlarged, images.are_painted) == (2, 1, False)
    assert ImageStates("enlarged", (("shown",), ("shown",))).are_painted


@given(image_states(2), image_states(2))
def test_what_was_seen_before_stays_seen(images: ImageStates, earlier: ImageStates) -> None:
    assume((images.reference is None) == (earlier.reference is None))
    both = images.including(earlier)
    assert both == earlier.including(images)
    for now, before, later in zip(images, earlier, both, strict=True):
        assert later == max(now, before, key=IMAGE_STATES.index)
