"""Watching a study: its progress, its people and their answers; and its history."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from threading import Thread
from time import monotonic
from typing import Any
from urllib.parse import urlencode
from weakref import WeakKeyDictionary

from fastapi import FastAPI, Request, Response
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from hsfiq.actors import Action, Permission
from hsfiq.annotate.owner.downloads import csv_file
from hsfiq.annotate.owner.login import OWNER
from hsfiq.annotate.owner.study_pages import number_in, study_of
from hsfiq.annotate.studio.decisions import ACTS, decision_of, reward_of, rule_of
from hsfiq.annotate.studio.figures import Kept, figures_view
from hsfiq.annotate.studio.shell import Desk, Page, Said, Studio, desk_of
from hsfiq.audit import Selection, count_entries, last_time, newest_entries, record
from hsfiq.collect.checks import question_checks
from hsfiq.collect.owner import STUDY_ACTIONS, OwnerAction, perform, prepare
from hsfiq.collect.participant_row import StudyRow
from hsfiq.collect.participants import (
    MOST_ANSWERS,
    by_name,
    changes_of,
    count_people,
    people_shown,
    people_with,
    rule_text,
)
from hsfiq.collect.progress import (
    IS_DECIDED,
    SORTS,
    STATES,
    AnswerRow,
    ParticipantProgress,
    PeopleAsked,
    StudyFigures,
    answers_of,
    figures_of,
    find_people,
    literal_keys,
    participants_of,
    progress_of,
    states_of,
)
from hsfiq.collect.question_history import item_answers, question_history
from hsfiq.collect.review import (
    Reason,
    add_note,
    commented_answers,
    delete_note,
    flags_of,
    hides_results,
    mark_reviewed,
    notes_on,
    patterns_of,
    reviewed_questions,
    unblind,
    unblinding_of,
)
from hsfiq.collect.stages import answers_at_end as at_end_of
from hsfiq.db.engine import Database
from hsfiq.db.search_tables import SearchFeedback, SearchTurn
from hsfiq.db.tables import Form, Participant, Payment, Question, Study
from hsfiq.errors import Refused, Unavailable
from hsfiq.ids import question_id
from hsfiq.kinds import KINDS
from hsfiq.payout import to_decide
from hsfiq.study.config import config_of
from hsfiq.study.instrument import in_words
from hsfiq.study.texts import answers_by_version, version_notes
from hsfiq.text import count_text, is_storable_text, spreadsheet_text

# What needs all answers. It is as new as the page, but of a study with very many answers: then it
# is read again in the background while pages show what was read last.


@dataclass(frozen=True, slots=True)
class Known:
    """Figures, and people by their database keys.

    Attributes:
        failed: people who have failed too many checks, or two if the study has no limit.
        flags: the reasons to review other people.
        odd: both, except people already decided on, most failed checks first.
        stopped: people who have stopped, earliest first.
    """

    figures: StudyFigures
    failed: Set[int]
    flags: Mapping[int, tuple[Reason, ...]]
    odd: Sequence[int]
    stopped: Sequence[int]


def read_known(session: Session, study: Study) -> Known:
    now, stated = datetime.now(UTC), config_of(study).recruitment.max_failed_checks
    figures = figures_of(session, study, now)
    limit = stated if stated >= 0 else 1
    failed = {key for key, person in figures.people.items() if person.failed > limit}
    flags = flags_of(session, study, people_shown(session, study))
    odd = select(Participant.id).where(
        Participant.id.in_(literal_keys(failed | flags.keys())),
        Participant.status.in_(("active", "paused")),
        ~IS_DECIDED,
    )
    stopped = PeopleAsked(show="stopped", descending=False)
    return Known(
        figures=figures,
        failed=failed,
        flags=flags,
        odd=sorted(session.scalars(odd), key=lambda key: (-figures.of(key).failed, key)),
        stopped=find_people(session, study, stopped, figures, now),
    )


KEPT: WeakKeyDictionary[Database, dict[int, Kept[Known]]] = WeakKeyDictionary()


def known_of(database: Database, session: Session, study: Study) -> Known:
    if count_people(session, study) <= people_with(study, MOST_ANSWERS):
        return read_known(session, study)
    kept = KEPT.setdefault(database, {}).setdefault(study.id, Kept())
    with kept.lock:
        if kept.value is None:
            return kept.compute(lambda: read_known(session, study))
        if monotonic() > kept.due:
            kept.due = float("inf")
            Thread(target=read_again, args=(kept, database, study.id), daemon=True).start()
        return kept.value


def read_again(kept: Kept[Known], database: Database, study_id: int) -> None:
    def read() -> Known:
        with database.reading() as session:
            return read_known(session, study_of(session, study_id))

    try:
        kept.compute(read)
    except (Refused, Unavailable):  # the next page says so
        pass
    finally:
        if kept.due == float("inf"):  # it failed
            kept.due = 0.0


# The parts of the page.

PER_PAGE, COMMENTS, FEW, FEW_ANSWERS, LONGEST_SEARCH = 20, 10, 3, 6, 200
HOUR, HOURS = timedelta(hours=1), 48


@dataclass(frozen=True, slots=True)
class View:
    """The valid values of the address; invalid ones are ignored."""

    query: Mapping[str, str]

    def text(self, name: str, allowed: Sequence[str] = (), longest: int = LONGEST_SEARCH) -> str:
        text = self.query.get(name, "")[:longest]
        return text if is_storable_text(text) and (not allowed or text in allowed) else ""

    def number(self, name: str) -> int:
        """At least 1."""
        return number_in(self.query.get(name, "")) or 1

    @property
    def people(self) -> PeopleAsked:
        sort = self.text("sort")
        asked = PeopleAsked(
            text=self.text("q").strip(),
            show=self.text("show", (*STATES, "failed")),
            names=tuple(filter(None, self.text("people", longest=10_000).split(","))),
        )
        if sort.removeprefix("-") not in SORTS:
            return asked
        return replace(asked, sort=sort.removeprefix("-"), descending=sort.startswith("-"))

    def address(self, **changes: object) -> str:
        """The address with these changes; None takes a name out."""
        query = {**self.query, **changes}
        return "?" + urlencode({name: value for name, value in query.items() if value is not None})


def view(desk: Desk) -> Mapping[str, object]:
    now, asked = datetime.now(UTC), View(desk.request.query_params)
    with desk.reading() as (session, study):
        known = known_of(desk.database, session, study)
        keys = find_people(session, study, asked.people, known.figures, now)
        page = min(asked.number("page"), max(1, -(-len(keys) // PER_PAGE)))
        shown = keys[(page - 1) * PER_PAGE : page * PER_PAGE]
        waiting = to_decide(study).where(Participant.status == "active")
        waits = session.scalars(waiting.order_by(Participant.seen_at)).all()
        name = asked.text("person")
        person = by_name(session, study, name) if name else None
        named = [*shown, *known.odd[:FEW], *waits[:1], *known.stopped[:FEW]]
        rows = rows_of(session, study, {*named, *([person.id] if person else [])}, now)
        noticed = attention(study, known, waits, rows)
        reward = reward_of(session, study)
        values: dict[str, object] = {
            "title": desk.t("Watch"),
            "tab": "watch",
            "study": study,
            "compares": KINDS[study.kind].has_preferences,
            "config": config_of(study),
            "asked": asked,
            "people": asked.people,
            "address": asked.address,
            "states": STATES,
            "figures": known.figures,
            "progress": progress_of(session, study),
            "opened_at": last_time(session, Action.STUDY_OPEN, study.name),
            "paid": paid(session, study),
            "hours": hours(known.figures, study, now),
            "pace": pace(known.figures, now),
            "page_number": page,
            "per_page": PER_PAGE,
            "n_found": len(keys),
            "rows": [rows[key] for key in shown],
            "attention": noticed,
            "hidden": hides_results(session, study),
            "unblinding": unblinding_of(session, study),
            "tried": rule_of(desk, session, study, noticed["n_passed"], reward),
            "hour": HOUR,
            "person": person,
        }
        values |= comments_of(session, study, known.figures, asked)
        values |= figures_view(desk, session, study)
        if person:
            values |= person_of(session, study, asked, person, known)
            values["row"], values["beside"] = rows[person.id], beside(session, keys, person.id)
            values["decision"] = decision_of(session, study, person, rows[person.id][1], reward)
        return values


def rows_of(
    session: Session, study: Study, keys: Collection[int], now: datetime
) -> Mapping[int, tuple[int, ParticipantProgress, str]]:
    """The key, the progress and the state of each of these participants, by key."""
    people, states = participants_of(session, study, keys), states_of(session, study, now, keys)
    return {
        key: (key, person, states[key]) for key, person in zip(sorted(keys), people, strict=True)
    }


def paid(session: Session, study: Study) -> Sequence[Any]:
    """Currency, amount in hundredths of it, and number of people paid through Prolific."""
    people = func.count(func.distinct(Payment.participant_id))
    of_study = (
        select(Payment.currency, func.sum(Payment.cents), people)
        .join(Participant, Payment.participant_id == Participant.id)
        .where(Participant.study_id == study.id, Payment.state == "confirmed", Payment.cents > 0)
    )
    return session.execute(
        of_study.where(Payment.kind != "reject").group_by(Payment.currency)
    ).all()


def hours(figures: StudyFigures, study: Study, now: datetime) -> list[tuple[datetime, int]]:
    """The last hours with their answers, up to now or to a closed study's last answer."""
    if not figures.by_hour:
        return []
    last = max(figures.by_hour)
    if study.status == "open":
        last = max(last, now.replace(minute=0, second=0, microsecond=0))
    first = max(min(figures.by_hour), last - HOUR * (HOURS - 1))
    n_hours = (last - first) // HOUR + 1
    return [(at, figures.by_hour.get(at, 0)) for at in (first + HOUR * n for n in range(n_hours))]


def pace(figures: StudyFigures, now: datetime, last: timedelta = HOUR * 6) -> float:
    """Answers in an hour, of the last hours or since the first answer."""
    recent = {at: number for at, number in figures.by_hour.items() if at > now - last - HOUR}
    since = max(min(recent, default=now), now - last)
    return sum(recent.values()) / max((now - since) / HOUR, 1)


def attention(
    study: Study, known: Known, waiting: Sequence[int], rows: Mapping[int, Any]
) -> Mapping[str, Any]:
    """People to review, to decide on, and who have stopped: their number, and the first of them."""
    has_limit = config_of(study).recruitment.max_failed_checks >= 0
    return {
        "odd": [
            (rows[key], key in known.failed, known.flags.get(key, ())) for key in known.odd[:FEW]
        ],
        "n_odd": len(known.odd),
        "n_waiting": len(waiting),
        "n_passed": len(set(waiting) - known.failed if has_limit else waiting),
        "waiting": [rows[key] for key in waiting[:1]],
        "stopped": [rows[key] for key in known.stopped[:FEW] if rows[key][2] == "stopped"],
        "n_stopped": len(known.stopped),
    }


def comments_of(
    session: Session, study: Study, figures: StudyFigures, asked: View
) -> dict[str, object]:
    """A page of the unreviewed flagged and commented answers, or of all of them."""
    reviewed, with_done = reviewed_questions(session, study), asked.text("done") == "1"
    keys = [key for key in figures.commented if with_done or key not in reviewed]
    n_pages = max(1, -(-len(keys) // COMMENTS))
    page = min(asked.number("comments"), n_pages)
    answers = commented_answers(session, study, keys[(page - 1) * COMMENTS : page * COMMENTS])
    notes = notes_on(session, study, {answer.participant_id for answer in answers})
    return {
        "comments": answers,
        "comments_page": page,
        "comments_pages": n_pages,
        "comments_per_page": COMMENTS,
        "n_listed": len(keys),
        "n_comments": len(figures.commented),
        "n_reviewed": len(reviewed.intersection(figures.commented)),
        "reviewed": reviewed,
        "with_done": with_done,
        "answer_notes": notes,
    }


def person_of(
    session: Session, study: Study, asked: View, person: Participant, known: Known
) -> dict[str, object]:
    """The content of the panel about the chosen participant."""
    answers = sorted(answers_of(session, study, [person.id]), key=attrgetter("position"))
    held = (
        select(Form.name, Question.place, Question.id)
        .join(Question)
        .where(Form.participant_id == person.id)
    )
    questions = {
        question_id(person.name, form or "", place): key
        for form, place, key in session.execute(held)
    }
    checks = question_checks(session, StudyRow.of(study), Form.participant_id == person.id)
    shown = answers if asked.text("all") == "1" else few_of(answers)
    chosen = asked.text("answer")
    return {
        "patterns": patterns_of(answers, person.name),
        "own": known.figures.of(person.id),
        "flags": known.flags.get(person.id, ()),
        "answers": answers,
        "questions": questions,
        "passed": {check.question_id: check.passed for check in checks},
        "shown": [(row, question_history(session, study, row.question_id)) for row in shown],
        "answer": question_history(session, study, chosen) if chosen in questions else None,
        "turns": turns_of(session, questions.values()),
        "notes": notes_on(session, study, [person.id]),
        "changes": [(change, rule_text(change)) for change in changes_of(session, person.id)],
        "at_end": in_words(config_of(study).questionnaire.at_end, at_end_of(session, person.id)),
        "others": item_answers(session, study, chosen) if chosen in questions else [],
    }


def turns_of(session: Session, questions: Iterable[int]) -> Sequence[Any]:
    """The requests of a participant in these searches, and their feedback on the lists."""
    feedback = (SearchFeedback.preference, SearchFeedback.both_bad, SearchFeedback.satisfaction)
    asked = select(SearchTurn.question_id, SearchTurn.number, SearchTurn.text, *feedback)
    asked = asked.outerjoin(SearchFeedback, SearchFeedback.turn_id == SearchTurn.id)
    of_person = asked.where(SearchTurn.question_id.in_(questions))
    return session.execute(of_person.order_by(SearchTurn.question_id, SearchTurn.number)).all()


def few_of(answers: Sequence[AnswerRow]) -> list[AnswerRow]:
    """Some answers in their order; checks and flagged answers are selected first."""
    first = sorted(answers, key=lambda answer: (answer.check is None, not answer.irrelevant))
    return sorted(first[:FEW_ANSWERS], key=attrgetter("position"))


def beside(session: Session, keys: Sequence[int], key: int) -> list[str | None]:
    """The names of the participants before and after this one in the table."""
    if key not in keys:
        return [None, None]
    at = keys.index(key)
    around = [keys[at - 1] if at else None, keys[at + 1] if at + 1 < len(keys) else None]
    named = select(Participant.id, Participant.name).where(Participant.id.in_(around))
    names = dict(session.execute(named).all())
    return [names.get(neighbour or 0) for neighbour in around]


# What the page can do.

BACK = {"open": "open", "paused": "pause", "closed": "close"}
"""The action that restores a status."""


def set_status(desk: Desk) -> Said:
    """Open, pause or close the study; `Conflict` if its status is no longer the one seen."""
    to, seen = desk.text("to"), desk.text("shown")
    if to not in STUDY_ACTIONS or seen not in BACK:
        raise Refused("a study is opened for the first time in the last step of its set-up")
    with desk.writing() as (session, study):
        if study.status != STUDY_ACTIONS[to]:  # otherwise the reply was lost
            perform(session, OwnerAction(study.name, None, to, seen), desk.actor)
    undo = {"act": "status", "to": BACK[seen], "shown": STUDY_ACTIONS[to]}
    return Said(desk.t(SAID_OF[to]), undo=undo)


SAID_OF = {
    "open": "The study is open.",
    "pause": "The study is paused: people see that they can return later.",
    "close": "The study is closed.",
}


def give_place(desk: Desk) -> Said:
    """Give the unanswered questions of a person who has stopped to the next participant."""
    with desk.writing() as (session, study):
        person = by_name(session, study, desk.text("person"))
        perform(session, prepare(study, "reassign", person), desk.actor)
    return Said(desk.t("The next person to arrive gets the place of {name}.", name=person.name))


OF_PERSON = {"pause": ("active", "paused"), "resume": ("paused", "active")}


def set_person(desk: Desk) -> Said:
    """Pause or resume a participant; other changes, such as undoing an exclusion, are refused."""
    to = desk.text("to")
    if to not in OF_PERSON:
        raise Refused("this page only pauses and resumes people")
    with desk.writing() as (session, study):
        person = by_name(session, study, desk.text("person"))
        action = prepare(study, to, person)
        if (action.status_seen, action.status_after) != OF_PERSON[to]:
            raise Refused(f"{person.name} is {person.status}")
        perform(session, action, desk.actor)
    undo = {"act": "person", "person": person.name, "to": "resume" if to == "pause" else "pause"}
    if to == "resume":
        return Said(desk.t("{name} can go on.", name=person.name), undo=undo)
    line = desk.t("{name} cannot answer until you resume them.", name=person.name)
    return Said(line, undo=undo)


def note(desk: Desk) -> Said:
    with desk.writing() as (session, study):
        now = datetime.now(UTC)
        written = add_note(session, study, desk.actor, desk.text("about"), desk.text("text"), now)
    return Said(desk.t("Noted."), undo={"act": "unnote", "note": written.id})


def unnote(desk: Desk) -> Said:
    with desk.writing() as (session, study):
        may_all = desk.may(Permission.MANAGE)
        delete_note(session, study, desk.actor, desk.number("note"), may_delete_all=may_all)
    return Said(desk.t("The note is deleted."))


def review(desk: Desk) -> Said | None:
    answer, done = desk.text("answer"), desk.given.get("again") is None
    with desk.writing() as (session, study):
        now = datetime.now(UTC)
        mark_reviewed(session, study, desk.actor, answer, now, done=done)
    again = {"act": "review", "answer": answer, "again": "1"}
    return Said(desk.t("Done."), undo=again) if done else None


def show_results(desk: Desk) -> Said:
    with desk.writing() as (session, study):
        if hides_results(session, study):  # otherwise a reply was lost, or another tab shows them
            unblind(session, study, desk.actor, datetime.now(UTC))
    return Said(desk.t("Results by system are shown from now on. The report will say so."))


WATCH = Page(
    "study/{study_id}/watch",
    "studio_watch.html",
    view,
    {
        "status": set_status,
        "give": give_place,
        "person": set_person,
        "note": note,
        "unnote": unnote,
        "review": review,
        "unblind": show_results,
        **ACTS,
    },
    needs=dict.fromkeys(("note", "unnote", "review"), Permission.READ),
)


# The tables as CSV.

HEADS = {
    "people": (
        *("person", "platform_id", "state", "answered", "questions", "median_seconds"),
        *("failed_checks", "checks", "as_others", "compared", "last_seen"),
    ),
    "hours": ("hour", "answers"),
    "comments": ("answer", "person", "text", "flagged", "comment", "answered_at", "done"),
}


AT_ONCE = 10_000
"""The number of people read at once: databases limit the parameters of a statement."""


def lines_of(desk: Desk, session: Session, study: Study, table: str) -> Iterable[Sequence[object]]:
    """The rows of a table, from all pages that the address requests."""
    now, asked = datetime.now(UTC), View(desk.request.query_params)
    known = known_of(desk.database, session, study)
    if table == "hours":
        return known.figures.by_hour.items()
    if table == "comments":
        done = reviewed_questions(session, study)
        return [
            (
                *(row.question_id, row.participant, row.text, row.is_flagged, row.comment),
                *(row.submitted_at, row.key in done),
            )
            for row in commented_answers(session, study, known.figures.commented)
        ]
    keys = find_people(session, study, asked.people, known.figures, now)
    return [
        (
            *(row.participant, row.platform_id, state, row.answered, row.questions),
            *(row.median_seconds, row.failed_checks, row.checks, person.n_same, person.n_compared),
            row.seen_at,
        )
        for part in (keys[at : at + AT_ONCE] for at in range(0, len(keys), AT_ONCE))
        for rows in [rows_of(session, study, part, now)]
        for key, row, state in map(rows.__getitem__, part)
        for person in [known.figures.of(key)]
    ]


def cell(value: object) -> object:
    if isinstance(value, datetime):
        return value.isoformat(timespec="seconds")
    return spreadsheet_text(value) if isinstance(value, str) else value


def table_file(studio: Studio, request: Request, table: str) -> Response:
    desk = desk_of(studio, request, Permission.EXPORT)
    with desk.database.reading() as session:
        try:
            study = desk.study_in(session)
        except Refused:
            return Response(status_code=404)
        lines = list(lines_of(desk, session, study, table))
    with desk.database.writing() as session:
        about = f"{table}: {count_text(len(lines), 'row')}"
        record(session, desk.actor, Action.DATA_EXPORT, study=study.name, about=about)
    cells = ([cell(value) for value in line] for line in lines)
    return csv_file(f"{table}-{study.name}.csv", [HEADS[table], *cells])


# The history of a study: its entries in the audit log.

ENTRIES = 50


def history(desk: Desk) -> Mapping[str, object]:
    asked = View(desk.request.query_params)
    with desk.reading() as (session, study):
        selection = Selection(study.name)
        number = count_entries(session, selection)
        page = min(asked.number("page"), max(1, -(-number // ENTRIES)))
        return {
            "title": desk.t("History"),
            "tab": "history",
            "study": study,
            "versions": version_notes(session, study),
            "counts": answers_by_version(session, study),
            "entries": newest_entries(session, selection, ENTRIES, (page - 1) * ENTRIES),
            "number": number,
            "page_number": page,
            "per_page": ENTRIES,
            "address": asked.address,
        }


HISTORY = Page(
    "study/{study_id}/history", "studio_history.html", history, permission=Permission.MANAGE
)


def add_tables(app: FastAPI, studio: Studio) -> None:
    @app.get(f"{OWNER}/study/{{study_id}}/{{table}}.csv")
    def download(request: Request, table: str) -> Response:
        return table_file(studio, request, table) if table in HEADS else Response(status_code=404)
