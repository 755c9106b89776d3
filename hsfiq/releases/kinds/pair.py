"""`hs` and `hp`: the scores and the preferences of a study of pairs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from sqlalchemy.orm import Session

from hsfiq.answer_rules import CONFIRMED_DIFFERENCE
from hsfiq.db.tables import Study
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
from hsfiq.releases.pair_questions import PairQuestions, set_columns
from hsfiq.releases.reading.questions import Questions
from hsfiq.releases.rows import Columns
from hsfiq.releases.schemas import FLAG, NUMBER, POINTS, TEXT, Column, Table
from hsfiq.releases.writing.further import FurtherFile

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


def tables(kept: Questions) -> dict[str, Columns]:
    if not isinstance(kept, PairQuestions):
        raise TypeError("questions about pairs are read as columns")
    preferences = {name: kept.column(name) for name in PREFERENCES.names}
    return {"preferences": preferences, "sets": set_columns(kept)}


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
