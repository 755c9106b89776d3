"""The requests of a participant's page: one function for each.

A function first writes its changes in one short transaction, and raises `Refused`, without storing
anything, if the request cannot be accepted. The view in its reply is read after the commit, or in
the same transaction and sent after its commit, so it can only show stored data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from logging import getLogger

from sqlalchemy.orm import Session
from starlette.concurrency import run_in_threadpool

from hsfiq.annotate.cookies import (
    Assignment,
    Signer,
    assigned_token,
    read_assignment,
    required_participant,
    required_tokens,
    signer_of,
)
from hsfiq.annotate.image_copies import ImageStore, WebCopies, cache_folder
from hsfiq.annotate.searches import opinion_of, place_of, receive_upload
from hsfiq.annotate.views import ViewBuilder, payment_of
from hsfiq.collect import answers, participants, protocol, searches, stages
from hsfiq.collect.answers import given_answer
from hsfiq.collect.asked_questions import lock_question, require_reached
from hsfiq.collect.checks import answer_check
from hsfiq.collect.messages import mark_seen
from hsfiq.collect.owner import exports_with
from hsfiq.collect.page import page_parts
from hsfiq.collect.participant_row import ParticipantRow, participant_row, read_row
from hsfiq.collect.retrievers import Asked, Retrievers, store_lists
from hsfiq.collect.searches import SearchState, Typed, state_of
from hsfiq.collect.studies import lock_study
from hsfiq.collect.withdrawal import count_answered
from hsfiq.collect.withdrawal import withdraw as withdraw_from_study
from hsfiq.db.engine import Database
from hsfiq.db.tables import Participant
from hsfiq.errors import Forbidden, HsfiqError, Refused, SetBack
from hsfiq.kinds import KINDS
from hsfiq.live.client import Answered
from hsfiq.study.recruiting import platform_name

Cookies = Mapping[str, str]

logger = getLogger(__name__)


class Reassigned(Forbidden):
    """The participant was away for so long that the question was reassigned."""


@dataclass(frozen=True, slots=True)
class Services:
    database: Database
    signer: Signer
    images: ImageStore
    retrievers: Retrievers

    @classmethod
    def of(cls, database: Database) -> Services:
        images = ImageStore(WebCopies(cache_folder(database)))
        return cls(database, signer_of(database), images, Retrievers())

    @property
    def views(self) -> ViewBuilder:
        return ViewBuilder(self.images, self.signer)


def opening(services: Services, cookies: Cookies) -> protocol.Opening:
    now = datetime.now(UTC)
    with services.database.writing() as session:
        participant = required_participant(session, cookies, services.signer)
        if participant.enrolled_at is None:
            person = session.get_one(Participant, participant.id)
            participants.come_back(session, person, now)
            participant = read_row(session, participant.token_hash)
        position = stages.current_position(session, participant, now)
    with services.database.reading() as session:
        return services.views.opening(session, participant, position)


def show(services: Services, cookies: Cookies, number: int | None) -> protocol.View:
    """The view of a question, or of the current step if no number is given."""
    now = datetime.now(UTC)
    with services.database.writing() as session:
        participant = required_participant(session, cookies, services.signer)
        if number is None:
            position = stages.current_position(session, participant, now)
        else:
            position = stages.position_at(session, participant, number, now)
    return view_of(services, participant, position)


def choose_language(
    services: Services, cookies: Cookies, payload: protocol.LanguagePayload
) -> protocol.View:
    """Switch to another of the study's languages; the question or step stays the same."""
    with services.database.writing() as session:
        participant = required_participant(session, cookies, services.signer)
        participants.require_language(participant.study.config.study, payload["language"])
        participant.language = payload["language"]
        participant.store(session)
    return show(services, cookies, payload["number"])


def submit(
    services: Services,
    cookies: Cookies,
    payload: protocol.SubmitPayload | protocol.SkipPayload,
) -> protocol.SubmitReply:
    now = datetime.now(UTC)
    with services.database.writing() as session:
        participant = required_participant(session, cookies, services.signer, lock=True)
        assignment = read_assignment(
            services.signer, participant.token_hash, payload["assignment"], "question"
        )
        question = lock_question(session, assignment.key)
        if question.reassigned:
            raise Reassigned("this question has been reassigned to another person")
        answer = given_answer(question, participant.study, payload, now)
        if KINDS[participant.study.kind].is_live:
            answer = searches.judged(session, question.id, answer, assignment.revision)
        submitted = answers.submit(
            session,
            participant,
            question.id,
            answer,
            expected_revision=assignment.revision,
            submit_key=payload["submit_key"],
            text_version=assignment.text_version,
            language=assignment.language,
        )
        position = stages.position_after(
            session, participant, submitted.steps, submitted.number, now
        )
        participant.store(session)
        parts = page_parts(session, participant, position)
    with services.database.reading() as session:  # connects only for pages that need more
        view = services.views.view_of_parts(session, participant, position, parts)
    return {"revision": submitted.revision, "view": view}


def consent(services: Services, cookies: Cookies, *, agrees: bool) -> protocol.View:
    now = datetime.now(UTC)
    with services.database.writing() as session:
        participant = required_participant(session, cookies, services.signer)
        stages.decide(session, participant, agrees=agrees, now=now)
        participant = read_row(session, participant.token_hash)
        position = stages.current_position(session, participant, now)
    return view_of(services, participant, position)


def take_part_after_all(services: Services, cookies: Cookies) -> protocol.View:
    now = datetime.now(UTC)
    with services.database.writing() as session:
        participant = required_participant(session, cookies, services.signer)
        stages.reconsider(session, participant, now)
        participant = read_row(session, participant.token_hash)
        position = stages.current_position(session, participant, now)
    return view_of(services, participant, position)


async def list_search(
    services: Services, cookies: Cookies, payload: protocol.ListPayload
) -> protocol.View:
    """Request the lists of the last turn, and store them; a view without lists if one fails.

    No transaction lasts while the retrievers work, and no thread waits for them.
    """
    signed = payload["assignment"]
    try:
        asked = await run_in_threadpool(asked_lists, services, cookies, signed)
        if asked is None:
            return await run_in_threadpool(show, services, cookies, None)
        answered = await asked.lists()
        return await run_in_threadpool(listed, services, cookies, signed, asked, answered)
    except Refused:
        raise
    except HsfiqError as error:
        logger.warning("%s", error)
        view = await run_in_threadpool(show, services, cookies, None)
        return {**view, "is_unavailable": True} if view["step"] == "search" else view


def asked_lists(services: Services, cookies: Cookies, signed: str) -> Asked | None:
    """The lists that are being requested; None if the last turn has its lists.

    If the query has a text, the server makes the first turn, which is stored here.
    """
    with services.database.reading() as session:
        state = searching(session, services, cookies, signed)
        if not state.awaits_list:
            return None
        if state.turns:
            return services.retrievers.ask(session, state)
    with services.database.writing() as session:
        _, assignment = locked_search(session, services, cookies, signed)
        searches.begin(session, assignment.key, datetime.now(UTC))
    with services.database.reading() as session:
        state = searching(session, services, cookies, signed)
        return services.retrievers.ask(session, state) if state.awaits_list else None


def searching(session: Session, services: Services, cookies: Cookies, signed: str) -> SearchState:
    """The current state of the search of a signed page."""
    participant = required_participant(session, cookies, services.signer)
    assignment = read_assignment(services.signer, participant.token_hash, signed, "search")
    require_reached(session, participant, assignment.key)
    return state_of(session, assignment.key)


def listed(
    services: Services, cookies: Cookies, signed: str, asked: Asked, answered: Sequence[Answered]
) -> protocol.View:
    """Store the lists that have arrived."""
    now = datetime.now(UTC)
    with services.database.writing() as session:
        participant, assignment = locked_search(session, services, cookies, signed)
        store_lists(session, state_of(session, assignment.key), asked, answered, now)
        position = stages.current_position(session, participant, now)
    return view_of(services, participant, position)


def ask_search(
    services: Services, cookies: Cookies, payload: protocol.TurnPayload
) -> protocol.View:
    """Store the feedback on the last lists and the text of the next turn."""
    now = datetime.now(UTC)
    with services.database.writing() as session:
        participant, assignment = locked_search(session, services, cookies, payload["assignment"])
        searches.ask(
            session,
            participant,
            state_of(session, assignment.key),
            opinion=opinion_of(payload["opinion"]),
            typed=Typed(**payload["typed"]),
            expected_turns=assignment.revision,
            submit_key=payload["submit_key"],
            now=now,
            language=assignment.language,
            text_version=assignment.text_version,
        )
        position = stages.current_position(session, participant, now)
    return view_of(services, participant, position)


def upload_picture(
    services: Services, cookies: Cookies, payload: protocol.UploadPayload
) -> protocol.View:
    """Store the picture that the first text of a search will be about."""
    return view_of(services, *receive_upload(services.database, services.signer, cookies, payload))


def stop_search(
    services: Services, cookies: Cookies, payload: protocol.StopPayload
) -> protocol.View:
    now = datetime.now(UTC)
    with services.database.writing() as session:
        participant, assignment = locked_search(session, services, cookies, payload["assignment"])
        searches.stop(
            session,
            participant,
            state_of(session, assignment.key),
            opinion=opinion_of(payload["opinion"]),
            declared=place_of(payload["declared"]),
            expected_turns=assignment.revision,
            submit_key=payload["submit_key"],
            now=now,
        )
        position = stages.current_position(session, participant, now)
    return view_of(services, participant, position)


def locked_search(
    session: Session, services: Services, cookies: Cookies, signed: str
) -> tuple[ParticipantRow, Assignment]:
    """The participant and the search of a signed page, both locked."""
    participant = required_participant(session, cookies, services.signer, lock=True)
    assignment = read_assignment(services.signer, participant.token_hash, signed, "search")
    lock_question(session, assignment.key)
    require_reached(session, participant, assignment.key)
    return participant, assignment


def answer_questionnaire(
    services: Services, cookies: Cookies, payload: protocol.QuestionnairePayload
) -> protocol.View:
    """Store the answers to the questions at the end; a repeated request stores nothing."""
    now = datetime.now(UTC)
    with services.database.writing() as session:
        participant = required_participant(session, cookies, services.signer, lock=True)
        read_assignment(
            services.signer, participant.token_hash, payload["assignment"], "questionnaire"
        )
        stage = stages.current_position(session, participant, now).stage
        if stage == "questionnaire":
            stages.store_answers(session, participant, payload["answers"], now)
        elif stage in ("consent", "practice", "asking"):
            raise SetBack("the questions at the end come after the others")
        position = stages.current_position(session, participant, now)
    return view_of(services, participant, position)


def withdrawal(services: Services, cookies: Cookies) -> protocol.WithdrawalView:
    """The data that withdrawal would delete, and the data that it cannot delete."""
    with services.database.reading() as session:
        participant = required_participant(session, cookies, services.signer)
        assignment = Assignment("withdrawal", participant.id)
        return {
            "name": participant.name,
            "answers": count_answered(session, participant.id),
            "releases": [
                {
                    "name": release.name,
                    "version": release.version,
                    "date": f"{release.last_exported_at:%Y-%m-%d}",
                }
                for release in exports_with(session, participant.id)
            ],
            "payment": payment_of(participant),
            "platform": platform_name(participant.study.config.recruitment),
            "assignment": assignment.signed(services.signer, participant.token_hash),
        }


def withdraw(services: Services, cookies: Cookies, payload: protocol.WithdrawalPayload) -> None:
    """Delete the data of a participant who has read the consequences.

    A repeated request finds no participant: the first reply may have been lost.
    """
    held = required_tokens(cookies, services.signer)
    token = assigned_token(services.signer, held, payload["assignment"], "withdrawal")
    with services.database.writing() as session:
        known = participant_row(session, token)
        if known is None:
            return
        lock_study(session, known.study.id)  # a release of it may be about to be recorded
        if participant_row(session, token, lock=True) is not None:
            person = session.get_one(Participant, known.id)
            withdraw_from_study(session, person, datetime.now(UTC))


def see_messages(services: Services, cookies: Cookies, messages: Sequence[int]) -> None:
    with services.database.writing() as session:
        participant = required_participant(session, cookies, services.signer)
        mark_seen(session, participant.id, messages, datetime.now(UTC))


def finish_practice(services: Services, cookies: Cookies) -> protocol.View:
    now = datetime.now(UTC)
    with services.database.writing() as session:
        participant = required_participant(session, cookies, services.signer)
        if stages.current_position(session, participant, now).stage == "practice":
            participant.practised_at = now
        position = stages.current_position(session, participant, now)
    return view_of(services, participant, position)


def check(
    services: Services, cookies: Cookies, payload: protocol.CheckPayload
) -> protocol.CheckReply:
    now = datetime.now(UTC)
    with services.database.writing() as session:
        participant = required_participant(session, cookies, services.signer)
        assignment = read_assignment(
            services.signer, participant.token_hash, payload["assignment"], "check"
        )
        passed = answer_check(session, participant, assignment.key, payload["given"], now=now)
        position = stages.current_position(session, participant, now)
    return {"passed": passed, "view": view_of(services, participant, position)}


def view_of(
    services: Services, participant: ParticipantRow, position: stages.Position
) -> protocol.View:
    with services.database.reading() as session:
        return services.views.view(session, participant, position)
