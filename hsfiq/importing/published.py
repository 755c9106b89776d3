"""Import a published HP-FashionIQ file as a finished study."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from hsfiq.collect.answering.counts import count_stored_answers
from hsfiq.collect.responses import response_of
from hsfiq.db.engine import added
from hsfiq.db.rows.executing import execute
from hsfiq.db.rows.new_rows import NEW_IMAGES, NEW_PAIRS, NEW_QUESTIONS, NEW_SETS
from hsfiq.db.tables import (
    Dataset,
    Form,
    Participant,
    Response,
    Study,
    Triplet,
)
from hsfiq.errors import UnreadableInput
from hsfiq.importing.datasets import Imported, dataset_named, image_keys, triplet_images
from hsfiq.importing.queries import QueryFinder
from hsfiq.readers.hpfiq import K, PublishedStudy, write
from hsfiq.records import JudgedPair, PublishedForm

Track = Callable[[Sequence[PublishedForm]], Iterable[PublishedForm]]
"""Iterates over the forms, for a progress bar."""


def import_published(
    session: Session, name: str, published: PublishedStudy, track: Track = iter
) -> Imported:
    """Import a published file as a finished study of FashionIQ.

    Triplets are looked up by category, reference and target, and created if FashionIQ has not been
    imported. Two questions about the same two sets of a query share their pair.
    """
    digest = hashlib.sha256(
        json.dumps([published.image_path, write(published)], sort_keys=True).encode()
    ).hexdigest()
    before = session.scalars(select(Study).where(Study.name == name)).one_or_none()
    if before is not None:
        if before.source_sha256 == digest:
            return Imported(0, published.n_questions)
        raise UnreadableInput(
            f"study {name}", "already exists with other answers", "choose a name with --study"
        )
    dataset = dataset_named(session, "fashioniq")
    study = Study(
        name=name, title="Published HP-FashionIQ answers", guidelines="", consent="",
        status="closed", origin="imported", k=K, ties_allowed=False,
        forms_per_participant=max(Counter(form.participant for form in published.forms).values()),
        design={},
        image_path=published.image_path, source_sha256=digest,
    )  # fmt: skip
    session.add(study)
    session.flush()
    writer = StudyWriter(session, study, dataset, published.forms)
    for number, form in enumerate(track(published.forms)):
        writer.add(number, form)
    writer.finish()
    return Imported(published.n_questions, 0)


class StudyWriter:
    """Converts published forms to rows; most rows are collected and inserted together."""

    def __init__(
        self, session: Session, study: Study, dataset: Dataset, forms: Sequence[PublishedForm]
    ) -> None:
        self.session, self.study, self.dataset = session, study, dataset
        self.images = image_keys(session, dataset, names_in(forms))
        self.queries = QueryFinder(session, dataset)
        # Of several triplets with the same images the first is used, as in `import_source`.
        self.triplets = {triplet_images(t): t for t in reversed(self.queries.triplets.values())}
        self.participants: dict[str, Participant] = {}
        self.positions = Counter[str]()
        self.sets: dict[tuple[int, tuple[int, ...]], int] = {}
        self.pairs: dict[tuple[int, int, int], int] = {}
        self.retrieved: list[dict[str, int]] = []
        self.responses: list[Response] = []

    def add(self, number: int, form: PublishedForm) -> None:
        participant = self._participant(form)
        self.positions[form.participant] += 1
        row = added(self.session, Form(
            study_id=self.study.id, number=number, batch=participant.id, category=form.category,
            participant_id=participant.id, position=self.positions[form.participant],
            name=form.name, n_questions=len(form.questions),
        ))  # fmt: skip
        questions = [
            self._question(row.id, place, form.category, judged)
            for place, judged in enumerate(form.questions)
        ]
        if questions:
            keys = execute(self.session, NEW_QUESTIONS, questions).scalars()
            self.responses += [
                imported_response(key, judged)
                for key, judged in zip(keys, form.questions, strict=True)
            ]

    def finish(self) -> None:
        if self.retrieved:
            execute(self.session, NEW_IMAGES, self.retrieved)
        if self.responses:
            self.session.add_all(self.responses)
            self.session.flush()
        count_stored_answers(self.session, self.study)

    def _participant(self, form: PublishedForm) -> Participant:
        if form.participant not in self.participants:
            participant = added(
                self.session,
                Participant(
                    study_id=self.study.id,
                    name=form.participant,
                    category=form.category or None,
                    source="imported",
                ),
            )
            self.participants[form.participant] = participant
        return self.participants[form.participant]

    def _question(
        self, form_id: int, place: int, category: str, judged: JudgedPair
    ) -> dict[str, object]:
        query = self.queries.by_text(self._triplet(category, judged), judged.text)
        first, second = (self._set(query.id, names) for names in judged.sets)
        swapped = (query.id, first, second) not in self.pairs and (
            query.id, second, first,
        ) in self.pairs  # fmt: skip
        pair = self._pair(query.id, *((second, first) if swapped else (first, second)))
        return {
            "form_id": form_id,
            "place": place,
            "pair_id": pair,
            "swapped": swapped,
            "text": None if judged.text == query.text else judged.text,
        }

    def _triplet(self, category: str, judged: JudgedPair) -> Triplet:
        key = (category, self.images[judged.reference], self.images[judged.target])
        if key not in self.triplets:
            triplet = added(self.session, Triplet(
                dataset_id=self.dataset.id,
                external_id=f"{category}.hpfiq.{judged.reference}.{judged.target}",
                category=category, split=None, reference_id=key[1], target_id=key[2], captions=[],
            ))  # fmt: skip
            self.triplets[key] = triplet
        return self.triplets[key]

    def _set(self, query_id: int, names: tuple[str, ...]) -> int:
        images = tuple(self.images[name] for name in names)
        if (query_id, images) not in self.sets:
            row = {"query_id": query_id, "system_id": None}
            set_id = int(execute(self.session, NEW_SETS, row).scalar_one())
            self.sets[query_id, images] = set_id
            self.retrieved += [
                {"set_id": set_id, "rank": rank, "image_id": image}
                for rank, image in enumerate(images)
            ]
        return self.sets[query_id, images]

    def _pair(self, query_id: int, first: int, second: int) -> int:
        key = (query_id, first, second)
        if key not in self.pairs:
            row = {"study_id": self.study.id, "query_id": query_id}
            row |= {"first_id": first, "second_id": second}
            self.pairs[key] = int(execute(self.session, NEW_PAIRS, row).scalar_one())
        return self.pairs[key]


def names_in(forms: Sequence[PublishedForm]) -> Iterable[str]:
    for form in forms:
        for question in form.questions:
            yield question.reference
            yield question.target
            yield from question.sets[0]
            yield from question.sets[1]


def imported_response(question_id: int, judged: JudgedPair) -> Response:
    """A published answer as the first and only revision."""
    response = response_of(judged.answer)
    response.question_id = question_id
    response.revision, response.submit_key = 1, "imported"
    return response
