"""`pair`: two sets, a score for each, and the preferred one. Releases: `hs` and `hp`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any

from hsfiq import answer_rules
from hsfiq.errors import Refused
from hsfiq.kinds import kind, tables
from hsfiq.kinds.rows import Questions, TableRows

VALUES = ("score_1", "score_2", "preferred", "confirmed")


def read(given: Mapping[str, Any], rules: kind.Rules) -> dict[str, Any]:
    """The scores and the preference of sets 1 and 2, as they were shown."""
    kind.require_keys(given, *VALUES)
    scores = [
        kind.require_whole_number("a score", given[name], answer_rules.LOWEST_SCORE, rules.points)
        for name in ("score_1", "score_2")
    ]
    preferred = kind.require_whole_number("the preferred set", given["preferred"], 0, 2)
    if preferred == 0 and not rules.ties:
        raise Refused("this study does not allow ties: one of the two sets must be preferred")
    confirmed = given["confirmed"]
    if confirmed is not None and not isinstance(confirmed, bool):
        raise Refused("confirmed is neither true nor false")
    require_confirmation(
        needs_confirmation(preferred, scores[0], scores[1], rules), is_given=bool(confirmed)
    )
    return dict(zip(VALUES, (*scores, preferred, confirmed or None), strict=True))


def needs_confirmation(preferred: int, score_1: int, score_2: int, rules: kind.Rules) -> bool:
    """Whether the page asks if the preference for the set with the lower score is meant."""
    by = rules.confirm_difference
    return by is not None and answer_rules.contradicts(preferred, score_1, score_2, by=by)


def require_confirmation(is_needed: bool, *, is_given: bool) -> None:
    if is_needed and not is_given:
        raise Refused(
            f"the preferred set has a score that is {answer_rules.CONFIRMED_DIFFERENCE} or more "
            "points lower: confirm the answer or change it"
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


def repeats(first: kind.ShownAnswer, again: kind.ShownAnswer, _rules: kind.Rules) -> bool:
    """The same set is preferred, or neither."""
    return preferred_place(first) == preferred_place(again)


def preferred_place(answer: kind.ShownAnswer) -> int | None:
    preferred: int = answer.values["preferred"]
    return answer.sets[preferred - 1] if preferred else None


def expected(text: str, _rules: kind.Rules) -> dict[str, Any]:
    """`1` or `2`: the set that is preferred and has the higher score."""
    if text.strip() not in ("1", "2"):
        raise Refused(f"{text[:40]!r} is not 1 or 2, the better set")
    return {"better": int(text)}


PRACTICE = kind.Practice(read=expected, drawn=lambda _rules, place: {"better": place})


def target_and_far_images(draw: kind.GoldDraw) -> kind.GoldQuestion:
    """The target with a system's best images should win against random images."""
    swapped = draw.rng.random() < 0.5
    return kind.GoldQuestion(
        [draw.winner(), draw.far_images(draw.rules.k)],
        expected="2" if swapped else "1",
        orders=[draw.order(), draw.order()],
        swapped=swapped,
    )


GOLD = kind.Gold(
    draw=target_and_far_images,
    passes=lambda expected, values: str(values["preferred"]) == expected,
    words=lambda expected: f"set {expected} should win",
)


def simulated(
    annotator: kind.SimulatedAnnotator, rng: Random, question: kind.SeenQuestion
) -> answer_rules.Answer:
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


def score(side: int, which: str) -> tables.Column:
    return tables.Column(
        f"score_{side}",
        tables.POINTS,
        f"the Likert score of {which}",
        "points",
        lowest=1,
        on_scale=True,
    )


PREFERRED = tables.Column(
    "preferred", tables.POINTS, "the preferred set, 1 or 2; 0 for a tie", values=(0, 1, 2)
)  # fmt: skip
PREFERENCES = tables.Table(
    "preferences",
    "one row a question: both scores, the preferred set (0 = tie), flags and times",
    (
        tables.QUESTION_ID,
        tables.PARTICIPANT_ID,
        tables.FORM,
        tables.PLACE,
        tables.QUERY_ID,
        tables.Column("pair_id", tables.TEXT, "the pair of sets: the same for all its judges"),
        tables.Column(
            "swapped", tables.FLAG, "whether the sets were shown in the other order than the pair's"
        ),
        tables.SHOWN_TEXT,
        tables.Column("set_1", tables.TEXT, "set 1, as shown", refers_to="sets.set_id"),
        tables.Column("set_2", tables.TEXT, "set 2, as shown", refers_to="sets.set_id"),
        tables.Column("system_1", tables.TEXT, "the retrieval system of set 1", null=UNNAMED),
        tables.Column("system_2", tables.TEXT, "the retrieval system of set 2", null=UNNAMED),
        score(1, "set 1"),
        score(2, "set 2"),
        PREFERRED,
        tables.Column(
            "confirmed",
            tables.FLAG,
            "true if the participant was asked whether the preference for the set scored "
            f"{answer_rules.CONFIRMED_DIFFERENCE} or more points lower is meant, and kept it",
            null="the participant was not asked, or it is unknown",
        ),
        *tables.ANSWERED,
    ),
    key=("question_id",),
)
REPEATS = tables.Table(
    "repeats",
    "one row a repeated question (an attention check): the second answer, with the sides of the "
    "first",
    (
        tables.Column(
            "question_id", tables.TEXT, "of the repeated question, which is not in preferences"
        ),
        tables.Column(
            "repeated_id",
            tables.TEXT,
            "the question_id of the first answer",
            refers_to="preferences.question_id",
        ),
        *tables.IDS[1:],
        score(1, "set 1 of the first question, on whichever side it was shown again"),
        score(2, "set 2 of the first question"),
        tables.Column(
            "preferred",
            tables.POINTS,
            "1, 2 (sets of the first question) or 0 for a tie",
            values=(0, 1, 2),
        ),
        tables.Column(
            "active_seconds",
            tables.NUMBER,
            "the time with the page in use, of all revisions together",
            "seconds",
            null="times were not recorded",
            lowest=0,
        ),
    ),
    key=("question_id",),
    present="a repeated question of a kept one was answered",
)


def table_rows(kept: Questions) -> dict[str, TableRows]:
    preferences = {name: kept.column(name) for name in PREFERENCES.names}
    return {"preferences": preferences, "sets": kept.scored_sets()}


def judgement(row: kind.Row, _parts: Mapping[str, Sequence[kind.Row]]) -> dict[str, Any]:
    return {name: row.get(name) for name in VALUES}


CHECKS = (
    kind.is_set_of_question("set_1", "1"),
    kind.is_set_of_question("set_2", "2"),
    kind.same_in_sets("score_1", "score", "set_1"),
    kind.same_in_sets("system_1", "system", "set_1"),
    kind.same_in_sets("score_2", "score", "set_2"),
    kind.same_in_sets("system_2", "system", "set_2"),
    kind.is_of_query("pair_id"),
)
HS = kind.ReleaseKind(
    name="hs",
    about="retrieved sets with the scores that people gave them, judged in pairs,",
    other="The `hp` release of the same study has the preference between the two sets of each "
    "question as its subject, and can omit contradictory answers.",
    default_config="sets",
    main="preferences",
    own_tables=(PREFERENCES, tables.SETS, REPEATS),
    tables=table_rows,
    judgement=judgement,
    checks={"preferences": CHECKS, "sets": kind.OF_SETS},
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
PAIR = kind.Kind(
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
