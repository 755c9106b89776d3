"""Searches: their turns, lists, votes and endings, as they are stored and shown."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session, aliased

from hsfiq.answer_rules import Answer, ImageState, ImageStates
from hsfiq.collect.answers import Skip
from hsfiq.collect.asked_questions import require_reached
from hsfiq.collect.leases import extend_lease
from hsfiq.collect.participant_row import ParticipantRow
from hsfiq.collect.participants import require_active
from hsfiq.collect.studies import lock_study
from hsfiq.db.search_tables import (
    PublishedLeaderboard,
    SearchEnding,
    SearchFeedback,
    SearchItem,
    SearchList,
    SearchTurn,
    SearchUpload,
    StruckText,
)
from hsfiq.db.source_tables import Image, Query, System, Triplet
from hsfiq.db.tables import Form, Pair, Participant, Question, Response, Study
from hsfiq.errors import Conflict, Forbidden, Refused, SetBack, UnreadableInput
from hsfiq.ids import question_id
from hsfiq.kinds.search import MOST_POINTS
from hsfiq.kinds.search_rows import Searches
from hsfiq.study.config import config_of
from hsfiq.text import is_storable_text

if TYPE_CHECKING:
    from hsfiq.images.display import Reencoded

# A search as it stands: its turns with their lists and the feedback on them, and how it ended.

SLACK = 2.0
"""Seconds by which a remembered target may be shown longer, while its image loads."""


@dataclass(frozen=True, slots=True)
class Place:
    """An image by its list and its place in it, both from 1."""

    side: int
    place: int


@dataclass(frozen=True, slots=True)
class Turn:
    """A turn with its lists, side 1 first, and its feedback, as far as they exist."""

    asked: SearchTurn
    lists: tuple[SearchList, ...]
    feedback: SearchFeedback | None

    @property
    def image_ids(self) -> list[int]:
        """The keys of the images of all lists, in their order."""
        return [key for listed in self.lists for key in listed.image_ids]


@dataclass(frozen=True, slots=True)
class SearchState:
    """The current state of a question of a live kind."""

    question: Question
    turns: tuple[Turn, ...]
    ending: SearchEnding | None
    upload: SearchUpload | None

    @property
    def triplet(self) -> Triplet:
        return self.question.pair.query.triplet

    @property
    def first_text(self) -> str:
        """The text of the first turn if it is the query's; "" if the participant writes it."""
        is_own = searches_of(self.question).task == "own-wish"
        return "" if is_own else self.question.pair.query.text

    @property
    def awaits_list(self) -> bool:
        """Whether a list comes next; before the first turn, that of the query's text."""
        if self.ending is not None:
            return False
        if not self.turns:
            return bool(self.first_text.strip())
        return not self.turns[-1].lists

    @property
    def may_upload(self) -> bool:
        """Whether the participant may upload a picture now: once, before the first text."""
        is_new = self.upload is None and not self.turns and self.ending is None
        return is_new and searches_of(self.question).uploads

    @property
    def lists(self) -> Sequence[SearchList]:
        """Those of the last turn; `Refused` if there are none yet."""
        if not self.turns or not self.turns[-1].lists:
            raise Refused("this search does not have a list yet")
        return self.turns[-1].lists

    def image_at(self, at: Place, name: str) -> int:
        """The key of an image of the last lists; `Refused` if there is none at the place."""
        if not 1 <= at.side <= len(self.lists):
            raise Refused(f"{name}: the list is not from 1 to {len(self.lists)}")
        images = self.lists[at.side - 1].image_ids
        if not 1 <= at.place <= len(images):
            raise Refused(f"{name}: the place is not from 1 to {len(images)}")
        return images[at.place - 1]


def state_of(session: Session, question_id: int) -> SearchState:
    rows = session.execute(
        select(SearchTurn, SearchFeedback)
        .outerjoin(SearchFeedback, SearchFeedback.turn_id == SearchTurn.id)
        .where(SearchTurn.question_id == question_id)
        .order_by(SearchTurn.number)
    ).all()
    lists = session.scalars(
        select(SearchList)
        .join(SearchTurn, SearchList.turn_id == SearchTurn.id)
        .where(SearchTurn.question_id == question_id)
        .order_by(SearchList.side)
    ).all()
    return SearchState(
        session.get_one(Question, question_id),
        tuple(
            Turn(asked, tuple(each for each in lists if each.turn_id == asked.id), feedback)
            for asked, feedback in rows
        ),
        session.get(SearchEnding, question_id),
        session.get(SearchUpload, question_id),
    )


def searches_of(question: Question) -> Searches:
    return config_of(question.pair.study).searches


def target_seconds_left(question: Question, now: datetime) -> float:
    """How long a remembered target may still be shown; a preview serves no question."""
    seconds = searches_of(question).target_seconds
    if question.served_at is None:
        return float(seconds)
    until = question.served_at + timedelta(seconds=seconds + SLACK)
    return min(max((until - now).total_seconds(), 0.0), float(seconds))


def images_by_key(session: Session, keys: set[int]) -> dict[int, Image]:
    return {image.id: image for image in session.scalars(select(Image).where(Image.id.in_(keys)))}


# A participant's feedback on the lists of a turn.


@dataclass(frozen=True, slots=True)
class Choice:
    """A vote between two lists: the better one, or 0 for neither, and then whether both are bad."""

    preference: int
    both_bad: bool


@dataclass(frozen=True, slots=True)
class Opinion:
    """The feedback of the page on a turn's lists; `nearest` is None if no image is near.

    One list has a satisfaction, two have a vote. `images` has the states of each list's images.
    """

    satisfaction: int | None
    vote: Choice | None
    nearest: Place | None
    images: tuple[tuple[ImageState, ...], ...]
    painted_seconds: float | None
    active_seconds: float


def add_feedback(
    session: Session, state: SearchState, opinion: Opinion | None, now: datetime
) -> None:
    """Store the feedback on the last lists; before the first list there can be none."""
    if not state.turns:
        if opinion is not None:
            raise Refused("opinion: there is no list yet")
        return
    if opinion is None:
        raise Refused("opinion: is missing")
    lists, nearest, vote = state.lists, opinion.nearest, opinion.vote
    require_judged(opinion, len(lists))
    if nearest is not None:
        state.image_at(nearest, "nearest")
    lengths = [len(listed.image_ids) for listed in lists]
    if [len(states) for states in opinion.images] != lengths:
        raise Refused(f"images: must be of lists of {' and '.join(map(str, lengths))} images")
    session.add(
        SearchFeedback(
            turn_id=state.turns[-1].asked.id,
            satisfaction=opinion.satisfaction,
            preference=vote and vote.preference,
            both_bad=vote and vote.both_bad,
            nearest=nearest and nearest.place,
            nearest_side=nearest and nearest.side,
            images=ImageStates(None, opinion.images).letters,
            painted_seconds=opinion.painted_seconds,
            active_seconds=opinion.active_seconds,
            given_at=now,
        )
    )


def require_judged(opinion: Opinion, n_lists: int) -> None:
    """Raise `Refused` unless one list has a satisfaction, or two have a vote."""
    satisfaction, vote = opinion.satisfaction, opinion.vote
    if n_lists == 1:
        if vote is not None:
            raise Refused("vote: one list has a satisfaction instead")
        if satisfaction is None or not 1 <= satisfaction <= MOST_POINTS:
            raise Refused(f"satisfaction: is not from 1 to {MOST_POINTS}")
        return
    if satisfaction is not None:
        raise Refused("satisfaction: two lists have a vote instead")
    if vote is None:
        raise Refused("vote: is missing")
    if vote.preference not in range(n_lists + 1):
        raise Refused(f"vote.preference: is not from 0 to {n_lists}")
    if vote.both_bad and vote.preference:
        raise Refused("vote.both_bad: cannot be true if one list is better")


# A participant's search: its turns so far, and storing the next step.
#
# The caller's `Database.writing` block is the transaction, in which the participant and the
# question are locked. Rows are only added. A request that is repeated with its submit key stores
# nothing new.

LONGEST_TEXT = 400
"""Characters of a turn's text."""

OF_QUERY = "query"
"""The submit key of a first turn whose text is the query's."""


@dataclass(frozen=True, slots=True)
class Typed:
    """A text, and how it was typed; seconds from when the list was painted."""

    text: str
    pasted: bool
    first_key_seconds: float | None
    last_key_seconds: float | None


def begin(session: Session, question_id: int, now: datetime) -> SearchState:
    """The search; the first turn is stored if the query's text is asked and has not been."""
    state = state_of(session, question_id)
    if state.turns or not state.awaits_list:
        return state
    add_turn(session, state, OF_QUERY, reference_of(state), state.first_text, now)
    return state_of(session, question_id)


def ask(
    session: Session,
    participant: ParticipantRow,
    state: SearchState,
    *,
    opinion: Opinion | None,
    typed: Typed,
    expected_turns: int,
    submit_key: str,
    now: datetime,
    language: str | None = None,
    text_version: int | None = None,
) -> None:
    """Store the feedback on the last lists, and the text of the next turn.

    Raises:
        Forbidden: the participant is not at this question.
        NotOpen: the study takes no answers.
        Conflict: another tab has continued the search since the page was loaded.
        Refused: a value is not valid, or no turn is left.
    """
    require_reached(session, participant, state.question.id)
    if any(turn.asked.submit_key == submit_key for turn in state.turns):
        return
    require_same(participant, state, expected_turns)
    if state.awaits_list:
        raise Conflict("the list of this turn has not arrived yet")
    searches = searches_of(state.question)
    if len(state.turns) >= searches.rounds:
        raise Refused(f"this search has {searches.rounds} lists at most")
    require_text(typed)
    reference = next_reference(searches, state, opinion)
    add_feedback(session, state, opinion, now)
    turn = add_turn(session, state, submit_key, reference, typed.text, now)
    turn.pasted = typed.pasted
    turn.first_key_seconds = typed.first_key_seconds
    turn.last_key_seconds = typed.last_key_seconds
    turn.language, turn.text_version = language, text_version
    extend_lease(participant, now)
    session.flush()


def stop(
    session: Session,
    participant: ParticipantRow,
    state: SearchState,
    *,
    opinion: Opinion | None,
    declared: Place | None,
    expected_turns: int,
    submit_key: str,
    now: datetime,
) -> None:
    """Store the feedback on the last list, and the end of the search.

    `declared` is the image that the participant chose. A search whose list does not arrive may also
    be stopped, without an opinion. Errors as in `ask`.
    """
    require_reached(session, participant, state.question.id)
    declared_id = None
    if declared is not None:
        declared_id = state.image_at(declared, "declared")
    if state.ending is not None and state.ending.submit_key == submit_key:
        if state.ending.declared_id != declared_id:
            raise Conflict("this submit was used for another ending")
        return
    require_same(participant, state, expected_turns)
    if opinion is not None or not state.awaits_list:
        add_feedback(session, state, opinion, now)
    is_last = len(state.turns) == searches_of(state.question).rounds and not state.awaits_list
    session.add(
        SearchEnding(
            question_id=state.question.id,
            submit_key=submit_key,
            reason="declared" if declared else "max-rounds" if is_last else "stopped",
            declared_id=declared_id,
            declared_side=declared and declared.side,
            ended_at=now,
        )
    )
    extend_lease(participant, now)
    session.flush()


def judged(session: Session, question_id: int, answer: Answer | Skip, revision: int) -> Answer:
    """The outcome of a search, with the time of its turns; `revision` is the revision on the page.

    `Refused` unless the search has ended, and `why` is given exactly if it was stopped.
    """
    state = state_of(session, question_id)
    if state.ending is None:
        raise SetBack("the search has not ended yet")
    if isinstance(answer, Skip):
        raise Refused("a search cannot be skipped; stop it instead")
    if (answer.values["why"] is not None) != (state.ending.reason == "stopped"):
        raise Refused(
            "why: required if the search was stopped without an image, otherwise not allowed"
        )
    if revision:
        return answer
    searching = sum(turn.feedback.active_seconds for turn in state.turns if turn.feedback)
    seconds = round(searching + (answer.times.active_seconds or 0), 3)
    return replace(answer, times=replace(answer.times, active_seconds=seconds))


def require_same(participant: ParticipantRow, state: SearchState, expected_turns: int) -> None:
    """Raise unless the search is in the state that the page shows, and may continue."""
    if state.question.reassigned:
        raise Forbidden("this search was reassigned to another participant")
    require_active(participant)
    if len(state.turns) < expected_turns:
        raise SetBack("the turns shown on the page are no longer stored")
    if state.ending is not None or len(state.turns) != expected_turns:
        raise Conflict("this search was continued in another window after the page was loaded")


def require_text(typed: Typed) -> None:
    if not typed.text.strip():
        raise Refused("the text is empty")
    if len(typed.text) > LONGEST_TEXT:
        raise Refused(f"the text is longer than {LONGEST_TEXT} characters")
    if not is_storable_text(typed.text):
        raise Refused("the text has characters that cannot be stored")


def add_turn(
    session: Session, state: SearchState, key: str, reference: int | None, text: str, now: datetime
) -> SearchTurn:
    turn = SearchTurn(
        question_id=state.question.id,
        number=len(state.turns) + 1,
        submit_key=key,
        reference_id=reference,
        text=text,
        asked_at=now,
    )
    session.add(turn)
    session.flush()
    return turn


def reference_of(state: SearchState) -> int:
    """The query's reference, from which the search starts."""
    reference = state.triplet.reference_id
    if reference is None:
        raise Refused("this query has no reference image")
    return reference


def next_reference(searches: Searches, state: SearchState, opinion: Opinion | None) -> int | None:
    """The image that the next text is about; None if it is the uploaded picture."""
    if not state.turns:
        return None if state.upload else reference_of(state)
    if searches.chooser == "top1":
        return state.lists[0].image_ids[0]
    if opinion is None or opinion.nearest is None:
        return state.turns[-1].asked.reference_id
    return state.image_at(opinion.nearest, "nearest")


# Striking a text that somebody typed in a search: it stays stored, but no release has it.


def strike(session: Session, study: Study, search_id: str, number: int, now: datetime) -> bool:
    """Redact the text of a turn; return whether it was not redacted before.

    `UnreadableInput` if the study has no such search (`search_id` is its id in releases) or turn.
    """
    rows = session.execute(
        select(Question.id, Participant.name, Form.name, Question.place)
        .join(Form, Question.form_id == Form.id)
        .join(Participant, Form.participant_id == Participant.id)
        .where(Form.study_id == study.id)
    )
    keys = {question_id(person, str(form), place): key for key, person, form, place in rows}
    if search_id not in keys:
        what = f"study {study.name} has no search {search_id!r}"
        raise UnreadableInput("SEARCH", what, "its id is question_id in a release")
    turn = session.scalars(
        select(SearchTurn.id).where(
            SearchTurn.question_id == keys[search_id], SearchTurn.number == number
        )
    ).one_or_none()
    if turn is None:
        raise UnreadableInput("TURN", f"search {search_id} has no turn {number}")
    if session.get(StruckText, turn) is not None:
        return False
    session.add(StruckText(turn_id=turn, struck_at=now))
    session.flush()
    return True


# The picture that a participant uploads for a search, where the study allows it.

LONGEST_SIDE = 1024
"""Pixels of a stored picture."""

MAX_PIXELS = 25_000_000
"""The most pixels of an uploaded picture: phones take 12 or 24 million."""


def add_upload(
    session: Session,
    participant: ParticipantRow,
    state: SearchState,
    picture: Reencoded,
    *,
    expected_turns: int,
    submit_key: str,
    now: datetime,
) -> None:
    """Store the picture that the first text will be about.

    Raises:
        Forbidden: the study allows no pictures, or the participant is not at this question.
        NotOpen: the study takes no answers.
        Conflict: the search has a picture or a text already.
    """
    require_uploadable(
        session, participant, state, expected_turns=expected_turns, submit_key=submit_key
    )
    digest = sha256(picture.content).hexdigest()
    if (stored := state.upload) is not None:
        if stored.sha256 != digest:
            raise Conflict("this submit was used for another picture")
        return
    session.add(
        SearchUpload(
            question_id=state.question.id,
            submit_key=submit_key,
            content=picture.content,
            sha256=digest,
            width=picture.width,
            height=picture.height,
            uploaded_at=now,
        )
    )
    extend_lease(participant, now)
    session.flush()


def require_uploadable(
    session: Session,
    participant: ParticipantRow,
    state: SearchState,
    *,
    expected_turns: int,
    submit_key: str,
) -> None:
    """Raise as `add_upload` does, unless a picture can be stored or was stored by this submit."""
    require_reached(session, participant, state.question.id)
    if not searches_of(state.question).uploads:
        raise Forbidden("this study does not accept pictures")
    if state.upload is not None and state.upload.submit_key == submit_key:
        return
    require_same(participant, state, expected_turns)
    if state.upload is not None or state.turns:
        raise Conflict("only one picture can be uploaded, before the first text")


# The votes of a study of kind `arena`, read while it runs, and what is published of them.
#
# A participant who looks at a leaderboard before and after they vote must not learn which list is
# whose. So everybody sees the same figures until enough others have voted, and the votes of a
# search count only once it has ended.

FEWEST_PEOPLE, FEWEST_OTHER_VOTES = 5, 20
"""A leaderboard is published again after new votes of at least `FEWEST_PEOPLE` people in searches
that have ended, of which at least `FEWEST_OTHER_VOTES` are not from the person who voted most."""


ENDED = (Response.question_id == Question.id) & (Response.revision == 1)
"""Joins the search of a question with the response that ended it."""


@dataclass(frozen=True, slots=True)
class Vote:
    """A participant's vote between the two lists of a turn, with outside ids.

    `preference` is the better list, 0 if neither is better; `both_bad` is true only then.
    `response_key` is the database key of the response that ended the search, None while it goes on;
    searches that ended later have higher ones.
    """

    question_id: str
    turn: int
    participant_id: str
    query_id: str
    triplet_id: str
    system_1: str
    system_2: str
    preference: int
    both_bad: bool
    answered_at: datetime
    response_key: int | None


def read_votes(session: Session, study: Study) -> list[Vote]:
    """The votes so far, by participant, search and turn; those of searches under way, too.

    Votes of excluded participants are left out; votes of forgotten people are deleted.
    """
    first, second = aliased(SearchItem), aliased(SearchItem)
    system_1, system_2 = aliased(System), aliased(System)
    rows = session.execute(
        select(
            Participant.name, Form.name, Question.place, SearchTurn.number,
            Triplet.external_id, Query.suffix, system_1.name, system_2.name,
            SearchFeedback.preference, SearchFeedback.both_bad, SearchFeedback.given_at,
            Response.id,
        )
        .join(Form, Form.participant_id == Participant.id)
        .join(Question, Question.form_id == Form.id)
        .join(Pair, Question.pair_id == Pair.id)
        .join(Query, Pair.query_id == Query.id)
        .join(Triplet, Query.triplet_id == Triplet.id)
        .join(first, (first.pair_id == Pair.id) & (first.side == 1))
        .join(second, (second.pair_id == Pair.id) & (second.side == 2))
        .join(system_1, first.system_id == system_1.id)
        .join(system_2, second.system_id == system_2.id)
        .join(SearchTurn, SearchTurn.question_id == Question.id)
        .join(SearchFeedback, SearchFeedback.turn_id == SearchTurn.id)
        .outerjoin(Response, ENDED)
        .where(
            Form.study_id == study.id,
            Participant.status != "excluded",
            SearchFeedback.preference.is_not(None),
        )
        .order_by(Participant.id, Form.position, Question.place, SearchTurn.number)
    )  # fmt: skip
    return [
        Vote(
            question_id(person, str(form), place),
            turn,
            person,
            triplet + suffix,
            triplet,
            *systems_and_vote,
        )
        for person, form, place, turn, triplet, suffix, *systems_and_vote in rows
    ]


@dataclass(frozen=True, slots=True)
class Published:
    """The published leaderboard; empty if `number` is 0.

    `last_response` is the key of the newest response that ended one of the counted searches.
    """

    number: int = 0
    last_response: int = 0
    published_at: datetime | None = None
    figures: dict[str, Any] | None = None


def published_leaderboard(session: Session, study_id: int) -> Published:
    row = session.get(PublishedLeaderboard, study_id)
    if row is None:
        return Published()
    return Published(row.number, row.last_response, row.published_at, row.figures)


def is_next_batch_complete(session: Session, study: Study, published: Published) -> bool:
    """Whether the searches that ended since the last publication have votes of enough people."""
    by_person = (
        select(func.count())
        .select_from(SearchFeedback)
        .join(SearchTurn, SearchFeedback.turn_id == SearchTurn.id)
        .join(Question, SearchTurn.question_id == Question.id)
        .join(Form, Question.form_id == Form.id)
        .join(Participant, Form.participant_id == Participant.id)
        .join(Response, ENDED)
        .where(
            Form.study_id == study.id,
            Participant.status != "excluded",
            SearchFeedback.preference.is_not(None),
            Response.id > published.last_response,
        )
        .group_by(Participant.id)
    )
    return hides_each_person(session.scalars(by_person).all())


def hides_each_person(votes: Collection[int]) -> bool:
    """Whether there are enough votes of others beside each person's; `votes` has a count each."""
    return len(votes) >= FEWEST_PEOPLE and sum(votes) - max(votes) >= FEWEST_OTHER_VOTES


def publish_leaderboard(
    session: Session,
    study_id: int,
    before: Published,
    last_response: int,
    figures: dict[str, Any],
    at: datetime,
) -> None:
    """Replace the published leaderboard, unless another process has done so since `before`."""
    lock_study(session, study_id)
    row = session.get(PublishedLeaderboard, study_id, populate_existing=True)
    if (row.number if row else 0) != before.number:
        return
    session.merge(
        PublishedLeaderboard(
            study_id=study_id,
            number=before.number + 1,
            last_response=last_response,
            published_at=at,
            figures=figures,
        )
    )
