"""Participants' texts and the risk of recognition: releasing texts, and warnings."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from hsfiq.kinds.rows import Columns, QuestionRow, Questions, Rows
from hsfiq.kinds.tables import REASONS
from hsfiq.study.config import Questionnaire
from hsfiq.study.instrument import ExtraQuestion, parts_of
from hsfiq.study.publication import LeftOut
from hsfiq.text import count_text

# The tables of the owner's extra questions: what was asked, and the answers in long form.

NewRows = list[dict[str, Any]]

ASKED = {"after_each": "after each question", "at_end": "once, at the end"}
"""The time at which each list of questions is asked."""


def field_rows(questionnaire: Questionnaire) -> dict[str, NewRows]:
    """The table of extra questions, by its name; none without extra questions."""
    if not questionnaire.after_each and not questionnaire.at_end:
        return {}
    rows = [
        {
            "field": question.name,
            "asked": asked,
            "type": question.type,
            "wording": question.text,
            "options": list(question.options) or None,
            "required": question.required,
            "min": question.bounds[0],
            "max": question.bounds[1],
            "other": question.other,
        }
        for name, asked in ASKED.items()
        for question in getattr(questionnaire, name)
    ]
    return {"fields": rows}


def answer_tables(
    questionnaire: Questionnaire,
    kept: Sequence[QuestionRow],
    at_end: Mapping[str, Mapping[str, Any]],
) -> dict[str, NewRows]:
    """The tables of answers by name, of some of the questions kept, all of each participant.

    `at_end` has the answers to the questions at the end by participant. Answers of participants
    without kept questions are left out.
    """
    tables: dict[str, NewRows] = {}
    if questionnaire.after_each:
        tables["extra_answers"] = [
            {"question_id": row.question_id, "participant_id": row.participant_id, **answer}
            for row in kept
            if row.extra is not None
            for answer in answer_rows(questionnaire.after_each, row.extra)
        ]
    if questionnaire.at_end:
        participants = dict.fromkeys(row.participant_id for row in kept)
        tables["participant_answers"] = [
            {"participant_id": participant, **answer}
            for participant in participants
            if participant in at_end
            for answer in answer_rows(questionnaire.at_end, at_end[participant])
        ]
    return tables


def answer_rows(
    questions: Sequence[ExtraQuestion], answers: Mapping[str, Any]
) -> Iterator[dict[str, Any]]:
    for question in questions:
        for number, text in parts_of(question, answers.get(question.name)) or [(None, None)]:
            yield {"field": question.name, "number": number, "value": text}


# Free texts that look as if they held an e-mail address, a phone number or a platform's id.

E_MAIL = re.compile(r"[\w.+-]+@[\w-]+\.[\w.-]+")
PHONE = re.compile(r"(?<![\w.])(?:\+|\(?0)[\d ()/.-]{6,}\d(?!\w)")
FEWEST_DIGITS = 7
PROLIFIC = re.compile(r"(?<!\w)[0-9a-f]{24}(?!\w)")
MTURK = re.compile(r"(?<!\w)A[A-Z0-9]{9,20}(?!\w)")


def personal_data(text: str) -> Iterator[str]:
    """The sorts of personal data that the text seems to contain, such as "an e-mail address".

    >>> list(personal_data("write to kim@example.org")), list(personal_data("both are red"))
    (['an e-mail address'], [])
    """
    if E_MAIL.search(text):
        yield "an e-mail address"
    if any(sum(map(str.isdigit, phone[0])) >= FEWEST_DIGITS for phone in PHONE.finditer(text)):
        yield "a phone number"
    if PROLIFIC.search(text) or any(has_digit_and_letter(each[0]) for each in MTURK.finditer(text)):
        yield "the id of a recruitment platform"


def has_digit_and_letter(word: str) -> bool:
    """Ids mix digits and letters; words in capitals have no digits."""
    return any(map(str.isdigit, word)) and any(map(str.isalpha, word[1:]))


# How many participants gave the same answers at the end, such as age and gender together.
#
# A participant with unique answers can be recognized by anybody who knows these facts. The
# smallest group is the k of k-anonymity (Sweeney 2002). Answers are compared as they are; free
# texts are not compared.

TABLE = "participant_answers"
ALIKE = "k_anonymity"
"""Its key in the manifest."""
LEAST_K = 5
"""The export warns below this size."""


@dataclass(frozen=True, slots=True)
class Uniqueness:
    """The size of the groups of participants with equal answers.

    `fields` are the questions whose answers are compared, `k` is the size of the smallest group of
    `participants` with the same answers, and `unique` counts participants with unique answers.
    """

    fields: tuple[str, ...]
    participants: int
    k: int
    unique: int

    def facts(self) -> dict[str, Any]:
        """The manifest's entry."""
        return asdict(self) | {"table": TABLE, "fields": list(self.fields)}

    def warnings(self) -> list[str]:
        if self.k >= LEAST_K:
            return []
        few = (
            f"{self.unique:,} of {self.participants:,} participants have unique answers"
            if self.k == 1
            else f"the smallest group with the same answers has {self.k} participants"
        )
        warning = (
            f"participant_answers: {few} (k = {self.k}), so acquaintances could recognize them; "
            f"--without participant-answers leaves the table out"
        )
        return [warning]


def compared_fields(questions: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """The fields of the questions at the end, each with its type, that ask for no free text."""
    return tuple(field for field, kind in questions if kind != "text")


def uniqueness(rows: Iterable[Mapping[str, Any]], fields: Sequence[str]) -> Uniqueness | None:
    """Of rows of `participant_answers`; None if there is nothing to compare."""
    answers: dict[str, set[tuple[str, Any, Any]]] = defaultdict(set)
    for row in rows:
        own = answers[row["participant_id"]]
        if row["field"] in fields:
            own.add((row["field"], row["number"], row["value"]))
    groups = Counter(frozenset(own) for own in answers.values())
    if not groups or not fields:
        return None
    alone = sum(n == 1 for n in groups.values())
    return Uniqueness(tuple(fields), len(answers), min(groups.values()), alone)


MOST_NAMED = 5
AT_THE_END = "answer at the end"
PLURALS = {AT_THE_END: "answers at the end"}


class WrittenTexts:
    """The free texts of a release that is being written, and the answers at the end.

    `left_out_before` counts the omissions of the release from which the study was imported.
    """

    def __init__(
        self,
        questionnaire: Questionnaire,
        without: Collection[LeftOut],
        left_out_before: Mapping[str, int] | None = None,
    ) -> None:
        asked = (*questionnaire.after_each, *questionnaire.at_end)
        self.fields = {question.name for question in asked if question.type == "text"}
        self.others = {each.name: each.number_of_other for each in asked if each.other}
        self.compared = compared_fields((each.name, each.type) for each in questionnaire.at_end)
        self.without = without
        self.left_out = Counter(left_out_before)
        self.suspects: Counter[str] = Counter()
        self.where: dict[str, list[str]] = {}
        self.at_end: list[Mapping[str, Any]] = []

    @property
    def released(self) -> bool:
        return "texts" not in self.without

    def reasons(self, kept: Questions) -> Columns | None:
        """The columns of `reasons`; None without any, or if texts are left out."""
        with_reason = kept.having("reason")
        if not self.released:
            self.left_out["reason"] += len(with_reason)
            return None
        if not with_reason:
            return None
        reasons = with_reason.values("reason")
        suspects = {text for text in set(reasons) if any(personal_data(text))}
        if suspects:
            for text, name in zip(reasons, with_reason.values("question_id"), strict=True):
                if text in suspects:
                    self.look_at(text, f"the reason of {name}")
        return {name: with_reason.column(name) for name in REASONS.names}

    def look_at_searches(self, kept: Questions) -> None:
        """Search typed texts for personal data; `hsfiq study strike` redacts such a text."""
        if not kept.knows("search"):
            return
        for question in kept:
            for turn in question.search.turns if question.search else ():
                if not turn.from_query:
                    self.look_at(turn.text, f"turn {turn.turn} of {question.question_id}")

    def answers(self, tables: Mapping[str, Rows]) -> dict[str, Rows]:
        """The tables of extra answers, without omitted texts."""
        released: dict[str, Rows] = {}
        for name, rows in tables.items():
            if name != "participant_answers":
                released[name] = self.released_rows(rows)
            elif "participant-answers" in self.without:
                self.left_out[AT_THE_END] += len(rows)
            else:
                released[name] = self.released_rows(rows)
                self.at_end += released[name]
        return released

    def released_rows(self, rows: Rows) -> Rows:
        texts = [row for row in rows if self.is_written(row)]
        if self.released:
            for row in texts:
                place = row.get("question_id") or row["participant_id"]
                self.look_at(row["value"], f"{row['field']} of {place}")
            return rows
        self.left_out["answer"] += len(texts)
        return [
            {**row, "value": None} if self.is_other(row) else row
            for row in rows
            if row["field"] not in self.fields
        ]

    def is_written(self, row: Mapping[str, Any]) -> bool:
        """Whether the value of an answer is a participant's own text."""
        is_text = row["field"] in self.fields or self.is_other(row)
        return is_text and row["value"] is not None

    def is_other(self, row: Mapping[str, Any]) -> bool:
        other = self.others.get(row["field"])
        return other is not None and row["number"] == other

    def look_at(self, text: str | None, where: str) -> None:
        """Remember what personal data the text seems to hold."""
        for what in personal_data(text or ""):
            self.suspects[what] += 1
            places = self.where.setdefault(what, [])
            if len(places) < MOST_NAMED:
                places.append(where)

    def notes(self) -> list[str]:
        """The omissions, for the release itself."""
        if not self.left_out.total():
            return []
        counts = " and ".join(
            count_text(n, what, PLURALS.get(what)) for what, n in self.left_out.items() if n
        )
        return [f"left out by the owner: {counts}"]

    def facts(self) -> dict[str, Any]:
        """The manifest's entries about omissions and groups of equal answers."""
        counts = {what: n for what, n in sorted(self.left_out.items()) if n}
        left_out = {"without": sorted(self.without), "left_out": counts} if self.without else {}
        alike = self.uniqueness()
        return left_out | ({ALIKE: alike.facts()} if alike else {})

    def uniqueness(self) -> Uniqueness | None:
        """The groups of participants with equal answers at the end, if the release has any."""
        return uniqueness(self.at_end, self.compared)

    def warnings(self) -> list[str]:
        """Warnings for the owner before publication; not part of the release."""
        named = [
            f"{count_text(n, 'text')} may hold {what} ({', '.join(self.where[what])}"
            f"{', ...' if n > len(self.where[what]) else ''}); review them, or use --without texts"
            for what, n in self.suspects.items()
        ]
        if (alike := self.uniqueness()) is not None:
            named += alike.warnings()
        return named
