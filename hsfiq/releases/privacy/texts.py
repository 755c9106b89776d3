"""The texts that participants wrote: releasing them or not, and warning of personal data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from hsfiq.releases.kinds.shared_tables import REASONS
from hsfiq.releases.privacy.personal_data import personal_data
from hsfiq.releases.privacy.uniqueness import ALIKE, Uniqueness, compared_fields, uniqueness
from hsfiq.releases.reading.pair_questions import PairQuestions
from hsfiq.releases.reading.questions import Questions
from hsfiq.releases.rows import QuestionRow
from hsfiq.releases.writing.tables import Columns
from hsfiq.study.config import Questionnaire
from hsfiq.study.publication import LeftOut
from hsfiq.text import count_text

Rows = Sequence[Mapping[str, Any]]
MOST_NAMED = 5
AT_THE_END = "answer at the end"
PLURALS = {AT_THE_END: "answers at the end"}


class WrittenTexts:
    """The free texts of a release that is being written, and the answers at the end.

    `left_out_before` counts what the release lacked that the study was imported from.
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

    def look_at_searches(self, kept: Iterable[QuestionRow]) -> None:
        """Look at what participants typed; `hsfiq study strike` leaves such a text out."""
        if isinstance(kept, PairQuestions):
            return  # they are no searches
        for question in kept:
            for turn in question.search.turns if question.search else ():
                if not turn.from_query:
                    self.look_at(turn.text, f"turn {turn.turn} of {question.question_id}")

    def answers(self, tables: Mapping[str, Rows]) -> dict[str, Rows]:
        """The tables of extra answers, without what is left out."""
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
        """What was left out, for the release itself."""
        if not self.left_out.total():
            return []
        counts = " and ".join(
            count_text(n, what, PLURALS.get(what)) for what, n in self.left_out.items() if n
        )
        return [f"left out by the owner: {counts}"]

    def facts(self) -> dict[str, Any]:
        """What was left out, and how alike participants are, as the manifest has it."""
        counts = {what: n for what, n in sorted(self.left_out.items()) if n}
        left_out = {"without": sorted(self.without), "left_out": counts} if self.without else {}
        alike = self.uniqueness()
        return left_out | ({ALIKE: alike.facts()} if alike else {})

    def uniqueness(self) -> Uniqueness | None:
        """How alike the participants are in their answers at the end, if the release has any."""
        return uniqueness(self.at_end, self.compared)

    def warnings(self) -> list[str]:
        """What the owner should look at before the release is published; no part of the release."""
        named = [
            f"{count_text(n, 'text')} may hold {what} ({', '.join(self.where[what])}"
            f"{', ...' if n > len(self.where[what]) else ''}); read them, or use --without texts"
            for what, n in self.suspects.items()
        ]
        if (alike := self.uniqueness()) is not None:
            named += alike.warnings()
        return named
