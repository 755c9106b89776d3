"""A release in the layout of the published HP-FashionIQ file (design section 4.4)."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence

from sqlalchemy.orm import Session

from hsfiq.db.tables import Study
from hsfiq.readers import hpfiq
from hsfiq.records import JudgedPair, PublishedForm
from hsfiq.releases.rows import FormRow, QuestionRow, read_forms


def layout_obstacle(study: Study, kept: Sequence[QuestionRow]) -> str | None:
    """Why the kept answers cannot be written in the published layout, None where they can."""
    ties = sum(question.given.preferred == 0 for question in kept)
    if ties:
        return f"{ties} of {len(kept)} preferences are ties, and the published layout knows none"
    if study.k != hpfiq.K:
        return f"sets of {study.k} images, and the published layout has {hpfiq.K}"
    if any(question.query.target_id is None for question in kept):
        return "a query has no target, and the published layout names one for each"
    if any(not question.category for question in kept):
        if any(question.query.category for question in kept):
            return "forms mix categories, and each form of the published layout has one"
        return "a query has no category, and the published layout's image paths have one"
    return None


def published(session: Session, study: Study, kept: Sequence[QuestionRow]) -> bytes:
    """The kept answers as the published file is written: 2-space indent, no final newline."""
    return json.dumps(layout(study, read_forms(session, study), kept), indent=2).encode()


def layout(study: Study, forms: Sequence[FormRow], kept: Sequence[QuestionRow]) -> object:
    """The kept answers in the published layout.

    A form stands there with what is left of it; one that lost all its questions is left out.
    """
    questions: dict[tuple[str, str], list[JudgedPair]] = defaultdict(list)
    for question in kept:
        questions[question.participant_id, question.form].append(judged(question))
    forms_kept = [
        PublishedForm(form.participant_id, form.form, form.category, members)
        for form in forms
        if (members := questions[form.participant_id, form.form]) or form.n_questions == 0
    ]
    return hpfiq.write(hpfiq.PublishedStudy(study.image_path, forms_kept))


def judged(question: QuestionRow) -> JudgedPair:
    """The question as the published layout has it."""
    target = question.query.target_id
    if target is None:
        raise LookupError(f"query {question.query.query_id} has no target")
    return JudgedPair(
        reference=question.query.reference_id,
        target=target,
        text=question.text,
        sets=(tuple(question.sets[0].image_ids), tuple(question.sets[1].image_ids)),
        answer=question.given,
    )
