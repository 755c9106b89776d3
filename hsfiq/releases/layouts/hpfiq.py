"""A release's answers in the layout of the published HP-FashionIQ file."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence

from sqlalchemy.orm import Session

from hsfiq.answer_rules import HIGHEST_SCORE, Answer
from hsfiq.db.tables import Study
from hsfiq.readers import hpfiq
from hsfiq.records import JudgedPair, PublishedForm
from hsfiq.releases.rows import QuestionRow, read_forms
from hsfiq.study.config import config_of


def layout_obstacle(study: Study, kept: Sequence[QuestionRow]) -> str | None:
    """Return why the questions cannot be written in the published layout; None if they can."""
    if obstacle := answer_obstacle(study, kept):
        return obstacle
    parts = ["reference_id", "target_id"]
    if study.origin != "imported":  # a published file may have empty sentences, which stay so
        parts.append("text")
    for part in parts:
        if not all(getattr(question.query, part) for question in kept):
            name = part.removesuffix("_id")
            return f"a query has no {name}, and the published layout names one for each"
    if any(not question.category for question in kept):
        if any(question.query.category for question in kept):
            return "forms mix categories, and each form of the published layout has one"
        return "a query has no category, and the published layout's image paths have one"
    return None


def answer_obstacle(study: Study, kept: Sequence[QuestionRow]) -> str | None:
    """Return what the published layout cannot hold of the answers or of the sets."""
    ties = sum(question.preferred == 0 for question in kept)
    if ties:
        return f"{ties} of {len(kept)} preferences are ties, and the published layout has none"
    points = config_of(study).wording.points
    if points != HIGHEST_SCORE:
        return (
            f"scores are from 1 to {points}, and those of the published layout "
            f"from 1 to {HIGHEST_SCORE}"
        )
    if study.k != hpfiq.K:
        return f"sets of {study.k} images, and the published layout has {hpfiq.K}"
    return None


def to_hpfiq(session: Session, study: Study, kept: Sequence[QuestionRow]) -> bytes:
    """Return the questions as the published file has them: 2-space indent, no final newline.

    A form keeps the questions that are left of it. Forms that lost all their questions are omitted.
    """
    questions: dict[tuple[str, str], list[JudgedPair]] = defaultdict(list)
    for question in kept:
        questions[question.participant_id, question.form].append(judged_pair(question))
    forms = [
        PublishedForm(form.participant_id, form.form, form.category, pairs)
        for form in read_forms(session, study)
        if (pairs := questions[form.participant_id, form.form]) or form.n_questions == 0
    ]
    layout = hpfiq.write(hpfiq.PublishedStudy(study.image_path, forms))
    return json.dumps(layout, indent=2).encode()


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
        answer=Answer(score_1, score_2, preferred, question.irrelevant, question.reason),
    )
