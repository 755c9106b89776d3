"""`hs` and `hp`: the scores and the preferences of a study of pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy.orm import Session

from hsfiq.answer_rules import CONFIRMED_DIFFERENCE
from hsfiq.db.tables import Study
from hsfiq.ids import set_id
from hsfiq.releases.kinds.columns import (
    ANSWERED,
    FORM,
    IDS,
    PARTICIPANT_ID,
    PLACE,
    QUERY_ID,
    QUESTION_ID,
    SETS,
    SHOWN_TEXT,
)
from hsfiq.releases.kinds.kind import ReleaseKind
from hsfiq.releases.layouts.hpfiq import HpfiqFile
from hsfiq.releases.rows import QuestionRow
from hsfiq.releases.schemas import FLAG, NUMBER, POINTS, TEXT, Column, Table
from hsfiq.releases.writing.further import FurtherFile
from hsfiq.releases.writing.tables import Columns

T = TypeVar("T")

UNNAMED = "systems were not named"


def score(side: int, which: str) -> Column:
    return Column(
        f"score_{side}", POINTS, f"the Likert score of {which}", "points", lowest=1, on_scale=True
    )


PREFERRED = Column(
    "preferred", POINTS, "the preferred set, 1 or 2; 0 for a tie", values=(0, 1, 2)
)  # fmt: skip
PREFERENCES = Table(
    "preferences",
    "one row a question: both scores, the preferred set (0 = tie), flags and times",
    (
        QUESTION_ID,
        PARTICIPANT_ID,
        FORM,
        PLACE,
        QUERY_ID,
        Column("pair_id", TEXT, "the pair of sets: the same for everybody who judged it"),
        Column("swapped", FLAG, "whether the sets were shown in the other order than the pair's"),
        SHOWN_TEXT,
        Column("set_1", TEXT, "set 1, as shown", refers_to="sets.set_id"),
        Column("set_2", TEXT, "set 2, as shown", refers_to="sets.set_id"),
        Column("system_1", TEXT, "the retrieval system of set 1", null=UNNAMED),
        Column("system_2", TEXT, "the retrieval system of set 2", null=UNNAMED),
        score(1, "set 1"),
        score(2, "set 2"),
        PREFERRED,
        Column(
            "confirmed",
            FLAG,
            "true if the participant was asked whether the preference for the set scored "
            f"{CONFIRMED_DIFFERENCE} or more points lower is meant, and kept it",
            null="that was not asked, or is unknown",
        ),
        *ANSWERED,
    ),
    key=("question_id",),
)
REPEATS = Table(
    "repeats",
    "one row a repeated question (an attention check): the second answer, with the sides of the "
    "first",
    (
        Column("question_id", TEXT, "of the repeated question, which is not in preferences"),
        Column(
            "repeated_id",
            TEXT,
            "the question_id of the first answer",
            refers_to="preferences.question_id",
        ),
        *IDS[1:],
        score(1, "set 1 of the first question, on whichever side it was shown again"),
        score(2, "set 2 of the first question"),
        Column(
            "preferred",
            POINTS,
            "1, 2 (sets of the first question) or 0 for a tie",
            values=(0, 1, 2),
        ),
        Column(
            "active_seconds",
            NUMBER,
            "the time with the page in use, of all revisions together",
            "seconds",
            null="times were not recorded",
            lowest=0,
        ),
    ),
    key=("question_id",),
    present="a repeated question of a kept one was answered",
)


def tables(kept: Sequence[QuestionRow]) -> dict[str, Columns]:
    """As columns, which is much faster than as rows: nearly all answers are of pairs."""
    return {"preferences": preference_columns(kept), "sets": set_columns(kept)}


def preference_columns(kept: Sequence[QuestionRow]) -> Columns:
    """Most columns are attributes; those that are properties are computed here, which is faster."""
    states = {id(question.images): question for question in kept}  # equal states are one object
    painted, enlarged, reference = (
        {key: getattr(question, name) for key, question in states.items()}
        for name in ("images_painted", "images_enlarged", "reference_state")
    )
    keys = [id(question.images) for question in kept]
    ids = [question.question_id for question in kept]
    computed: dict[str, Sequence[Any]] = {
        "query_id": [question.query.query_id for question in kept],
        "set_1": [set_id(question, 1) for question in ids],
        "set_2": [set_id(question, 2) for question in ids],
        "system_1": [question.sets[0].system for question in kept],
        "system_2": [question.sets[1].system for question in kept],
        "images_painted": [painted[key] for key in keys],
        "images_enlarged": [enlarged[key] for key in keys],
        "reference_state": [reference[key] for key in keys],
    }
    return {
        name: computed[name] if name in computed else list(map(attrgetter(name), kept))
        for name in PREFERENCES.names
    }


def set_columns(kept: Sequence[QuestionRow]) -> Columns:
    """The columns of `sets`: the rows of `set_rows`."""
    ids = [question.question_id for question in kept]
    return {
        "set_id": [set_id(question, side) for question in ids for side in (1, 2)],
        "question_id": twice(ids),
        "side": [1, 2] * len(kept),
        "participant_id": twice([question.participant_id for question in kept]),
        "query_id": twice([question.query.query_id for question in kept]),
        "system": [retrieved.system for question in kept for retrieved in question.sets],
        "image_ids": [retrieved.image_ids for question in kept for retrieved in question.sets],
        "shown_order": [order for question in kept for order in question.orders],
        "image_states": [question.image_states(side) for question in kept for side in (1, 2)],
        "score": [score for question in kept for score in (question.score_1, question.score_2)],
    }


def twice(values: Sequence[T]) -> list[T]:
    return [value for value in values for _ in (1, 2)]


def published_layout(session: Session, study: Study, folder: Path) -> list[FurtherFile]:
    return [HpfiqFile(session, study, folder / "hpfiq.json")]


HS = ReleaseKind(
    name="hs",
    question_kind="pair",
    about="retrieved sets with the scores that people gave them, judged in pairs,",
    other="The `hp` release of the same study has the preference between the two sets of each "
    "question as its subject, and can leave out those that contradict the scores.",
    default_config="sets",
    main="preferences",
    own_tables=(PREFERENCES, SETS, REPEATS),
    tables=tables,
)
HP = replace(
    HS,
    name="hp",
    about="human preferences between two retrieved sets",
    other="The `hs` release of the same study has the retrieved sets with their scores as its "
    "subject, and keeps answers whose preference contradicts the scores.",
    default_config="preferences",
    files=published_layout,
)
