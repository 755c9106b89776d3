"""The dashboard's tables: participants, latest answers, and one question's history."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime

from markupsafe import Markup

from hsfiq.annotate.owner.fragments import DASH, empty, render_fragment
from hsfiq.annotate.pages import TEMPLATES
from hsfiq.answer_rules import ImageStates
from hsfiq.collect.history import QuestionHistory
from hsfiq.collect.progress import AnswerRow, ParticipantRow

LATEST = 12
LONGEST = 400
"""Characters of a reason or text on the dashboard; the release holds all of it."""


def participants_table(
    people: Sequence[ParticipantRow],
    *,
    study: str,
    late: Collection[str],
    now: datetime,
    flags: Mapping[str, tuple[str, ...]] | None,
    has_any: bool,
) -> Markup:
    """The participants; clicking a name or an id copies it into the form below the table.

    The languages are a column if there are several, and so are reasons to look at somebody. The
    platform ids are the last column, which the page can hide; a study without any lacks it. Without
    `flags`, which are by name, the table has nothing that the participants' answers tell.
    """
    if not people:
        return empty("Nobody is found" if has_any else "Nobody has enrolled yet")
    return render_fragment(
        "participants.html",
        study=study,
        rows=people,
        late=late,
        now=now,
        with_answers=flags is not None,
        flags=flags or {},
        has_languages=len({person.language for person in people} - {None}) > 1,
        has_platform_ids=any(person.platform_id for person in people),
    )


def latest_answers_table(answers: Sequence[AnswerRow], now: datetime) -> Markup:
    """The newest answers; clicking an id shows the question's history."""
    never = datetime.min.replace(tzinfo=UTC)
    newest = sorted(answers, key=lambda a: a.submitted_at or never, reverse=True)[:LATEST]
    if not newest:
        return empty("No answer yet")
    return render_fragment("answers.html", answers=newest, now=now)


def history(question: QuestionHistory | None, name: str) -> Markup:
    """Everything about one question, oldest revision first; `name` is the id that was typed."""
    if question is None:
        return empty(f"This study has no question {shortened(name, 80)}")
    return render_fragment("history.html", question=question)


def notes_of(answer: AnswerRow) -> str:
    notes = [
        answer.skipped or "",
        "irrelevant" if answer.irrelevant else "",
        "confirmed" if answer.confirmed else "",
        f"{answer.check} check" if answer.check else "",
        "not every image painted" if answer.are_painted is False and not answer.skipped else "",
        f"revised {answer.revisions - 1}x" if answer.revisions > 1 else "",
    ]
    return ", ".join(filter(None, notes))


def images_text(letters: str | None) -> str:
    """What a revision's participant had seen, by the letters that the database stores."""
    if letters is None:
        return "unknown"
    images = ImageStates.from_letters(letters)
    enlarged = f", {images.n_enlarged} enlarged" if images.n_enlarged else ""
    return f"{images.n_painted} of {len(images)} painted{enlarged}"


def scores_text(scores: tuple[int, int] | None) -> str:
    return DASH if scores is None else f"{scores[0]} and {scores[1]}"


def preference_text(preferred: int | None) -> str:
    return DASH if preferred is None else ("neither", "set 1", "set 2")[preferred]


def shortened(text: str, longest: int = LONGEST) -> str:
    return text if len(text) <= longest else f"{text[:longest]}…"


TEMPLATES.filters |= {
    "notes": notes_of,
    "scores": scores_text,
    "images": images_text,
    "preference": preference_text,
    "shortened": shortened,
}
