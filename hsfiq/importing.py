"""Importing external data into the database: triplets, ranked lists and published studies."""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from sqlalchemy import insert, select, update
from sqlalchemy.orm import Session, joinedload

from hsfiq.collect.answers import count_stored_answers, response_of
from hsfiq.collect.studies import find_study
from hsfiq.db.engine import added
from hsfiq.db.rows import NEW_IMAGES, NEW_PAIRS, NEW_QUESTIONS, NEW_SETS, execute
from hsfiq.db.source_tables import (
    Corpus,
    Dataset,
    Image,
    Query,
    RankedList,
    System,
    Triplet,
    corpus_images,
)
from hsfiq.db.tables import Form, Participant, Response, RetrievedSet, Study
from hsfiq.errors import InvalidRecord, UnreadableInput
from hsfiq.ids import REVERSED, query_suffix, split_query_id
from hsfiq.images.folder import OwnImages, UnknownName
from hsfiq.images.store import Root, open_images, root_named
from hsfiq.kinds.pair import PAIR
from hsfiq.readers.datasets import canonical
from hsfiq.readers.files import ErrorList, Place
from hsfiq.readers.hpfiq import K, PublishedStudy, write
from hsfiq.readers.own_queries import ImageId, PlacedQuery, WrongRow
from hsfiq.records import JudgedPair, OwnQuery, PublishedForm, Source
from hsfiq.records import RankedList as RankedListRecord
from hsfiq.records import Triplet as TripletRecord
from hsfiq.text import joined, shown

# Import CIR datasets: images, corpora and triplets.

T = TypeVar("T")

CIRCO_DATASETS = {"val": "circo", "test": "circo-test"}
"""CIRCO's splits both number their queries from 0, so each is a dataset of its own."""

CHUNK = 500
"""Rows of one statement: below every database's limit of parameters."""


@dataclass(frozen=True, slots=True)
class Imported:
    """The numbers of rows that an import added, found and replaced."""

    added: int
    already: int
    replaced: int = 0


def dataset_named(session: Session, name: str, image_root: Root | None = None) -> Dataset:
    """The dataset of this name, created if new; `image_root` replaces its image folder."""
    dataset = session.scalars(select(Dataset).where(Dataset.name == name)).one_or_none()
    if dataset is None:
        dataset = added(session, Dataset(name=name, image_root=None))
    if image_root is not None:
        root = image_root.resolve() if isinstance(image_root, Path) else image_root
        dataset.image_root = str(root)
    return dataset


def existing_dataset(session: Session, name: str | None) -> Dataset:
    """The dataset of this name, or the only one; UnreadableInput if there is none or several."""
    datasets = {dataset.name: dataset for dataset in session.scalars(select(Dataset))}
    if name is None and len(datasets) == 1:
        return next(iter(datasets.values()))
    if name is None and datasets:
        raise UnreadableInput(
            "--dataset",
            f"there are {len(datasets)} datasets",
            f"name one of {', '.join(sorted(datasets))}",
        )
    if name is None:
        raise UnreadableInput(
            "--dataset", "the database has no dataset", "import its queries first"
        )
    if name not in datasets:
        raise UnreadableInput(
            "--dataset",
            f"no dataset is called {name!r}",
            f"there are {', '.join(sorted(datasets))}" if datasets else "import its captions first",
        )
    return datasets[name]


def image_keys(session: Session, dataset: Dataset, names: Iterable[str]) -> dict[str, int]:
    """Database keys of the images with these ids; new images are added."""
    wanted = list(dict.fromkeys(names))
    keys_of: dict[str, int] = {}
    for chunk in chunks(wanted):
        rows = session.execute(
            select(Image.name, Image.id).where(
                Image.dataset_id == dataset.id, Image.name.in_(chunk)
            )
        )
        keys_of.update((name, key) for name, key in rows)
    new = [name for name in wanted if name not in keys_of]
    if new:
        keys = session.scalars(
            insert(Image).returning(Image.id, sort_by_parameter_order=True),
            [
                {"dataset_id": dataset.id, "name": name, "token": secrets.token_hex(16)}
                for name in new
            ],
        )
        keys_of.update(zip(new, keys, strict=True))
    return keys_of


def import_source(session: Session, dataset: Dataset, source: Source) -> Imported:
    """Import the triplets of one captions file and its corpus.

    A triplet that a published study created (without captions) gets its id and captions, and its
    queries get their ids. `UnreadableInput` if a triplet exists with other content.
    """
    images = image_keys(session, dataset, source.all_images())
    import_corpus(session, dataset, source, images)
    known = {
        triplet.external_id: triplet
        for triplet in session.scalars(select(Triplet).where(Triplet.dataset_id == dataset.id))
    }
    without_captions = {triplet_images(t): t for t in known.values() if not t.captions}
    added, already, completed = [], 0, 0
    for index, record in enumerate(source.triplets):
        row = triplet_row(record, dataset, images)
        existing = known.get(record.external_id)
        target = None if record.target is None else images[record.target]
        key = (record.category, images[record.reference], target)
        if existing is not None:
            require_same(existing, row, f"{source.path}: [{index}]")
            already += 1
        elif key in without_captions:
            complete_triplet(session, without_captions.pop(key), record)
            completed += 1
        else:
            added.append(row)
    if added:
        session.execute(insert(Triplet), added)
    return Imported(len(added) + completed, already)


def triplet_images(triplet: Triplet) -> tuple[str, int | None, int | None]:
    """The identity of a triplet of a published study: category, reference, target."""
    return triplet.category, triplet.reference_id, triplet.target_id


def import_corpus(
    session: Session, dataset: Dataset, source: Source, images: dict[str, int]
) -> None:
    corpus = session.scalars(
        select(Corpus).where(Corpus.dataset_id == dataset.id, Corpus.name == source.corpus)
    ).one_or_none()
    members = {images[name] for name in source.images}
    if corpus is None:
        corpus = added(session, Corpus(dataset_id=dataset.id, name=source.corpus))
        if members:
            session.execute(
                insert(corpus_images),
                [{"corpus_id": corpus.id, "image_id": key} for key in sorted(members)],
            )
        return
    before = set(
        session.scalars(
            select(corpus_images.c.image_id).where(corpus_images.c.corpus_id == corpus.id)
        )
    )
    if before != members:
        raise UnreadableInput(
            str(source.path),
            f"the split {source.corpus} was imported before with other images "
            f"({len(before):,} then, {len(members):,} now)",
            "use a fresh database for another version of the dataset",
        )


def triplet_row(
    record: TripletRecord, dataset: Dataset, images: dict[str, int]
) -> dict[str, object]:
    return {
        "dataset_id": dataset.id,
        "external_id": record.external_id,
        "category": record.category,
        "split": record.split,
        "reference_id": images[record.reference],
        "target_id": None if record.target is None else images[record.target],
        "captions": list(record.captions),
    }


def require_same(triplet: Triplet, row: dict[str, object], where: str) -> None:
    for column, value in row.items():
        if getattr(triplet, column) != value:
            raise UnreadableInput(
                where,
                f"triplet {triplet.external_id} was imported before with another {column}",
                "use a fresh database for another version of the dataset",
            )


def complete_triplet(session: Session, triplet: Triplet, record: TripletRecord) -> None:
    """Set the id and the captions of a triplet that a published study created."""
    triplet.external_id, triplet.split = record.external_id, record.split
    triplet.captions = list(record.captions)
    queries = session.scalars(
        select(Query).where(Query.triplet_id == triplet.id).order_by(Query.id)
    ).all()
    suffixes: list[str] = []
    for query in queries:
        suffix = query_suffix(triplet.captions, query.text, suffixes)
        suffixes.append(suffix)
        query.suffix = f"!{suffix}"  # unique until all new suffixes are known
    session.flush()
    for query, suffix in zip(queries, suffixes, strict=True):
        query.suffix = suffix
    session.flush()


def chunks(rows: Sequence[T]) -> Iterable[Sequence[T]]:
    for start in range(0, len(rows), CHUNK):
        yield rows[start : start + CHUNK]


# Import the queries of own data: all of a file or nothing.

KNOWN_DATASETS = ("fashioniq", "cirr", *CIRCO_DATASETS.values())
"""The names of published datasets, which have commands of their own."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,39}")


def require_own_name(name: str) -> str:
    """The name of an own dataset; `UnreadableInput` if it cannot be one."""
    if not _NAME.fullmatch(name):
        raise UnreadableInput(
            "--dataset",
            f"{name!r} cannot be the name of a dataset",
            "use letters, digits, '.', '_' and '-', at most 40",
        )
    if name in KNOWN_DATASETS:
        raise UnreadableInput(
            "--dataset",
            f"{name} is a published dataset",
            f"use hsfiq import {name.partition('-')[0]}, or another name",
        )
    return name


def import_queries(
    session: Session, dataset: Dataset, rows: Sequence[PlacedQuery | WrongRow]
) -> Imported:
    """Import queries; queries imported before, with the same content, are counted.

    `FileErrors` lists all wrong rows, and queries that exist with other content.
    """
    known = stored_queries(session, dataset)
    new: list[OwnQuery] = []
    errors = ErrorList()
    for row in rows:
        if isinstance(row, WrongRow):
            for error in row.errors:
                errors.add(error)
            continue
        where, query = row
        before = known.get(query.query_id)
        try:
            require_free_id(where, query.query_id, known)
        except UnreadableInput as error:
            errors.add(error)
            continue
        if before is None:
            new.append(query)
        elif before != query:
            errors.add(changed(where, before, query))
    errors.require_none()
    store(session, dataset, new)
    return Imported(len(new), len(rows) - len(new))


def ids_of_images(images: OwnImages) -> ImageId:
    """Finds the image that a cell of a table names."""

    def image_id(place: Place, name: str) -> str:
        try:
            return images.id_of(name)
        except UnknownName as error:
            raise place.wrong(error.what, error.remedy) from error

    return image_id


def require_free_id(where: str, query_id: str, known: Mapping[str, OwnQuery]) -> None:
    """Refuse the id of another query's captions in the other order, or of another text of it."""
    if query_id not in known:
        return
    triplet_id, suffix = split_query_id(query_id)
    if suffix and known[query_id].query_id == triplet_id:
        raise UnreadableInput(
            where, f"query {query_id!r} is a further text of query {triplet_id!r}", "rename it"
        )


def changed(where: str, before: OwnQuery, query: OwnQuery) -> UnreadableInput:
    columns = ("reference", "target", "text", "captions", "category", "split")
    names = [name for name in columns if getattr(before, name) != getattr(query, name)]
    return UnreadableInput(
        where,
        f"query {query.query_id!r} was imported before with another {' and '.join(names)}",
        "give the changed query a new id, or import into another --dataset",
    )


def stored_queries(session: Session, dataset: Dataset) -> dict[str, OwnQuery]:
    """The dataset's queries by their ids, further texts of a query by theirs."""
    rows = (
        select(Query)
        .join(Query.triplet)
        .where(Triplet.dataset_id == dataset.id)
        .options(
            joinedload(Query.triplet).options(
                joinedload(Triplet.reference), joinedload(Triplet.target)
            )
        )
    )
    return {
        query.triplet.external_id + query.suffix: stored_query(query)
        for query in session.scalars(rows)
    }


def stored_query(query: Query) -> OwnQuery:
    triplet = query.triplet
    return OwnQuery(
        query_id=triplet.external_id,
        text=query.text,
        captions=tuple(triplet.captions),
        reference=triplet.reference.name if triplet.reference else None,
        target=triplet.target.name if triplet.target else None,
        category=triplet.category,
        split=triplet.split,
    )


def store(session: Session, dataset: Dataset, queries: Sequence[OwnQuery]) -> None:
    names = [name for query in queries for name in (query.reference, query.target) if name]
    keys = image_keys(session, dataset, names)
    for chunk in chunks(queries):
        triplets = session.scalars(
            insert(Triplet).returning(Triplet.id, sort_by_parameter_order=True),
            [
                {
                    "dataset_id": dataset.id,
                    "external_id": query.query_id,
                    "category": query.category,
                    "split": query.split,
                    "reference_id": keys[query.reference] if query.reference else None,
                    "target_id": keys[query.target] if query.target else None,
                    "captions": list(query.captions),
                }
                for query in chunk
            ],
        ).all()
        session.execute(
            insert(Query),
            [
                {"triplet_id": key, "suffix": "", "text": query.text}
                for key, query in zip(triplets, chunk, strict=True)
            ],
        )


# Look up a dataset's queries by id or text; new ones are created from their triplets.


class QueryFinder:
    def __init__(self, session: Session, dataset: Dataset) -> None:
        self.session = session
        self.triplets = {
            triplet.external_id: triplet
            for triplet in session.scalars(
                select(Triplet).where(Triplet.dataset_id == dataset.id).order_by(Triplet.id)
            )
        }
        self._queries: dict[int, dict[str, Query]] = {}
        rows = select(Query).join(Query.triplet).where(Triplet.dataset_id == dataset.id)
        for query in session.scalars(rows.order_by(Query.id)):
            self._queries.setdefault(query.triplet_id, {})[query.suffix] = query

    def by_id(self, query_id: str, where: str) -> int:
        """The key of the query with this outside id; `UnreadableInput` if there is none."""
        # Own data may have ids that end like a suffix.
        parted = (query_id, "") if query_id in self.triplets else split_query_id(query_id)
        triplet_id, suffix = parted
        triplet = self.triplets.get(triplet_id)
        if triplet is None:
            raise UnreadableInput(where, f"query {query_id!r} is unknown", self._known_ids())
        known = self._queries.setdefault(triplet.id, {})
        if suffix in known:
            return known[suffix].id
        if suffix not in ("", REVERSED) or not triplet.captions:
            raise UnreadableInput(where, f"query {query_id!r} is unknown")
        captions = triplet.captions if suffix == "" else triplet.captions[::-1]
        return self._make(triplet, suffix, joined(captions))

    def _known_ids(self) -> str:
        example = next(iter(self.triplets), None)
        return f"ids look like {example}" if example else "import the dataset's captions first"

    def by_text(self, triplet: Triplet, text: str) -> Query:
        """The triplet's query with this text; escapes and runs of blanks make no difference."""
        known = self._queries.setdefault(triplet.id, {})
        for query in known.values():
            if shown(query.text) == shown(text):
                return query
        suffix = query_suffix(triplet.captions, text, known)
        self._make(triplet, suffix, text)
        return known[suffix]

    def _make(self, triplet: Triplet, suffix: str, text: str) -> int:
        query = added(self.session, Query(triplet_id=triplet.id, suffix=suffix, text=text))
        self._queries[triplet.id][suffix] = query
        return query.id


# Import a published HP-FashionIQ file as a finished study.

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
    before = find_study(session, name)
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
        self.images = image_keys(session, dataset, images_of_forms(forms))
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


def images_of_forms(forms: Sequence[PublishedForm]) -> Iterable[str]:
    for form in forms:
        for question in form.questions:
            yield question.reference
            yield question.target
            yield from question.sets[0]
            yield from question.sets[1]


def imported_response(question_id: int, judged: JudgedPair) -> Response:
    """A published answer as the first and only revision."""
    response = response_of(judged.answer, PAIR)
    response.question_id = question_id
    response.revision, response.submit_key = 1, "imported"
    return response


# Import systems' ranked lists.

PlacedLists = Sequence[tuple[str, RankedListRecord]]
"""Ranked lists with their places in a file."""


def import_runs(session: Session, dataset: Dataset, lists: PlacedLists) -> Imported:
    """Import systems' ranked lists, given as (place, list) pairs; ids must be known.

    A list that differs from the stored one replaces it, unless a study shows the system's lists.

    The images of own data are the files of its folder; images named by a list are added. So are
    CIRCO's, if the list of COCO's images was not imported.
    """
    systems = system_keys(session, {ranked.system for _, ranked in lists})
    queries = QueryFinder(session, dataset)
    known_images = dict(
        session.execute(select(Image.name, Image.id).where(Image.dataset_id == dataset.id)).all()
    )
    if dataset.name in CIRCO_DATASETS.values():
        lists = with_coco_ids(lists)
        if not has_corpus(session, dataset):
            known_images |= image_keys(
                session, dataset, images_of_lists(lists) - known_images.keys()
            )
    if dataset.name not in KNOWN_DATASETS and dataset.image_root:
        lists = with_own_ids(
            lists, known_images, OwnImages(open_images(root_named(dataset.image_root)))
        )
        known_images |= image_keys(session, dataset, images_of_lists(lists) - known_images.keys())
    before = {
        (system, query): image_ids
        for system, query, image_ids in session.execute(
            select(RankedList.system_id, RankedList.query_id, RankedList.image_ids).where(
                RankedList.system_id.in_(systems.values())
            )
        )
    }
    rows, already, replaced = [], 0, 0
    shown = systems_shown(session, systems.values())
    for where, ranked in lists:
        query = queries.by_id(ranked.query_id, where)
        unknown = next((name for name in ranked.images if name not in known_images), None)
        if unknown is not None:
            raise UnreadableInput(
                where,
                f"image {unknown!r} is not in dataset {dataset.name}",
                "import the split that names it first",
            )
        image_ids = [known_images[name] for name in ranked.images]
        key = (systems[ranked.system], query)
        scores = None if ranked.scores is None else list(ranked.scores)
        if before.get(key) == image_ids:
            already += 1
            continue
        if key in before:
            if key[0] in shown:
                raise UnreadableInput(
                    where,
                    f"system {ranked.system} has a different list for query {ranked.query_id}, "
                    f"and a study already uses its lists",
                    "import it under another name with --system",
                )
            of_key = RankedList.system_id == key[0], RankedList.query_id == key[1]
            changes = {"image_ids": image_ids, "scores": scores}
            session.execute(update(RankedList).where(*of_key).values(changes))
            replaced += 1
            continue
        rows.append(
            {"system_id": key[0], "query_id": key[1], "image_ids": image_ids, "scores": scores}
        )
    for chunk in chunks(rows):
        session.execute(insert(RankedList), chunk)
    return Imported(len(rows), already, replaced)


def systems_shown(session: Session, systems: Iterable[int]) -> set[int]:
    """The systems (database keys) whose lists a study shows."""
    of_systems = RetrievedSet.system_id.in_(list(systems))
    return set(session.scalars(select(RetrievedSet.system_id).where(of_systems).distinct()))


def images_of_lists(lists: PlacedLists) -> AbstractSet[str]:
    return {name for _, ranked in lists for name in ranked.images}


def has_corpus(session: Session, dataset: Dataset) -> bool:
    member = (
        select(corpus_images.c.image_id)
        .join(Corpus, corpus_images.c.corpus_id == Corpus.id)
        .where(Corpus.dataset_id == dataset.id)
        .limit(1)
    )
    return session.scalar(member) is not None


def with_coco_ids(lists: PlacedLists) -> PlacedLists:
    """The lists with COCO's ids without padding."""
    return [
        (where, renamed(where, ranked, [canonical(image, where) for image in ranked.images]))
        for where, ranked in lists
    ]


def renamed(where: str, ranked: RankedListRecord, images: Sequence[str]) -> RankedListRecord:
    try:
        return replace(ranked, images=tuple(images))
    except InvalidRecord as error:
        raise UnreadableInput(where, str(error)) from error


def with_own_ids(
    lists: PlacedLists, known: Collection[str], files: OwnImages
) -> list[tuple[str, RankedListRecord]]:
    """The lists with ids in place of the images' names as written; known ids stay."""
    resolved = []
    for where, ranked in lists:
        try:
            names = [n if n in known else files.id_of(n) for n in ranked.images]
        except UnknownName as error:
            raise UnreadableInput(where, error.what, error.remedy) from error
        resolved.append((where, renamed(where, ranked, names)))
    return resolved


def system_keys(session: Session, names: Iterable[str]) -> dict[str, int]:
    keys = {}
    for name in sorted(names):
        system = session.scalars(select(System).where(System.name == name)).one_or_none()
        if system is None:
            system = added(session, System(name=name))
        keys[name] = system.id
    return keys
