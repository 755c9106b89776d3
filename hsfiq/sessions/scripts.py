"""Scripts: published sessions whose texts are given, so that any system can be asked them.

CIRCLED (github.com/mti-lab/circled), a list of {session_id, subset, ground_truth_ids, num_turns,
turns: [{turn, reference_image_id, relative_caption}]}, which is also written. A language model
gave its texts after the first. Multi-turn FashionIQ
(github.com/yfyuan01/MultiturnFashionRetrieval), a list of {target: [url, id], reference: [[url,
[caption 1, caption 2], id], ...]}. ChatIR (github.com/levymsn/ChatIR), a list of {img, dialog:
[caption, "question? answer", ...]}, which has no reference images.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePosixPath

from hsfiq.errors import InvalidRecord, UnreadableInput
from hsfiq.readers.files import Place, open_place, read_text
from hsfiq.sessions import record
from hsfiq.sessions.play import Progress, Query, User
from hsfiq.sessions.record import SCRIPTED, Round, Session, has_simulated_texts
from hsfiq.text import joined

ReadSession = Callable[[Place, int], Session]
"""Reads a session, given its place and its number in the file from 0."""


def read(path: Path) -> tuple[Session, ...]:
    """Read a script in any of the formats, or a file of our own sessions.

    Raises:
        UnreadableInput: the file is none of them, contains no session, or an id occurs twice.
    """
    if not read_text(path).lstrip().startswith("["):
        return record.read(path)
    places = open_place(path).list()
    if not places:
        raise UnreadableInput(str(path), "contains no session")
    read_session = reader_of(places[0])
    sessions: dict[str, Session] = {}
    for number, place in enumerate(places):
        try:
            session = read_session(place, number)
        except InvalidRecord as error:
            raise place.wrong(error.what) from error
        if session.session_id in sessions:
            raise place.wrong(f"session {session.session_id!r} occurs twice")
        sessions[session.session_id] = session
    return tuple(sessions.values())


def reader_of(first: Place) -> ReadSession:
    """The reader of the format that a file's first session is in."""
    keys = {name for name, _ in first.items()}
    for key, reader in READERS.items():
        if key in keys:
            return reader
    raise first.wrong(
        f"has none of the keys {', '.join(READERS)}",
        "use sessions of CIRCLED, Multi-turn FashionIQ or ChatIR, or sessions as JSON lines",
    )


def circled(place: Place, _number: int) -> Session:
    turns = place.key("turns").list()
    for number, turn in enumerate(turns, start=1):
        if turn.key("turn").integer() != number:
            raise turn.wrong(f"its turn is not {number}", "number the turns 1, 2, ... in order")
    session_id = place.key("session_id").name()
    return Session(
        session_id=session_id,
        query_id=session_id,
        category=place.key("subset").text() or None,
        is_simulated=True,
        targets=tuple(image_id(each) for each in place.key("ground_truth_ids").list()),
        rounds=tuple(
            Round(
                round=number,
                reference=image_id(turn.key("reference_image_id")),
                text=turn.key("relative_caption").text(),
            )
            for number, turn in enumerate(turns, start=1)
        ),
    )


def multi_turn_fashioniq(place: Place, number: int) -> Session:
    """The file has no ids: a session's is its target with its number in the file."""
    target = last(place.key("target"), 2).name()
    rounds = []
    for turn, reference in enumerate(place.key("reference").list(), start=1):
        captions = [caption.text().strip() for caption in reference.list()[1].list()]
        rounds.append(Round(round=turn, reference=last(reference, 3).name(), text=joined(captions)))
    name = f"{number}.{target}"
    return Session(session_id=name, query_id=name, targets=(target,), rounds=tuple(rounds))


def chatir(place: Place, number: int) -> Session:
    """The first text is a caption of the target, each further one a question with its answer."""
    name = f"chatir.{number}"
    return Session(
        session_id=name,
        query_id=name,
        targets=(image_id(place.key("img")),),
        rounds=tuple(
            Round(round=turn, text=text.text())
            for turn, text in enumerate(place.key("dialog").list(), start=1)
        ),
    )


READERS: Mapping[str, ReadSession] = {
    "ground_truth_ids": circled,
    "reference": multi_turn_fashioniq,
    "dialog": chatir,
}
"""By a key that only this format has."""


def last(place: Place, length: int) -> Place:
    """The last value of a list of this length."""
    values = place.list()
    if len(values) != length:
        raise place.wrong(f"has {len(values)} values instead of {length}")
    return values[-1]


def image_id(place: Place) -> str:
    """An image's id: its file's name without extension; numbers of COCO without padding."""
    if isinstance(place.value, int):
        return str(place.integer())
    name = PurePosixPath(place.name()).name
    stem = name.removesuffix(PurePosixPath(name).suffix) if "/" in place.name() else name
    return str(int(stem)) if stem.isascii() and stem.isdecimal() else stem


# Asking a system the texts of a script: published sessions, or ours played again.


class ScriptedUser(User):
    """Asks the script's queries, regardless of the lists."""

    simulator = SCRIPTED

    def __init__(self, sessions: Sequence[Session]) -> None:
        self._rounds = {each.session_id: each.rounds for each in sessions}

    def ask(self, progress: Progress) -> Round | None:
        rounds, done = self._rounds[progress.query.session_id or ""], len(progress.rounds)
        if done == len(rounds):
            return None
        return Round(round=done + 1, reference=rounds[done].reference, text=rounds[done].text)


def script_queries(sessions: Sequence[Session]) -> list[Query]:
    """The starts of a script's sessions; each keeps its id."""
    return [
        Query(
            query_id=each.query_id,
            session_id=each.session_id,
            reference=each.rounds[0].reference,
            text=each.rounds[0].text or "",
            targets=each.targets,
            excluded=each.excluded,
            category=each.category,
            is_simulated=has_simulated_texts(each),
        )
        for each in sessions
    ]


def images_of(session: Session) -> set[str]:
    """The images that a corpus must hold to play a session of a script."""
    asked = {each.reference for each in session.rounds if each.reference is not None}
    return asked | set(session.targets)
