"""Reading searches with their turns from the database, in batches of forms."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Select, func, select
from sqlalchemy.orm import Session

from hsfiq.answer_rules import ImageStates
from hsfiq.db.search_tables import (
    ImportedSearch,
    SearchEnding,
    SearchFeedback,
    SearchItem,
    SearchList,
    SearchTurn,
    SearchUpload,
    StruckText,
    StudyRetriever,
)
from hsfiq.db.source_tables import Image
from hsfiq.db.tables import Form, Pair, Question, Study
from hsfiq.kinds import KINDS
from hsfiq.kinds.search_rows import ListRow, Searches, SearchRow, TurnRow
from hsfiq.releases.questions import FormRow
from hsfiq.study.config import config_of
from hsfiq.study.publication import earlier_of
from hsfiq.text import shown

# What the manifest of a release of searches says of its retrievers and of how people searched.

SETTINGS = ("task", "target_seconds", "rounds", "history", "chooser", "uploads")
"""The keys of `[searches]` that decide how people search; `k` is beside them."""


def search_entries(session: Session, study: Study) -> dict[str, Any]:
    """The manifest's entries; none for other kinds."""
    if not KINDS[study.kind].is_live:
        return {}
    searches = config_of(study).searches
    settings = {name: getattr(searches, name) for name in SETTINGS}
    if searches.task != "target-remembered":
        del settings["target_seconds"]  # it decides nothing
    retrievers = session.scalars(
        select(StudyRetriever).where(StudyRetriever.study_id == study.id)
    ).all()
    return {
        "searches": {"k": study.k, **settings},
        "retrievers": sorted(map(described, retrievers), key=lambda each: str(each["system"])),
    }


def described(retriever: StudyRetriever) -> dict[str, Any]:
    return {
        "system": retriever.system.name,
        "version": retriever.version,
        "corpus": {
            "name": retriever.corpus_name,
            "size": retriever.corpus_size,
            "sha256": retriever.corpus_sha256,
        },
    }


def retriever_of(entry: Mapping[str, Any], *, study: int, system: int) -> StudyRetriever:
    """The row of a retriever that a manifest describes."""
    corpus = entry["corpus"]
    return StudyRetriever(
        study_id=study,
        system_id=system,
        version=entry["version"],
        corpus_name=corpus["name"],
        corpus_size=corpus["size"],
        corpus_sha256=corpus["sha256"],
    )


def searches_in(manifest: Mapping[str, Any]) -> Searches:
    """The search settings; releases do not contain the addresses of the retrievers."""
    settings = manifest.get("searches") or {}
    return Searches(**{name: settings[name] for name in SETTINGS if name in settings})


KEYS_AT_ONCE = 10_000


class SearchReader:
    """Reads the searches of some forms."""

    def __init__(self, session: Session, study: Study) -> None:
        self.session = session
        self.config = config_of(study)
        self.seed = drawn_seed(study)
        self.retrievers = {
            retriever.system_id: retriever
            for retriever in session.scalars(
                select(StudyRetriever).where(StudyRetriever.study_id == study.id)
            )
        }
        self.systems = systems_of(session, study)
        self.over = last_left(session, study, self.config.design.lease_minutes)

    def read(self, forms: Sequence[FormRow]) -> dict[int, SearchRow]:
        """The searches by the question's database key; `forms` are all of their participants'."""
        questions = select(Question.id).where(Question.form_id.in_([form.key for form in forms]))
        turns = read_turns(self.session, questions)
        endings = {
            ending.question_id: ending
            for ending in self.session.scalars(
                select(SearchEnding).where(SearchEnding.question_id.in_(questions))
            )
        }
        declared = {ending.declared_id for ending in endings.values() if ending.declared_id}
        names = image_names(self.session, declared)
        uploaded = set(
            self.session.scalars(
                select(SearchUpload.question_id).where(SearchUpload.question_id.in_(questions))
            )
        )
        imported = {
            row.question_id: row
            for row in self.session.scalars(
                select(ImportedSearch).where(ImportedSearch.question_id.in_(questions))
            )
        }
        rows = self.session.execute(
            select(Question.id, Question.reassigned, Question.pair_id, Form.participant_id)
            .join(Form, Question.form_id == Form.id)
            .where(Question.id.in_(questions))
            .order_by(Form.participant_id, Form.position, Question.place)
        )
        places: dict[int | None, int] = defaultdict(int)
        searches = {}
        for question, reassigned, pair, participant in rows:
            places[participant] += 1
            own = tuple(turns.get(question, ()))
            known = imported.get(question)
            if known is not None:
                own = tuple(replace(turn, repeats=turn.turn in known.repeats) for turn in own)
            ending = endings.get(question)
            searches[question] = SearchRow(
                retrievers=tuple(self.retrievers[system] for system in self.systems[pair]),
                searches=self.config.searches,
                seed=self.seed,
                place=known.place if known else places[participant],
                turns=own,
                ending=ending.reason if ending else None,
                declared_id=names.get(ending.declared_id or 0) if ending else None,
                declared_list=ending.declared_side if ending else None,
                ended_at=ending.ended_at if ending else None,
                is_left=bool(own)
                and (reassigned or self.over is None or own[-1].last_at < self.over),
                uploaded=known.uploaded if known else question in uploaded,
            )
        return searches


def drawn_seed(study: Study) -> int | None:
    """The seed that the searches were drawn with; None if they were imported without one."""
    earlier = earlier_of(study)
    if not earlier.source:
        return config_of(study).design.seed
    seed: int | None = earlier.facts.get("design", {}).get("seed")
    return seed


def last_left(session: Session, study: Study, lease_minutes: int) -> datetime | None:
    """Searches with an older last turn are abandoned; None if all are.

    The limit depends only on stored times, not on the clock: it is one lease before the last stored
    time of the study's searches.
    """
    if study.status == "closed":
        return None
    questions = (
        select(Question.id).join(Pair, Question.pair_id == Pair.id).where(Pair.study_id == study.id)
    )
    turns = select(SearchTurn.id).where(SearchTurn.question_id.in_(questions))
    latest = (
        select(func.max(SearchTurn.asked_at)).where(SearchTurn.id.in_(turns)),
        select(func.max(SearchList.listed_at)).where(SearchList.turn_id.in_(turns)),
        select(func.max(SearchFeedback.given_at)).where(SearchFeedback.turn_id.in_(turns)),
    )
    times = [time for time in map(session.scalar, latest) if time is not None]
    return max(times) - timedelta(minutes=lease_minutes) if times else None


def systems_of(session: Session, study: Study) -> dict[int, list[int]]:
    """The keys of the systems of the study's pairs, by the pair's key, that of side 1 first."""
    rows = session.execute(
        select(SearchItem.pair_id, SearchItem.system_id)
        .join(Pair, SearchItem.pair_id == Pair.id)
        .where(Pair.study_id == study.id)
        .order_by(SearchItem.pair_id, SearchItem.side)
    )
    systems: dict[int, list[int]] = defaultdict(list)
    for pair, system in rows:
        systems[pair].append(system)
    return systems


def read_turns(session: Session, questions: Select[int]) -> dict[int, list[TurnRow]]:
    """The turns of the questions, by the question's database key."""
    rows = session.execute(
        select(SearchTurn, SearchFeedback, StruckText.turn_id)
        .outerjoin(SearchFeedback, SearchFeedback.turn_id == SearchTurn.id)
        .outerjoin(StruckText, StruckText.turn_id == SearchTurn.id)
        .where(SearchTurn.question_id.in_(questions))
        .order_by(SearchTurn.question_id, SearchTurn.number)
    ).all()
    listed: dict[int, list[SearchList]] = defaultdict(list)
    for each in session.scalars(
        select(SearchList)
        .join(SearchTurn, SearchList.turn_id == SearchTurn.id)
        .where(SearchTurn.question_id.in_(questions))
        .order_by(SearchList.turn_id, SearchList.side)
    ):
        listed[each.turn_id].append(each)
    keys = {turn.reference_id for turn, *_ in rows if turn.reference_id is not None}
    keys.update(key for lists in listed.values() for each in lists for key in each.image_ids)
    names = image_names(session, keys)
    turns: dict[int, list[TurnRow]] = defaultdict(list)
    texts: dict[int, set[str]] = defaultdict(set)
    for turn, feedback, struck in rows:
        earlier_texts = texts[turn.question_id]
        turns[turn.question_id].append(
            turn_row(
                turn,
                listed[turn.id],
                feedback,
                names,
                struck=struck is not None,
                earlier_texts=earlier_texts,
            )
        )
        if turn.text is not None:
            earlier_texts.add(normalised(turn.text))
    return turns


def turn_row(
    turn: SearchTurn,
    lists: Sequence[SearchList],
    feedback: SearchFeedback | None,
    names: Mapping[int, str],
    *,
    struck: bool,
    earlier_texts: set[str],
) -> TurnRow:
    return TurnRow(
        turn=turn.number,
        reference_id=None if turn.reference_id is None else names[turn.reference_id],
        text=None if struck else turn.text,
        struck=struck,
        from_query=turn.submit_key == "query",
        repeats=turn.text is not None and normalised(turn.text) in earlier_texts,
        pasted=turn.pasted,
        asked_at=turn.asked_at,
        first_key_seconds=turn.first_key_seconds,
        last_key_seconds=turn.last_key_seconds,
        lists=tuple(list_row(listed, names) for listed in lists),
        **({} if feedback is None else feedback_columns(feedback)),
    )


def list_row(listed: SearchList, names: Mapping[int, str]) -> ListRow:
    return ListRow(
        image_ids=[names[key] for key in listed.image_ids],
        scores=listed.scores,
        listed_at=listed.listed_at,
        retriever_seconds=listed.seconds,
        rank=listed.rank,
        ties=listed.ties,
        system_version=listed.system_version,
        corpus_sha256=listed.corpus_sha256,
    )


def feedback_columns(feedback: SearchFeedback) -> dict[str, Any]:
    return {
        "satisfaction": feedback.satisfaction,
        "preference": feedback.preference,
        "both_bad": feedback.both_bad,
        "nearest_list": feedback.nearest_side,
        "nearest_place": feedback.nearest,
        "image_states": ImageStates.from_letters(feedback.images).sets,
        "painted_seconds": feedback.painted_seconds,
        "active_seconds": feedback.active_seconds,
        "given_at": feedback.given_at,
    }


def normalised(text: str) -> str:
    return shown(text).lower()


def image_names(session: Session, keys: Set[int]) -> dict[int, str]:
    """In parts: a statement of PostgreSQL takes at most 65,535 values."""
    ordered = sorted(keys)
    names: dict[int, str] = {}
    for start in range(0, len(ordered), KEYS_AT_ONCE):
        part = ordered[start : start + KEYS_AT_ONCE]
        names.update(session.execute(select(Image.id, Image.name).where(Image.id.in_(part))).all())
    return names
