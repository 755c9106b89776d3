"""The board's tables: participants, latest answers, one question's history."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from hsfiq.annotate.owner.cards import standing_of
from hsfiq.annotate.owner.text import DASH, moment, seconds, since, text
from hsfiq.collect.history import QuestionHistory
from hsfiq.collect.progress import AnswerRow, Headline, ParticipantRow
from hsfiq.db.tables import Response

LATEST = 12
LONGEST = 400
"""Characters of a reason or text that the board shows; the release has it whole."""


def table(heads: Sequence[str], rows: Sequence[str], name: str) -> str:
    """A table whose head stays in view; `rows` are HTML already."""
    head = "".join(f'<th scope="col">{one}</th>' for one in heads)
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{name}"><table>'
        f"<thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )


def people_table(people: Sequence[ParticipantRow], headline: Headline, now: datetime) -> str:
    """The participants; a press on a name takes it into the form beside."""
    if not people:
        return '<p class="empty">Nobody has come yet</p>'
    heads = ("Participant", "Status", "Progress", "Median", "Checks failed", "Last seen", "Came by")
    late = set(headline.late)
    return table(heads, [person_row(row, now, late=row.participant in late) for row in people],
                 "Participants")  # fmt: skip


def person_row(row: ParticipantRow, now: datetime, *, late: bool) -> str:
    """One participant."""
    standing = standing_of(row)
    given_back = row.seen_at is None and row.questions > 0
    seen = "given back" if given_back else since(row.seen_at, now)
    lease = ' <span class="pill late">lease over</span>' if late else ""
    failed = f"{row.failed_checks} of {row.checks}" if row.checks else DASH
    full = max(row.questions, 1)
    bar = f'<progress max="{full}" value="{row.answered}" aria-hidden="true"></progress>'
    cells = (
        pick("participant", row.participant),
        f'<span class="pill {text(standing)}">{text(standing)}</span>{lease}',
        f"{bar} {row.answered} of {row.questions}",
        seconds(row.median_seconds),
        f"<strong>{failed}</strong>" if row.failed_checks else failed,
        f'<span title="{moment(row.seen_at)} UTC">{seen}</span>',
        text(row.source) + (f", {text(row.category)}" if row.category else ""),
    )
    return "<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"


def pick(what: str, name: str) -> str:
    """A name that can be pressed."""
    return f'<button type="button" class="pick" data-{what}="{text(name)}">{text(name)}</button>'


def latest_table(answers: Sequence[AnswerRow], now: datetime) -> str:
    """The answers that came last; a press on an id shows its history."""
    never = datetime.min.replace(tzinfo=UTC)
    newest = sorted(answers, key=lambda a: a.submitted_at or never, reverse=True)[:LATEST]
    if not newest:
        return '<p class="empty">No answer yet</p>'
    return table(("Question", "Scores", "Preferred", "Time", "When", ""),
                 [latest_row(answer, now) for answer in newest], "Latest answers")  # fmt: skip


def latest_row(answer: AnswerRow, now: datetime) -> str:
    """One answer."""
    notes = [
        answer.skipped or "",
        "irrelevant" if answer.irrelevant else "",
        f"{answer.check} check" if answer.check else "",
        f"revised {answer.revisions - 1}x" if answer.revisions > 1 else "",
    ]
    scores = f"{answer.scores[0]} and {answer.scores[1]}" if answer.scores else DASH
    cells = (
        pick("question", answer.question_id),
        scores,
        preferred(answer.preferred),
        seconds(answer.active_seconds),
        f'<span title="{moment(answer.submitted_at)} UTC">{since(answer.submitted_at, now)}</span>',
        text(", ".join(filter(None, notes))),
    )
    return "<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"


def preferred(side: int | None) -> str:
    """A preference in words."""
    return DASH if side is None else ("neither", "set 1", "set 2")[side]


def history(found: QuestionHistory | None, asked: str) -> str:
    """Everything about one question, oldest revision first."""
    if found is None:
        return f'<p class="empty">This study has no question {text(shortened(asked, 80))}</p>'
    facts = [
        ("Participant", f"{text(found.participant)} ({text(found.status)})"),
        ("Query", f"{text(found.query_id)}: “{text(shortened(found.text))}”"),
        ("Reference, target", f"{text(found.reference)}, {text(found.target)}"),
        ("Set 1", shown_set(found, 0)),
        ("Set 2", shown_set(found, 1)),
        ("First shown", f"{moment(found.served_at)} UTC"),
    ]
    if found.check:
        wanted = f", set {text(found.expected)} should win" if found.expected else ""
        facts.append(("Check", f"{text(found.check)}{wanted}"))
    if found.handed_on:
        facts.append(("Handed on", "somebody else has got it"))
    for one in found.sum_tries:
        verdict = f"{'right' if one.passed else 'wrong'}, {moment(one.answered_at)} UTC"
        facts.append(("Sum before it", f"{text(one.prompt)} = {text(one.given)}, {verdict}"))
    listed = "".join(f"<dt>{name}</dt><dd>{value}</dd>" for name, value in facts)
    heads = ("Revision", "Scores", "Preferred", "Flag", "Active", "Submitted (UTC)", "Reason")
    rows = [revision_row(one, last=one == found.revisions[-1]) for one in found.revisions]
    below = table(heads, rows, "Revisions") if rows else '<p class="empty">Not answered yet</p>'
    return f'<h4>{text(found.question_id)}</h4><dl class="facts">{listed}</dl>{below}'


def shown_set(found: QuestionHistory, side: int) -> str:
    """A set by its system and its images as shown."""
    return (
        f"{text(found.systems[side] or 'no system named')}: {text(', '.join(found.images[side]))}"
    )


def revision_row(one: Response, *, last: bool) -> str:
    """One revision; the last one counts."""
    scores = DASH if one.score_1 is None else f"{one.score_1} and {one.score_2}"
    flag = one.skipped or ("irrelevant" if one.irrelevant else "")
    cells = (
        f"{one.revision}{', counts' if last else ''}",
        scores,
        preferred(one.preferred),
        text(flag),
        seconds(one.active_seconds),
        moment(one.submitted_at),
    )
    reason = f'<td class="long" dir="auto">{text(shortened(one.reason or ""))}</td>'
    return "<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + reason + "</tr>"


def shortened(value: str, most: int = LONGEST) -> str:
    """At most so many characters of a text."""
    return value if len(value) <= most else f"{value[:most]}…"
