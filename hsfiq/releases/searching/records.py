"""Searches of people as the sessions that `hsfiq sessions measure` reads."""

from __future__ import annotations

from pathlib import Path

from hsfiq.db.tables import Study
from hsfiq.releases.rows import QuestionRow
from hsfiq.releases.searching.rows import SearchRow, TurnRow
from hsfiq.releases.writing.further import Kept
from hsfiq.sessions.record import Corpus, Round, Stop, line_of
from hsfiq.sessions.record import Session as SessionRecord

FILE = "session_records.jsonl"


class RecordsFile:
    """Writes the file as the questions come; searches without any turn are left out."""

    def __init__(self, folder: Path, study: Study) -> None:
        self.study = study
        self.file = (folder / FILE).open("w", encoding="utf-8", newline="")
        self.n_left_out = 0

    def add(self, kept: Kept) -> None:
        for question in kept.questions:
            if question.search is None or not question.search.turns:
                self.n_left_out += 1
            else:
                self.file.write(line_of(session_record(self.study, question, question.search)))

    def close(self) -> list[str]:
        self.file.close()
        if not self.n_left_out:
            return []
        return [f"{FILE} lacks {self.n_left_out:,} searches without any turn"]


def session_record(study: Study, question: QuestionRow, search: SearchRow) -> SessionRecord:
    query, searches, (retriever,) = question.query, search.searches, search.retrievers
    stop = search.stop(query.target_id, question.judged("why"))
    has_target = searches.task != "own-wish" and query.target_id is not None
    versions = [turn.of_list(1, "system_version") for turn in search.turns if turn.lists]
    last = next((turn.satisfaction for turn in reversed(search.turns) if turn.satisfaction), None)
    return SessionRecord(
        session_id=question.question_id,
        query_id=question.query_id,
        rounds=tuple(
            round_of(turn, search.turns[place] if place < len(search.turns) else None)
            for place, turn in enumerate(search.turns, start=1)
        ),
        system=retriever.system.name,
        system_version=versions[-1] if versions else retriever.version,
        history=searches.history,
        chooser=searches.chooser,
        corpus=Corpus(
            name=retriever.corpus_name,
            size=retriever.corpus_size,
            sha256=retriever.corpus_sha256,
        ),
        category=query.category or None,
        seed=search.seed,
        targets=(query.target_id,) if has_target and query.target_id else (),
        max_rounds=searches.rounds,
        stop=stop and Stop(reason=stop, round=len(search.turns), declared=search.declared_id),
        participant=question.participant_id,
        study=study.name,
        task=searches.task,
        is_simulated=study.origin == "simulated",
        place=search.place,
        satisfaction=last,
        ease=question.judged("ease"),
        would_go_on=question.judged("would_go_on"),
        active_seconds=question.active_seconds,
    )


def round_of(turn: TurnRow, following: TurnRow | None) -> Round:
    return Round(
        round=turn.turn,
        reference=turn.reference_id,
        text=turn.text,
        shown=tuple(turn.of_list(1, "image_ids") or ()),
        scores=tuple(turn.of_list(1, "scores") or ()),
        rank=turn.of_list(1, "rank"),
        ties=turn.of_list(1, "ties"),
        candidate=following.reference_id if following else None,
        seconds=turn.of_list(1, "retriever_seconds"),
        satisfaction=turn.satisfaction,
        nearest=turn.nearest_id,
        active_seconds=turn.active_seconds,
    )
