"""The figures on the page Watch as text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from sqlalchemy.orm import Session

from hsfiq.annotate.handlers import Services
from hsfiq.annotate.studio.figures import Card, cards_of, with_commas
from hsfiq.db.engine import Database
from hsfiq.db.tables import Study


@with_commas
def english(text: str, /, **values: object) -> str:
    return text.format_map(values) if values else text


def figures_in(
    session: Session, study: Study, database: Database, now: datetime | None = None
) -> str:
    images = Services.of(database).images
    return text_of(cards_of(english, session, study, images, now or datetime.now(UTC)))


def text_of(cards: Iterable[Card]) -> str:
    return "\n".join(line for card in cards for line in lines_of(card))


def lines_of(card: Card) -> Iterator[str]:
    yield card.name
    yield card.empty
    for line in card.lines:
        yield f"{line.value} {line.note}".strip()
    yield from (label for _, label in card.legend)
    yield from card.notes
