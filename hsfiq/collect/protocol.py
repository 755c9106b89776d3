"""The JSON that the annotation page and the server exchange.

The server's handlers, the simulated annotators and the benchmarks share these types.
`annotate/static/protocol.d.ts` declares them for the page's scripts; a test compares the two.
"""

from __future__ import annotations

from typing import Any, Literal, NotRequired, final

# pydantic reads typing.TypedDict only from Python 3.12 on.
from typing_extensions import TypedDict

from hsfiq.answer_rules import ImageState


class EmptyPayload(TypedDict):
    """POST /practice: the practice question is finished."""


class ConsentPayload(TypedDict):
    """POST /consent: whether the participant agrees to take part."""

    agrees: bool


class AnswerPayload(TypedDict):
    """The answer within a submit. Times are durations in seconds: browser clocks may be wrong."""

    score_1: int
    score_2: int
    preferred: int
    irrelevant: bool
    reason: str | None
    active_seconds: float
    seconds_since_first_interaction: float | None


class ImagesPayload(TypedDict):
    """The state of each image when Next or Skip was pressed, in the order of the view."""

    reference: ImageState
    sets: list[list[ImageState]]


@final
class SubmitPayload(TypedDict):
    """POST /submit: one press of Next. A repeated request carries the same `submit_key`."""

    assignment: str
    submit_key: str
    answer: AnswerPayload
    images: ImagesPayload


@final
class SkipPayload(TypedDict):
    """POST /submit: one press of Skip at a question with a missing or unloaded image."""

    assignment: str
    submit_key: str
    skip: Literal[True]
    images: ImagesPayload


class CheckPayload(TypedDict):
    """POST /check: one attempt at an arithmetic check."""

    assignment: str
    given: str


class TextBlock(TypedDict):
    """A piece of guidelines or consent text: headings and paragraphs have one line."""

    kind: Literal["heading", "paragraph", "list", "steps"]
    lines: list[str]


class ImageView(TypedDict):
    """An image under its opaque token; `missing` if its file is absent or cannot be decoded."""

    token: str
    missing: bool


class EarlierAnswer(TypedDict):
    """The answer that counts so far; scores and preference are null for a skipped question."""

    score_1: int | None
    score_2: int | None
    preferred: int | None
    irrelevant: bool
    reason: str


class ViewBase(TypedDict):
    """What every view has: progress, and the number of the question that Back leads to."""

    total: int
    answered: int
    back: int | None


class ConsentView(ViewBase):
    step: Literal["consent"]
    text: list[TextBlock]


class JudgedView(ViewBase):
    """What the practice question and a real question share."""

    text: str
    reference: ImageView
    sets: list[list[ImageView]]
    earlier: EarlierAnswer | None
    reason_asked: bool
    assignment: str
    next_images: list[str]


class PracticeView(JudgedView):
    """The practice question; `better` is the set that matches the text."""

    step: Literal["practice"]
    better: Literal[1, 2]


class QuestionView(JudgedView):
    """A question; `standing_at` is the number of the first one that is not answered."""

    step: Literal["question"]
    number: int
    minutes_left: int | None
    standing_at: int | None


class CheckView(ViewBase):
    """An arithmetic check, such as `3 + 4`, before the question with this number."""

    step: Literal["check"]
    number: int
    minutes_left: int | None
    prompt: str
    assignment: str


class Completion(TypedDict):
    """The completion code and the address to return to; absent if not due."""

    code: NotRequired[str]
    url: NotRequired[str]


class DoneView(ViewBase, Completion):
    """Thanks after the last question; `passed_on`: others took over some questions."""

    step: Literal["done"]
    minutes: int
    passed_on: bool


FarewellKind = Literal["paused", "closed", "declined", "ended", "handed-on"]


class FarewellView(ViewBase, Completion):
    step: Literal["farewell"]
    kind: FarewellKind


View = ConsentView | PracticeView | QuestionView | CheckView | DoneView | FarewellView


class StudyInfo(TypedDict):
    title: str
    language: str
    guidelines: list[TextBlock]
    set_names: list[str]
    ties_allowed: bool
    shortest_reason: int
    longest_reason: int


class Opening(TypedDict):
    """What the page receives when it is loaded; `texts` are those of annotate/languages."""

    study: StudyInfo
    texts: dict[str, Any]
    view: View


class FailedOpening(TypedDict):
    """What the page receives instead if this browser is not a participant's."""

    error: str
    language: str
    texts: dict[str, Any]


class SubmitReply(TypedDict):
    revision: int
    view: View


class CheckReply(TypedDict):
    passed: bool
    view: View


class ErrorReply(TypedDict):
    """A refused request.

    `handed_on`: the question has been reassigned to somebody else; `outdated`: the page was loaded
    before the server was upgraded and must be reloaded.
    """

    error: str
    handed_on: NotRequired[bool]
    outdated: NotRequired[bool]
