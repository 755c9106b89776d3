"""A study's assigned questions with their latest answers, some participants at a time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import chain, groupby
from operator import itemgetter

from sqlalchemy.orm import Session

from hsfiq.db.tables import Study
from hsfiq.releases.reading.forms import FormRow, forms_together, read_forms
from hsfiq.releases.reading.pair_reader import PairReader
from hsfiq.releases.reading.question_reader import QuestionReader, Revision
from hsfiq.releases.reading.questions import QuestionRows, Questions
from hsfiq.releases.searching.reading import SearchReader


def read_batches(session: Session, study: Study) -> Iterator[Questions]:
    """Read all assigned questions, by participant, form and place, in parts.

    A part has about `QUESTIONS_AT_ONCE` questions, all of each participant. Only one part is in
    memory; what the questions are about is all the time (`hsfiq.releases.reading.items`).
    """
    forms = read_forms(session, study)
    reader = PairReader(session, study) if study.kind == "pair" else RowReader(session, study)
    for together in forms_together(forms):
        yield reader.read(together)


class RowReader(QuestionReader):
    """Reads the questions of some forms as rows."""

    def __init__(self, session: Session, study: Study) -> None:
        super().__init__(session, study)
        self.searches = SearchReader(session, study)

    def read(self, forms: Sequence[FormRow]) -> QuestionRows:
        """The questions of forms, all forms of each of their participants."""
        by_form: dict[int, list[list[Revision]]] = defaultdict(list)
        for _, revisions in groupby(chain.from_iterable(self.rows(forms)), key=itemgetter(0)):
            of_question = list(revisions)
            by_form[of_question[0][1]].append(of_question)
        searches = self.searches.read(forms)
        names: dict[int, str] = {}
        questions = QuestionRows()
        for form in forms:
            for of_question in by_form.pop(form.key, ()):
                key = of_question[0][0]
                first = names.get(self.repeated.get(key, 0))  # it was asked before
                question = self.question(form, of_question, first)
                question.search = searches.get(key)
                names[key] = question.question_id
                questions.append(question)
        return questions
