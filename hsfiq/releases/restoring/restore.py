"""Importing a release as a finished study."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from itertools import groupby
from pathlib import Path
from typing import Any

from sqlalchemy import insert
from sqlalchemy.exc import DataError, IntegrityError, StatementError
from sqlalchemy.orm import Session

from hsfiq.collect.answers import count_stored_answers
from hsfiq.db.engine import added
from hsfiq.db.tables import (
    Check,
    CheckAnswer,
    Form,
    Participant,
    Question,
    QuestionnaireAnswers,
    Response,
    Study,
)
from hsfiq.errors import NothingToDo, UnreadableInput
from hsfiq.kinds import KINDS
from hsfiq.releases.checking.further import HPFIQ, users_in
from hsfiq.releases.checking.tables import ReleaseFolder, open_release
from hsfiq.releases.checking.verify import verify
from hsfiq.releases.manifest import MANIFEST
from hsfiq.releases.restoring.answers import extra_answers, response_values
from hsfiq.releases.restoring.items import Items, categories
from hsfiq.releases.restoring.rows import UNKNOWN_TIME, Row, RowsOfQuestions, rows_of
from hsfiq.releases.restoring.searches import SearchRestorer
from hsfiq.releases.restoring.study import publication_in, require_new_name, restored_study
from hsfiq.releases.untrusted import shortened
from hsfiq.study.config import config_of, is_study_name
from hsfiq.study.instrument import LABELS, Wording, wording_errors
from hsfiq.study.publication import Publication, publication_errors
from hsfiq.text import count_text

MOST_CHECKS = 1_000
"""Of a form."""


@dataclass(frozen=True, slots=True)
class Restored:
    """The study's name, its questions, and whether it was there already."""

    study: str
    n_questions: int
    is_new: bool


def open_valid(folder: Path) -> ReleaseFolder:
    """Open a release that can be imported.

    Raises:
        NothingToDo: the release is not what it says.
        UnreadableInput: it is no release, or lacks what an import needs.
    """
    release = open_release(folder)
    if KINDS[release.kind.question_kind].is_live and "retrievers" not in release.manifest:
        raise UnreadableInput(
            str(folder / MANIFEST),
            "does not say what the retrievers were: an older hsfiq has written it",
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
    """What a study of ours could not be: the name, the words, and what the owner stated."""
    manifest = release.manifest
    if not is_study_name(str(manifest.get("study", ""))):
        yield "study is no name of a study"
    scale, wording = manifest.get("scale") or {}, manifest.get("wording") or {}
    known = {field.name for field in fields(Wording)} - set(LABELS)
    if unknown := sorted(wording.keys() - known):
        yield f"wording.{unknown[0][:40]} is not known"
        return
    anchors: dict[str, Any] = {
        "levels" if "levels" in scale else "anchors": tuple(scale.get("anchors") or ())
    }
    stated = manifest.get("publication") or {}
    if unknown := sorted(stated.keys() - {field.name for field in fields(Publication)}):
        yield f"publication.{unknown[0][:40]} is not known"
        return
    for errors in (
        wording_errors(Wording(**wording, **anchors), scale.get("levels", 2)),
        publication_errors(publication_in(manifest)),
    ):
        yield from (f"{place}: {what}" for place, what in errors)


@contextmanager
def fitting(release: ReleaseFolder) -> Iterator[None]:
    """Refuse a release whose tables contradict each other where `verify` does not compare them.

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
    what = f"its tables do not fit together ({shortened(' '.join(reason.split()), 200)})"
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
    """All forms of each participant in the published layout, which also has those left empty."""
    if not (release.path / HPFIQ).is_file():
        return {}
    return {name: list(forms) for name, forms in users_in(release)}


class StudyRestorer:
    """Writes participants, forms, questions and responses, a form at a time.

    `people` are the keys of the participants that there are already, by name; `n_forms` is the
    number of forms that there are.
    """

    def __init__(
        self,
        session: Session,
        study: Study,
        release: ReleaseFolder,
        items: Items,
        people: Mapping[str, int] | None = None,
        n_forms: int = 0,
    ) -> None:
        self.session, self.study, self.release = session, study, release
        self.items, self.n_forms = items, n_forms
        self.people = dict(people or {})
        self.sets = RowsOfQuestions(rows_of(release, "sets"))
        self.relevance = RowsOfQuestions(rows_of(release, "relevance"))
        self.reasons = RowsOfQuestions(rows_of(release, "reasons"))
        self.extra = RowsOfQuestions(rows_of(release, "extra_answers"))
        self.searches = SearchRestorer(session, release, items)
        questionnaire = config_of(study).questionnaire
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
            person = Participant(study_id=self.study.id, name=name, source="imported")
            self.people[name] = added(self.session, person).id
        for position, form in enumerate(names, start=1):
            self.restore_form(self.people[name], position, form, forms.get(form, ()))

    def restore_dropped_people(self) -> None:
        """Store the participants of whom no question was kept, and whom the owner had excluded."""
        excluded: dict[str, bool] = {}
        for row in rows_of(self.release, "exclusions"):
            name = row["participant_id"]
            excluded[name] = excluded.get(name, False) or row["rule"] == "excluded"
        for name, is_excluded in excluded.items():
            self.restore_person(name, {}, ())
            if is_excluded:
                self.session.get_one(Participant, self.people[name]).status = "excluded"

    def restore_form(self, person: int, position: int, name: str, rows: Sequence[Row]) -> None:
        form = added(self.session, Form(
            study_id=self.study.id, number=self.n_forms, batch=person, participant_id=person,
            category=categories(self.category_of[row["query_id"]] for row in rows),
            position=position, name=name, n_questions=len(rows),
        ))  # fmt: skip
        self.n_forms += 1
        if not rows:
            return
        questions, answers = [], []
        for row in rows:
            sets = self.sets.of(row["question_id"])
            questions.append(self.question(form.id, row, sets))
            answers.append((row, sets))
        keys = self.session.scalars(
            insert(Question).returning(Question.id, sort_by_parameter_order=True), questions
        ).all()
        responses = [
            self.response(key, row, sets)
            for key, (row, sets) in zip(keys, answers, strict=True)
            if row["revision"]
        ]
        if responses:  # all searches of a form may be left
            self.session.execute(insert(Response), responses)
        if KINDS[self.study.kind].is_live:
            for key, row in zip(keys, rows, strict=True):
                self.searches.restore(key, row)
        self.restore_checks(form.id, rows[0].get("failed_checks"))

    def question(self, form: int, row: Row, sets: Sequence[Row]) -> dict[str, Any]:
        kind = self.study.kind
        query = self.items.queries[row["query_id"]]
        item = row["pair_id"] if kind == "pair" else row["item_id"]
        swapped = bool(row.get("swapped"))
        order = self.items.order_in_pair(item, row["query_id"], sets, swapped=swapped)
        shown = [each["shown_order"] for each in sets]
        in_order = kind == "ranking"
        return {
            "form_id": form,
            "place": row["place"],
            "pair_id": self.items.pairs[item],
            "swapped": swapped,
            "text": None if row["text"] == query.text else row["text"],
            "order_1": None if in_order or not shown else shown[0],
            "order_2": shown[1] if kind == "pair" else None,
            "set_order": order if in_order else None,
            "image_orders": shown if in_order and any(shown) else None,
            "reassigned": False,
        }

    def response(self, key: int, row: Row, sets: Sequence[Row]) -> dict[str, Any]:
        question = row["question_id"]
        relevance = self.relevance.of(question)
        values = response_values(self.study.kind, key, row, sets, relevance)
        reasons = [each["reason"] for each in self.reasons.of(question)]
        values["reason"] = reasons[0] if reasons else row.get("reason")
        values["extra"] = extra_answers(self.asked, self.extra.of(question))
        return values

    def restore_checks(self, form: int, failed: int | None) -> None:
        """Store sums with so many wrong answers; releases do not say which checks failed."""
        if (failed or 0) > MOST_CHECKS:
            raise ValueError(f"{failed:,} failed checks of a form")
        for place in range(failed or (failed is not None)):
            check = added(self.session, Check(
                form_id=form, place=place, kind="arithmetic", prompt="imported",
                expected="imported",
            ))  # fmt: skip
            self.session.add(CheckAnswer(
                check_id=check.id, given="imported", passed=not failed, answered_at=UNKNOWN_TIME
            ))  # fmt: skip

    def restore_answers_at_end(self) -> None:
        rows: Iterator[Row] = rows_of(self.release, "participant_answers")
        for name, own in groupby(rows, key=lambda row: str(row["participant_id"])):
            self.session.add(QuestionnaireAnswers(
                participant_id=self.people[name], submitted_at=UNKNOWN_TIME,
                answers=extra_answers(self.asked_at_end, own) or {},
            ))  # fmt: skip
        self.session.flush()
