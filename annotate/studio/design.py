"""The step "Design": the numbers of people and questions, the cost and the precision."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import isnan
from typing import TYPE_CHECKING, Any

from hsfiq.annotate.studio.setup import MOST_WRONG, Setup, Step, Summary, typed
from hsfiq.annotate.studio.shell import Said
from hsfiq.collect.studies import find_study
from hsfiq.drafts import (
    FORMS,
    GOLD,
    MOST,
    OVERLAP,
    PEOPLE,
    PLAN,
    QUESTIONS,
    Content,
    lack_for_gold,
    most_questions,
    values_of,
)
from hsfiq.errors import Refused, UnreadableInput
from hsfiq.kinds import KINDS
from hsfiq.project import Pay, size_for, size_of
from hsfiq.study.capacity import Budget, StudySize, budget_of, planned_budget
from hsfiq.study.config_file import OPTIONS

if TYPE_CHECKING:
    from hsfiq.analysis.power import Planned

Curve = Sequence[tuple[int, float]]
"""The precision of a pair of systems, in points, by the number of people."""

# What the choices lead to.


def figures_of(setup: Setup) -> Mapping[str, object] | None:
    """The minutes, the cost and the precision, if known; None while no question can be asked."""
    asked, budget = setup.draft.asked, budget_in(setup)
    if not budget.participants:
        return None
    size = StudySize.of(setup.config, budget, len(asked.systems), asked.queries)
    compares = KINDS[setup.config.design.kind].has_preferences and size.systems > 1
    follows = setup.draft.entered.value(OVERLAP, None) is None
    planned, curve = precision(size, follows=follows) if compares else (None, ())
    return {"budget": budget, "size": size, "planned": planned, "curve": curve}


def budget_in(setup: Setup) -> Budget:
    """That of the study once it has been opened: it may have been extended."""
    pay = setup.draft.content.pay
    per_hour = None if pay is None else pay.per_hour
    if setup.is_fixed:
        with setup.desk.database.reading() as session:
            study = find_study(session, setup.draft.study or "")
            if study is not None:
                return budget_of(session, study, setup.config, per_hour)
    return planned_budget(setup.config, setup.draft.asked.categories, per_hour)


@lru_cache(maxsize=128)
def precision(size: StudySize, *, follows: bool) -> tuple[Planned | None, Curve]:
    """The precision of each pair, also with other numbers of people.

    If it `follows`, more people judge each query when there are more people.
    """
    try:
        from hsfiq.analysis import power  # noqa: PLC0415
    except ModuleNotFoundError:  # an extra of the package
        return None, ()
    planned = power.precision_of_systems(**size.comparison(), difference=power.SYSTEMS_DIFFER)
    if isnan(planned.half_width):
        return None, ()
    most = max(150, size.participants)
    curve = []
    for people in range(6, most + 1, max(3, most // 48)):
        overlap = size_of(size.queries, people, size.questions).overlap if follows else size.overlap
        sizes = size.comparison() | {"participants": people, "overlap": overlap}
        curve.append((people, 100 * power.detectable_rate(**sizes, power=0.5)))
    return planned, curve


def problem_of(setup: Setup) -> str:
    """The first error on this page; "" if there is none."""
    plan, systems = setup.config.analysis, setup.draft.asked.systems
    if plan.question == "systems" and systems:
        for name in plan.pair:
            if name not in systems:
                return setup.desk.t("There is no system {name}.", name=name)
    return setup.wrong("design")


def summary(setup: Setup) -> Summary:
    desk = setup.desk
    if problem := problem_of(setup):
        return Summary(problem, "bad")
    budget = budget_in(setup)
    if not budget.participants:
        return Summary(desk.t("not yet"))
    one, many = "{n} person, {minutes} min", "{n} people, {minutes} min each"
    return Summary(desk.n(one, many, budget.participants, minutes=budget.duration.minutes))


CURRENCIES = {"EUR": "€", "GBP": "£", "USD": "$", "CHF": "CHF ", "KRW": "₩", "JPY": "¥"}


def paid(amount: float, currency: str) -> str:
    """An amount in the usual notation, such as £86.40."""
    digits = 0 if currency in ("KRW", "JPY") else 2
    return f"{CURRENCIES.get(currency, f'{currency} ')}{amount:,.{digits}f}"


def currency_of(setup: Setup) -> str:
    pay = setup.draft.content.pay
    usual = "GBP" if setup.config.recruitment.mode == "prolific" else "EUR"
    return pay.currency if pay else "KRW" if setup.desk.language == "ko" else usual


def view(setup: Setup) -> Mapping[str, object]:
    kind = KINDS[setup.config.design.kind]
    return {
        "figures": figures_of(setup),
        "asked": setup.draft.asked,
        "lack_for_gold": lack_for_gold(setup.draft.content, setup.draft.asked),
        "most": most_questions(setup.draft.content, setup.draft.asked),
        "follows": setup.draft.entered.value(OVERLAP, None) is None,
        "kind": kind,
        "can": lambda key: key not in OPTIONS or key in kind.options,
        "currency": currency_of(setup),
        "currencies": CURRENCIES,
        "paid": paid,
        "problem": problem_of(setup),
    }


# What the page can do; each choice may change others.


def resize(setup: Setup) -> None:
    """Set the number of people, of questions per person, or of people per query.

    The last follows from the first two unless it is set.
    """
    key: str = setup.desk.text("field")
    value: Any = typed(setup.desk.given.get("value"), "int")
    if (type(value) is not int or not 0 < value <= MOST) and (key, value) != ("overlap", None):
        raise Refused(setup.desk.t("Enter a whole number from 1 to {most}.", most=f"{MOST:,}"))
    if key not in ("people", "questions", "overlap"):
        raise Refused(f"there is no {key} to change")
    asked, design = setup.draft.asked, setup.config.design
    questions = design.questions_per_form * design.forms_per_participant
    shown = setup.config.recruitment.participants, questions, design.annotators_per_query
    setup.require_seen(dict(zip(("people", "questions", "overlap"), shown, strict=True))[key])

    def change(content: Content) -> Content:
        if key == "questions":
            most = most_questions(content, asked) if asked.queries else value
            return content.with_values({QUESTIONS: min(value, most), FORMS: 1, OVERLAP: None})
        content = content.with_value(PEOPLE if key == "people" else OVERLAP, value)
        people, overlap = content.value(PEOPLE), content.value(OVERLAP)
        if type(people) is not int or type(overlap) is not int or not asked.queries:
            return content
        return content.with_values(values_of(size_for(asked.queries, people, overlap)))

    try:
        setup.change(change)
    except UnreadableInput as error:
        raise Refused(error.what) from error


def pay(setup: Setup) -> None:
    now, value = setup.draft.content.pay, setup.desk.text("value").strip()
    amount, currency = f"{now.per_hour:g}" if now else "0", currency_of(setup)
    if setup.desk.text("field") == "currency":
        currency = value
    else:
        setup.require_seen(amount)
        amount = value or "0"
    try:
        chosen = Pay.read(f"{amount} {currency}")
    except UnreadableInput as error:
        raise Refused(setup.desk.t("Enter an amount such as 9 or 9.50.")) from error
    setup.change(lambda content: content.model_copy(update={"pay": chosen}))


def check(setup: Setup) -> None:
    """Ask an attention check of one kind once in each part, or never."""
    key, value = setup.desk.text("field"), setup.desk.given.get("value")
    if key not in ("checks.gold", "checks.repeated") or not isinstance(value, bool):
        raise Refused(f"there is no {key} to change")
    setup.change(lambda content: content.with_value(key, int(value)))


def leave_out_gold(setup: Setup) -> Said:
    """Ask no question with an obvious answer; without checks, nobody can fail them."""

    def change(content: Content) -> Content:
        gone = () if content.value("checks.repeated", 0) else ("checks.on_failure", MOST_WRONG)
        return content.with_values({GOLD: 0, **dict.fromkeys(gone)})

    setup.change(change)
    return Said(setup.desk.t("No question has an obvious answer now."), {"act": "undo"})


def rule(setup: Setup) -> None:
    """Set the consequence of failed checks; without a number, one wrong answer is accepted."""
    value, most = setup.desk.text("value"), setup.value(MOST_WRONG, 1)
    given = {"checks.on_failure": value, MOST_WRONG: 1 if most == -1 else most}
    values = dict.fromkeys(given) if value == "none" else given
    setup.change(lambda content: content.with_values(values))


def decide(setup: Setup) -> None:
    """Change a key of `[analysis]`; values that followed from others become explicit."""
    desk = setup.desk
    key, value = desk.text("field"), typed(desk.given.get("value"), desk.text("type", "text"))
    plan: dict[str, Any] | None = {**setup.value(PLAN, {}), key: value}
    if key == "question":
        plan = None if value == "systems" else {}
    setup.change(lambda content: content.with_value(PLAN, plan))


ACTS = {"size": resize, "pay": pay, "check": check, "rule": rule, "decide": decide}
STEP = Step("design", "Design", summary, view, {**ACTS, "leave-out-gold": leave_out_gold})
