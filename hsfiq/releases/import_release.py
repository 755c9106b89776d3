"""Importing a release as a finished study."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Any, get_args

from sqlalchemy import insert, select
from sqlalchemy.exc import DataError, IntegrityError, StatementError
from sqlalchemy.orm import Session

from hsfiq.answer_rules import ImageState, ImageStates
from hsfiq.collect.answers import count_stored_answers
from hsfiq.collect.searches import OF_QUERY
from hsfiq.collect.studies import find_study
from hsfiq.db import search_tables, tables
from hsfiq.db.engine import added
from hsfiq.db.source_tables import Dataset, Image, Query, System, Triplet
from hsfiq.db.types import Base
from hsfiq.errors import NothingToDo, UnreadableInput
from hsfiq.kinds import Kind
from hsfiq.readers.files import open_place
from hsfiq.readers.hpfiq import ImagePaths
from hsfiq.releases.folder import ANALYSIS, MANIFEST, ReleaseFolder, open_release
from hsfiq.releases.privacy import ASKED
from hsfiq.releases.searches import retriever_of, searches_in
from hsfiq.releases.untrusted import shortened
from hsfiq.releases.verify import HPFIQ, text_versions, users_in, verify
from hsfiq.releases.verify_rows import STRUCK
from hsfiq.study import config, publication
from hsfiq.study.design import PUBLISHED_IMAGE_PATH
from hsfiq.study.instrument import LABELS, ExtraQuestion, Instrument, Wording, wording_errors
from hsfiq.study.searches import store_search_items
from hsfiq.text import count_text

# The rows of a release's tables that belong to one question, read beside the main table.

Row = dict[str, Any]

MOST_SIDES = 2
"""The number of sets shown side by side; more sets have an order."""

UNKNOWN_TIME = datetime(1970, 1, 1, tzinfo=UTC)
"""The time of records for which releases have no time."""


def rows_of(release: ReleaseFolder, table: str) -> Iterator[Row]:
    """All rows of a table; none if the release lacks it."""
    if table in release.tables:
        for batch in release.batches(table):
            for _, row in batch.numbered():
                yield row


class RowsOfQuestions:
    """The rows of a table whose questions come in the order of the main table."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self.groups = groupby(rows, key=lambda row: row["question_id"])
        self.waiting: tuple[str, list[Row]] | None = None
        self.advance()

    def advance(self) -> None:
        group = next(self.groups, None)
        self.waiting = None if group is None else (group[0], list(group[1]))

    def of(self, question: str) -> list[Row]:
        """The question's rows; callers must request questions in order."""
        if self.waiting is None or self.waiting[0] != question:
            return []
        rows = self.waiting[1]
        self.advance()
        return rows


# The rows of a release as responses.

AS_IN_RELEASE = (
    *("irrelevant", "revision", "served_at", "first_interaction_at", "submitted_at"),
    *("active_seconds", "text_version", "language"),
)


def response_values(
    release: ReleaseFolder, question_id: int, row: Row, parts: Mapping[str, Sequence[Row]]
) -> dict[str, Any]:
    """The columns of the response to a question, except its reason and the extra answers.

    `parts` has the question's rows in further tables, by their names.
    """
    kind = release.question_kind
    values = {name: row.get(name) for name in AS_IN_RELEASE}
    values |= {"question_id": question_id, "submit_key": "imported"}
    values["images"] = letters_of(kind, row, parts["sets"])
    return values | kind.columns_of(release.kind.judgement(row, parts))


# ------------------------------------------------------------------------------------------ images


def letters_of(kind: Kind, row: Row, sets: Sequence[Row]) -> str | None:
    """The states of the images in the order shown; None if they are unknown."""
    if row.get("images_painted") is None:
        return None
    reference: ImageState | None = row.get("reference_state")
    if kind.is_live:
        return ImageStates(reference, ()).letters
    if sets:
        return ImageStates(reference, tuple(map(states_as_shown, sets))).letters
    return ImageStates(reference, (target_states(row, reference),)).letters


def states_as_shown(row: Row) -> tuple[ImageState, ...]:
    states, order = row["image_states"] or (), row["shown_order"]
    return tuple(states) if order is None else tuple(states[place] for place in order)


def target_states(row: Row, reference: ImageState | None) -> tuple[ImageState, ...]:
    """The state of the target, which releases contain only in the counts."""
    if row["images_enlarged"] > (reference == "enlarged"):
        return ("enlarged",)
    if row["images_painted"]:
        return ("shown",)
    return () if reference not in (None, "shown", "enlarged") else ("loaded",)


# ----------------------------------------------------------------------------------- extra answers


def extra_answers(
    questions: Mapping[str, ExtraQuestion], rows: Iterable[Row]
) -> dict[str, Any] | None:
    """The answers by the question's name; None if none was asked."""
    answers: dict[str, Any] = {}
    n_rows = 0
    for row in rows:
        n_rows += 1
        question, number, value = questions[row["field"]], row["number"], row["value"]
        if number is None and value is None:
            continue
        if question.type == "text":
            answers[question.name] = value
        elif question.type == "number":
            answers[question.name] = number
        elif question.type == "choices":
            answers.setdefault(question.name, []).append(chosen_part(question, number, value))
        else:
            answers[question.name] = chosen_part(question, number, value)
    return answers if n_rows else None


def chosen_part(question: ExtraQuestion, number: float, value: str | None) -> int | str:
    """An option's number, or the text of "Other"; without its text, the number of "Other"."""
    is_other = number == question.number_of_other
    return value if is_other and value is not None else int(number)


# What the questions of a release are about: queries with images, retrieved sets and pairs.

IN_PAIR = 2
MOST_PAIRS = 500
"""The query columns of each question; queries without questions are stored, too."""


class Items:
    """The queries, sets and pairs of a study that is being restored; pairs have their numbers."""

    def __init__(self, session: Session, study: tables.Study) -> None:
        self.session, self.study = session, study
        self.datasets: dict[str, Dataset] = {}
        self.images: dict[tuple[int, str], int] = {}
        self.systems: dict[str, int] = {}
        self.queries: dict[str, Query] = {}
        self.sets: dict[tuple[int, int | None, tuple[int, ...]], int] = {}
        self.pairs: dict[str, int] = {}
        self.sets_of_pair: dict[int, list[int]] = {}
        self.pairs_with_systems: set[int] = set()

    def add(self, release: ReleaseFolder) -> None:
        """Store the retrievers, queries and pairs of a release.

        Sets, and the systems of searches, come with the questions.
        """
        for entry in release.manifest.get("retrievers", ()):
            self._add_retriever(entry)
        for row in rows_of(release, "queries"):
            if row["query_id"] not in self.queries:
                self.queries[row["query_id"]] = self._query(row)
        self._add_pairs(release)

    # ------------------------------------------------------------------------------------- queries

    def _query(self, row: Row) -> Query:
        """The query, created unless it is in the database.

        Raises:
            UnreadableInput: the database has a query with this id and another text.
        """
        dataset = self._dataset(row["dataset"])
        triplet = self.session.scalars(
            select(Triplet).where(
                Triplet.dataset_id == dataset.id, Triplet.external_id == row["triplet_id"]
            )
        ).one_or_none()
        if triplet is None:
            triplet = added(self.session, Triplet(
                dataset_id=dataset.id, external_id=row["triplet_id"], category=row["category"],
                split=row["split"], reference_id=self._image(dataset.id, row["reference_id"]),
                target_id=self._image(dataset.id, row["target_id"]), captions=row["captions"],
            ))  # fmt: skip
        suffix = row["query_id"].removeprefix(row["triplet_id"])
        query = self.session.scalars(
            select(Query).where(Query.triplet_id == triplet.id, Query.suffix == suffix)
        ).one_or_none()
        if query is None:
            query = Query(triplet_id=triplet.id, suffix=suffix, text=row["text"])
            return added(self.session, query)
        images = (self._image(dataset.id, row[name]) for name in ("reference_id", "target_id"))
        if (query.text, triplet.reference_id, triplet.target_id) != (row["text"], *images):
            raise UnreadableInput(
                f"query {row['query_id']} of dataset {dataset.name}",
                "is already in the database with another text or other images",
                "import the release into a new database",
            )
        return query

    def _dataset(self, name: str) -> Dataset:
        if name not in self.datasets:
            known = self.session.scalars(select(Dataset).where(Dataset.name == name)).one_or_none()
            self.datasets[name] = known or added(self.session, Dataset(name=name, image_root=None))
        return self.datasets[name]

    def _image(self, dataset: int, name: str | None) -> int | None:
        return None if name is None else self.image(dataset, name)

    def image(self, dataset: int, name: str) -> int:
        key = (dataset, name)
        if key not in self.images:
            own = self.session.scalars(
                select(Image.id).where(Image.dataset_id == dataset, Image.name == name)
            ).one_or_none()
            if own is None:
                own = added(self.session, Image(dataset_id=dataset, name=name)).id
            self.images[key] = own
        return self.images[key]

    def dataset_of(self, query: str) -> int:
        """The key of the dataset whose images the query's searches list."""
        return self.session.get_one(Triplet, self.queries[query].triplet_id).dataset_id

    # ------------------------------------------------------------------------------- sets and pairs

    def _add_pairs(self, release: ReleaseFolder) -> None:
        """Store the pairs by their outside ids; a pair without a question has no sets.

        An outside id is the query's id with the number among its pairs, so the numbers must be
        contiguous.
        """
        main = release.kind.main
        column = "pair_id" if main == "preferences" else "item_id"
        highest: dict[str, int] = defaultdict(int)
        for batch in release.batches(main, column):
            for item in batch.column(column) or ():
                query, _, number = item.rpartition("/")
                highest[query] = max(highest[query], int(number))
        n_pairs = sum(highest.values()) + len(highest)
        if n_pairs > MOST_PAIRS * release.n_rows(main) + MOST_PAIRS:
            rows = count_text(release.n_rows(main), "row")
            what = f"numbers {count_text(n_pairs, 'item')}, but has {rows}"
            raise UnreadableInput(str(release.path / f"{main}.parquet"), what)
        for query, last in highest.items():
            for number in range(last + 1):
                if f"{query}/{number}" not in self.pairs:
                    pair = tables.Pair(study_id=self.study.id, query_id=self.queries[query].id)
                    self.pairs[f"{query}/{number}"] = added(self.session, pair).id

    def order_in_pair(
        self, item: str, query: str, sets: Sequence[Row], *, swapped: bool
    ) -> list[int]:
        """The place of each shown set in the pair; the first question creates the pair's sets."""
        pair = self.pairs[item]
        keys = [self._set(query, row) for row in sets]
        if pair not in self.sets_of_pair:
            own = keys[::-1] if swapped else keys
            self.sets_of_pair[pair] = own
            self._fill(pair, self.queries[query].id, own)
        own = self.sets_of_pair[pair]
        order: list[int] = []
        for key in keys:
            places = (n for n, each in enumerate(own) if each == key and n not in order)
            place = next(places, None)
            if place is None:
                raise ValueError(f"{item} has other sets in another question")
            order.append(place)
        return order

    def _fill(self, pair: int, query: int, keys: Sequence[int]) -> None:
        row = self.session.get_one(tables.Pair, pair)
        row.first_id = keys[0] if keys else None
        row.second_id = keys[1] if len(keys) > 1 else None
        self.session.flush()
        further = [
            {"pair_id": pair, "place": place, "query_id": query, "set_id": key}
            for place, key in enumerate(keys[IN_PAIR:], start=IN_PAIR)
        ]
        if further:
            self.session.execute(insert(tables.FurtherSet), further)

    def _set(self, query: str, row: Row) -> int:
        owner, dataset = self.queries[query], self.dataset_of(query)
        images = tuple(self.image(dataset, name) for name in row["image_ids"])
        if not images:
            raise ValueError(f"set {row['set_id']} has no image")
        key = (owner.id, self._system(row["system"]), images)
        if key not in self.sets:
            own = added(self.session, tables.RetrievedSet(query_id=key[0], system_id=key[1]))
            self.sets[key] = own.id
            self.session.execute(insert(tables.RetrievedImage), [
                {"set_id": own.id, "rank": rank, "image_id": image}
                for rank, image in enumerate(images)
            ])  # fmt: skip
        return self.sets[key]

    def _system(self, name: str | None) -> int | None:
        if name is None:
            return None
        if name not in self.systems:
            known = self.session.scalars(select(System).where(System.name == name)).one_or_none()
            self.systems[name] = (known or added(self.session, System(name=name))).id
        return self.systems[name]

    # ----------------------------------------------------------------------------------- retrievers

    def _add_retriever(self, entry: Row) -> None:
        system = self._system(entry["system"])
        if system is not None and not self.session.get(
            search_tables.StudyRetriever, (self.study.id, system)
        ):
            row = retriever_of(entry, study=self.study.id, system=system)
            self.session.add(row)
            self.session.flush()

    def search_with(self, item: str, systems: Sequence[str]) -> None:
        """Store the systems with which a pair's query is searched for, that of side 1 first."""
        pair = self.pairs[item]
        if pair in self.pairs_with_systems:
            return
        self.pairs_with_systems.add(pair)
        keys = [key for name in systems if (key := self._system(name)) is not None]
        store_search_items(self.session, {pair: keys})


def categories(queries: Iterable[str]) -> str:
    """The category of a form: that of all its queries, or empty if they have several."""
    named = set(queries)
    return named.pop() if len(named) == 1 else ""


# The searches of a release as rows: their turns, with lists and feedback, and how they stopped.

ENDS = {1: ("",), 2: ("_1", "_2")}
"""The suffixes of each list's column names, side 1 first, by the number of lists."""

TYPED = ("text", "asked_at", "pasted", "first_key_seconds", "last_key_seconds")
OPINIONS = ("satisfaction", "preference", "both_bad")
TIMES = ("painted_seconds", "active_seconds", "given_at")


class SearchRestorer:
    """Writes the rows of a question in the tables of searches; questions must come in order."""

    def __init__(self, session: Session, release: ReleaseFolder, items: Items) -> None:
        self.session, self.items = session, items
        self.ends = ENDS.get(release.question_kind.n_live, ())
        self.turns = RowsOfQuestions(rows_of(release, "turns"))

    def restore(self, question: int, row: Row) -> None:
        turns = self.turns.of(row["question_id"])
        dataset = self.items.dataset_of(row["query_id"])
        self.items.search_with(row["item_id"], [row[f"system{end}"] for end in self.ends])
        self.add(search_tables.ImportedSearch, [{
            "question_id": question, "place": row["session_place"], "uploaded": row["uploaded"],
            "repeats": [turn["turn"] for turn in turns if turn["repeats"]],
        }])  # fmt: skip
        self.add(search_tables.SearchEnding, list(self.ending(question, dataset, row)))
        if turns:
            self.restore_turns(question, dataset, turns)

    def add(self, table: type[Base], rows: Sequence[dict[str, Any]]) -> None:
        if rows:
            self.session.execute(insert(table), rows)

    def ending(self, question: int, dataset: int, row: Row) -> Iterator[dict[str, Any]]:
        """How the search stopped; nothing if the participant left during it."""
        reason = reason_of(row)
        if reason is None:
            return
        declared = row["declared_id"]
        yield {
            "question_id": question,
            "submit_key": "imported",
            "reason": reason,
            "declared_id": None if declared is None else self.items.image(dataset, declared),
            "declared_side": None if declared is None else row.get("declared_list", 1),
            "ended_at": row["ended_at"],
        }

    def restore_turns(self, question: int, dataset: int, turns: Sequence[Row]) -> None:
        keys = self.session.scalars(
            insert(search_tables.SearchTurn).returning(
                search_tables.SearchTurn.id, sort_by_parameter_order=True
            ),
            [self.turn(question, dataset, turn) for turn in turns],
        ).all()
        by_key = list(zip(keys, turns, strict=True))
        self.add(search_tables.SearchList, [
            listed for key, turn in by_key for listed in self.lists(key, dataset, turn)
        ])  # fmt: skip
        self.add(search_tables.SearchFeedback, [
            self.feedback(key, turn) for key, turn in by_key if turn["given_at"] is not None
        ])  # fmt: skip
        self.add(search_tables.StruckText, [
            {"turn_id": key, "struck_at": UNKNOWN_TIME} for key, turn in by_key if turn["struck"]
        ])  # fmt: skip

    def turn(self, question: int, dataset: int, turn: Row) -> dict[str, Any]:
        reference, number = turn["reference_id"], turn["turn"]
        return {
            "question_id": question,
            "number": number,
            "submit_key": OF_QUERY if turn["from_query"] else f"imported-{number}",
            "reference_id": None if reference is None else self.items.image(dataset, reference),
            **{name: turn[name] for name in TYPED},
        }

    def lists(self, key: int, dataset: int, turn: Row) -> Iterator[dict[str, Any]]:
        """The list of each side; releases of arenas have no ranks of targets."""
        if turn["listed_at"] is None:
            return
        for side, end in enumerate(self.ends, start=1):
            yield {
                "turn_id": key,
                "side": side,
                "listed_at": turn["listed_at"],
                "seconds": turn[f"retriever_seconds{end}"],
                "image_ids": [self.items.image(dataset, name) for name in turn[f"image_ids{end}"]],
                "scores": turn[f"scores{end}"],
                "rank": turn.get(f"rank{end}"),
                "ties": turn.get(f"ties{end}"),
                "system_version": turn[f"system_version{end}"],
                "corpus_sha256": turn[f"corpus_sha256{end}"],
            }

    def feedback(self, key: int, turn: Row) -> dict[str, Any]:
        """The feedback; releases do not contain the state of the reference."""
        states = [turn[f"image_states{end}"] for end in self.ends]
        known = tuple(tuple(each) for each in states if each is not None)
        nearest = turn["nearest_place"]
        return {
            "turn_id": key,
            **{name: turn.get(name) for name in OPINIONS},
            "nearest": nearest,
            "nearest_side": None if nearest is None else turn.get("nearest_list", 1),
            "images": ImageStates(None, known).letters,
            **{name: turn[name] for name in TIMES},
        }


def reason_of(row: Row) -> search_tables.Reason | None:
    if row["ended_at"] is None:
        return None
    if row["declared_id"] is not None:
        return "declared"
    return "max-rounds" if row["stop"] == "max-rounds" else "stopped"


# The study that a release is of: its instrument, its texts, and what was dropped before.

FACTS = ("design", "source_sha256")
SOURCE = ("name", "version", "filters", "content_sha256")


def restored_study(session: Session, release: ReleaseFolder, name: str, k: int) -> tables.Study:
    """A closed study with the release's instrument and texts, and no question yet.

    `k` is the number of images in its sets. Releases state neither the number of forms per
    participant nor the drawing of questions: the standard settings are used.
    """
    manifest = release.manifest
    restored = config_of_release(release, name, k)
    design = config.stored_config(restored)
    if manifest.get("origin") == "imported":  # only what was stated of its releases
        design = {name: design[name] for name in ("release", ANALYSIS)}
    chosen = {config.CHOSEN_BY: manifest[config.CHOSEN_BY]} if config.CHOSEN_BY in manifest else {}
    chosen[publication.OPENED_AT] = (manifest.get(ANALYSIS) or {}).get(publication.OPENED_AT)
    study = tables.Study(
        name=name,
        title=manifest.get("title") or name,
        guidelines="",
        consent="",
        status="closed",
        origin=manifest.get("origin", "imported"),
        kind=restored.design.kind,
        k=k,
        ties_allowed=bool(manifest.get("ties_allowed")),
        forms_per_participant=restored.design.forms_per_participant,
        design=design | chosen | {publication.KEY: asdict(earlier_in(release))},
        image_path=image_path_in(release.path),
        source_sha256=manifest["content_sha256"],
    )
    session.add(study)
    session.flush()
    restore_texts(session, release.path, study)
    return study


def config_of_release(release: ReleaseFolder, name: str, k: int) -> config.StudyConfig:
    manifest = release.manifest
    scale = manifest.get("scale") or {}
    anchors = tuple(scale.get("anchors") or ())
    words: dict[str, Any] = {
        **(manifest.get("wording") or {}),
        "levels" if "levels" in scale else "anchors": anchors,
    }
    return config.StudyConfig(
        study=config.Presentation(
            name=name,
            title=manifest.get("title") or name,
            languages=tuple(manifest.get("languages") or ("en",)),
            instrument=manifest.get("instrument") or "papers",
        ),
        design=config.Design(
            kind=release.question_kind.name,
            k=k,
            levels=scale.get("levels", 2),
            preference_ties=bool(manifest.get("ties_allowed")),
        ),
        wording=Wording(**words),
        questionnaire=questionnaire_in(release),
        searches=searches_in(manifest),
        analysis=plan_in(manifest),
        release=publication_in(manifest),
    )


def plan_in(manifest: Mapping[str, Any]) -> publication.AnalysisPlan:
    """The owner's declared plan; without a declaration, a plan without a question."""
    plan = manifest.get(ANALYSIS)
    return publication.AnalysisPlan.of(plan) if plan else publication.AnalysisPlan()


def publication_in(manifest: Mapping[str, Any]) -> publication.Publication:
    """The owner's statements about the release; null if not stated."""
    stated = manifest.get("publication") or {}
    values: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in stated.items()
        if value is not None
    }
    return publication.Publication(**values)


def questionnaire_in(release: ReleaseFolder) -> config.Questionnaire:
    lists: dict[str, list[ExtraQuestion]] = {name: [] for name in ASKED}
    list_of = {asked: name for name, asked in ASKED.items()}
    for row in rows_of(release, "fields"):
        lists[list_of[row["asked"]]].append(
            ExtraQuestion(
                name=row["field"],
                type=row["type"],
                text=row["wording"],
                options=tuple(row["options"] or ()),
                required=row["required"],
                **limits_of(row),
            )
        )
    return config.Questionnaire(
        after_each=tuple(lists["after_each"]), at_end=tuple(lists["at_end"])
    )


def limits_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """The bounds of an extra question, and whether it had "Other"; older releases lack them."""
    given = {name: row.get(name) for name in ("min", "max", "other")}
    return {name: value for name, value in given.items() if value is not None}


def earlier_in(release: ReleaseFolder) -> publication.Earlier:
    funnel = release.manifest.get("funnel") or {}
    return publication.Earlier(
        source={name: release.manifest.get(name) for name in SOURCE},
        facts={name: release.manifest[name] for name in FACTS if name in release.manifest},
        steps=funnel.get("steps", []),
        exclusions=[row for row in rows_of(release, "exclusions") if row["rule"] != STRUCK],
        repeats=list(rows_of(release, "repeats")),
        without=release.manifest.get("without", ()),
        left_out=release.manifest.get("left_out", {}),
    )


def image_path_in(folder: Path) -> str:
    """The pattern of image paths in the published layout, if the release has it."""
    path = folder / HPFIQ
    if not path.is_file():
        return PUBLISHED_IMAGE_PATH
    paths = ImagePaths()
    for _, forms in open_place(path).items(80):
        for _, form in forms.items(80):
            for image in form.key("ref_img_paths").list():
                paths.name(image)
                if paths.pattern is not None:
                    return paths.pattern
    return PUBLISHED_IMAGE_PATH


def restore_texts(session: Session, folder: Path, study: tables.Study) -> None:
    """Store the versions of the texts that participants read; when they began is not released."""
    for number, texts in text_versions(folder):
        session.add(tables.TextVersion(study_id=study.id, number=number, texts=texts))
        study.text_version = number
    session.flush()


def require_new_name(session: Session, name: str, digest: str) -> bool:
    """Whether no study has this name; false if the study is from the same release.

    Raises:
        UnreadableInput: a study of something else has it.
    """
    before = find_study(session, name)
    if before is None:
        return True
    if before.source_sha256 == digest:
        return False
    raise UnreadableInput(
        f"study {name}", "already exists with other answers", "choose a name with --study"
    )


MOST_CHECKS = 1_000
"""Of a form."""


@dataclass(frozen=True, slots=True)
class Restored:
    """The study's name, its questions, and whether it already existed."""

    study: str
    n_questions: int
    is_new: bool


def open_valid(folder: Path) -> ReleaseFolder:
    """Open a release that can be imported.

    Raises:
        NothingToDo: the release fails verification.
        UnreadableInput: the folder is not a release, or lacks data that an import needs.
    """
    release = open_release(folder)
    if release.question_kind.is_live and "retrievers" not in release.manifest:
        raise UnreadableInput(
            str(folder / MANIFEST),
            "does not describe the retrievers: an older hsfiq wrote the release",
            "export the study again",
        )
    for problem in config_problems(release):
        raise UnreadableInput(str(folder / MANIFEST), problem, "get the release again")
    findings = verify(folder)
    if findings.first:
        raise NothingToDo(
            f"{count_text(findings.n, 'finding')}, the first: {findings.first[0]}",
            where=str(folder),
            remedy=f"see `hsfiq release verify {folder}`",
        )
    return release


def config_problems(release: ReleaseFolder) -> Iterator[str]:
    """The invalid values of a study: the name, the texts, and the owner's statements."""
    manifest = release.manifest
    if not config.is_study_name(str(manifest.get("study", ""))):
        yield "study is not a valid name of a study"
    if manifest.get("instrument") not in (None, *get_args(Instrument)):
        yield "instrument is not known"
    scale, wording = manifest.get("scale") or {}, manifest.get("wording") or {}
    known = {field.name for field in fields(Wording)} - set(LABELS)
    if unknown := sorted(wording.keys() - known):
        yield f"wording.{unknown[0][:40]} is not known"
        return
    anchors: dict[str, Any] = {
        "levels" if "levels" in scale else "anchors": tuple(scale.get("anchors") or ())
    }
    stated = manifest.get("publication") or {}
    if unknown := sorted(stated.keys() - {field.name for field in fields(publication.Publication)}):
        yield f"publication.{unknown[0][:40]} is not known"
        return
    for errors in (
        wording_errors(Wording(**wording, **anchors), scale.get("levels", 2)),
        publication.publication_errors(publication_in(manifest)),
    ):
        yield from (f"{place}: {what}" for place, what in errors)


@contextmanager
def fitting(release: ReleaseFolder) -> Iterator[None]:
    """Refuse a release with inconsistent tables that `verify` does not compare.

    Raises:
        UnreadableInput: a row lacks what another one needs, or the database cannot store a value.
    """
    try:
        yield
    except (LookupError, ValueError, TypeError, AttributeError, ArithmeticError) as error:
        reason = f"{type(error).__name__}: {error}"
    except (DataError, IntegrityError, StatementError) as error:
        reason = str(error.orig or error)
    else:
        return
    what = f"its tables are inconsistent ({shortened(' '.join(reason.split()), 200)})"
    raise UnreadableInput(str(release.path), what, "get the release again")


def restore(session: Session, release: ReleaseFolder, name: str | None = None) -> Restored:
    """Import a release that is valid, under the name of its study or another one.

    Raises:
        UnreadableInput: another study has the name, or the database has a query with this id that
            differs.
    """
    study_name = name or str(release.manifest["study"])
    n_questions = release.n_rows(release.kind.main)
    if not require_new_name(session, study_name, release.manifest["content_sha256"]):
        return Restored(study_name, n_questions, is_new=False)
    with fitting(release):
        study = restored_study(session, release, study_name, images_in_sets(release))
        items = Items(session, study)
        items.add(release)
        StudyRestorer(session, study, release, items).restore()
        count_stored_answers(session, study)
    return Restored(study_name, n_questions, is_new=True)


def images_in_sets(release: ReleaseFolder) -> int:
    if "searches" in release.manifest:
        return int(release.manifest["searches"]["k"])
    first: Row = next(rows_of(release, "sets"), {})
    return len(first.get("image_ids") or ()) or 1


def published_forms(release: ReleaseFolder) -> dict[str, list[str]]:
    """All forms of each participant in the published layout, including empty forms."""
    if not (release.path / HPFIQ).is_file():
        return {}
    return {name: list(forms) for name, forms in users_in(release)}


class StudyRestorer:
    """Writes participants, forms, questions and responses, a form at a time.

    `people` are the keys of the existing participants by name; `n_forms` is the number of existing
    forms.
    """

    def __init__(
        self,
        session: Session,
        study: tables.Study,
        release: ReleaseFolder,
        items: Items,
        people: Mapping[str, int] | None = None,
        n_forms: int = 0,
    ) -> None:
        self.session, self.study, self.release = session, study, release
        self.items, self.n_forms = items, n_forms
        self.people = dict(people or {})
        self.parts = {
            table: RowsOfQuestions(rows_of(release, table))
            for table in ("sets", *release.kind.restored_from)
        }
        self.reasons = RowsOfQuestions(rows_of(release, "reasons"))
        self.extra = RowsOfQuestions(rows_of(release, "extra_answers"))
        self.searches = SearchRestorer(session, release, items)
        questionnaire = config.config_of(study).questionnaire
        self.asked = {question.name: question for question in questionnaire.after_each}
        self.asked_at_end = {question.name: question for question in questionnaire.at_end}
        self.category_of = {row["query_id"]: row["category"] for row in rows_of(release, "queries")}

    def restore(self) -> None:
        published = published_forms(self.release)
        main = rows_of(self.release, self.release.kind.main)
        for name, own in groupby(main, key=lambda row: str(row["participant_id"])):
            for other in [*published]:
                if other == name:
                    break
                self.restore_person(other, {}, published.pop(other))
            forms = {
                form: list(rows) for form, rows in groupby(own, key=lambda row: str(row["form"]))
            }
            self.restore_person(name, forms, published.pop(name, forms))
        for other, names in published.items():
            self.restore_person(other, {}, names)
        self.restore_dropped_people()
        self.restore_answers_at_end()

    def restore_person(
        self, name: str, forms: Mapping[str, Sequence[Row]], names: Iterable[str]
    ) -> None:
        """Store a participant with forms of these names, some of which may have no questions."""
        if name not in self.people:
            person = tables.Participant(study_id=self.study.id, name=name, source="imported")
            self.people[name] = added(self.session, person).id
        for position, form in enumerate(names, start=1):
            self.restore_form(self.people[name], position, form, forms.get(form, ()))

    def restore_dropped_people(self) -> None:
        """Store the excluded participants, none of whose questions were kept."""
        excluded: dict[str, bool] = {}
        for row in rows_of(self.release, "exclusions"):
            name = row["participant_id"]
            excluded[name] = excluded.get(name, False) or row["rule"] == "excluded"
        for name, is_excluded in excluded.items():
            self.restore_person(name, {}, ())
            if is_excluded:
                self.session.get_one(tables.Participant, self.people[name]).status = "excluded"

    def restore_form(self, person: int, position: int, name: str, rows: Sequence[Row]) -> None:
        form = added(self.session, tables.Form(
            study_id=self.study.id, number=self.n_forms, batch=person, participant_id=person,
            category=categories(self.category_of[row["query_id"]] for row in rows),
            position=position, name=name, n_questions=len(rows),
        ))  # fmt: skip
        self.n_forms += 1
        if not rows:
            return
        questions, answers = [], []
        for row in rows:
            parts = {table: rows.of(row["question_id"]) for table, rows in self.parts.items()}
            questions.append(self.question(form.id, row, parts["sets"]))
            answers.append((row, parts))
        keys = self.session.scalars(
            insert(tables.Question).returning(tables.Question.id, sort_by_parameter_order=True),
            questions,
        ).all()
        responses = [
            self.response(key, row, parts)
            for key, (row, parts) in zip(keys, answers, strict=True)
            if row["revision"]
        ]
        if responses:  # all searches of a form may be left
            self.session.execute(insert(tables.Response), responses)
        if self.release.question_kind.is_live:
            for key, row in zip(keys, rows, strict=True):
                self.searches.restore(key, row)
        self.restore_checks(form.id, rows[0].get("failed_checks"))

    def question(self, form: int, row: Row, sets: Sequence[Row]) -> dict[str, Any]:
        query = self.items.queries[row["query_id"]]
        item = row["pair_id"] if "pair_id" in row else row["item_id"]
        swapped = bool(row.get("swapped"))
        order = self.items.order_in_pair(item, row["query_id"], sets, swapped=swapped)
        shown = [each["shown_order"] for each in sets]
        in_order = len(sets) > MOST_SIDES
        return {
            "form_id": form,
            "place": row["place"],
            "pair_id": self.items.pairs[item],
            "swapped": swapped,
            "text": None if row["text"] == query.text else row["text"],
            "order_1": None if in_order or not shown else shown[0],
            "order_2": shown[1] if len(shown) == MOST_SIDES else None,
            "set_order": order if in_order else None,
            "image_orders": shown if in_order and any(shown) else None,
            "reassigned": False,
        }

    def response(self, key: int, row: Row, parts: Mapping[str, Sequence[Row]]) -> dict[str, Any]:
        question = row["question_id"]
        values = response_values(self.release, key, row, parts)
        reasons = [each["reason"] for each in self.reasons.of(question)]
        values["reason"] = reasons[0] if reasons else row.get("reason")
        values["extra"] = extra_answers(self.asked, self.extra.of(question))
        return values

    def restore_checks(self, form: int, failed: int | None) -> None:
        """Store checks with this number of failures; releases do not state which checks failed."""
        if (failed or 0) > MOST_CHECKS:
            raise ValueError(f"{failed:,} failed checks of a form")
        for place in range(failed or (failed is not None)):
            check = added(self.session, tables.Check(
                form_id=form, place=place, kind="arithmetic", prompt="imported",
                expected="imported",
            ))  # fmt: skip
            self.session.add(tables.CheckAnswer(
                check_id=check.id, given="imported", passed=not failed, answered_at=UNKNOWN_TIME
            ))  # fmt: skip

    def restore_answers_at_end(self) -> None:
        rows: Iterator[Row] = rows_of(self.release, "participant_answers")
        for name, own in groupby(rows, key=lambda row: str(row["participant_id"])):
            self.session.add(tables.QuestionnaireAnswers(
                participant_id=self.people[name], submitted_at=UNKNOWN_TIME,
                answers=extra_answers(self.asked_at_end, own) or {},
            ))  # fmt: skip
        self.session.flush()
