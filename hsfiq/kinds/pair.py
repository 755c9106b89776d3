"""`pair`: two sets, a score for each, and the preferred one. Releases: `hs` and `hp`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any

from hsfiq.answer_rules import (
    CONFIRMED_DIFFERENCE,
    LOWEST_SCORE,
    Answer,
    contradicts,
)
from hsfiq.errors import Refused
from hsfiq.kinds.kind import (
    OF_SETS,
    Gold,
    GoldDraw,
    GoldQuestion,
    Kind,
    Practice,
    ReleaseKind,
    Row,
    Rules,
    SeenQuestion,
    ShownAnswer,
    SimulatedAnnotator,
    is_of_query,
    is_set_of_question,
    require_keys,
    require_whole_number,
    same_in_sets,
)
from hsfiq.kinds.rows import Questions, TableRows
from hsfiq.kinds.tables import (
    ANSWERED,
    FLAG,
    FORM,
    IDS,
    NUMBER,
    PARTICIPANT_ID,
    PLACE,
    POINTS,
    QUERY_ID,
    QUESTION_ID,
    SETS,
    SHOWN_TEXT,
    TEXT,
    Column,
    Table,
)

VALUES = ("score_1", "score_2", "preferred", "confirmed")


def read(given: Mapping[str, Any], rules: Rules) -> dict[str, Any]:
    """The scores and the preference of sets 1 and 2, as they were shown."""
    require_keys(given, *VALUES)
    scores = [
        require_whole_number("a score", given[name], LOWEST_SCORE, rules.points)
        for name in ("score_1", "score_2")
    ]
    preferred = require_whole_number("the preferred set", given["preferred"], 0, 2)
    if preferred == 0 and not rules.ties:
        raise Refused("this study does not allow ties: one of the two sets must be preferred")
    confirmed = given["confirmed"]
    if confirmed is not None and not isinstance(confirmed, bool):
        raise Refused("confirmed is neither true nor false")
    require_confirmation(
        needs_confirmation(preferred, scores[0], scores[1], rules), is_given=bool(confirmed)
    )
    return dict(zip(VALUES, (*scores, preferred, confirmed or None), strict=True))


def needs_confirmation(preferred: int, score_1: int, score_2: int, rules: Rules) -> bool:
    """Whether the page asks if the preference for the set with the lower score is meant."""
    by = rules.confirm_difference
    return by is not None and contradicts(preferred, score_1, score_2, by=by)


def require_confirmation(is_needed: bool, *, is_given: bool) -> None:
    if is_needed and not is_given:
        raise Refused(
            f"the preferred set has a score that is {CONFIRMED_DIFFERENCE} or more points lower: "
            "confirm the answer or change it"
        )
    if is_given and not is_needed:
        raise Refused("confirmed: this answer needs no confirmation")


def summary(judgement: Mapping[str, Any]) -> str:
    preferred = ("neither", "set 1", "set 2")[judgement["preferred"]]
    confirmed = ", confirmed" if judgement["confirmed"] else ""
    return f"{judgement['score_1']} and {judgement['score_2']}, prefers {preferred}{confirmed}"


def mirrored(judgement: Mapping[str, Any]) -> dict[str, Any]:
    """The judgement with the sides swapped."""
    preferred = {0: 0, 1: 2, 2: 1}[judgement["preferred"]]
    scores = {"score_1": judgement["score_2"], "score_2": judgement["score_1"]}
    return {**judgement, **scores, "preferred": preferred}


def repeats(first: ShownAnswer, again: ShownAnswer, _rules: Rules) -> bool:
    """The same set is preferred, or neither."""
    return preferred_place(first) == preferred_place(again)


def preferred_place(answer: ShownAnswer) -> int | None:
    preferred: int = answer.values["preferred"]
    return answer.sets[preferred - 1] if preferred else None


def expected(text: str, _rules: Rules) -> dict[str, Any]:
    """`1` or `2`: the set that is preferred and has the higher score."""
    if text.strip() not in ("1", "2"):
        raise Refused(f"{text[:40]!r} is not 1 or 2, the better set")
    return {"better": int(text)}


PRACTICE = Practice(read=expected, drawn=lambda _rules, place: {"better": place})


def target_and_far_images(draw: GoldDraw) -> GoldQuestion:
    """The target with a system's best images should win against random images."""
    swapped = draw.rng.random() < 0.5
    return GoldQuestion(
        [draw.winner(), draw.far_images(draw.rules.k)],
        expected="2" if swapped else "1",
        orders=[draw.order(), draw.order()],
        swapped=swapped,
    )


GOLD = Gold(
    draw=target_and_far_images,
    passes=lambda expected, values: str(values["preferred"]) == expected,
    words=lambda expected: f"set {expected} should win",
)


def simulated(annotator: SimulatedAnnotator, rng: Random, question: SeenQuestion) -> Answer:
    """Simulated annotators confirm what the page asks about."""
    rules = question.rules
    answer = annotator.answer(
        rng,
        *question.utilities(),
        ties_allowed=rules.ties,
        progress=question.progress,
        points=rules.points,
    )
    score_1, score_2, preferred, _ = (answer.values[name] for name in VALUES)
    confirmed = needs_confirmation(preferred, score_1, score_2, rules)
    return replace(answer, values={**answer.values, "confirmed": confirmed or None})


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


def tables(kept: Questions) -> dict[str, TableRows]:
    preferences = {name: kept.column(name) for name in PREFERENCES.names}
    return {"preferences": preferences, "sets": kept.scored_sets()}


def judgement(row: Row, _parts: Mapping[str, Sequence[Row]]) -> dict[str, Any]:
    return {name: row.get(name) for name in VALUES}


CHECKS = (
    is_set_of_question("set_1", "1"),
    is_set_of_question("set_2", "2"),
    same_in_sets("score_1", "score", "set_1"),
    same_in_sets("system_1", "system", "set_1"),
    same_in_sets("score_2", "score", "set_2"),
    same_in_sets("system_2", "system", "set_2"),
    is_of_query("pair_id"),
)
HS = ReleaseKind(
    name="hs",
    about="retrieved sets with the scores that people gave them, judged in pairs,",
    other="The `hp` release of the same study has the preference between the two sets of each "
    "question as its subject, and can leave out those that contradict the scores.",
    default_config="sets",
    main="preferences",
    own_tables=(PREFERENCES, SETS, REPEATS),
    tables=tables,
    judgement=judgement,
    checks={"preferences": CHECKS, "sets": OF_SETS},
    tasks=("image-to-image", "image-text-to-text"),
    label="Scores",
    tags=("human-feedback",),
)
HP = replace(
    HS,
    name="hp",
    about="human preferences between two retrieved sets",
    other="The `hs` release of the same study has the retrieved sets with their scores as its "
    "subject, and keeps answers whose preference contradicts the scores.",
    default_config="preferences",
    label="Preferences",
    files=("hpfiq.json",),
    tags=("human-feedback", "preference"),
)
PAIR = Kind(
    name="pair",
    asks="scores two sets and prefers one",
    n_sets=lambda _: 2,
    options=frozenset(
        {
            *("design.preference_ties", "design.confirm_contradictions"),
            *("checks.gold", "checks.repeated"),
            *("wording.anchors", "wording.score", "wording.preference", "wording.tie"),
            "wording.irrelevant",
        }
    ),
    read=read,
    summary=summary,
    mirrored=mirrored,
    repeats=repeats,
    releases=(HS, HP),
    practice=PRACTICE,
    simulated=simulated,
    gold=GOLD,
    columns=VALUES,
    scale="points",
    has_preferences=True,
)
