"""A release's answers in the layout of the published HP-FashionIQ file."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any

from sqlalchemy.orm import Session

from hsfiq.answer_rules import HIGHEST_SCORE, Answer, pair_values
from hsfiq.db.tables import Study
from hsfiq.kinds.rows import QuestionRow
from hsfiq.readers import hpfiq
from hsfiq.records import JudgedPair, PublishedForm
from hsfiq.releases.questions import FormRow, read_forms
from hsfiq.releases.table_files import Kept
from hsfiq.study.config import config_of


class Obstacle:
    """Checks whether a study's questions can be written in the published layout."""

    def __init__(self, study: Study) -> None:
        self.points, self.k = config_of(study).wording.points, study.k
        # A published file may have empty sentences, which stay so.
        self.parts = ("reference_id", "target_id") + (
            () if study.origin == "imported" else ("text",)
        )
        self.n = self.ties = 0
        self.lacking: set[str] = set()
        self.lacks_category = self.has_query_category = False

    def add(self, kept: Sequence[QuestionRow]) -> None:
        self.n += len(kept)
        self.ties += sum(question.preferred == 0 for question in kept)
        for part in self.parts:
            if not all(getattr(question.query, part) for question in kept):
                self.lacking.add(part)
        self.lacks_category |= not all(question.category for question in kept)
        self.has_query_category |= any(question.query.category for question in kept)

    def text(self) -> str | None:
        """The first reason, about the questions that were added; None if they can be written."""
        if obstacle := self.of_answers():
            return obstacle
        for part in self.parts:
            if part in self.lacking:
                name = part.removesuffix("_id")
                return f"a query has no {name}, but the published layout needs one for each query"
        return self.of_categories()

    def of_answers(self) -> str | None:
        """The answers or sets that the published layout cannot hold."""
        if self.ties:
            return (
                f"{self.ties} of {self.n} preferences are ties, which the published layout does "
                f"not support"
            )
        if self.points != HIGHEST_SCORE:
            return (
                f"scores are from 1 to {self.points}, and those of the published layout "
                f"from 1 to {HIGHEST_SCORE}"
            )
        if self.k != hpfiq.K:
            return f"sets of {self.k} images, and the published layout has {hpfiq.K}"
        return None

    def of_categories(self) -> str | None:
        """The categories that the layout cannot hold: each form has one."""
        if not self.lacks_category:
            return None
        if self.has_query_category:
            return "forms mix categories, but each form of the published layout has one category"
        return "a query has no category, but image paths of the published layout contain one"


class HpfiqFile:
    """The questions as the published file has them: 2-space indent, no final newline.

    A form contains its remaining questions; forms without remaining questions are omitted. The file
    is not written if the layout cannot hold the questions. Its forms are in memory.
    """

    def __init__(self, session: Session, study: Study, path: Path) -> None:
        self.path = path
        self.image_path = study.image_path
        self.obstacle = Obstacle(study)
        forms = read_forms(session, study)
        self.people = groupby(forms, attrgetter("participant_key"))
        self.file = path.open("w", encoding="ascii", newline="")
        self.opening = "{\n"

    def add(self, kept: Kept) -> None:
        questions = list(kept.questions)
        self.obstacle.add(questions)
        if self.obstacle.text() is None and questions:
            self.write(questions, until=questions[-1].participant_id)

    def close(self) -> list[str]:
        with self.file:
            obstacle = self.obstacle.text()
            if obstacle is None:
                self.write((), until=None)
                self.file.write("{}" if self.opening == "{\n" else "\n}")
        if obstacle is None:
            return []
        self.path.unlink()
        return [f"hpfiq.json, the layout of the published data, is left out: {obstacle}"]

    def write(self, kept: Sequence[QuestionRow], until: str | None) -> None:
        """Write the participants up to one, to the last one if it is None, with these questions."""
        questions: dict[tuple[str, str], list[JudgedPair]] = defaultdict(list)
        for question in kept:
            questions[question.participant_id, question.form].append(judged_pair(question))
        for _, own in self.people:
            forms = list(own)
            layout = hpfiq.write(
                hpfiq.PublishedStudy(self.image_path, list(published(forms, questions)))
            )
            for participant, sets in layout.items():
                text = f"{written(participant, '')}: {written(sets, '  ')}"
                self.file.write(f"{self.opening}  {text}")
                self.opening = ",\n"
            if forms[0].participant_id == until:
                return


def published(
    forms: Iterable[FormRow], questions: dict[tuple[str, str], list[JudgedPair]]
) -> Iterator[PublishedForm]:
    for form in forms:
        pairs = questions.pop((form.participant_id, form.form), [])
        if pairs or form.n_questions == 0:
            yield PublishedForm(form.participant_id, form.form, form.category, pairs)


def written(value: str | Sequence[Any] | Mapping[str, Any], indent: str) -> str:
    """`json.dumps(value, indent=2)` for texts, lists and objects, but several times as fast."""
    if isinstance(value, str):
        return json.dumps(value)
    inner = f"{indent}  "
    if isinstance(value, Mapping):
        opening, closing = "{", "}"
        lines = [f"{inner}{json.dumps(key)}: {written(item, inner)}" for key, item in value.items()]
    else:
        opening, closing = "[", "]"
        lines = [f"{inner}{written(item, inner)}" for item in value]
    if not lines:
        return opening + closing
    return "\n".join((opening, ",\n".join(lines), indent + closing))


def judged_pair(question: QuestionRow) -> JudgedPair:
    """Return an answered question as a record; `LookupError` if it lacks an image or the answer."""
    reference, target = question.query.reference_id, question.query.target_id
    score_1, score_2, preferred = question.score_1, question.score_2, question.preferred
    if reference is None or target is None:
        raise LookupError(f"question {question.question_id} has no reference or no target")
    if score_1 is None or score_2 is None or preferred is None:
        raise LookupError(f"question {question.question_id} has no answer")
    return JudgedPair(
        reference=reference,
        target=target,
        text=question.text,
        sets=(tuple(question.sets[0].image_ids), tuple(question.sets[1].image_ids)),
        answer=Answer(
            pair_values(score_1, score_2, preferred),
            irrelevant=question.irrelevant,
            reason=question.reason,
        ),
    )
