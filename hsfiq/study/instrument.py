"""What a study asks, as participants see it, and the owner's extra questions."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from hsfiq.answer_rules import (
    FEWEST_POINTS,
    HIGHEST_SCORE,
    LONGEST_REASON,
    MOST_POINTS,
    WHITE_SPACE,
)
from hsfiq.errors import Refused
from hsfiq.text import is_storable_text

Instrument = Literal["hsfiq-2", "papers"]
"""Which texts ask the questions unless the owner words them; a change of them has a new name.

The papers ask which shopping mall people prefer; hsfiq-2 asks which set matches better, and its
anchors are parallel.
"""

# `[wording]`: the words of the question page that are part of the instrument.

LONGEST_LABEL, LONGEST_PROMPT = 60, 300
"""Characters of an anchor and of any other text."""

LABELS = ("anchors", "levels")


@dataclass(frozen=True, slots=True)
class Wording:
    """`[wording]`: without a text of the owner's, the page shows its own in the study's language.

    Attributes:
        anchors: of the scale for sets, lowest first, one for each of its 3 to 7 points; those
            between the first and the last may be empty.
        levels: of the scale for images, lowest first, one for each of `design.levels`.
        score: above the scale for sets.
        image: about the level of an image.
        rank: above the ranks.
        query: about whether the query is well formed.
        preference: before the names of the sets; one is chosen.
        tie: the choice of neither set.
        reference: above the reference image.
        text: above the query's text.
        irrelevant: beside the flag for sets that fit neither reference nor text.
        reason: asks for the reason.
    """

    anchors: tuple[str, ...] = ()
    levels: tuple[str, ...] = ()
    score: str = ""
    image: str = ""
    rank: str = ""
    query: str = ""
    preference: str = ""
    tie: str = ""
    reference: str = ""
    text: str = ""
    irrelevant: str = ""
    reason: str = ""

    @property
    def points(self) -> int:
        """Of the scale for sets; its scores are the numbers from 1 to this one."""
        return len(self.anchors) or HIGHEST_SCORE


def wording_errors(wording: Wording, n_levels: int) -> Iterator[tuple[str, str]]:
    """What is wrong with the texts, by the key of study.toml."""
    anchors, levels = wording.anchors, wording.levels
    if anchors and not FEWEST_POINTS <= len(anchors) <= MOST_POINTS:
        what = f"names {len(anchors)} points; name {FEWEST_POINTS} to {MOST_POINTS}"
        yield "wording.anchors", what
    elif anchors and not (anchors[0].strip() and anchors[-1].strip()):
        yield "wording.anchors", "the first and the last point need a text"
    if levels and len(levels) != n_levels:
        yield "wording.levels", f"names {len(levels)} levels; name {n_levels}, as design.levels"
    elif not all(level.strip() for level in levels):
        yield "wording.levels", "each level needs a text"
    for name in LABELS:
        labels = getattr(wording, name)
        worded = [label.strip() for label in labels if label.strip()]
        if len(set(worded)) < len(worded):
            yield f"wording.{name}", "two of them have the same text"
        if any(not is_line(label, LONGEST_LABEL) for label in worded):
            yield f"wording.{name}", f"each must be one line of at most {LONGEST_LABEL} characters"
    for name, text in asdict(wording).items():
        if name not in LABELS and text and not is_line(text, LONGEST_PROMPT):
            what = f"must be one line of at most {LONGEST_PROMPT} characters, not blank"
            yield f"wording.{name}", what


def is_line(text: str, longest: int) -> bool:
    """Whether this is one line of printable text that is not blank."""
    return bool(text.strip()) and len(text) <= longest and text.isprintable()


PAGE_TEXTS: dict[str, tuple[str, ...]] = {
    "score": ("how_well",),
    "image": ("how_well_image",),
    "rank": ("rank",),
    "query": ("is_well_formed",),
    "preference": ("i_prefer",),
    "tie": ("tie", "shortcuts.tie"),
    "reference": ("original",),
    "text": ("user_text",),
    "irrelevant": (
        *("irrelevant", "irrelevant_short", "irrelevant_help"),
        "shortcuts.irrelevant",
    ),
    "reason": ("reason_prompt", "reason_prompt_required"),
}
"""The texts of the question page that each key replaces."""


def page_texts(wording: Wording) -> dict[str, Any]:
    """The owner's texts, under the names that the question page has for them."""
    texts: dict[str, Any] = {}
    for key, names in PAGE_TEXTS.items():
        if text := getattr(wording, key):
            for name in names:
                group, _, part = name.partition(".")
                if part:
                    texts.setdefault(group, {})[part] = text
                else:
                    texts[name] = text
    if wording.anchors:
        texts["anchors"] = list(wording.anchors)
    if wording.levels:
        texts["relevance_levels"] = {str(len(wording.levels)): list(wording.levels)}
    return texts


# The owner's extra questions: their kinds, what is wrong with one, and valid answers to them.
#
# An answer is stored as the page sends it: for options their numbers, from 1, so that it is the
# same in every language; a number; or a text. What was written for "Other" is stored as its text,
# in the place of an option's number.

ExtraType = Literal["choice", "choices", "scale", "number", "text"]

EXTRA_TYPES: tuple[ExtraType, ...] = get_args(ExtraType)
OF_OPTIONS: tuple[ExtraType, ...] = ("choice", "choices", "scale")
MOST_OPTIONS, LONGEST_OPTION = 40, 120
MOST_QUESTIONS = 40
LARGEST_NUMBER = 1e15
"""Of either sign; larger ones are no answer."""

NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")


@dataclass(frozen=True, slots=True)
class ExtraQuestion:
    """A question besides the main one.

    Attributes:
        name: of the answer in releases.
        type: one of the options (`choice`, and `scale`, whose options are in order), any of them
            (`choices`), a number or a text.
        text: as annotators read it.
        required: whether it must be answered.
        min: the least number that is an answer; for numbers only.
        max: the greatest one.
        other: whether "Other", with a text, comes after the options of a choice or choices.
    """

    name: str
    type: ExtraType
    text: str
    options: tuple[str, ...] = ()
    required: bool = False
    min: float = -LARGEST_NUMBER
    max: float = LARGEST_NUMBER
    other: bool = False

    @property
    def bounds(self) -> tuple[float | None, float | None]:
        """The least and the greatest answer that the owner has set."""
        lowest = None if self.min == -LARGEST_NUMBER else self.min
        return lowest, None if self.max == LARGEST_NUMBER else self.max

    @property
    def number_of_other(self) -> int | None:
        """The number of "Other" among the options."""
        return len(self.options) + 1 if self.other else None


def question_errors(
    lists: Mapping[str, Sequence[ExtraQuestion]],
) -> Iterator[tuple[str, str]]:
    """What is wrong with the questions of each list, by the key of study.toml."""
    names: set[str] = set()
    for table, questions in lists.items():
        if len(questions) > MOST_QUESTIONS:
            yield table, f"has {len(questions)} questions; {MOST_QUESTIONS} are the most"
        for number, question in enumerate(questions, start=1):
            place = f"{table}.{number}"
            if not NAME.fullmatch(question.name):
                what = f"{question.name!r} is not 1 to 40 of a-z, 0-9 and '_', first a letter"
                yield f"{place}.name", what
            elif question.name in names:
                yield f"{place}.name", f"{question.name!r} is the name of another question, too"
            names.add(question.name)
            if not is_line(question.text, LONGEST_PROMPT):
                what = f"must be one line of at most {LONGEST_PROMPT} characters, not blank"
                yield f"{place}.text", what
            wrong_options = options_error(question) if question.type in EXTRA_TYPES else None
            if wrong_options:
                yield f"{place}.options", wrong_options
            yield from ((f"{place}.{key}", what) for key, what in limits_errors(question))


def options_error(question: ExtraQuestion) -> str | None:
    options, is_scale = question.options, question.type == "scale"
    if question.type not in OF_OPTIONS:
        return f'cannot be used with type = "{question.type}"' if options else None
    fewest, most = (FEWEST_POINTS, MOST_POINTS) if is_scale else (2, MOST_OPTIONS)
    if not fewest <= len(options) <= most:
        return f"has {len(options)} texts; a {question.type} needs {fewest} to {most}"
    needed = (options[0], options[-1]) if is_scale else options
    if not all(option.strip() for option in needed):
        return f"{'the first and the last point need' if is_scale else 'each option needs'} a text"
    worded = [option.strip() for option in options if option.strip()]
    if len(set(worded)) < len(worded):
        return "two of them have the same text"
    is_printable = all(is_line(option, LONGEST_OPTION) for option in worded)
    return None if is_printable else f"each must be one line of {LONGEST_OPTION} characters at most"


def limits_errors(question: ExtraQuestion) -> Iterator[tuple[str, str]]:
    """What is wrong with the bounds and with "Other", by the key."""
    bounds = dict(zip(("min", "max"), question.bounds, strict=True))
    for key, bound in bounds.items():
        if bound is None:
            continue
        if question.type != "number":
            yield key, f'is for type = "number"; this question has type = "{question.type}"'
        elif not abs(bound) <= LARGEST_NUMBER:
            yield key, f"{bound:g} is not a number between -1e15 and 1e15"
    if question.type == "number" and question.min > question.max:
        yield "max", f"{question.max:g} is less than min, {question.min:g}"
    if question.other and question.type not in ("choice", "choices"):
        yield "other", f'is for "choice" and "choices"; this question has type = "{question.type}"'


def read_answers(questions: Sequence[ExtraQuestion], given: Mapping[str, Any]) -> dict[str, Any]:
    """The valid answers by the question's name, without those left unanswered; or `Refused`."""
    by_name = {question.name: question for question in questions}
    for name in given:
        if name not in by_name:
            raise Refused(f"extra: {name[:40]!r} is no question of this study")
    answers = {}
    for name, question in by_name.items():
        answer = given.get(name)
        if answer is not None:
            answer = read_answer(question, answer)
        if answer is not None:
            answers[name] = answer
        elif question.required:
            raise Refused(f"extra: {name} must be answered")
    return answers


def read_answer(question: ExtraQuestion, given: object) -> Any:
    """The valid answer to a question; None for a blank text and for no option."""
    name = f"extra: the answer to {question.name}"
    if question.type == "text":
        return read_text(name, given) or None
    if question.type == "number":
        if isinstance(given, bool) or not isinstance(given, int | float):
            raise Refused(f"{name} is not a number")
        if not (math.isfinite(given) and question.min <= given <= question.max):
            bounds = f"from {question.min:g} to {question.max:g}"
            raise Refused(f"{name} is not a number {bounds}")
        return given
    chosen = given if question.type == "choices" else [given]
    if not isinstance(chosen, list):
        raise Refused(f"{name} is not a list of options")
    texts = [value for value in chosen if isinstance(value, str)] if question.other else []
    numbers = [value for value in chosen if value not in texts]
    if len(texts) > 1 or not all(is_option(question, value) for value in numbers):
        raise Refused(f"{name} is not among its {len(question.options)} options")
    others = [read_text(name, text) for text in texts]
    if not all(others):
        raise Refused(f"{name} lacks the text of the other answer")
    if question.type != "choices":
        return others[0] if others else given
    return [*sorted(set(numbers)), *others] or None


def read_text(name: str, given: object) -> str:
    if not isinstance(given, str):
        raise Refused(f"{name} is not a text")
    text = given.strip(WHITE_SPACE)
    if len(text) > LONGEST_REASON or not is_storable_text(text):
        raise Refused(f"{name} is too long or has characters that cannot be stored")
    return text


def is_option(question: ExtraQuestion, value: object) -> bool:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return is_number and value in range(1, len(question.options) + 1)


def parts_of(question: ExtraQuestion, answer: Any) -> list[tuple[float | None, str | None]]:
    """Each part of an answer as a number (of an option, too) and a text; none if unanswered."""
    if answer is None:
        return []
    if question.type == "text":
        return [(None, answer)]
    if question.type == "number":
        return [(float(answer), None)]
    chosen = answer if isinstance(answer, list) else [answer]
    return [part_of(question, part) for part in chosen]


def part_of(question: ExtraQuestion, part: int | str) -> tuple[float, str | None]:
    """An option's number and wording; for "Other", its text, None if that was left out."""
    if isinstance(part, str):
        return float(len(question.options) + 1), part
    options = dict(enumerate(question.options, start=1))
    return float(part), options.get(part)


def in_words(
    questions: Sequence[ExtraQuestion], answers: Mapping[str, Any] | None
) -> list[tuple[str, str]]:
    """Each question with its answer in words, as the owner reads them; none if none was asked."""
    if answers is None:
        return []
    lines = []
    for question in questions:
        parts = parts_of(question, answers.get(question.name))
        words = (part_in_words(question, number, text) for number, text in parts)
        lines.append((question.text, ", ".join(words) or "not answered"))
    return lines


def part_in_words(question: ExtraQuestion, number: float | None, text: str | None) -> str:
    if question.type == "scale":
        return f"{number:.0f} {text}".strip()
    if number is not None and number == question.number_of_other:
        return f"other: {text}" if text else "other"
    return text or f"{number:g}"
