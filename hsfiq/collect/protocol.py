"""The JSON that the annotation page and the server exchange.

The server's handlers, the simulated annotators and the benchmarks share these types.
`annotate/static/protocol.d.ts` declares them for the page's scripts; a test compares the two.
"""

from __future__ import annotations

from typing import Any, Literal, NotRequired, final

from typing_extensions import TypedDict  # pydantic reads typing.TypedDict only from Python 3.12 on

from hsfiq.answer_rules import ImageState
from hsfiq.study.instrument import ExtraType

# The JSON with which the page of a participation that has ended is made.


class HitForm(TypedDict):
    """The address and the fields of the form that sends a HIT to Mechanical Turk."""

    action: str
    fields: dict[str, str]


class Completion(TypedDict):
    """The completion code and the address to return to; absent if not due.

    `hit` replaces both for a worker on a HIT of Mechanical Turk: null if the worker must return the
    HIT unpaid.
    """

    code: NotRequired[str]
    url: NotRequired[str]
    hit: NotRequired[HitForm | None]


# What the page sends in a search, and what only a search is sent.


class PlaceView(TypedDict):
    """An image of a search, by its list and its place in it, both from 1."""

    list: int
    place: int


class VoteView(TypedDict):
    """A vote between two lists: the better one, or 0 for neither, and then whether both are bad."""

    preference: int
    both_bad: bool


@final
class OpinionPayload(TypedDict):
    """The feedback on a turn's lists; `images` are the states of each list's images, in order.

    One list has a `satisfaction`, two have a `vote`; the other is null. `nearest` is null if no
    image is nearest, `painted_seconds` if an image was not painted.
    """

    satisfaction: int | None
    vote: VoteView | None
    nearest: PlaceView | None
    images: list[list[ImageState]]
    painted_seconds: float | None
    active_seconds: float


@final
class TypedPayload(TypedDict):
    """A text, and how it was typed; seconds from when the list was painted."""

    text: str
    pasted: bool
    first_key_seconds: float | None
    last_key_seconds: float | None


@final
class TurnPayload(TypedDict):
    """POST /search/turn: one press of Search; `opinion` is null before the first list."""

    assignment: str
    submit_key: str
    opinion: OpinionPayload | None
    typed: TypedPayload


@final
class UploadPayload(TypedDict):
    """POST /search/upload: the picture that the first text will be about, in base64."""

    assignment: str
    submit_key: str
    picture: str


@final
class ListPayload(TypedDict):
    """POST /search/list: get the list of the last turn; a repeated request changes nothing."""

    assignment: str


@final
class StopPayload(TypedDict):
    """POST /search/stop: the search ends, at an image of the last lists or at none (null).

    `opinion` is null without a list.
    """

    assignment: str
    submit_key: str
    opinion: OpinionPayload | None
    declared: PlaceView | None


class EmptyPayload(TypedDict):
    """POST /practice: the practice question is finished; /reconsider: revoke the refusal."""


class SeenPayload(TypedDict):
    """POST /messages-seen: the ids of messages that the participant has closed."""

    messages: list[int]


class WithdrawalPayload(TypedDict):
    """POST /withdrawal: the assignment of the `WithdrawalView` that the participant has read."""

    assignment: str


class ConsentPayload(TypedDict):
    """POST /consent: whether the participant agrees to take part."""

    agrees: bool


ExtraAnswer = int | float | str | list[int | str] | None
"""To one of the owner's extra questions: an option's number, options', a number or a text.

A text instead of an option's number is the text for "Other".
"""


@final
class AnswerPayload(TypedDict):
    """The answer within a submit; the study's question kind reads `judgement`.

    Times are durations in seconds: browser clocks may be wrong. `text_in_view`: whether the whole
    text of the query has been in view; absent without a text.
    """

    judgement: dict[str, Any]
    irrelevant: bool
    reason: str | None
    active_seconds: float
    seconds_since_first_interaction: float | None
    extra: NotRequired[dict[str, ExtraAnswer]]
    text_in_view: NotRequired[bool]


class ImagesPayload(TypedDict):
    """The state of each image when Next or Skip was pressed, in the order of the view."""

    reference: ImageState | None
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


class LanguagePayload(TypedDict):
    """POST /language: the new language, and the number of the question shown, if any."""

    language: str
    number: int | None


class QuestionnairePayload(TypedDict):
    """POST /questionnaire: the answers to the questions at the end, by the question's name."""

    assignment: str
    answers: dict[str, ExtraAnswer]


class ImageView(TypedDict):
    """An image under its opaque token; `missing` if its file is absent or cannot be decoded."""

    token: str
    missing: bool


class EarlierAnswer(TypedDict):
    """The answer that counts so far; the judgement of a skipped question is null."""

    judgement: dict[str, Any] | None
    irrelevant: bool
    reason: str
    extra: dict[str, ExtraAnswer]


class MessageView(TypedDict):
    """A message from the study's owner that was not closed yet, as HTML of harmless tags."""

    id: int
    text: str


class ViewBase(TypedDict):
    """The common part of all views: progress, and the number of the question behind Back.

    A page with another `text_version` or `language` first gets the new texts.
    """

    total: int
    answered: int
    back: int | None
    text_version: int | None
    language: str
    messages: list[MessageView]


class ConsentView(ViewBase):
    """The text to agree to, as HTML of harmless tags."""

    step: Literal["consent"]
    text: str


class JudgedView(ViewBase):
    """The common part of the practice question and a real question.

    If the query is a text alone, `reference` is null; if it is an image alone, `text` is empty.
    `draft` is the key of unsent input: the assignment without the texts' version and language.
    """

    text: str
    reference: ImageView | None
    sets: list[list[ImageView]]
    earlier: EarlierAnswer | None
    reason_asked: bool
    assignment: str
    draft: str
    next_images: list[str]


class PracticeView(JudgedView):
    """The practice question.

    `expected` is the correct answer, in the format of the kind's page part; `explanation` has
    paragraphs.
    """

    step: Literal["practice"]
    expected: dict[str, Any]
    explanation: list[str]


class QuestionView(JudgedView):
    """A question; `standing_at` is the number of the first one that is not answered."""

    step: Literal["question"]
    number: int
    minutes_left: int | None
    standing_at: int | None


class SearchTurnView(TypedDict):
    """A turn of a search: the text, the image that it is about, and the lists that answered it.

    There is one list, or those of two systems, which have a vote instead of a satisfaction. `lists`
    is null until all are there, `nearest` if there is no such image, or no feedback yet. A
    given text is the query's, and not the participant's own.
    """

    number: int
    text: str
    is_given: bool
    reference: ImageView
    lists: list[list[ImageView]] | None
    satisfaction: int | None
    vote: VoteView | None
    nearest: PlaceView | None


class SearchView(ViewBase):
    """A search with its turns so far.

    The target is in view for `target_seconds` more; null: all the time. Without a turn, the text is
    about `start`; `is_own_picture`: the participant has uploaded it, `may_upload`: they may upload
    one now. After the `ending`, the page asks how the search went, and the assignment is that
    of a question. `awaits_list`: the page gets a list before anything else; `is_unavailable`: the
    retriever has just failed to give it.
    """

    step: Literal["search"]
    number: int
    minutes_left: int | None
    standing_at: int | None
    task: Literal["target-shown", "target-remembered", "own-wish"]
    chooser: Literal["nearest", "top1"]
    rounds: int
    start: ImageView
    is_own_picture: bool
    may_upload: bool
    target: ImageView | None
    target_seconds: float | None
    turns: list[SearchTurnView]
    awaits_list: bool
    is_unavailable: bool
    ending: Literal["declared", "stopped", "max-rounds"] | None
    declared: PlaceView | None
    earlier: EarlierAnswer | None
    assignment: str
    draft: str


class CheckView(ViewBase):
    """An arithmetic check, such as `3 + 4`, before the question with this number."""

    step: Literal["check"]
    number: int
    minutes_left: int | None
    prompt: str
    assignment: str


class ExtraQuestionView(TypedDict):
    """One of the owner's extra questions; `options` is empty for numbers and texts.

    `min` and `max` bound a number; `other`: the page adds "Other", with a text, to the options.
    """

    name: str
    type: ExtraType
    text: str
    options: list[str]
    required: bool
    min: float | None
    max: float | None
    other: bool


class QuestionnaireView(ViewBase):
    """The owner's questions at the end, with a note above them, which may be empty."""

    step: Literal["questionnaire"]
    note: str
    questions: list[ExtraQuestionView]
    assignment: str
    draft: str


class DoneView(ViewBase, Completion):
    """The closing page; `passed_on`: some questions were reassigned."""

    step: Literal["done"]
    minutes: int
    passed_on: bool


FarewellKind = Literal[
    "paused",
    "closed",
    "declined",
    "ended",
    "excluded",
    "reassigned",
    "checks-paused",
    "checks-excluded",
]


class FarewellView(ViewBase, Completion):
    """The reason why there is nothing to answer; people who declined may have `may_reconsider`."""

    step: Literal["farewell"]
    kind: FarewellKind
    may_reconsider: bool


View = (
    ConsentView
    | PracticeView
    | QuestionView
    | SearchView
    | CheckView
    | QuestionnaireView
    | DoneView
    | FarewellView
)


class ReleaseView(TypedDict):
    """A release that has answers of the participant; `date` is that of its last export."""

    name: str
    version: str
    date: str


class WithdrawalView(TypedDict):
    """GET /withdrawal: the data that a withdrawal deletes, and the releases that it cannot change.

    `payment` says where the participant is paid, if they are; `code` is a completion code that the
    page shows at the end. `platform` is the name of the study's platform, "" if it has none.
    """

    name: str
    answers: int
    releases: list[ReleaseView]
    payment: Literal["prolific", "mturk", "panel", "code"] | None
    platform: str
    assignment: str


class LanguageView(TypedDict):
    """A language of the study, under its own name."""

    tag: str
    name: str
    direction: Literal["ltr", "rtl"]


class StudyInfo(TypedDict):
    """The constant data of all views.

    `points` and `levels` are those of the scales for sets and for images; `guidelines` are HTML of
    harmless tags. A preference for a set scored `confirm_difference` or more lower is confirmed;
    null: none is. In a preview, the owner sees the study, and no answer is kept.
    """

    title: str
    kind: str
    points: int
    levels: int
    language: str
    direction: Literal["ltr", "rtl"]
    languages: list[LanguageView]
    guidelines: str
    set_names: list[str]
    extra_questions: list[ExtraQuestionView]
    ties_allowed: bool
    confirm_difference: int | None
    shortest_reason: int
    longest_reason: int
    is_preview: bool
    text_version: int | None


class Opening(TypedDict):
    """The data of a loaded page; `texts` are those of annotate/languages."""

    study: StudyInfo
    texts: dict[str, Any]
    view: View


class FailedOpening(TypedDict):
    """The data of a page in a browser without a participant.

    `participant_unknown`: the browser had a participant who is no longer stored.
    """

    error: str
    participant_unknown: bool
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

    `reassigned`: the question has been reassigned to somebody else; `outdated`: the page was loaded
    before the server was upgraded and must be reloaded; `set_back`: the answers shown on the page
    are no longer stored, as after a restored backup; `participant_unknown`: the participant is no
    longer stored either.
    """

    error: str
    reassigned: NotRequired[bool]
    outdated: NotRequired[bool]
    set_back: NotRequired[bool]
    participant_unknown: NotRequired[bool]
