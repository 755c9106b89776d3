"""Questions as their participants see them, in two statements: every answer needs two questions.

`hsfiq.collect.steps.load_question` loads one question with everything that belongs to it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from sqlalchemy import Select, bindparam, select
from sqlalchemy.orm import Session, aliased

from hsfiq.collect.steps import image_orders, in_shown_order
from hsfiq.db.rows import rows_of
from hsfiq.db.source_tables import Image, Query, Triplet
from hsfiq.db.tables import FurtherSet, Pair, Question, RetrievedImage


@dataclass(frozen=True, slots=True)
class ShownImage:
    """What finds an image's file, its digest, and the token under which browsers see it."""

    dataset_id: int
    name: str
    token: str
    sha256: str | None


@dataclass(frozen=True, slots=True)
class ShownQuestion:
    """A question; its sets and their images are in the order in which it shows them.

    `place` is that in its form.
    """

    place: int
    text: str
    reference: ShownImage | None
    sets: tuple[tuple[ShownImage, ...], ...]

    @property
    def images(self) -> list[ShownImage]:
        """Its images, each once; sorted by token so that their order reveals nothing."""
        references = [] if self.reference is None else [self.reference]
        images = {image.token: image for images in (references, *self.sets) for image in images}
        return [images[token] for token in sorted(images)]


def shown_questions(
    session: Session, question_id: int, other_id: int | None = None
) -> dict[int, ShownQuestion]:
    """One or two questions, by database key."""
    ids = {"question": question_id, "other": question_id if other_id is None else other_id}
    rows = rows_of(session, _questions(), ids).all()
    sets = {row.id: sets_of(session, row) for row in rows}
    images = images_of_sets(session, {key for keys in sets.values() for key in keys})
    return {
        row.id: ShownQuestion(
            place=row.place,
            text=row.text or row.query_text,
            reference=(
                ShownImage(row.dataset_id, row.name, row.token, row.sha256)
                if row.token is not None
                else None
            ),
            sets=in_image_order(row, in_shown_order(row, [images[key] for key in sets[row.id]])),
        )
        for row in rows
    }


def sets_of(session: Session, row: Any) -> list[int]:
    """The keys of a question's sets, in the order of its pair."""
    sets = [key for key in (row.first_id, row.second_id) if key is not None]
    if row.set_order is not None:
        further = select(FurtherSet.set_id).where(FurtherSet.pair_id == row.pair_id)
        sets += session.scalars(further.order_by(FurtherSet.place))
    return sets


def in_image_order(
    row: Any, sets: Iterable[Sequence[ShownImage]]
) -> tuple[tuple[ShownImage, ...], ...]:
    """The sets with their images as the question shows them."""
    return tuple(
        tuple(images) if order is None else tuple(images[place] for place in order)
        for images, order in zip(sets, image_orders(row), strict=False)
    )


def images_of_sets(session: Session, sets: Iterable[int]) -> Mapping[int, list[ShownImage]]:
    """The images of retrieved sets, best first."""
    images: dict[int, list[ShownImage]] = defaultdict(list)
    for row in rows_of(session, _images(), {"sets": list(sets)}):
        set_id, dataset_id, name, token, sha256 = row
        images[set_id].append(ShownImage(dataset_id, name, token, sha256))
    return images


@cache
def _questions() -> Select[*tuple[Any, ...]]:
    reference = aliased(Image)
    return (
        select(
            *(Question.id, Question.place, Question.pair_id, Question.text),
            *(Question.swapped, Question.order_1, Question.order_2),
            *(Question.set_order, Question.image_orders),
            *(Pair.first_id, Pair.second_id, Query.text.label("query_text")),
            *(reference.dataset_id, reference.name, reference.token, reference.sha256),
        )
        .join(Pair, Question.pair_id == Pair.id)
        .join(Query, Pair.query_id == Query.id)
        .join(Triplet, Query.triplet_id == Triplet.id)
        .outerjoin(reference, Triplet.reference_id == reference.id)
        .where(Question.id.in_([bindparam("question"), bindparam("other")]))
    )


@cache
def _images() -> Select[int, int, str, str, str | None]:
    return (
        select(RetrievedImage.set_id, Image.dataset_id, Image.name, Image.token, Image.sha256)
        .join(Image, RetrievedImage.image_id == Image.id)
        .where(RetrievedImage.set_id.in_(bindparam("sets", expanding=True)))
        .order_by(RetrievedImage.set_id, RetrievedImage.rank)
    )
