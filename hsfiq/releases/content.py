"""The files of a release: the same database state and options give the same bytes.

Therefore no file contains the time of the export or a path on this machine. Rows are in the study's
order.

Questions are read in batches of participants, and rows are written immediately. Only the funnel's
counts, the items (queries, pairs, retrieved sets) and the forms with the places of their answers
stay in memory; with a split, also the ids of triplets and participants.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from sqlalchemy import func, select
from sqlalchemy.orm import Session

import hsfiq
from hsfiq.atomic_files import indented_json, sha256_of
from hsfiq.collect.review import unblinding_of
from hsfiq.collect.stages import answers_by_participant
from hsfiq.db.source_tables import Dataset
from hsfiq.db.tables import Form, Question, Study
from hsfiq.errors import NothingToDo
from hsfiq.images.store import root_named
from hsfiq.kinds import RELEASE_KINDS, ReleaseKind
from hsfiq.kinds.rows import FormName, Part, QueryRow, Questions, Run, TableRows
from hsfiq.kinds.search import RECORDS_FILE
from hsfiq.releases.card import (
    NO_LICENCE,
    card,
    empty_columns_of,
    instrument_of,
    publication_facts,
    study_facts,
)
from hsfiq.releases.croissant import croissant
from hsfiq.releases.dropping_rules import Asked, Exclusion, Funnel, Sieve, Sifted
from hsfiq.releases.folder import ANALYSIS, MANIFEST, content_digest
from hsfiq.releases.layouts.csv_files import write_parts
from hsfiq.releases.layouts.hpfiq import HpfiqFile
from hsfiq.releases.layouts.layouts import Extras, layout_files, write_layouts
from hsfiq.releases.layouts.packed_images import Pictures, images_digest
from hsfiq.releases.privacy import WrittenTexts, answer_tables, field_rows
from hsfiq.releases.question_columns import read_batches
from hsfiq.releases.searches import search_entries
from hsfiq.releases.splits import DrawnSplit, Split, draw_split
from hsfiq.releases.table_files import (
    FurtherFileMaker,
    Kept,
    Qrels,
    RecordsFile,
    TableWriter,
    closed_on_error,
    repeat_rows,
)
from hsfiq.study.config import CHOSEN_BY, config_of
from hsfiq.study.extension import extensions_of
from hsfiq.study.filters import Filters
from hsfiq.study.publication import OPENED_AT, Publication, earlier_of
from hsfiq.study.texts import published_versions
from hsfiq.text import count_text

# Which answers a release has, gathered while it is written.


@dataclass(slots=True)
class FormAnswers:
    """The answers of a form that a release has, and the answers that its rules dropped."""

    kept: list[Run] = field(default_factory=list)
    dropped: list[Run] = field(default_factory=list)


class AnswersByForm:
    """The answers in a release by form; about 0.5 KB for each form, however many answers it has.

    A form whose only answers are to attention checks has no runs.
    """

    def __init__(self) -> None:
        self.forms: dict[FormName, FormAnswers] = defaultdict(FormAnswers)

    def add(self, kept: Questions, dropped: Questions) -> None:
        """Add the questions of whole participants."""
        for form, runs in kept.revisions():
            self.forms[form].kept = runs
        answered = dropped.filter(pc.greater(Asked(dropped)["revision"], pa.scalar(0)))
        for form, _ in answered.revisions():
            self.forms.setdefault(form, FormAnswers())  # perhaps all of its answers are to checks
        judged = answered.filter(Asked(answered)["check"].is_null())
        for form, runs in judged.revisions():
            self.forms[form].dropped = runs


FIRST_VERSION = "1.0.0"
LIVE = "0.0.0"
"""The version of a release of the answers so far; others are given by `hsfiq export`."""

PLAIN = Extras()
SHOWN_AT = "results_shown_at"
"""The day on which results by system were shown, of a study that was not closed yet."""
TEXT_VERSIONS = "text_versions.json"
"""The texts that participants read, by version; studies without recorded versions have none."""


@dataclass(frozen=True, slots=True)
class Release:
    """A release whose files have been written.

    `content_sha256` digests the data, the filters and the split's options, independent of the
    versions of the release and of hsfiq. `split` is the split as the manifest describes it. `notes`
    list the omissions of the release with reasons. `warnings` are only for the owner. `answers`
    lists the answers in the release.
    """

    name: str
    version: str
    kind: str
    funnel: Funnel
    split: Mapping[str, Any] | None
    content_sha256: str
    notes: tuple[str, ...]
    warnings: tuple[str, ...]
    answers: AnswersByForm


@dataclass(frozen=True, slots=True)
class ReleaseInMemory(Release):
    """A release that is in no folder: its files by path."""

    files: dict[str, bytes]


@dataclass(frozen=True, slots=True)
class Source:
    """The input of an export: a study's answers, for one kind of release.

    The session reads one consistent state of the database from beginning to end.
    """

    session: Session
    study: Study
    kind: str
    filters: Filters
    split: Split | None = None
    extras: Extras = PLAIN

    @property
    def publication(self) -> Publication:
        """The owner's statements about the release."""
        return self.extras.publication or config_of(self.study).release

    @property
    def name(self) -> str:
        return f"{self.study.name}-{self.kind}"

    @property
    def release_kind(self) -> ReleaseKind:
        return RELEASE_KINDS[self.kind]

    def sifted(self, sieve: Sieve) -> Iterator[Sifted]:
        """The questions kept and those dropped, some participants at a time."""
        for questions in read_batches(self.session, self.study):
            yield sieve.sift(questions)

    def require_kept(self, sieve: Sieve) -> None:
        """Raise `NothingToDo` if no question was kept."""
        if not sieve.n_assigned:
            own = select(func.count()).select_from(Question).join(Form)
            n = self.session.scalar(own.where(Form.study_id == self.study.id)) or 0
            what = f"none of its {count_text(n, 'question')} is assigned to a participant yet"
            raise NothingToDo(f"nothing to export: {what}", where=f"study {self.study.name}")
        if not sieve.n_kept:
            steps = ", ".join(f"{step.rule} -{step.dropped or 0}" for step in sieve.steps())
            raise NothingToDo(
                f"nothing to export ({sieve.n_assigned} questions: {steps})",
                where=f"study {self.study.name}",
            )

    def kept(self) -> Iterator[Questions]:
        """The questions kept, in parts; `NothingToDo` at the end if there are none."""
        sieve = self.sieve()
        for sifted in self.sifted(sieve):
            yield sifted.kept
        self.require_kept(sieve)

    def pictures(self, datasets: Iterable[str]) -> Pictures | None:
        """The image files of these datasets; None if the owner does not publish them."""
        if not self.extras.images:
            return None
        rows = self.session.execute(
            select(Dataset.name, Dataset.image_root).where(Dataset.name.in_(datasets))
        )
        return Pictures({name: root_named(root) for name, root in rows if root is not None})

    def sieve(self) -> Sieve:
        sieve = Sieve(self.kind, self.filters)
        sieve.add_earlier(earlier_of(self.study).steps)
        return sieve

    def drawn(self) -> DrawnSplit | None:
        """The split, drawn from the questions kept; the questions are read once more."""
        if self.split is None:
            return None
        return draw_split(self.kept(), self.split)


def explain(source: Source) -> tuple[Funnel, Mapping[str, Any] | None]:
    """The funnel and the split of a release, without writing the release.

    Raises:
        NothingToDo: no answered question is kept, or too few to split.
    """
    drawn, sieve, parts = source.drawn(), source.sieve(), Counter[Part]()
    for sifted in source.sifted(sieve):
        parts.update(drawn.parts_of(sifted.kept) if drawn else ())
    return sieve.funnel(), drawn.summary(parts) if drawn else None


def build(
    session: Session,
    study: Study,
    kind: str,
    filters: Filters,
    split: Split | None = None,
    *,
    extras: Extras = PLAIN,
    schema_revision: str,
    version: str = FIRST_VERSION,
) -> ReleaseInMemory:
    """Make a small release in memory.

    Raises:
        NothingToDo: no answered question is kept, or too few to split.
    """
    source = Source(session, study, kind, filters, split, extras)
    with TemporaryDirectory() as name:
        folder = Path(name)
        release = write_files(source, folder, schema_revision=schema_revision, version=version)
        files = {path.name: path.read_bytes() for path in sorted(folder.iterdir())}
    facts = {field: getattr(release, field) for field in Release.__slots__}
    return ReleaseInMemory(**facts, files=files)


FURTHER_FILES: dict[str, FurtherFileMaker] = {
    "hpfiq.json": HpfiqFile,
    "qrels.txt": Qrels,
    RECORDS_FILE: RecordsFile,
}
"""By name."""


def write_files(source: Source, folder: Path, *, schema_revision: str, version: str) -> Release:
    """Write the files of a release into an empty folder.

    Raises:
        NothingToDo: no answered question is kept, or too few to split; some files may be there.
    """
    session, study, kind = source.session, source.study, source.release_kind
    drawn, sieve, answers = source.drawn(), source.sieve(), AnswersByForm()
    schemas = kind.schemas()
    with TableWriter(folder, schemas) as writer:
        written = Written(source, writer)
        files = [FURTHER_FILES[name](session, study, folder / name) for name in kind.files]
        with closed_on_error(files) as further:
            for kept, dropped, excluded in source.sifted(sieve):
                parts = drawn.parts_of(kept) if drawn else None
                written.add(Kept(kept, parts), excluded)
                answers.add(kept, dropped)
                for file in further:
                    file.add(Kept(kept, parts))
            source.require_kept(sieve)
        written.finish()
    earlier, plan = earlier_of(study), config_of(study).analysis
    notes = [*earlier.notes, *(note for file in further for note in file.close())]
    notes += written.texts.notes()
    if shown := unblinding_of(session, study):
        notes.append(
            f"results by system were visible before the study closed, from {shown.shown_at:%F}"
        )
    notes += write_layouts(folder, writer.files, source.extras, source.pictures(written.datasets))
    layouts = layout_files(folder, source.extras.layouts)
    in_parts = write_parts(folder, kind.parted_tables(writer.files)) if drawn else {}
    if versions := published_versions(session, study):
        (folder / TEXT_VERSIONS).write_bytes(indented_json(versions))
    digests = digests_of(folder, writer)
    summary = drawn.summary(written.parts) if drawn else None
    funnel = sieve.funnel()
    extensions = extensions_of(session, study)
    manifest: dict[str, Any] = {
        "name": source.name,
        "version": version,
        "kind": kind.name,
        "study": study.name,
        "title": study.title,
        "origin": study.origin,
        **instrument_of(study),
        **search_entries(session, study),
        "simulated": study.origin == "simulated",
        "publication": publication_facts(source.publication),
        **study_facts(study),
        "datasets": written.datasets,
        "not_recorded": empty_columns_of(folder, writer.files, kind),
        "filters": source.filters.described(),
        "funnel": {
            "assigned": funnel.n_assigned,
            "steps": [asdict(step) for step in funnel.steps],
            "kept": funnel.n_kept,
        },
        "counts": {
            "questions": funnel.n_kept,
            "sets": writer.n_rows("sets"),
            "queries": len(written.queries),
            "participants": written.n_participants,
        },
        "rows": {table: writer.n_rows(table) for table in sorted(writer.files)},
        **({"split": summary, "parts": in_parts} if summary else {}),
        **({"layouts": layouts} if layouts else {}),
        **({"images": {"sha256": images_digest(folder)}} if source.extras.images else {}),
        **written.texts.facts(),
        **({SHOWN_AT: f"{shown.shown_at:%Y-%m-%d}"} if shown else {}),
        **({CHOSEN_BY: study.design[CHOSEN_BY]} if CHOSEN_BY in study.design else {}),
        **({ANALYSIS: plan.facts(study.design.get(OPENED_AT))} if plan.question else {}),
        **({"extensions": extensions} if extensions else {}),
        **({"imported_from": earlier.source} if earlier.source else {}),
        "notes": notes,
        "tool": {"name": "hsfiq", "version": hsfiq.__version__},
        "schema_revision": schema_revision,
    }
    manifest["content_sha256"] = content_digest(manifest, digests)
    tables = {
        table: schema
        for table, schema in schemas.items()
        if table in writer.files or (table == "images" and source.extras.images)
    }
    texts = {
        "croissant.json": indented_json(croissant(manifest, digests, tables, kind)),
        "README.md": card(manifest, tables, kind).encode(),
    }
    for name, data in texts.items():
        (folder / name).write_bytes(data)
        digests[name] = sha256(data)
    manifest["files"] = {
        name: {"sha256": digest, "bytes": (folder / name).stat().st_size}
        for name, digest in sorted(digests.items())
    }
    (folder / MANIFEST).write_bytes(indented_json(manifest))
    warnings = (*written.texts.warnings(), *([] if source.publication.licence else [NO_LICENCE]))
    return Release(
        name=source.name,
        version=version,
        kind=source.kind,
        funnel=funnel,
        split=summary,
        content_sha256=manifest["content_sha256"],
        notes=tuple(notes),
        warnings=warnings,
        answers=answers,
    )


# ------------------------------------------------------------------------------------------ tables


class Written:
    """The contents of a release's tables so far, including rows not written yet."""

    def __init__(self, source: Source, writer: TableWriter) -> None:
        self.kind, self.writer = source.release_kind, writer
        self.questionnaire = config_of(source.study).questionnaire
        earlier = earlier_of(source.study)
        without = {*source.extras.without, *earlier.without}
        self.texts = WrittenTexts(self.questionnaire, without, earlier.left_out)
        self.at_end = answers_by_participant(source.session, source.study)
        self.queries: dict[int, QueryRow] = {}
        self.parts: Counter[Part] = Counter()
        self.n_participants = 0
        self.struck: list[dict[str, Any]] = []
        writer.add(field_rows(self.questionnaire))
        if earlier.exclusions:
            writer.add({"exclusions": earlier.exclusions})
        if earlier.repeats:
            writer.add({"repeats": earlier.repeats})

    def add(self, kept: Kept, excluded: list[Exclusion]) -> None:
        questions = kept.questions
        tables: dict[str, TableRows] = {
            "exclusions": [exclusion.row() for exclusion in excluded],
            **self.texts.answers(answer_tables(self.questionnaire, questions, self.at_end)),
        }
        if "repeats" in self.kind.all_tables() and (repeats := repeat_rows(questions, excluded)):
            tables["repeats"] = repeats
        if (reasons := self.texts.reasons(questions)) is not None:
            tables["reasons"] = reasons
        if kept.parts is not None:
            tables["splits"] = {"question_id": questions.column("question_id"), "part": kept.parts}
            self.parts.update(kept.parts)
        self.writer.add(partial(self.kind.tables, questions), tables)
        self.queries.update(questions.queries())
        self.n_participants += len(questions.participants())
        self.struck += self.kind.struck(questions)
        self.texts.look_at_searches(questions)

    @property
    def datasets(self) -> list[str]:
        return sorted({query.dataset for query in self.queries.values()})

    def finish(self) -> None:
        """Write the last tables: the queries, by their keys, and the redacted texts."""
        rows = [
            {name: value for name, value in asdict(query).items() if name != "key"}
            for _, query in sorted(self.queries.items())
        ]
        self.writer.add({"queries": rows, "exclusions": self.struck})


# ------------------------------------------------------------------------------------------- bytes


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def digests_of(folder: Path, writer: TableWriter) -> dict[str, str]:
    """The digest of each written file, by name; those of JSON-lines files are already known."""
    known = {files.lines_name: files.lines_sha256 for files in writer.files.values()}
    return {path.name: known.get(path.name) or sha256_of(path) for path in sorted(folder.iterdir())}
